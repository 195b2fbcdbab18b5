"""One policy that learns by sac, with everything that belongs to it alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.config import scheduled
from marl.algos.custom_loss import build_losses
from marl.algos.joint_view import JointActionView, TargetNetwork, VisibleAgents, joint_rows
from marl.algos.learner import LearnerSpec, load_numpy, to_numpy
from marl.algos.optimiser import FlatOptimiser
from marl.algos.sac.config import SacConfig
from marl.algos.sac.values import Twins, soft_values
from marl.algos.update_ratio import UpdateRatio
from marl.algos.views import team_rewards
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.replay import Replay
from marl.data.task import PolicyID
from marl.policies.squashed import SquashedPolicy


class ActorCritic:
    """A policy with its critics, their targets, its temperature, three optimisers and a replay."""

    def __init__(self, name: PolicyID, brief: LearnerSpec) -> None:
        policy, config = brief.policies[name], brief.configs[name]
        assert isinstance(policy, SquashedPolicy)
        assert isinstance(config, SacConfig)
        self.name, self.policy, self.config = name, policy, config
        sight = VisibleAgents(brief.task, config.critic_sees, policy.kind, brief.seats[name])
        self.view = JointActionView(sight, agent_id=bool(policy.features.seats)).to(policy.device)
        self.soft = soft_values(policy, self.view)
        number = list(brief.everybody).index(name)
        self.critics = Twins(self.view.size, self.soft.outputs, brief.models[name], brief.seed, 7, number)
        self.critics.to(policy.device)
        self.targets = deepcopy(self.critics).requires_grad_(False)
        self.follower = TargetNetwork(self.targets, self.critics)
        self.log_alpha = nn.Parameter(torch.tensor(math.log(config.initial_alpha), device=policy.device))
        self.actor_parameters = list(policy.parameters())
        undecayed = config.optimizer.model_copy(update={"weight_decay": 0.0})  # a decay would pull alpha towards 1
        self.optimisers = {
            "actor": FlatOptimiser(self.actor_parameters, config.optimizer, config.lr, f"policy {name!r}"),
            "critic": FlatOptimiser(self.critics.parameters(), config.optimizer, config.lr, f"critics of {name!r}"),
            "alpha": FlatOptimiser([self.log_alpha], undecayed, config.lr, f"temperature of {name!r}"),
        }
        self.custom_loss = build_losses({name: policy}, {name: config}).get(name)
        self.replay = Replay(config.buffer_size, config.prioritized_replay_alpha if config.prioritized_replay else 0.0)
        self.pace = UpdateRatio(config)

    @property
    def alpha(self) -> Tensor:
        """The temperature, without gradient."""
        return self.log_alpha.detach().exp()

    def step_sizes(self, timesteps: int) -> dict[str, float]:
        """Per optimiser: its own key, or lr and its schedule."""
        config = self.config
        common = scheduled(config.lr_schedule, config.lr, timesteps)
        own = {"actor": config.actor_lr, "critic": config.critic_lr, "alpha": config.alpha_lr}
        return {block: common if lr is None else lr for block, lr in own.items()}

    def remember(self, batch: MultiAgentBatch) -> SampleBatch:
        """Put the policy's decisions into the replay; gives them."""
        rewards = team_rewards(batch) if self.config.share_reward else None
        rows = joint_rows(batch, self.name, self.view.sight, self.config.gamma, rewards)
        self.replay.add(rows, rows["stream"])
        return rows

    def updates_due(self, env_steps: int, timesteps: int) -> int:
        return self.pace.due(env_steps, timesteps, len(self.replay))

    def sample(self, rng: np.random.Generator) -> SampleBatch:
        config = self.config
        return self.replay.sample(
            config.train_batch_size, rng, config.n_step, config.gamma, config.prioritized_replay_beta
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "critics": to_numpy(self.critics.state_dict()),
            "targets": to_numpy(self.targets.state_dict()),
            "log_alpha": float(self.log_alpha.detach()),
            "optimisers": {block: optimiser.state_dict() for block, optimiser in self.optimisers.items()},
            "debt": self.pace.debt,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        load_numpy(self.critics, state["critics"])
        load_numpy(self.targets, state["targets"])
        with torch.no_grad():
            self.log_alpha.fill_(state["log_alpha"])
        for block, saved in state["optimisers"].items():
            self.optimisers[block].load_state_dict(saved)
        self.pace.debt = state["debt"]
