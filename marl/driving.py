"""``marl.drive(env, url)``: an env in this process is played by the policies of a server, and learned from there.

The server says the seed of every episode. So a driver with a ``name`` that was killed in the middle of an episode plays it
again up to the same point, by its seed and the actions that the server remembers, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from marl.client import PolicyClient, PolicyClientError
from marl.envs.adapters.adapt import as_env
from marl.envs.adapters.pettingzoo import is_pettingzoo
from marl.envs.base import MultiAgentEnv
from marl.envs.registry import make_env
from marl.serve.env_contract import contract_of
from marl.serve.remote_env import Driven, RemoteEnv

SECONDS_TO_SAY_GOODBYE = 2.0
GONE = ("closing", "unreachable", "closed")  # nobody plays with us any more
FORGOTTEN = ("unknown_session", "unknown_episode", "ended")  # a server without a journal came back, or we were too slow


def drive(
    env: Any,
    url: str,
    *,
    episodes: int | None = None,
    env_config: Mapping[str, Any] | None = None,
    training: bool = True,
    stop: Callable[[], bool] | None = None,
    patience: float = 60.0,
    **client: Any,
) -> Driven:
    """Let a server play an env of this process: ``marl.drive("CartPole-v1", "http://127.0.0.1:9900", episodes=100)``.

    ``env`` is an env of marl, Gymnasium or PettingZoo, its class, or its name; the last two get the ``env_config``. It ends
    after ``episodes``, when ``stop()`` says so between two episodes, by Ctrl-C, or when the server is closed or has not
    answered for ``patience`` seconds. Further keywords are those of ``PolicyClient``, such as ``token`` and ``name``; a driver
    with a name waits for ``patience`` seconds also for a server that says that it closes.
    """
    built = _built(env, env_config)
    agents, state_size = contract_of(built)
    connection = PolicyClient(url, agents=agents, state_size=state_size, patience=patience, **client)
    if "name" not in client:
        connection.final = ("closing",)
    remote = RemoteEnv(built, connection, training)
    driven = remote.driven
    try:
        for opened in _greet(connection):
            _unless_forgotten(remote, partial(remote.rejoin, opened))
        driven.why = _play(remote, episodes, stop)
    except KeyboardInterrupt:
        driven.why = "interrupted"
        _say_goodbye(remote)
    except PolicyClientError as error:
        if error.code not in GONE or not connection.about:
            raise
        driven.why = f"the server is gone: {error}"
    finally:
        connection.close()
    return driven


def _built(env: Any, env_config: Mapping[str, Any] | None) -> MultiAgentEnv:
    is_object = not isinstance(env, str | type) and (hasattr(env, "reset") or is_pettingzoo(env))
    if is_object:
        return as_env(env, type(env).__name__)
    return make_env(env, env_config)


def _play(remote: RemoteEnv, episodes: int | None, stop: Callable[[], bool] | None) -> str:
    while episodes is None or remote.driven.episodes < episodes:
        if stop is not None and stop():
            return "stopped"
        _unless_forgotten(remote, remote.play)
    return "all episodes are played"


def _unless_forgotten(remote: RemoteEnv, play: Callable[[], None]) -> None:
    """Play an episode; one that the server does not know any more is left."""
    try:
        play()
    except PolicyClientError as error:
        if error.code not in FORGOTTEN:
            raise
        remote.driven.abandoned += 1
        remote.episode = ""


def _say_goodbye(remote: RemoteEnv) -> None:
    """An episode that is left in the middle is cut off, so that nobody waits for it; a server that is gone does not matter."""
    if remote.episode:
        remote.client.patience = remote.client.timeout = SECONDS_TO_SAY_GOODBYE
        with suppress(PolicyClientError):
            remote.leave()


def _greet(client: PolicyClient) -> list[dict[str, Any]]:
    """Say who plays; returns the episodes that are open. An env may have a state that nobody there wants to know."""
    try:
        client.hello()
    except PolicyClientError as error:
        unwanted = error.details.get("key") == "state_size" and error.details.get("expected", 0) == 0
        if not unwanted:
            raise
        client.greeting.pop("state_size")
    opened: list[dict[str, Any]] = client.hello()["open"]
    return opened
