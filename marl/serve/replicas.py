"""Several processes that play behind one address: ``marl serve --replicas N``, on Ray Serve.

This process keeps the network to itself: sockets, tokens, limits of messages. A session belongs to one replica for ever, whose
number stands in front of its id, so nobody has to look it up.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any

from marl.data.task import PolicyID
from marl.envs.external.contract import Contract
from marl.errors import ConfigError, ResourceError, UserError
from marl.rollout.ray_instance import first_line, start_own_ray, stop_ray
from marl.serve.command import Figures, ServeOptions
from marl.serve.config import ServerConfig
from marl.serve.counters import Counters
from marl.serve.hub import Hub
from marl.serve.limits import Limits
from marl.serve.messages import LONGEST_NAME
from marl.serve.metrics import LATENCIES, Histogram
from marl.serve.open_episode import OpenEpisode
from marl.serve.refused import Refused, bad_message
from marl.serve.replica import CHUNK, Replica, Told, pack, unpacking
from marl.serve.served import Served
from marl.serve.server import Server

_log = logging.getLogger(__name__)

OPENING_S = 5.0  # for so long a message waits for a replica that is being replaced
KEPT_NAMES = 20_000  # of sessions, of which it is known where they are
MEETING_PLACE = 0  # the replica of all parties of shared episodes
MARK = "."  # between the number of a replica and the id of a session


class Reception:
    """Knows what the replicas play with, for hello and downloads; plays nothing itself."""

    training = False
    lock_step = False
    no_log = ""

    def __init__(self, served: Served) -> None:
        self.contract: Contract | None = served.contract
        self.version = 1
        self._served, self._described = served, served.described()

    def agree(self, contract: Contract) -> None:
        raise AssertionError(f"policies that are served know whom they play, and need not be told: {contract.agents}")

    def policies(self) -> list[dict[str, Any]]:
        return self._described

    def begin(self, episode: OpenEpisode) -> None:
        raise AssertionError(f"episode {episode.id} was not sent to a replica")

    def arrived(self, episode: OpenEpisode) -> None:
        raise AssertionError(f"episode {episode.id} was not sent to a replica")

    def export(self, name: PolicyID) -> tuple[int, bytes] | None:
        if name not in self._served.policies:
            return None
        return self.version, self._served.export(name)


class ReplicaLine:
    """A connection to one replica, opened when it is needed; answers come in any order."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[Told]] = {}
        self._numbers = itertools.count()
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    async def ask(self, kind: str, message: Mapping[str, Any]) -> Told:
        number = next(self._numbers)
        try:
            packed = pack([number, kind, message])
        except (ValueError, OverflowError, TypeError) as error:  # a whole number of more than 64 bits, for instance
            raise bad_message(f"the message holds what cannot be passed on ({error}).") from None
        try:
            async with asyncio.timeout(OPENING_S):  # Ray Serve itself would wait until there is a new one
                writer = self._writer or await self._open()
        except Exception as error:  # of Ray: the replica died, or cannot be reached
            return _unreachable(error)
        future: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        writer.write(packed)
        try:
            return await future
        finally:
            self._waiting.pop(number, None)  # its client may have hung up

    async def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._handle.figures.remote()
        return found

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                port, secret = await self._handle.listen.remote()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(secret)
                self._writer = writer
                self._reading = asyncio.ensure_future(self._read(reader))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        unpacker = unpacking()
        try:
            with suppress(OSError):
                while data := await reader.read(CHUNK):
                    unpacker.feed(data)
                    for number, *told in unpacker:
                        self._settle(number, told)
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        """Whoever still waits would wait for ever; the next message opens a new connection."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for number in list(self._waiting):
            self._settle(number, _unreachable(ConnectionResetError("the connection ended")))

    def _settle(self, number: int, told: Told) -> None:
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(told)


def _unreachable(error: Exception) -> Told:
    _log.warning("a replica could not be reached: %s", first_line(error) or type(error).__name__)
    text = "the replica that plays this session cannot be reached. Say hello and start again."
    return ["refused", ["unreachable", text, 503, {"retry_after": 1.0, "where": None, "expected": None}]]


class RoutingHub(Hub):
    """A hub whose sessions live in replicas."""

    def __init__(self, reception: Reception, limits: Limits, replicas: int) -> None:
        super().__init__(reception, limits)
        assert reception.contract is not None
        self._agents = frozenset(reception.contract.agents)
        self._lines: list[ReplicaLine] = []
        self._replicas, self._turn = replicas, 0
        self._numbers = frozenset(map(str, range(replicas)))
        self._homes: OrderedDict[str, int] = OrderedDict()  # of sessions that have a name
        self._stopping: Refused | None = None
        self._looking: asyncio.Task[None] | None = None

    def connect(self, handles: list[Any]) -> None:
        self._lines = [ReplicaLine(handle) for handle in handles]

    async def answer(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._stopping is not None:
            raise self._stopping.again()
        if not self._lines:
            raise Refused("starting", "the server has just been started. Come again.", 503, retry_after=1.0)
        number, message = self._sent_to(kind, message)
        form, told = await self._lines[number].ask(kind, message)
        if form == "refused":
            code, text, status, about = told
            if code == "failed":  # it is replaced, and the others play on
                about = {**about, "retry_after": 1.0}
                code, text, status = "unreachable", f"{text} It is replaced: say hello and start again.", 503
            raise Refused(code, text, status, **about)
        if kind == "hello":
            told["session"] = f"{number}{MARK}{told['session']}"
        answer: dict[str, Any] = told
        return answer

    def _sent_to(self, kind: str, message: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        """The replica for a message, and the message as that one knows it."""
        session = message.get("session")
        number, _, own = str(session).partition(MARK)
        if number in self._numbers:
            if kind == "start":
                _check_meets(int(number), message)
            return int(number), {**message, "session": own}
        if kind == "hello":
            return self._for_newcomer(message), message
        return 0, message  # whichever: no replica knows such a session

    def _for_newcomer(self, message: Mapping[str, Any]) -> int:
        name = message.get("name")
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            return self._new_home(message)
        # Found again by its name alone, so it has to lead to the same place.
        home = self._homes.pop(name, None)
        if home is None:
            home = self._new_home(message)
        self._homes[name] = home
        if len(self._homes) > KEPT_NAMES:
            self._homes.popitem(last=False)
        return home

    def _new_home(self, message: Mapping[str, Any]) -> int:
        agents = message.get("agents")
        if isinstance(agents, dict) and agents.keys() != self._agents:
            return MEETING_PLACE
        self._turn = (self._turn + 1) % self._replicas
        return self._turn

    def close(self, reason: str) -> None:
        self._stopping = Refused("closing", f"the server stops: {reason}. Come again later.", 503, retry_after=1.0)

    def sweep(self) -> None:
        """The replicas sweep by themselves; once a second they are asked what they have counted."""
        if self._looking is not None and not self._looking.done():
            return  # a replica takes longer than a second
        self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        try:
            found = await asyncio.gather(*[line.figures() for line in self._lines])
        except Exception as error:  # a replica that is being replaced; the next look may find it
            _log.warning("a replica did not say how it is: %s", first_line(error))
            return
        self.desk.counters = summed(found)


def _check_meets(number: int, message: Mapping[str, Any]) -> None:
    """Parties of a shared episode have to be on one replica; they would wait for each other in vain."""
    parties = message.get("parties")
    if type(parties) is int and parties > 1 and number != MEETING_PLACE:
        raise Refused(
            "conflict",
            "with --replicas a session can share episodes only if its first hello says which agents it plays, and not all. "
            "Say hello again, with these agents and without this session.",
            409,
            where={"key": "parties"},
        )


def summed(figures: list[dict[str, Any]]) -> Counters:
    """The counters of all replicas together."""
    total = Counters()
    for one in figures:
        total.refused.update(one["refused"])
        for entry in fields(Counters):
            if entry.name != "refused":
                setattr(total, entry.name, getattr(total, entry.name) + one[entry.name])
    return total


class Replicas:
    """A server here, replicas on a Ray of our own."""

    def __init__(self, options: ServeOptions, served: Served, config: ServerConfig, limits: Limits) -> None:
        self._options, self._limits = options, limits
        self.hub = RoutingHub(Reception(served), limits, options.replicas)
        self.server = Server(self.hub, config)
        self.failed: threading.Event = self.server.failed
        self._serve = _ray_serve()
        self._ray_runs = False

    def start(self) -> str:
        # First, so that a port that is taken is told before Ray has been started for nothing.
        url = self.server.start(ready=False)
        try:
            self.hub.connect(self._start_replicas())
        except BaseException:
            self.stop("it could not start")
            raise
        self.server.health.ok()
        return url

    def _start_replicas(self) -> list[Any]:
        options, serve = self._options, self._serve
        start_own_ray(options.replicas + 1, log_to_driver=False)
        self._ray_runs = True
        quiet = {"log_level": "ERROR"}
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        deployment = serve.deployment(
            Replica, max_ongoing_requests=1_000_000, ray_actor_options={"num_cpus": 0}, logging_config=quiet
        )
        targets = []
        for number in range(options.replicas):
            seed = None if options.seed is None else options.seed + number
            app = deployment.bind(
                options.path, options.allow, dict(options.sources), self._limits.model_dump(), options.explore, seed
            )
            targets.append(serve.RunTarget(app, name=f"replica_{number}", route_prefix=None))
        try:
            # Nobody but this process talks to them, so Serve needs no proxy of its own.
            serve.start(proxy_location="Disabled", logging_config=quiet)
            handles: list[Any] = serve.run_many(targets)
        except UserError:
            raise
        except Exception as error:
            raise ResourceError(f"Ray Serve could not start the replicas: {first_line(error)}.") from error
        return handles

    def stop(self, reason: str) -> None:
        self.server.stop(reason=reason)
        if self._ray_runs:
            # Serve's own farewell would wait for requests, of which none are left; with Ray all of it ends.
            self._ray_runs = False
            stop_ray()

    @property
    def trouble(self) -> str:
        return str(self.server.health.reason)

    def figures(self) -> Figures:
        times = self.server.front.measures.latency.get("act", Histogram(LATENCIES))
        return Figures(self.hub.counters.open, sum(times.counts), tuple(times.counts), times.bounds)


def _ray_serve() -> Any:
    """Ray Serve, or one sentence where it is missing."""
    try:
        from ray import serve
    except ImportError as error:
        raise ConfigError(
            f'--replicas needs Ray Serve, which cannot be imported ({error}). Install it: pip install "marl[serve]"'
        ) from error
    return serve
