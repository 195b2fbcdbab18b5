"""Memory by attention: what it computes, what it remembers and forgets, and what each of its keys does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from marl.data.task import AgentType
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.policies.attention import Attention, Gate, Unit, sinusoids
from marl.policies.config import ModelConfig
from marl.policies.memories import MEMORIES
from marl.policies.memory import Last, by_steps
from marl.policies.networks import Body, Sequences, seeded
from marl.scenario.load import compose

KIND = AgentType("k", ("a", "b"), spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2))
SMALL = {
    "use_attention": True, "attention_dim": 6, "attention_head_dim": 4, "attention_num_heads": 2,
    "attention_memory_inference": 3, "attention_position_wise_mlp_dim": 5,
}  # fmt: skip
LOOKS_BACK = {"attention_use_n_prev_actions": 3, "attention_use_n_prev_rewards": 2}
MODELS: list[dict[str, Any]] = [
    SMALL, {**SMALL, "attention_num_transformer_units": 3}, {**SMALL, **LOOKS_BACK}, {**SMALL, "attention_use_n_prev_rewards": 1},
    {**SMALL, "attention_num_transformer_units": 2, "attention_memory_inference": 9, "attention_dim": 5},
]  # fmt: skip


def body(**keys: Any) -> Body:
    model = Body(KIND, ModelConfig(fcnet_hiddens=[8], **{**SMALL, **keys}), 2, seeded(0))
    _liven(model)
    return model


def _liven(model: Body) -> None:
    """Biases begin at 0 and gates nearly closed, where much could be wrong unseen."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 or parameter.shape == (2, 4):
                parameter.copy_(torch.randn(parameter.shape, generator=generator))


def played(model: Body, decisions: int, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    obs = torch.randn(decisions, 3, generator=generator)
    return obs, torch.randint(0, 2, (decisions,), generator=generator), torch.randn(decisions, generator=generator)


def alone(model: Body, obs: Tensor, actions: Tensor, rewards: Tensor) -> tuple[Tensor, Tensor]:
    """One life, decision by decision: outputs ``[T, outputs]`` and the carries ``[T, carry_size]`` before them."""
    carry, outs, carries = torch.zeros(1, model.carry_size), [], []
    for t in range(len(obs)):
        out, memory = model.step(obs[t : t + 1], torch.zeros(1, dtype=torch.long), carry)
        outs.append(out)
        carries.append(carry)
        carry = model.carried(memory, actions[t : t + 1], rewards[t : t + 1])
    return torch.cat(outs), torch.cat(carries)


@pytest.mark.parametrize("keys", MODELS)
def test_whole_sequences_give_what_single_decisions_give(keys: dict[str, Any]) -> None:
    model = body(**keys)
    obs, actions, rewards = played(model, 14)
    outs, carries = alone(model, obs, actions, rewards)
    lengths = torch.tensor([1, 6, 3, 4])  # of one life, cut into pieces that begin in its middle
    starts = torch.cumsum(lengths, 0) - lengths
    at_once = model.unroll(
        obs, torch.zeros(14, dtype=torch.long), Sequences(lengths, carries[starts], actions, rewards)
    )
    torch.testing.assert_close(at_once, outs, atol=1e-5, rtol=1e-5)


def test_gradients_of_whole_sequences_are_those_of_the_loop() -> None:
    found = []
    for whole in (True, False):
        model = body(attention_num_transformer_units=2, **LOOKS_BACK)
        assert isinstance(model.memory, Attention)
        obs, actions, rewards = played(model, 9)
        given = Sequences(torch.tensor([5, 4]), torch.zeros(2, model.carry_size), actions, rewards)
        if whole:
            out = model.unroll(obs, torch.zeros(9, dtype=torch.long), given)
        else:
            x = model._before_memory(obs, torch.zeros(9, dtype=torch.long))
            out = by_steps(model.memory, (x, model._last(given)), torch.zeros(2, model.memory_size), given.lengths)
            assert model.head is not None
            out = model.head(out)
        (out * torch.arange(18.0).view(9, 2)).sum().backward()
        found.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert one.abs().sum() > 0
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("memory", "units"), [(3, 1), (1, 1), (2, 2), (2, 3)])
def test_a_memory_of_m_decisions_forgets_after_m_per_unit(memory: int, units: int) -> None:
    model = body(attention_memory_inference=memory, attention_num_transformer_units=units)
    obs, actions, rewards = played(model, 9)
    obs.requires_grad_(True)
    outs, _ = alone(model, obs, actions, rewards)
    (slopes,) = torch.autograd.grad(outs[8].sum(), obs)
    seen = slopes.abs().sum(1) > 0
    # A unit sees what the one below it made of M decisions before, so units together see further back.
    furthest = memory * units
    assert seen.tolist() == [8 - t <= furthest for t in range(9)]


