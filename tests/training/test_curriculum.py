"""A curriculum changes the env of every worker at the right moment, and a run that was stopped goes on in its stage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import marl
from marl.data.batch import MultiAgentBatch
from marl.errors import CallbackError, ConfigError, SpaceMismatchError
from marl.rollout.ray_pool import RayPool
from marl.runs.fields import fields_of, meaning_of
from marl.runs.result import without_wall_clock
from marl.training.display import PlainDisplay, results_table, table_cells
from marl.training.loop import run_until_stopped
from tests.envs.taught import LENGTH, Taught
from tests.training.trees import differences

SMALL = {
    "train_batch_size": 20, "sgd_minibatch_size": 20, "num_sgd_iter": 1, "fcnet_hiddens": [4], "num_envs_per_worker": 2,
    "evaluation": {"interval": 1, "episodes": 2},
}  # fmt: skip
EPISODE = 2 * LENGTH  # what an episode pays per unit of reward: two agents
STAGES = [
    {"until": {"episode_reward_mean": EPISODE}, "env_config": {"pay": 1.0}},
    {"until": {"timesteps_total": 60}, "task": 2.0},
    {"env_config": {"pay": 3.0}},
]


@pytest.fixture(params=[0, pytest.param(2, marks=pytest.mark.ray)])
def workers(request: pytest.FixtureRequest) -> int:
    """In this process, and on Ray."""
    if request.param:
        request.getfixturevalue("ray_session")
    return int(request.param)


def trainer_for(curriculum: Any, env: Any = Taught, algo: str = "ppo", **keys: Any) -> marl.Trainer:
    return marl.Trainer(algo, env=env, config={**SMALL, "curriculum": curriculum, **keys})


def rewards(result: Any) -> tuple[int, float | None, float]:
    return result["curriculum"]["stage"], result["episode_reward_mean"], result["evaluation"]["episode_reward_mean"]


# -- stages --------------------------------------------------------------------------------------------------------


def test_every_stage_pays_what_it_says_in_training_and_in_evaluation(workers: int) -> None:
    with trainer_for(STAGES, num_workers=workers) as trainer:
        results = [trainer.train() for _ in range(5)]
        pay = trainer.workers.foreach_env(lambda env: (env.pay, env.task))
    # An iteration has 20 steps. Rewards of a stage are never mixed with those of the stage before.
    assert [rewards(result) for result in results] == [
        (0, EPISODE, EPISODE),
        (1, 2 * EPISODE, 2 * EPISODE),
        (1, 2 * EPISODE, 2 * EPISODE),
        (2, 3 * EPISODE, 3 * EPISODE),
        (2, 3 * EPISODE, 3 * EPISODE),
    ]
    assert [result["curriculum"]["timesteps_this_stage"] for result in results] == [20, 20, 40, 20, 40]
    assert pay == [[(3.0, 0.0)] * 2] * max(1, workers)


def test_after_a_last_stage_that_ends_the_env_of_the_scenario_is_played() -> None:
    with trainer_for([{"until": {"timesteps_total": 20}, "task": 1.0}], env_config={"pay": 5.0}) as trainer:
        assert [rewards(trainer.train())[:2] for _ in range(2)] == [(0, 6 * EPISODE), (1, 5 * EPISODE)]


def test_running_episodes_are_broken_off_and_counted_nowhere_else() -> None:
    # Fragments of 10 steps: both copies are in the middle of their third episode, after two of its four steps.
    with trainer_for(STAGES) as trainer:
        first, second = trainer.train(), trainer.train()
    assert first["curriculum"]["num_episodes_cut"] == 0
    assert second["curriculum"]["num_episodes_cut"] == 2
    assert [first["episodes_this_iter"], second["episodes_this_iter"], second["episodes_total"]] == [4, 4, 8]
    assert second["hist_stats"]["episode_lengths"] == [LENGTH] * 4


@pytest.mark.parametrize("batch_mode", ["truncate_episodes", "complete_episodes"])
def test_learners_never_see_rows_of_two_stages_as_one_episode(batch_mode: str) -> None:
    batches: list[MultiAgentBatch] = []
    with trainer_for(STAGES, batch_mode=batch_mode) as trainer:
        learn = trainer.learning.learn
        trainer.learning.learn = lambda batch: (batches.append(batch), learn(batch))[1]  # type: ignore[method-assign]
        for _ in range(5):
            trainer.train()
    paid: dict[int, set[float]] = {}
    for batch in batches:
        for episode, reward in zip(batch.eps_id.ravel().tolist(), batch.rewards[:, :, 0].ravel().tolist(), strict=True):
            paid.setdefault(episode, set()).add(reward)
    assert all(len(values) == 1 for values in paid.values())
    assert set().union(*paid.values()) == {1.0, 2.0, 3.0}
    if batch_mode == "complete_episodes":
        trained = [int(batch.active[:, :, 0].sum()) for batch in batches]
        assert sum(trained) % LENGTH == 0  # whole episodes alone


def test_a_stage_can_end_by_an_evaluation_and_by_its_own_length() -> None:
    stages = [
        {"until": {"evaluation.episode_reward_mean": EPISODE}, "env_config": {"pay": 1.0}},
        {
            "until": {"curriculum.timesteps_this_stage": 40, "evaluation.policy_reward_mean.default_policy": 1},
            "task": 1,
        },
    ]
    with trainer_for(stages, evaluation={"interval": 2, "episodes": 1}) as trainer:
        assert [trainer.train()["curriculum"]["stage"] for _ in range(6)] == [0, 0, 1, 1, 2, 2]


def test_a_fixed_evaluation_env_does_not_follow_the_stages() -> None:
    own = {"interval": 1, "episodes": 1, "env": Taught, "env_config": {"pay": 9.0}}
    changed = {"interval": 1, "episodes": 1, "env_config": {"pay": 9.0}}
    for evaluation, expected in ((own, [9, 9, 9, 9]), (changed, [9, 11, 11, 9])):
        with trainer_for(STAGES, evaluation=evaluation) as trainer:
            paid = [rewards(trainer.train())[2] / EPISODE for _ in range(4)]
        assert paid == expected  # a task is told to the scenario's own env in evaluation as well, whatever its keys


def test_es_plays_the_present_stage() -> None:
    keys = {"num_perturbations": 1, "episodes_per_perturbation": 1, "timesteps_per_iteration": 1}
    base = {
        key: value
        for key, value in SMALL.items()
        if key not in ("train_batch_size", "sgd_minibatch_size", "num_sgd_iter")
    }
    config = {**base, **keys, "curriculum": [{"until": {"training_iteration": 1}, "task": 1.0}]}
    with marl.Trainer("es", env=Taught, config=config) as trainer:
        assert [trainer.train()["episode_reward_mean"] for _ in range(2)] == [EPISODE, 0.0]


# -- the whole run -------------------------------------------------------------------------------------------------


def test_goal_and_rewards_under_stop_count_in_the_last_stage_alone(tmp_path: Path) -> None:
    stages = [{"until": {"timesteps_total": 60}, "env_config": {"pay": 9.0}}]
    keys: dict[str, Any] = {"env_config": {"pay": 4.0}}
    goals: list[dict[str, Any]] = [
        {"goal": {"evaluation.episode_reward_mean": 4 * EPISODE}, "stop": {"goal": True}},
        {"stop": {"episode_reward_mean": 4 * EPISODE}},
    ]
    for number, goal in enumerate(goals):
        with trainer_for(stages, **keys, **goal) as trainer:
            trainer.store.open(tmp_path / str(number))
            outcome = run_until_stopped(trainer)
            assert outcome.result["timesteps_total"] == 80  # 60 in the first stage, and one iteration in the last
            assert trainer.goal_met in (True, None)
    with trainer_for(stages, stop={"timesteps_total": 40}, **keys) as trainer:
        assert [trainer.train()["done"] for _ in range(2)] == [False, True]  # a budget counts everywhere


def test_the_best_evaluation_is_one_of_the_present_stage() -> None:
    with trainer_for([{"until": {"timesteps_total": 20}, "env_config": {"pay": 9.0}}]) as trainer:
        assert [trainer.train()["best_evaluation"] for _ in range(2)] == [9 * EPISODE, 0.0]


def test_the_stage_is_shown_and_explained() -> None:
    with trainer_for(STAGES) as trainer:
        assert any(
            line.startswith("curriculum: 0: pay=1.0 until episode_reward_mean 8; 1: task 2.0")
            for line in trainer.setup.header
        )
        result = trainer.train()
        assert trainer.notes[-1].startswith("curriculum: stage 1 (the last is 2) begins after 20 env steps: task 2.0;")
        result = trainer.train()
    stream = io.StringIO()
    PlainDisplay(stream).update(result, None)  # type: ignore[arg-type]
    assert "  stage 1  " in stream.getvalue()
    assert [str(column.header) for column in results_table([table_cells(result)], 200).columns][2] == "stage"
    assert [field for field in fields_of(result) if meaning_of(field) is None] == []


# -- nothing is lost -----------------------------------------------------------------------------------------------


def lines_of(trainer: marl.Trainer, iterations: int) -> list[dict[str, Any]]:
    return [without_wall_clock(trainer.train()) for _ in range(iterations)]


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
@pytest.mark.parametrize("saved", [1, 2, 4])
def test_a_run_that_was_stopped_in_any_stage_goes_on_exactly(saved: int, algo: str, tmp_path: Path) -> None:
    off = {
        "learning_starts": 10,
        "timesteps_per_iteration": 20,
        "n_step": 3,
        "train_batch_size": 8,
        "fcnet_hiddens": [4],
    }
    keys = {"num_envs_per_worker": 2, "evaluation": SMALL["evaluation"], "curriculum": STAGES, "seed": 1}
    config = {**keys, **(off if algo == "dqn" else SMALL)}
    with marl.Trainer(algo, env=Taught, config=config) as straight:
        expected = lines_of(straight, 6)
        weights = straight.get_weights()
    with marl.Trainer(algo, env=Taught, config=config) as first:
        before = lines_of(first, saved)
        first.save(tmp_path / "c")
    with marl.Trainer(algo, env=Taught, config=config) as second:
        second.restore(tmp_path / "c")
        assert second.workers.local_worker().stage == second.curriculum.stage
        after = lines_of(second, 6 - saved)
        assert differences(second.get_weights(), weights) == []
    assert differences([*before, *after], expected) == []


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("killed", [1, 3])
def test_a_replaced_worker_is_in_the_present_stage(killed: int) -> None:
    import ray

    lines = {}
    for pool in ("ray", "in_process"):
        with trainer_for(STAGES, num_workers=2, pool=pool) as trainer:
            before = lines_of(trainer, killed)
            if isinstance(trainer.workers, RayPool):
                ray.kill(trainer.workers.actors[1])
            lines[pool] = [*before, *lines_of(trainer, 4 - killed)]
        for line in lines[pool]:
            line.pop("config")
            line.pop("num_healthy_workers")  # the new worker may still be starting when a result is written
    assert differences(lines["ray"], lines["in_process"]) == []


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_an_asynchronous_run_resumes_in_its_stage(tmp_path: Path) -> None:
    stages = [{"until": {"timesteps_total": 40}, "task": 1.0}, {"env_config": {"pay": 2.0}}]
    keys = {"num_workers": 2, "collection": "async", "rollout_fragment_length": 5}
    with trainer_for(stages, **keys) as trainer:
        while trainer.curriculum.stage == 0:
            trainer.train()
        trainer.save(tmp_path / "c")
        assert trainer.workers.foreach_env(lambda env: env.pay) == [[2.0] * 2] * 2
    with trainer_for(stages, **keys) as again:
        again.restore(tmp_path / "c")
        assert again.workers.foreach_env(lambda env: (env.pay, env.task)) == [[(2.0, 0.0)] * 2] * 2
        assert again.train()["curriculum"]["stage"] == 1


# -- tasks by a function -------------------------------------------------------------------------------------------


def by_step_and_place(result: Any, env: Any, ctx: Any) -> float | None:
    """The number of the iteration, in copy 1 of every worker alone."""
    assert env.place == (ctx.worker_index, ctx.vector_index)
    return float(result["training_iteration"]) if ctx.vector_index == 1 else None


@pytest.mark.parametrize("path", [by_step_and_place, f"{__name__}:by_step_and_place"])
def test_env_task_fn_sets_the_task_of_each_copy_after_each_iteration(workers: int, path: Any, tmp_path: Path) -> None:
    keys = {"env_task_fn": path, "num_workers": workers}
    with trainer_for([], **keys) as trainer:
        for iteration in (1, 2):
            trainer.train()
            tasks = trainer.workers.foreach_env(lambda env: env.next_task)
            assert tasks == [[0.0, float(iteration)]] * max(1, workers)
        trainer.save(tmp_path / "c")
    if workers:
        return
    with trainer_for([], **keys) as again:
        again.restore(tmp_path / "c")
        assert again.workers.foreach_env(lambda env: env.next_task) == [[0.0, 2.0]]


def test_a_failing_env_task_fn_is_named() -> None:
    with trainer_for([], env_task_fn=lambda result, env, ctx: 1 / 0) as trainer, pytest.raises(CallbackError) as caught:
        trainer.train()
    assert "env_task_fn failed in worker 0, copy 0: ZeroDivisionError" in str(caught.value)


# -- refusals ------------------------------------------------------------------------------------------------------


class Growing(Taught):
    """Shows as many numbers as its config says."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if config.get("size", 2) < 0:
            raise ValueError("no room")
        self.sight = type(self.sight)(-1, 1, (config.get("size", 2),))


