"""Whole games of envs that deal once, and random legal moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.envs.games.cards.dealt import DealtEnv

History = tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """One situation: a decision of ``player``, or an end with ``rewards``."""

    deal: int
    history: History
    player: int
    seen: bytes
    legal: tuple[int, ...]
    rewards: tuple[float, ...]

    @property
    def over(self) -> bool:
        return bool(self.rewards)


def nodes(game: type[DealtEnv], config: dict[str, Any]) -> list[Node]:
    """The whole game, level by level: every level is one env with a copy per situation."""
    count = len(game(1, config).deal_probabilities)
    level = game(count, config)
    frame = level.reset_to(np.arange(count), np.arange(count))
    histories: list[History] = [()] * count
    found: list[Node] = []
    while True:
        expand: list[tuple[int, int]] = []  # env_id, action
        for env_id, history in enumerate(histories):
            if frame.over[env_id]:
                found.append(Node(level.deal[env_id], history, -1, b"", (), tuple(frame.rewards[env_id].tolist())))
                continue
            (player,) = np.flatnonzero(frame.present[env_id])
            mask = frame.legal[0][env_id, player]
            legal = tuple(np.flatnonzero(mask)) if mask.size else tuple(range(level.kinds[0].action_space.n))
            found.append(Node(level.deal[env_id], history, player, frame.obs[0][env_id, player].tobytes(), legal, ()))
            expand += [(env_id, action) for action in legal]
        if not expand:
            return found
        env_ids, actions = np.array(expand).T
        rows = {name: array[env_ids] for name, array in level.get_state().items()}
        level = game(len(env_ids), config)
        level.set_state(rows)
        frame = level.step([np.repeat(actions[:, None], level.kinds[0].size, axis=1)])
        histories = [(*histories[env_id], int(action)) for env_id, action in expand]


def random_moves(env: DealtEnv, frame: Any, rng: np.random.Generator) -> np.ndarray:
    count = env.kinds[0].action_space.n
    legal = frame.legal[0] if frame.legal[0].shape[2] else np.ones((*frame.present.shape, count), bool)
    return np.where(legal, rng.random(legal.shape), -1.0).argmax(axis=2)
