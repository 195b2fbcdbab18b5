"""A team that is empty for a while: its decision waits until it is asked again or the episode is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from marl import Trainer
from marl.algos.team_rows import Gaps, team_rows
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.tree import pack, unpack
from marl.envs.base import MultiAgentEnv, StepResult
from tests.small_envs import Scripted, Step, worker_for

ALL = "__all__"
Row = tuple[int, int, float, int, bool, tuple[bool, ...], tuple[bool, ...], tuple[float, ...]]


class Open(Scripted):
    """Says with every step whether the episode is over, so it may go on without anybody."""

    def step(self, actions: dict[str, Any]) -> StepResult:
        result = super().step(actions)
        return result._replace(terminated={ALL: False, **result.terminated})


def found(batch: MultiAgentBatch, seats: list[int], gaps: Gaps | None) -> list[Row]:
    rows = team_rows(batch, seats, 0.5, gaps)
    return [
        (
            int(rows["eps_id"][i]), int(rows["t"][i]), float(rows["rewards"][i]), int(rows["elapsed"][i]),
            bool(rows["terminateds"][i]), tuple(rows["present"][i].tolist()), tuple(rows["new_present"][i].tolist()),
            tuple(rows["new_obs.0"][i].reshape(-1)[np.repeat(rows["new_present"][i], 2)].tolist()),
        )
        for i in range(len(rows))
    ]  # fmt: skip


def collected(env: Any, lengths: Sequence[int], seats: list[int], saved: bool = False) -> list[Row]:
    worker, gaps, rows = worker_for(lambda _: env), Gaps(), []
    for n in lengths:
        rows += found(worker.collect(n).batch, seats, gaps)
        if saved:
            state, gaps = pack(gaps.state_dict()), Gaps()
            gaps.load_state_dict(unpack(*state))
    return sorted(rows)


def relay(k: int) -> Open:
    """a_0 decides once and leaves; a_1 arrives ``k`` steps later. In the gap the team is paid 1 per step, at the end 8."""
    between = [Step([], {"a_0": 1.0}) for _ in range(k - 1)]
    if k > 1:
        between[0] = Step([], {"a_0": 1.0}, ["a_0"])
        between.append(Step(["a_1"], {"a_0": 1.0}))
    else:
        between = [Step(["a_1"], {"a_0": 1.0}, ["a_0"])]
    return Open(["a_0"], [*between, Step([], {"a_1": 8.0}, [ALL])], agents=["a_0", "a_1"])


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("cuts", [[40], [1] * 40, [2, 3, 1, 34]])
def test_a_teams_decision_waits_for_the_member_that_comes_later(k: int, cuts: list[int]) -> None:
    first, last = collected(relay(k), cuts, [0, 1])[:2]
    paid = sum(0.5**i for i in range(k))
    assert first == (0, 0, paid, k, False, (True, False), (False, True), (1.0, float(k)))
    assert last == (0, k, 8.0, 1, True, (False, True), (False, False), ())


def test_a_decision_is_terminated_when_the_episode_ends_before_anybody_comes() -> None:
    steps = [Step([], {"a_0": 1.0}, ["a_0"]), Step([], {"a_0": 4.0}), Step([], {"a_1": 8.0}, [ALL])]
    for cuts in ([3], [1, 1, 1], [2, 1], [1, 2]):
        rows = collected(Open(["a_0"], steps, agents=["a_0", "a_1"]), cuts, [0, 1])
        assert rows[0] == (0, 0, 1 + 0.5 * 4 + 0.25 * 8, 3, True, (True, False), (False, False), ())


def test_a_decision_waits_also_while_another_team_plays_on() -> None:
    # a_2 is of another team and decides in every step.
    steps = [
        Step(["a_2"], {}, ["a_0"]), Step(["a_2"], {"a_1": 2.0}), Step(["a_1", "a_2"]), Step(["a_2"], {"a_1": 4.0}, ["a_1"]),
        Step([], {}, [ALL]),
    ]  # fmt: skip
    for cuts in ([5], [1] * 5, [2, 3], [4, 1]):
        rows = collected(Open(["a_0", "a_2"], steps, agents=["a_0", "a_1", "a_2"]), cuts, [0, 1])[:2]
        assert [(t, paid, lasts, end) for _, t, paid, lasts, end, *_ in rows] == [(0, 1.0, 3, False), (3, 4.0, 2, True)]


def test_a_team_cut_off_blindly_is_left_out_unless_somebody_comes_later() -> None:
    blind = Step([], {}, truncated=["a_0"], last=[])
    gone = [blind, Step(), Step([], {}, [ALL])]
    come = [blind, Step(["a_1"]), Step([], {}, [ALL])]
    for cuts in ([3], [1, 1, 1]):
        assert collected(Open(["a_0"], gone, agents=["a_0", "a_1"]), cuts, [0, 1]) == []
        rows = collected(Open(["a_0"], come, agents=["a_0", "a_1"]), cuts, [0, 1])
        assert [(t, lasts, end) for _, t, _, lasts, end, *_ in rows] == [(0, 2, False), (2, 1, True)]


def test_a_truncated_member_with_a_last_observation_closes_the_decision() -> None:
    steps = [Step([], {"a_0": 1.0}, truncated=["a_0"]), Step(), Step([], {}, [ALL])]
    rows = collected(Open(["a_0"], steps, agents=["a_0", "a_1"]), [3], [0, 1])
    assert rows == [(0, 0, 1.0, 1, False, (True, False), (True, False), (0.0, 1.0))]


def test_a_decision_whose_episode_was_broken_off_is_forgotten() -> None:
    worker, gaps = worker_for(lambda _: relay(5)), Gaps()
    found(worker.collect(2).batch, [0, 1], gaps)
    assert list(gaps.waiting) == [0]
    later = worker_for(lambda _: relay(5)).collect(2).batch
    later.eps_id = later.eps_id + 7
    assert found(later, [0, 1], gaps) == []
    assert gaps.waiting[0]["eps_id"].tolist() == [7]


def random_team(rng: np.random.Generator) -> Open:
    """Agents of two teams that appear, pause, end and come back, with steps in which nobody is there."""
    agents = [f"a_{i}" for i in range(4)]
    first = [a for a in agents if rng.random() < 0.5] or ["a_0"]
    alive, steps = set(first), []
    for _ in range(int(rng.integers(2, 12))):
        ended = [a for a in sorted(alive) if rng.random() < 0.4]
        alive -= set(ended)
        asked = [a for a in agents if a not in ended and rng.random() < 0.3]
        alive |= set(asked)
        half = int(rng.integers(0, len(ended) + 1))
        rewards = {a: float(rng.integers(-3, 4)) for a in agents if rng.random() < 0.5}
        last = [a for a in ended if rng.random() < 0.7]
        steps.append(Step(asked, rewards, ended[:half], ended[half:], last))
    over = [{"terminated": [ALL]}, {"truncated": [ALL]}][int(rng.integers(2))]
    last = [a for a in sorted(alive) if rng.random() < 0.7]
    return Open(first, [*steps, Step([], {"a_0": 1.0}, last=last, **over)], agents=agents)


def slow_rows(batch: MultiAgentBatch, seats: list[int]) -> list[Row]:
    """The rule, row by row, on one uncut grid of one copy."""
    rows: list[Row] = []
    start, blind = -1, False
    open_: set[int] = set()
    for r in range(len(batch.t)):
        if batch.present[r, 0, seats].any():
            start = r
        for s in seats:
            if batch.present[r, 0, s]:
                open_.add(s)
            if batch.terminateds[r, 0, s] or batch.truncateds[r, 0, s] or batch.new_present[r, 0, s]:
                open_.discard(s)
        ends = [s for s in seats if batch.terminateds[r, 0, s] or batch.truncateds[r, 0, s]]
        if ends:
            blind = any(batch.truncateds[r, 0, s] and not batch.new_alive[r, 0, s] for s in ends)
        asked = [s for s in seats if batch.new_present[r, 0, s]]
        valued = [s for s in seats if batch.truncateds[r, 0, s] and batch.new_alive[r, 0, s]]
        if batch.over[r, 0]:
            open_.clear()
        closed = asked or batch.over[r, 0] or (valued and not open_)
        if start < 0 or not closed:
            continue
        who = tuple(s in asked + valued for s in seats)
        if any(who) or not blind:
            paid = sum(0.5**i * float(batch.rewards[start + i, 0, seats].sum()) for i in range(r - start + 1))
            view = tuple(x for s in seats if s in asked + valued for x in batch.new_obs[0][r, 0, s].tolist())
            rows.append(
                (
                    int(batch.eps_id[start, 0]), int(batch.t[start, 0]), paid, r - start + 1, not any(who),
                    tuple(batch.present[start, 0, seats].tolist()), who, view,
                )
            )  # fmt: skip
        start = -1
    return sorted(rows)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 7), min_size=2, max_size=8))
def test_teams_decisions_follow_the_rule_however_the_grid_is_cut(seed: int, cuts: list[int]) -> None:
    def env() -> Open:
        return random_team(np.random.default_rng(seed))

    whole = worker_for(lambda _: env()).collect(sum(cuts) + 30).batch
    expected = slow_rows(whole, [0, 1])
    assert collected(env(), [sum(cuts) + 30], [0, 1]) == expected
    assert collected(env(), [*cuts, 30], [0, 1], saved=True) == expected


class Relay(MultiAgentEnv):
    """``a`` chooses once and leaves; ``b`` arrives ``k`` steps later, sees the choice and earns the team 10 if it was 1."""

    possible_agents = ("a", "b")

    def __init__(self, config: Any) -> None:
        self.k, self.t, self.chosen = config["k"], 0, 0

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return {"a": 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        if self.t == 0:
            self.chosen = int(actions["a"])
        self.t += 1
        obs: dict[str, Any] = {"b": 1 + self.chosen} if self.t == self.k else {}
        paid = {"b": 10.0 * self.chosen} if self.t > self.k else {}
        return StepResult(obs, paid, {"a": True, ALL: self.t > self.k}, {ALL: False}, {})


@pytest.mark.parametrize("k", [1, 2, 3])
def test_vdn_learns_what_is_earned_after_the_first_member_has_left(k: int) -> None:
    keys = {
        "multiagent": {"groups": {"team": ["a", "b"]}}, "gamma": 0.9, "fcnet_hiddens": [8], "lr": 0.02, "seed": 1,
        "train_batch_size": 32, "learning_starts": 32, "updates_per_step": 0.5, "target_update_every": 10,
        "rollout_fragment_length": 2, "timesteps_per_iteration": 300, "env_config": {"k": k},
        "exploration_config": {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 1.0},
        "evaluation": {"interval": 0},
    }  # fmt: skip
    run = Trainer("vdn", env=Relay, config=keys)
    run.train()
    seen = {"obs": np.array([[0]]), "agent_index": np.array([0]), "legal": np.zeros((1, 0), bool)}
    worth = run.get_policy("default_policy").q_values(SampleBatch(seen))[0].tolist()
    run.stop()
    assert worth == pytest.approx([0.0, 10 * 0.9**k], abs=0.3)
