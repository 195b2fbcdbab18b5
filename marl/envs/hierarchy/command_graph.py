"""Who commands whom: the command structure of a hierarchy as a checked directed graph."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import networkx as nx

from marl.data.task import AgentID
from marl.errors import ConfigError, did_you_mean
from marl.storage import make_folder, storing

Command: TypeAlias = Mapping[str, Sequence[str]]
"""Commander to subordinates. Those who command nobody are agents of the base env."""

KEPT = "*?[]"  # have a meaning in patterns of agent ids


def command_graph(levels: Sequence[str], agents: Sequence[AgentID], command: Command) -> nx.DiGraph[str]:
    """Posts of all levels, an edge from each commander to each of its subordinates.

    A base agent ``x`` is held by the post ``low_level_x`` of the last level, or by ``low_level`` where it is alone.
    Nodes know their ``level`` (0 is the top) and, on the last level, their base ``agent``. Without a ``command`` there
    is one commander per level, and the lowest of them commands everybody.
    """
    _check_names(levels, agents)
    command = command or _one_commander_per_level(levels, agents)
    given: nx.DiGraph[str] = nx.DiGraph()
    for boss, names in command.items():
        for name in names:
            given.add_edge(boss, name)
    _check_structure(given, command, agents)
    depth = {name: len(nx.ancestors(given, name)) for name in given}  # one commander each: a path leads up
    _check_levels(given, depth, levels, agents)

    graph: nx.DiGraph[str] = nx.DiGraph()
    posts = {name: _post(name, levels[-1], agents) for name in given}
    for name in sorted(given, key=lambda n: depth[n]):  # from the top: posts are built in the order of the nodes
        graph.add_node(posts[name], level=depth[name])
        if name in agents:
            graph.nodes[posts[name]]["agent"] = name
    for boss, name in given.edges:
        graph.add_edge(posts[boss], posts[name])
    return graph


def _one_commander_per_level(levels: Sequence[str], agents: Sequence[AgentID]) -> Command:
    command: dict[str, list[str]] = {}
    for boss, subordinate in itertools.pairwise(levels[:-1]):
        command[boss] = [subordinate]
    command[levels[-2]] = list(agents)
    return command


def _post(name: str, last_level: str, agents: Sequence[AgentID]) -> str:
    if name not in agents:
        return name
    if len(agents) == 1:
        return last_level
    return f"{last_level}_{name}"


def _check_names(levels: Sequence[str], agents: Sequence[AgentID]) -> None:
    if len(levels) < 2:
        raise ConfigError(f"levels: got {len(levels)}; a hierarchy has at least two, such as top_level and low_level.")
    if not agents:
        raise ConfigError(
            "the base env does not know its agents in advance (no possible_agents), so nobody can be put in command of "
            "them. Give the base env possible_agents."
        )
    for a, b in itertools.permutations(levels, 2):
        if f"{b}_".startswith(f"{a}_"):  # mappers find the level of an agent by the beginning of its id
            raise ConfigError(f"levels {a!r} and {b!r} cannot be told apart by prefix. Rename one.")
    for name in (*levels, *agents):
        if not name or set(name) & set(KEPT):
            raise ConfigError(
                f"the name {name!r} is empty or holds one of {KEPT}, which mean something else. Rename it."
            )


def _check_structure(given: nx.DiGraph[str], command: Command, agents: Sequence[AgentID]) -> None:
    for boss, names in command.items():
        _check_subordinates(boss, names, agents)
    if not nx.is_directed_acyclic_graph(given):
        around = " -> ".join(boss for boss, _ in nx.find_cycle(given))
        raise ConfigError(f"command: {around} -> ... command each other in a circle. Take one of these edges out.")
    for name in given:
        bosses = list(given.predecessors(name))
        if len(bosses) > 1:
            raise ConfigError(
                f"command: {name!r} has the commanders {' and '.join(map(repr, bosses))}; expected one. Take it out of one."
            )
        is_worker = given.out_degree(name) == 0
        if is_worker and name not in agents:
            raise ConfigError(
                f"command: {name!r} commands nobody and is no agent of the base env ({', '.join(agents)})."
                f"{did_you_mean(name, agents)}"
            )
    for agent in agents:
        if agent not in given:
            raise ConfigError(f"command: nobody commands the base agent {agent!r}. Add it to a commander's list.")


def _check_subordinates(boss: str, names: Sequence[str], agents: Sequence[AgentID]) -> None:
    if boss in agents:
        raise ConfigError(f"command: {boss!r} is an agent of the base env and cannot command. Name a commander.")
    if not names:
        raise ConfigError(f"command: {boss!r} commands nobody. Give it subordinates, or leave it out.")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"command: {boss!r} commands {name!r} twice. Name it once.")


def _check_levels(
    given: nx.DiGraph[str], depth: Mapping[str, int], levels: Sequence[str], agents: Sequence[AgentID]
) -> None:
    for name in given:
        if name in agents:
            _check_agents_level(name, depth[name], levels)
        else:
            _check_commanders_level(name, depth[name], levels)


def _check_agents_level(name: AgentID, depth: int, levels: Sequence[str]) -> None:
    last = len(levels) - 1
    if depth == last:
        return
    wrong = "has too many levels above it"
    if depth < last:
        wrong = "skips a level"
    raise ConfigError(
        f"command: base agent {name!r} {wrong}: {depth} commanders stand above it, expected {last} "
        f"({', '.join(levels[:-1])})."
    )


def _check_commanders_level(name: str, depth: int, levels: Sequence[str]) -> None:
    last = len(levels) - 1
    if depth >= last:
        raise ConfigError(
            f"command: commander {name!r} stands on level {depth}, but only the levels 0 to {last - 1} "
            f"({', '.join(levels[:-1])}) command. Add a level, or take it out."
        )
    level = levels[depth]
    if name != level and not name.startswith(f"{level}_"):
        raise ConfigError(
            f"command: commander {name!r} stands on the level {level!r}, but its name does not begin with it. Call it "
            f"{level}_{name}, or check who commands it."
        )


def draw_graph(graph: nx.DiGraph[str], levels: Sequence[str], path: str | Path) -> Path:
    """A picture of the command structure, one row per level."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    column = _columns(graph)
    place = {name: (column[name], -int(graph.nodes[name]["level"])) for name in graph}
    width = max(column.values()) + 1
    figure = Figure(figsize=(max(4.0, 2.2 * width), 1.4 * len(levels)), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for boss, name in graph.edges:
        arrow = {"arrowstyle": "->", "color": "0.4", "shrinkA": 14, "shrinkB": 14}
        axes.annotate("", xy=place[name], xytext=place[boss], arrowprops=arrow)
    for name, (x, y) in place.items():
        agent = graph.nodes[name].get("agent")
        text = name
        if agent is not None:
            text = f"{name}\n({agent})"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.3"}
        axes.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box)
    axes.set_xlim(-0.6, width - 0.4)
    axes.set_ylim(0.5 - len(levels), 0.5)
    axes.axis("off")
    path = Path(path)
    make_folder(path.parent)
    with storing(path):
        figure.savefig(path, format="png")
    return path


def _columns(graph: nx.DiGraph[str]) -> dict[str, float]:
    """Workers side by side, in the order of the command; each commander over the middle of its own."""
    column: dict[str, float] = {}

    def put(name: str) -> float:
        below = [put(subordinate) for subordinate in graph.successors(name)]
        if below:
            column[name] = sum(below) / len(below)
        else:
            workers = [done for done in column if graph.out_degree(done) == 0]
            column[name] = float(len(workers))
        return column[name]

    for name in graph:
        if graph.in_degree(name) == 0:
            put(name)
    return column
