"""What became of every mutant: one JSON line each, the last word counts; and what people found out about survivors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from mutation.places import Places
from mutation.sites import Mutant

KILLED = ("killed", "timeout")


@dataclass(frozen=True)
class Result:
    """``outcome``: killed, timeout (a kind of killed), survived, or no tests (a kind of survived)."""

    key: str
    path: str
    line: int
    unit: str
    operator: str
    old: str
    new: str
    outcome: str
    by: str  # the test that noticed
    tests: int
    wall: float

    @property
    def died(self) -> bool:
        return self.outcome in KILLED


def result_of(mutant: Mutant, outcome: str, by: str, tests: int, wall: float) -> Result:
    return Result(
        mutant.key, mutant.path, mutant.line, mutant.unit, mutant.operator, mutant.old, mutant.new, outcome, by,
        tests, round(wall, 2),
    )  # fmt: skip


def read_results(places: Places) -> dict[str, Result]:
    """The newest result of every mutant; a last line that was cut off by a kill is left out."""
    found: dict[str, Result] = {}
    if places.results.exists():
        for line in places.results.read_text(encoding="utf-8").splitlines():
            try:
                result = Result(**json.loads(line))
            except (ValueError, TypeError):
                continue
            found[result.key] = result
    return found


def append_result(places: Places, result: Result) -> None:
    places.results.parent.mkdir(parents=True, exist_ok=True)
    text = places.results.read_text(encoding="utf-8") if places.results.exists() else ""
    with places.results.open("a", encoding="utf-8") as file:
        broken = "\n" if text and not text.endswith("\n") else ""
        file.write(broken + json.dumps(asdict(result)) + "\n")


@dataclass(frozen=True)
class Verdict:
    """What somebody found out about a survivor: ``equivalent``, ``speed``, ``text`` or ``gap``, and why."""

    kind: str
    reason: str


def read_verdicts(file: Path) -> dict[str, Verdict]:
    """From ``mutation/survivors.yaml``: a list of ``{key, verdict, reason}``."""
    if not file.exists():
        return {}
    entries = yaml.safe_load(file.read_text(encoding="utf-8")) or []
    return {entry["key"]: Verdict(entry["verdict"], entry["reason"]) for entry in entries}


@dataclass(frozen=True)
class Score:
    """``died`` of ``counted`` mutants; those that are shown to change nothing are not counted."""

    died: int
    counted: int
    equivalent: int
    survivors: tuple[Result, ...]

    @property
    def share(self) -> float:
        return self.died / self.counted if self.counted else 0.0


def score(mutants: Sequence[Mutant], results: Mapping[str, Result], verdicts: Mapping[str, Verdict]) -> Score:
    known = [results[mutant.key] for mutant in mutants if mutant.key in results]
    survivors = tuple(result for result in known if not result.died)
    equivalent = [one for one in survivors if one.key in verdicts and verdicts[one.key].kind == "equivalent"]
    died = len(known) - len(survivors)
    return Score(died, len(known) - len(equivalent), len(equivalent), survivors)
