"""The best response itself, as a policy: what the player does wherever its own choices lead it.

Only information sets that the response reaches are kept. Level by level, their Q values say which action is best (the first
of equally good ones), and the information sets after that action are the next level. Each level walks everything below it
again, but only behind the best actions above, so all of it takes little longer than the value alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from marl.data.task import Array, Ints
from marl.errors import ConfigError
from marl.gametheory.merged.positions import Positions
from marl.gametheory.merged.rows import as_bytes, distinct
from marl.gametheory.merged.walk import Level, Walk
from marl.gametheory.tree.tree import Reals
from marl.policies.tabular import TabularPolicy

MOST_PASTS = 2**24  # numbers that a carry, a float32, tells apart


@dataclass
class Reached:
    """The information sets that the response reaches: a row of the table for each."""

    view: list[int] = field(default_factory=list)
    action: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)  # 0 at the start, then 1 + row * actions + action


def best_response(walk: Walk, positions: Positions, player: int) -> tuple[float, TabularPolicy]:
    """The most that the player can earn, and a policy that earns it."""
    reached = Reached()
    level = walk.first_level()
    after: dict[int, Ints] = {group: np.zeros(len(rows), np.int64) for group, rows in level.items()}
    value = walk.blocks.layers.paid
    earned = None
    while level:
        chosen, worth = _choices(walk, level)
        earned = worth if earned is None else earned
        level, after = _follow(walk, level, chosen, after, reached)
    return value + (earned or 0.0), _table(positions, player, reached)


def _choices(walk: Walk, level: Level) -> tuple[dict[int, Ints], float]:
    """Best actions, as numbers among the legal ones, of a level's information sets, and what all of them are worth."""
    chosen: dict[int, Ints] = {group: np.zeros(len(rows), np.int64) for group, rows in level.items()}
    worth = 0.0
    for piece in walk.pieces(level):
        for (group, rows), q in zip(piece, walk.q_values(level, piece), strict=True):
            chosen[group][rows] = q.argmax(axis=0)
            worth += float(q.max(axis=0).sum())
    return chosen, worth


def _follow(
    walk: Walk, level: Level, chosen: dict[int, Ints], after: dict[int, Ints], reached: Reached
) -> tuple[Level, dict[int, Ints]]:
    """Write the level into the table; the information sets after the chosen actions, with the choice before each."""
    blocks = walk.blocks
    parts: dict[int, list[Reals]] = {}
    pasts: dict[int, list[Ints]] = {}
    for group, rows in level.items():
        legal = np.flatnonzero(blocks.layers.legal[group])
        action = legal[chosen[group]]
        choice = 1 + (len(reached.view) + np.arange(len(rows))) * blocks.actions + action
        reached.view += [int(blocks.layers.seen[group])] * len(rows)
        reached.action += action.tolist()
        reached.after += after[group].tolist()
        then = rows @ blocks.matrix(group)
        for number, following, columns in blocks.after(group):
            part = then[:, columns]
            # Where the others never lead there is nothing to know.
            happens = np.flatnonzero((chosen[group] == number) & part.any(axis=1))
            if happens.size:
                parts.setdefault(following, []).append(part[happens])
                pasts.setdefault(following, []).append(choice[happens])
    below = {group: np.concatenate(found) for group, found in parts.items()}
    return below, {group: np.concatenate(found) for group, found in pasts.items()}


def _table(positions: Positions, player: int, reached: Reached) -> TabularPolicy:
    """A table that remembers its own past only where the same view asks for different actions."""
    kind, views = positions.kind_of(player), positions.views[player]
    view, action = np.array(reached.view, np.int64), np.array(reached.action, np.int64)
    after = np.array(reached.after, np.int64)
    seen, first, number = np.unique(view, return_index=True, return_inverse=True)
    if (action == action[first][number.reshape(-1)]).all():
        view, action, after = seen, action[first], after[:0]
    options = views.legal.shape[1]
    if after.size and len(view) * options >= MOST_PASTS:
        raise ConfigError(
            f"game {positions.name!r}: the best response of {positions.players[player]} has {len(view):,} information sets, "
            f"more than the {MOST_PASTS // options:,} that a table with memory can tell apart. Its value can be measured all "
            "the same."
        )
    obs = np.asarray(views.obs[view], kind.obs_dtype)
    # One observation may come with several masks, which are several views then.
    legal = views.legal[view] if kind.masked and _repeats(obs) else views.legal[:0]
    seat = np.full(len(view), player - kind.first_seat)
    return TabularPolicy(kind, obs, np.eye(options)[action], seat, after, legal)


def _repeats(obs: Array) -> bool:
    return len(distinct(as_bytes([obs]))[0]) < len(obs)
