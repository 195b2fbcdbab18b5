"""Who plays in the match behind a payoff: for each strategy of each player the policies that the episodes view takes.

A member of a population is ``RUN#SIDE.answer/3``, an entrant of a report the checkpoint that it was, and ``random`` itself.
All paths are those in the results folder; whoever lies elsewhere cannot be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from marl.analysis.participants import BUILT_IN, policy_of
from marl.data.task import AgentID
from marl.errors import UserError
from marl.populations.members import BEST_GUESS
from marl.runs.saved import SavedRun, directory_of
from marl.scenario.population import players_of
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates, example_agent
from marl.watch.games.found import Kind
from marl.watch.games.reading import file_of, lineage_of, objects_in

Seats: TypeAlias = Mapping[str, Sequence[AgentID]]
"""The agents (or patterns of agents) of each player."""
Sources: TypeAlias = dict[str, dict[str, dict[AgentID, str]]]
"""Player to strategy to the policy of each of the player's agents."""


def sources_of(root: Path, folder: Path, kind: Kind, allow: frozenset[str]) -> dict[str, Any]:
    """The run whose env is played, and everybody's policies in it; ``run`` is None where matches cannot be shown."""
    if kind == "population":
        return _of_population(root, folder, allow)
    if kind == "report":
        return _of_report(root, folder, allow)
    return _nobody("A cross-play keeps only names, not where its entrants lie: make a report to see matches.")


def _nobody(why: str) -> dict[str, Any]:
    return {"run": None, "checkpoint": None, "sources": {}, "explore": False, "why": why}


def _of_population(root: Path, folder: Path, allow: frozenset[str]) -> dict[str, Any]:
    try:
        run = SavedRun.open(folder, allow)
        stage = run.setup.stage
    except UserError as error:
        return _nobody(f"Matches cannot be shown: {error}")
    if stage is None:
        return _nobody("Matches cannot be shown: the run's checkpoint has no population.")
    path = _inside(root, folder) or ""
    names: dict[str, list[str]] = {}
    for node in lineage_of(file_of(folder, "population"))["nodes"]:
        names.setdefault(str(node.get("side")), []).append(node["id"])
    sources: Sources = {}
    for player, agents in stage.players.items():
        side = stage.side_of(player)
        saved = len(run.weights[side.answer].get("chances", ()))
        sources[player] = {}
        seats = [key_of(agent, run.setup) for agent in agents]
        # Members that have joined since the last checkpoint are in no file yet.
        for number, name in enumerate(names.get(side.name, [])[:saved]):
            sources[player][name] = dict.fromkeys(seats, f"{path}#{side.answer}/{number}")
    return {"run": path, "checkpoint": None, "sources": sources, "explore": _draws([run]), "why": ""}


def key_of(agent: AgentID, setup: Setup) -> str:
    """By which name a match gives an agent another policy: its own, unless a policy of the run is called so too.

    Then it would be that policy that is replaced, which need not be the one that plays: in a population the learner
    ``player_0`` trains, and ``player_0.answer`` plays the agent ``player_0``.
    """
    if agent not in setup.policies:
        return agent
    mapper = setup.proposed_mapper
    playing = set(candidates(mapper, example_agent(agent)))
    elsewhere: set[str] = set()
    for seat in setup.task.seat_names:
        if seat.split("[")[0] != agent:
            elsewhere.update(candidates(mapper, example_agent(seat)))
    if len(playing) == 1 and not playing & elsewhere:
        return playing.pop()
    # A pattern that means this agent, and is the name of no policy.
    return f"[{agent[0]}]{agent[1:]}"


def _draws(runs: Iterable[SavedRun]) -> bool:
    """Whether actions were drawn when the payoffs were measured; policies that choose by values played their best guess."""
    for run in runs:
        for spec in run.setup.policies.values():
            if spec.scripted is None and spec.acts in BEST_GUESS:
                return False
    return True


# -- reports -------------------------------------------------------------------------------------------------------


