"""Graphical games: every edge of a graph is a small matrix game between its two ends (Kearns, Littman and Singh, 2001).

A node picks one action and plays it against all its neighbours (a *polymatrix* game):

    u_i(a) = sum over neighbours j of  T_ij[a_i, a_j]

The game of an edge is a classic by name, one table ``[[...], ...]`` (symmetric: each end reads it with its own action as the
row), or two tables ``[[[...]], [[...]]]`` of which the first is for the node that stands first in the edge.
``graphical_of(env_config)`` gives the one description that the env and the theory share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, ValidationError

from marl.config import Config, explain
from marl.data.task import Ints
from marl.envs.games.matrix import classic
from marl.envs.games.networks.graphs import Node, RawGraph, read_graph
from marl.errors import ConfigError
from marl.needs import above, declare, needs

Numbers: TypeAlias = NDArray[np.float64]


class GraphicalConfig(Config):
    """Keys of ``env_config``."""

    graph: Any = Field(
        {"generator": "cycle_graph", "n": 4},
        description="Who plays whom: {generator: NAME, ...} of networkx, edges [[a, b], {from, to, game}], node-link JSON.",
    )
    game: Any = Field(
        "stag_hunt",
        description="The game of every edge that has none of its own: a classic of matrix_game by name, one table, or two.",
    )
    repetitions: PositiveInt = Field(1, description="Rounds per episode, one env step each.")
    observe: Literal["none", "last"] = Field(
        "none",
        description="In repeated games: nothing, or the neighbours' last actions as one-hots (zeros at first).",
        json_schema_extra=declare(needs(above("repetitions", 1), why="it shows the round before")),
    )
    observe_node: bool = Field(
        False, description="Also see a one-hot of the own node, so that a shared policy can tell nodes apart."
    )


@dataclass(frozen=True, eq=False)
class GraphicalGame:
    """Nodes, and both directions of every edge as rows ``h``, sorted by the node ``me[h]`` that is paid.

    ``tables[h, a, b]`` is what ``me[h]`` gets from playing ``a`` when the neighbour ``other[h]`` plays ``b``; zeros where a
    node has fewer actions than the table is wide. Every node has a neighbour.
    """

    nodes: tuple[Node, ...]
    counts: Ints  # actions per node
    me: Ints
    other: Ints
    tables: Numbers

    @cached_property
    def first_row(self) -> Ints:
        """Where the rows of each node begin."""
        return np.searchsorted(self.me, np.arange(len(self.nodes)))

    def payoffs(self, actions: Ints) -> Numbers:
        """What everybody earns ``[..., nodes]`` for actions ``[..., nodes]``."""
        rows = np.arange(len(self.me))
        earned = self.tables[rows, actions[..., self.me], actions[..., self.other]]
        # Rows are sorted by who is paid, so that a node's games are one stretch that is added up.
        return np.asarray(np.add.reduceat(earned, self.first_row, axis=-1))

    @cached_property
    def degree(self) -> Ints:
        """Neighbours of each node."""
        return np.bincount(self.me, minlength=len(self.nodes))


def graphical_of(env_config: Mapping[str, Any]) -> GraphicalGame:
    """The game that an ``env_config`` of the env ``graphical_game`` describes."""
    return build_game(read_config(env_config))


def read_config(env_config: Mapping[str, Any]) -> GraphicalConfig:
    try:
        config = GraphicalConfig(**env_config)
    except ValidationError as error:
        raise explain(error, "graphical_game: env_config", GraphicalConfig.model_fields) from None
    return config


def build_game(config: GraphicalConfig) -> GraphicalGame:
    """Reads the graph and the tables, and refuses what cannot be played."""
    raw = read_graph(config.graph, "graph")
    _refuse_odd_edges(raw)
    number = {node: i for i, node in enumerate(raw.nodes)}
    ends: list[tuple[int, int]] = []
    tables: list[Numbers] = []
    for edge in raw.edges:
        ends.append((number[edge.start], number[edge.end]))
        game = edge.keys.get("game", config.game)
        tables.append(_edge_tables(game, f"{edge.start!r} - {edge.end!r}"))
    counts = _action_counts(raw, ends, tables)
    # Both directions: the first end reads its table as it is, the second end with its own action as the row.
    rows = []
    for (u, v), pair in zip(ends, tables, strict=True):
        rows.append((u, v, pair[0]))
        rows.append((v, u, pair[1].T))
    rows.sort(key=lambda row: row[:2])
    padded = np.zeros((len(rows), counts.max(), counts.max()))
    me, other = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for h, (u, v, table) in enumerate(rows):
        me[h], other[h] = u, v
        padded[h, : table.shape[0], : table.shape[1]] = table
    return GraphicalGame(raw.nodes, counts, me, other, padded)


def _refuse_odd_edges(raw: RawGraph) -> None:
    met: set[frozenset[Node]] = set()
    connected: set[Node] = set()
    for edge in raw.edges:
        pair = frozenset((edge.start, edge.end))
        if len(pair) == 1:
            raise ConfigError(
                f"graph: {edge.start!r} has an edge to itself. Nobody plays against itself; drop the edge."
            )
        if pair in met:
            raise ConfigError(
                f"graph: the edge {edge.start!r} - {edge.end!r} stands there twice. Add the two tables up."
            )
        met.add(pair)
        connected |= pair
        unknown = set(edge.keys) - {"game"}
        if raw.strict and unknown:
            raise ConfigError(
                f"graph: the edge {edge.start!r} - {edge.end!r} has the unknown key {min(unknown)!r}. Known: from, to, game."
            )
    for node in raw.nodes:
        if node not in connected:
            raise ConfigError(f"graph: {node!r} has no neighbour and so no game to play. Connect it or leave it out.")


def _edge_tables(game: Any, where: str) -> Numbers:
    """``[2, actions of the first end, actions of the second end]``."""
    if isinstance(game, str):
        return classic(game)[0]
    expected = (
        "Expected the name of a classic, a square table [[...], ...], or two tables [[[...]], [[...]]] of equal shape."
    )
    if not isinstance(game, Sequence | np.ndarray):
        raise ConfigError(f"the game of edge {where} is {game!r} ({type(game).__name__}). {expected}")
    try:
        table = np.array(game, np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the game of edge {where} is ragged or holds something that is no number. {expected}"
        ) from error
    is_square = table.ndim == 2 and table.shape[0] == table.shape[1]
    if is_square:  # symmetric: the second end reads it with its own action as the row
        table = np.stack([table, table.T])
    is_pair = table.ndim == 3 and table.shape[0] == 2
    if not is_pair or table.size == 0 or not np.isfinite(table).all():
        raise ConfigError(
            f"the game of edge {where} has shape {table.shape}, or numbers that are not finite. {expected}"
        )
    return table


def _action_counts(raw: RawGraph, ends: Sequence[tuple[int, int]], tables: Sequence[Numbers]) -> Ints:
    """Actions per node; all games of a node must agree on them."""
    counts = np.zeros(len(raw.nodes), np.int64)
    for pair, table in zip(ends, tables, strict=True):
        for node, count in zip(pair, table.shape[1:], strict=True):
            if counts[node] not in (0, count):
                raise ConfigError(
                    f"graph: node {raw.nodes[node]!r} has {counts[node]} actions in one game and {count} in another. A node "
                    "plays one action against all neighbours, so all its games need equally many."
                )
            counts[node] = count
    return counts
