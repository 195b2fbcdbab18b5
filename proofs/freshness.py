"""Whether a stored proof still says what today's code does.

A proof is *fresh* if declaration and scenario say the same as when it was measured (``setting.py``) and the first
iterations of every seed come out as they did, bit for bit (``opening.py``). The replay is left out where no file of the
modules that it needs has changed since the last one. On another machine numbers are rounded in other places: there the
same numbers up to a thousandth are fresh as well, and others say nothing (*other machine*).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from marl.errors import TrainingError
from proofs.apart import apart
from proofs.declaration import Places, Proof
from proofs.opening import play_opening
from proofs.prepare import prepared
from proofs.results import Results, Standing, State, read_results, write_results
from proofs.setting import Setting, setting_of
from proofs.sources import Sources, all_sources, changed, loaded

Checked: TypeAlias = Callable[[Proof, Standing], None]


def standing_of(results: Results, proof: Proof, places: Places, package: Sources | None = None) -> Standing:
    """What is known without a replay; ``unchecked`` says that one is needed. Without a ``package`` its files are read."""
    told = _without_sources(results, setting_of(proof, places))
    if told is not None:
        return told
    others = changed(results.sources, all_sources(proof, places, package))
    if others:
        return Standing("unchecked", f"{len(others)} modules have changed, such as {others[0]}")
    return results.standing


def _without_sources(results: Results, setting: Setting) -> Standing | None:
    if not results.has_openings:
        return Standing("stale", "measured before first iterations were kept")
    difference = results.setting.difference(setting)
    return Standing("stale", difference) if difference else None


@dataclass(frozen=True)
class Replay:
    """What the first iterations came to, and the modules that they needed."""

    standing: Standing
    sources: Sources


def check(proofs: Sequence[Proof], places: Places, one_seed: bool, jobs: int, checked: Checked) -> None:
    """Replay what has to be replayed, so many side by side; what was found is kept with the results.

    Nothing is lost when this is killed: results are replaced in one step, after a replay has ended.
    """

    def look(proof: Proof) -> None:
        standing = check_file(places.results / f"{proof.name}.json", proof, places, one_seed)
        if standing is not None:
            checked(proof, standing)

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(look, proof) for proof in proofs]
        try:
            for each in running:
                each.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def check_file(path: Path, proof: Proof, places: Places, one_seed: bool) -> Standing | None:
    """What is known of one file of results, after a replay where it is needed; None if there is nothing in it.

    What ``one_seed`` alone shows is told and not kept, unless it came out otherwise.
    """
    results = read_results(path)
    if results is None or not results.seeds:
        return None
    standing = standing_of(results, proof, places)
    if standing.state != "unchecked":
        return standing
    try:
        replay: Replay = apart(
            replay_seeds, proof, places, results, one_seed, news=lambda *_: None, name=f"replay of {proof.name}"
        )
    except TrainingError as error:  # it was killed, or cannot run here: nothing is known
        return Standing("unchecked", str(error))
    if one_seed and len(results.seeds) > 1 and replay.standing.state == "fresh":
        return Standing("fresh", "by its first seed; not kept")  # the others have to be looked at before it is
    results.standing, results.sources = replay.standing, replay.sources
    write_results(path, proof, results)
    return replay.standing


def replay_seeds(proof: Proof, places: Places, results: Results, one_seed: bool, tell: Callable[..., None]) -> Replay:
    """Seeds in their order, until one comes out otherwise."""
    sources = all_sources(proof, places)
    stored = [results.seeds[seed] for seed in sorted(results.seeds)]
    standing = Standing("fresh")
    for result in stored[:1] if one_seed else stored:
        before = result.first
        assert before is not None  # proofs without are stale, and not replayed
        with prepared(proof) as folder:
            now = play_opening(proof, places, result.seed, folder, before.iterations, tell)
        difference = now.differs(before)
        if difference is not None:
            state: State = "stale" if now.machine == before.machine else "other machine"
            standing = Standing(state, f"seed {result.seed}: {difference}")
            break
    return Replay(standing, loaded(sources))
