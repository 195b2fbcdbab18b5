"""How the whole game of the entrants looks: the gamescape of a population, and where learning in it would lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from marl.analysis.report.content import Block, Grid, Section, Words, joined, meaning, number, picture, plural
from marl.analysis.report.strategic_figures import draw_disc, draw_field
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.result import one_population
from marl.gametheory.strategic import DYNAMICS, Basins, Gamescape, VectorField, basins, gamescape, vector_field
from marl.gametheory.strategic.fields import SPACES

FEWEST = 3  # entrants of which two can be a cycle with a third
STARTS = 500  # of basins: areas within 0.02 or so
RESOLUTION = 13


@dataclass(frozen=True, eq=False)
class StrategicView:
    """What applies to the table: a gamescape needs one population, fields and basins few strategies."""

    scape: Gamescape | None
    fields: tuple[VectorField, ...]
    basins: tuple[Basins, ...]  # one per field

    def as_json(self) -> dict[str, Any]:
        return {
            "gamescape": None if self.scape is None else self.scape.as_json(),
            "fields": [field.as_json() for field in self.fields],
            "basins": [found.as_json() for found in self.basins],
        }


def strategic_view(payoffs: PayoffTensor, seed: int = 0) -> StrategicView | None:
    """None where nothing of it applies: too many players, too few strategies, or pairings that nobody has played."""
    if len(payoffs.players) != 2 or not payoffs.is_complete:
        return None
    scape = None
    if one_population(payoffs) and len(payoffs.names[0]) >= FEWEST:
        scape = gamescape(payoffs, seed=seed)
    fields, found = _fields(payoffs, seed)
    if scape is None and not fields:
        return None
    return StrategicView(scape, fields, found)


def _fields(payoffs: PayoffTensor, seed: int) -> tuple[tuple[VectorField, ...], tuple[Basins, ...]]:
    """Of all dynamics, where a plane holds the game; else nothing."""
    game = payoffs.game
    # Measured seats of one population may differ a little, and then they are two.
    count = 1 if one_population(payoffs) and game.is_symmetric else 2
    if len(set(game.shape)) > 1 or (count, game.shape[0]) not in SPACES:
        return (), ()
    fields: list[VectorField] = []
    found: list[Basins] = []
    for dynamics in DYNAMICS.names:
        fields.append(vector_field(game, dynamics, RESOLUTION, count))
        found.append(basins(game, dynamics, STARTS, populations=count, seed=seed))
    return tuple(fields), tuple(found)


# -- the section ---------------------------------------------------------------------------------------------------


def strategic_section(view: StrategicView) -> Section:
    blocks: list[Block] = []
    if view.scape is not None:
        blocks += _scape_blocks(view.scape)
    for field, found in zip(view.fields, view.basins, strict=True):
        blocks += _field_blocks(field, found)
    if view.fields:
        blocks.append(
            meaning(
                "Arrows show where shares of strategies would move if play were learned in this table: those that earn more "
                "than average grow (replicator), or play turns to what is best now (best response). A basin is the share of "
                f"all starts from which play ends there; it was found from {STARTS} random starts, so it has an error. What "
                "is measured with few episodes may lead elsewhere."
            )
        )
    return Section("strategic", "The shape of the game", blocks)


def _scape_blocks(scape: Gamescape) -> list[Block]:
    low, high = scape.transitive_interval
    share = f"{scape.transitive_share:.0%}"
    if high > low:
        share += f" ({low:.0%} to {high:.0%} within the errors)"
    told = (
        f"A rating explains {share} of who beats whom by how much; {scape.cyclic_share:.0%} is cyclic. "
        f"The population has {plural(len(scape.layers), 'layer')}: {'; then '.join(joined(layer) for layer in scape.layers)}. "
        f"Diversity at the top: {number(scape.diversity)}."
    )
    rows = []
    for name, rating, cycles in zip(scape.names, scape.ratings.tolist(), scape.triangles, strict=True):
        rows.append([name, number(rating), str(cycles)])
    blocks: list[Block] = [Words(told), Grid("Gamescape", ["entrant", "mean margin", "cycles of three"], rows)]
    if scape.discs:
        first = scape.discs[0]
        alt = f"Entrants in the plane that holds {first.share:.0%} of the table: {_places(scape)}"
        blocks.append(picture(lambda: draw_disc(scape), alt, f"Gamescape: the plane that holds {first.share:.0%}"))
    return [
        *blocks,
        meaning(
            "The table of margins is a sum of a part that a rating tells and a cyclic part, and also a sum of planes in which "
            "each entrant beats those that lie counter-clockwise of it, up to half a turn. Points on a line away from the "
            "centre are an order from good to bad; points around the centre are rock, paper, scissors. A layer is who would "
            "be played in equilibrium, then the same without them. Diversity is 0 where one beats all others. Noise looks "
            "cyclic."
        ),
    ]


def _places(scape: Gamescape) -> str:
    found = []
    for name, (x, y) in zip(scape.names, scape.discs[0].points.tolist(), strict=True):
        found.append(f"{name} at {number(x)}, {number(y)}")
    return "; ".join(found)


def _field_blocks(field: VectorField, found: Basins) -> list[Block]:
    title = DYNAMICS[field.dynamics].title
    rows = []
    for place, basin in enumerate(found.basins, 1):
        low, high = basin.interval
        rows.append([f"{place}: {_where(found, basin.attractor)}", f"{basin.area:.0%}", f"{low:.0%} to {high:.0%}"])
    if found.unsettled or not rows:
        low, high = found.unsettled_interval
        rows.append(["play does not come to rest", f"{found.unsettled:.0%}", f"{low:.0%} to {high:.0%}"])
    ends = "; ".join(f"{row[0]} from {row[1]} of all starts" for row in rows)
    grid = Grid(f"Basins of {title} dynamics", ["play ends in", "share of starts", "95% interval"], rows)
    alt = f"Vector field of {title} dynamics. {ends}"
    return [grid, picture(lambda: draw_field(field, found), alt, f"Where {title} dynamics lead")]


def _where(found: Basins, attractor: Sequence[Any]) -> str:
    parts = []
    for names, strategy in zip(found.game.actions, attractor, strict=False):
        shares = [f"{name} {share:.0%}" for name, share in zip(names, strategy.tolist(), strict=True) if share >= 0.005]
        parts.append(", ".join(shares))
    return " against ".join(parts)
