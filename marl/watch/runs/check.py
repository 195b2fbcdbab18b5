"""Would this run begin? Tasks of a worker (see ``workers``): composing a scenario loads torch and builds the env once.

What is wrong is told with the sentence of ``marl run``, as the same functions find it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marl.runs.lock import check_unlocked
from marl.runs.resume import TO_RESUME
from marl.runs.saved import SavedRun, check_given_again
from marl.scenario.config import Scenario
from marl.scenario.external import waits_for_agents
from marl.scenario.load import apply, compose, parse_set, read_yaml, shipped_scenarios
from marl.training.build import prepare
from marl.trust import Trust, under, words_of
from marl.watch.workers import Tell

STOPS = {"stop_iters": "training_iteration", "stop_timesteps": "timesteps_total"}
MOST_WORDS = 300  # letters of a description


def check_start(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Refuse what ``marl run SCENARIO`` would refuse."""
    del tell
    file = Path(arguments["scenario"])
    changes = _changes(arguments)
    # A scenario may be a stranger's: the page has a button where the command line has a person who types.
    with under(Trust(frozenset(arguments["allow"]), frozenset(words_of([value for _, value in changes])))):
        raw = read_yaml(file)
        raw.setdefault("name", file.stem)
        _check(raw, changes, arguments, str(raw["name"]))
    return {}


def check_resume(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Refuse what ``marl run --resume RUN`` would refuse."""
    del tell
    directory = Path(arguments["directory"])
    check_unlocked(directory)
    saved = SavedRun.open(directory, need=TO_RESUME)
    changes = _changes(arguments)
    raw = dict(saved.scenario)
    check_given_again(raw, [key for key, _ in changes], saved.folder)
    with under(Trust(frozenset(arguments["allow"]), frozenset(words_of([value for _, value in changes])))):
        _check(raw, changes, arguments, str(saved.folder))
    return {}


def _changes(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    changes = [parse_set(text) for text in arguments["sets"]]
    if arguments.get("seed") is not None:
        changes.append(("seed", arguments["seed"]))
    return changes


def _check(raw: dict[str, Any], changes: list[tuple[str, Any]], arguments: dict[str, Any], where: str) -> Scenario:
    for key, value in changes:
        apply(raw, key, value)
    stops = {STOPS[name]: arguments[name] for name in STOPS if arguments.get(name) is not None}
    before = raw.get("stop") or {}
    if stops and isinstance(before, dict):
        raw["stop"] = {**before, **stops}
    scenario = compose(raw, where)
    if not waits_for_agents(scenario):  # else only its first client knows who plays
        prepare(scenario)
    return scenario


def scenarios(arguments: dict[str, Any], tell: Tell) -> list[dict[str, str]]:
    """The scenarios that come with the package: their names, and the comment at their top."""
    del arguments, tell
    found = []
    for name, file in shipped_scenarios().items():
        words = []
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                break
            words.append(line.removeprefix("#").strip())
        found.append({"name": name, "text": " ".join(words)[:MOST_WORDS]})
    return found
