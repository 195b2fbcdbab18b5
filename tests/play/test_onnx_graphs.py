"""An ONNX graph does in onnxruntime what its policy does, for every kind of observation, network, action and head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.action_units import ActionUnits
from marl.play.onnx_export.policy import onnx_of
from marl.policies.config import ExplorationConfig
from marl.policies.mlp import ACTIVATIONS
from marl.policies.nfsp import NfspPolicy
from marl.policies.squashed import SquashedPolicy
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value import ValuePolicy
from tests.play.onnx_runs import CLOSE, compare, policy_of, session, tensors

FLAT = spaces.Box(-2, 2, (4,), np.float32)
FOUR = spaces.Discrete(4, start=3)
PUSH = spaces.Box(np.array([-3, 0, -1], np.float32), np.array([1, 5, np.inf], np.float32))
PARTS = spaces.Dict(
    {
        "where": spaces.Box(-5, 5, (2, 2), np.float64),
        "bytes": spaces.Box(0, 200, (3,), np.uint8),
        "pair": spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiDiscrete([2, 3], start=[0, 1])]),
        "flags": spaces.MultiBinary(2),
    }
)
MOVES = spaces.Dict(
    {
        "push": spaces.Box(np.array([-3, 0], np.float64), np.array([1, np.inf], np.float64), dtype=np.float64),
        "gear": spaces.Discrete(4, start=2),
        "keys": spaces.MultiDiscrete([2, 3], start=[1, 0]),
        "turn": spaces.Tuple([spaces.Box(-4, 9, (2, 1), np.int32), spaces.MultiBinary(2)]),
    }
)
IMAGE = spaces.Box(0, 255, (12, 10, 3), np.uint8)
SMALL_NET = {"conv_filters": [[4, 3, 2], [6, [3, 2], 1]]}
LSTM, GRU = ({key: True, "lstm_cell_size": 6} for key in ("use_lstm", "use_gru"))
ATTENTION = {
    "use_attention": True, "attention_dim": 6, "attention_head_dim": 3, "attention_num_heads": 2, "attention_memory_inference": 2,
    "attention_position_wise_mlp_dim": 5, "attention_num_transformer_units": 2,
}  # fmt: skip
BACK = {"lstm_use_prev_action": True, "lstm_use_prev_reward": True}
FILTER = {"observation_filter": "MeanStdFilter"}
ATOMS = {"options": {"dueling": True, "num_atoms": 7, "v_min": -2.0, "v_max": 3.0}}
NOISE = {"exploration": ExplorationConfig(type="GaussianNoise", initial_scale=0.7)}


def activated(name: str) -> dict[str, tuple[Any, Any, str, dict[str, Any]]]:
    """Layers and a vision net with an activation; outputs of a value policy are compared as numbers."""
    layers = {"fcnet_activation": name, "post_fcnet_hiddens": [5], "post_fcnet_activation": name}
    return {
        f"{name} layers": (FLAT, FOUR, "value", layers),
        f"{name} vision": (IMAGE, FOUR, "value", {**SMALL_NET, "conv_activation": name}),
    }


GRAPHS: dict[str, tuple[Any, Any, str, dict[str, Any]]] = {
    # observations
    "box": (FLAT, FOUR, "stochastic", {}),
    "single number": (spaces.Box(-1, 1, (), np.float32), FOUR, "stochastic", {}),
    "doubles": (spaces.Box(-1, 1, (2, 2), np.float64), FOUR, "value", {}),
    "whole numbers": (spaces.Box(-9, 9, (3,), np.int16), FOUR, "value", {}),
    "bytes": (spaces.Box(0, 200, (3,), np.uint8), FOUR, "stochastic", {}),
    "choice": (spaces.Discrete(5, start=2), FOUR, "value", {}),
    "choices": (spaces.MultiDiscrete([2, 4, 3], start=[0, 5, 1]), FOUR, "stochastic", FILTER),
    "bits": (spaces.MultiBinary([2, 3]), FOUR, "value", {}),
    "parts": (PARTS, FOUR, "stochastic", FILTER),
    "tuple": (spaces.Tuple([FLAT, spaces.Discrete(3)]), FOUR, "value", {"agent_id": True}),
    # networks
    "no layers": (FLAT, FOUR, "stochastic", {"fcnet_hiddens": []}),
    "relu and more layers": (FLAT, FOUR, "value", {"fcnet_activation": "relu", "post_fcnet_hiddens": [5, 5]}),
    "filter": (FLAT, FOUR, "stochastic", FILTER),
    "seats": (FLAT, FOUR, "stochastic", {"agent_id": True, **FILTER}),
    "vision": (IMAGE, FOUR, "stochastic", SMALL_NET),
    "vision by default, with a seat": (IMAGE, FOUR, "value", {"agent_id": True, **FILTER}),
    "grey, smaller, from -1": (IMAGE, FOUR, "stochastic", {**SMALL_NET, "grayscale": True, "dim": 7, "zero_mean": True}),
    "larger": (IMAGE, FOUR, "value", {**SMALL_NET, "dim": 14, "conv_activation": "tanh"}),
    "padded": (IMAGE, FOUR, "value", {"conv_filters": [[4, 3, 2], [5, [4, 2], 2], [6, [3, 3], 1]], "conv_padding": "same"}),
    "without channels": (spaces.Box(0, 255, (9, 9), np.uint8), FOUR, "value", {"conv_filters": [[3, 3, 2]]}),
    "lstm": (FLAT, FOUR, "stochastic", LSTM),
    "lstm that looks back": (FLAT, MOVES, "stochastic", {**LSTM, **BACK, **FILTER, "post_fcnet_hiddens": [5]}),
    "lstm alone": (FLAT, FOUR, "value", {**LSTM, "fcnet_hiddens": []}),
    "gru": (FLAT, FOUR, "value", GRU),
    "attention": (FLAT, FOUR, "value", ATTENTION),
    "attention that looks back": (
        PARTS, MOVES, "stochastic",
        {**ATTENTION, "attention_use_n_prev_actions": 3, "attention_use_n_prev_rewards": 2, "attention_dim": 5},
    ),
    "attention with one reward": (FLAT, FOUR, "value", {**ATTENTION, "attention_use_n_prev_rewards": 1, "masked": True}),
    "gru that looks back": (PARTS, FOUR, "value", {**GRU, **BACK, "masked": True, "agent_id": True}),
    **{graph: made for name in ACTIVATIONS for graph, made in activated(name).items()},
    # heads and actions
    "masked logits": (FLAT, spaces.Discrete(7), "stochastic", {"masked": True}),
    "masked values": (FLAT, spaces.Discrete(7), "value", {"masked": True}),
    "masked choices": (FLAT, spaces.MultiDiscrete([3, 4]), "stochastic", {"masked": True}),
    "masked mixture": (FLAT, MOVES, "stochastic", {"masked": True}),
    "masked actor": (FLAT, spaces.MultiDiscrete([3, 4]), "deterministic", {"masked": True}),
    "masked soft choice": (FLAT, spaces.Discrete(5), "squashed", {"masked": True}),
    "dueling": (FLAT, FOUR, "value", {"spec": {"options": {"dueling": True}}}),
    "atoms": (FLAT, FOUR, "value", {"spec": ATOMS, "masked": True}),
    "atoms without dueling": (FLAT, FOUR, "value", {"spec": {"options": {**ATOMS["options"], "dueling": False}}}),
    "bits to set": (FLAT, spaces.MultiBinary(3), "stochastic", {}),
    "normal": (FLAT, PUSH, "stochastic", {}),
    "normal with a free deviation": (FLAT, PUSH, "stochastic", {"free_log_std": True, "vf_share_layers": True}),
    "normal with noise": (FLAT, PUSH, "stochastic", {"spec": NOISE}),
    "mixed with a value": (FLAT, MOVES, "stochastic", {"vf_share_layers": True, "free_log_std": True}),
    "scaled value": (FLAT, FOUR, "stochastic", {"vf_share_layers": True, "spec": {"options": {"normalize_values": True}}}),
    "whole numbers to play": (FLAT, spaces.Box(0, 9, (2,), np.uint8), "stochastic", {}),
    "squashed": (FLAT, PUSH, "squashed", {}),
    "squashed with a free deviation": (FLAT, PUSH, "squashed", {"free_log_std": True}),
    "deterministic": (FLAT, PUSH, "deterministic", {}),
    "deterministic with drifting noise": (
        FLAT, PUSH, "deterministic", {"spec": {"exploration": ExplorationConfig(type="OrnsteinUhlenbeckNoise")}}
    ),
    "deterministic mixed": (PARTS, MOVES, "deterministic", {}),
}  # fmt: skip


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_decides_as_its_policy_does_on_a_thousand_observations(graph: str) -> None:
    seen, moves, acts, keys = GRAPHS[graph]
    policy, spec = policy_of(seen, moves, acts, **keys)
    if getattr(policy, "value_scale", None) is not None:
        policy.value_scale.observe(torch.tensor([30.0, 50.0]), None)
    made = onnx_of("p", policy, spec, ActionUnits())
    outputs = compare(policy, made.content)
    numbers = expected_numbers(policy, outputs.pop("inputs"), outputs.pop("before"))
    told = {port["name"]: port for port in made.about["outputs"]}
    assert outputs.keys() == told.keys()
    assert {name for name in outputs if not name.startswith(("action", "carry"))} == numbers.keys()
    for name, values in numbers.items():
        np.testing.assert_allclose(outputs[name], values, **CLOSE)
    for name, values in outputs.items():
        assert ["N", *values.shape[1:]] == told[name]["shape"]
        assert values.dtype.name == told[name]["dtype"]


def expected_numbers(policy: Any, inputs: Any, carry: Any) -> dict[str, Any]:
    """What the policy's own network gives besides the action, by the names of the outputs."""
    obs, index, legal = tensors(inputs)
    state = torch.zeros(len(obs), policy.carry_size) if carry is None else torch.from_numpy(carry)
    with torch.no_grad():
        if isinstance(policy, ValuePolicy):
            values = policy.step(obs, index, state)[0] if carry is not None else policy.values(obs, index)
            return {"q_values": values.masked_fill(~legal, -1e9) if legal.shape[1] else values}
        if isinstance(policy, StochasticPolicy):
            out = policy.model.step(obs, index, state)[0]
            value = {"value": out[:, -1]} if policy.shares_value else {}
            if policy.value_scale is not None:
                value["value"] = out[:, -1] * 10.0 + 40.0
            return {**parts_of(policy, policy._params(out, legal)), **value}
        if isinstance(policy, SquashedPolicy):
            return parts_of(policy, policy(obs, index, legal))
        out = policy._outputs(inputs)[:, : policy.columns.options]
        return {"logits": out} if out.shape[1] else {}


