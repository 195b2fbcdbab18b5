"""Corruption: one to three files of a finished run, a recording or an export are damaged, then a command reads them.

The command has to end with a sentence, and if it says that all is well, its numbers have to be those of the honest files,
unless it has named the damage. Files that nobody vouches for by a hash (tables, logs) may be shown as they are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

from siege.child import Ended, run
from siege.damage import DAMAGES
from siege.ledger import CaseResult
from siege.prey import CASE, READS, Prey, left_behind, plain_text
from siege.same import differences
from siege.verdict import complaint

_NAMED = re.compile(
    r"damaged|not complete|is missing|incomplete|left out|cannot be read|older checkpoint|passed over", re.IGNORECASE
)
UNVOUCHED = (
    "result.json",
    "progress.csv",
    "params.json",
    "params.yaml",
    "state.json",
    "population.json",
    ".tfevents",
    ".png",
)


class Corruption:
    """Preys to be damaged; ``case`` damages a copy of one."""

    kind = "corruption"

    def __init__(self, preys: Sequence[Prey]) -> None:
        self.preys = preys

    def case(self, number: int, draw: random.Random, folder: Path) -> CaseResult:
        prey = self.preys[number % len(self.preys)]
        inside = prey.copy(folder)
        place = draw.choices(list(READS), [2, 8, 3, 3, 3])[0]
        name = draw.choice(READS[place])
        broken = _break_files(inside, place, draw)
        ended = run(prey.command(name), inside, limits=CASE)
        waited = (
            f"hang: no answer in {CASE.seconds:.0f} seconds" if ended.overtime else None
        )  # as on a pipe; honest files take two
        text = waited or complaint(ended) or _changed_numbers(prey, name, inside, ended, broken)
        said = "damage refused" if ended.code == 2 else "damage named" if _NAMED.search(ended.said) else "harmless"
        return CaseResult(self.kind, number, f"{prey.name}, {name}: {', '.join(broken)}", text, outcome=said)


def _break_files(inside: Path, place: str, draw: random.Random) -> list[str]:
    """Damage files below ``place``, the newest checkpoint's first of all; gives what was done to which."""
    files = [file for file in sorted((inside / place).rglob("*")) if file.is_file()]
    if place == "run/checkpoints":
        newest = [file for file in files if file.parent.name == "checkpoint_000008"]
        files = newest if draw.random() < 0.8 else files
    elif place == "run":
        files = [file for file in files if "checkpoints" not in file.parts]
    told = []
    for file in draw.sample(files, min(len(files), draw.choice([1, 1, 1, 2, 3]))):
        manner = draw.choice(list(DAMAGES))
        if file.is_file() and file.stat().st_size:
            DAMAGES[manner](file, draw)
            told.append(f"{file.relative_to(inside)} {manner}")
    return told


def _changed_numbers(prey: Prey, name: str, inside: Path, ended: Ended, broken: list[str]) -> str | None:
    """Numbers that differ from the honest ones although the command said nothing."""
    if ended.code != 0 or ended.overtime or _NAMED.search(ended.said):
        return None
    unvouched = any(word in text for text in broken for word in UNVOUCHED)
    try:
        left = left_behind(name, inside)
    except Exception as error:
        return f"silent: exit code 0, but what it left cannot be read: {error}"
    vouched = ("newest", "best") if unvouched else tuple(prey.left[name])
    honest = {key: value for key, value in prey.left[name].items() if key in vouched}
    wrong = differences({key: left.get(key) for key in honest}, honest)
    if wrong:
        return f"silent: exit code 0, no warning, another result: {wrong[0]}"
    if unvouched and name in ("runs", "rollout"):
        return None
    if plain_text(ended) != prey.said[name]:
        return "silent: exit code 0, no warning, other numbers"
    return None
