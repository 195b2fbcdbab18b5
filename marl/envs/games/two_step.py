"""The two-step game of the QMIX paper (Rashid et al., 2018): why monotonic mixing beats adding values up.

In the first state nobody is paid; the action of ``agent_0`` picks the branch. The safe branch pays the team 7
whatever is played. The risky branch pays ``[[0, 1], [1, 8]]``. Each agent gets half of the team's reward. Under
uniform play the risky branch looks worse than the safe one to learners that cannot represent its payoff.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from pydantic import Field

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv

AGENTS = ("agent_0", "agent_1")
FIRST, SAFE, RISKY = 0, 1, 2
NAMES = ("first state", "safe branch", "risky branch")


class TwoStepConfig(Config):
    """Keys of ``env_config``."""

    one_hot_state_encoding: bool = Field(
        True,
        description="Observe the one-hot state and the agent's number (1 or 2) instead of one index of six.",
    )
    actions_are_logits: bool = Field(
        False, description="Actions are two numbers per agent from which the move is drawn by softmax."
    )
    separate_state_space: bool = Field(
        False, description="Dict API: observations are {obs, state}. Training always has the state apart."
    )
    hide_branch: bool = Field(
        False,
        description="Agents do not see in which branch they are: the second observation says only that it is the second.",
    )
    safe_payoff: list[list[float]] = Field(
        [[7.0, 7.0], [7.0, 7.0]], description="Team reward in the safe branch, by the two agents' actions."
    )
    risky_payoff: list[list[float]] = Field(
        [[0.0, 1.0], [1.0, 8.0]], description="Team reward in the risky branch, by the two agents' actions."
    )


class TwoStepGames(NativeEnv):
    """``num_envs`` two-step games. Global state: the one-hot state."""

    config_class = TwoStepConfig

    name = "two_step_game"
    state_size = 3
    state_arrays = ("where", "luck", "steps")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = TwoStepConfig(**env_config)
        self.deterministic = not self.config.actions_are_logits
        self.payoff = np.zeros((3, 2, 2), np.float32)
        self.payoff[SAFE] = self.config.safe_payoff
        self.payoff[RISKY] = self.config.risky_payoff
        self.kinds = number_seats([AgentType("agent", AGENTS, self._observation_space(), self._action_space())])
        self.where = np.zeros(num_envs, np.int64)
        self.steps = np.zeros(num_envs, np.int64)
        self._states = np.eye(3, dtype=np.float32)
        self._sights = self._all_sights()
        self.luck = np.zeros((num_envs, 2, 2))  # uniform numbers per step and agent, for actions_are_logits

    def _observation_space(self) -> spaces.Space[Any]:
        if self.config.one_hot_state_encoding:
            return spaces.MultiDiscrete([2, 2, 2, 3])
        return spaces.Discrete(6)

    def _action_space(self) -> spaces.Space[Any]:
        if self.config.actions_are_logits:
            return spaces.Box(-np.inf, np.inf, (2,), np.float32)
        return spaces.Discrete(2)

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        self.where[env_ids] = FIRST
        self.steps[env_ids] = 0
        if self.config.actions_are_logits:
            self._draw_luck(env_ids, seeds)

    def _draw_luck(self, env_ids: Ints, seeds: Ints) -> None:
        for env_id, seed in zip(env_ids, seeds, strict=True):
            self.luck[env_id] = np.random.default_rng(int(seed)).random((2, 2))

    def reseed(self, seeds: Ints) -> bool:
        """Moves that are drawn by logits are drawn anew."""
        self._draw_luck(np.arange(self.num_envs), seeds)
        return self.config.actions_are_logits

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        moves = self._moves(actions[0])
        reward = self.payoff[self.where, moves[:, 0], moves[:, 1]]
        over = self.where != FIRST
        self.where = np.where(over, self.where, SAFE + moves[:, 0])
        self.steps += 1
        ended = np.repeat(over[:, None], 2, axis=1)
        # Half each: the rewards of the two add up to the team's of the paper.
        return np.repeat(reward[:, None] / 2, 2, axis=1), ended, np.zeros_like(ended), over

    def _moves(self, actions: Array) -> Ints:
        if not self.config.actions_are_logits:
            return actions.astype(np.int64, copy=False)
        first, second = actions[..., 0].astype(np.float64), actions[..., 1].astype(np.float64)
        # A softmax over two is a logistic function of their difference; cut, so that exp does not overflow.
        chance_of_second = 1.0 / (1.0 + np.exp(np.clip(first - second, -700, 700)))
        env_ids = np.arange(self.num_envs)
        return (self.luck[env_ids, np.minimum(self.steps, 1)] < chance_of_second).astype(np.int64)

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        present = np.ones((self.num_envs, 2), bool)
        legal = np.ones((self.num_envs, 2, 0), bool)
        return (self._sights[self.where],), (legal,), present, self._states[self.where]

    def _all_sights(self) -> Ints:
        """``[state, agent, obs_width]``: what each agent sees in each of the three states."""
        sights = np.empty((3, 2, self.kinds[0].obs_width), np.int64)
        if self.config.one_hot_state_encoding:
            sights[:, :, :3] = np.eye(3)[:, None]
            sights[:, :, 3] = (1, 2)
        else:
            sights[:, :, 0] = np.arange(3)[:, None] + (0, 3)
        if self.config.hide_branch:
            sights[RISKY] = sights[SAFE]  # the training state still tells them apart
        return sights

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """The three states with what they pay the team; who is not shown the branch may be in either."""
        here = int(self.where[env_id])
        now = [here]
        if viewer is not None and self.config.hide_branch and here != FIRST:
            now = [SAFE, RISKY]
        states: list[dict[str, Any]] = [{"name": NAMES[FIRST]}]
        for branch in (SAFE, RISKY):
            states.append({"name": NAMES[branch], "payoffs": self.payoff[branch].tolist()})
        where = " or the ".join(NAMES[state] for state in now)
        return {
            "kind": "states",
            "text": f"Two-step game: the two agents are in the {where}.",
            "players": AGENTS,
            "moves": [["0", "1"], ["0", "1"]],
            "states": states,
            "arrows": [
                {"start": FIRST, "end": SAFE, "text": "agent_0 plays 0"},
                {"start": FIRST, "end": RISKY, "text": "agent_0 plays 1"},
            ],
            "now": now,
        }

    def render(self, env_id: int) -> str:
        state = NAMES[self.where[env_id]]
        table = "\n".join(" ".join(f"{x:4g}" for x in row) for row in self.payoff[self.where[env_id]])
        return f"two-step game, {state}; team reward by (agent_0, agent_1):\n{table}"
