"""What ``check_learner`` found, for people and for machines."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rich.console import Console
from rich.markup import escape

Verdict: TypeAlias = Literal["passed", "refused", "failed", "does not apply"]


@dataclass(frozen=True)
class Finding:
    """What one check showed."""

    check: str
    verdict: Verdict
    text: str = ""


@dataclass
class LearnerReport:
    """All findings on one algorithm."""

    algo: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Nothing failed, and where learning was looked at, there is a kind of actions that it learned."""
        learning: set[Verdict] = set()
        for finding in self.findings:
            if finding.verdict == "failed":
                return False
            if finding.check.startswith("learns"):
                learning.add(finding.verdict)
        # An algorithm may refuse choices or coordinates, but not both: then nothing showed that it learns.
        return not learning or "passed" in learning

    @property
    def failures(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == "failed"]

    def __getitem__(self, check: str) -> Finding:
        by_name = {finding.check: finding for finding in self.findings}
        return by_name[check]

    def __str__(self) -> str:
        console = Console(width=120, record=True, file=io.StringIO())
        self.print(console)
        return console.export_text()

    def print(self, console: Console) -> None:
        colours = {"passed": "green", "refused": "yellow", "failed": "red", "does not apply": "dim"}
        for finding in self.findings:
            colour = colours[finding.verdict]
            console.print(
                f"[{colour}]{finding.verdict:<14}[/{colour}] {finding.check}: {escape(finding.text)}", highlight=False
            )
        verdict = "conforms" if self.passed else "does not conform"
        console.print(f"{self.algo}: {verdict}", highlight=False)


class NotSo(Exception):
    """A promise was not kept."""


class DoesNotApply(Exception):
    """The question makes no sense for this algorithm."""
