"""The learned joint values of the two-step game: what the team believes every pair of actions to be worth.

    Q(s)[a_0][a_1] = mixer(Q_0(o_0, a_0), Q_1(o_1, a_1), s)

Rashid et al. (2018) print them for QMIX; under uniform play VDN's are the best additive fit of the payoffs.
"""

from __future__ import annotations

import numpy as np
import torch

from marl.algos.qmix.learner import QmixLearner
from marl.data.task import Array, Floats
from marl.envs.games.two_step import TwoStepGames
from marl.errors import ConfigError
from marl.training.trainer import Trainer
from proofs.declaration import Table


def joint_values(trainer: Trainer) -> dict[str, Table]:
    """Tables ``[a_0][a_1]`` of the first state, the safe and the risky branch, for a team played by one policy."""
    learner = trainer.learners[0]
    if not isinstance(learner, QmixLearner) or learner.teams[0].policy is not None or len(learner.values) != 1:
        raise ConfigError("joint values need qmix or vdn, and one policy for both agents of the two-step game.")
    (policy,) = learner.values.values()
    mixer = learner.teams[0].mixer
    tables = {}
    with torch.inference_mode():
        for name, (obs, state) in _states(trainer).items():
            values = policy.values(torch.from_numpy(obs), torch.arange(2))
            pairs = torch.cartesian_prod(values[0], values[1])
            mixed = mixer(pairs, torch.from_numpy(state).expand(len(pairs), -1))
            tables[name] = mixed.view(len(values[0]), len(values[1])).tolist()
    return tables


def _states(trainer: Trainer) -> dict[str, tuple[Array, Floats]]:
    """Both agents' observations and the global state, seen by playing into either branch."""
    games = TwoStepGames(2, trainer.scenario.env_config)
    first = games.reset(np.arange(2), np.zeros(2, np.int64))
    seen = {"first": (first.obs[0][0].copy(), first.state[0].copy())}
    branches = games.step([np.array([[0, 0], [1, 0]])])  # agent_0 picks the branch
    for env_id, name in enumerate(("safe", "risky")):
        seen[name] = (branches.obs[0][env_id].copy(), branches.state[env_id].copy())
    return seen