def parts_of(policy: Any, params: Any) -> dict[str, Any]:
    columns = policy.kind.columns
    logits, rest = params[:, : columns.options], params[:, columns.options :]
    mean, log_std = rest.chunk(2, 1)
    found = {"logits": logits} if columns.options else {}
    return {**found, "mean": mean, "std": log_std.exp()} if columns.numbers else found


@pytest.mark.parametrize("acts", ["stochastic", "squashed", "deterministic"])
@pytest.mark.parametrize("keys", [{"normalize_actions": False}, {"normalize_actions": False, "clip_actions": True}])
def test_actions_are_in_the_units_of_the_run(acts: str, keys: dict[str, Any]) -> None:
    policy, spec = policy_of(FLAT, PUSH, acts)
    units = ActionUnits(**keys)
    outputs = compare(policy, onnx_of("p", policy, spec, units).content, units)
    beyond = (outputs["action"] < PUSH.low) | (outputs["action"] > PUSH.high)
    assert beyond.any() == (not units.clip_actions)


def test_whole_numbers_never_leave_their_bounds() -> None:
    moves = spaces.Box(0, 1, (2,), np.uint8)
    policy, spec = policy_of(FLAT, moves)
    units = ActionUnits(normalize_actions=False)
    outputs = compare(policy, onnx_of("p", policy, spec, units).content, units)
    assert outputs["mean"].min() < -1 < 2 < outputs["mean"].max()
    assert set(np.unique(outputs["action"])) == {0, 1}


