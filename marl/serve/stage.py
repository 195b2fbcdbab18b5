"""Plays the episodes of clients with trained policies."""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from marl.data.task import AgentID, PolicyID
from marl.envs.external.contract import Contract
from marl.policies.mixture import Mixture
from marl.rollout.env_runner import EnvRunner
from marl.serve.acting import ActingLoop
from marl.serve.details import explain, member_of, members_playing
from marl.serve.greenlet_line import GreenletLine
from marl.serve.hub import Hub
from marl.serve.journal import Journal
from marl.serve.metrics import BATCHES, Histogram
from marl.serve.open_episode import OpenEpisode
from marl.serve.passes import Request
from marl.serve.served import Served
from marl.serve.slots import Slot

_log = logging.getLogger(__name__)

ONLY_COPY = np.array([0])
LARGEST_SEED = 2**31


class PlayStage:
    """Every open episode has a slot of the acting loop, in which an ``EnvRunner`` plays it as any run would.

    ``explore``: with exploration instead of greedily. ``seed`` decides what is drawn, members of populations included.
    """

    training = False
    lock_step = False
    no_log = ""

    def __init__(
        self, served: Served, *, explore: bool = False, seed: int | None = None, max_wait_ms: float = 2.0
    ) -> None:
        self.contract: Contract | None = served.contract
        self.version = 1  # weights that are served do not change
        self._served, self._explore = served, explore
        self._described = served.described()
        self._seeds = np.random.default_rng(seed)
        self._has_mixtures = any(isinstance(policy, Mixture) for policy in served.policies.values())
        self.loop = ActingLoop(
            served.policies, max_wait_ms=max_wait_ms, seed=seed, version=self.version, explain=explain
        )

        self._run, self._numbers = secrets.token_hex(4), itertools.count()
        self._batches = Histogram(BATCHES)
        self.loop.on_pass = self._batches.add

    # -- for the hub and the server --------------------------------------------------------------------------------

    def open(self, hub: Hub, failed: Callable[[str], None]) -> None:
        """Play what comes through this hub; ``failed`` hears why nobody plays any more."""

        def fail(error: BaseException) -> None:
            _log.error("the acting loop failed", exc_info=error.__cause__ or error)
            hub.fail(error)
            failed(str(error))

        self.loop.on_failure = fail
        self.loop.grow = partial(self._add_slot, hub)
        if hub.journal is not None:
            self._go_on(hub, hub.journal)
        self.loop.start()

    def _go_on(self, hub: Hub, journal: Journal) -> None:
        """Play the episodes that were open when the server ended again, up to where they were."""
        running: list[tuple[str, OpenEpisode]] = []
        for slot, episodes in hub.recover().items():
            running += [(slot, episode) for episode in episodes if not episode.over]
        for slot, episode in running:
            self._add_slot(hub, slot, episode)
        if not running:  # nobody needs what was written before
            journal.forget(hub.mark())

    def close(self) -> None:
        self.loop.stop()

    def agree(self, contract: Contract) -> None:
        raise AssertionError(f"policies that are served know whom they play, and need not be told: {contract.agents}")

    def policies(self) -> list[dict[str, Any]]:
        return self._described

    def begin(self, episode: OpenEpisode) -> None:
        self.loop.offer(episode)

    def arrived(self, episode: OpenEpisode) -> None:
        self.loop.arrived(episode)

    def export(self, name: PolicyID) -> tuple[int, bytes] | None:
        """The policy as a zip of its files, for clients that act by themselves; None: there is no such policy."""
        if name not in self._served.policies:
            return None
        return self.version, self._served.export(name)

    def measures(self) -> Mapping[str, float | Histogram]:
        """For the metrics of the server: how many decisions one forward pass makes."""
        return {"batch_size": self._batches}

    # -- slots -----------------------------------------------------------------------------------------------------

    def _add_slot(self, hub: Hub, name: str | None = None, first: OpenEpisode | None = None) -> None:
        line = GreenletLine(self.loop, hub, first=first)

        def failed(error: BaseException) -> None:
            _log.error("an episode could not be played on", exc_info=error)
            if isinstance(line.episode, OpenEpisode):
                hub.failed(line.episode, error)

        # A journal tells episodes by their slots, so the names of those before a restart are not used again.
        self.loop.spawn(partial(self._play, line, first), failed, name or f"{self._run}_{next(self._numbers)}")

    def _play(self, line: GreenletLine, first: OpenEpisode | None) -> None:
        """One episode after another, for as long as the server lives."""
        with self._served.trusted():
            runner = self._served.runner(line, self.loop.policies)
            line.details = partial(self._details, runner)
            rng = np.random.default_rng(0)  # the loop draws for all
            seed = self._seeds.integers(LARGEST_SEED, size=1)
            if first is not None:
                seed = np.array([first.seed])
            while True:
                runner.begin(ONLY_COPY, seed)
                over = False
                while not over:
                    output = runner.advance(runner.decide(rng, explore=self._explore))
                    over = runner.settle(output).size > 0
                # The hub adds up returns; what the runner noted of them would only grow.
                runner.stats.pop()
                seed = self._seeds.integers(LARGEST_SEED, size=1)

    def _details(self, runner: EnvRunner, slot: Slot) -> Mapping[AgentID, Mapping[str, Any]]:
        """By agent: what was wanted of the decisions of this step, and of a population the member that made them."""
        if not slot.wanted and not self._has_mixtures:
            return {}
        found: dict[AgentID, Mapping[str, Any]] = {}
        for policy, request in slot.decided:
            kind = runner.env.kinds[self._served.kinds[policy]]
            told = self._told(policy, request)
            for column, about in zip(request.inputs.agent_index.tolist(), told, strict=True):
                if about:
                    found[runner.env.agent_at(0, kind.first_seat + column)] = about
        return found

    def _told(self, policy: PolicyID, request: Request) -> list[dict[str, Any]]:
        """Of each row of a request."""
        told: list[dict[str, Any]] = [{} for _ in range(len(request.inputs))]
        if isinstance(self._served.policies[policy], Mixture):
            for about, number in zip(told, members_playing(request).tolist(), strict=True):
                about["member"] = member_of(policy, number)
        for about, wanted in zip(told, request.details, strict=False):
            about.update(wanted)
        return told
