"""Values of a team's members, each by the policy that plays it, against one member and one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from marl.algos.qmix.teams import Team
from marl.algos.qmix.values import MemberValues
from marl.algos.transitions import JointObs
from marl.data.batch import SampleBatch
from marl.data.replay import Replay
from marl.data.task import AgentType, Task, number_seats
from marl.policies.build import build_policies
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.value import ValuePolicy

TASK = Task(
    number_seats(
        [
            AgentType("wide", ("a", "b", "c"), spaces.Box(-9, 9, (3,), np.float32), spaces.Discrete(4)),
            AgentType("thin", ("d", "e"), spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(2)),
        ]
    )
)
NAMES = {"p": 0, "q": 2, "r": 5}  # numbers as batches have them
STRANGER = 7  # somebody who does not learn here
PLAYERS = {0: [0, 2, STRANGER], 1: [5, STRANGER]}
MEMORY = {"use_lstm": True, "lstm_cell_size": 3}
LAST = {"lstm_use_prev_action": True, "lstm_use_prev_reward": True}


def networks(memory: bool) -> dict[str, ValuePolicy]:
    keys: list[dict[str, Any]] = [MEMORY, {**MEMORY, **LAST}, {**MEMORY, "lstm_use_prev_reward": True}]
    models = [ModelConfig(fcnet_hiddens=[4], **(own if memory else {})) for own in keys]
    specs = {
        name: PolicySpec("value", kind, model, seed=seed)
        for seed, (name, kind, model) in enumerate(zip(NAMES, (0, 0, 1), models, strict=True))
    }
    return build_policies(specs, TASK.kinds)  # type: ignore[return-value]


def team(*seats: int, policy: str | None = None) -> Team:
    return Team("team", seats, Replay(4), policy)


def members(of: Team) -> dict[int, list[int]]:
    """Kind to the columns of its members in a row."""
    kinds = [TASK.kind_of(seat) for seat in of.seats]
    return {k: [i for i, kind in enumerate(kinds) if kind == k] for k in dict.fromkeys(kinds)}


def seen(rows: SampleBatch, when: str) -> JointObs:
    """What members without memory are valued by; whatever else there is to see has no part in it."""
    kinds = [k for k in range(len(TASK.kinds)) if f"{when}obs.{k}" in rows]
    obs = {k: torch.from_numpy(rows[f"{when}obs.{k}"]) for k in kinds}
    index = {k: torch.from_numpy(rows[f"agent_index.{k}"]) for k in kinds}
    nothing = torch.zeros(len(rows), 0)
    return JointObs(obs, {}, index, nothing, rows[f"{when}policy"], nothing, nothing)


def known(found: dict[str, ValuePolicy], number: int) -> ValuePolicy | None:
    return next((found[name] for name, index in NAMES.items() if index == number), None)


@pytest.mark.parametrize("seats", [(0, 1, 2, 3, 4), (1, 2), (0, 3)])
@pytest.mark.parametrize("when", ["", "new_"])
def test_members_without_memory_are_valued_by_whoever_plays_them_and_strangers_by_nobody(
    seats: tuple[int, ...], when: str
) -> None:
    rng, ours, nets = np.random.default_rng(0), team(*seats), networks(memory=False)
    rows, columns = 9, {}
    players = np.zeros((rows, len(seats)), np.int64)
    for k, mine in members(ours).items():
        players[:, mine] = rng.choice(PLAYERS[k], (rows, len(mine)))
        players[0, mine] = PLAYERS[k][0]
        columns[f"{when}obs.{k}"] = rng.normal(size=(rows, len(mine), TASK.kinds[k].obs_width)).astype(np.float32)
        columns[f"agent_index.{k}"] = rng.integers(0, TASK.kinds[k].size, (rows, len(mine)))
    columns[f"{when}policy"] = players
    for part in (slice(None), slice(0, 1)):  # all at once, and a row that one policy of each kind plays alone
        batch = SampleBatch({name: column[part] for name, column in columns.items()})
        found = MemberValues(TASK, NAMES, torch.device("cpu")).at_once(seen(batch, when), nets)
        assert set(found) == set(members(ours))
        for k, mine in members(ours).items():
            assert found[k].shape == (len(batch), len(mine), TASK.kinds[k].columns.options)
            for row in range(len(batch)):
                for i, member in enumerate(mine):
                    net = known(nets, int(batch[f"{when}policy"][row, member]))
                    obs, index = batch[f"{when}obs.{k}"][row, i], batch[f"agent_index.{k}"][row, i]
                    expected = torch.zeros_like(found[k][row, i])
                    if net is not None:
                        expected = net.values(torch.from_numpy(obs[None]), torch.tensor([index]))[0]
                    torch.testing.assert_close(found[k][row, i], expected)


def test_one_stranger_among_rows_of_one_policy_is_worth_nothing() -> None:
    nets = networks(memory=False)
    batch = SampleBatch(
        {
            "policy": np.array([[0], [STRANGER], [0]]),
            "obs.0": np.ones((3, 1, 3), np.float32),
            "agent_index.0": np.zeros((3, 1), np.int64),
        }
    )
    found = MemberValues(TASK, NAMES, torch.device("cpu")).at_once(seen(batch, ""), nets)[0]
    assert found.shape == (3, 1, 4)
    assert found[1].tolist() == [[0.0] * 4]
    assert found[0].tolist() == found[2].tolist() != [[0.0] * 4]


LENGTHS = (4, 2, 3)


def chunks_of(ours: Team, rng: np.random.Generator) -> SampleBatch:
    shape = (len(LENGTHS), max(LENGTHS), len(ours.seats))
    columns: dict[str, Any] = {
        "mask": np.array([[float(step < length) for step in range(shape[1])] for length in LENGTHS], np.float32),
        "present": rng.random(shape) < 0.7,
        "fell": rng.random(shape) < 0.2,
        "member_rewards": rng.normal(size=shape).astype(np.float32),
        "policy": np.zeros(shape, np.int64),
        "new_policy": np.zeros(shape, np.int64),
    }
    for k, mine in members(ours).items():
        kind, some = TASK.kinds[k], (*shape[:2], len(mine))
        columns["policy"][:, :, mine] = rng.choice(PLAYERS[k], some)
        columns["new_policy"][:, :, mine] = rng.choice(PLAYERS[k], some)
        columns[f"obs.{k}"] = rng.normal(size=(*some, kind.obs_width)).astype(np.float32)
        columns[f"new_obs.{k}"] = rng.normal(size=(*some, kind.obs_width)).astype(np.float32)
        columns[f"agent_index.{k}"] = rng.integers(0, kind.size, some)
        columns[f"actions.{k}"] = rng.integers(0, kind.columns.options, some)
        columns[f"carry.{k}"] = rng.normal(size=(len(LENGTHS), len(mine), 11)).astype(np.float32)
    return SampleBatch(columns)


def slow(nets: dict[str, ValuePolicy], chunks: SampleBatch, k: int, where: tuple[int, int, int]) -> list[Tensor]:
    """``[before, after]`` of one member along one chunk."""
    c, i, member = where
    carry = torch.from_numpy(chunks[f"carry.{k}"][c, i].copy())
    zeros = torch.zeros(TASK.kinds[k].columns.options)
    before, after = [], []
    for step in range(LENGTHS[c]):
        net = known(nets, int(chunks["policy"][c, step, member]))
        index = torch.tensor([chunks[f"agent_index.{k}"][c, step, i]])
        value = zeros
        if net is not None:
            size = net.carry_size
            obs = torch.from_numpy(chunks[f"obs.{k}"][c, step, i][None])
            out, memory = net.step(obs, index, carry[None, :size])
            value = out[0]
            if chunks["present"][c, step, member]:
                action = torch.tensor([chunks[f"actions.{k}"][c, step, i]])
                carry = torch.cat([net.model.carried(memory, action, torch.zeros(1))[0], carry[size:]])
            if net.remembers_reward:
                carry = carry.clone()
                carry[size - 1] += float(chunks["member_rewards"][c, step, member])
        before.append(value)
        later = known(nets, int(chunks["new_policy"][c, step, member]))
        seen = torch.from_numpy(chunks[f"new_obs.{k}"][c, step, i][None])
        after.append(zeros if later is None else later.step(seen, index, carry[None, : later.carry_size])[0][0])
        if chunks["fell"][c, step, member]:
            carry = torch.zeros_like(carry)
    return [torch.stack(before), torch.stack(after)]


@pytest.mark.parametrize("seats", [(0, 1, 2, 3, 4), (1, 2), (3,)])
def test_memories_move_on_with_decisions_stand_still_between_them_and_end_with_a_life(seats: tuple[int, ...]) -> None:
    ours, nets = team(*seats), networks(memory=True)
    chunks = chunks_of(ours, np.random.default_rng(3))
    before, after = MemberValues(TASK, NAMES, torch.device("cpu")).over_time(chunks, nets)
    assert all(values.requires_grad for values in before.values())
    assert not any(values.requires_grad for values in after.values())
    for k, mine in members(ours).items():
        for i, member in enumerate(mine):
            for c, length in enumerate(LENGTHS):
                rows = slice(sum(LENGTHS[:c]), sum(LENGTHS[:c]) + length)
                expected = slow(nets, chunks, k, (c, i, member))
                torch.testing.assert_close(before[k][rows, i], expected[0])
                torch.testing.assert_close(after[k][rows, i], expected[1])
