"""How whole games look: where learning leads from everywhere, and how much of a population's order is a cycle."""

from marl.gametheory.strategic.basins import Basin, Basins, basins
from marl.gametheory.strategic.fields import VectorField, vector_field
from marl.gametheory.strategic.gamescape import Disc, Gamescape, gamescape
from marl.gametheory.strategic.motion import DYNAMICS, Dynamics

__all__ = [
    "DYNAMICS",
    "Basin",
    "Basins",
    "Disc",
    "Dynamics",
    "Gamescape",
    "VectorField",
    "basins",
    "gamescape",
    "vector_field",
]
