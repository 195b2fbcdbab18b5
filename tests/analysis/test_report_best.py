"""A report opens with who is best and how sure that is."""

from __future__ import annotations

import numpy as np
import pytest

from marl.analysis.report.best import SURE, best_section, find_best
from marl.analysis.report.ranking import rankings
from marl.gametheory.payoffs import PayoffTensor


def alone(mean: list[float], stderr: float) -> PayoffTensor:
    table, names = np.array([mean]), tuple(f"n{i}" for i in range(len(mean)))
    return PayoffTensor(
        table, np.full(table.shape, stderr), np.full(len(mean), 50 if stderr else 0), (names,), ("team",)
    )


def opening(payoffs: PayoffTensor) -> str:
    section = best_section(find_best(rankings(payoffs, ())), payoffs.names[0])
    return section.blocks[0].text  # type: ignore[union-attr]


def test_a_clear_winner_is_named_with_its_interval_and_its_chance() -> None:
    assert opening(alone([5.4, 8.0], 0.1)).startswith("n1 is the best by Payoff: 8 (95% interval 7.8")
    assert opening(alone([5.4, 8.0], 0.1)).endswith("first in 100% of 200 redrawn tables.")


def test_a_lead_within_the_errors_is_not_sure_and_names_the_rival() -> None:
    text = opening(alone([7.9, 8.0, 1.0], 1.0))
    assert text.startswith("n1 leads by Payoff: 8")
    assert "but that is not sure: first in" in text
    assert "n0 is first in" in text


def test_the_chance_is_that_of_the_normal_difference() -> None:
    """Means one apart with standard errors of 1 each: the better one is first with chance Phi(1 / sqrt 2) = 0.76."""
    (leader,) = find_best(rankings(alone([1.0, 2.0], 1.0), ())).leaders
    assert leader.first == pytest.approx(0.76, abs=0.1)
    assert leader.first + leader.next_first == pytest.approx(1.0)
    assert leader.sure == (leader.first >= SURE)


def test_exact_payoffs_are_sure_and_equal_ones_are_equal() -> None:
    assert opening(alone([1.0, 2.0], 0.0)) == "n1 is the best by Payoff: 2, for sure, as the payoffs are exact."
    assert opening(alone([2.0, 2.0, 1.0], 0.0)).startswith("n0 and n1 are the best, and equal, by Payoff: 2")
    assert opening(alone([2.0, 2.0], 0.0)) == "n0 and n1 are equal by Payoff: 2."
    assert "nobody to compare it with" in opening(alone([2.0], 0.1))


def test_matches_that_happened_to_end_alike_are_not_called_exact() -> None:
    table = np.array([[1.0, 2.0]])
    played = PayoffTensor(table, np.zeros_like(table), np.full(2, 4), (("n0", "n1"),), ("team",))
    assert not played.is_exact
    assert "for sure" not in opening(played)


def test_where_two_meet_the_stronger_one_is_best_and_a_cycle_has_no_best() -> None:
    beats = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert "strong is the best by" in opening(PayoffTensor.two_player(beats, ["strong", "weak"], np.full((2, 2), 0.01)))
    rps = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    text = opening(PayoffTensor.two_player(rps, ["rock", "paper", "scissors"], np.full((3, 3), 0.01)))
    assert text.startswith("Nobody is best: ")
    assert "is a cycle, in 100% of redrawn tables" in text
