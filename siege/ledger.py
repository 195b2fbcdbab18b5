"""What was tried and how it ended, on the disk after every case: a siege that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from marl.runs.atomic import write_atomically


@dataclass(frozen=True)
class CaseResult:
    """One case: what was done (``label``), how often something was struck (``tried``), what is wrong (``complaint``)."""

    kind: str
    number: int
    label: str
    complaint: str | None = None
    tried: int = 1
    outcome: str = ""
    seconds: float = 0.0

    @property
    def survived(self) -> bool:
        return self.complaint is None


@dataclass(frozen=True)
class Tally:
    """The figures of one kind."""

    cases: int
    tried: int
    survived: int
    lost: int
    outcomes: dict[str, int]


def tally(results: Iterable[CaseResult]) -> Tally:
    found = list(results)
    lost = [result for result in found if not result.survived]
    outcomes = Counter(result.outcome or "survived" for result in found if result.survived)
    tried = sum(result.tried for result in found)
    return Tally(len(found), tried, tried - sum(r.tried for r in lost), len(lost), dict(sorted(outcomes.items())))


class Ledger:
    """Results by kind and number, of one seed and one state of the sources."""

    def __init__(self, file: Path, seed: int, sources: str) -> None:
        self.file, self.seed, self.sources = file, seed, sources
        self._results: dict[tuple[str, int], CaseResult] = {}
        for result in self._read():
            self._results[result.kind, result.number] = result

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self._results.values())

    def of(self, kind: str) -> list[CaseResult]:
        return [result for result in self if result.kind == kind]

    def missing(self, kind: str, count: int) -> list[int]:
        return [number for number in range(count) if (kind, number) not in self._results]

    def add(self, result: CaseResult) -> None:
        self._results[result.kind, result.number] = result
        with self.file.with_suffix(".jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"seed": self.seed, "sources": self.sources, **asdict(result)}) + "\n")

    def forget(self, kinds: Iterable[str]) -> None:
        """Try these kinds from the start."""
        kept = [result for result in self if result.kind not in set(kinds)]
        self._results.clear()
        self.file.with_suffix(".jsonl").unlink(missing_ok=True)
        for result in kept:
            self.add(result)

    def write(self) -> None:
        """The figures, and every case that was lost."""
        kinds = dict.fromkeys(result.kind for result in self)
        content = {
            "seed": self.seed,
            "sources": self.sources,
            "kinds": {kind: asdict(tally(self.of(kind))) for kind in kinds},
            "lost": [asdict(result) for result in self if not result.survived],
        }
        write_atomically(self.file, json.dumps(content, indent=1) + "\n")

    def _read(self) -> Iterator[CaseResult]:
        lines = self.file.with_suffix(".jsonl")
        for line in lines.read_text(encoding="utf-8").splitlines() if lines.exists() else []:
            try:
                known = json.loads(line)
            except ValueError:
                continue  # half-written when the siege itself was killed
            if (known.pop("seed"), known.pop("sources")) == (self.seed, self.sources):
                yield CaseResult(**known)


def digest_of_sources(*folders: Path) -> str:
    """Results of other code are no results of this one."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder.parent)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
