"""Hashes for results from before hashes were kept, if today's code gives their first evaluations to the last digit.

That is the same look at the beginning of a run, by numbers that were stored already. An evaluation that came to a whole number
(a game with few outcomes, a pole that never fell) says little, so it takes two others per seed; where a quarter of a seed's
evaluations holds no two of them, or where the clock takes part, the proof has to be run again. So it has where declaration or
scenario said something else in the commit that brought the results.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from marl.errors import ConfigError, UserError
from marl.training.trainer import Trainer
from proofs.apart import apart
from proofs.declaration import Places, Proof, read_proofs
from proofs.opening import Opening, Tick, depends_on_the_clock, play_opening
from proofs.prepare import prepared
from proofs.results import Results, SeedResult, Standing, write_results
from proofs.runner import values_of
from proofs.setting import Setting, setting_of
from proofs.sources import Sources, all_sources, loaded

TELLING = 2  # evaluations that are no whole number
SHARE = 0.25  # of a seed's evaluations, at most


@dataclass(frozen=True)
class Adopted:
    """Openings and numbers of compared evaluations by seed; or why it could not be done."""

    openings: dict[int, Opening]
    compared: dict[int, int]
    sources: Sources
    why: str = ""


def adopt(proof: Proof, places: Places, results: Results) -> str:
    """Keep hashes with results that have none, if they belong to today's code; gives why not, or an empty text."""
    path, setting = places.results / f"{proof.name}.json", setting_of(proof, places)
    if proof.tune or depends_on_the_clock(places.load(proof, proof.all_seeds[0])):
        return "what it measures depends on the clock, or it is a search"
    if any(_telling(result) is None for result in results.seeds.values()):
        return "too few of the first evaluations of a seed tell anything"
    try:
        difference = setting_then(proof, places).difference(setting)
        if difference is not None:
            return difference
        found: Adopted = apart(
            adopt_seeds, proof, places, results, news=lambda *_: None, name=f"replay of {proof.name}"
        )
    except UserError as error:
        return str(error)
    if found.why:
        return found.why
    for seed, opening in found.openings.items():
        results.seeds[seed].first = opening
        results.seeds[seed].compared = found.compared[seed]
    results.setting, results.sources, results.standing = setting, found.sources, Standing("fresh")
    write_results(path, proof, results)
    return ""


def setting_then(proof: Proof, places: Places) -> Setting:
    """What declaration and scenario said in the commit that brought the results, as today's code reads it."""
    commit = _git(places, "log", "-1", "--format=%H", "--", f"proofs/results/{proof.name}.json").strip()
    with TemporaryDirectory() as folder:
        then = Places(Path(folder))
        for path in (then.declarations, then.scenario(proof)):
            path.parent.mkdir(exist_ok=True)
            path.write_text(_git(places, "show", f"{commit}:{path.relative_to(folder).as_posix()}"), encoding="utf-8")
        (declared,) = [one for one in read_proofs(then) if one.name == proof.name]
        return setting_of(declared, then)


def _git(places: Places, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=places.root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def adopt_seeds(proof: Proof, places: Places, results: Results, tell: Callable[..., None]) -> Adopted:
    """All seeds, or none of them."""
    sources = all_sources(proof, places)
    found = Adopted({}, {}, {})
    for seed, result in sorted(results.seeds.items()):
        needed = _telling(result)
        assert needed is not None  # was looked at before
        with prepared(proof) as folder:
            difference = _compare(proof, places, result, needed, folder, tell)
            if difference is not None:
                return Adopted({}, {}, {}, f"seed {seed}: {difference}")
            found.openings[seed] = play_opening(proof, places, seed, folder, None, tell)
        found.compared[seed] = needed
    return Adopted(found.openings, found.compared, loaded(sources))


def _telling(result: SeedResult) -> int | None:
    """How many evaluations have to be compared."""
    telling = 0
    for index, (_, values) in enumerate(result.evaluations[: max(TELLING, int(SHARE * len(result.evaluations)))]):
        telling += any(value != round(value) for value in values.values())
        if telling == TELLING:
            return index + 1
    return None


def _compare(
    proof: Proof, places: Places, result: SeedResult, needed: int, folder: Path | None, tick: Tick
) -> str | None:
    """Train until so many evaluations have been compared; gives the first difference."""
    stored = iter(result.evaluations[:needed])
    compared = 0
    with Trainer(scenario=places.load(proof, result.seed, folder)) as trainer:
        while compared < needed:
            row = trainer.train()
            tick()
            if "evaluation" not in row and "exploitability" not in row:
                continue
            now, before = (row["timesteps_total"], values_of(proof, row)), next(stored)
            if now != before:
                return f"evaluation {compared + 1} is {now}, was {before}"
            compared += 1
    return None
