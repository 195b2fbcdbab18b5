"""From a grid to what a policy is trained on: its decisions with their advantages and value targets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, CriticView
from marl.algos.views import team_rewards
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards, gae, returns_to_go, vtrace
from marl.data.task import Array, Floats, PolicyID
from marl.policies.stochastic import StochasticPolicy

LARGEST_INPUT = 2**24  # numbers that a network is shown at once while values are computed: 64 MB
KEPT = (
    "obs", "actions", "legal", "agent_index", "action_logp", "carry", "stream", "t", "eps_id", "elapsed", "terminateds",
    "truncateds",
)  # fmt: skip


class AdvantageEstimator:
    """Values of one policy's decisions and of what they led to, and the advantages that follow."""

    def __init__(
        self, name: PolicyID, actor: StochasticPolicy, critic: Critic, view: CriticView, config: CentralCriticConfig
    ) -> None:
        self.name, self.actor, self.critic, self.view, self.config = name, actor, critic, view, config

    def rows(self, batch: MultiAgentBatch) -> SampleBatch:
        """One row per decision: what PPO's minibatches are cut from."""
        config = self.config
        rows = batch.for_policy(self.name, gamma=1.0, kind=self.view.k)
        at = rows["row"], rows["lane"], rows["seat"]
        values, next_values = np.zeros_like(batch.rewards), np.zeros_like(batch.rewards)
        seen = self._seen(batch, rows, slice(None), after=False)
        if config.objective != "pg" and len(rows):
            values[at], next_values[at] = self._appraise(batch, rows, seen)
        rewards = team_rewards(batch) if config.share_reward else batch.rewards
        folded = fold_rewards(batch, config.gamma, rewards)
        if config.objective == "pg":
            advantages = targets = returns_to_go(batch, rewards, config.gamma)[at]
        elif config.objective == "vtrace":
            ratios = np.zeros_like(batch.rewards)
            ratios[at] = self._logp(rows) - rows["action_logp"]
            bars = config.vtrace_rho_bar, config.vtrace_c_bar
            moved, weights = vtrace(batch, values, next_values, folded, ratios, config.gamma, *bars, config.gae_lambda)
            advantages, targets = weights[at], (values + moved)[at]
        else:
            advantages = gae(batch, values, next_values, folded, config.gamma, config.gae_lambda)[at]
            targets = advantages + values[at]
        return SampleBatch(
            {
                **{column: rows[column] for column in KEPT},
                "rewards": rows["rewards"],
                "advantages": advantages,
                "values": values[at],
                "value_targets": targets,
                "critic_features": seen,
            }
        )

    def _seen(self, batch: MultiAgentBatch, rows: SampleBatch, part: slice, after: bool) -> Array:
        t = rows["row"] + rows["elapsed"] - 1 if after else rows["row"]
        seen: Tensor = self.view(batch, t[part], rows["lane"][part], rows["seat"][part], after)
        return seen.numpy()

    @torch.inference_mode()
    def _appraise(self, batch: MultiAgentBatch, rows: SampleBatch, seen: Array) -> tuple[Floats, Floats]:
        """Values before and after every decision, in slices: a batch of images never stands there as floats at once."""
        before, after = [], []
        for part in self._slices(len(rows)):
            tensors = {c: self._tensor(rows[c][part]) for c in ("obs", "new_obs", "agent_index", "actions", "rewards")}
            if self.actor.shares_value and self.actor.carry_size:
                carry = self._tensor(rows["carry"][part][:, : self.actor.carry_size])
                pair = self.actor.look_ahead(carry=carry, **tensors)
            else:
                pair = (
                    self._value(tensors["obs"], tensors["agent_index"], seen[part]),
                    self._value(tensors["new_obs"], tensors["agent_index"], self._seen(batch, rows, part, after=True)),
                )
            before.append(pair[0].cpu().numpy())
            after.append(pair[1].cpu().numpy())
        return np.concatenate(before), np.concatenate(after)

    def _value(self, obs: Tensor, agent_index: Tensor, seen: Array) -> Tensor:
        if self.actor.shares_value:
            return self.actor.value(obs, agent_index)
        value: Tensor = self.critic(obs, agent_index, self._tensor(seen))
        return value

    @torch.inference_mode()
    def _logp(self, rows: SampleBatch) -> Floats:
        """Log probabilities of what was done under the policy as it is now."""
        found = [np.zeros(0, np.float32)]
        for part in self._slices(len(rows)):
            obs, index, legal, actions = (
                self._tensor(rows[c][part]) for c in ("obs", "agent_index", "legal", "actions")
            )
            carry = self._tensor(rows["carry"][part][:, : self.actor.carry_size])
            params = self.actor.params(obs, index, legal, carry)
            found.append(self.actor.distribution.logp(params, actions).cpu().numpy())
        return np.concatenate(found)

    def _slices(self, rows: int) -> Iterator[slice]:
        step = max(1, LARGEST_INPUT // max(self.view.size, self.actor.features.size))
        for start in range(0, rows, step):
            yield slice(start, start + step)

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.actor.device)
