"""What changes in an env while a run goes on: stages of a curriculum, and tasks that a function of the user chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marl.envs.batched import BatchedEnv
from marl.envs.tasks import TaskMemory, same_task, tell
from marl.errors import CallbackError, UserError, let_through
from marl.rollout.config import StageEnv

if TYPE_CHECKING:
    from marl.rollout.worker import RolloutWorker


def needs_new_envs(before: StageEnv, now: StageEnv) -> bool:
    """Whether the copies of one stage cannot be told to play another one. A task can be replaced, but not taken back."""
    if not same_task(dict(before.env_recipe.env_config), dict(now.env_recipe.env_config)):
        return True
    return before.task is not None and now.task is None


def set_same_tasks(env: BatchedEnv, tasks: Sequence[TaskMemory]) -> None:
    """Tell copy ``i`` what it was not told before of ``tasks[i]``; fewer entries than copies go round."""
    if not tasks:
        return
    for env_id in range(env.num_envs):
        tell(env.sub_env(env_id), tasks[env_id % len(tasks)], env.told[env_id])


@dataclass(frozen=True)
class ChooseTasks:
    """Called with every worker: asks ``fn(result, env, ctx)`` for the task of each copy (the key ``env_task_fn``)."""

    fn: Callable[..., Any]
    result: Mapping[str, Any]

    def __call__(self, worker: RolloutWorker) -> None:
        copies = worker.env.num_envs if worker.has_env else 0
        for env_id in range(copies):
            copy: Any = worker.env.sub_env(env_id)
            try:
                task = self.fn(self.result, copy, worker.context(env_id))
                if task is not None:
                    tell(copy, {"set_task": task}, worker.env.told[env_id])
            except UserError:
                raise
            except BaseException as error:
                let_through(error)
                raise CallbackError(
                    f"env_task_fn failed in worker {worker.index}, copy {env_id}: {type(error).__name__}: {error}. Expected a "
                    "function of (result, env, ctx) that gives a task for env.set_task, or None for no change."
                ) from error
