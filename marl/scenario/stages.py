"""The envs of a curriculum: each is built once before the run, and has to be played by the same agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marl.data.task import Task
from marl.envs.batched import BatchedEnv
from marl.envs.registry import make_batched_env
from marl.envs.tasks import verbs_of
from marl.envs.vector.env_errors import close_all
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError, SpaceMismatchError, UserError, let_through
from marl.rollout.config import EnvRecipe, StageEnv
from marl.scenario.config import Scenario, StageConfig
from marl.scenario.env import EnvFacts, describe_players, env_name, who_plays


def stages_of(scenario: Scenario) -> tuple[StageConfig, ...]:
    """All stages of a curriculum. Where the last one given ends, the scenario's own env follows as one more."""
    given = tuple(scenario.curriculum)
    if given and given[-1].until:
        return (*given, StageConfig())
    return given


def stage_envs(scenario: Scenario, look: EnvFacts, task: Task, evaluated: EnvRecipe) -> tuple[StageEnv, ...]:
    """What is played in each stage; raises a ``UserError`` for a stage that cannot be played. An evaluation env of its own
    (``evaluated``) stays as it is; else evaluation plays the env of the stage."""
    _check_together(scenario)
    found = []
    own = scenario.evaluation
    for number, stage in enumerate(stages_of(scenario)):
        keys = {**scenario.env_config, **stage.env_config}
        recipe = EnvRecipe(scenario.env, keys, look.wrappers)
        if own.env is None:
            evaluation_keys = {**keys, **(own.env_config or {})}
            evaluated = EnvRecipe(scenario.env, evaluation_keys, look.wrappers)
        _try_out(scenario, number, stage, recipe, look, task)
        found.append(StageEnv(recipe, evaluated, stage.task))
    if scenario.env_task_fn is not None:
        env = make_batched_env(scenario.env, 1, scenario.env_config, wrappers=look.wrappers, with_state=False)
        _check_takes_tasks(env, "env_task_fn is given")
        close_all([env], env.name)
    return tuple(found)


def _check_together(scenario: Scenario) -> None:
    """Refuse what does not go together with envs that change."""
    if scenario.curriculum:
        _check_curriculum(scenario)
    if scenario.env_task_fn is not None and scenario.input:
        raise ConfigError(
            "env_task_fn chooses tasks of envs that are played, but input reads episodes. Drop one of them."
        )


def _check_curriculum(scenario: Scenario) -> None:
    given = scenario.curriculum
    for number, stage in enumerate(given[:-1]):
        if not stage.until:
            raise ConfigError(
                f"curriculum[{number}] has no until, so the stages after it are never played. Say when it ends, for instance "
                "until: {episode_reward_mean: 100}; only the last stage may go without."
            )
    gives_tasks = any(stage.task is not None for stage in given)
    if gives_tasks and scenario.env_task_fn is not None:
        raise ConfigError("curriculum gives tasks, and env_task_fn is given too. Let one of them choose the tasks.")


def _try_out(
    scenario: Scenario, number: int, stage: StageConfig, recipe: EnvRecipe, look: EnvFacts, task: Task
) -> None:  # fmt: skip
    where = f"curriculum[{number}]"
    if number >= len(scenario.curriculum):
        where = "env_config, played after the curriculum"
    with_state = task.state_size > 0
    try:
        env = make_batched_env(recipe.env, 1, recipe.env_config, wrappers=recipe.wrappers, with_state=with_state)
    except UserError as error:
        raise type(error)(f"{where}: {error}") from error
    try:
        _compare(where, scenario, env, look, task)
        if stage.task is not None:
            _check_takes_tasks(env, f"{where} has the task {stage.task!r}")
            _try_task(where, env, stage.task)
    finally:
        close_all([env], env.name)


def _compare(where: str, scenario: Scenario, env: BatchedEnv, look: EnvFacts, task: Task) -> None:
    wanted = who_plays(look.kinds)
    found = who_plays(env.kinds)
    if wanted != found:
        raise SpaceMismatchError(
            f"{where} is not played by the agents of the scenario: it has {describe_players(found)}; env "
            f"{env_name(scenario.env)!r} with the scenario's env_config has {describe_players(wanted)}. All stages need the "
            "same agents in this order with equal spaces, because the same policies play them. Let the env pad what it "
            "shows to the size of its largest stage."
        )
    if task.state_size and env.state_size != task.state_size:
        raise SpaceMismatchError(
            f"{where} has a global state of {env.state_size} numbers, expected {task.state_size} as in the scenario's own "
            "env. Let the env pad its state, or take an algorithm that does not look at it."
        )


def _check_takes_tasks(env: BatchedEnv, why: str) -> None:
    # Every batched env has the method, so it has to be asked of the env inside, or of the class that overrides it.
    if isinstance(env, DictVector):
        takes = "set_task" in verbs_of(env.sub_env(0))
    else:
        takes = type(env).set_task is not BatchedEnv.set_task
    if not takes:
        raise ConfigError(
            f"{why}, but env {env.name!r} has no set_task(task). Give it one, or change env_config instead."
        )


def _try_task(where: str, env: BatchedEnv, task: object) -> None:
    sub_env: Any = env.sub_env(0)
    try:
        sub_env.set_task(task)
    except UserError as error:
        raise type(error)(f"{where}: {error}") from error
    except BaseException as error:  # it is the user's code, which may raise anything
        let_through(error)
        raise ConfigError(
            f"{where}: set_task({task!r}) of env {env.name!r} failed: {type(error).__name__}: {error}."
        ) from error


def describe_stages(stages: Sequence[StageConfig]) -> tuple[str, ...]:
    """A line about the curriculum for the head of a run; none without one."""
    if not stages:
        return ()
    parts = []
    for number, stage in enumerate(stages):
        part = f"{number}: {describe_stage(stage)}"
        if stage.until:
            ends = [f"{field} {value:g}" for field, value in stage.until.items()]
            part += f" until {' and '.join(ends)}"
        parts.append(part)
    return (f"curriculum: {'; '.join(parts)}",)


def describe_stage(stage: StageConfig) -> str:
    """What differs from the scenario's own env."""
    parts = [f"{key}={value}" for key, value in stage.env_config.items()]
    if stage.task is not None:
        parts.append(f"task {stage.task}")
    return ", ".join(parts) or "the scenario's own env"
