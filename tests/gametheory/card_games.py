"""A card game of twelve deals, with all its figures worked out here by enumeration in exact fractions.

Four cards; each of the two players puts in 1 and gets one card. ``first`` checks (0) or bets 1 (1). After a check the higher
card takes the pot; after a bet ``second`` folds (0), or calls with 1 (1) and the higher card takes the pot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
from gymnasium import spaces
from scipy.optimize import linprog

from marl.envs.base import ALL, MultiAgentEnv, StepResult

CARDS = 4
DEALS = list(permutations(range(CARDS), 2))
FIRST, SECOND = "first", "second"


class CardGame(MultiAgentEnv):
    """Deals are drawn by the seed. ``salt`` draws others for the same seeds."""

    possible_agents = (FIRST, SECOND)

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.salt = (config or {}).get("salt", 0)
        self.seen = spaces.Discrete(CARDS)
        self.moves = spaces.Discrete(2)

    def observation_space(self, agent: str) -> Any:
        return self.seen

    def action_space(self, agent: str) -> Any:
        return self.moves

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        self.rng = np.random.default_rng(None if seed is None else [self.salt, seed])
        self.cards = self._deal(options or {})
        return {FIRST: self.cards[0]}, {}

    def _deal(self, options: Mapping[str, Any]) -> tuple[int, int]:
        del options
        return DEALS[int(self.rng.integers(len(DEALS)))]

    def step(self, actions: dict[str, Any]) -> StepResult:
        if actions.get(FIRST) == 1:
            return StepResult({SECOND: self.cards[1]}, {}, {}, {}, {})
        stake = 1 if FIRST in actions else 2
        won = float(paid(self.cards, 1, int(actions[SECOND])) if SECOND in actions else paid(self.cards, 0, 0))
        assert abs(won) <= stake
        last = {FIRST: self.cards[0], SECOND: self.cards[1]}
        return StepResult(last, {FIRST: won, SECOND: -won}, {ALL: True}, {ALL: False}, {})


class ListedCardGame(CardGame):
    """The same game, which lists its deals."""

    def chance_outcomes(self) -> list[tuple[tuple[int, int], float]]:
        return [(deal, 1 / len(DEALS)) for deal in DEALS]

    def _deal(self, options: Mapping[str, Any]) -> tuple[int, int]:
        drawn = super()._deal(options)
        return options.get("chance", drawn)


# -- worked out here -----------------------------------------------------------------------------------------------

Rule = Sequence[Fraction]
"""With which chance a player plays 1, for each card."""


def paid(cards: tuple[int, int], bet: int, call: int) -> int:
    """What the first player wins."""
    higher = 1 if cards[0] > cards[1] else -1
    if not bet:
        return higher
    return 2 * higher if call else 1


def earned(first: Rule, second: Rule) -> Fraction:
    """What the first player earns on average over the twelve deals."""
    total = Fraction(0)
    for deal in DEALS:
        bets, calls = first[deal[0]], second[deal[1]]
        total += (1 - bets) * paid(deal, 0, 0)
        total += bets * (1 - calls) * paid(deal, 1, 0) + bets * calls * paid(deal, 1, 1)
    return total / len(DEALS)


def pure_rules() -> Iterator[Rule]:
    for plays in product((0, 1), repeat=CARDS):
        yield [Fraction(play) for play in plays]


def true_gains(first: Rule, second: Rule) -> tuple[Fraction, Fraction]:
    """What each player could gain by the best of its sixteen pure strategies."""
    now = earned(first, second)
    best_first = max(earned(rule, second) for rule in pure_rules())
    best_second = max(-earned(first, rule) for rule in pure_rules())
    return best_first - now, best_second + now


def true_value() -> float:
    """Of the game, for the first player: a linear program over all pairs of pure strategies."""
    table = np.array([[float(earned(one, other)) for other in pure_rules()] for one in pure_rules()])
    rows = len(table)
    found = linprog(
        [0.0] * rows + [-1.0], A_ub=np.hstack([-table.T, np.ones((table.shape[1], 1))]), b_ub=np.zeros(table.shape[1]),
        A_eq=[[1.0] * rows + [0.0]], b_eq=[1.0], bounds=[(0, None)] * rows + [(None, None)],
    )  # fmt: skip
    return float(-found.fun)
