"""The payoff table as a heat map: means with standard errors in the cells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from marl.analysis.payoff_table import caption, is_zero_sum
from marl.analysis.report.content import Block, Grid, Section, Shades, Words, meaning, with_error
from marl.analysis.report.names import ReportParticipant
from marl.gametheory.payoffs import PayoffTensor
from marl.populations.payoff_estimates import all_cells

MOST_LISTED = 200


def payoffs_section(payoffs: PayoffTensor, who: Sequence[ReportParticipant]) -> Section:
    blocks: list[Block] = [
        _taking_part(who),
        Words(f"{caption(payoffs)[:1].upper()}{caption(payoffs)[1:]}."),
    ]
    two = len(payoffs.players) == 2
    if two:
        both = not payoffs.symmetric and not is_zero_sum(payoffs)
        blocks += [_heat(payoffs, player) for player in ((0, 1) if both else (0,))]
    else:
        blocks += [_listed(payoffs)]
    cells = "Each cell says what was earned on average when the row's entrant met the column's. " if two else ""
    cells += "Columns have the rows' numbers. " if two and payoffs.symmetric else ""
    cells += "Blue is high, orange is low. " if two else ""
    blocks.append(
        meaning(
            f"{cells}The number after ± is the standard error of the mean: about 95 % of the time the truth is within two of "
            "them. Two payoffs that are closer than that may well be equal."
        )
    )
    return Section("payoffs", "Payoffs", blocks)


def _taking_part(who: Sequence[ReportParticipant]) -> Grid:
    """Names and where they come from, without what all paths begin with."""
    parents = [str(folder.parent.absolute()) for one in who if (folder := one.folder) is not None]
    root = Path(os.path.commonpath(parents))
    root = root.parent if root.name == "checkpoints" else root
    rows = []
    for one in who:
        policy = one.given.partition("#")[2]
        path = "built in" if one.folder is None else str(one.folder.absolute().relative_to(root))
        rows.append([one.name, f"{path}#{policy}" if policy else path])
    return Grid("Who took part", ["entrant", f"checkpoint in {root.name}"], rows)


def _heat(payoffs: PayoffTensor, player: int) -> Grid:
    """What the player earns, its rival's entrants in the columns."""
    mean, error = payoffs.mean[player], payoffs.stderr[player]
    rows, columns = payoffs.names
    cells = [
        [f"{r + 1}  {name}", *(with_error(mean[r, c], error[r, c]) for c in range(len(columns)))]
        for r, name in enumerate(rows)
    ]
    if payoffs.symmetric:
        title, head = "What the row's entrant earns", [str(c + 1) for c in range(len(columns))]
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
    return [[float((x - middle) / reach) for x in row] for row in mean]


def _listed(payoffs: PayoffTensor) -> Grid:
    """One line per pairing."""
    places = [c for c in all_cells(payoffs.count.shape) if not payoffs.symmetric or c == tuple(sorted(c))]
    rows = []
    for number, cell in enumerate(places[:MOST_LISTED], 1):
        played = [names[i] for names, i in zip(payoffs.names, cell, strict=True)]
        earned = [with_error(payoffs.mean[(p, *cell)], payoffs.stderr[(p, *cell)]) for p in range(len(payoffs.players))]
        rows.append([str(number), *played, *earned])
    cut = len(places) > MOST_LISTED
    more = f" (the first {MOST_LISTED} of {len(places)} pairings; all are in payoffs.json)" if cut else ""
    head = ["", *payoffs.players, *(f"{player} earns" for player in payoffs.players)]
    return Grid(f"What everybody earns{more}", head, rows)
