"""Reports on envs where there is nobody to beat, and on payoffs that decide nothing."""

from __future__ import annotations

import numpy as np

from marl.analysis.report.equilibria import empirical_equilibria
from marl.analysis.report.ranking import ranking_section, rankings
from marl.gametheory.payoffs import PayoffTensor


def tensor(mean: list[float], stderr: float) -> PayoffTensor:
    table = np.array([mean])
    return PayoffTensor(table, np.full(table.shape, stderr), np.full(len(mean), 50), (("old", "new"),), ("team",))


def test_a_single_player_s_entrants_are_ranked_by_what_they_earn() -> None:
    found = rankings(tensor([5.4, 8.0], 0.1), ())
    assert list(found.scores) == ["payoff"]
    assert found.refused == {}
    assert dict(zip(found.scores["payoff"].names, found.scores["payoff"].scores, strict=True)) == {
        "old": 5.4,
        "new": 8.0,
    }
    assert found.scores["payoff"].first.tolist() == [0.0, 1.0]
    assert empirical_equilibria(tensor([5.4, 8.0], 0.1)).note == "One player: the best choice is new."


def test_where_nothing_is_decided_nothing_is_said_to_be_best() -> None:
    even = PayoffTensor.two_player(np.zeros((2, 2)), ["a", "b"], np.full((2, 2), 0.1))
    text = "\n".join(str(block) for block in ranking_section(rankings(even, ())).blocks)
    assert "no difference is clearer than 2 standard errors" in text
    assert "Better replies end in" not in text