def test_the_same_holds_within_a_training_sequence() -> None:
    model = body(attention_memory_inference=2)
    obs, actions, rewards = played(model, 7)
    obs.requires_grad_(True)
    given = Sequences(torch.tensor([7]), torch.zeros(1, model.carry_size), actions, rewards)
    out = model.unroll(obs, torch.zeros(7, dtype=torch.long), given)
    (slopes,) = torch.autograd.grad(out[5].sum(), obs)
    assert (slopes.abs().sum(1) > 0).tolist() == [False, False, False, True, True, True, False]


def test_a_sequence_begins_with_at_most_attention_memory_training_of_what_is_remembered() -> None:
    obs, actions, rewards = played(body(), 5)
    outs = []
    for training in (0, 2, 3, 50, 10**30):
        model = body(attention_memory_training=training)
        _, carries = alone(model, obs, actions, rewards)
        given = Sequences(torch.tensor([1]), carries[4:].requires_grad_(True), actions[4:], rewards[4:])
        out = model.unroll(obs[4:], torch.zeros(1, dtype=torch.long), given)
        (slopes,) = torch.autograd.grad(out.sum(), given.carry)
        inputs = slopes[0, 1:19].view(3, 6).abs().sum(1) > 0
        assert inputs.tolist() == [3 - i <= training for i in range(3)]
        outs.append(out)
    assert torch.equal(outs[2], outs[3])
    assert torch.equal(outs[2], outs[4])  # as many as there are
    assert not torch.equal(outs[0], outs[2])


def test_places_that_hold_nothing_yet_are_not_seen_whatever_stands_in_them() -> None:
    model = body()
    obs, index = torch.randn(1, 3), torch.zeros(1, dtype=torch.long)
    empty = torch.zeros(1, model.carry_size)
    dirty = torch.full((1, model.carry_size), 7.0).index_fill(1, torch.tensor([0]), 0.0)
    assert torch.equal(model.step(obs, index, empty)[0], model.step(obs, index, dirty)[0])


@pytest.mark.parametrize(("given", "means"), [(-5.0, 0.0), (99.0, 3.0)])
def test_a_count_from_outside_is_read_as_the_nearest_that_can_be(given: float, means: float) -> None:
    model = body()
    obs, index = torch.randn(1, 3), torch.zeros(1, dtype=torch.long)
    carry = torch.randn(1, model.carry_size)
    outs = []
    for count in (given, means):
        carry[:, 0] = count
        outs.append(torch.cat(model.step(obs, index, carry), dim=1))
    assert torch.equal(outs[0], outs[1])
    assert outs[0].isfinite().all()


def test_the_carry_counts_what_is_remembered_and_holds_the_last_inputs_oldest_first() -> None:
    model = body()
    obs, actions, rewards = played(model, 6)
    _, carries = alone(model, obs, actions, rewards)
    assert carries[:, 0].tolist() == [0, 1, 2, 3, 3, 3]
    assert isinstance(model.memory, Attention)
    inputs = torch.nn.functional.linear(model.network(obs), model.memory.w_in, model.memory.b_in)
    torch.testing.assert_close(carries[5, 1:].view(3, 6), inputs[2:5])
    for steps in (2, 5):  # many steps at once leave the same
        _, after = model.memory.look(model.network(obs[None, :steps]), carries[:1])
        torch.testing.assert_close(after[0], carries[steps])


def test_so_many_last_actions_and_rewards_are_shown_with_every_input() -> None:
    model = body(**LOOKS_BACK)
    assert isinstance(model.memory, Attention)
    assert (model.prev_action, model.prev_reward) == (2, 1)
    shown: list[Tensor] = []
    model.memory.w_in.register_hook(lambda slopes: shown.append(slopes))
    obs, _, _ = played(model, 5)
    actions, rewards = torch.tensor([0, 1, 1, 0, 1]), torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5])
    _, carries = alone(model, obs, actions, rewards)
    # What the first layer is shown stands in the gradient of its weights.
    out, _ = model.step(obs[4:], torch.zeros(1, dtype=torch.long), carries[4:].detach())
    out.sum().backward()
    # Features come first; a row of the gradient is what was shown times one number.
    ratio = shown[0][:, 8:] / shown[0][:, :1] * model.network(obs[4:])[0, 0]
    expected = [0, 1, 0, 1, 1, 0, 2.5, 3.5]  # actions 1, 1, 0, then the last two rewards, oldest first
    torch.testing.assert_close(ratio[0], torch.tensor(expected, dtype=torch.float32), atol=1e-4, rtol=1e-3)


# -- against the papers, written out with loops ------------------------------------------------------------------------


