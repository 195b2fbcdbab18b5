"""Results as tables of Markdown, for docs/testing.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mutation.results import Result, Verdict, score
from mutation.sites import Mutant

WIDEST = 70  # characters of code in a cell


def rooms_table(mutants: Sequence[Mutant], results: Mapping[str, Result], verdicts: Mapping[str, Verdict]) -> str:
    """Per room: mutants, those that died, those that change nothing, and the share of the others that died."""
    lines = ["| room | mutants | died | change nothing | score |", "|---|---|---|---|---|"]
    rooms = sorted({_room(mutant) for mutant in mutants})
    for room in [*rooms, ""]:
        chosen = [mutant for mutant in mutants if room in ("", _room(mutant)) and mutant.key in results]
        found = score(chosen, results, verdicts)
        name = f"`{room}`" if room else "all"
        lines.append(f"| {name} | {len(chosen)} | {found.died} | {found.equivalent} | {found.share:.1%} |")
    return "\n".join(lines)


def survivors_table(mutants: Sequence[Mutant], results: Mapping[str, Result], verdicts: Mapping[str, Verdict]) -> str:
    """One row per survivor with what was found out about it."""
    lines = ["| where | was | became | verdict | why |", "|---|---|---|---|---|"]
    for result in sorted(score(mutants, results, verdicts).survivors, key=lambda one: (one.path, one.line)):
        verdict = verdicts.get(result.key, Verdict("not looked at", ""))
        where = result.unit.removeprefix("marl/").rstrip(":").replace("::", " ")
        cells = (f"`{where}`", _code(result.old), _code(result.new), verdict.kind, verdict.reason)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _room(mutant: Mutant) -> str:
    return "/".join(mutant.path.split("/")[:2])


def _code(text: str) -> str:
    flat = " ".join(text.split())
    short = flat if len(flat) <= WIDEST else flat[: WIDEST - 3] + "..."
    return f"`{short}`".replace("|", "\\|")
