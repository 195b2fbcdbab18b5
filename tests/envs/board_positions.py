"""All positions of a native env without chance, merged where the rows of its state are equal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from marl.envs.batched import NativeEnv
from marl.envs.registry import make_batched_env


class Counted(NamedTuple):
    """Positions with a move to make, positions at an end, and what each seat can see where it is asked."""

    going: int
    over: int
    views: tuple[int, ...]


def native(name: str, copies: int, config: dict[str, Any]) -> NativeEnv:
    env = make_batched_env(name, copies, config)
    assert isinstance(env, NativeEnv)
    return env


def count_positions(name: str, config: dict[str, Any]) -> Counted:
    """Level by level: every legal action in every position of a level, then each different row once."""
    env = native(name, 1, config)
    frame = env.reset(np.array([0]), np.array([0]))
    going, ended, views = 0, 0, [set[bytes]() for _ in range(env.kinds[0].size)]
    while True:
        over = ~frame.present.any(axis=1)
        going, ended = going + int((~over).sum()), ended + int(over.sum())
        for player, seen in enumerate(views):
            seen |= set(map(bytes, frame.obs[0][frame.present[:, player], player]))
        asked = frame.present.argmax(axis=1)
        legal = frame.legal[0][np.arange(len(over)), asked] & ~over[:, None]
        rows, actions = np.nonzero(legal)
        if not len(rows):
            return Counted(going, ended, tuple(map(len, views)))
        state = {key: array[rows] for key, array in env.get_state().items()}
        env = native(name, len(rows), config)
        env.set_state(state)
        env.step([np.repeat(actions[:, None], env.kinds[0].size, axis=1)])
        state = env.get_state()
        flat = np.concatenate([array.reshape(len(rows), -1).astype(np.int64) for array in state.values()], axis=1)
        first = np.unique(flat.view(f"V{flat.itemsize * flat.shape[1]}").ravel(), return_index=True)[1]
        env = native(name, len(first), config)
        frame = env.set_state({key: array[first] for key, array in state.items()})
