"""How far a run's play is from equilibrium.

    NashConv = sum over players of (what a best response earns - what the player earns)

The methods are in ``examination/``; the examiner chooses among them once, before anything is trained, and says which it took
and why. ``tree`` and ``merged`` are exact, the others give lower bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from marl.data.task import PolicyID
from marl.errors import UserError
from marl.gametheory.tree.tree import Tree
from marl.policies.policy import Policy
from marl.populations.exploit_config import ExploitabilityConfig
from marl.rollout.pool import WorkerPool
from marl.scenario.resolve import Setup
from marl.training.examination.figures import EXACT, LOWER, SAMPLED, Exploitability
from marl.training.examination.game import Asked, ExaminedGame, Progress
from marl.training.examination.methods import EXACT_ONES, choose, lower_bounds
from marl.training.examination.tree import ByTree

__all__ = ["EXACT", "LOWER", "SAMPLED", "Examiner", "Exploitability", "Progress"]


class Examiner:
    """Measures the policies of one run again and again. Mistakes show when it is built, before anything is trained."""

    def __init__(self, setup: Setup, config: ExploitabilityConfig) -> None:
        self.setup, self.config = setup, config
        self.game = ExaminedGame(setup)
        self.players, self.seating = self.game.players, self.game.seating
        self.choice = choose(self.game, config)

    @property
    def tree(self) -> Tree | None:
        """The game's tree, where that is how it is measured."""
        method = self.choice.first
        return method.tree if isinstance(method, ByTree) else None

    @property
    def note(self) -> str:
        """What a user should know before the run: which method, why and at what cost; empty where a tree tells all."""
        methods, why = self.choice.methods, self.choice.why
        if not why:
            return ""
        told = " and ".join(method.told for method in methods)
        cost = ", and ".join(str(method.effort) for method in methods)
        return f"exploitability: {told}, because {why} A measurement takes {cost}."

    def measure(
        self,
        policies: Mapping[PolicyID, Policy],
        workers: WorkerPool,
        number: int = 0,
        progress: Progress | None = None,
    ) -> Exploitability:
        """NashConv of these policies. ``number`` tells measurements of a run apart: each plays episodes of its own.

        ``progress`` is called with the env steps that best responses have been trained for, and how many there will be.
        """
        asked = Asked(policies, workers, number, progress)
        try:
            return self._measured(asked)
        except UserError as error:
            is_exact = self.choice.first.name in EXACT_ONES
            if self.config.method != "auto" or not is_exact:
                raise
            # A population may grow beyond what merges, and a run is worth more than an exact figure of it.
            self.choice = lower_bounds(self.game, self.config, [error])
            return self._measured(asked)

    def _measured(self, asked: Asked) -> Exploitability:
        found = []
        for method in self.choice.methods:
            measured = method.measure(asked)
            found.append(replace(measured, why=self.choice.why, method=method.name, effort=method.effort))
        # All but the first are lower bounds: the largest says most.
        best, *others = sorted(found, key=lambda one: one.nash_conv, reverse=True)
        return replace(best, beside={one.method: one for one in others})
