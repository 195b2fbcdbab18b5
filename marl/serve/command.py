"""``marl serve``: from its options to a running server, what it says of itself, and its end."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from marl.errors import ConfigError, printable
from marl.serve.command_parts import checked_keys, stop_wanted
from marl.serve.config import ServerConfig
from marl.serve.limits import Limits
from marl.serve.metrics import LATENCIES, Histogram
from marl.serve.play_server import PlayServer
from marl.serve.served import Served, load_served
from marl.serve.server import ServerError

SHOWN_EVERY_S = 1.0


@dataclass(frozen=True)
class ServeOptions:
    """What the user asked for. ``network`` and ``limits`` are the keys that were given, the others have their defaults."""

    path: str
    network: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    explore: bool = False
    seed: int | None = None
    replicas: int = 1
    journal: Path | None = None
    allow: frozenset[str] = frozenset()

    def server_config(self) -> ServerConfig:
        config = checked_keys(ServerConfig, self.network, "marl serve")
        config.check()
        return config

    def checked_limits(self) -> Limits:
        return checked_keys(Limits, self.limits, "marl serve")


class Running(Protocol):
    """A server, or several behind one address."""

    def start(self) -> str: ...

    def stop(self, reason: str) -> None: ...

    @property
    def failed(self) -> threading.Event: ...

    @property
    def trouble(self) -> str:
        """Why it has failed."""
        ...

    def figures(self) -> Figures: ...


@dataclass(frozen=True)
class Figures:
    """What the live line is made of, since the start."""

    open_episodes: int = 0
    acts: int = 0
    latency: tuple[int, ...] = ()  # acts by their time, as in ``Histogram.counts``
    bounds: tuple[float, ...] = ()


class InThisProcess:
    """The server that one process is enough for."""

    def __init__(self, server: PlayServer) -> None:
        self._server = server
        self.failed = server.server.failed

    def start(self) -> str:
        return self._server.start()

    def stop(self, reason: str) -> None:
        self._server.stop(reason)

    @property
    def trouble(self) -> str:
        return str(self._server.server.health.reason)

    def figures(self) -> Figures:
        counters = self._server.hub.counters
        times = self._server.server.front.measures.latency.get("act", Histogram(LATENCIES))
        return Figures(counters.open, counters.answered, tuple(times.counts), times.bounds)


def run_server(options: ServeOptions, console: Console | None = None) -> None:
    """Serve until Ctrl-C, or until nobody can play any more."""
    console = console or Console(soft_wrap=True, emoji=False, highlight=False)
    # All that can be wrong is found before anything listens.
    config, limits = options.server_config(), options.checked_limits()
    served = load_served(options.path, options.allow, options.sources)
    running = _running(options, served, config, limits)
    with stop_wanted() as stop:
        url = running.start()
        try:
            for line in introduction(url, served, config, options):
                console.print(Text(printable(line)))
            _watch(running, stop, console)
        finally:
            running.stop("the server was stopped")
    if running.failed.is_set() and not stop.is_set():
        failure = ServerError(f"the server failed: {running.trouble}")
        failure.exit_code = 1  # it had begun
        raise failure
    console.print("stopped: all that was asked has been answered.")


def _running(options: ServeOptions, served: Served, config: ServerConfig, limits: Limits) -> Running:
    if options.replicas > 1:
        if options.journal is not None:
            raise ConfigError("--journal and --replicas do not go together: replicas forget their sessions. Drop one.")
        from marl.serve.replicas import Replicas

        return Replicas(options, served, config, limits)
    return InThisProcess(
        PlayServer(served, config, limits, explore=options.explore, seed=options.seed, journal=options.journal)
    )


# -- what it says ------------------------------------------------------------------------------------------------------


def introduction(url: str, served: Served, config: ServerConfig, options: ServeOptions) -> list[str]:
    """Where it is, who plays whom, and a line to try."""
    lines = [f"serving {options.path} at {url} (messages: {url}/docs)"]
    if config.token_file is not None:
        lines.append(f"token: {config.token_file}")
    for about in served.described():
        memory = ", with a memory" if about["recurrent"] else ""
        algo = f" ({about['algo']}{memory})" if about["algo"] else ""
        lines.append(f"policy {about['policy']}{algo} plays {', '.join(about['agents'])}")
    for name, agent in served.contract.agents.items():
        lines.append(f"agent {name}: {_space(agent.observation_space)} -> {_space(agent.action_space)}")
    lines.append(f"try: {curl_line(url, config)}")
    return lines


def _space(plain: Mapping[str, Any]) -> str:
    """A space in one short word: ``Box[4]``, ``Discrete(2)``."""
    kind = plain["type"]
    if kind == "Box":
        return f"Box{plain['shape']}"
    if kind == "Discrete":
        return f"Discrete({plain['n']})"
    return str(kind)


def curl_line(url: str, config: ServerConfig) -> str:
    """Says hello to the server from a shell."""
    words = ["curl", "-s"]
    if config.tls_cert is not None:
        words += ["--cacert", shlex.quote(str(config.tls_cert))]
    if config.token_file is not None:
        words += ["-H", f'"Authorization: Bearer $(cat {shlex.quote(str(config.token_file))})"']
    hello = json.dumps({"protocol": "marl/1"})
    words += ["-H", "'content-type: application/json'", "-d", shlex.quote(hello)]
    return " ".join([*words, f"{url}/v1/hello"])


def _watch(running: Running, stop: threading.Event, console: Console) -> None:
    """Wait for the end; on a terminal, with a line that tells how much is going on."""
    if not console.is_terminal:
        _wait(running, stop, lambda _line: None)
        return
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        _wait(running, stop, lambda line: live.update(Text(line)))


def _wait(running: Running, stop: threading.Event, show: Callable[[str], None]) -> None:
    before, since = running.figures(), time.monotonic()
    while not stop.wait(SHOWN_EVERY_S) and not running.failed.is_set():
        figures, now = running.figures(), time.monotonic()
        show(live_line(before, figures, now - since))
        before, since = figures, now


def live_line(before: Figures, now: Figures, seconds: float) -> str:
    """What happened between two looks."""
    acts = (now.acts - before.acts) / max(seconds, 1e-9)
    recent = [new - old for new, old in zip(now.latency, before.latency, strict=True)]
    half = median_below(recent, now.bounds)
    return f"{now.open_episodes} open episodes, {acts:,.0f} acts per second, {half}"


def median_below(counts: list[int], bounds: tuple[float, ...]) -> str:
    """The bound below which half of the answers came."""
    so_far, half = 0, sum(counts) / 2
    if not half:
        return "no acts now"
    for count, bound in zip(counts, bounds, strict=False):
        so_far += count
        if so_far >= half:
            return f"half of them within {bound * 1000:g} ms"
    return f"half of them after {bounds[-1] * 1000:g} ms"
