"""Decisions that several episodes wait for, made in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from marl.data.task import Floats
from marl.errors import let_through
from marl.policies.policy import NO_LOTS, Decision, Inputs, Policy

Detail: TypeAlias = Mapping[str, Any]
Explain: TypeAlias = "Callable[[Policy, Request], list[Detail]]"
"""What clients are told of decisions besides the actions, one entry per row of a request that has been decided."""


@dataclass(slots=True, eq=False)
class Request:
    """Rows that one slot asks one policy about; what comes of them is filled in by the pass."""

    inputs: Inputs
    carry: Floats
    explore: bool
    wanted: frozenset[str] = frozenset()  # details that the client asked for
    decision: Decision | None = None
    details: list[Detail] = field(default_factory=list)
    version: int = 0  # of the weights that decided
    error: BaseException | None = None


def decide(policy: Policy, requests: Sequence[Request], rng: np.random.Generator, explain: Explain) -> None:
    """Answer all requests to one policy: those who explore in one pass, those who do not in another."""
    exploring: list[Request] = []
    greedy: list[Request] = []
    for request in requests:
        chosen = exploring if request.explore else greedy
        chosen.append(request)
    _pass_guarded(policy, greedy, rng)
    _pass_guarded(policy, exploring, rng)
    for request in requests:
        if request.wanted:
            _explain_guarded(policy, request, explain)


def _pass_guarded(policy: Policy, requests: Sequence[Request], rng: np.random.Generator) -> None:
    if not requests:
        return
    try:
        _one_pass(policy, requests, rng)
    except BaseException as error:
        let_through(error)
        if len(requests) == 1:
            requests[0].error = error
            return
        # Whoever is at fault fails alone: the others have not done anything.
        for request in requests:
            _pass_guarded(policy, [request], rng)


def _explain_guarded(policy: Policy, request: Request, explain: Explain) -> None:
    if request.error is not None:  # there is no decision to explain
        return
    try:
        request.details = explain(policy, request)
    except BaseException as error:
        let_through(error)
        request.error = error


def _one_pass(policy: Policy, requests: Sequence[Request], rng: np.random.Generator) -> None:
    explore = requests[0].explore
    if len(requests) == 1:
        alone = requests[0]
        alone.decision = policy.act(alone.inputs, alone.carry, rng, explore=explore)
        return
    made = policy.act(_joined(policy, requests), _joined_carry(requests), rng, explore=explore)
    first = 0
    for request in requests:
        rows = slice(first, first + len(request.inputs))
        request.decision = Decision(made.actions[rows], made.logp[rows], made.carry[rows])
        first = rows.stop


def _joined(policy: Policy, requests: Sequence[Request]) -> Inputs:
    """The rows of all requests, one below the other."""
    obs, legal, seats, lots = [], [], [], []
    for request in requests:
        inputs = request.inputs
        obs.append(inputs.obs)
        legal.append(inputs.legal)
        seats.append(inputs.agent_index)
        lots.append(inputs.episode_uniform)
    drawn = NO_LOTS
    if policy.draws_lots:
        drawn = np.concatenate(lots)
    return Inputs(np.concatenate(obs), np.concatenate(legal), np.concatenate(seats), drawn)


def _joined_carry(requests: Sequence[Request]) -> Floats:
    return np.concatenate([request.carry for request in requests])
