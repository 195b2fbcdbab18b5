"""The extensions of a trainer, in the order in which they hear of an iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from marl.scenario.resolve import Setup
from marl.training.extensions.callbacks import UserCallbacks
from marl.training.extensions.curriculum import Curriculum
from marl.training.extensions.endless import Endless
from marl.training.extensions.estimates import Estimates
from marl.training.extensions.evaluation import Evaluation
from marl.training.extensions.exploitability import Exploitability
from marl.training.extensions.extension import Extension
from marl.training.extensions.plausible import Plausible
from marl.training.extensions.population import PopulationRounds
from marl.training.extensions.video import make_camera

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


class Extensions:
    """Those that need the scenario alone are built at once, before anything large: what they refuse is refused early."""

    def __init__(self, setup: Setup) -> None:
        self.curriculum = Curriculum(setup.scenario)
        self.exploitability = Exploitability(setup)
        self.video = make_camera(setup)
        self.evaluation = Evaluation(setup.scenario.evaluation)
        self.estimates = Estimates(setup.scenario)
        self.endless = Endless()
        self.plausible = Plausible()
        self.more: list[Extension] = []  # of whoever drives the trainer, after all others
        self.callbacks: UserCallbacks
        self.rounds: PopulationRounds

    def join(self, trainer: Trainer) -> None:
        """The trainer has its policies, learners and workers: build those that need them."""
        self.estimates.join(trainer)
        self.callbacks = UserCallbacks(trainer)
        self.rounds = PopulationRounds(trainer)

    def policies_changed(self, setup: Setup) -> None:
        """Policies came or went: who had looked at them looks again."""
        self.exploitability.policies_changed(setup)

    def __iter__(self) -> Iterator[Extension]:
        yield self.rounds  # first, because what is measured is the population after its round
        yield self.endless  # before an evaluation, which may be the first that does not end
        yield self.plausible
        yield self.evaluation
        yield self.estimates
        yield self.exploitability
        yield self.video
        yield self.callbacks
        yield self.curriculum  # last of ours: a user's hook may still change the result that ends a stage
        yield from self.more
