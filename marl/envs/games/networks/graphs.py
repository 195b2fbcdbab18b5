"""Graphs as users give them: an edge list, node-link JSON, a networkx graph, or a generator of networkx by name.

All of them become a ``RawGraph`` whose nodes are called by text. Nothing here knows what the edges are for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import networkx as nx

from marl.errors import ConfigError, did_you_mean

Node: TypeAlias = str


@dataclass(frozen=True)
class RawEdge:
    """An edge and everything else that was written next to it."""

    start: Node
    end: Node
    keys: Mapping[str, Any]


@dataclass(frozen=True)
class RawGraph:
    """``strict``: the edges were written for this game, so that keys which it does not know are mistakes."""

    nodes: tuple[Node, ...]
    edges: tuple[RawEdge, ...]
    directed: bool
    strict: bool


@dataclass(frozen=True)
class Generator:
    """A function of networkx, the keys it needs, and those it may get."""

    make: Callable[..., Any]
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """Its keys, for an error message."""
        text = ", ".join(self.needs)
        if self.takes:
            text += f" and may have {', '.join(self.takes)}"
        return text


GENERATORS: dict[str, Generator] = {
    "cycle_graph": Generator(nx.cycle_graph, ("n",)),
    "path_graph": Generator(nx.path_graph, ("n",)),
    "complete_graph": Generator(nx.complete_graph, ("n",)),
    "star_graph": Generator(nx.star_graph, ("n",)),
    "wheel_graph": Generator(nx.wheel_graph, ("n",)),
    "grid_2d_graph": Generator(nx.grid_2d_graph, ("m", "n"), ("periodic",)),
    "complete_bipartite_graph": Generator(nx.complete_bipartite_graph, ("n1", "n2")),
    # Random ones need their seed: every worker has to build the same graph.
    "random_regular_graph": Generator(nx.random_regular_graph, ("d", "n", "seed")),
    "erdos_renyi_graph": Generator(nx.erdos_renyi_graph, ("n", "p", "seed")),
    "watts_strogatz_graph": Generator(nx.watts_strogatz_graph, ("n", "k", "p", "seed")),
    "barabasi_albert_graph": Generator(nx.barabasi_albert_graph, ("n", "m", "seed")),
}
MOST_NODES = 1000
SIZES = ("n", "m", "d", "k", "n1", "n2")  # keys that count nodes or edges


def read_graph(source: object, key: str) -> RawGraph:
    """The graph that a value of ``env_config`` describes; ``key`` names it in errors."""
    if isinstance(source, nx.Graph):
        return _from_networkx(source, key)
    if isinstance(source, Mapping):
        if "generator" in source:
            graph = _generated(dict(source), key)
            return _from_networkx(graph, key)
        return _from_node_link(source, key)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return _from_edge_list(source, key)
    raise ConfigError(
        f"{key} is {source!r} ({type(source).__name__}). Expected a list of edges, node-link JSON (nodes, links) or, in "
        "Python, a networkx graph."
    )


def named(node: object) -> Node:
    """A node as text; places of a grid as ``row_column``."""
    if isinstance(node, tuple):
        return "_".join(map(str, node))
    return str(node)


def _from_networkx(graph: Any, key: str) -> RawGraph:
    nodes = tuple(map(named, graph.nodes))
    edges: list[RawEdge] = []
    for start, end, keys in graph.edges(data=True):
        edges.append(RawEdge(named(start), named(end), dict(keys)))
    return _checked(RawGraph(nodes, tuple(edges), graph.is_directed(), strict=False), key)


def _from_node_link(data: Mapping[str, Any], key: str) -> RawGraph:
    links = data.get("links", data.get("edges"))  # networkx has changed the name of the key between its versions
    has_lists = isinstance(data.get("nodes"), Sequence) and isinstance(links, Sequence)
    if not has_lists:
        raise ConfigError(
            f"{key} is a mapping with the keys {', '.join(map(str, data))}. Expected node-link JSON with lists `nodes` and "
            "`links` (networkx.node_link_data writes it), or `generator` with its keys where generators are allowed."
        )
    edges: list[RawEdge] = []
    try:
        nodes = tuple(named(node["id"]) for node in data["nodes"])
        for link in links:
            start = named(link["source"])
            end = named(link["target"])
            keys = {k: value for k, value in link.items() if k not in ("source", "target")}
            edges.append(RawEdge(start, end, keys))
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"{key}: node-link JSON needs an `id` for every node and `source` and `target` for every link; "
            f"{type(error).__name__}: {error}."
        ) from error
    return _checked(RawGraph(nodes, tuple(edges), bool(data.get("directed", False)), strict=False), key)


def _from_edge_list(rows: Sequence[Any], key: str) -> RawGraph:
    edges: list[RawEdge] = []
    nodes: dict[Node, None] = {}  # a set that keeps the order in which they are named
    for i, row in enumerate(rows):
        edge = _edge(row, f"{key}[{i}]")
        edges.append(edge)
        nodes[edge.start] = None
        nodes[edge.end] = None
    return _checked(RawGraph(tuple(nodes), tuple(edges), directed=True, strict=True), key)


def _edge(row: Any, where: str) -> RawEdge:
    match row:
        case {"from": start, "to": end}:
            keys = {k: value for k, value in row.items() if k not in ("from", "to")}
            return RawEdge(named(start), named(end), keys)
        case [start, end]:  # a text of two letters is no pair here
            return RawEdge(named(start), named(end), {})
    raise ConfigError(f"{where} is {row!r}. Expected an edge: {{from: NODE, to: NODE, ...}} or [NODE, NODE].")


def _checked(graph: RawGraph, key: str) -> RawGraph:
    if not graph.edges:
        raise ConfigError(f"{key} has no edges. A game on a network needs one or more.")
    count = Counter(graph.nodes)
    for node in graph.nodes:
        if count[node] > 1:  # 1 and "1", for instance, are one text
            raise ConfigError(f"{key}: two nodes are called {node!r}. Names are compared as text; give each its own.")
    for edge in graph.edges:
        where = f"{key}: the edge from {edge.start!r} to {edge.end!r}"
        for node in (edge.start, edge.end):
            if node not in count:
                raise unknown_node(where, node, graph.nodes)
    return graph


def unknown_node(where: str, node: Node, nodes: Sequence[Node]) -> ConfigError:
    """An error for a node that is not in the graph."""
    listing = ", ".join(nodes[:20])
    if len(nodes) > 20:
        listing += ", ..."
    return ConfigError(
        f"{where} names the node {node!r}, which does not exist.{did_you_mean(node, nodes)} Nodes: {listing}."
    )


def _generated(keys: dict[str, Any], key: str) -> Any:
    name = keys.pop("generator")
    if not isinstance(name, str) or name not in GENERATORS:
        raise ConfigError(
            f"{key}.generator = {name!r} is not among the generators that can be used.{did_you_mean(name, GENERATORS)} "
            f"Known: {', '.join(GENERATORS)}. Any other graph: as a list of edges or node-link JSON."
        )
    generator = GENERATORS[name]
    _check_keys(keys, generator, f"{key}: {name}")
    _check_size(keys, f"{key}: {name}")
    try:
        return generator.make(**keys)
    except (nx.NetworkXError, TypeError, ValueError) as error:
        raise ConfigError(f"{key}: {name} cannot be built from {keys}: {error}.") from error


def _check_keys(keys: Mapping[str, Any], generator: Generator, where: str) -> None:
    known = (*generator.needs, *generator.takes)
    missing = []
    for key in generator.needs:
        if key not in keys:
            missing.append(key)
    unknown = []
    for key in keys:
        if key not in known:
            unknown.append(key)
    if missing or unknown:
        raise ConfigError(
            f"{where} needs the keys {generator.expected}; missing: {_listed(missing)}, unknown: {_listed(unknown)}."
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _check_size(keys: Mapping[str, Any], where: str) -> None:
    sizes: dict[str, int] = {}
    for k in SIZES:
        if k not in keys:
            continue
        size = keys[k]
        is_count = type(size) is int and size >= 1  # True is an int, too, but counts nothing
        if not is_count:
            raise ConfigError(f"{where}: {k} = {size!r}. Expected a whole number of 1 or more.")
        sizes[k] = size
    # Before networkx builds it: a graph of a million nodes would take all memory.
    nodes = sum(sizes.values())
    if where.endswith("grid_2d_graph"):
        nodes = sizes["n"] * sizes["m"]
    if nodes > MOST_NODES:
        raise ConfigError(f"{where}: about {nodes} nodes; at most {MOST_NODES} agents can play. Take a smaller graph.")