def test_a_double_keeps_to_bounds_that_a_float_misses() -> None:
    moves = spaces.Box(-0.1, 0.1, (3,), np.float64)  # float32 of 0.1 is larger
    policy, spec = policy_of(FLAT, moves, "deterministic")
    policy.set_weights({name: 100 * weights for name, weights in policy.get_weights().items()})
    outputs = compare(policy, onnx_of("p", policy, spec, ActionUnits()).content)
    assert (outputs["action"] == 0.1).any()
    assert (outputs["action"] == -0.1).any()


def test_numbers_ten_deviations_from_the_mean_are_cut() -> None:
    policy, spec = policy_of(FLAT, FOUR, **FILTER)
    assert isinstance(policy, StochasticPolicy)
    assert policy.model.filter is not None
    policy.model.filter.squares *= 1e-4  # as if it had seen nearly the same all the time
    outputs = compare(policy, onnx_of("p", policy, spec, ActionUnits()).content)
    far = policy.model.filter(policy.features(*tensors(outputs["inputs"])[:2])).abs()
    assert (far == 10).any()


def test_values_are_told_in_rewards_whatever_unit_the_network_counts_in() -> None:
    policy, spec = policy_of(FLAT, FOUR, "value", spec={"options": {"dueling": True, "units": True}})
    assert isinstance(policy, ValuePolicy)
    policy.set_unit(0.25, keep_values=False)
    outputs = compare(policy, onnx_of("p", policy, spec, ActionUnits()).content)
    numbers = expected_numbers(policy, outputs["inputs"], None)
    np.testing.assert_allclose(outputs["q_values"], numbers["q_values"], **CLOSE)
    with torch.no_grad():
        out = policy.model(*tensors(outputs["inputs"])[:2])
    advantages = out[:, 1:] - out[:, 1:].mean(1, keepdim=True)
    np.testing.assert_allclose(outputs["q_values"], 0.25 * (out[:, :1] + advantages), **CLOSE)


