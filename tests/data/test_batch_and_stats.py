"""Batches side by side, summaries, and episode statistics by hand."""

from __future__ import annotations

import numpy as np
import pytest

import marl
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.episode import Episode, EpisodeStats
from marl.data.tree import pack, unpack
from marl.errors import DataError
from marl.training.trainer import Trainer
from tests.small_envs import Scripted, Step, decisions, worker_for

STEPS = [Step(["w_1"], {"m_0": 1}), Step(["w_1"]), Step(["m_0", "w_1"], {"m_0": 4}), Step([], {}, ["__all__"])]


def batches(lengths: list[int]) -> list[MultiAgentBatch]:
    worker = worker_for(lambda _: Scripted(["m_0", "w_1"], STEPS, agents=["m_0", "w_1"]))
    return [worker.collect(n).batch for n in lengths]


def test_grids_with_different_contexts_stand_side_by_side() -> None:
    _, late = batches([2, 4])
    early = batches([4])[0]
    both = MultiAgentBatch.concat([late, early])
    assert both.context == 2
    assert both.t.shape == (6, 2)
    assert both.env_steps == 8
    assert len(both.for_policy("p")) == len(decisions([late])) + len(decisions([early]))


def test_a_single_grid_is_handed_on_without_a_copy() -> None:
    alone = batches([4])[0]
    assert MultiAgentBatch.concat([alone]) is alone


def test_joint_views_are_aligned_slices() -> None:
    batch = batches([4])[0]
    assert batch.stack("obs", [1, 0])[2, 0].tolist() == [
        [1.0, 2.0],
        [0.0, 0.0],
    ]  # the manager's view is its last known one
    assert batch.join("obs", [0, 1])[0, 0].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert batch.stack("rewards", [0])[:, 0, 0].tolist() == [1.0, 0.0, 4.0, 0.0]


def test_agent_steps_count_decisions_and_env_steps_count_steps() -> None:
    batch = batches([4])[0]
    assert (batch.env_steps, batch.agent_steps) == (4, 6)


def test_a_summary_has_one_line_per_column() -> None:
    text = SampleBatch({"rewards": np.array([1.0, 3.0], np.float32), "legal": np.zeros((2, 0), bool)}).summarize()
    assert text.splitlines()[0].split() == ["rewards", "(2,)", "float32", "min", "1", "max", "3", "mean", "2"]
    assert text.splitlines()[1].split() == ["legal", "(2,", "0)", "bool", "empty"]


def stats() -> EpisodeStats:
    """Two episodes: policy 0 plays a and b in the first, only a in the second; policy 1 plays c in the second."""
    return EpisodeStats(
        rewards=np.array([5.0, 7.0], np.float32),
        lengths=np.array([3, 4]),
        agents=["a", "b", "c"],
        agent=np.array([0, 1, 0, 2]),
        episode=np.array([0, 0, 1, 1]),
        policy=np.array([0, 0, 0, 1]),
        returns=np.array([2.0, 3.0, 1.0, 6.0], np.float32),
    )


def test_a_policys_reward_is_the_sum_over_all_agents_that_it_played() -> None:
    assert stats().policy_returns(0).tolist() == [5.0, 1.0]
    assert stats().policy_returns(1).tolist() == [6.0]
    assert stats().agent_means() == {"a": 1.5, "b": 3.0, "c": 6.0}


def test_statistics_can_be_joined_and_cut() -> None:
    twice = EpisodeStats.concat([stats(), EpisodeStats.empty(), stats()])
    assert twice.rewards.tolist() == [5.0, 7.0, 5.0, 7.0]
    assert twice.last(1).policy_returns(1).tolist() == [6.0]
    assert twice.last(3).policy_returns(0).tolist() == [1.0, 5.0, 1.0]
    assert twice.agent_means() == pytest.approx({"a": 1.5, "b": 3.0, "c": 6.0})


def test_paths_of_packed_arrays_never_collide() -> None:
    tree = {"a/b": np.array(1), "a": {"b": np.array(2), "c~1d": np.array(3), "c/d": np.array(4)}}
    plain, arrays = pack(tree)
    back = unpack(plain, arrays)
    assert [int(back["a/b"]), int(back["a"]["b"]), int(back["a"]["c~1d"]), int(back["a"]["c/d"])] == [1, 2, 3, 4]


def test_an_episode_made_by_hand_belongs_to_the_first_worker_and_copy() -> None:
    episode = Episode(7, seed=3)
    assert (episode.worker_index, episode.env_index, episode.policies) == (0, 0, {})
    assert episode.rng.integers(1 << 30) == Episode(8, seed=3, worker_index=2).rng.integers(1 << 30)
    assert episode.rng.integers(1 << 30) != Episode(7, seed=4).rng.integers(1 << 30)


def test_the_decisions_of_one_agent_are_a_batch_of_its_own() -> None:
    with marl.Trainer("ppo", env="two_step_game", config={"fcnet_hiddens": [8], "num_envs_per_worker": 2}) as trainer:
        batch = trainer.workers.collect(6).batch
    everybody = batch.for_policy("default_policy")
    for seat, agent in enumerate(("agent_0", "agent_1")):
        rows = batch.for_agent(agent)
        mine = everybody.rows(everybody["seat"] == seat)
        assert len(rows) == 12
        for column in everybody:
            np.testing.assert_array_equal(rows[column], mine[column], column)
        assert {batch.policy_ids[i] for i in rows["policy_index"]} == {"default_policy"}
    with pytest.raises(DataError, match=r"no agent 'agent_7'\. Agents: agent_0, agent_1"):
        batch.for_agent("agent_7")


@pytest.mark.parametrize("seats", [[0, 1, 2], [1], [0, 2]])
def test_decisions_of_whole_seats_are_those_that_are_gathered_cell_by_cell(
    seats: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"num_envs_per_worker": 4, "train_batch_size": 40, "fcnet_hiddens": [8], "seed": 3}
    with Trainer("ppo", env="fast:simple_spread", config=keys) as trainer:
        batch = trainer.workers.local_worker().collect(30).batch
    mine = np.zeros_like(batch.active)
    mine[:, :, seats] = True
    copied = batch.decisions(mine, 0, 0.9)
    assert not np.shares_memory(copied["obs"], batch.obs[0])  # whoever gets rows may change them
    monkeypatch.setattr(type(batch), "_whole_seats", lambda *_: np.zeros(0, np.int64))
    gathered = batch.decisions(mine, 0, 0.9)
    assert copied.keys() == gathered.keys()
    for name, column in gathered.items():
        np.testing.assert_array_equal(copied[name], column, err_msg=name)
        assert copied[name].dtype == column.dtype


def test_decisions_that_last_longer_or_are_left_out_are_gathered() -> None:
    keys = {"num_envs_per_worker": 2, "train_batch_size": 40, "fcnet_hiddens": [8], "seed": 3}
    with Trainer("ppo", env="fast:simple_spread", config=keys) as trainer:
        batch = trainer.workers.local_worker().collect(5).batch
    count = int(batch.active.sum())
    assert batch._whole_seats(batch.active, count).tolist() == [0, 1, 2]
    batch.elapsed[0, 1, 2] = 2
    assert batch._whole_seats(batch.active, count).tolist() == []
    batch.elapsed[0, 1, 2] = 1
    batch.active[3, 0, 1] = False
    assert batch._whole_seats(batch.active, count - 1).tolist() == []
