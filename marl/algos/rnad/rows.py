"""From a round to rows to learn from: rewards are changed by the regularisation policies, then corrected by V-trace.

    r'_i = r_i - eta * log(pi_i(a_i) / reg_i(a_i)) + eta * log(pi_j(a_j) / reg_j(a_j))         of two players i and j

Where more than two play there is no such exchange: everybody pays its own part, and nobody gets it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from marl.algos.central_critic.critic import Critic
from marl.algos.rnad.config import RnadConfig
from marl.algos.rnad.regularisation import Regularisation
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards, vtrace
from marl.data.task import Floats, PolicyID
from marl.policies.distributions import log_softmax

LEAST = -80.0  # of the logarithm of a ratio: what it is the power of is still above 0
KEPT = ("obs", "actions", "legal", "agent_index", "action_logp")
"""Columns of a decision that stay until its training batch is complete."""


def payments(batch: MultiAgentBatch, regularised: Mapping[PolicyID, Regularisation], eta: float) -> Floats:
    """``eta * log(pi(a) / reg(a))`` wherever one of these policies was asked, ``[T, E, A]``; 0 elsewhere.

    Of all decisions, not only of those to train on: an open one has been paid for already.
    """
    paid = np.zeros_like(batch.rewards)
    for name, regular in regularised.items():
        k = batch.task.kinds.index(regular.actor.kind)
        mine = batch.present & (batch.policy_index == batch.policy_ids.index(name))
        t, e, a = np.nonzero(mine)
        if not len(t):
            continue
        column = a - batch.task.kinds[k].first_seat
        shown = [regular.actor.tensor(c[t, e, column]) for c in (batch.obs[k], batch.legal[k], batch.actions[k])]
        index = regular.actor.tensor(column)
        paid[t, e, a] = eta * _log_ratio(regular, shown[0], index, shown[1], shown[2])
    return paid


@torch.no_grad()
def _log_ratio(regular: Regularisation, obs: Tensor, index: Tensor, legal: Tensor, actions: Tensor) -> Floats:
    logits, _ = regular.actor(obs, index, legal)
    ratio = log_softmax(logits) - regular.logs(obs, index, legal)
    found: Floats = ratio.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1).cpu().numpy()
    return found


def changed_rewards(batch: MultiAgentBatch, paid: Floats) -> Floats:
    """The rewards of the regularised game, ``[T, E, A]``."""
    rewards = batch.rewards - paid
    if batch.task.num_seats == 2:  # the sum of both players' rewards stays what it was
        rewards += paid[:, :, ::-1]
    return rewards


def with_targets(
    name: PolicyID, batch: MultiAgentBatch, paid: Floats, config: RnadConfig, regular: Regularisation, critic: Critic
) -> SampleBatch:
    """The policy's decisions, one row each, with what they led to (``advantages``) and what their values should have been."""
    actor = regular.actor
    rows = batch.for_policy(name, kind=critic.view.k)
    at = rows["row"], rows["lane"], rows["seat"]
    seen = critic.seen(batch, rows)
    values, next_values = np.zeros_like(batch.rewards), np.zeros_like(batch.rewards)
    log_ratios = np.zeros_like(batch.rewards)
    regular_logs = np.zeros((len(rows), actor.distribution.size), np.float32)
    if len(rows):
        values[at], next_values[at] = critic.estimate_values(regular.slow, batch, rows, seen)
        obs, index, legal, actions = (actor.tensor(rows[c]) for c in ("obs", "agent_index", "legal", "actions"))
        with torch.no_grad():
            logp = actor.distribution.logp(actor(obs, index, legal)[0], actions).cpu().numpy()
        log_ratios[at] = logp - rows["action_logp"]
        regular_logs[:] = regular.logs(obs, index, legal).cpu().numpy()
    folded = fold_rewards(batch, config.gamma, changed_rewards(batch, paid))
    bars = config.vtrace_rho_bar, config.vtrace_c_bar
    moved, advantages = vtrace(batch, values, next_values, folded, log_ratios, config.gamma, *bars)
    columns = {column: rows[column] for column in KEPT}
    # V-trace weighs an advantage by how likely the action is now, for policy gradients; NeuRD divides by the chance of having
    # chosen it and by nothing else. What it pays itself for this action is put back: the loss knows that for all actions.
    rho = np.exp(np.clip(log_ratios[at], LEAST, np.log(np.float32(config.vtrace_rho_bar))))
    columns.update(
        advantages=advantages[at] / rho + paid[at], value_targets=(values + moved)[at], critic_features=seen,
        regular_logs=regular_logs,
    )  # fmt: skip
    return SampleBatch(columns)
