"""``marl estimate``: what a trained run would earn, told from recordings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from marl.cli.options import Allow, EnvAgain
from marl.errors import printable


def estimate(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a run directory (its newest one is judged).")],
    recordings: Annotated[
        str, typer.Argument(metavar="RECORDINGS", help="A directory, a file or a pattern, as behind `input:`.")
    ],
    by: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME", help="is, wis, dr, or one of your own; repeatable. Default: is, wis and dr."),
    ] = None,
    gamma: Annotated[float, typer.Option(help="Discount per env step; 1: the sum of rewards.")] = 1.0,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Judge the likeliest action of policies that draw theirs.")
    ] = False,
    sets: EnvAgain = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    allow: Allow = None,
) -> None:
    """Tell from recordings what a trained run would earn, without playing: off-policy estimates with 95 % intervals.

    Exit codes: 0 when it was estimated, 2 for bad input.
    """
    from marl.play.changes import Changes
    from marl.play.estimate import ALL, estimate_checkpoint

    changes = Changes(sets=sets or ())
    found = estimate_checkpoint(
        checkpoint, recordings, by or ALL, gamma=gamma, greedy=greedy, allow=frozenset(allow or []), changes=changes
    )
    if as_json:
        print(json.dumps({"checkpoint": str(checkpoint), "recordings": recordings, "gamma": gamma, "policies": found}))
        return
    for name, block in found.items():
        _tell(name, block)


def _tell(name: str, block: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "value", "95 %", title=Text(f"policy {printable(name)}"), title_justify="left")
    for estimator, found in block.items():
        if isinstance(found, Mapping):
            table.add_row(estimator, _number(found["value"]), _interval(found))
    Console().print(table)
    print(
        f"{block['episodes']} recorded episodes, worth {block['effective_episodes']:.4g} of the policy's own. recorded: what "
        "those who played earned."
    )


def _interval(found: Mapping[str, Any]) -> str:
    if found["low"] is None:
        return "unknown"
    return f"{_number(found['low'])} to {_number(found['high'])}"


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}"
