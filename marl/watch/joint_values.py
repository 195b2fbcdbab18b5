"""What learners of action values believe about the two-step game.

    Q(s)[a_0][a_1] = mixer(Q_0(o_0, a_0), Q_1(o_1, a_1), s)

Rashid et al. (2018) print these tables. VDN's mixer is the sum; independent learners (dqn) have no mixer and thus no joint
value, only the values of each agent by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from marl.algos.learner import Learner
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.learner import QmixLearner
from marl.data.task import PolicyID
from marl.envs.games.two_step import AGENTS, TwoStepGames
from marl.errors import ConfigError
from marl.policies.policy import Policy
from marl.policies.value import ValuePolicy
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates
from marl.watch.two_step_truth import OPTIONS, Table, situations


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
                # A shared policy is told whom it plays: its values may differ between the two.
                rows.append(player.values(obs[[seat]], torch.tensor([seat]))[0])
            members[name] = [row.tolist() for row in rows]
            if mixer is not None:
                pairs = torch.cartesian_prod(*rows)  # (A, A), (A, B), (B, A), (B, B)
                state = torch.from_numpy(seen.state).expand(len(pairs), -1)
                joint[name] = mixer(pairs, state).view(OPTIONS, OPTIONS).tolist()
    return Beliefs(members, joint)


def _player(setup: Setup, policies: Mapping[PolicyID, Policy], agent: str) -> ValuePolicy:
    # A mapping function may choose anew in every episode; then one of its choices stands for all.
    name = candidates(setup.rollout.mapper, agent)[0]
    policy = policies[name]
    assert isinstance(policy, ValuePolicy), "check_readable comes first"
    return policy


def mixers(learners: Sequence[Learner]) -> Iterator[nn.Module]:
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
    if config.temperature:
        raise ConfigError("this run learns soft values, which cannot be held against the game's own.")
    if _other_rewards(config):
        raise ConfigError(
            "this run learns from scaled, shifted or centred rewards, which cannot be held against the game's own."
        )
    return config


def _other_rewards(config: QmixConfig) -> bool:
    """Whether the learner learns from other rewards than the env pays."""
    return config.reward_scale != 1.0 or bool(config.reward_shift) or config.center_rewards
