"""Perfect play by backward induction over positions: from the ends to the start, each position once.

With ``q_i(x, a)`` what player ``i`` gets after the joint action ``a`` (paid now, and the expected value of what follows):

    one player ``j`` is asked:     v(x) = q(x, a*),  a* = argmax_a q_j(x, a)
    two are asked at once:         v(x) = the value of the matrix game q(x, .), zero-sum, by linear programming (Shapley, 1953)
    nobody is asked:               v(x) = q(x)

Two-player zero-sum games have one value, their minimax value. Otherwise a tie of the mover may matter to the others: the
first of equally good actions is taken, and the answer says how often that made a difference.

It needs perfect information only as far as play shows it: where a player sees the same in several positions, one action (or
one mixture of actions) has to be best in all of them. Then no player can gain even if it knew the position, so the answer is
an equilibrium of the game as it is seen, too. Anything else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.data.task import Bools, Ints
from marl.envs.adapters.openspiel import OpenSpielEnv
from marl.envs.registry import EnvCreator, make_batched_env
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError
from marl.gametheory.merged.positions import MAX_POSITIONS, Positions, positions_of
from marl.gametheory.merged.stages import Stages, solve_stages
from marl.gametheory.tree.env_walker import ManyLanes, stage_for
from marl.gametheory.tree.tree import Reals
from marl.policies.tabular import TabularPolicy

ONE_BY_ONE = 50_000  # positions of an env that is not native, looked through without being asked
TIE = 1e-9
"""Actions whose values differ by less than this share of the larger one are equally good,"""
ROUNDED = 1e-14
"""or by less than this share of the largest value of the game, which is what sums may be off by."""


@dataclass(frozen=True, eq=False)
class PerfectPlay:
    """An equilibrium in which everybody plays best at every position."""

    positions: Positions
    values: Reals  # [P] of the game
    position_values: Reals  # [N, P] from each position on
    tables: tuple[Reals, ...]  # per player [V, actions]: chances at each of its views
    ties: int  # positions at which the mover has several best actions
    ties_that_matter: int  # those of them that change what somebody gets

    @property
    def is_unique(self) -> bool:
        """Whether every choice among best actions leads to these values."""
        return self.ties_that_matter == 0

    @property
    def text(self) -> str:
        """How it was found, in words."""
        chance = self.positions.chance_json()
        sampled = f" Chance: {chance['seeds']} reset seeds stand for it." if self.positions.sample else ""
        other = "" if self.is_unique else f", {self.ties_that_matter} of which change what somebody gets"
        return (
            f"{len(self.positions):,} positions, solved backwards; several moves are best in {self.ties:,} of them{other}."
            f"{sampled}"
        )

    def as_json(self) -> dict[str, Any]:
        """What ``marl solve --json`` prints."""
        return {
            "game": self.positions.name,
            "values": dict(zip(self.positions.players, self.values.tolist(), strict=True)),
            "positions": len(self.positions),
            "ties": self.ties,
            "ties_that_matter": self.ties_that_matter,
            "chance": self.positions.chance_json(),
        }

    def policies(self) -> dict[str, TabularPolicy]:
        """Perfect play as a policy per player, which can be played, watched and mixed (``games.mixture``)."""
        found = {}
        for player, name in enumerate(self.positions.players):
            kind, views = self.positions.kind_of(player), self.positions.views[player]
            seat = np.full(len(views), player - kind.first_seat)
            # Masks tell views apart only where one observation comes with several of them.
            seen = views.obs.reshape(len(views), math.prod(views.obs.shape[1:]))  # said, because no rows do not tell it
            masks: Bools | tuple[()] = ()
            if len(np.unique(seen, axis=0)) < len(views):
                masks = views.legal
            found[name] = TabularPolicy(kind, views.obs, self.tables[player], seat, (), masks)
        return found


def perfect_play(
    env: str | EnvCreator,
    env_config: Mapping[str, Any] | None = None,
    *,
    chance_samples: int | None = None,
    max_positions: int = MAX_POSITIONS,
) -> PerfectPlay:
    """Solve an env of perfect information: its name (or class, or function) and its ``env_config``."""
    return solve_positions(positions_of(env, env_config, chance_samples=chance_samples, max_positions=max_positions))


def solvable_positions(env: str | EnvCreator, env_config: Mapping[str, Any] | None = None) -> int:
    """As many positions as are found in minutes: millions where many are played at once, far fewer one by one."""
    one = make_batched_env(env, 1, dict(env_config or {}), with_state=False)
    at_once = isinstance(stage_for(lambda _: one), ManyLanes)
    openspiel = isinstance(one, DictVector) and isinstance(one.envs[0], OpenSpielEnv)
    one.close()
    return MAX_POSITIONS if at_once or openspiel else ONE_BY_ONE


def solve_positions(positions: Positions) -> PerfectPlay:
    """Backward induction. Refuses games in which the best action depends on what its player cannot see, and simultaneous
    moves that are not those of two players with opposed interests."""
    induction = _Induction(positions)
    for level in range(len(positions.first_of_level) - 2, -1, -1):
        induction.solve_level(level)
    return induction.finish()


class _Induction:
    """Values of the levels that are done, and what was chosen at each view."""

    def __init__(self, positions: Positions) -> None:
        self.positions = positions
        self.values = np.zeros((len(positions), positions.num_players))
        self.tables: list[Reals] = [np.zeros(views.legal.shape) for views in positions.views]
        self.chosen = [np.full(len(views), -1, np.int64) for views in positions.views]
        self.ties = self.ties_that_matter = 0
        # What is tiny is tiny next to what is paid: payoffs may be cents or millions.
        self.scale = float(np.abs(positions.rewards).max(initial=0.0))

    def solve_level(self, level: int) -> None:
        first, last = self.positions.first_of_level[level : level + 2].tolist()
        choices = _Choices(self.positions, self.values, first, last)
        self.scale = max(self.scale, float(np.abs(choices.worth).max(initial=0.0)))
        asked = self.positions.asked[first:last].sum(axis=1)
        movers = asked[choices.place]
        self._nobody(choices, np.flatnonzero(movers == 0))
        for player in range(self.positions.num_players):
            mine = choices.actions[:, player] >= 0
            self._mover(choices, np.flatnonzero(mine & (movers == 1)), player)
        self._at_once(choices, np.flatnonzero(movers > 1))

    def _nobody(self, choices: _Choices, rows: Ints) -> None:
        self.values[choices.position[rows]] = choices.worth[rows]

    # -- one mover -------------------------------------------------------------------------------------------------

    def _mover(self, choices: _Choices, rows: Ints, player: int) -> None:
        """Positions at which ``player`` alone decides: its best action, the same one wherever it sees the same."""
        if not rows.size:
            return
        action = choices.actions[rows, player]
        positions, at = np.unique(choices.position[rows], return_inverse=True)
        at = at.reshape(-1)
        best = np.full(len(positions), -np.inf)
        np.maximum.at(best, at, choices.worth[rows, player])
        mine = choices.worth[rows, player]
        good = mine >= best[at] - self._little(np.maximum(np.abs(mine), np.abs(best[at])))
        view = self.positions.view[positions, player]
        picked = self._pick(player, positions, view, at[good], action[good])
        taken = action == picked[at]
        self.values[positions[at[taken]]] = choices.worth[rows[taken]]
        self._count_ties(choices.worth[rows], at, good)

    def _pick(self, player: int, positions: Ints, view: Ints, at: Ints, action: Ints) -> Ints:
        """One action for each position, among the good ones ``(at, action)``; equal views get equal actions."""
        actions = self.tables[player].shape[1]
        good = np.zeros((len(positions), actions), bool)
        good[at, action] = True
        seen, number = np.unique(view, return_inverse=True)
        number = number.reshape(-1)
        everywhere = np.ones((len(seen), actions), bool)
        np.logical_and.at(everywhere, number, good)
        before = self.chosen[player][seen]
        known = np.flatnonzero(before >= 0)  # a view of a later level as well: what was chosen there is chosen here
        everywhere[known] &= np.eye(actions, dtype=bool)[before[known]]
        mixed = self.tables[player][seen].any(axis=1) & (before < 0)
        if mixed.any() or not everywhere.any(axis=1).all():
            raise self._hidden(player)
        picked = everywhere.argmax(axis=1)
        self.chosen[player][seen] = picked
        self.tables[player][seen] = np.eye(actions)[picked]
        return np.asarray(picked[number])

    def _count_ties(self, worth: Reals, at: Ints, good: Bools) -> None:
        count = np.bincount(at[good], minlength=int(at.max()) + 1)
        self.ties += int((count > 1).sum())
        low, high = np.full((len(count), worth.shape[1]), np.inf), np.full((len(count), worth.shape[1]), -np.inf)
        np.minimum.at(low, at[good], worth[good])
        np.maximum.at(high, at[good], worth[good])
        apart = (high - low > self._little(np.maximum(np.abs(high), np.abs(low)))).any(axis=1)
        self.ties_that_matter += int(apart.sum())

    def _little(self, size: Reals) -> Reals:
        """Differences of numbers of this size that do not count: not next to a payoff elsewhere that is far larger."""
        return np.asarray(TIE * size + ROUNDED * self.scale)

    def _hidden(self, player: int) -> ConfigError:
        return ConfigError(
            f"game {self.positions.name!r}: {self.positions.players[player]} sees the same in positions in which different "
            "actions are best, so it is no game of perfect information, and backward induction does not solve it. Build its "
            "tree and use equilibrium(tree) or cfr(tree, iterations), or measure policies by merged best responses."
        )

    # -- several at once -------------------------------------------------------------------------------------------

    def _at_once(self, choices: _Choices, rows: Ints) -> None:
        """Positions at which two players choose at once: a matrix game each."""
        if not rows.size:
            return
        stages = Stages.of(self.positions, choices.position[rows], choices.actions[rows], choices.worth[rows])
        for stage in solve_stages(stages, self.positions.name, self.scale):
            for player, view, chances in stage.parts:
                self._agree(player, view, chances, stage.keeps_value)
            self.values[stage.position] = stage.values

    def _agree(self, player: int, view: int, chances: Reals, keeps_value: Any) -> None:
        """Take this mixture at the view, or see whether the one that was taken before does as well here."""
        table = self.tables[player]
        if not table[view].any():
            table[view] = chances
        elif not keeps_value(player, table[view], TIE * self.scale):
            raise self._hidden(player)

    def finish(self) -> PerfectPlay:
        game = self.positions
        values = game.start_probability @ self.values[game.start]
        return PerfectPlay(game, np.asarray(values), self.values, tuple(self.tables), self.ties, self.ties_that_matter)


class _Choices:
    """The joint actions at positions of one level, chance behind them averaged out: ``C`` choices."""

    def __init__(self, positions: Positions, values: Reals, first: int, last: int) -> None:
        begin, end = positions.first_edge[[first, last]].tolist()
        edges = slice(begin, end)
        source, actions = positions.source[edges], positions.actions[edges]
        worth = positions.probability[edges, None] * (positions.rewards[edges] + values[positions.target[edges]])
        # Edges of one joint action are courses of chance: sorted side by side, they are summed.
        order = np.lexsort([*actions.T, source])
        source, actions, worth = source[order], actions[order], worth[order]
        new = np.ones(len(source), bool)
        new[1:] = (source[1:] != source[:-1]) | (actions[1:] != actions[:-1]).any(axis=1)
        starts = np.flatnonzero(new)
        self.position: Ints = source[starts]  # [C]
        self.place: Ints = self.position - first  # [C] within the level
        self.actions: Ints = actions[starts]  # [C, P]
        self.worth: Reals = np.add.reduceat(worth, starts) if starts.size else worth  # [C, P]
