"""One slot of an acting loop whose episodes are learned from: a rollout worker with one copy of the env."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from marl.envs.external.steps import Episode
from marl.mappers.mapper import Mapper
from marl.rollout.config import RolloutSpec
from marl.rollout.deciding import Actions
from marl.rollout.env_runner import EnvRunner
from marl.serve.acting import ActingLoop
from marl.serve.client_worker import ClientRunner, ClientWorker
from marl.serve.fragments import Fragment
from marl.serve.greenlet_line import GreenletLine
from marl.serve.hub import Hub

ONLY_COPY = np.array([0])
UNKNOWN = -1  # version of weights that are not ours


class SlotRunner(ClientRunner):
    """Notes in every row which weights have decided."""

    versions: list[int]
    loop: ActingLoop

    def decide(self, rng: np.random.Generator, *, explore: bool) -> Actions:
        choices = super().decide(rng, explore=explore)
        # A commander decides in a step of its own, so a row may have seen weights of several steps: the oldest count.
        version = self.loop.current.version
        self.versions.append(self.loop.version if version is None else version)
        self._note_own_version()
        return choices

    def _note_own_version(self) -> None:
        for env in self.externals:
            if env.now is not None and env.now.own is not None:
                said = env.now.own_version
                self.versions[-1] = UNKNOWN if said is None else said


class TrainingLine(GreenletLine):
    """The line of a slot that learns: episodes which are only played are played on the way to the next one."""

    def __init__(self, loop: ActingLoop, hub: Hub, play_beside: Callable[[Episode, int], None]) -> None:
        super().__init__(loop, hub)
        self._play_beside = play_beside

    def next_episode(self, seed: int) -> Episode:
        episode = super().next_episode(seed)
        while not episode.training:
            self._play_beside(episode, seed)
            episode = super().next_episode(seed)
        return episode


class BesideLine(TrainingLine):
    """The line of an episode that a slot has taken already."""

    taken: Episode

    def next_episode(self, seed: int) -> Episode:
        del seed
        return self.taken


class SlotWorker(ClientWorker):
    """Plays in the acting loop's thread, with the loop's policies."""

    runner_class = SlotRunner

    def __init__(self, spec: RolloutSpec, index: int, loop: ActingLoop, hub: Hub) -> None:
        super().__init__(spec, index, loop.policies)
        self.loop = loop
        self._line = TrainingLine(loop, hub, self._play_beside)
        self._beside = BesideLine(loop, hub, self._play_beside)
        self._side_runner: EnvRunner | None = None
        self.lines = lambda _: self._line
        self._versions: list[int] = []  # of the rows of the buffer

    def _runner_in(self, env: Any) -> EnvRunner:
        runner = super()._runner_in(env)
        assert isinstance(runner, SlotRunner)
        runner.versions, runner.loop = self._versions, self.loop
        return runner

    def _weights_at_rest(self, runner: EnvRunner) -> AbstractContextManager[None]:
        """The loop takes new weights between two steps of this slot."""
        del runner
        return nullcontext()

    def fragment(self, steps: int, slot: int) -> Fragment:
        """Play so many more rows."""
        rollout = self.collect(steps)
        versions = np.array(self._versions, np.int64)
        # Rows of open decisions come again at the beginning of the next grid.
        del self._versions[: len(self._versions) - self.buffer.context]
        return Fragment(slot, rollout, versions)

    def _play_beside(self, episode: Episode, seed: int) -> None:
        """An episode that nobody learns from: greedily, from its beginning to its end."""
        if self._side_runner is None:
            self._side_runner = self._new_side_runner(self.spec.mapper)
        runner, self._beside.taken = self._side_runner, episode
        runner.begin(ONLY_COPY, np.array([seed]))
        over = False
        while not over:
            output = runner.advance(runner.decide(self.rng, explore=False))
            over = runner.settle(output).size > 0
        runner.stats.pop()

    def _new_side_runner(self, mapper: Mapper) -> EnvRunner:
        env = self.make_external(lambda _: self._beside, 1, with_state=False)
        config = self.spec.config.model_copy(update={"horizon": None, "soft_horizon": False})
        return EnvRunner(env, self.policy_map, self._kinds, mapper, config, self.index, self.spec.teams)
