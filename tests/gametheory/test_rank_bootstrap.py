"""Intervals and chances of ranks."""

import json
import math
from functools import partial

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.game import bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import alpha_rank, bootstrap, elo, nash_average, payoffs_from_results, responses
from marl.gametheory.rank.bootstrap import rank_shares

pytestmark = pytest.mark.slow


def two(margin: float, stderr: float) -> PayoffTensor:
    return PayoffTensor.two_player([[0, margin], [-margin, 0]], ["a", "b"], [[0, stderr], [stderr, 0]])


def test_the_chance_of_rank_one_is_the_chance_that_the_margin_is_positive() -> None:
    found = bootstrap(two(0.1, 0.2), elo, draws=1000)
    expected = 0.5 * (1 + math.erf(0.5 / math.sqrt(2)))  # P(N(0.1, 0.2) > 0) = 0.6915
    assert found.first == pytest.approx([expected, 1 - expected], abs=0.04)
    assert found.orders[0] == (("a", "b"), pytest.approx(expected, abs=0.04))
    assert found.ranks.sum(axis=1) == pytest.approx([1, 1])


def test_intervals_are_percentiles_of_the_scores() -> None:
    # The loser's Nash rating is minus its margin, N(-1, 0.1); the winner's is 0.
    found = bootstrap(two(1.0, 0.1), nash_average, draws=300, confidence=0.9)
    assert (found.low[1], found.high[1]) == pytest.approx((-1.1645, -0.8355), abs=0.04)
    assert found.table()[0] == ("a", 0.0, 0.0, 0.0)


def test_an_exact_table_has_no_doubt_and_ties_are_shared_out() -> None:
    payoffs = PayoffTensor.two_player([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], ["rock", "paper", "scissors"])
    found = bootstrap(payoffs, partial(alpha_rank, alpha=1.0), draws=50)
    assert found.draws == 1
    assert found.ranks == pytest.approx(np.full((3, 3), 1 / 3))
    assert found.low == pytest.approx(found.high)


def test_ranks_are_counted_within_each_population() -> None:
    shares = rank_shares(np.array([3.0, 1.0, 2.0, 9.0, 9.0]), np.array([0, 0, 0, 1, 1]))
    assert shares.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]]


def test_the_same_seed_gives_the_same_intervals_and_another_one_others() -> None:
    first, again, other = (bootstrap(two(0.1, 0.2), elo, 20, seed=seed) for seed in (3, 3, 4))
    assert first.low.tolist() == again.low.tolist() != other.low.tolist()


@pytest.mark.parametrize("method", [alpha_rank, nash_average, elo])
def test_every_method_ranks_measured_results_and_two_populations_and_writes_json(method: object) -> None:
    wins = np.array([[0, 20, 19], [1, 0, 12], [1, 8, 0]])
    measured = payoffs_from_results(wins, np.zeros((3, 3)), ["a", "b", "c"])
    roles = PayoffTensor.exact(bimatrix([[0.5, 0.1], [-0.2, 0.3]]))
    for payoffs, label in ((measured, "a"), (roles, "player_0: 0")):
        found = bootstrap(payoffs, method, draws=20)  # type: ignore[arg-type]
        assert len(found.table()) == len(found.names)
        assert found.names[0] == label
        assert (found.low <= found.high).all()
        assert json.loads(json.dumps(found.as_json()))["strategies"][0]["name"] == label
        assert json.loads(json.dumps(method(payoffs).as_json()))["scores"].keys() == set(found.names)  # type: ignore[operator]
    assert json.loads(json.dumps(responses(measured).as_json()))["sinks"] == [["a"]]


def test_no_draws_and_gaps_are_refused() -> None:
    with pytest.raises(ConfigError, match="draws is 0"):
        bootstrap(two(0.1, 0.2), elo, draws=0)
    with pytest.raises(ConfigError, match="rank by Elo"):
        bootstrap(PayoffTensor.two_player([[0, np.nan], [np.nan, 0]], ["a", "b"]), alpha_rank)


@pytest.mark.parametrize(
    ("key", "value"), [("alpha", -1.0), ("alpha", math.nan), ("population_size", 1), ("epsilon", 0.0)]
)
def test_alpha_rank_refuses_settings_without_meaning(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{key} is"):
        alpha_rank(two(0.1, 0.2), **{key: value})  # type: ignore[arg-type]
