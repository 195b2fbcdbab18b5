"""Hand-computed episodes: what each decision earned, where it led, and what counts in returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentType, number_seats
from marl.envs.batched import NativeEnv
from marl.errors import EnvError
from tests.small_envs import Scripted, Step, decisions, worker_for

ALL = "__all__"


def collect(env: Any, lengths: list[int], **keys: Any) -> tuple[list[MultiAgentBatch], Any]:
    worker = worker_for(lambda _: env, **keys)
    rollouts = [worker.collect(n) for n in lengths]
    return [r.batch for r in rollouts], rollouts


def test_a_reward_paid_while_the_other_moves_reaches_the_last_decision() -> None:
    turns = Scripted(
        ["a_0"],
        [
            Step(["a_1"], {"a_0": 1}),
            Step(["a_0"], {"a_0": 4}),
            Step([], {"a_0": 2, "a_1": -2}, [ALL], last=["a_0", "a_1"]),
        ],
        agents=["a_0", "a_1"],
    )
    batches, _ = collect(turns, [3])
    first, second, third = decisions(batches)
    # a_0 decided at 0 and was asked again after two steps: 1 + 0.5 * 4.
    assert (first[2], first[5], first[9], first[6]) == (0, 3.0, 2, (0.0, 2.0))
    # a_1 decided at 1; its reward -2 came one step later, with the end: 0.5 * -2.
    assert (second[2], second[5], second[9], second[7]) == (1, -1.0, 2, True)
    assert (third[2], third[5], third[9], third[7]) == (0, 2.0, 1, True)


def test_a_managers_decision_lasts_until_it_is_asked_again() -> None:
    steps = [
        Step(["w_1"], {"m_0": 1}),
        Step(["w_1"], {"m_0": 1}),
        Step(["m_0", "w_1"], {"m_0": 4}),
        Step([], {}, [ALL]),
    ]
    batches, _ = collect(Scripted(["m_0", "w_1"], steps, agents=["m_0", "w_1"]), [4])
    manager = [d for d in decisions(batches) if d[2] == 0]
    assert manager[0][9] == 3
    assert manager[0][5] == 1 + 0.5 * 1 + 0.25 * 4
    assert manager[0][6] == (0.0, 3.0)


def test_an_agent_that_ends_at_the_last_step_of_a_fragment_is_closed_in_it() -> None:
    steps = [Step(["a_0", "a_1"]), Step(["a_1"], {"a_0": 5}, terminated=["a_0"]), Step([], {}, [ALL])]
    batches, _ = collect(Scripted(["a_0", "a_1"], steps, agents=["a_0", "a_1"]), [2, 1])
    assert batches[0].active.sum() == 4
    ended = [d for d in decisions(batches[:1]) if d[7]]
    assert [(d[2], d[5]) for d in ended] == [(0, 5.0)]
    assert batches[1].context == 0


def test_an_agent_that_comes_back_under_the_same_id_starts_a_new_life() -> None:
    steps = [
        Step(["car_2"], {"car_1": 7}, terminated=["car_1"]),
        Step(["car_1", "car_2"]),
        Step(["car_2"], {"car_1": 1}, terminated=["car_1"]),
        Step([], {}, [ALL]),
    ]
    env = Scripted(["car_1", "car_2"], steps, patterns={"car_*": 2})
    batches, rollouts = collect(env, [4])
    lives = [d for d in decisions(batches) if d[3][0] == 1.0]
    assert [(d[1], d[5], d[7], d[9]) for d in lives] == [(0, 7.0, True, 1), (2, 1.0, True, 1)]
    stats = rollouts[0].episodes
    assert stats.agent_means() == {"car_1": 8.0, "car_2": 0.0}
    assert stats.rewards.tolist() == [8.0]


def test_one_may_terminate_while_another_truncates_and_the_episode_simply_ends() -> None:
    steps = [Step(["a_0", "a_1"]), Step([], {"a_0": 1, "a_1": 2}, terminated=["a_0"], truncated=["a_1"])]
    batches, rollouts = collect(Scripted(["a_0", "a_1"], steps, agents=["a_0", "a_1"]), [4])
    last = [d for d in decisions(batches) if d[1] == 1]
    assert [(d[2], d[7], d[8]) for d in last] == [(0, True, False), (1, False, True)] * 2
    assert rollouts[0].episodes.lengths.tolist() == [2, 2]


def test_a_reward_after_an_agents_own_end_counts_in_its_return_but_not_in_training() -> None:
    steps = [Step(["a_1"], {"a_0": 1}, terminated=["a_0"]), Step([], {"a_0": 100}, terminated=["a_1"])]
    batches, rollouts = collect(Scripted(["a_0", "a_1"], steps, agents=["a_0", "a_1"]), [2])
    assert [d[5] for d in decisions(batches) if d[2] == 0] == [1.0]
    assert rollouts[0].episodes.agent_means() == {"a_0": 101.0, "a_1": 0.0}


def test_the_same_holds_where_ids_are_not_known_in_advance() -> None:
    steps = [Step(["car_2"], {"car_1": 1}, terminated=["car_1"]), Step([], {"car_1": 100}, [ALL])]
    _, rollouts = collect(Scripted(["car_1", "car_2"], steps, patterns={"car_*": 3}), [2])
    assert rollouts[0].episodes.agent_means() == {"car_1": 101.0, "car_2": 0.0}


def test_a_decision_truncated_without_a_last_observation_is_left_out_and_counted() -> None:
    steps = [Step(["a_0"]), Step([], {"a_0": 1}, truncated=["a_0"], last=[])]
    worker = worker_for(lambda _: Scripted(["a_0"], steps, agents=["a_0"]))
    rollout = worker.collect(2)
    assert [d[1] for d in decisions([rollout.batch])] == [0]
    assert rollout.decisions_lost == 1


def test_an_open_decision_is_carried_with_its_context_and_trained_in_the_next_grid() -> None:
    steps = [
        Step(["w_1"], {"m_0": 1}),
        Step(["w_1"], {"m_0": 2}),
        Step(["m_0", "w_1"], {"m_0": 4}),
        Step([], {}, [ALL]),
    ]
    batches, _ = collect(Scripted(["m_0", "w_1"], steps, agents=["m_0", "w_1"]), [2, 2])
    assert [d[2] for d in decisions(batches[:1])] == [1, 1]
    assert batches[1].context == 2
    assert batches[1].env_steps == 2
    manager = [d for d in decisions(batches[1:]) if d[2] == 0 and d[1] == 0]
    assert manager[0][5] == 1 + 0.5 * 2 + 0.25 * 4


def test_the_env_is_only_sent_actions_of_agents_that_were_asked() -> None:
    env = Scripted(["a_0"], [Step(["a_1"]), Step(["a_0"]), Step([], {}, [ALL])], agents=["a_0", "a_1"])
    collect(env, [3])
    assert [sorted(actions) for actions in env.seen[:3]] == [["a_0"], ["a_1"], ["a_0"]]


def test_a_horizon_truncates_and_bootstraps() -> None:
    env = Scripted(["a_0"], [Step(["a_0"], {"a_0": 1}) for _ in range(50)], agents=["a_0"])
    batches, rollouts = collect(env, [7], horizon=3)
    rows = decisions(batches)
    assert [(d[1], d[7], d[8]) for d in rows[:3]] == [(0, False, False), (1, False, False), (2, False, True)]
    assert rollouts[0].episodes.lengths.tolist() == [3, 3]


class Endless(NativeEnv):
    """Returns one and the same array for both flags, as a quick env might."""

    state_arrays = ("t",)

    def __init__(self, num_envs: int, config: Any) -> None:
        self.num_envs = num_envs
        self.kinds = number_seats([AgentType("agent", ("a_0",), spaces.Discrete(2), spaces.Discrete(2))])
        self.t = np.zeros(num_envs, np.int64)

    def _start(self, env_ids: Any, seeds: Any) -> None:
        self.t[env_ids] = 0

    def _play(self, actions: Any) -> Any:
        self.t += 1
        no = np.zeros((self.num_envs, 1), bool)
        return np.ones((self.num_envs, 1), np.float32), no, no, no[:, 0]

    def _view(self) -> Any:
        shape = (self.num_envs, 1)
        return (
            [np.zeros((*shape, 1), np.int64)],
            [np.zeros((*shape, 0), bool)],
            np.ones(shape, bool),
            np.zeros((self.num_envs, 0)),
        )


def test_a_horizon_truncates_a_native_env_that_has_one_array_for_both_flags() -> None:
    worker = worker_for(Endless, horizon=5)
    batch = worker.collect(10).batch
    assert (int(batch.terminateds.sum()), int(batch.truncateds.sum())) == (0, 2)


def test_complete_mode_never_cuts_an_episode() -> None:
    env = Scripted(["a_0"], [Step(["a_0"], {"a_0": 1}) for _ in range(4)] + [Step([], {}, [ALL])], agents=["a_0"])
    batches, _ = collect(env, [3, 3, 3, 3], complete=True)
    trained = [[(d[0], d[1]) for d in decisions([b])] for b in batches]
    assert trained[0] == []
    assert trained[1] == [(0, t) for t in range(5)]
    assert trained[2] == []
    assert trained[3] == [(1, t) for t in range(5)]


def random_script(rng: np.random.Generator) -> Scripted:
    """Agents that appear, pause, end and come back at random."""
    agents = [f"a_{i}" for i in range(4)]
    alive: set[str] = set()
    first = [a for a in agents if rng.random() < 0.6] or ["a_0"]
    alive |= set(first)
    steps = []
    for _ in range(int(rng.integers(2, 9))):
        ended = [a for a in sorted(alive) if rng.random() < 0.15]
        alive -= set(ended)
        asked = [a for a in agents if a not in ended and rng.random() < 0.5]
        alive |= set(asked)
        half = len(ended) // 2
        rewards = {a: float(rng.integers(-3, 4)) for a in agents if rng.random() < 0.5}
        steps.append(Step(asked, rewards, ended[:half], ended[half:]))
    final = Step([], {"a_0": 1.0}, [ALL])
    return Scripted(first, [*steps, final], agents=agents)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_every_decision_is_trained_on_exactly_once_however_the_grid_is_cut(seed: int, cuts: list[int]) -> None:
    whole, parts = [
        decisions(collect(random_script(np.random.default_rng(seed)), lengths, copies=1)[0])
        for lengths in ([sum(cuts) + 40], [*cuts, 40])
    ]
    assert len(set(parts)) == len(parts)
    assert parts == whole


def test_an_unknown_agent_is_named_with_the_nearest_known_one() -> None:
    env = Scripted(["wolf_1"], [Step(["wolff_1"])], agents=["wolf_1", "wolf_2"])
    with pytest.raises(EnvError, match=r"agent 'wolff_1' is not in possible_agents .*Did you mean 'wolf_1'"):
        collect(env, [1])


def test_more_agents_than_seats_is_an_error_that_names_the_pattern() -> None:
    env = Scripted(["car_1"], [Step(["car_1", "car_2"])], patterns={"car_*": 1})
    with pytest.raises(EnvError, match=r"all 1 seats of 'car_\*' were taken"):
        collect(env, [1])


def test_a_four_tuple_step_is_refused_with_the_remedy() -> None:
    class Old(Scripted):
        def step(self, actions: Any) -> Any:
            return ({}, {}, {}, {})

    with pytest.raises(EnvError, match=r"step returned 4 values; expected five dicts"):
        collect(Old(["a_0"], [Step()], agents=["a_0"]), [1])
