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
from marl.policies.stochastic import Chances, StochasticPolicy
from marl.policies.tabular import TabularPolicy
from marl.policies.value import ValuePolicy
from marl.policies.value_table import ValueTable
from marl.serve.passes import Detail, Request


def explain(policy: Policy, request: Request) -> list[Detail]:
    """The details that were wanted, row by row. What a policy does not have is None."""
    assert request.decision is not None
    if isinstance(policy, Mixture):
        return _of_members(policy, request)
    columns: dict[str, list[Any]] = {}
    if "probabilities" in request.wanted:
        columns["probabilities"] = _probabilities(policy, request)
        columns["logp"] = request.decision.logp.tolist()
    if "value" in request.wanted:
        columns["value"] = _values(policy, request)
    if "state" in request.wanted:
        columns["state"] = request.decision.carry.tolist()
    found: list[Detail] = []
    for row in range(len(request.inputs)):
        found.append({name: column[row] for name, column in columns.items()})
    return found


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


def _probabilities(policy: Policy, request: Request) -> list[Any]:
    """Of each option, as the policy draws or, where it is greedy over values, as it chooses; None for coordinates."""
    found: list[Any] = [None] * len(request.inputs)
    if isinstance(policy, TabularPolicy):
        found = policy.probabilities(request.inputs, request.carry).tolist()
    elif isinstance(policy, ValueTable):
        found = policy.chances(request.inputs, explore=request.explore).tolist()
    elif isinstance(policy, ValuePolicy):
        found = _chances_by_values(policy, request) or found
    elif isinstance(policy, StochasticPolicy | NfspPolicy):
        chances = policy.action_distribution(_columns(policy, request))  # type: ignore[arg-type]
        found = _by_option(chances) or found
    return found


def _by_option(chances: Chances) -> list[Any]:
    """Numbers for a choice, lists of numbers for several; nothing for coordinates."""
    family = chances.family
    if isinstance(family, Categorical):
        plain: list[Any] = chances.params.softmax(1).tolist()
        return plain
    if not isinstance(family, MultiCategorical):
        return []
    parts = []
    for logits in torch.split(chances.params, family.sizes, 1):
        parts.append(logits.softmax(1).tolist())
    return [list(row) for row in zip(*parts, strict=True)]


def _chances_by_values(policy: ValuePolicy, request: Request) -> list[Any]:
    """Nothing where noise on weights explores, of which no chances can be told."""
    values = policy.q_values(_columns(policy, request)).cpu().numpy()
    chances = policy.chances(values, request.inputs.legal, explore=request.explore)
    if chances is None:
        return []
    found: list[Any] = chances.tolist()
    return found


def _values(policy: Policy, request: Request) -> list[Any]:
    """Where the policy itself knows it: the best action's value, or that of layers which it shares with its critic."""
    found: list[Any] = [None] * len(request.inputs)
    if isinstance(policy, ValuePolicy | ValueTable):
        values = policy.q_values(_columns(policy, request)).cpu().numpy()
        legal = request.inputs.legal
        if legal.shape[1]:
            values = np.where(legal, values, -np.inf)
        found = values.max(axis=1).tolist()
    elif isinstance(policy, StochasticPolicy) and policy.shares_value:
        found = policy.value_function(_columns(policy, request)).tolist()
    return found
