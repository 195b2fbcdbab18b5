"""Equilibria of graphical games, using the edges alone where that is enough.

Against mixed strategies ``x`` an action of node ``i`` earns ``d_i[a] = sum over neighbours j of (T_ij x_j)[a]``, so

    NashConv(x) = sum_i  max_a d_i[a] - x_i . d_i

costs as much as there are edges, however many nodes there are. If every edge game has a potential, so has the whole game (the
sum of them), and best responses one after another end in a pure equilibrium.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marl.data.task import Ints
from marl.envs.games.networks.neighbours import GraphicalGame, Numbers
from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame

EXACT = 1e-9


@dataclass(frozen=True, eq=False)
class PureAnswer:
    """One action per node. ``settled`` says that nobody wanted to change; then ``nash_conv`` is 0."""

    actions: Ints
    nash_conv: float
    rounds: int
    settled: bool


def to_matrix_game(game: GraphicalGame, max_entries: int = 1_000_000) -> MatrixGame:
    """The whole table, for the solvers of matrix games; refuses tables with more than ``max_entries`` numbers."""
    shape = tuple(game.counts.tolist())
    entries = len(shape) * prod(shape)
    if entries > max_entries:
        raise ConfigError(
            f"the table of {len(shape)} nodes would have {entries} entries; the limit is max_entries = {max_entries}. Use "
            "graphical_nash_conv, pure_equilibria or graphical_best_responses, which work on the edges."
        )
    joint = np.moveaxis(np.indices(shape), 0, -1)  # [a_0, a_1, ..., nodes]
    actions = tuple(tuple(map(str, range(count))) for count in shape)
    players = tuple(f"node_{node}" for node in game.nodes)
    return MatrixGame(np.moveaxis(game.payoffs(joint), -1, 0), actions, players, "graphical_game")


def graphical_nash_conv(game: GraphicalGame, profile: Sequence[ArrayLike]) -> float:
    """Distance from equilibrium of one distribution per node."""
    mixed = _mixed(game, profile)
    earned = _deviations(game, mixed)
    played = np.where(mixed > 0, earned, 0.0)  # 0 times minus infinity, behind the last action, would be NaN
    return float((earned.max(axis=1) - (mixed * played).sum(axis=1)).sum())


def graphical_best_responses(
    game: GraphicalGame, start: Sequence[int] | None = None, max_rounds: int = 1000
) -> PureAnswer:
    """Node after node changes to its best action, until a whole round changes nothing or ``max_rounds`` are over.

    Ends in an equilibrium if the game has a potential (``graphical_potential``); other games may go round in circles, and then
    the answer is not ``settled``.
    """
    actions = np.zeros(len(game.nodes), np.int64)
    if start is not None:
        actions = np.array(start, np.int64)
    if actions.shape != game.counts.shape or (actions < 0).any() or (actions >= game.counts).any():
        raise ConfigError(
            f"start = {actions.tolist()} does not fit: expected one action per node, each below {game.counts.tolist()}."
        )
    for rounds in range(1, max_rounds + 1):
        moved = [_improve(game, actions, node) for node in range(len(game.nodes))]
        if not any(moved):
            return PureAnswer(actions, _pure_nash_conv(game, actions), rounds, settled=True)
    return PureAnswer(actions, _pure_nash_conv(game, actions), max_rounds, settled=False)


def pure_equilibria(game: GraphicalGame, max_visits: int = 1_000_000) -> tuple[tuple[int, ...], ...]:
    """All pure equilibria, by search with cuts: a node is judged as soon as all its neighbours have their actions.

    Raises where more than ``max_visits`` partial plays would have to be looked at.
    """
    return tuple(tuple(map(int, found)) for found in _Search(game, max_visits).run())


def graphical_potential(game: GraphicalGame) -> NDArray[np.float64] | None:
    """``[rows of the game, a, b]``: a potential of each edge, or None if some edge has none.

    The potential of a whole play is half of the sum over all rows, because each edge stands there in both directions. It
    changes by what the node gains that moves: ``phi[a, b] = T[a, b] - T[0, b] + T'[b, 0] - T'[0, 0]`` with ``T'`` of the
    neighbour.
    """
    back = {(int(m), int(o)): h for h, (m, o) in enumerate(zip(game.me, game.other, strict=True))}
    mirror = game.tables[[back[int(o), int(m)] for m, o in zip(game.me, game.other, strict=True)]].transpose(0, 2, 1)
    mine = game.tables - game.tables[:, :1]
    phi = mine + mirror[:, :1] - mirror[:, :1, :1]
    theirs = phi - phi[:, :, :1] - (mirror - mirror[:, :, :1])  # 0 if the neighbour's gains are those of phi
    n, m = game.counts[game.me], game.counts[game.other]
    actions = np.arange(game.tables.shape[1])
    real = (actions[:, None] < n[:, None, None]) & (actions < m[:, None, None])
    return None if np.abs(theirs[real]).max() > EXACT * float(np.abs(game.tables).max()) else phi


# -- inside ----------------------------------------------------------------------------------------------------------


def _mixed(game: GraphicalGame, profile: Sequence[ArrayLike]) -> Numbers:
    """``[nodes, actions]``, with zeros behind the last action of a node."""
    found = [np.asarray(strategy, np.float64) for strategy in profile]
    shapes = [strategy.shape for strategy in found]
    counts = game.counts.tolist()
    if shapes != [(count,) for count in counts]:
        raise ConfigError(
            f"strategies have the shapes {shapes}; expected one distribution per node over {counts} actions."
        )
    mixed = np.zeros((len(found), int(game.counts.max())))
    for node, strategy in enumerate(found):
        if strategy.min() < -1e-6 or abs(strategy.sum() - 1) > 1e-6:
            raise ConfigError(f"the strategy {strategy} of node {game.nodes[node]!r} is not a distribution (sum 1).")
        mixed[node, : len(strategy)] = strategy
    return mixed


def _deviations(game: GraphicalGame, mixed: Numbers) -> Numbers:
    """``[nodes, actions]``: what each action earns; minus infinity behind the last action of a node."""
    earned = np.add.reduceat((game.tables @ mixed[game.other][:, :, None])[:, :, 0], game.first_row, axis=0)
    return np.where(np.arange(earned.shape[1]) < game.counts[:, None], earned, -np.inf)


def _pure_nash_conv(game: GraphicalGame, actions: Ints) -> float:
    earned = _deviations(game, np.eye(int(game.counts.max()))[actions])
    return float((earned.max(axis=1) - earned[np.arange(len(actions)), actions]).sum())


def _earned_by_action(game: GraphicalGame, actions: Ints, node: int) -> tuple[Numbers, float]:
    """What each action of a node earns while its neighbours keep to theirs, and how much of that may be rounding."""
    rows = np.arange(game.first_row[node], game.first_row[node] + game.degree[node])
    columns = game.tables[rows, : game.counts[node], actions[game.other[rows]]]
    return columns.sum(axis=0), EXACT * float(np.abs(columns).sum(axis=0).max())


def _improve(game: GraphicalGame, actions: Ints, node: int) -> bool:
    """Changes the node's action to its best one; ties keep the action, so that play can come to rest."""
    earned, rounding = _earned_by_action(game, actions, node)
    if earned.max() <= earned[actions[node]] + rounding:
        return False
    actions[node] = earned.argmax()
    return True


