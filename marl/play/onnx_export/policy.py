"""A policy as the bytes of an ONNX file, and what its description says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.data.action_units import Units
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.play.onnx_export.actions import Stored, encoded, to_env
from marl.play.onnx_export.graph import OPSET, Graph
from marl.play.onnx_export.heads import HEADS
from marl.play.onnx_export.network import body
from marl.policies.config import PolicySpec
from marl.policies.mixture import Mixture
from marl.policies.networks import Body
from marl.policies.policy import Policy
from marl.policies.value_table import ValueTable

GREEDY = "greedily: action"
DRAWN = "draw the action by softmax(logits)"


@dataclass(frozen=True)
class OnnxPolicy:
    """The file, and the keys that ``policy.json`` has because of it."""

    content: bytes
    about: dict[str, Any]


def onnx_of(name: PolicyID, policy: Policy, spec: PolicySpec, units: Units) -> OnnxPolicy:
    """The graph of a policy's greedy play; parts that are not marl's own are refused by name."""
    _refuse(name, policy, spec)
    head, network_of = HEADS[type(policy)]
    network, graph = network_of(policy), Graph()
    try:
        found = body(graph, network)
    except ConfigError as error:  # a part of the observation
        raise ConfigError(f"{_cannot(name)}: {error}. {REMEDY}") from error
    stored = head(graph, policy, found.out)
    plays = DRAWN
    if not stored.is_drawn:
        plays = GREEDY
        to_env(graph, policy.kind.action_space, stored, units)
    layout: dict[str, list[int]] = {}
    if found.memory is not None:
        _hand_out_carry(graph, network, found.memory, stored)
        layout = _carry_layout(network)
    content = graph.to_bytes("policy", f"policy {name} of marl; policy.json tells its inputs and outputs")
    about = {
        "opset": OPSET,
        "inputs": [port.told() for port in graph.inputs],
        "outputs": [port.told() for port in graph.outputs],
        "plays": plays,
        "carry": layout,
    }
    return OnnxPolicy(content, about)


def _hand_out_carry(graph: Graph, network: Body, memory: str, stored: Stored) -> None:
    """Memory, then the action that was chosen, then a reward of 0, which the user adds to: as ``Body.carried``."""
    parts = [memory]
    if network.prev_action:
        parts += encoded(graph, network.kind.columns, stored)
    if network.prev_reward:
        # What the action will be paid is not known yet.
        parts.append(graph.repeat(np.zeros(1, np.float32), memory))
    graph.output("carry_out", graph.join(parts), np.float32, (network.carry_size,), "the carry of the next call")


def _carry_layout(network: Body) -> dict[str, list[int]]:
    """Which columns of the carry hold what; the user adds to the last reward, and may overwrite the last action."""
    memory, action = network.memory_size, network.memory_size + network.prev_action
    layout = {"memory": [0, memory]}
    if network.prev_action:
        layout["prev_action"] = [memory, action]
    if network.prev_reward:
        layout["prev_reward"] = [action, action + 1]
    return layout


# -- what cannot be written --------------------------------------------------------------------------------------------

REMEDY = "Export it as safetensors, which marl.load_policy reads: --format safetensors."


def _refuse(name: PolicyID, policy: Policy, spec: PolicySpec) -> None:
    why = _obstacle(policy, spec)
    if why:
        raise ConfigError(f"{_cannot(name)}: {why}. {REMEDY}")


def _cannot(name: PolicyID) -> str:
    return f"policy {name!r} cannot be written as ONNX"


def _obstacle(policy: Policy, spec: PolicySpec) -> str:
    """Which part has no form in ONNX; empty: there is none."""
    if spec.scripted is not None:
        script = getattr(spec.scripted.name, "__name__", spec.scripted.name)
        return f"it is scripted ({script}), a rule in Python and no network"
    if isinstance(policy, Mixture):
        return "it is a mixture over the members of a population, which draws one of them per episode"
    if isinstance(policy, ValueTable):
        return "it is a table of values and no network"
    for key in ("custom_model", "custom_preprocessor", "custom_action_dist"):
        given = getattr(spec.model, key)
        if given is not None:
            return f"it has the {key} {given!r}, whose operations are your own"
    if type(policy) not in HEADS:
        return f"it is a {type(policy).__name__}, whose way of acting is not marl's own"
    return ""
