"""What learners of action values believe about the two-step game, beside what is true.

    Q(s)[a_0][a_1] = mixer(Q_0(o_0, a_0), Q_1(o_1, a_1), s)

Rashid et al. (2018) print these tables. VDN's mixer is the sum; independent learners (dqn) have no mixer and thus no joint
value, only the values of each agent by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from marl.algos.learner import Learner
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.learner import QmixLearner
from marl.data.task import Array, Floats, PolicyID
from marl.envs.batched import StepOutput
from marl.envs.games.two_step import AGENTS, TwoStepGames
from marl.errors import ConfigError
from marl.policies.policy import Policy
from marl.policies.value import ValuePolicy
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates

Table: TypeAlias = list[list[float]]
"""By the action of the first agent and that of the second."""
STATES = ("first", "safe", "risky")
OPTIONS = 2


@dataclass(frozen=True)
class Situation:
    """What both agents see in a state ``[2, width]``, and the state itself."""

    obs: Array
    state: Floats


def situations(env_config: Mapping[str, Any]) -> dict[str, Situation]:
    """The three states, seen by playing into either branch."""
    games = TwoStepGames(2, env_config)
    first = games.reset(np.arange(2), np.zeros(2, np.int64))
    seen = {"first": Situation(first.obs[0][0].copy(), first.state[0].copy())}
    branches = games.step([np.array([[0, 0], [1, 0]])])  # the first agent picks the branch
    for env_id, name in enumerate(STATES[1:]):
        seen[name] = Situation(branches.obs[0][env_id].copy(), branches.state[env_id].copy())
    return seen


# -- what is true ------------------------------------------------------------------------------------------------------


def true_values(env_config: Mapping[str, Any], gamma: float) -> dict[str, Table]:
    """What every pair of actions is worth to a team that plays its best afterwards: backward induction.

    The env itself is asked: all 16 courses of the game are played, and their last steps come first.
    """
    firsts, seconds = np.indices((4, 4)).reshape(2, -1)
    games = TwoStepGames(16, env_config)
    games.reset(np.arange(16), np.zeros(16, np.int64))
    after_first = games.step([_pairs(firsts)])
    paid, reached = _team(after_first), after_first.state.argmax(axis=1)
    last = _team(games.step([_pairs(seconds)]))
    values = {}
    for number, name in enumerate(STATES[1:], start=1):
        # Every branch is reached by several first moves, after which its pairs pay the same.
        course = int(firsts[reached == number][0])
        values[name] = last[firsts == course].reshape(OPTIONS, OPTIONS)
    first = np.zeros(4)
    for move in range(4):
        course = 4 * move  # the first of the courses that begin with this move
        following = values[STATES[reached[course]]]
        first[move] = paid[course] + gamma * following.max()
    values["first"] = first.reshape(OPTIONS, OPTIONS)
    return {name: values[name].tolist() for name in STATES}


def best_return(env_config: Mapping[str, Any]) -> float:
    """The most that a team can earn, without discount."""
    return max(map(_highest, true_values(env_config, gamma=1.0).values()))


def _highest(table: Table) -> float:
    return max(map(max, table))


def _team(output: StepOutput) -> NDArray[np.float64]:
    """What the two earn together in every copy."""
    rewards: NDArray[np.float64] = output.rewards.astype(np.float64)
    return rewards.sum(axis=1)


def _pairs(numbers: Array) -> Array:
    """Pairs of actions by their numbers, 0 to 3."""
    return np.stack([numbers // OPTIONS, numbers % OPTIONS], axis=1)


def greedy_return(env_config: Mapping[str, Any], greedy: Mapping[str, list[int]]) -> float:
    """What the team earns by these pairs, without discount."""
    game = TwoStepGames(1, env_config)
    view = game.reset(np.arange(1), np.zeros(1, np.int64))
    total = 0.0
    for _ in range(2):
        here = STATES[int(view.state[0].argmax())]
        view = game.step([np.array([greedy[here]])])
        total += float(_team(view)[0])
    return total


# -- what is believed --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beliefs:
    """Of one moment of learning. ``joint`` is empty where there is no mixer, or none was kept."""

    members: dict[str, Table]  # by state: the values of both agents' actions, [agent][action]
    joint: dict[str, Table] = field(default_factory=dict)

    @property
    def greedy(self) -> dict[str, list[int]]:
        """By state, what each agent would do: the best of its own values."""
        return {name: np.argmax(values, axis=1).tolist() for name, values in self.members.items()}

    def to_json(self) -> dict[str, Any]:
        return {"members": self.members, "joint": self.joint or None, "greedy": self.greedy}


def beliefs(setup: Setup, policies: Mapping[PolicyID, Policy], mixer: nn.Module | None) -> Beliefs:
    """What these policies, and the mixer if there is one, say of the three states."""
    players = [_player(setup, policies, agent) for agent in AGENTS]
    members: dict[str, Table] = {}
    joint: dict[str, Table] = {}
    with torch.inference_mode():
        for name, seen in situations(setup.scenario.env_config).items():
            obs = torch.from_numpy(seen.obs)
            rows = []
            for seat, player in enumerate(players):
                rows.append(player.values(obs[[seat]], torch.tensor([seat]))[0])
            members[name] = [row.tolist() for row in rows]
            if mixer is not None:
                pairs = torch.cartesian_prod(*rows)
                state = torch.from_numpy(seen.state).expand(len(pairs), -1)
                joint[name] = mixer(pairs, state).view(OPTIONS, OPTIONS).tolist()
    return Beliefs(members, joint)


def _player(setup: Setup, policies: Mapping[PolicyID, Policy], agent: str) -> ValuePolicy:
    name = candidates(setup.rollout.mapper, agent)[0]
    policy = policies[name]
    assert isinstance(policy, ValuePolicy), "check_readable comes first"
    return policy


def mixers(learners: list[Learner]) -> Iterator[nn.Module]:
    """The mixers of teams; none of learners of single agents."""
    for learner in learners:
        if isinstance(learner, QmixLearner):
            for team in learner.teams:
                if team.policy is None:
                    yield team.mixer


def check_readable(setup: Setup, policies: Mapping[PolicyID, Policy]) -> QmixConfig:
    """The keys of the learner; refuses runs whose values are no tables of three states."""
    scenario = setup.scenario
    if scenario.env != TwoStepGames.name:
        raise ConfigError(f"this run plays {scenario.env!r}. These tables are those of two_step_game.")
    config = next((role.config for role in setup.roles.values()), None)
    if not isinstance(config, QmixConfig):
        raise ConfigError(
            f"{scenario.preset.name} learns no values of single actions, so there is no table of them. Take a run of "
            "qmix, vdn or dqn."
        )
    remembers = any(policy.carry_size for policy in policies.values())
    if remembers or scenario.env_config.get("hide_branch"):
        raise ConfigError("the policies of this run remember, so that a state has no values of its own.")
    if config.reward_scale != 1.0 or config.reward_shift:
        raise ConfigError("this run learns from scaled or shifted rewards, which cannot be held against the game's own.")
    return config