STAGE: dict[str, Any] = {"until": {"timesteps_total": 20}}


@pytest.mark.parametrize(
    ("keys", "error", "text"),
    [
        (
            {"curriculum": [{**STAGE, "env_config": {"size": 3}}]},
            SpaceMismatchError,
            "curriculum[0] is not played by the agents",
        ),
        (
            {"curriculum": [STAGE, {"env_config": {"size": -1}}]},
            Exception,
            "curriculum[1]: env 'Growing' could not be built",
        ),
        ({"curriculum": [{"task": 1}, {"task": 2}]}, ConfigError, "curriculum[0] has no until"),
        (
            {"curriculum": [{"until": {"episode_reward_meen": 1}}]},
            ConfigError,
            "curriculum[0].until: no result has a field",
        ),
        ({"curriculum": [{"untill": {}}]}, ConfigError, "Did you mean 'until'?"),
        (
            {"curriculum": [{"until": {"evaluation.episode_reward_mean": 1}}], "evaluation": {"interval": 0}},
            ConfigError,
            "evaluation.interval is 0",
        ),
        ({"curriculum": [{**STAGE, "task": 1}], "env": "CartPole-v1"}, ConfigError, "has no set_task(task)"),
        ({"curriculum": [{**STAGE, "task": 1}], "env": "two_step_game"}, ConfigError, "has no set_task(task)"),
        (
            {"curriculum": [{**STAGE, "task": 7}], "env": "fast:simple_tag", "env_config": {"curriculum": True}},
            ConfigError,
            "curriculum[0]: fast:simple_tag: no stage 7",
        ),
        ({"env_task_fn": by_step_and_place, "env": "CartPole-v1"}, ConfigError, "env_task_fn is given, but env"),
        (
            {"env_task_fn": by_step_and_place, "curriculum": [{**STAGE, "task": 1}]},
            ConfigError,
            "Let one of them choose",
        ),
        ({"env_task_fn": f"{__name__}:STAGE"}, ConfigError, "expected a function (result, env, ctx)"),
        (
            {"stop": {"curriculum.stage": 1}},
            ConfigError,
            "needs curriculum, but curriculum is not given. Set curriculum",
        ),
        (
            {"curriculum": [STAGE], "exploitability": {"interval": 1}},
            ConfigError,
            " needs exploitability.interval: 0, but exploitability.interval is 1 (populations and NashConv are about one env",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_before_the_start(keys: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        marl.Trainer("ppo", config={"env": Growing, **SMALL, **keys})
    assert text in str(caught.value)
