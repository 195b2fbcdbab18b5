"""One policy of the deterministic family with its critics, the slow copies of both, and their optimisers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.critics import ActionCritics
from marl.algos.family import ALGOS
from marl.algos.learner import LearnerSpec, load_numpy, to_numpy
from marl.algos.maddpg.config import MaddpgConfig
from marl.algos.off_policy import ActorCritic, TargetNetwork
from marl.algos.optimiser import FlatOptimiser
from marl.algos.transitions import Transitions
from marl.data.batch import SampleBatch
from marl.data.task import Array, PolicyID
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.mlp import Tape
from marl.policies.networks import build_mlp, seeded


class Critics(ActionCritics):
    """One critic or twins over the same view: ``[N, size]`` to ``[N, critics]``."""

    def __init__(self, count: int, size: int, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.each = tuple([build_mlp(size, 1, model, generator) for _ in range(count)])
        self.networks = nn.ModuleList(self.each)

    def forward(self, view: Tensor) -> Tensor:
        return torch.cat([network(view) for network in self.each], dim=1)

    def run(self, x: Tensor) -> tuple[Tensor, Sequence[Tape]]:
        values, tapes = super().run(x)
        return values.squeeze(2).t(), tapes

    def pull(
        self, tapes: Sequence[Tape], slopes: Tensor, *, inputs: bool = False, parameters: bool = True
    ) -> Tensor | None:
        return super().pull(tapes, slopes.t().unsqueeze(2), inputs=inputs, parameters=parameters)


class DeterministicActorCritic(ActorCritic):
    """What belongs to one policy."""

    actor: DeterministicPolicy
    config: MaddpgConfig

    def __init__(self, name: PolicyID, spec: LearnerSpec) -> None:
        config, actor = spec.configs[name], spec.policies[name]
        assert isinstance(config, MaddpgConfig)
        assert isinstance(actor, DeterministicPolicy)
        shown = bool(actor.model.features.seats)
        super().__init__(name, spec, sees=config.critic_sees, share_reward=config.share_reward, agent_id=shown)
        self._check(spec.algo)
        place = list(spec.policies).index(name)
        self.critics = Critics(
            1 + int(config.twin_q), self.view.size, spec.models[name], seeded(spec.seed, 7, place)
        ).to(actor.device)
        self.target_actor, self.target_critics = deepcopy(actor), deepcopy(self.critics)
        critics = self.critics.parameters()
        self.optimisers = {
            "actor": FlatOptimiser(self.actor_parameters, config.optimizer, config.lr, f"policy {name!r}"),
            "critic": FlatOptimiser(critics, config.optimizer, config.lr, f"critic of policy {name!r}"),
        }
        self.targets = (
            TargetNetwork(self.target_actor, actor, self.optimisers["actor"]),
            TargetNetwork(self.target_critics, self.critics, self.optimisers["critic"]),
        )
        self.lrs = {"actor": config.actor_lr, "critic": config.critic_lr}
        self.updates = 0

    def _check(self, algo: str) -> None:
        """Noise on target actions is of no use where no agent that the critic sees has coordinates; what the algorithm itself
        sets (td3's noise) may stay."""
        visible = self.view.visible
        if any(visible.task.kinds[k].columns.numbers for k in visible.columns):
            return
        preset = ALGOS[algo].defaults if algo in ALGOS else {}
        for key in self.config.changed("target_noise", "target_noise_clip"):
            value = getattr(self.config, key)
            if value != preset.get(key):
                raise ConfigError(
                    f"policy {self.name!r}: {key}: {value:g} is only for coordinates (Box actions), but its agents have "
                    f"{self.actor.kind.action_space}. Drop {key}."
                )

    def sample(self, rng: np.random.Generator) -> SampleBatch:
        """Rows of the replay with all the noise that the update needs, so that a row and its noise stay together."""
        rows = super().sample(rng)
        noise: dict[str, Array] = {}
        if self.actor.columns.options:
            # Gumbel noise is -log of a standard exponential draw; the floor keeps a draw of 0 finite.
            clocks = rng.standard_exponential((len(rows), self.actor.columns.options), np.float32)
            noise["gumbel"] = -np.log(np.maximum(clocks, 1e-30))
        if self.config.target_noise:
            for k, slots in self.view.slots.items():
                shape = (len(rows), slots, len(self.view.visible.task.kinds[k].columns.numbers))
                noise[f"new_noise.{k}"] = self.config.target_noise * rng.standard_normal(shape, np.float32)
        return rows.with_columns(**noise)

    def transitions(self, rows: SampleBatch) -> Transitions:
        noise = [name for name in rows if name == "gumbel" or name.startswith("new_noise.")]
        return self.view.transitions(rows, noise)

    def state_dict(self) -> dict[str, Any]:
        return {
            "updates": self.updates,
            "debt": self.update_ratio.debt,
            "target_actor": self.target_actor.get_weights(),
            "critics": to_numpy(self.critics.state_dict()),
            "target_critics": to_numpy(self.target_critics.state_dict()),
            "actor_optimiser": self.optimisers["actor"].state_dict(),
            "critic_optimiser": self.optimisers["critic"].state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.updates, self.update_ratio.debt = state["updates"], state["debt"]
        self.target_actor.set_weights(state["target_actor"])
        load_numpy(self.critics, state["critics"])
        load_numpy(self.target_critics, state["target_critics"])
        self.optimisers["actor"].load_state_dict(state["actor_optimiser"])
        self.optimisers["critic"].load_state_dict(state["critic_optimiser"])
