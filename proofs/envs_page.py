"""The table of ``docs/envs.md``, written from the results of the sweep between two marks; the text around it is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marl.errors import ConfigError
from marl.runs.atomic import write_atomically
from proofs.declaration import Places
from proofs.envs import Case, CaseResult, Sweep, read_case

BEGIN = "<!-- written by `python -m proofs` from proofs/envs.yaml and proofs/results/envs: begin -->"
END = "<!-- end -->"


def write_envs_page(sweep: Sweep, places: Places) -> Path | None:
    """Bring the table up to date; None where the project has no such page."""
    path = places.root / "docs" / "envs.md"
    if not sweep.envs or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ConfigError(f"{path}: the marks around the table are gone. Expected the lines\n{BEGIN}\n{END}")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    write_atomically(path, f"{head}{BEGIN}\n{envs_table(sweep, places)}{END}{tail}")
    return path


def envs_table(sweep: Sweep, places: Places) -> str:
    """One row per env, what `marl check` found and why, and what is left out."""
    results = [(case, read_case(case, places)) for case in sweep.cases]
    held = sum(result is not None and not result.complaints(case) for case, result in results)
    lines = [f"{len(results)} envs in the list, {held} hold.{_versions([r for _, r in results if r is not None])}", ""]
    lines += [
        "| env | agents | moves | observes | acts | mask | state | `marl check` | trained, rolled out | seconds | peak MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(case, result) for case, result in results]
    lines += ["", "What `marl check` finds, and why it is right:", ""]
    lines += [f"- `{case.name}`, `{code}`: {why}" for case, _ in results for code, why in case.findings.items()]
    lines += ["", "Keys that were given beside `env:` and the sizes:", ""]
    lines += [f"- `{case.name}`: `{_keys(case.set)}`" for case, _ in results if case.set]
    lines += ["", "Left out:", ""]
    lines += [f"- {name}: {why}" for name, why in sweep.left_out.items()]
    return "\n".join([*lines, ""])


def _versions(results: list[CaseResult]) -> str:
    seen = {name: version for result in results for name, version in result.versions.items()}
    return f" Measured with {', '.join(f'{name} {version}' for name, version in seen.items())}." if seen else ""


def _row(case: Case, result: CaseResult | None) -> str:
    if result is None:
        return f"| `{case.name}` | | | | | | | not run | | | |"
    complaints = result.complaints(case)
    kinds: list[dict[str, Any]] = result.env.get("kinds", [])
    cells = (
        f"`{case.name}`",
        "; ".join(_agents(kind["agents"]) for kind in kinds),
        {"PettingZoo, turn-based": "in turns", "PettingZoo, parallel": "at once"}.get(result.env.get("api", ""), ""),
        _by_kind(kinds, "observation_space"),
        _by_kind(kinds, "action_space"),
        "yes" if any(kind["masked"] for kind in kinds) else "",
        str(result.env.get("state_size") or ""),
        ", ".join(f"`{code}`" for code in result.findings) or "clean",
        "yes" if not complaints else f"**no**: {_one_line(complaints[0])}",
        f"{result.seconds:.0f}",
        str(result.peak_mb),
    )
    return f"| {' | '.join(cells)} |"


def _agents(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(names[:2])}{', ...' if len(names) > 2 else ''}"


def _by_kind(kinds: list[dict[str, Any]], field: str) -> str:
    return "; ".join(dict.fromkeys(short_space(kind[field]) for kind in kinds))


def short_space(text: str) -> str:
    """``Box(-inf, inf, (18,), float32)`` without its bounds, which fill pages where they are arrays."""
    return re.sub(
        r"Box\((?:[^()]|\n)*?, (\([\d, ]*\)), (\w+)\)", lambda m: f"Box {_times(m[1])} {m[2]}", _one_line(text)
    )


def _times(shape: str) -> str:
    return "x".join(number.strip() for number in shape.strip("()").split(",") if number.strip())


def _keys(keys: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in keys.items()
    )


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")
