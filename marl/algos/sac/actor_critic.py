"""One policy that learns by sac, with everything that belongs to it alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from marl.algos.learner import LearnerSpec, load_numpy, to_numpy
from marl.algos.off_policy import ActorCritic, TargetNetwork
from marl.algos.optimiser import FlatOptimiser
from marl.algos.sac.config import SacConfig
from marl.algos.sac.values import Twins, soft_values
from marl.data.task import PolicyID
from marl.policies.squashed import SquashedPolicy


class SoftActorCritic(ActorCritic):
    """A policy with its critics, their targets, its temperature and three optimisers."""

    actor: SquashedPolicy
    config: SacConfig

    def __init__(self, name: PolicyID, spec: LearnerSpec) -> None:
        config, actor = spec.configs[name], spec.policies[name]
        assert isinstance(config, SacConfig)
        assert isinstance(actor, SquashedPolicy)
        shown = bool(actor.features.seats)
        super().__init__(name, spec, sees=config.critic_sees, share_reward=config.share_reward, agent_id=shown)
        self.soft = soft_values(actor, self.view)
        number = list(spec.everybody).index(name)  # a seed for each policy, whoever else learns here
        self.critics = Twins(self.view.size, self.soft.outputs, spec.models[name], spec.seed, 7, number)
        self.critics.to(actor.device)
        self.target_critics = deepcopy(self.critics).requires_grad_(False)
        # The logarithm is learned: alpha stays above 0 whatever the step.
        self.log_alpha = nn.Parameter(torch.tensor(math.log(config.initial_alpha), device=actor.device))
        undecayed = config.optimizer.model_copy(update={"weight_decay": 0.0})  # a decay would pull alpha towards 1
        self.optimisers = {
            "actor": FlatOptimiser(self.actor_parameters, config.optimizer, config.lr, f"policy {name!r}"),
            "critic": FlatOptimiser(self.critics.parameters(), config.optimizer, config.lr, f"critics of {name!r}"),
            "alpha": FlatOptimiser([self.log_alpha], undecayed, config.lr, f"temperature of {name!r}"),
        }
        self.targets = (TargetNetwork(self.target_critics, self.critics, self.optimisers["critic"]),)
        self.lrs = {"actor": config.actor_lr, "critic": config.critic_lr, "alpha": config.alpha_lr}

    @property
    def alpha(self) -> Tensor:
        """The temperature, without gradient."""
        return self.log_alpha.detach().exp()

    def state_dict(self) -> dict[str, Any]:
        return {
            "critics": to_numpy(self.critics.state_dict()),
            "targets": to_numpy(self.target_critics.state_dict()),
            "log_alpha": float(self.log_alpha.detach()),
            "optimisers": {block: optimiser.state_dict() for block, optimiser in self.optimisers.items()},
            "debt": self.update_ratio.debt,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        load_numpy(self.critics, state["critics"])
        load_numpy(self.target_critics, state["targets"])
        with torch.no_grad():
            self.log_alpha.fill_(state["log_alpha"])
        for block, saved in state["optimisers"].items():
            self.optimisers[block].load_state_dict(saved)
        self.update_ratio.debt = state["debt"]
