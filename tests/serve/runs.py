"""Runs that learn from clients, beside the same runs with the env in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from marl.driving import contract_of, drive
from marl.envs.base import EnvContext, MultiAgentEnv
from marl.envs.registry import make_env
from marl.runs.result import without_wall_clock
from marl.training.trainer import Trainer

Lines = list[dict[str, Any]]
Weights = dict[str, Any]


def copy_of(env: str, config: EnvContext) -> MultiAgentEnv:
    """A dict env, also of a game that is natively batched."""
    return make_env(env, config)


def played_here(env: str, keys: Mapping[str, Any], iterations: int) -> tuple[Lines, Weights]:
    """The run with its env in this process."""
    with Trainer(env=partial(copy_of, env), config=keys) as trainer:
        return trained(trainer, iterations)


def external(env: str, keys: Mapping[str, Any], **server: Any) -> dict[str, Any]:
    """The keys of the same run with its env at the other end of a network."""
    agents, state_size = contract_of(make_env(env, keys.get("env_config", {})))
    config = {"agents": agents, "state_size": state_size}
    return {**keys, "env_config": config, "external": {"lock_step": True, "port": 0, **server}}


def played_elsewhere(env: str, keys: Mapping[str, Any], iterations: int, clients: int) -> tuple[Lines, Weights]:
    """The run in lock-step with clients that drive the env, over a real socket."""
    with Trainer(env="external", config=external(env, keys)) as trainer:
        with driven(trainer.workers.serve(), env, clients, keys.get("env_config", {})):
            found = trained(trainer, iterations)
            counters = trainer.workers.service.hub.counters
            assert (counters.lost, counters.doubled) == (0, 0)
            trainer.stop()
        return found


def trained(trainer: Trainer, iterations: int) -> tuple[Lines, Weights]:
    lines = [told(trainer.train()) for _ in range(iterations)]
    return lines, weights_of(trainer)


def told(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without times, and without the keys, which name another env."""
    kept = without_wall_clock(result)
    kept.pop("config")
    return kept


def weights_of(trainer: Trainer) -> Weights:
    found = {}
    for policy, arrays in trainer.get_weights().items():
        for name, array in arrays.items():
            found[f"{policy}/{name}"] = array
    return found


def same_weights(first: Weights, second: Weights) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@contextmanager
def driven(url: str, env: str, clients: int, env_config: Mapping[str, Any], **options: Any) -> Iterator[list[Any]]:
    """Clients in threads; they end when the server closes."""
    found: list[Any] = []

    def play() -> None:
        found.append(drive(env, url, env_config=env_config, patience=20.0, **options))

    with running([play] * clients):
        yield found
    assert len(found) == clients, "a client failed"


@contextmanager
def running(jobs: list[Callable[[], None]]) -> Iterator[None]:
    threads = [threading.Thread(target=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(30.0)
