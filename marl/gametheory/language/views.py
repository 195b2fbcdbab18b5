"""The text of every view of a game.

A policy gets the observation alone, from which no text can be made. So the positions of the game are walked through once, and
the text that belongs to a view is kept under its observation. This needs a native env whose chance is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marl.data.task import Array
from marl.envs.batched import BatchedEnv, NativeEnv
from marl.envs.registry import make_batched_env
from marl.envs.texts import TextView, text_of
from marl.errors import ConfigError
from marl.gametheory.merged.growth import PositionGrowth
from marl.gametheory.tree.build import check_players
from marl.gametheory.tree.chance import grow_all
from marl.gametheory.tree.env_walker import MakeEnv, Sight, Stage, States
from marl.gametheory.tree.tree import Reals

MAX_POSITIONS = 500_000


@dataclass
class TextGrowth(PositionGrowth):
    """Walks through a game as merged positions are found, and reads every new view on the way."""

    make: MakeEnv | None = None
    texts: list[dict[bytes, TextView]] = field(default_factory=list)  # by seat, then by observation

    def begin(self, stage: Stage, states: States, sight: Sight, probability: Reals, first: int = 0) -> None:
        self._read(states, sight)
        super().begin(stage, states, sight, probability, first)

    def _next_level(self, chunk: Any, stage: Stage, states: States, sight: Sight) -> tuple[States, Sight]:
        states, sight = super()._next_level(chunk, stage, states, sight)
        self._read(states, sight)
        return states, sight

    def _read(self, states: States, sight: Sight) -> None:
        assert self.make is not None
        # The walk hands on rows of states, not envs: one env shows them all.
        env = self.make(len(sight.over))
        env.set_state(states)
        for kind, obs, legal in zip(self.kinds, sight.obs, sight.legal, strict=True):
            for i in range(kind.size):
                seat = kind.first_seat + i
                for row in np.flatnonzero(sight.present[:, seat] & ~sight.over).tolist():
                    allowed = np.flatnonzero(legal[row, i]) if kind.masked else np.arange(kind.columns.options)
                    self._keep(env, row, seat, obs[row, i], allowed)

    def _keep(self, env: BatchedEnv, row: int, seat: int, obs: Array, allowed: Array) -> None:
        known = self.texts[seat]
        key = view_key(obs)
        if key not in known:
            known[key] = text_of(env, row, self.players[seat], allowed.tolist())


def view_key(obs: Array) -> bytes:
    """What a view is found by. Policies are given observations as float32, whatever the env has them in."""
    return np.ascontiguousarray(obs, np.float32).tobytes()


def check_is_native(made: BatchedEnv, env: str) -> None:
    if isinstance(made, NativeEnv):
        return
    raise ConfigError(
        f"env {env!r} is no native env, so its positions cannot be told as text one by one. Language models play native "
        "envs: kuhn_poker, leduc_poker, liars_dice, matrix_game, phantom_ttt, ..."
    )


def texts_of_views(env: str, env_config: Mapping[str, Any] | None = None) -> list[dict[bytes, TextView]]:
    """For every seat the text of each of its views, by ``view_key``."""
    config = dict(env_config or {})

    def make(copies: int) -> BatchedEnv:
        return make_batched_env(env, copies, config, with_state=False)

    one = make(1)
    check_is_native(one, env)
    check_players(one.name, one.kinds, one.fixed_seats, None)
    texts: list[dict[bytes, TextView]] = [{} for _ in one.seat_names]
    growth = TextGrowth(one.name, tuple(one.seat_names), one.kinds, MAX_POSITIONS, make=make, texts=texts)
    grow_all(growth, make, one, None)
    return texts