def _of_report(root: Path, folder: Path, allow: frozenset[str]) -> dict[str, Any]:
    report = file_of(folder, "report")
    entrants = list(filter(_is_entrant, objects_in(report.get("entrants"))))
    runs: dict[str, SavedRun] = {}
    for one in entrants:
        place = _checkpoint_of(one, root, folder)
        if place is not None:
            runs[one["name"]] = SavedRun(place, allow)
    if not runs:
        return _nobody("Matches cannot be shown: no checkpoint of this report lies in the results folder (any more).")
    # All entrants played the same env, so any of their runs has it.
    first = next(iter(runs.values()))
    try:
        sources = _entrants_sources(root, entrants, runs, _seats(report, first))
        told = {"sources": _keyed(sources, first.setup), "explore": _draws(runs.values()), "why": ""}
    except UserError as error:
        return _nobody(f"Matches cannot be shown: {error}")
    directory = directory_of(first.folder)
    if directory is None:  # a checkpoint outside of a run directory is opened by itself
        return {"run": _inside(root, first.folder), "checkpoint": None, **told}
    return {"run": _inside(root, directory), "checkpoint": first.folder.name, **told}


def _keyed(sources: Sources, setup: Setup) -> Sources:
    """Policies by the names by which the run whose env is played takes them."""
    keyed: Sources = {}
    for player, by_name in sources.items():
        keyed[player] = {}
        for name, policies in by_name.items():
            keyed[player][name] = {key_of(agent, setup): source for agent, source in policies.items()}
    return keyed


def _entrants_sources(
    root: Path, entrants: Sequence[Mapping[str, Any]], runs: Mapping[str, SavedRun], seats: Seats
) -> Sources:
    sources: Sources = {player: {} for player in seats}
    for one in entrants:
        name, policy = one["name"], one["given"].partition("#")[2]
        for player, agents in seats.items():
            if one["given"] in BUILT_IN:
                sources[player][name] = dict.fromkeys(agents, one["given"])
            elif name in runs:
                sources[player][name] = _of_checkpoint(root, runs[name], policy, agents)
    return sources


def _of_checkpoint(root: Path, run: SavedRun, policy: str, agents: Iterable[AgentID]) -> dict[AgentID, str]:
    """One policy for all agents, or for each of them the one that plays it in its own run."""
    path = _inside(root, run.folder)
    if policy:
        return dict.fromkeys(agents, f"{path}#{policy}")
    found = {}
    for agent in agents:
        if run.setup.stage is not None:
            chosen = candidates(run.setup.proposed_mapper, example_agent(agent))[0]
        else:
            chosen = policy_of(run.setup, agent, run.folder.name)
        found[agent] = f"{path}#{chosen}"
    return found


def _seats(report: Mapping[str, Any], run: SavedRun) -> Seats:
    """As the report tells them; reports of before did not, and had the run's own players unless others were named."""
    told = report.get("seats")
    if isinstance(told, Mapping) and all(isinstance(agents, list) for agents in told.values()):
        return {str(player): [str(agent) for agent in agents] for player, agents in told.items()}
    return players_of(run.setup.scenario, run.setup.stage, run.setup.task)


def _checkpoint_of(entrant: Mapping[str, Any], root: Path, report: Path) -> Path | None:
    """Where the entrant's checkpoint lies in the results; None: nowhere. Reports name it as the user did."""
    path = entrant["given"].partition("#")[0]
    if path in BUILT_IN or not path:
        return None
    # Relative to where the command was given, which nobody knows any more: somewhere around the report.
    for base in (Path.cwd(), root, *report.resolve().parents):
        place = base / Path(path).expanduser()
        if _inside(root, place) is not None and place.is_dir():
            return _at_iteration(place, entrant.get("iteration"))
    return None


def _at_iteration(place: Path, iteration: object) -> Path | None:
    """The checkpoint that a run directory had at the time; the newest one may be another by now."""
    if not (place / "checkpoints").is_dir():
        return place
    if isinstance(iteration, int):
        then = place / "checkpoints" / f"checkpoint_{iteration:06d}"
        return then if then.is_dir() else None
    try:
        return SavedRun.open(place).folder
    except UserError:
        return None


def _inside(root: Path, place: Path) -> str | None:
    """The path in the results folder; None where it leads out of it."""
    here, there = root.resolve(), place.resolve()
    if not there.is_relative_to(here):
        return None
    return there.relative_to(here).as_posix()


def _is_entrant(one: Mapping[str, Any]) -> bool:
    return isinstance(one.get("name"), str) and isinstance(one.get("given"), str)
