"""One game as its files tell it: payoffs, rounds of a population, lineage, and NashConv over time.

Files of a results folder may come from anywhere, so nothing in them is taken for granted: what is not as expected is refused
by name, or left out where the rest makes sense without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.inputs import parse_json, read_json, read_text
from marl.serve.refused import Refused
from marl.watch.games.found import FILES, Kind

BLOCKS = ("exploitability", "population")  # of a result: what this view shows
WANTED = re.compile(r'"(exploitability|population)": \{')
KEPT_RESULTS = 16  # runs whose results stay in memory


def file_of(folder: Path, kind: Kind) -> dict[str, Any]:
    """The file that makes a folder a game."""
    file = folder / FILES[kind]
    try:
        content = read_json(file)
    except (OSError, ValueError) as error:
        raise Refused("unreadable", f"{file.name} cannot be read: {error}.", 400) from error
    if not isinstance(content, dict):
        raise Refused("unreadable", f"{file.name} holds no JSON object.", 400)
    return content


def payoffs_of(folder: Path, kind: Kind) -> PayoffTensor | None:
    """The payoff table; None where nobody has met anybody."""
    if kind == "run":
        return None
    content = file_of(folder, kind)
    table = content if kind == "crossplay" else content.get("payoffs")
    if table is None:
        return None
    try:
        return PayoffTensor.from_json(table, FILES[kind])
    except ConfigError as error:
        raise Refused("unreadable", str(error), 400) from error


# -- rounds of a population ----------------------------------------------------------------------------------------


def members_at(lineage: Mapping[str, int], payoffs: PayoffTensor, last_round: int) -> list[list[int]]:
    """For each player the numbers of the strategies that were there at the end of a round."""
    places = []
    for names in payoffs.names:
        places.append([place for place, name in enumerate(names) if lineage.get(name, 0) <= last_round])
    return places


def at_round(payoffs: PayoffTensor, places: Sequence[Sequence[int]]) -> PayoffTensor:
    """The table as it was when only these strategies were there: who has met once does not play again."""
    axes = np.ix_(*places)
    players = range(len(payoffs.players))
    names = tuple(tuple(own[i] for i in kept) for own, kept in zip(payoffs.names, places, strict=True))
    mean, stderr = (np.stack([table[i][axes] for i in players]) for table in (payoffs.mean, payoffs.stderr))
    return replace(payoffs, mean=mean, stderr=stderr, count=payoffs.count[axes], names=names)


def rounds_of_members(population: Mapping[str, Any]) -> dict[str, int]:
    """The round in which each member joined, by its name."""
    found = {}
    for node in lineage_of(population)["nodes"]:
        found[node["id"]] = node["round"]
    return found


def lineage_of(population: Mapping[str, Any]) -> dict[str, Any]:
    """Members and where they come from; whatever does not look like one is left out."""
    told = population.get("lineage")
    if not isinstance(told, Mapping):
        return {"nodes": [], "edges": []}
    nodes = list(filter(_is_member, objects_in(told.get("nodes"))))
    known = {node["id"] for node in nodes}
    edges = []
    for edge in objects_in(told.get("edges")):
        # An edge to nobody would be drawn to nowhere.
        if {edge.get("source"), edge.get("target")} <= known:
            edges.append(edge)
    return {"nodes": nodes, "edges": edges}


def objects_in(told: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list; nothing where it is none."""
    if not isinstance(told, list):
        return []
    return [one for one in told if isinstance(one, dict)]


def _is_member(node: Mapping[str, Any]) -> bool:
    # The page sorts by round and finds by name, so it needs both.
    return isinstance(node.get("id"), str) and isinstance(node.get("round"), int)


# -- over time -----------------------------------------------------------------------------------------------------


def results_of(run: Path) -> list[dict[str, Any]]:
    """Iteration, env steps and the blocks of this view, for every result that has one of them."""
    file = run / "result.json"
    try:
        seen = file.stat()
    except OSError:
        return []
    return _results(file, seen.st_mtime_ns, seen.st_size)


@lru_cache(maxsize=KEPT_RESULTS)
def _results(file: Path, changed: int, size: int) -> list[dict[str, Any]]:
    del changed, size  # another one is another file
    try:
        lines = read_text(file).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return list(_short_results(lines))


def _short_results(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        # Most lines have neither block, and reading all histograms of a long run would take seconds.
        if WANTED.search(line):
            result = _read_line(line)
            if result is not None:
                yield result


def _read_line(line: str) -> dict[str, Any] | None:
    """What this view shows of a result; None for a line that the run is just writing, or that is no result."""
    try:
        result = parse_json(line)
    except ValueError:
        return None
    if not isinstance(result, dict) or not _is_number(result.get("timesteps_total")):
        return None
    kept = {block: result.get(block) for block in BLOCKS}
    return {"steps": result["timesteps_total"], "iteration": result.get("training_iteration"), **kept}


def nash_conv_over_time(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every measurement with its error and what it is: exact, sampled chance, or a lower bound."""
    found = []
    for result in results:
        told = result["exploitability"]
        if not isinstance(told, Mapping) or not _is_number(told.get("nash_conv")):
            continue
        keys = ("nash_conv", "stderr", "bound", "gains", "errors", "timesteps", "why")
        measured = {key: told.get(key) for key in keys}
        found.append({"steps": result["steps"], "iteration": result["iteration"], **measured})
    return found


def rounds_over_time(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first result with every round's numbers, which is that in which the round ended."""
    rounds: dict[int, dict[str, Any]] = {}
    for result in results:
        told = result["population"]
        if not isinstance(told, Mapping) or not isinstance(told.get("round"), int):
            continue
        if told["round"] not in rounds:
            keys = ("round", "members", "meta_strategy", "empirical_nash_conv", "values", "gain_of_round")
            rounds[told["round"]] = {"steps": result["steps"], **{key: told.get(key) for key in keys}}
    return [rounds[number] for number in sorted(rounds)]


def _is_number(value: Any) -> bool:
    # Not isinstance, to which true is an int.
    return type(value) in (int, float)


# -- all of it -----------------------------------------------------------------------------------------------------


def game_of(folder: Path, kind: Kind) -> dict[str, Any]:
    """What the page shows of one game before anything is computed."""
    payoffs = payoffs_of(folder, kind)
    found: dict[str, Any] = {
        "kind": kind,
        "payoffs": None if payoffs is None else payoffs.as_json(),
        "nash_conv": [],
        "rounds": [],
        "lineage": None,
        "bounds": [],
    }
    if kind in ("population", "run"):
        results = results_of(folder)
        found |= {"nash_conv": nash_conv_over_time(results), "rounds": rounds_over_time(results)}
    if kind == "population":
        population = file_of(folder, kind)
        found |= {"population": population.get("kind"), "lineage": lineage_of(population)}
    if kind == "report":
        found |= _told_by_report(file_of(folder, kind))
    return found


def _told_by_report(report: Mapping[str, Any]) -> dict[str, Any]:
    bounds = [bound for bound in objects_in(report.get("exploitability")) if _is_number(bound.get("nash_conv"))]
    return {"heading": report.get("title"), "about": report.get("about"), "bounds": bounds}