def test_logits_that_cannot_be_told_apart_are_equal() -> None:
    policy, spec = policy_of(FLAT, FOUR, fcnet_hiddens=[])
    weights = policy.get_weights()
    weights["model.network.weights.0"] *= 0
    weights["model.network.biases.0"][:] = [0, 1e-9, 2e-9, 0]
    policy.set_weights(weights)
    outputs = compare(policy, onnx_of("p", policy, spec, ActionUnits()).content, rows=2)
    assert outputs["action"].tolist() == [3, 3]  # the first one, as the policy says


def test_the_average_strategy_is_given_as_logits_to_draw_from() -> None:
    policy, spec = policy_of(FLAT, FOUR, "nfsp", masked=True)
    assert isinstance(policy, NfspPolicy)
    made = onnx_of("p", policy, spec, ActionUnits())
    played = session(made.content)
    assert [port.name for port in played.get_outputs()] == ["logits"]
    assert made.about["plays"] == "draw the action by softmax(logits)"
    obs = np.random.default_rng(0).uniform(-2, 2, (1000, 4)).astype(np.float32)
    masks = np.random.default_rng(1).random((1000, 4)) < 0.7
    (logits,) = played.run(None, {"obs": obs, "action_mask": masks})
    with torch.no_grad():
        expected = policy.logits(torch.from_numpy(obs), torch.zeros(1000, dtype=torch.int64), torch.from_numpy(masks))
    np.testing.assert_allclose(logits, expected, **CLOSE)
    assert (logits[~masks] == -1e9).all()


def test_no_mask_lets_an_illegal_action_through() -> None:
    policy, spec = policy_of(FLAT, spaces.Discrete(6), masked=True)
    played = session(onnx_of("p", policy, spec, ActionUnits()).content)
    obs = np.zeros((6, 4), np.float32)
    (actions,) = played.run(["action"], {"obs": obs, "action_mask": np.eye(6, dtype=bool)})
    assert actions.tolist() == list(range(6))


def test_batches_of_every_size_are_taken_also_empty_ones() -> None:
    for moves, keys in ((MOVES, {**LSTM, **BACK, "masked": True, "free_log_std": True}), (FOUR, {"agent_id": True})):
        policy, spec = policy_of(PARTS, moves, **keys)
        content = onnx_of("p", policy, spec, ActionUnits()).content
        for rows in (1, 3):
            compare(policy, content, rows=rows * 10 if policy.carry_size else rows)
        played = session(content)
        feeds = {port.name: np.zeros((0, *port.shape[1:]), _dtype(port.type)) for port in played.get_inputs()}
        assert all(len(values) == 0 for values in played.run(None, feeds))


def _dtype(text: str) -> Any:
    name = text.removeprefix("tensor(").removesuffix(")")
    return {"float": np.float32, "double": np.float64, "bool": np.bool_}.get(name) or np.dtype(name)


def test_the_same_policy_gives_the_same_bytes() -> None:
    policy, spec = policy_of(PARTS, MOVES)
    first, again = (onnx_of("p", policy, spec, ActionUnits()).content for _ in range(2))
    assert first == again


def test_parts_whose_names_have_dots_stay_apart() -> None:
    seen = spaces.Dict({"a.b": FLAT, "a": spaces.Dict({"b": FLAT})})
    policy, spec = policy_of(seen, FOUR)
    names = [port["name"] for port in onnx_of("p", policy, spec, ActionUnits()).about["inputs"]]
    assert sorted(names) == ["obs.a%2Eb", "obs.a.b"]
