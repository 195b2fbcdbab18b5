"""An env whose episodes are played elsewhere: its ``reset`` and ``step`` wait for what a client reports.

To everything behind it this is an env like any other, so wrappers, groups, hierarchies, mappers, memories and learners need
not know that its world is at the other end of a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import ALL, Action, EnvContext, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.external.contract import Contract, ExternalConfig
from marl.envs.external.steps import Episode, Line, Step
from marl.errors import ConfigError, EnvError

Lines: TypeAlias = Callable[[int], Line]
"""The line of copy ``i``."""

# Between whoever asks for copies and the envs are wrappers of any kind, so lines are not handed through them.
LINES: ContextVar[Lines | None] = ContextVar("LINES", default=None)


@contextmanager
def lines_of(lines: Lines) -> Iterator[None]:
    """External envs that are built in this block are played on these lines."""
    token = LINES.set(lines)
    try:
        yield
    finally:
        LINES.reset(token)


class ReportedEnv(MultiAgentEnv):
    """One running episode of a client. Without a ``line`` it only knows its spaces."""

    config_class = ExternalConfig

    def __init__(self, contract: Contract, line: Line | None = None) -> None:
        self.contract = contract
        self.possible_agents = contract.possible_agents
        self.max_agents = contract.max_agents
        self._line = line
        self.episode: Episode | None = None
        self.now: Step | None = None  # the step that waits for its actions

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.contract.observation_space(agent)

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.contract.action_space(agent)

    @property
    def line(self) -> Line:
        if self._line is None:
            raise EnvError(
                "an external env is played by clients over the network, and no server is running here. Train it by "
                "marl run, or serve a trained run by marl serve."
            )
        return self._line

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        del options
        if self.now is not None and self.episode is not None and not self.now.ends:
            # Cut by whoever plays (a horizon, other policies): the client waits for actions that will not come.
            self.line.leave(self.episode, self.now)
        while True:
            self.episode = self.line.next_episode(seed or 0)
            self.now = self.line.next_step(self.episode, 0)
            if not self.now.ends:  # a client may start an episode and end it before anybody has seen anything
                return self._shown(self.now)

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        episode, answered = self._running()
        self.line.answer(episode, answered, actions)
        self.now = self.line.next_step(episode, answered.t + 1)
        obs, infos = self._shown(self.now)
        rewards: dict[AgentID, float] = {}
        # The episode is over when the client says so: agents may all be gone for a while and new ones come.
        terminated: dict[AgentID, bool] = {ALL: False}
        truncated: dict[AgentID, bool] = {ALL: self.now.ends}
        for agent, report in self.now.agents.items():
            rewards[agent] = report.reward
            terminated[agent], truncated[agent] = report.terminated, report.truncated
        return StepResult(obs, rewards, terminated, truncated, infos)

    def _running(self) -> tuple[Episode, Step]:
        if self.episode is None or self.now is None:
            raise EnvError("an external env was stepped before its first reset. Call reset() first.")
        return self.episode, self.now

    def _shown(self, step: Step) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs: dict[AgentID, Obs] = {}
        infos: dict[AgentID, Info] = {}
        for agent, report in step.agents.items():
            if report.obs is not None:
                obs[agent] = report.obs
            infos[agent] = report.info
        return obs, infos

    def state(self) -> Array | None:
        if self.contract.state_size == 0:
            return None
        if self.now is None or self.now.state is None:
            return np.zeros(self.contract.state_size, np.float32)
        return self.now.state

    def get_state(self) -> dict[str, Any]:
        """Which step of which episode waits for its actions; what clients sent since is in the server's journal."""
        episode, now = self._running()
        return {"episode": episode.id, "t": now.t}

    def set_state(self, state: Mapping[str, Any]) -> None:
        found = self.line.rejoin(state["episode"], state["t"])
        if found is None:
            raise EnvError(
                f"the open episode {state['episode']!r} is not in the server's journal any more, so it cannot go on."
            )
        self.episode, self.now = found


class ExternalCreator:
    """Makes what stands behind ``env: external``. Where a server plays, it has said on which lines (``lines_of``)."""

    config_class = ExternalConfig

    def __call__(self, config: EnvContext) -> ReportedEnv:
        contract = Contract.of(config)
        if contract is None:
            raise ConfigError(
                "env 'external' does not know its agents. Give env_config: {agents: {ID: {observation_space: ..., "
                "action_space: ...}}}, or start it by marl run, which asks the first client."
            )
        lines = LINES.get()
        line = None
        if lines is not None:
            line = lines(config.vector_index)
        return ReportedEnv(contract, line)
