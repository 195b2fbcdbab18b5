"""What a team's decision is: who decides, when it is closed, what it earned."""

from __future__ import annotations

from marl.algos.joint_view import team_rewards
from marl.algos.team_rows import team_rows
from marl.data.task import Task
from tests.small_envs import Scripted, Step, worker_for

ALL = "__all__"


def rows(
    steps: list[Step], first: list[str], lengths: list[int], agents: list[str]
) -> list[tuple[int, float, int, bool, list[bool], list[bool]]]:
    worker = worker_for(lambda _: Scripted(first, steps, agents=agents))
    found = []
    for n in lengths:
        team = team_rows(worker.collect(n).batch, list(range(len(agents))), gamma=0.5)
        found += [
            (int(t), float(r), int(e), bool(end), p.tolist(), n.tolist())
            for t, r, e, end, p, n in zip(
                team["t"],
                team["rewards"],
                team["elapsed"],
                team["terminateds"],
                team["present"],
                team["new_present"],
                strict=True,
            )
        ]
    return sorted(found)


def test_a_teams_reward_is_the_sum_of_its_members_rewards() -> None:
    steps = [Step(["a_0", "a_1"], {"a_0": 1, "a_1": 2}), Step([], {"a_0": 4, "a_1": 4}, [ALL])]
    assert rows(steps, ["a_0", "a_1"], [2], ["a_0", "a_1"]) == [
        (0, 3.0, 1, False, [True, True], [True, True]),
        (1, 8.0, 1, True, [True, True], [False, False]),
    ]


def test_each_agent_of_a_group_is_paid_the_sum_of_its_group_and_others_their_own() -> None:
    steps = [Step([], {"a_0": 1, "a_1": 2, "a_2": 4}, [ALL])]
    names = ["a_0", "a_1", "a_2"]
    batch = worker_for(lambda _: Scripted(names, steps, agents=names)).collect(2).batch
    batch.task = Task(batch.task.kinds, 0, {"pair": (0, 2)})
    assert team_rewards(batch)[:, 0].tolist() == [[5, 2, 5], [5, 2, 5]]
    assert batch.rewards[:, 0].tolist() == [[1, 2, 4], [1, 2, 4]]  # left alone


TURNS = [
    Step(["a_1"], {"a_0": 1}),
    Step([], {"a_0": 2}),
    Step(["a_0", "a_1"], {"a_0": 4}),
    Step(["a_1"], {"a_0": 8}, terminated=["a_0"]),
    Step([], {"a_1": 16}, [ALL]),
]


def test_a_team_decides_when_any_member_decides_and_is_closed_when_any_is_asked_again() -> None:
    assert rows(TURNS, ["a_0"], [5], ["a_0", "a_1"]) == [
        (0, 1.0, 1, False, [True, False], [False, True]),
        (1, 2 + 0.5 * 4, 2, False, [False, True], [True, True]),
        (3, 8.0, 1, False, [True, True], [False, True]),
        (4, 16.0, 1, True, [False, True], [False, False]),
    ]


def test_team_decisions_are_trained_on_exactly_once_however_the_grid_is_cut() -> None:
    whole = rows(TURNS, ["a_0"], [10], ["a_0", "a_1"])
    for cuts in ([1, 1, 1, 1, 1, 5], [2, 8], [2, 1, 3, 4], [3, 7]):
        assert rows(TURNS, ["a_0"], cuts, ["a_0", "a_1"]) == whole


def test_a_truncated_team_bootstraps_from_its_last_observations() -> None:
    steps = [Step([], {"a_0": 1}, truncated=["a_0", "a_1"])]
    assert rows(steps, ["a_0", "a_1"], [1], ["a_0", "a_1"]) == [(0, 1.0, 1, False, [True, True], [True, True])]
