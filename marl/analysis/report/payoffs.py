"""The payoff table as a heat map: means with standard errors in the cells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from marl.analysis.payoff_table import all_pairings, caption, is_zero_sum, strategies_of
from marl.analysis.report.content import Block, Grid, Live, Section, Shades, Words, meaning, with_error
from marl.analysis.report.names import ReportParticipant
from marl.gametheory.payoffs import PayoffTensor

MOST_LISTED = 200


def payoffs_section(payoffs: PayoffTensor, who: Sequence[ReportParticipant]) -> Section:
    told = caption(payoffs)
    blocks: list[Block] = [_taking_part(who), Words(f"{told[:1].upper()}{told[1:]}.")]
    cells = ""
    if len(payoffs.players) == 2:
        tables = [_heat(payoffs, 0)]
        # Elsewhere the second player's table is the first's once more, turned round or with the other sign.
        if not payoffs.symmetric and not is_zero_sum(payoffs):
            tables.append(_heat(payoffs, 1))
        blocks.append(Live("heat", tables))
        cells = (
            "Each cell says what was earned on average when the row's entrant met the column's. "
            "Blue is high, orange is low. "
        )
    else:
        blocks.append(Live("heat", [_listed(payoffs)]))
    blocks.append(
        meaning(
            f"{cells}The number after ± is the standard error of the mean: about 95 % of the time the truth is within two of "
            "them. Two payoffs that are closer than that may well be equal."
        )
    )
    return Section("payoffs", "Payoffs", blocks)


def _taking_part(who: Sequence[ReportParticipant]) -> Grid:
    """Names and where they come from, without what all paths begin with."""
    parents = [one.folder.parent.absolute() for one in who if one.folder is not None]
    root = Path(os.path.commonpath(parents))
    if root.name == "checkpoints":
        root = root.parent  # the name of the run says more
    rows = []
    for one in who:
        source = "built in"
        if one.folder is not None:
            source = str(one.folder.absolute().relative_to(root))
        policy = one.given.partition("#")[2]
        if policy:
            source += f"#{policy}"
        rows.append([one.name, source])
    return Grid("Who took part", ["entrant", f"checkpoint in {root.name}"], rows)


def _heat(payoffs: PayoffTensor, player: int) -> Grid:
    """What the player earns, its rival's entrants in the columns."""
    mean, error = payoffs.mean[player], payoffs.stderr[player]
    rows, columns = payoffs.names
    cells = []
    for r, name in enumerate(rows):
        earned = [with_error(mean[r, c], error[r, c]) for c in range(len(columns))]
        cells.append([f"{r + 1}  {name}", *earned])
    if payoffs.symmetric:
        title, head = (
            "What the row's entrant earns (columns have the rows' numbers)",
            [str(c + 1) for c in range(len(columns))],
        )
    else:
        title = f"What {payoffs.players[player]} earns; rows: {payoffs.players[0]}, columns: {payoffs.players[1]}"
        head = [f"{c + 1}  {name}" for c, name in enumerate(columns)]
    return Grid(title, ["", *head], cells, _shades(payoffs, player))


def _shades(payoffs: PayoffTensor, player: int) -> Shades:
    """0 in the middle: at 0 where payoffs have both signs, else half way between the smallest and the largest."""
    mean = payoffs.mean[player]
    low, high = float(mean.min()), float(mean.max())
    middle = 0.0 if low < 0 < high else (low + high) / 2
    reach = max(high - middle, middle - low) or 1.0
    shades: list[list[float | None]] = ((mean - middle) / reach).tolist()
    return shades


def _listed(payoffs: PayoffTensor) -> Grid:
    """One line per pairing."""
    pairings = all_pairings(payoffs)
    rows = []
    for number, cell in enumerate(pairings[:MOST_LISTED], 1):
        row = [str(number), *strategies_of(payoffs, cell)]
        for player in range(len(payoffs.players)):
            place = (player, *cell)
            row.append(with_error(payoffs.mean[place], payoffs.stderr[place]))
        rows.append(row)
    more = ""
    if len(pairings) > MOST_LISTED:
        more = f" (the first {MOST_LISTED} of {len(pairings)} pairings; all are in payoffs.json)"
    earns = [f"{player} earns" for player in payoffs.players]
    return Grid(f"What everybody earns{more}", ["", *payoffs.players, *earns], rows)
