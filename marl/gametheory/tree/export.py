"""Trees for other eyes and programs: a networkx graph, a picture, and Gambit's ``.efg`` text.

In an ``.efg`` file nodes stand in prefix order, one line each: ``c`` for chance, ``p`` for a player, ``t`` for an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from marl.errors import ConfigError
from marl.gametheory.tree.tree import CHANCE, TERMINAL, Behaviour, Reals, Tree
from marl.storage import storing, write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_DRAWN = 400
COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan")


def to_networkx(tree: Tree, strategy: Behaviour | None = None) -> Any:
    """A ``DiGraph``. Nodes have ``player`` (its name, "chance" or "end"), ``infoset`` and, at the end, ``payoffs``; edges have
    ``action`` and, below chance moves and where a strategy is given, ``probability``."""
    graph = nx.DiGraph(name=tree.name, players=tree.players, chance=tree.chance)
    for node in range(len(tree)):
        graph.add_node(node, player=_who(tree, node), infoset=int(tree.infoset[node]))
        if tree.player[node] == TERMINAL:
            graph.nodes[node]["payoffs"] = dict(zip(tree.players, tree.payoffs[node].tolist(), strict=True))
    for node in range(1, len(tree)):
        above = int(tree.parent[node])
        graph.add_edge(above, node, action=_label(tree, node))
        if tree.player[above] == CHANCE:
            graph.edges[above, node]["probability"] = float(tree.probability[node])
        elif strategy is not None:
            graph.edges[above, node]["probability"] = float(strategy[_choice(tree, node)])
    return graph


def _who(tree: Tree, node: int) -> str:
    return {CHANCE: "chance", TERMINAL: "end"}.get(player := int(tree.player[node])) or tree.players[player]


def _choice(tree: Tree, node: int) -> int:
    """The choice that leads to a node below a decision."""
    return int(tree.sets.first_choice[tree.infoset[tree.parent[node]]] + tree.branch[node])


def _label(tree: Tree, node: int) -> str:
    if tree.player[tree.parent[node]] == CHANCE:
        return str(int(tree.branch[node]))
    return tree.sets.labels[_choice(tree, node)]


# -- picture -------------------------------------------------------------------------------------------------------


def draw_tree(tree: Tree, path: Path | str, strategy: Behaviour | None = None) -> Path:
    """A picture (by the file's ending: png, svg, pdf). Dotted lines join information sets; lines are as thick as likely."""
    if len(tree) > MAX_DRAWN:
        raise ConfigError(
            f"game {tree.name!r} has {len(tree):,} nodes; more than {MAX_DRAWN} cannot be told apart in a picture. Use "
            "to_networkx(tree) and draw a part of it."
        )
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across, depth = _places(tree)
    figure = Figure(
        figsize=(max(6.0, 0.32 * len(tree.terminal)), 1.3 * len(tree.levels)), dpi=110, layout="constrained"
    )
    FigureCanvasAgg(figure)  # draws into memory: needs no screen
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_title(tree.name)
    _draw_moves(axes, tree, across, depth, strategy)
    _draw_nodes(axes, tree, across, depth)
    with storing(Path(path)):
        figure.savefig(str(path))
    return Path(path)


def _places(tree: Tree) -> tuple[Reals, Reals]:
    """Ends stand side by side, every other node above the middle of its children."""
    across = np.zeros(len(tree))
    ends = [node for node in _prefix_order(tree) if tree.player[node] == TERMINAL]
    across[ends] = np.arange(len(ends))
    for node in reversed(range(len(tree))):
        if tree.num_children[node]:
            first = tree.first_child[node]
            across[node] = across[first : first + tree.num_children[node]].mean()
    depth = -np.repeat(np.arange(len(tree.levels) - 1), np.diff(tree.levels)).astype(np.float64)
    return across, depth


def _draw_moves(axes: Axes, tree: Tree, across: Reals, depth: Reals, strategy: Behaviour | None) -> None:
    for node in range(1, len(tree)):
        above, width = tree.parent[node], 0.8
        if strategy is not None and tree.player[above] != CHANCE:
            width = 0.3 + 2.5 * float(strategy[_choice(tree, node)])
        ends = ([across[above], across[node]], [depth[above], depth[node]])
        axes.plot(*ends, color="0.4", linewidth=width, zorder=1)
        if tree.player[above] != CHANCE:
            share = 0.4 + 0.2 * (int(tree.branch[node]) % 2)  # neighbours' names stand at different heights
            x, y = (float(side[0] + share * (side[1] - side[0])) for side in ends)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            axes.text(x, y, _label(tree, node), fontsize=6, ha="center", va="center", color="0.25", bbox=box)


def _arcs(across: Reals, depth: Reals, sag: float) -> tuple[Reals, Reals]:
    """Curves from node to node that hang lower for some information sets than for others, so that they can be told apart."""
    t = np.linspace(0.0, 1.0, 25)
    x = np.concatenate([a + t * (b - a) for a, b in pairwise(across)] or [across])
    y = np.concatenate([a + t * (b - a) - 4 * sag * t * (1 - t) for a, b in pairwise(depth)] or [depth])
    return x, y


def _draw_nodes(axes: Axes, tree: Tree, across: Reals, depth: Reals) -> None:
    for infoset in range(len(tree.sets)):
        nodes = np.flatnonzero(tree.infoset == infoset)
        colour = COLOURS[int(tree.sets.player[infoset]) % len(COLOURS)]
        nodes = nodes[np.argsort(across[nodes])]
        axes.plot(*_arcs(across[nodes], depth[nodes], 0.05 + 0.05 * (infoset % 6)), ":", color=colour, linewidth=0.9)
        axes.scatter(across[nodes], depth[nodes], s=28, color=colour, zorder=2)
    chance = np.flatnonzero(tree.player == CHANCE)
    axes.scatter(across[chance], depth[chance], s=28, marker="s", color="0.5", zorder=2)
    for player, name in enumerate(tree.players):
        axes.scatter([], [], color=COLOURS[player % len(COLOURS)], label=name)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    for node in tree.terminal:
        paid = "\n".join(f"{x:g}" for x in tree.payoffs[node])
        axes.text(across[node], depth[node] - 0.05, paid, fontsize=6, ha="center", va="top")


# -- Gambit --------------------------------------------------------------------------------------------------------


def to_efg(tree: Tree) -> str:
    """The game in Gambit's format for extensive games."""
    players = " ".join(map(_quoted, tree.players))
    lines = [f"EFG 2 R {_quoted(tree.name)} {{ {players} }}", '""', ""]
    first_set = [tree.infosets(player).start for player in range(tree.num_players)]
    chances = outcomes = 0
    for node in _prefix_order(tree):
        player = int(tree.player[node])
        if player == TERMINAL:
            outcomes += 1
            paid = ", ".join(repr(x) for x in tree.payoffs[node].tolist())
            lines.append(f't "" {outcomes} "" {{ {paid} }}')
        elif player == CHANCE:
            chances += 1
            lines.append(f'c "" {chances} "" {{ {_chance_moves(tree, node)} }} 0')
        else:
            infoset = int(tree.infoset[node])
            at, count = int(tree.sets.first_choice[infoset]), int(tree.sets.num_actions[infoset])
            actions = " ".join(map(_quoted, tree.sets.labels[at : at + count]))
            lines.append(f'p "" {player + 1} {infoset - first_set[player] + 1} "" {{ {actions} }} 0')
    return "\n".join(lines) + "\n"


def write_efg(tree: Tree, path: Path | str) -> Path:
    """Write ``to_efg`` into a file."""
    write_atomically(Path(path), to_efg(tree))
    return Path(path)


def _chance_moves(tree: Tree, node: int) -> str:
    first = int(tree.first_child[node])
    chances = exact_fractions(tree.probability[first : first + int(tree.num_children[node])].tolist())
    return " ".join(f'"{branch}" {chance}' for branch, chance in enumerate(chances))


def exact_fractions(chances: Sequence[float]) -> list[Fraction]:
    """The fractions next to these chances, the largest changed so that they sum to exactly 1, which Gambit asks for."""
    found = [Fraction(chance).limit_denominator(1_000_000) for chance in chances]
    found[int(np.argmax(chances))] += 1 - sum(found)
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _prefix_order(tree: Tree) -> list[int]:
    """Every node before its children, children in order."""
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        first = int(tree.first_child[node])
        waiting.extend(reversed(range(first, first + int(tree.num_children[node]))))
    return order
