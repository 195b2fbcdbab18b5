"""A rollout worker whose copies of the env are played by clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.data.action_units import from_env
from marl.data.actions import action_encoder
from marl.data.task import AgentID
from marl.envs.batched import BatchedEnv
from marl.envs.external.contract import EXTERNAL
from marl.envs.external.env import Lines, ReportedEnv, lines_of
from marl.envs.external.steps import OwnAction
from marl.envs.vector.vector_env import DictVector
from marl.rollout.config import EnvRecipe
from marl.rollout.deciding import Actions
from marl.rollout.env_runner import EnvRunner
from marl.rollout.worker import RolloutWorker
from marl.serve.ahead import Ahead


class ClientRunner(EnvRunner):
    """Where a client has acted by itself (message ``log``), what it did is what was decided."""

    def __init__(self, env: BatchedEnv, *given: Any) -> None:
        super().__init__(env, *given)
        self._encoders = [action_encoder(kind.action_space) for kind in env.kinds]
        self.externals: list[ReportedEnv] = []
        if isinstance(env, DictVector):
            self.externals = [one for one in map(bare_external, env.envs) if one is not None]

    def decide(self, rng: np.random.Generator, *, explore: bool) -> Actions:
        # The policy decides all the same: generators and memories go on as if it had been asked.
        choices = super().decide(rng, explore=explore)
        for env_id, env in enumerate(self.externals):
            if env.now is not None and env.now.own:
                self._take_own(env_id, env.now.own, choices)
        return choices

    def _take_own(self, env_id: int, own: Mapping[AgentID, OwnAction], choices: Actions) -> None:
        assert isinstance(self.env, DictVector)
        for agent, done in own.items():
            seat = self.env.seating[env_id].seat_of[agent]
            k = next(k for k, kind in enumerate(self.env.kinds) if kind.seats.start <= seat < kind.seats.stop)
            kind = self.env.kinds[k]
            stored = from_env(self._encoders[k](done.action), kind.columns, self.config)
            choices.actions[k][env_id, seat - kind.first_seat] = stored
            # Learners that look at it have refused steps without it.
            choices.logp[env_id, seat] = done.logp or 0.0


def bare_external(env: object) -> ReportedEnv | None:
    """The external env itself, where no wrapper has changed whose actions are whose."""
    if isinstance(env, Ahead):
        env = env.env
    return env if isinstance(env, ReportedEnv) else None


class ClientWorker(RolloutWorker):
    """Builds its copies on the ``lines`` of a server. Evaluations, on another env, are played as by any worker."""

    runner_class = ClientRunner
    lines: Lines

    def _make_env(self, recipe: EnvRecipe, copies: int, with_state: bool, render_mode: str | None = None) -> BatchedEnv:
        if recipe.env != EXTERNAL:
            return super()._make_env(recipe, copies, with_state, render_mode)
        return self.make_external(self.lines, copies, with_state)

    def make_external(self, lines: Lines, copies: int, with_state: bool) -> BatchedEnv:
        """Copies of the clients' env, in the wrappers of the run."""
        with lines_of(lines):
            return self._together(super()._make_env(self.spec.env_recipe, copies, with_state))

    @property
    def has_begun(self) -> bool:
        return self._runner is not None

    def _together(self, env: BatchedEnv) -> BatchedEnv:
        """How several copies wait: as they are, one after the other."""
        return env
