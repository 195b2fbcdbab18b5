"""Policies as if they had learned, and their ONNX graphs in onnxruntime, to be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import torch
from gymnasium import spaces

from marl.data.action_units import ActionUnits, Units, to_env
from marl.data.space_batches import actions_of, rows_of
from marl.data.task import AgentType
from marl.policies.build import build_policy
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.policy import Inputs, Policy

AGENTS = ("a", "b", "c")
ROWS = 1_000
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def policy_of(
    seen: Any,
    moves: Any,
    acts: str = "stochastic",
    masked: bool = False,
    agent_id: bool = False,
    spec: Any = (),
    **keys: Any,
) -> tuple[Policy, PolicySpec]:
    """A policy with weights that are none of a fresh one: biases, deviations and statistics all count."""
    kind = AgentType("k", AGENTS, seen, moves, masked)
    recipe = PolicySpec(acts, 0, ModelConfig(**{"fcnet_hiddens": [16], **keys}), agent_id=agent_id, **dict(spec))
    policy = build_policy(recipe, kind)
    learned(policy)
    return policy, recipe


def learned(policy: Policy, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    moved = {}
    for name, weights in policy.get_weights().items():
        # Buffers of exploration and statistics are what they are; only parameters are floats of this size.
        is_parameter = weights.dtype == np.float32 and weights.ndim > 0
        moved[name] = weights + rng.normal(0, 0.3, weights.shape).astype(np.float32) if is_parameter else weights
    policy.set_weights(moved)
    if policy.keeps_statistics:
        rows = rows_of(policy.kind.observation_space, batch_of(policy.kind.observation_space, 200, seed=7))
        policy.observe(rows, np.zeros(200, np.int64))


def session(content: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def batch_of(space: Any, count: int, seed: int = 1) -> Any:
    """Random observations as arrays, in dicts and tuples where the space is one."""
    space.seed(seed)
    return _stacked(space, [space.sample() for _ in range(count)])


def _stacked(space: Any, values: list[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _stacked(part, [value[key] for value in values]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_stacked(part, [value[i] for value in values]) for i, part in enumerate(space.spaces))
    return np.array(values, space.dtype)


def named(space: Any, values: Any, name: str) -> dict[str, Any]:
    """The parts of observations or actions by the names that the graph gives them."""
    if isinstance(space, spaces.Dict):
        parts = [named(part, values[key], f"{name}.{key}") for key, part in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [named(part, values[i], f"{name}.{i}") for i, part in enumerate(space.spaces)]
    else:
        return {name: values}
    return {key: value for part in parts for key, value in part.items()}


def masks_of(kind: AgentType, count: int, seed: int = 3) -> Any:
    """Half of all options, and at least one of each choice."""
    rng = np.random.default_rng(seed)
    masks = rng.random((count, kind.legal_width)) < 0.5
    if kind.masked:
        first = 0
        for size in (kind.columns.sizes[c] for c in kind.columns.choices):
            masks[np.arange(count), first + rng.integers(0, size, count)] = True
            first += size
    return masks


def feeds_of(
    played: onnxruntime.InferenceSession, kind: AgentType, obs: Any, masks: Any, seats: Any, carry: Any
) -> Any:
    """What the graph asks for, and nothing else."""
    given = {**named(kind.observation_space, obs, "obs"), "action_mask": masks, "agent_index": seats, "carry": carry}
    return {port.name: given[port.name] for port in played.get_inputs()}


def compare(
    policy: Policy, content: bytes, units: Units | None = None, rows: int = ROWS, seed: int = 1
) -> dict[str, Any]:
    """The graph against ``policy.act(explore=False)``, step after step where it remembers; returns the last outputs."""
    units, kind, played = units or ActionUnits(), policy.kind, session(content)
    steps = 10 if policy.carry_size else 1
    count, rng = rows // steps, np.random.default_rng(seed)
    carry = np.zeros((count, policy.carry_size), np.float32)
    outputs: dict[str, Any] = {}
    for step in range(steps):
        obs = batch_of(kind.observation_space, count, seed + step)
        masks, seats = masks_of(kind, count, seed + step), rng.integers(0, kind.size, count)
        feeds = feeds_of(played, kind, obs, masks, seats, carry)
        names = [port.name for port in played.get_outputs()]
        outputs = dict(zip(names, played.run(None, feeds), strict=True))
        inputs = Inputs(rows_of(kind.observation_space, obs), masks, seats)
        decision = policy.act(inputs, carry, np.random.default_rng(0), explore=False)
        expected = actions_of(kind.action_space, to_env(decision.actions, kind.columns, units))
        _same_actions(named(kind.action_space, expected, "action"), outputs)
        if "carry_out" in outputs:
            np.testing.assert_allclose(outputs["carry_out"], decision.carry, **CLOSE)
        if policy.remembers_reward:
            decision.carry[:, -1] += rng.normal(size=count).astype(np.float32)
        carry = decision.carry
    outputs["inputs"], outputs["before"] = inputs, feeds.get("carry")
    return outputs


def _same_actions(expected: dict[str, Any], outputs: dict[str, Any]) -> None:
    for name, values in expected.items():
        got = outputs[name]
        assert (got.dtype, got.shape) == (values.dtype, values.shape)
        if values.dtype.kind == "f":
            np.testing.assert_allclose(got, values, **CLOSE)
        else:
            np.testing.assert_array_equal(got, values)


def tensors(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return Policy.tensors(inputs, torch.device("cpu"))
