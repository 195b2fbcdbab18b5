"""What was measured: one JSON file per proof, written after every seed, and the judgement over it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from marl.errors import ConfigError
from marl.runs.atomic import write_atomically
from marl.runs.result import SMALLER_IS_BETTER
from proofs.declaration import EXACT, Proof, Table
from proofs.matches import Tally
from proofs.opening import Opening
from proofs.setting import Setting
from proofs.sources import Sources

Verdict = Literal["ok", "miss", "unfinished"]
State = Literal["fresh", "stale", "other machine", "unchecked"]


@dataclass(frozen=True)
class Standing:
    """Whether numbers are those of today's code, and why not."""

    state: State
    why: str = ""

    def __str__(self) -> str:
        return f"{self.state} ({self.why})" if self.why else self.state


@dataclass
class SeedResult:
    """One run: every evaluation (env steps and the recorded fields), learned tables and matches where asked for."""

    seed: int
    evaluations: list[tuple[int, dict[str, float]]]
    wall_time_s: float
    tables: dict[str, Table] = field(default_factory=dict)
    matches: list[Tally] = field(default_factory=list)
    first: Opening | None = None  # None: measured before first iterations were kept
    sources: Sources = field(default_factory=dict)  # modules that the run loaded; kept once for all seeds of a proof

    def reached_at(self, goal: dict[str, float], budget: int) -> int | None:
        """Env steps of the first evaluation within the budget that meets every field; None if none did."""
        for steps, values in self.evaluations:
            if steps <= budget and all(_meets(name, values[name], wanted) for name, wanted in goal.items()):
                return steps
        return None

    def best(self, name: str) -> float:
        choose = min if name in SMALLER_IS_BETTER else max
        return choose(values[name] for _, values in self.evaluations)

    def last(self, name: str) -> float:
        return self.evaluations[-1][1][name]

    def newest(self, name: str, steps: int) -> float:
        """The last evaluation until so many env steps."""
        seen = [values[name] for at, values in self.evaluations if at <= steps]
        if not seen:
            raise ConfigError(f"seed {self.seed}: nothing was evaluated within {steps} env steps.")
        return seen[-1]

    def table_error(self, wanted: dict[str, Table]) -> float:
        """The largest distance between a learned entry and the wanted one."""
        return max(float(np.abs(np.subtract(self.tables[state], table)).max()) for state, table in wanted.items())

    def holds(self, proof: Proof) -> bool:
        """Whether this seed meets everything that the proof claims."""
        reached = not proof.reaches or self.reached_at(proof.reaches, proof.budget) is not None
        ended = all(abs(self.last(name) - wanted) <= proof.tolerance for name, wanted in proof.ends_at.items())
        fits = not proof.tables or self.table_error(proof.tables) <= proof.tolerance
        played = proof.matches is None or proof.matches.met(self.matches)
        limits = proof.stays_below.items()
        stayed = not any(_meets(name, values[name], limit) for _, values in self.evaluations for name, limit in limits)
        return reached and ended and stayed and fits and played


def _meets(name: str, value: float, wanted: float) -> bool:
    return value <= wanted + EXACT if name in SMALLER_IS_BETTER else value >= wanted - EXACT


@dataclass
class Results:
    """All finished seeds of a proof, what they were measured with, and what is known of that since.

    ``sources`` are the files with which the first iterations were looked at last, and ``standing`` is what was seen then.
    """

    setting: Setting = field(default_factory=Setting)
    seeds: dict[int, SeedResult] = field(default_factory=dict)
    sources: Sources = field(default_factory=dict)
    standing: Standing = field(default_factory=lambda: Standing("fresh"))

    def add(self, result: SeedResult) -> None:
        """Keep one more seed. Of a module that changed since the first one the old hash stays: so all are replayed."""
        self.seeds[result.seed] = result
        self.sources = dict(sorted({**result.sources, **self.sources}.items()))

    def seconds(self, proof: Proof) -> float:
        """What the missing seeds will take, by those that are known; all of them if none is missing."""
        known = [result.wall_time_s for result in self.seeds.values()]
        seeds = self.missing(proof) or proof.all_seeds
        return float(np.mean(known)) * len(seeds) if known else float("inf")

    @property
    def has_openings(self) -> bool:
        """Whether the first iterations of every seed were kept."""
        return all(result.first is not None for result in self.seeds.values())

    def missing(self, proof: Proof) -> list[int]:
        return [seed for seed in proof.all_seeds if seed not in self.seeds]

    def held(self, proof: Proof) -> int:
        return sum(self.seeds[seed].holds(proof) for seed in proof.all_seeds if seed in self.seeds)

    def judge(self, proof: Proof) -> Verdict:
        """What the numbers say, whatever they were measured with."""
        if self.missing(proof):
            return "unfinished"
        return "ok" if self.held(proof) >= proof.needed and self.medians_met(proof) else "miss"

    def medians_met(self, proof: Proof) -> bool:
        """Whether the median over the seeds was good enough at every mark."""
        name = proof.median_of
        if name is None:
            return True
        found = {steps: [self.seeds[s].newest(name, steps) for s in proof.all_seeds] for steps in proof.medians}
        return all(_meets(name, float(np.median(found[steps])), wanted) for steps, wanted in proof.medians.items())


def read_results(path: Path) -> Results | None:
    """The cached results; None if there are none. Seeds from before first iterations were kept have none."""
    if not path.is_file():
        return None
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        seeds = [
            SeedResult(
                row["seed"],
                [(s, v) for s, v in row["evaluations"]],
                row["wall_time_s"],
                row["tables"],
                [Tally(**tally) for tally in row.get("matches", [])],
                Opening(**row["first"]) if row.get("first") else None,
            )
            for row in raw["seeds"]
        ]
        setting, standing = Setting(**raw.get("setting", {})), Standing(**raw.get("standing", {"state": "stale"}))
        return Results(setting, {result.seed: result for result in seeds}, raw.get("sources", {}), standing)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no result of a proof ({error!r}). Delete it and run the proof again.") from error


def write_results(path: Path, proof: Proof, results: Results) -> None:
    """Replace the file in one step; numbers that can be derived are written out for readers."""
    main = proof.fields[0]
    rows = []
    for seed in sorted(results.seeds):
        result = results.seeds[seed]
        derived = {
            "holds": result.holds(proof),
            "reached_at": result.reached_at(proof.reaches, proof.budget) if proof.reaches else None,
            "best": result.best(main),
            "last": result.last(main),
        }
        if proof.tables:
            derived["table_error"] = result.table_error(proof.tables)
        measured = asdict(result)
        del measured["sources"]
        rows.append({**derived, **measured})
    content = {
        "proof": proof.name,
        "goal": proof.goal,
        "budget": proof.budget,
        "seeds_declared": proof.all_seeds,
        "at_least": proof.needed,
        "seeds": rows,
        "setting": asdict(results.setting),
        "standing": asdict(results.standing),
        "sources": results.sources,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1) + "\n")
