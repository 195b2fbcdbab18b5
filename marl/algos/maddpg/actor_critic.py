"""One policy and all that trains it: its critics, the slow copies of both, optimisers and replay."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.config import scheduled
from marl.algos.custom_loss import build_losses
from marl.algos.family import ALGOS
from marl.algos.joint_view import JointActionView, TargetNetwork, VisibleAgents, joint_rows
from marl.algos.learner import LearnerSpec, load_numpy, to_numpy
from marl.algos.maddpg.config import MaddpgConfig
from marl.algos.optimiser import FlatOptimiser
from marl.algos.update_ratio import UpdateRatio
from marl.algos.views import team_rewards
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.replay import Replay
from marl.data.task import Array, PolicyID
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.networks import MLP, build_mlp, seeded


class Critics(nn.Module):
    """One critic or twins over the same view: ``[N, size]`` to ``[N, critics]``."""

    def __init__(self, count: int, size: int, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.networks = nn.ModuleList([build_mlp(size, 1, model, generator) for _ in range(count)])

    def forward(self, view: Tensor) -> Tensor:
        return torch.cat([network(view) for network in self.networks], dim=1)

    def first(self, view: Tensor) -> Tensor:
        """The critic that the actor climbs: ``[N]``."""
        network = self.networks[0]
        assert isinstance(network, MLP)
        value: Tensor = network(view)
        return value.squeeze(1)


class ActorCritic:
    """What belongs to one policy."""

    def __init__(self, name: PolicyID, index: int, brief: LearnerSpec) -> None:
        config, actor = brief.configs[name], brief.policies[name]
        assert isinstance(config, MaddpgConfig)
        assert isinstance(actor, DeterministicPolicy)
        self.name, self.index, self.config, self.actor = name, index, config, actor
        sight = VisibleAgents(brief.task, config.critic_sees, actor.kind, brief.seats[name])
        _check(name, config, brief.algo, actor, sight)
        self.view = JointActionView(sight, agent_id=bool(actor.model.features.seats)).to(actor.device)
        place = list(brief.policies).index(name)
        self.critics = Critics(
            1 + int(config.twin_q), self.view.size, brief.models[name], seeded(brief.seed, 7, place)
        ).to(actor.device)
        self.target_actor, self.target_critics = deepcopy(actor), deepcopy(self.critics)
        self.actor_optimiser = FlatOptimiser(actor.parameters(), config.optimizer, config.lr, f"policy {name!r}")
        self.critic_optimiser = FlatOptimiser(
            self.critics.parameters(), config.optimizer, config.lr, f"critic of policy {name!r}"
        )
        self.replay = Replay(config.buffer_size, config.prioritized_replay_alpha if config.prioritized_replay else 0.0)
        self.actor_parameters = list(actor.parameters())
        self.followers = TargetNetwork(self.target_actor, actor), TargetNetwork(self.target_critics, self.critics)
        self.custom_loss = build_losses({name: actor}, {name: config}).get(name)
        self.updates, self.pace = 0, UpdateRatio(config)

    # -- data ------------------------------------------------------------------------------------------------------

    def remember(self, batch: MultiAgentBatch) -> SampleBatch:
        """Add a round's decisions to the replay; gives them."""
        rewards = team_rewards(batch) if self.config.share_reward else None
        rows = joint_rows(batch, self.name, self.view.sight, self.config.gamma, rewards)
        self.replay.add(rows, rows["stream"])
        return rows

    def updates_due(self, env_steps: int, timesteps: int) -> int:
        return self.pace.due(env_steps, timesteps, len(self.replay))

    def sample(self, rng: np.random.Generator) -> SampleBatch:
        """Rows of the replay with all the noise that the update needs, so that a row and its noise stay together."""
        config = self.config
        rows = self.replay.sample(
            config.train_batch_size, rng, config.n_step, config.gamma, config.prioritized_replay_beta
        )
        noise: dict[str, Array] = {}
        if self.actor.columns.options:
            clocks = rng.standard_exponential((len(rows), self.actor.columns.options), np.float32)
            noise["gumbel"] = -np.log(np.maximum(clocks, 1e-30))
        if config.target_noise:
            for k, table in self.view.sight.columns.items():
                shape = (len(rows), table.shape[1], len(self.view.sight.task.kinds[k].columns.numbers))
                noise[f"new_noise.{k}"] = config.target_noise * rng.standard_normal(shape, np.float32)
        return rows.with_columns(**noise)

    # -- learning --------------------------------------------------------------------------------------------------

    def lrs(self, timesteps: int) -> tuple[float, float]:
        """Step sizes of the actor and of the critic."""
        lr = scheduled(self.config.lr_schedule, self.config.lr, timesteps)
        return self.config.actor_lr or lr, self.config.critic_lr or lr

    def move_targets(self) -> None:
        for follower in self.followers:
            follower.move(self.config.tau)

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "updates": self.updates,
            "debt": self.pace.debt,
            "target_actor": self.target_actor.get_weights(),
            "critics": to_numpy(self.critics.state_dict()),
            "target_critics": to_numpy(self.target_critics.state_dict()),
            "actor_optimiser": self.actor_optimiser.state_dict(),
            "critic_optimiser": self.critic_optimiser.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.updates, self.pace.debt = state["updates"], state["debt"]
        self.target_actor.set_weights(state["target_actor"])
        load_numpy(self.critics, state["critics"])
        load_numpy(self.target_critics, state["target_critics"])
        self.actor_optimiser.load_state_dict(state["actor_optimiser"])
        self.critic_optimiser.load_state_dict(state["critic_optimiser"])


def _check(name: PolicyID, config: MaddpgConfig, algo: str, actor: DeterministicPolicy, sight: VisibleAgents) -> None:
    """Noise on target actions is of no use where no agent that the critic sees has coordinates; what the algorithm itself
    sets (td3's noise) may stay."""
    if any(sight.task.kinds[k].columns.numbers for k in sight.columns):
        return
    preset = ALGOS[algo].defaults if algo in ALGOS else {}
    for key in config.changed("target_noise", "target_noise_clip"):
        value = getattr(config, key)
        if value != preset.get(key):
            raise ConfigError(
                f"policy {name!r}: {key}: {value:g} is only for coordinates (Box actions), but its agents have "
                f"{actor.kind.action_space}. Drop {key}."
            )
