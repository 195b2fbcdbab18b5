"""A worker that changes the stage of a curriculum: what it builds anew, what it tells, and what it goes on with."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marl.data.tree import pack, unpack
from marl.envs.base import EnvContext
from marl.envs.wrappers import Wrapping
from marl.errors import CallbackError
from marl.rollout.config import EnvRecipe, RolloutConfig, StageEnv
from marl.rollout.stages import ChooseTasks, needs_new_envs, set_same_tasks
from marl.rollout.worker import RolloutWorker
from tests.small_envs import Scripted, Step, worker_for

AGENTS = ("a_0",)


class Taught(Scripted):
    """Episodes of four steps; pays its task times ten, plus what its config says."""

    def __init__(self, config: Any) -> None:
        super().__init__(AGENTS, [Step(AGENTS) for _ in range(3)] + [Step((), terminated=AGENTS)], AGENTS)
        self.bonus, self.task, self.seeds = float(config.get("bonus", 0.0)), 0.0, []

    def set_task(self, task: float) -> None:
        self.task = task

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        result = super().step(actions)
        return result._replace(rewards={"a_0": 10 * self.task + self.bonus})


def stage(task: float | None, evaluation: float | None = None, **config: float) -> StageEnv:
    other = None if evaluation is None else EnvRecipe(Taught, {"bonus": evaluation})
    return StageEnv(EnvRecipe(Taught, config), other, task)


STAGES = (stage(None), stage(1.0), stage(2.0), stage(2.0, bonus=3.0, evaluation=7.0), stage(None, bonus=3.0))


def worker(copies: int = 2) -> RolloutWorker:
    plain = worker_for(Taught, copies=copies)
    return RolloutWorker(replace(plain.spec, stages=STAGES), 0)


def paid(player: RolloutWorker, steps: int = 1) -> list[float]:
    """To the first copy, in the new rows."""
    batch = player.collect(steps).batch
    return batch.rewards[batch.context :, 0, 0].tolist()


def test_copies_are_built_anew_only_if_they_cannot_be_told() -> None:
    expected = {
        (0, 1): False, (1, 2): False, (2, 1): False,  # a task can be given and replaced
        (1, 0): True, (3, 4): True,  # but not taken back
        (2, 3): True, (0, 4): True, (4, 3): False,
    }  # fmt: skip
    for (before, now), new in expected.items():
        assert needs_new_envs(STAGES[before], STAGES[now]) is new
    assert needs_new_envs(stage(None), stage(None)) is False


@pytest.mark.parametrize(("number", "pays"), [(1, 10.0), (2, 20.0), (3, 23.0), (4, 3.0)])
def test_a_stage_is_played_from_its_first_step_and_breaks_running_episodes_off(number: int, pays: float) -> None:
    player = worker(copies=3)
    assert paid(player, 2) == [0.0, 0.0]
    old, begun = player.runner.env, player.runner.episodes_begun
    assert player.enter(number) == 3
    assert player.enter(number) == 0  # it is there already
    assert (player.runner.env is old) == (number in (1, 2))
    assert player.runner.episodes_begun == begun + 3
    batch = player.collect(4).batch
    assert batch.context == 0  # nothing of the stage before
    assert batch.t[:, 0].tolist() == [0, 1, 2, 3]
    assert (batch.rewards == pays).all()
    assert batch.rewards.shape == (4, 3, 1)


def test_episodes_that_are_at_their_first_step_are_not_broken_off() -> None:
    player = worker(copies=2)
    assert player.enter(2) == 0  # nothing is played yet
    paid(player, 4)  # a whole episode
    assert player.enter(1) == 0
    assert paid(player) == [10.0]


def test_an_evaluation_plays_the_newest_stage_in_its_own_env_if_it_has_one() -> None:
    player = worker()
    assert player.evaluate([1]).rewards.tolist() == [0.0]
    for number, pays in ((1, 10.0), (2, 20.0), (4, 3.0)):
        player.enter(number)
        paid(player)
        assert player.evaluate([1, 2]).rewards.tolist() == [4 * pays] * 2
    player.enter(3)
    paid(player)
    assert player.evaluate([1]).rewards.tolist() == [4 * (7.0 + 20.0)]


def test_a_player_for_pictures_plays_what_training_plays_now() -> None:
    player = worker()
    for number, pays in ((0, 0.0), (2, 20.0), (3, 23.0)):
        player.enter(number)
        paid(player)
        drawn = player.make_drawing_runner()
        assert drawn.env.num_envs == 1
        drawn.begin(np.arange(1), np.arange(1))
        frame = drawn.advance(drawn.decide(np.random.default_rng(0), explore=False))
        assert frame.rewards.tolist() == [[pays]]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_state_brings_its_stage_and_tasks_whatever_was_played_before(number: int) -> None:
    straight = worker()
    straight.enter(number)
    paid(straight, 2)
    if number == 1:
        straight.env.sub_env(0).set_task(5.0)  # type: ignore[attr-defined]
    state = unpack(*pack(straight.state_dict()))
    expected = straight.collect(5)
    for other in (0, 2, 4):
        again = worker()
        again.enter(other)
        paid(again, 3)
        again.evaluate([1])
        again.load_state_dict(state)
        assert again.stage == number
        got = again.collect(5)
        assert np.array_equal(got.batch.rewards, expected.batch.rewards)
        assert np.array_equal(got.batch.actions[0], expected.batch.actions[0])
        assert got.batch.eps_id.tolist() == expected.batch.eps_id.tolist()
        assert got.episodes.rewards.tolist() == expected.episodes.rewards.tolist()


def test_tasks_go_round_over_the_copies_and_are_noted() -> None:
    player = worker(copies=5)
    paid(player)
    set_same_tasks(player.env, [{"set_task": 1.0}, {"set_task": 2.0}])
    assert [copy.task for copy in map(player.env.sub_env, range(5))] == [1.0, 2.0, 1.0, 2.0, 1.0]  # type: ignore[attr-defined]
    assert [told["set_task"] for told in player.env.told] == [1.0, 2.0, 1.0, 2.0, 1.0]
    set_same_tasks(player.env, [])
    player.tell([{"set_task": 3.0}, {}])
    assert [told["set_task"] for told in player.env.told] == [3.0, 2.0, 3.0, 2.0, 3.0]
    assert player.env.sub_env(1).task == 2.0  # type: ignore[attr-defined]


def test_a_function_of_the_user_chooses_tasks_copy_by_copy() -> None:
    asked: list[Any] = []

    def choose(result: Any, env: Any, ctx: EnvContext) -> float | None:
        asked.append((result["n"], env.bonus, ctx.worker_index, ctx.vector_index))
        return None if ctx.vector_index == 1 else 4.0 + ctx.vector_index

    player = worker(copies=3)
    paid(player)
    answer, told = player.run_noting_tasks(ChooseTasks(choose, {"n": 8}))
    assert answer is None
    assert asked == [(8, 0.0, 0, 0), (8, 0.0, 0, 1), (8, 0.0, 0, 2)]
    assert told == [{"set_task": 4.0}, {}, {"set_task": 6.0}]
    assert [copy.task for copy in map(player.env.sub_env, range(3))] == [4.0, 0.0, 6.0]  # type: ignore[attr-defined]
    assert player.run_noting_tasks(lambda one: one.ping()) == (0, None)
    with pytest.raises(CallbackError, match="env_task_fn failed in worker 0, copy 0: ZeroDivisionError"):
        ChooseTasks(lambda result, env, ctx: 1 / 0, {})(player)


@pytest.mark.parametrize(
    ("index", "workers", "on_driver", "has"),
    [(0, 0, False, True), (0, 2, False, False), (0, 2, True, True), (1, 2, False, True)],
)
def test_the_drivers_worker_beside_others_has_an_env_only_if_it_was_asked_to(
    index: int, workers: int, on_driver: bool, has: bool
) -> None:
    config = RolloutConfig(num_workers=workers, create_env_on_driver=on_driver)
    one = RolloutWorker(replace(worker().spec, config=config), index)
    assert one.has_env is has
    assert one.ping() == index
    if not has:
        ChooseTasks(lambda result, env, ctx: 1 / 0, {})(one)  # there is nothing to choose for


def paying(env: Any, factor: float) -> Any:
    """Pays ``factor`` times as much."""
    before = env.step

    def step(actions: Any) -> Any:
        result = before(actions)
        return result._replace(rewards={agent: factor * reward for agent, reward in result.rewards.items()})

    env.step = step
    return env


def test_a_worker_in_another_process_knows_the_names_that_the_driver_knows() -> None:
    sys.modules.pop("colorsys", None)
    spec = replace(
        worker().spec,
        env="world_of_the_driver",
        env_config={"bonus": 3.0},
        wrappers=(Wrapping("twice_of_the_driver", {"factor": 2.0}),),
        registered={"world_of_the_driver": Taught},
        registered_wrappers={"twice_of_the_driver": paying},
        imports=("colorsys",),
        stages=(),
    )
    assert paid(RolloutWorker(spec, 0)) == [6.0]
    assert "colorsys" in sys.modules
