"""An ``ExternalEnv`` that plays: its ``run()`` in a thread of its own, and what that calls.

It stands where the server of other runs stands. Calls in this process go to the same hub as messages do, and a server that
the program starts serves that hub.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from marl.client import PolicyClient, PolicyClientError
from marl.data.task import AgentID
from marl.envs.external.program import ExternalEnv
from marl.envs.external.server_config import ServerConfig
from marl.errors import ConfigError, EnvError, UserError
from marl.failures import line_of_code
from marl.serve.env_contract import action_from_json
from marl.serve.hub import Hub, Refused
from marl.serve.server import Server, ServerError

JOIN_S = 5.0  # for so long a run that ends waits for run() to end as well
LOOK_S = 0.5  # so often a program that serves looks whether its server is well


class InProcessClient(PolicyClient):
    """The five calls without a network: a message is handed to the hub, and the thread sleeps until it is answered."""

    def __init__(self, hub: Hub, most: int) -> None:
        super().__init__("http://this.process")
        self.hub, self.most = hub, most

    def _until_answered(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        while True:
            try:
                return self.hub.ask(kind, message)
            except Refused as refused:
                final = refused.retry_after is None or refused.code == "closing"
                if final:
                    raise PolicyClientError(refused.code, str(refused), details=refused.to_json()["error"]) from refused
                pause = refused.retry_after or 0.0
            time.sleep(pause)

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        if len(self.running) >= self.most:  # it would wait for one of its own to end, perhaps for ever
            raise EnvError(
                f"{len(self.running) + 1} episodes at once were started in run(), but num_envs_per_worker is {self.most}. "
                "Set num_envs_per_worker to the number of episodes that are open at once, or end one before the next."
            )
        return super().start_episode(episode_id, training_enabled)

    def get_action(self, episode_id: str, observation: Any, **fields: Any) -> Any:
        """As the env takes it: there are arrays in this process."""
        seen = self._by_agent(observation)
        actions = super().get_action(episode_id, seen, **fields)
        moves = {agent: self._move(agent, action) for agent, action in actions.items()}
        return moves if seen is observation else next(iter(moves.values()))

    def _move(self, agent: AgentID, action: Any) -> Any:
        return action_from_json(self.hub.desk.contract.action_space(agent), action)


class Program:
    """Builds an ``ExternalEnv`` and runs it. ``on_failure`` is told, in the program's thread, why it cannot go on."""

    env: ExternalEnv

    def __init__(self, build: Callable[[], ExternalEnv], hub: Hub, most: int) -> None:
        self._build, self.hub = build, hub
        self.calls = InProcessClient(hub, most)
        self.url = ""  # of its server, if it starts one
        self.note: Callable[[str], None] = _tell_nobody
        self.on_failure: Callable[[BaseException], None] = _tell_nobody
        self._server: Server | None = None
        self._stopped, self._reason = threading.Event(), ""
        self._thread = threading.Thread(target=self._run, name="marl program", daemon=True)

    def start(self) -> str:
        self.env = self._build()
        self.env.played_by = self
        self._thread.start()
        return self.url

    def _run(self) -> None:
        try:
            self.env.run()
        except BaseException as error:  # whatever it is, the run must not wait for ever
            failure: BaseException = _as_users(error, self._name)
        else:
            failure = EnvError(
                f"run() of {self._name} returned after {self.hub.counters.ended} episodes, but the run is not over, and "
                "nobody else plays. Let it play on in an endless loop, or serve: PolicyServer(self, address, "
                "port).serve_forever()."
            )
        if not self._stopped.is_set():
            self.hub.fail(failure)
            self.on_failure(failure)

    @property
    def _name(self) -> str:
        return type(self.env).__name__

    def serve(self, config: ServerConfig) -> None:
        """Called by run(): comes back when the run is stopped."""
        if self._server is not None:
            raise ConfigError(
                f"{self._name} serves at {self.url} already; one env has one PolicyServer. Drop the second: any number of "
                "clients may talk to the first."
            )
        self._server = server = Server(self.hub, config)
        self.url = server.start()
        told = f"clients: {self.url}"
        if config.token_file is not None:
            told += f", with the token in {config.token_file}"
        self.note(told)
        try:
            while not self._stopped.wait(LOOK_S):
                if server.failed.is_set():
                    raise ServerError(f"the server at {self.url} failed: {server.health.reason}")
        finally:
            server.stop(grace_s=0.0, reason=self._reason or f"run() of {self._name} ended")

    def stop(self, grace_s: float = 0.0, reason: str = "the run was stopped") -> None:
        """Calls that wait are refused, which ends run(), as does the end of its server."""
        del grace_s
        if self._stopped.is_set():
            return
        self._reason = reason
        self._stopped.set()
        self.hub.close(reason)
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)
        self.env.close()


def _as_users(error: BaseException, name: str) -> BaseException:
    """What run() raised, as an error that can be understood."""
    if isinstance(error, UserError):
        return error
    failure = EnvError(f"run() of {name} failed: {type(error).__name__}: {error}{line_of_code(error)}.")
    failure.__cause__ = error
    return failure


def _tell_nobody(told: object) -> None:
    del told
