"""The distinct positions of an env, each once, however many histories lead to it.

A tree has a node for every history. Where the future depends on the present state alone, histories that end in the same
state can be one *position*: a game with 10^10 histories may have 10^5 positions. Positions stand level by level (the number
of env steps since the start), so equal states at different times are two positions and no position follows itself.

An *edge* is one joint action at a position (or one outcome of a chance move inside of the game) with what it pays. What a
player sees where it is asked is its *view*; equal views are one, whatever the position behind them. Chance comes in as it
does into trees (``tree/chance.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from marl.data.task import AgentType, Array, Bools, Ints
from marl.envs.registry import EnvCreator, make_batched_env
from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.gametheory.tree.tree import ChanceMode, ChanceSample, Reals

MAX_POSITIONS = 5_000_000


@dataclass(frozen=True, eq=False)
class Views:
    """What one player can see where it is asked, each once."""

    obs: Array  # [V, obs_width] as the env shows it
    legal: Bools  # [V, actions]; all True where the env has no masks

    def __len__(self) -> int:
        return len(self.obs)


@dataclass(frozen=True, eq=False)
class Positions:
    """``N`` positions and ``M`` edges of a game of ``P`` players. Every agent is a player."""

    name: str
    players: tuple[str, ...]
    kinds: tuple[AgentType, ...]  # spaces of the players, which sit on the seats 0 .. P - 1
    chance: ChanceMode
    sample: ChanceSample | None  # where chance is sampled; its counts are in the order of ``start``
    level: Ints  # [N] env steps since the start, never smaller than that of the position before
    over: Bools  # [N]
    asked: Bools  # [N, P]
    view: Ints  # [N, P] number among the player's views; -1 where it is not asked
    views: tuple[Views, ...]  # per player
    start: Ints  # [S] positions in which episodes begin
    start_probability: Reals  # [S]
    source: Ints  # [M], sorted
    target: Ints  # [M]
    actions: Ints  # [M, P]; -1: not asked
    rewards: Reals  # [M, P]
    probability: Reals  # [M] of chance inside of the game; 1 where there is none

    def __len__(self) -> int:
        return len(self.level)

    @property
    def num_open(self) -> int:
        """Positions where the game goes on; those where it is over are one per level."""
        return int((~self.over).sum())

    @property
    def num_players(self) -> int:
        return len(self.players)

    @cached_property
    def first_edge(self) -> Ints:
        """``[N + 1]``: the edges of position ``x`` are those from ``first_edge[x]`` to ``first_edge[x + 1]``."""
        return self.source.searchsorted(range(len(self) + 1))

    @cached_property
    def first_of_level(self) -> Ints:
        """``[L + 1]``: where each level begins, and ``N``."""
        levels = int(self.level[-1]) + 1 if len(self) else 0
        return self.level.searchsorted(range(levels + 1))

    def kind_of(self, player: int) -> AgentType:
        """Spaces of the player."""
        return next(kind for kind in self.kinds if kind.seats.start <= player < kind.seats.stop)

    def player_index(self, player: int | str) -> int:
        """A player's number, from its name or from the number itself."""
        if isinstance(player, int) and 0 <= player < self.num_players:
            return player
        if not isinstance(player, str):
            raise ConfigError(
                f"game {self.name!r} has no player {player!r}. Players are numbered from 0 to {self.num_players - 1}, or "
                f"named: {', '.join(self.players)}."
            )
        if player not in self.players:
            raise UnknownNameError(
                f"game {self.name!r} has no player {player!r}.{did_you_mean(player, self.players)} Players: "
                f"{', '.join(self.players)}."
            )
        return self.players.index(player)

    def chance_json(self) -> dict[str, Any]:
        """How chance is in the game, for files."""
        return {"mode": self.chance, **(self.sample.as_json() if self.sample is not None else {})}


def positions_of(
    env: str | EnvCreator,
    env_config: Mapping[str, Any] | None = None,
    *,
    chance_samples: int | None = None,
    max_positions: int = MAX_POSITIONS,
) -> Positions:
    """The distinct positions of an env: its name (or class, or function) and its ``env_config``.

    ``chance_samples`` reset seeds 0, 1, ... stand for chance; without it chance is as the env lists it, or as many seeds as
    it takes.
    """
    from marl.gametheory.merged.growth import grow_positions

    config = dict(env_config or {})
    return grow_positions(
        lambda env_ids: make_batched_env(env, env_ids, config, with_state=False), chance_samples, max_positions
    )