class _Search:
    """Depth first over the nodes; ``due[k]`` are the nodes whose last neighbour, or who themselves, come at depth ``k``."""

    def __init__(self, game: GraphicalGame, max_visits: int) -> None:
        self.game, self.max_visits, self.visits = game, max_visits, 0
        self.actions = np.zeros(len(game.nodes), np.int64)
        known_at = np.arange(len(game.nodes))
        np.maximum.at(known_at, game.me, game.other)
        self.due = [np.flatnonzero(known_at == depth) for depth in range(len(game.nodes))]

    def run(self) -> Iterator[Ints]:
        """Counts through the actions like an odometer that skips what is cut."""
        depth, last, next_action = 0, len(self.actions) - 1, [0] * len(self.actions)
        while depth >= 0:
            if next_action[depth] >= self.game.counts[depth]:
                next_action[depth] = 0
                depth -= 1
                continue
            self.actions[depth] = next_action[depth]
            next_action[depth] += 1
            self._count_visit()
            if not all(self._at_rest(int(node)) for node in self.due[depth]):
                continue
            if depth == last:
                yield self.actions.copy()
            else:
                depth += 1

    def _count_visit(self) -> None:
        self.visits += 1
        if self.visits > self.max_visits:
            raise ConfigError(
                f"the search for pure equilibria of {len(self.actions)} nodes stopped after max_visits = {self.max_visits} "
                "partial plays. Raise max_visits, or find one equilibrium with graphical_best_responses."
            )

    def _at_rest(self, node: int) -> bool:
        earned, rounding = _earned_by_action(self.game, self.actions, node)
        return bool(earned.max() <= earned[self.actions[node]] + rounding)
