"""Whose turn it is: which policies decide in one call, for which cells."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple, TypeAlias

from marl.policies.policy import Policy
from marl.policies.stacked import StackedPolicies, shape_of
from marl.rollout.cells import ColumnsOfSeveral, MarkedCells, WholeColumns


class Turn(NamedTuple):
    """One call: of the policy with this number, or of a stack of policies of which it is the first."""

    policy: int
    cells: MarkedCells
    stack: StackedPolicies | None = None


Seats: TypeAlias = list[tuple[int, WholeColumns]]
"""Policies and the seats for which they decide, in the order in which they are asked."""


class Stacks:
    """Policies of one shape that play equally many seats each, one after the other, act in one call.

    Only while weights are at rest: a stack acts with copies of them.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies = policies
        self.at_rest = False
        self._turns: dict[int, tuple[Seats, list[Turn]]] = {}  # by kind, with the seats for which it was worked out

    @contextmanager
    def weights_at_rest(self) -> Iterator[None]:
        """Nobody changes weights within this block."""
        for _, turns in self._turns.values():
            for turn in turns:
                if turn.stack is not None:
                    turn.stack.copy_weights()
        self.at_rest = True
        try:
            yield
        finally:
            self.at_rest = False

    def turns(self, k: int, seats: Seats) -> list[Turn]:
        """Who decides for the agents of kind ``k``, of whom all are asked."""
        if len(seats) < 2 or not self.at_rest:
            return [Turn(index, cells) for index, cells in seats]
        known, turns = self._turns.get(k, ([], []))
        if known is not seats:
            turns = self._stacked(seats)
            self._turns[k] = (seats, turns)
        return turns

    def _stacked(self, seats: Seats) -> list[Turn]:
        def alike(seat: tuple[int, WholeColumns]) -> Hashable:
            index, cells = seat
            # A policy that has to act by itself is like no other.
            return shape_of(self.policies[index]) or index, cells.count

        turns: list[Turn] = []
        # Neighbours alone: in another order they would draw other numbers than one after the other.
        for _, group in groupby(seats, alike):
            members = list(group)
            if len(members) == 1:
                turns.append(Turn(*members[0]))
                continue
            stack = StackedPolicies([self.policies[index] for index, _ in members])  # type: ignore[misc]
            cells = ColumnsOfSeveral([cells for _, cells in members])
            turns.append(Turn(members[0][0], cells, stack))
        return turns
