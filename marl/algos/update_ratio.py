"""When learners with a replay update: so many updates per env step, fractions carried over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from marl.algos.config import ReplayConfig
from marl.data.task import PolicyID


class UpdateRatio:
    """``debt`` is the part of an update that env steps have paid for and that has not been made yet."""

    def __init__(self, config: ReplayConfig) -> None:
        self.config = config
        self.debt = 0.0

    def due(self, env_steps: int, timesteps: int, rows: int) -> int:
        """Updates to make now, after ``env_steps`` more of ``timesteps`` in all, with so many rows in the replay."""
        if timesteps < self.config.learning_starts or not rows:
            return 0
        self.debt += self.config.updates_per_step * env_steps
        due = int(self.debt)
        self.debt -= due
        return due


def in_turns(due: Mapping[PolicyID, int]) -> Iterator[PolicyID]:
    """Names, each as often as it is due: one update for everybody, then the next, so that nobody runs ahead."""
    for turn in range(max(due.values(), default=0)):
        for name, updates in due.items():
            if turn < updates:
                yield name
