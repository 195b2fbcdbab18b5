"""A team that shares what its members see is one player: its best response is that of a single exploiter.

    view of the team = the views of its members side by side      action = one action of each that is asked

The members' policies are not looked at; the others play on as they do. What the team can gain so is never less than what its
members could gain without telling each other what they see.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentType, Array, Bools, Ints
from marl.errors import ConfigError
from marl.gametheory.merged.cost import Cost
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.kernel import Table
from marl.gametheory.merged.positions import Positions, Views

MOST_ACTIONS = 4_096  # joint actions of a team


@dataclass(frozen=True, eq=False)
class TeamGame:
    """The game in which a team is one player, the last one; all others keep their views."""

    positions: Positions
    others: tuple[int, ...]  # players of the game before, in their order

    @property
    def team(self) -> int:
        return len(self.others)

    def tables(self, tables: Sequence[Table]) -> list[Table]:
        """How the others play, from tables of all players of the game before; the team's own is not looked at."""
        nothing = np.zeros(self.positions.views[self.team].legal.shape)
        return [*(tables[player] for player in self.others), nothing]

    def best_value(self, tables: Sequence[Table]) -> float:
        """The most that the team can earn together against the others, who play by tables of the game before."""
        return MergedGame(self.positions).best_value(self.tables(tables), self.team)

    def cost(self, tables: Sequence[Table]) -> Cost:
        """What that costs."""
        return MergedGame(self.positions).cost(self.tables(tables), self.team)


def with_team(positions: Positions, members: Sequence[int], name: str = "team") -> TeamGame:
    """Let these players be one that sees and decides everything that they do; it is paid what they are paid together."""
    mine = list(members)
    others = [player for player in range(positions.num_players) if player not in mine]
    options = [positions.views[player].legal.shape[1] for player in mine]
    actions = math.prod(options)
    if actions > MOST_ACTIONS:
        raise ConfigError(
            f"game {positions.name!r}: the team {name!r} has {actions:,} joint actions, more than the {MOST_ACTIONS:,} that "
            "are looked at."
        )
    asked = positions.asked[:, mine].any(axis=1)
    shown, number = np.unique(positions.view[asked][:, mine], axis=0, return_inverse=True)
    view = np.full(len(positions), -1, np.int64)
    view[asked] = number.reshape(-1)
    views = _joint_views(positions, mine, shown)
    return TeamGame(
        replace(
            positions,
            players=(*(positions.players[player] for player in others), name),
            kinds=_kinds(positions, others, name, views),
            asked=np.column_stack([positions.asked[:, others], asked]),
            view=np.column_stack([positions.view[:, others], view]),
            views=(*(positions.views[player] for player in others), views),
            actions=np.column_stack(
                [positions.actions[:, others], _joint_actions(positions.actions[:, mine], options)]
            ),
            rewards=np.column_stack([positions.rewards[:, others], positions.rewards[:, mine].sum(axis=1)]),
        ),
        tuple(others),
    )


def _joint_views(positions: Positions, members: Sequence[int], shown: Ints) -> Views:
    """What the team sees: per member whether it is asked, and what it sees then; ``shown`` has its members' views."""
    columns: list[Array] = []
    legal: Bools = np.ones((len(shown), 1), bool)
    for place, player in enumerate(members):
        views, is_asked = positions.views[player], shown[:, place] >= 0
        number = shown[:, place]
        columns.append(is_asked[:, None].astype(np.float64))
        # Who is not asked does nothing, which is its action 0; some never are.
        seen: Array = np.zeros((len(shown), views.obs.shape[1]))
        own: Bools = np.tile(np.arange(views.legal.shape[1]) == 0, (len(shown), 1))
        seen[is_asked], own[is_asked] = views.obs[number[is_asked]], views.legal[number[is_asked]]
        columns.append(seen)
        legal = (legal[:, :, None] & own[:, None, :]).reshape(len(shown), -1)
    return Views(np.concatenate(columns, axis=1), legal)


def _joint_actions(actions: Ints, options: Sequence[int]) -> Ints:
    """One number for the actions of all members, the last member's counting fastest; -1 where nobody is asked."""
    number = np.zeros(len(actions), np.int64)
    for place, count in enumerate(options):
        number = number * count + np.maximum(actions[:, place], 0)
    return np.where((actions >= 0).any(axis=1), number, -1)


def _kinds(positions: Positions, others: Sequence[int], name: str, views: Views) -> tuple[AgentType, ...]:
    """A kind for each player: those of one kind need not sit side by side any more."""
    found = []
    for seat, player in enumerate(others):
        kind = positions.kind_of(player)
        found.append(replace(kind, agents=(positions.players[player],), first_seat=seat))
    seen = spaces.Box(-np.inf, np.inf, (views.obs.shape[1],), np.float64)
    team = AgentType(name, (name,), seen, spaces.Discrete(views.legal.shape[1]), masked=True, first_seat=len(others))
    return (*found, team)
