"""What changes in a world while a run goes on: stages of a curriculum, and tasks that a function of the user chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marl.envs.batched import BatchedEnv
from marl.envs.tasks import Told, same_task, tell
from marl.errors import CallbackError, UserError, let_through
from marl.rollout.config import StageWorld

if TYPE_CHECKING:
    from marl.rollout.worker import RolloutWorker


def needs_new_worlds(before: StageWorld, now: StageWorld) -> bool:
    """Whether the copies of one stage cannot be told to play another one. A task can be replaced, but not taken back."""
    if not same_task(dict(before.world.env_config), dict(now.world.env_config)):
        return True
    return before.task is not None and now.task is None


def tell_alike(world: BatchedEnv, told: Sequence[Told]) -> None:
    """Tell copy ``i`` what it was not told before of ``told[i]``; fewer entries than copies go round."""
    for lane in range(world.num_envs) if told else ():
        tell(world.lane(lane), told[lane % len(told)], world.told[lane])


@dataclass(frozen=True)
class ChooseTasks:
    """Called with every worker: asks ``fn(result, env, ctx)`` for the task of each copy (the key ``env_task_fn``)."""

    fn: Callable[..., Any]
    result: Mapping[str, Any]

    def __call__(self, worker: RolloutWorker) -> None:
        for lane in range(worker.world.num_envs) if worker.has_world else ():
            copy: Any = worker.world.lane(lane)
            try:
                task = self.fn(self.result, copy, worker.context(lane))
                if task is not None:
                    tell(copy, {"set_task": task}, worker.world.told[lane])
            except UserError:
                raise
            except BaseException as error:
                let_through(error)
                raise CallbackError(
                    f"env_task_fn failed in worker {worker.index}, copy {lane}: {type(error).__name__}: {error}. Expected a "
                    "function of (result, env, ctx) that gives a task for env.set_task, or None for no change."
                ) from error
