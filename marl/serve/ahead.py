"""Copies of an env that are stepped together: all get their actions before anybody waits for what comes of them.

The clients of several copies then work at the same time, as they would without each other. Results are looked at in the order
of the copies, so nothing depends on who was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

from marl.data.task import AgentID, Array, Ints
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import StepOutput
from marl.envs.tasks import users_env
from marl.envs.vector.vector_env import DictVector
from marl.envs.wrapper import EnvWrapper


class CopyThread:
    """The thread in which one copy waits. The program may end at any time: nobody joins it, unlike an executor's threads."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        result: Future[Any] = Future()
        self._jobs.put((job, result))
        return result

    def end(self) -> None:
        """After what it was given."""
        self._jobs.put(None)

    def _work(self) -> None:
        given = self._jobs.get()
        while given is not None:
            job, result = given
            try:
                result.set_result(job())
            except BaseException as error:  # for whoever waits; also what a user's wrapper raises to end the program
                result.set_exception(error)
            given = self._jobs.get()


class Ahead(EnvWrapper):
    """An env whose next step or reset may begin, in a thread of its own, before it is waited for."""

    def __init__(self, env: MultiAgentEnv, thread: CopyThread) -> None:
        super().__init__(env)
        self._thread = thread
        self._begun: Future[Any] | None = None

    @property
    def users_env(self) -> Any:
        return users_env(self.env)

    def begin_reset(self, seed: int) -> None:
        self._begun = self._thread.submit(partial(self.env.reset, seed=seed))

    def begin_step(self, actions: dict[AgentID, Action]) -> None:
        self._begun = self._thread.submit(partial(self.env.step, actions))

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        found: tuple[dict[AgentID, Obs], dict[AgentID, Info]] = self._result(
            partial(self.env.reset, seed=seed, options=options)
        )
        return found

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        found: StepResult = self._result(partial(self.env.step, actions))
        return found

    def _result(self, call: Callable[[], Any]) -> Any:
        begun, self._begun = self._begun, None
        if begun is None:
            # Also a call of one copy alone waits in another thread: signals are heard by this one.
            begun = self._thread.submit(call)
        return begun.result()


class SteppedTogether(DictVector):
    """A ``DictVector`` of envs that begin ahead."""

    def __init__(self, envs: Sequence[MultiAgentEnv], name: str, worker_index: int, with_state: bool) -> None:
        self._threads = [CopyThread(f"marl copy {env_id}") for env_id in range(len(envs))]
        self._ahead = [Ahead(env, thread) for env, thread in zip(envs, self._threads, strict=True)]
        super().__init__(self._ahead, name, None, worker_index, with_state)

    def reset(self, env_ids: Ints, seeds: Ints) -> StepOutput:
        for env_id, seed in zip(env_ids.tolist(), seeds.tolist(), strict=True):
            self._ahead[env_id].begin_reset(seed)
        return super().reset(env_ids, seeds)

    def step(self, actions: Sequence[Array]) -> StepOutput:
        lists = [column.tolist() for column in actions]
        for env_id, asked in enumerate(self._present.tolist()):
            self._ahead[env_id].begin_step(self._actions_of(env_id, asked, lists))
        return super().step(actions)

    def close(self) -> None:
        for thread in self._threads:
            thread.end()
        super().close()
