"""What clients may ask about a decision besides the action: probabilities, the value, what the policy remembers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from marl.data.task import Array, PolicyID
from marl.policies.distributions import Categorical, MultiCategorical
from marl.policies.mixture import Mixture
from marl.policies.nfsp import NfspPolicy
from marl.policies.policy import Inputs, Policy
from marl.policies.stochastic import StochasticPolicy
from marl.policies.tabular import TabularPolicy
from marl.policies.value import ValuePolicy
from marl.serve.passes import Detail, Request


def explain(policy: Policy, request: Request) -> list[Detail]:
    """The details that were wanted, row by row. What a policy does not have is None."""
    assert request.decision is not None
    if isinstance(policy, Mixture):
        return _of_members(policy, request)
    rows = len(request.inputs)
    found: list[dict[str, Any]] = [{} for _ in range(rows)]
    if "probabilities" in request.wanted:
        for row, chances in enumerate(_probabilities(policy, request) or [None] * rows):
            found[row]["probabilities"] = chances
            found[row]["logp"] = float(request.decision.logp[row])
    if "value" in request.wanted:
        values = _values(policy, request)
        for row in range(rows):
            found[row]["value"] = None if values is None else float(values[row])
    if "state" in request.wanted:
        for row in range(rows):
            found[row]["state"] = request.decision.carry[row].tolist()
    return list(found)


def member_of(policy: PolicyID, number: int) -> str:
    """What a member of a mixture is called: ``main_3`` of the mixture ``main.answer``."""
    return f"{policy.split('.')[0]}_{number}"


def members_playing(request: Request) -> Array:
    """Of a mixture: the numbers of the members that decided, which it keeps in front of what they remember."""
    assert request.decision is not None
    return request.decision.carry[:, 0].astype(np.int64) - 1


def _of_members(mixture: Mixture, request: Request) -> list[Detail]:
    """Each row by the member that plays it, with the member's own memory."""
    assert request.decision is not None
    found: list[Detail] = []
    for row, number in enumerate(members_playing(request).tolist()):
        one = slice(row, row + 1)
        decision = request.decision
        inputs = Inputs(request.inputs.obs[one], request.inputs.legal[one], request.inputs.agent_index[one])
        alone = Request(inputs, request.carry[one, 1:], mixture.draws_actions, request.wanted)
        alone.decision = type(decision)(decision.actions[one], decision.logp[one], decision.carry[one, 1:])
        found += explain(mixture.member(number), alone)
    return found


def _columns(policy: Policy, request: Request) -> Mapping[str, Array]:
    inputs = request.inputs
    carry = request.carry[:, : policy.carry_size]
    return {"obs": inputs.obs, "legal": inputs.legal, "agent_index": inputs.agent_index, "carry": carry}


def _probabilities(policy: Policy, request: Request) -> list[Any] | None:
    """Of each option, as the policy draws or, where it is greedy over values, as it chooses; None for coordinates."""
    if isinstance(policy, TabularPolicy):
        found: list[Any] = policy.probabilities(request.inputs, request.carry).tolist()
        return found
    if isinstance(policy, ValuePolicy):
        return _greedy_chances(policy, request)
    if not isinstance(policy, StochasticPolicy | NfspPolicy):
        return None
    chances = policy.action_distribution(_columns(policy, request))  # type: ignore[arg-type]
    if isinstance(chances.family, Categorical):
        plain: list[Any] = chances.params.softmax(1).tolist()
        return plain
    if isinstance(chances.family, MultiCategorical):
        parts = [part.softmax(1).tolist() for part in torch.split(chances.params, chances.family.sizes, 1)]
        return [list(row) for row in zip(*parts, strict=True)]
    return None


def _greedy_chances(policy: ValuePolicy, request: Request) -> list[Any]:
    values = policy.q_values(_columns(policy, request)).cpu().numpy()
    legal = request.inputs.legal
    if not legal.shape[1]:
        legal = np.ones(values.shape, bool)
    best = np.where(legal, values, -np.inf).argmax(axis=1)
    epsilon = policy.exploration.chance_of_random() if request.explore else 0.0
    chances = epsilon * legal / legal.sum(axis=1, keepdims=True)
    chances[np.arange(len(best)), best] += 1.0 - epsilon
    found: list[Any] = chances.tolist()
    return found


def _values(policy: Policy, request: Request) -> Array | None:
    """Where the policy itself knows it: the best action's value, or that of layers which it shares with its critic."""
    if isinstance(policy, ValuePolicy):
        values = policy.q_values(_columns(policy, request)).cpu().numpy()
        legal = request.inputs.legal
        if legal.shape[1]:
            values = np.where(legal, values, -np.inf)
        best: Array = values.max(axis=1)
        return best
    if isinstance(policy, StochasticPolicy) and policy.shares_value:
        own: Array = policy.value_function(_columns(policy, request)).cpu().numpy()
        return own
    return None
