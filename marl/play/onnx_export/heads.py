"""What the outputs of a network mean, for each way of acting: numbers of a distribution, values, and the greedy choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from marl.data.task import AgentType
from marl.play.onnx_export.actions import Stored, choice_sizes, likeliest
from marl.play.onnx_export.graph import Graph
from marl.play.onnx_export.network import array
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.distributions import ILLEGAL
from marl.policies.networks import Body
from marl.policies.nfsp import NfspPolicy
from marl.policies.policy import Policy
from marl.policies.squashed import LOG_STD, SquashedPolicy
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value import ValuePolicy

LOGITS = "of all options of all choices side by side; illegal ones have -1e9"
MEANS = "of the coordinates, in the units of training, before they are squeezed and stretched to the env's"


def value_head(graph: Graph, policy: ValuePolicy, out: str) -> Stored:
    """``q_values``, and the action of the highest one."""
    n = policy.num_actions
    # A network of plain values has one atom per action, the value itself.
    atoms = graph.reshape(out, (n + int(policy.dueling), policy.num_atoms))
    if policy.dueling:
        atoms = _dueling(graph, atoms, n)
    if policy.num_atoms == 1:
        values = graph.reshape(atoms, (n,))
        if policy.unit is not None:  # of the network: values are told in rewards
            values = graph.add("Mul", values, graph.constant(array(policy.unit)))
    else:
        values = _mean_of_atoms(graph, policy, atoms)
    values = _legal(graph, policy.kind, values)
    graph.output("q_values", values, np.float32, (n,), "of the actions; illegal ones have -1e9")
    return Stored(graph.add("ArgMax", values, axis=1, keepdims=1), None)


def _mean_of_atoms(graph: Graph, policy: ValuePolicy, atoms: str) -> str:
    """An action's value is the mean over the returns of the support (C51)."""
    likely = graph.add("Exp", graph.add("LogSoftmax", atoms, axis=2))
    weighed = graph.add("Mul", likely, graph.constant(array(policy.support)))
    return graph.add("ReduceSum", weighed, graph.constant([2], np.int64), keepdims=0)


def _dueling(graph: Graph, out: str, actions: int) -> str:
    """Value of the state plus centred advantages, ``[N, 1 + actions, ...]``."""
    state, advantage = graph.pick(out, [0]), graph.pick(out, range(1, actions + 1))
    centred = graph.add("Sub", advantage, graph.add("ReduceMean", advantage, axes=[1], keepdims=1))
    return graph.add("Add", state, centred)


def stochastic_head(graph: Graph, policy: StochasticPolicy, out: str) -> Stored:
    """``logits``, ``mean`` and ``std``, ``value`` where the layers give one; the likeliest options, and the means."""
    columns = policy.kind.columns
    options, numbers = columns.options, len(columns.numbers)
    choices, mean = None, None
    # Outputs stand in this order: logits, means, deviations where the network gives them, the value.
    if options:
        choices = _choices(graph, policy.kind, graph.pick(out, range(options)))
    if numbers:
        mean = graph.pick(out, range(options, options + numbers))
        _hand_out_normal(graph, mean, _log_std(graph, policy, out, options + numbers), numbers)
    if policy.shares_value:
        last = graph.reshape(graph.pick(out, [policy.model.outputs - 1]), ())
        if policy.value_scale is not None:
            centre, deviation = policy.value_scale.mean_and_deviation
            scaled = graph.add("Mul", last, graph.constant(deviation))
            last = graph.add("Add", scaled, graph.constant(centre))
        graph.output("value", last, np.float32, (), "of the state, as the policy's own layers give it")
    return Stored(choices, mean)


def _log_std(graph: Graph, policy: StochasticPolicy, out: str, first: int) -> str:
    """Logarithms of the deviations: set by the exploration, a parameter, or outputs of the network."""
    numbers = policy.distribution.numbers
    if policy.noise_sets_std:
        scale = array(policy.exploration.value.clamp(min=1e-6).log())
        return graph.repeat(np.full(numbers, scale, np.float32), out)
    if policy.log_std is not None:
        return graph.repeat(array(policy.log_std), out)
    return graph.pick(out, range(first, first + numbers))


