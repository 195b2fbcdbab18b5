"""Meta-solvers by name: from the payoff table of a population to one mixture per player.

The functions themselves stand in ``solvers.py``. Built-in ones are named by their place there, so that reading a scenario does
not load the game theory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from marl.errors import ConfigError
from marl.registry import Registry

if TYPE_CHECKING:
    from marl.gametheory.game import Profile
    from marl.gametheory.payoffs import PayoffTensor
    from marl.populations.config import PopulationConfig

    Solve: TypeAlias = Callable[[PayoffTensor, PopulationConfig], Profile]


@dataclass(frozen=True)
class MetaSolver:
    """A function from payoffs to mixtures. ``keys`` are those of ``population:`` that only some solvers take."""

    solve: Solve | str  # module:function
    keys: tuple[str, ...] = ()

    def load(self) -> Solve:
        if not isinstance(self.solve, str):  # a user's own, which is loaded already
            return self.solve
        module, _, name = self.solve.partition(":")
        found: Solve = getattr(import_module(module), name)
        return found


OWN = " One of your own is registered by marl.register_meta_solver in a module under imports."
META_SOLVERS: Registry[MetaSolver] = Registry("meta_solver", OWN)
META_SOLVERS.register("uniform", MetaSolver("marl.populations.solvers:uniform"))
META_SOLVERS.register("nash", MetaSolver("marl.populations.solvers:nash_mixtures"))
META_SOLVERS.register("projected_replicator", MetaSolver("marl.populations.solvers:replicator_mixtures"))
META_SOLVERS.register("alpha_rank", MetaSolver("marl.populations.solvers:alpha_rank_mixtures", ("alpha",)))
SOLVER_KEYS = ("alpha",)


def register_meta_solver(name: str, solve: Solve, keys: Sequence[str] = ()) -> None:
    """Let ``population: {meta_solver: name}`` find this function ``(payoffs, config) -> one mixture per player``.

    ``payoffs`` is a ``PayoffTensor`` and ``config`` holds the keys of ``population:``. The mixtures are arrays, one chance per
    member; in a symmetric population all players have the same. ``keys=["alpha"]``: it looks at ``config.alpha``.
    """
    if not callable(solve):
        raise ConfigError(f"meta_solver {name!r} is {solve!r}; expected a function of (payoffs, config).")
    for key in keys:
        if key not in SOLVER_KEYS:
            raise ConfigError(f"meta_solver {name!r}: keys has {key!r}; expected only {', '.join(SOLVER_KEYS)}.")
    META_SOLVERS.add(name, MetaSolver(solve, tuple(keys)))
