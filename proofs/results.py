"""What was measured: one JSON file per proof, written after every seed, and the judgement over it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from marl.errors import ConfigError
from marl.runs.atomic import write_atomically
from marl.runs.result import SMALLER_IS_BETTER
from proofs.declaration import EXACT, Places, Proof, Table
from proofs.matches import Tally
from proofs.sources import Sources, changed

Verdict = Literal["ok", "miss", "unfinished", "stale"]


@dataclass
class SeedResult:
    """One run: every evaluation (env steps and the recorded fields), learned tables and matches where asked for."""

    seed: int
    evaluations: list[tuple[int, dict[str, float]]]
    wall_time_s: float
    tables: dict[str, Table] = field(default_factory=dict)
    matches: list[Tally] = field(default_factory=list)
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
    """All finished seeds of a proof, and what they were measured with: scenario and declaration, modules of the package."""

    fingerprint: str
    seeds: dict[int, SeedResult] = field(default_factory=dict)
    sources: Sources = field(default_factory=dict)

    def add(self, result: SeedResult) -> None:
        """Keep one more seed; earlier ones are forgotten if a module changed since they ran."""
        if any(result.sources.get(name, digits) != digits for name, digits in self.sources.items()):
            self.seeds, self.sources = {}, {}
        self.seeds[result.seed] = result
        self.sources = dict(sorted({**self.sources, **result.sources}.items()))

    def current(self, fingerprint: str, package: Sources) -> bool:
        """Whether the same scenario, declaration and source files would be used again."""
        return self.fingerprint == fingerprint and not changed(self.sources, package)

    def missing(self, proof: Proof) -> list[int]:
        return [seed for seed in proof.all_seeds if seed not in self.seeds]

    def held(self, proof: Proof) -> int:
        return sum(self.seeds[seed].holds(proof) for seed in proof.all_seeds if seed in self.seeds)

    def verdict(self, proof: Proof, fingerprint: str, package: Sources) -> Verdict:
        """stale: measured with another scenario or declaration, or with other files of the package."""
        return self.judge(proof) if self.current(fingerprint, package) else "stale"

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


def fingerprint_of(proof: Proof, places: Places) -> str:
    """A hash of what decides the numbers of a seed besides the package: scenario file and declaration."""
    unused = {
        key for key in ("prepare", "stays_below", "medians", "median_of", "search", "tune") if not getattr(proof, key)
    }
    declared = proof.model_dump(exclude={"claim", "seeds", "at_least", *unused})
    scenario = places.scenario(proof).read_text(encoding="utf-8") + places.recipe(proof)
    text = json.dumps([scenario, declared], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_results(path: Path) -> Results | None:
    """The cached results; None if there are none. A file from before modules were kept counts as stale."""
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
            )
            for row in raw["seeds"]
        ]
        return Results(raw["fingerprint"], {result.seed: result for result in seeds}, raw.get("sources", {}))
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
        "fingerprint": results.fingerprint,
        "seeds": rows,
        "sources": results.sources,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1) + "\n")
