"""From a round to rows to learn from: a policy's decisions with their advantages and what their values should have been."""

from __future__ import annotations

import numpy as np

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, current_logp
from marl.algos.joint_view import team_rewards
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards, gae, returns_to_go, vtrace
from marl.data.task import PolicyID
from marl.policies.stochastic import StochasticPolicy

KEPT = (
    "obs", "actions", "legal", "agent_index", "action_logp", "carry", "stream", "t", "eps_id", "elapsed", "terminateds",
    "truncateds", "rewards",
)  # fmt: skip
"""Columns of a decision that stay until its training batch is complete; what it led to is in its advantage by then."""


def with_advantages(
    name: PolicyID, batch: MultiAgentBatch, config: CentralCriticConfig, actor: StochasticPolicy, critic: Critic
) -> SampleBatch:
    """The policy's decisions, one row each, with their advantages: what minibatches are cut from.

    Networks see rows; sums over time are made on the grid, in which a decision's successor is easy to find.
    """
    rows = batch.for_policy(name, kind=critic.view.k, rewards=batch.paid)
    at = rows["row"], rows["lane"], rows["seat"]
    seen = critic.seen(batch, rows)
    # The value of what a decision led to is asked for apart, never taken from the next row: lives end, agents pause.
    values, next_values = np.zeros_like(batch.rewards), np.zeros_like(batch.rewards)
    if config.objective != "pg" and len(rows):
        values[at], next_values[at] = critic.estimate_values(actor, batch, rows, seen)
    rewards = team_rewards(batch) if config.share_reward else batch.rewards
    if config.objective == "pg":
        advantages = targets = returns_to_go(batch, rewards, config.gamma)[at]
    elif config.objective == "vtrace":
        log_ratios = np.zeros_like(batch.rewards)
        log_ratios[at] = current_logp(actor, rows) - rows["action_logp"]
        folded = fold_rewards(batch, config.gamma, rewards)
        bars = config.vtrace_rho_bar, config.vtrace_c_bar
        moved, weights = vtrace(batch, values, next_values, folded, log_ratios, config.gamma, *bars, config.gae_lambda)
        advantages, targets = weights[at], (values + moved)[at]
    else:
        folded = fold_rewards(batch, config.gamma, rewards)
        advantages = gae(batch, values, next_values, folded, config.gamma, config.gae_lambda)[at]
        targets = advantages + values[at]
    columns = {}
    for column in KEPT:
        columns[column] = rows[column]
    columns.update(advantages=advantages, values=values[at], value_targets=targets, critic_features=seen)
    return SampleBatch(columns)