def by_hand(unit: Unit, remembered: Tensor, x: Tensor) -> Tensor:
    """One decision of a unit: ``[M, size]`` and ``[size]`` to ``[size]``."""
    rows = [*remembered, x]
    normed = [_normal(unit.norm, row) for row in rows]
    heads = []
    for h in range(unit.heads):
        part = slice(h * unit.head_dim, (h + 1) * unit.head_dim)
        query = unit.w_query[part] @ normed[-1]
        scores = []
        for j, row in enumerate(normed):
            away = len(rows) - 1 - j
            place = unit.w_place[part] @ _position(away, len(x))
            score = (query + unit.content_bias[h]) @ (unit.w_key[part] @ row) + (query + unit.place_bias[h]) @ place
            scores.append(score / math.sqrt(unit.head_dim))
        weights = torch.stack(scores).softmax(0)
        values = torch.stack([unit.w_value[part] @ row for row in normed])
        heads.append(weights @ values)
    y = _gated(unit.gate, x, torch.relu(unit.w_out @ torch.cat(heads)))
    inner = torch.relu(unit.w_first @ _normal(unit.norm_mlp, y) + unit.b_first)
    return _gated(unit.gate_mlp, y, torch.relu(unit.w_second @ inner + unit.b_second))


def _normal(norm: torch.nn.LayerNorm, x: Tensor) -> Tensor:
    return (x - x.mean()) / (x.var(unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias


def _position(away: int, size: int) -> Tensor:
    half = (size + 1) // 2
    angles = [away / 10_000 ** (2 * i / size) for i in range(half)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)])[:size]


def _gated(gate: Gate, x: Tensor, y: Tensor) -> Tensor:
    n = gate.size
    w_r, w_z, w_g = gate.from_y[:n], gate.from_y[n : 2 * n], gate.from_y[2 * n :]
    u_r, u_z = gate.from_x[:n], gate.from_x[n:]
    r = torch.sigmoid(w_r @ y + u_r @ x)
    z = torch.sigmoid(w_z @ y + u_z @ x - gate.bias)
    h = torch.tanh(w_g @ y + gate.from_kept @ (r * x))
    return (1 - z) * x + z * h


@pytest.mark.parametrize("size", [6, 5])
def test_a_unit_computes_the_equations_of_its_papers(size: int) -> None:
    model = body(attention_dim=size)
    assert isinstance(model.memory, Attention)
    obs, actions, rewards = played(model, 5)
    _, carries = alone(model, obs, actions, rewards)
    x = model.memory.w_in @ model.network(obs[4:])[0] + model.memory.b_in
    unit = model.memory.units[0]
    assert isinstance(unit, Unit)
    expected = by_hand(unit, carries[4, 1:].view(3, size), x)
    found, _ = model.memory(model.network(obs[4:]), carries[4:])
    torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(sinusoids(4, size)[3], _position(3, size))


def test_a_large_gate_bias_lets_inputs_through_unchanged() -> None:
    off = []
    for bias in (0.0, 2.0, 20.0):
        made = Attention(4, ModelConfig(**{**SMALL, "attention_init_gru_gate_bias": bias}), Last(0, 0), seeded(0))
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
        inputs = torch.nn.functional.linear(x, made.w_in, made.b_in)
        off.append(float((made(x, torch.zeros(16, made.carry_size))[0] - inputs).abs().mean().detach()))
    assert off[0] > 1.5 * off[1] > 0.1 * off[1] > off[2]
    assert off[2] < 1e-4


# -- keys ----------------------------------------------------------------------------------------------------------------


def test_every_key_changes_what_is_built() -> None:
    usual = Body(KIND, ModelConfig(fcnet_hiddens=[8], use_attention=True), 2, seeded(0))
    assert usual.carry_size == 1 + 50 * 64
    assert usual.summary().splitlines()[0] == (
        "3 features -> 8 tanh -> attention of 64 over 50 inputs, 1 x -> 2 outputs; remembers 3201 numbers"
    )
    unit = usual.memory.units[0] if isinstance(usual.memory, Attention) else None
    assert isinstance(unit, Unit)
    assert (unit.heads, unit.head_dim, unit.w_first.shape) == (1, 32, (32, 64))
    assert unit.gate.bias.tolist() == [2.0] * 64
    assert list(MEMORIES) == ["use_lstm", "use_gru", "use_attention"]


@pytest.mark.parametrize("bias", [1e300, -1e300, math.nan])
def test_a_gate_bias_that_no_float_holds_is_refused(bias: float) -> None:
    with pytest.raises(ConfigError, match="attention_init_gru_gate_bias"):
        compose({"env": "two_step_game", "algo": "ppo", "use_attention": True, "attention_init_gru_gate_bias": bias})


@pytest.mark.parametrize("key", ["delay", "length"])
def test_delays_and_lengths_that_no_counter_holds_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = 1"):
        make_batched_env("repeat_after_delay", 1, {key: 10**20})