def squashed_head(graph: Graph, policy: SquashedPolicy, out: str) -> Stored:
    """``logits``, or ``mean`` and ``std`` before the squeeze; the likeliest option, or the squeezed mean."""
    if policy.gaussian is None:
        return Stored(_choices(graph, policy.kind, out), None)
    numbers = policy.gaussian.numbers
    mean = graph.pick(out, range(numbers))
    if policy.log_std is not None:
        raw = graph.repeat(array(policy.log_std), out)
    else:
        raw = graph.pick(out, range(numbers, 2 * numbers))
    low, high = LOG_STD
    share = graph.add("Add", graph.add("Tanh", raw), graph.constant(1.0))
    log_std = graph.add("Add", graph.add("Mul", share, graph.constant(0.5 * (high - low))), graph.constant(low))
    _hand_out_normal(graph, mean, log_std, numbers)
    return Stored(None, _squeezed(graph, policy.kind, mean))


def deterministic_head(graph: Graph, policy: DeterministicPolicy, out: str) -> Stored:
    """``logits`` of choices; the likeliest options, and coordinates squeezed into -1..1 where they have bounds."""
    columns = policy.kind.columns
    options, numbers = columns.options, len(columns.numbers)
    choices, coordinates = None, None
    if options:
        choices = _choices(graph, policy.kind, graph.pick(out, range(options)))
    if numbers:
        raw = graph.pick(out, range(options, options + numbers))
        coordinates = _squeezed(graph, policy.kind, raw)
    return Stored(choices, coordinates)


def average_head(graph: Graph, policy: NfspPolicy, out: str) -> Stored:
    """``logits`` alone: the average strategy is mixed and has no greedy version, so the user draws."""
    _hand_out_logits(graph, _legal(graph, policy.kind, out), policy.kind)
    return Stored(None, None)


# -- what several of them do -------------------------------------------------------------------------------------------


def _choices(graph: Graph, kind: AgentType, logits: str) -> str:
    """Logits are handed out, and the best legal option of each choice is taken."""
    logits = _legal(graph, kind, logits)
    _hand_out_logits(graph, logits, kind)
    sizes = choice_sizes(kind.columns)
    return likeliest(graph, logits, sizes)


def _hand_out_logits(graph: Graph, logits: str, kind: AgentType) -> None:
    graph.output("logits", logits, np.float32, (kind.columns.options,), LOGITS)


def _hand_out_normal(graph: Graph, mean: str, log_std: str, numbers: int) -> None:
    graph.output("mean", mean, np.float32, (numbers,), MEANS)
    graph.output("std", graph.add("Exp", log_std), np.float32, (numbers,), "standard deviations, in the same units")


def _legal(graph: Graph, kind: AgentType, values: str) -> str:
    """Nothing speaks for an illegal option."""
    if not kind.masked:
        return values
    meaning = "which options are legal, at least one per choice"
    mask = graph.input("action_mask", np.bool_, (kind.legal_width,), meaning)
    return graph.add("Where", mask, values, graph.constant(ILLEGAL))


def _squeezed(graph: Graph, kind: AgentType, numbers: str) -> str:
    """Coordinates with two bounds into -1..1; others stay as they are."""
    places = list(kind.columns.numbers)
    bounded = kind.columns.bounded[places]
    squeezed = graph.add("Tanh", numbers)
    return graph.add("Where", graph.constant(bounded, np.bool_), squeezed, numbers)


Head = Callable[[Graph, Any, str], Stored]
HEADS: dict[type[Policy], tuple[Head, Callable[[Any], Body]]] = {
    ValuePolicy: (value_head, lambda policy: policy.model),
    StochasticPolicy: (stochastic_head, lambda policy: policy.model),
    SquashedPolicy: (squashed_head, lambda policy: policy.model),
    DeterministicPolicy: (deterministic_head, lambda policy: policy.model),
    NfspPolicy: (average_head, lambda policy: policy.average),
}
"""For each kind of policy what its outputs mean, and the network that gives them."""
