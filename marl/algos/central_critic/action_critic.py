"""Critics of actions (``critic_values: actions``): ``Q(view, a)`` of every choice, and the policy's loss over all of them.

    V(view)   = sum_a pi(a | o) Q(view, a)
    G_t       = r + gamma ** elapsed * (V' + lambda * (G' - Q(view', a')))          what Q of the action that was taken learns
    actor     = -sum_a pi_old(a) min(ratio_a A_a, clip(ratio_a) A_a)       A_a = Q(view, a) - sum_b pi_old(b) Q(view, b)

``ratio_a = pi(a) / pi_old(a)``. A critic of states judges the one action that was taken by what came after it. Here every
action is judged by what is known of it, so that the draw of the action is no noise in the gradient: it is the mean over the
agent's own actions of the usual one. What the others draw, and what is hidden, stays noise unless the critic sees it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, CriticView
from marl.algos.central_critic.losses import clipped_loss, policy_gradient_loss
from marl.algos.central_critic.train_batch import to_tensors
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, Floats, PolicyID
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.distributions import Categorical, log_softmax
from marl.policies.stochastic import StochasticPolicy


class ActionCritic(Critic):
    """A value per row and action."""

    def __init__(
        self, view: CriticView, actor: StochasticPolicy, model: ModelConfig, seed: int, normalize: bool = False
    ) -> None:
        super().__init__(view, actor, model, seed, normalize, outputs=actor.distribution.size)

    @torch.inference_mode()
    def estimate_values(
        self, actor: StochasticPolicy, batch: MultiAgentBatch, rows: SampleBatch, seen: Array
    ) -> tuple[Floats, Floats]:
        """Of every decision ``Q`` of the action that was taken, and ``V`` of what it led to.

        Temporal differences between the two, summed up with ``lambda``, are ``G - Q``.
        """
        taken, values = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
        for part in self._slices(actor, len(rows)):
            data = to_tensors(rows, ("obs", "agent_index", "legal", "actions"), self.device, part)
            shown = torch.from_numpy(seen[part]).to(self.device)
            found, chances = self._judged(actor, data["obs"], data["agent_index"], data["legal"], shown)
            taken[part] = self.of_taken(found, data["actions"]).cpu().numpy()
            values[part] = (chances * found).sum(1).cpu().numpy()
        following = self._seen_again(batch, rows)
        next_values = values[following]
        rest = rows.rows(np.flatnonzero(following < 0))
        found_rest = np.empty(len(rest), np.float32)
        for part in self._slices(actor, len(rest)):
            data = to_tensors(rest, ("new_obs", "agent_index", "new_legal"), self.device, part)
            shown = torch.from_numpy(self.seen(batch, rest, part, after=True)).to(self.device)
            # Where a life ended nothing may be legal; what is computed there is not looked at.
            found, chances = self._judged(actor, data["new_obs"], data["agent_index"], data["new_legal"], shown)
            found_rest[part] = (chances * found).sum(1).cpu().numpy()
        next_values[following < 0] = found_rest
        return taken, next_values

    def _judged(
        self, actor: StochasticPolicy, obs: Tensor, index: Tensor, legal: Tensor, shown: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Values in units of rewards and chances of all actions ``[N, actions]``."""
        params, _ = actor(obs, index, legal)
        values = self(obs, index, shown)
        if self.value_scale is not None:
            values = self.value_scale.in_reward_units(values)
        return values, log_softmax(params).exp()

    def of_taken(self, values: Tensor, actions: Tensor) -> Tensor:
        """``[..., N]``: those of the actions that were taken. A round tells nothing of the others."""
        return values.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def by_all(self, by_taken: Tensor, values: Tensor, actions: Tensor) -> Tensor:
        return torch.zeros_like(values).scatter_(-1, actions.long().unsqueeze(-1), by_taken.unsqueeze(-1))


def loss_over_actions(
    params: Tensor, old_params: Tensor | None, action_values: Tensor, config: CentralCriticConfig
) -> tuple[Tensor, Tensor]:
    """The mean over actions of ``clipped_loss``, for a2c of ``policy_gradient_loss``; and its slope by ``params``.

    With ``p = softmax(z)`` and ``g_a`` the slope by ``log p_a``, that by ``z`` is ``g - p sum(g)``.
    """
    logs = log_softmax(params)
    old_logs = logs if old_params is None else log_softmax(old_params)
    old_chances = old_logs.exp()
    advantages = action_values - (old_chances * action_values).sum(-1, keepdim=True)
    if config.objective == "ppo":
        losses, by_logs = clipped_loss(logs, old_logs, advantages, config.clip_param)
    else:
        losses, by_logs = policy_gradient_loss(logs, advantages)
    by_logs = old_chances * by_logs
    by_params = by_logs - logs.exp() * by_logs.sum(-1, keepdim=True)
    return (old_chances * losses).sum(-1), by_params


def build_critic(
    name: PolicyID,
    view: CriticView,
    config: CentralCriticConfig,
    actor: StochasticPolicy,
    model: ModelConfig,
    seed: int,
) -> Critic:
    """The critic that ``critic_values`` asks for; refuses policies that cannot have it."""
    if config.critic_values == "state":
        return Critic(view, actor, model, seed, config.normalize_values)
    if not isinstance(actor.distribution, Categorical):
        raise ConfigError(
            f"policy {name!r}: critic_values: actions compares single choices, but its agents have "
            f"{actor.kind.action_space}. Use critic_values: state (maa2c in place of coma)."
        )
    if actor.shares_value or actor.carry_size:
        raise ConfigError(
            f"policy {name!r}: critic_values: actions needs a critic of its own and single decisions. Drop vf_share_layers, "
            "use_lstm, use_attention or the custom model with a carry_size; or use critic_values: state (maa2c in place of "
            "coma)."
        )
    return ActionCritic(view, actor, model, seed, config.normalize_values)
