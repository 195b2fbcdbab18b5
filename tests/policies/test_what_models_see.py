"""What custom models and memories are shown besides the observation: the last action and the last reward, in this order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

import marl
from marl.data.batch import SampleBatch
from marl.data.task import AgentType
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.memories import carry_count
from marl.policies.networks import Body, Sequences, action_width, encode_actions, seeded
from marl.policies.size import parameter_count

KIND = AgentType("k", ("a", "b"), spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(3))
MIXED = AgentType(
    "m", ("a",), spaces.Box(-9, 9, (2,), np.float32),
    spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2))),
)  # fmt: skip


class Echo(marl.Model):
    """Gives back all that it is shown and, at the end, what it has remembered: it counts its steps."""

    carry_size = 2

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        assert features.shape[1] == self.inputs
        out = torch.zeros(len(features), self.outputs)
        out[:, : self.inputs] = features
        out[:, -2:] = carry
        return out, carry + torch.tensor([1.0, 10.0])


def echo(kind: AgentType = KIND, **keys: bool) -> Body:
    return Body(kind, ModelConfig(custom_model=f"{__name__}:Echo", **keys), 12, seeded(0))


LAST: list[tuple[dict[str, bool], list[float]]] = [
    ({}, []),
    ({"lstm_use_prev_reward": True}, [0.5]),
    ({"lstm_use_prev_action": True}, [0.0, 0.0, 1.0]),
    ({"lstm_use_prev_action": True, "lstm_use_prev_reward": True}, [0.0, 0.0, 1.0, 0.5]),
]


@pytest.mark.parametrize(("keys", "last"), LAST)
def test_a_custom_model_is_told_how_much_it_is_shown_and_is_shown_it(keys: dict[str, bool], last: list[float]) -> None:
    model = echo(**keys)
    assert isinstance(model.network, Echo)
    assert model.network.inputs == 2 + len(last)
    assert model.memory_size == 2
    assert model.carry_size == 2 + len(last)
    carry = model.carried(torch.tensor([[3.0, 4.0]]), torch.tensor([2]), torch.tensor([0.5]))
    assert carry.tolist() == [[3.0, 4.0, *last]]
    out, memory = model.step(torch.tensor([[7.0, 8.0]]), torch.tensor([0]), carry)
    assert out[0].tolist() == [7.0, 8.0, *last, *[0.0] * (8 - len(last)), 3.0, 4.0]
    assert memory.tolist() == [[4.0, 14.0]]


@pytest.mark.parametrize(("keys", "last"), LAST)
def test_in_sequences_each_row_is_shown_what_the_row_before_did(keys: dict[str, bool], last: list[float]) -> None:
    model = echo(**keys)
    lengths = torch.tensor([1, 3, 2])
    actions, rewards = torch.tensor([0, 1, 2, 0, 2, 1]), torch.arange(6) / 8
    first = torch.arange(3.0)[:, None].repeat(1, model.carry_size) + 20
    obs = torch.arange(12.0).view(6, 2)
    out = model.unroll(obs, torch.zeros(6, dtype=torch.long), Sequences(lengths, first, actions, rewards))
    row = 0
    for sequence, length in enumerate(lengths.tolist()):
        for step in range(length):
            shown = [20.0 + sequence] * len(last)
            if step:
                action = [float(actions[row - 1] == a) for a in range(3)] if "lstm_use_prev_action" in keys else []
                shown = [*action, *([float(rewards[row - 1])] if "lstm_use_prev_reward" in keys else [])]
            assert out[row, : 2 + len(last)].tolist() == [*obs[row].tolist(), *shown]
            assert out[row, -2:].tolist() == [20.0 + sequence + step, 20.0 + sequence + 10 * step]
            row += 1


def test_actions_of_several_parts_are_shown_as_one_hot_choices_then_numbers() -> None:
    columns = MIXED.columns
    assert action_width(columns) == 3 + 2 + 2
    table = np.zeros((2, len(columns.choices) + len(columns.numbers)), np.float32)
    for row, (choices, numbers) in enumerate([((2, 0), (0.5, -0.5)), ((1, 1), (0.25, 1.0))]):
        table[row, list(columns.choices)] = choices
        table[row, list(columns.numbers)] = numbers
    assert encode_actions(columns, torch.from_numpy(table)).tolist() == [
        [0, 0, 1, 1, 0, 0.5, -0.5],
        [0, 1, 0, 0, 1, 0.25, 1.0],
    ]


@pytest.mark.parametrize("keys", [{"use_lstm": True}, {"use_gru": True}])
def test_a_memory_is_as_wide_as_its_cells_and_its_input_holds_what_was_last(keys: dict[str, Any]) -> None:
    model = Body(
        KIND, ModelConfig(fcnet_hiddens=[4], lstm_cell_size=5, lstm_use_prev_action=True, lstm_use_prev_reward=True, **keys),
        2, seeded(0),
    )  # fmt: skip
    memory = 10 if "use_lstm" in keys else 5
    assert (model.memory_size, model.carry_size) == (memory, memory + 3 + 1)
    obs, index = torch.tensor([[1.0, -1.0]]), torch.tensor([0])
    outs = [model.step(obs, index, torch.zeros(1, model.carry_size).index_fill(1, torch.tensor([i]), 1.0))[0]
            for i in range(memory, memory + 4)]  # fmt: skip
    plain = model.step(obs, index, torch.zeros(1, model.carry_size))[0]
    assert all(not torch.allclose(plain, out) for out in outs)  # each of the four numbers matters


def test_a_critic_looks_at_one_moment_whatever_the_model_remembers() -> None:
    model = Body(
        KIND, ModelConfig(fcnet_hiddens=[4], use_lstm=True, lstm_use_prev_reward=True), 2, seeded(0), memory=False
    )  # fmt: skip
    assert (model.carry_size, model.memory_size, model.memory) == (0, 0, None)
    custom = Body(KIND, ModelConfig(fcnet_hiddens=[4], custom_model=f"{__name__}:Echo"), 2, seeded(0), memory=False)
    assert custom.carry_size == 0
    assert not isinstance(custom.network, Echo)


def test_rows_of_a_batch_are_judged_with_the_carry_they_were_played_with() -> None:
    model = echo(lstm_use_prev_reward=True)
    obs = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    carry = np.array([[0.0, 0.0, 5.0, 99.0], [0.0, 0.0, 6.0, 99.0]], np.float32)  # another policy remembers more
    batch = SampleBatch({"obs": obs, "agent_index": np.zeros(2, np.int64), "carry": carry})
    assert model.from_batch(batch)[:, :3].tolist() == [[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]]
    plain = Body(KIND, ModelConfig(fcnet_hiddens=[4]), 2, seeded(0))
    torch.testing.assert_close(plain.from_batch(batch), plain(torch.from_numpy(obs), torch.zeros(2, dtype=torch.long)))


def test_a_filter_learns_from_features_and_leaves_the_seat_alone() -> None:
    model = Body(
        KIND, ModelConfig(fcnet_hiddens=[4], observation_filter="MeanStdFilter"), 2, seeded(0), agent_id=True
    )  # fmt: skip
    rng = np.random.default_rng(0)
    obs = rng.normal(3.0, 2.0, (400, 2)).astype(np.float32)
    model.observe(obs, np.zeros(400, np.int64))
    seen = model.encode(torch.from_numpy(obs), torch.ones(400, dtype=torch.long)).detach().numpy()
    assert seen[:, :2].mean(axis=0) == pytest.approx([0.0, 0.0], abs=1e-2)
    assert seen[:, :2].std(axis=0) == pytest.approx([1.0, 1.0], abs=1e-2)
    assert (seen[:, 2:] == [0.0, 1.0]).all()


def test_the_stages_of_a_model_are_told_in_their_order() -> None:
    image = AgentType("i", ("a",), spaces.Box(0, 255, (42, 42, 1), np.uint8), spaces.Discrete(3))
    model = Body(
        image, ModelConfig(fcnet_hiddens=[8, 6], use_gru=True, lstm_cell_size=5, post_fcnet_hiddens=[4],
                           observation_filter="MeanStdFilter"),
        3, seeded(0),
    )  # fmt: skip
    assert model.vision is not None
    told = f"1764 features -> filter -> vision net of {model.vision.size} -> 8 x 6 tanh -> GRU of 5 -> 4 "
    first = model.summary().splitlines()[0]
    assert first.startswith(told)
    assert first.endswith(" -> 3 outputs; remembers 5 numbers")
    plain = Body(KIND, ModelConfig(fcnet_hiddens=[]), 2, seeded(0), agent_id=True)
    assert plain.summary().splitlines()[0] == "4 features -> 2 outputs"
    assert plain.summary().splitlines()[-1].split() == ["total", str(4 * 2 + 2)]
    assert echo().summary().splitlines()[0] == "2 features -> Echo -> 12 outputs; remembers 2 numbers"


CELLS = {"lstm_cell_size": 5, "lstm_use_prev_action": True}
ATTENTION = {"use_attention": True, "attention_num_heads": 3, "attention_dim": 10, "attention_num_transformer_units": 2}
SIZES: list[dict[str, Any]] = [
    {}, {**CELLS, "use_lstm": True}, {**CELLS, "use_gru": True, "lstm_use_prev_reward": True}, ATTENTION,
    {**ATTENTION, "attention_use_n_prev_actions": 3, "attention_use_n_prev_rewards": 2},
]  # fmt: skip


@pytest.mark.parametrize("keys", SIZES)
def test_the_size_that_is_expected_is_the_size_that_is_built(keys: dict[str, Any]) -> None:
    model = ModelConfig(fcnet_hiddens=[6, 4], post_fcnet_hiddens=[7], **keys)
    spec = PolicySpec("value", 0, model)
    built = Body(KIND, model, KIND.columns.options, seeded(0))
    assert parameter_count(spec, KIND) == sum(parameter.numel() for parameter in built.parameters())
    assert carry_count(model, KIND) == built.carry_size
