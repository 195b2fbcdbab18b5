"""Aggregates, profiles and probabilities of improvement against figures of rliable 1.2.0, and its bootstrap by coverage.

The figures were made once by `rliable.library.get_interval_estimates` and `create_performance_profile` with 20,000 resamples.
The package itself is no dependency: it needs arch, which cannot be imported beside pandas 3.
"""

from __future__ import annotations

import numpy as np
import pytest

from marl.analysis.compare.statistics import interval, iqm
from marl.analysis.plot.estimates import AGGREGATES, band, better, drawn_again, pooled_iqm, profile
from marl.analysis.plot.points import aligned, smoothed

# [runs, envs]
A = np.array(
    [[0.864, 0.75, 0.885], [0.972, 0.891, 0.757], [0.255, 0.826, 0.479], [0.68, 0.382, 0.756], [0.739, 0.525, 0.718]]
)
B = np.array(
    [[0.972, 0.4, 0.649], [0.444, 0.936, 0.38], [0.921, 0.41, 0.496], [0.515, 0.337, 0.558], [0.423, 0.233, 0.245]]
)
SCORES = {"a": list(A.T), "b": list(B.T)}
# In rliable's order: median, IQM, mean, optimality gap.
ESTIMATES = {
    "a": [0.702, 0.7349999999999999, 0.6986, 0.3013999999999999],
    "b": [0.46560000000000007, 0.47500000000000003, 0.5279333333333334, 0.47206666666666675],
}
LOW = {"a": [0.5822, 0.6063, 0.5941, 0.2085], "b": [0.3798, 0.3967, 0.4273, 0.3587]}
HIGH = {"a": [0.8064, 0.8176, 0.7915, 0.4059], "b": [0.6590, 0.6422, 0.6413, 0.5727]}
PROFILES = {
    "a": [1.0, 1.0, 0.8666666666666667, 0.7333333333333333, 0.3333333333333333, 0.0],
    "b": [1.0, 1.0, 0.6666666666666666, 0.26666666666666666, 0.2, 0.0],
}
PROFILE_LOW = {"a": [1.0, 1.0, 0.6667, 0.5333, 0.1333, 0.0], "b": [1.0, 1.0, 0.4667, 0.0667, 0.0, 0.0]}
PROFILE_HIGH = {"a": [1.0, 1.0, 1.0, 0.9333, 0.6, 0.0], "b": [1.0, 1.0, 0.8667, 0.4667, 0.4, 0.0]}
RESAMPLES = 20_000
ONE_RUN = 1 / 15  # what one run more changes in a share of 15


@pytest.mark.parametrize("name", SCORES)
def test_the_aggregates_are_those_of_rliable(name: str) -> None:
    found = [float(estimate(SCORES[name])) for estimate in AGGREGATES.values()]
    assert found == pytest.approx(ESTIMATES[name], abs=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_the_intervals_of_aggregates_are_those_of_rliable(name: str) -> None:
    again = drawn_again(SCORES[name], RESAMPLES, np.random.default_rng(0))
    found = np.array([interval(estimate(again), 0.95) for estimate in AGGREGATES.values()])
    assert found[:, 0] == pytest.approx(LOW[name], abs=0.008)
    assert found[:, 1] == pytest.approx(HIGH[name], abs=0.008)


@pytest.mark.parametrize("name", SCORES)
def test_performance_profiles_and_their_intervals_are_those_of_rliable(name: str) -> None:
    thresholds = np.linspace(0, 1, 6)
    assert profile(SCORES[name], thresholds) == pytest.approx(PROFILES[name], abs=1e-12)
    again = drawn_again(SCORES[name], RESAMPLES, np.random.default_rng(0))
    low, high = interval(profile(again, thresholds), 0.95)
    assert low == pytest.approx(PROFILE_LOW[name], abs=ONE_RUN + 1e-3)
    assert high == pytest.approx(PROFILE_HIGH[name], abs=ONE_RUN + 1e-3)


def test_the_probability_of_improvement_is_that_of_rliable() -> None:
    assert better(SCORES["a"], SCORES["b"]) == pytest.approx(0.7133333333333334, abs=1e-12)
    rng = np.random.default_rng(0)
    low, high = interval(
        better(drawn_again(SCORES["a"], RESAMPLES, rng), drawn_again(SCORES["b"], RESAMPLES, rng)), 0.95
    )
    assert (low, high) == (pytest.approx(0.5067, abs=0.02), pytest.approx(0.8933, abs=0.02))


def test_the_bootstrap_draws_runs_of_each_env_by_themselves() -> None:
    envs = [np.array([1.0, 2.0]), np.array([10.0, 20.0, 30.0])]
    one, other = drawn_again(envs, 2_000, np.random.default_rng(0))
    assert (one.shape, other.shape) == ((2_000, 2), (2_000, 3))
    assert set(np.unique(one)) == {1.0, 2.0}
    assert set(np.unique(other)) == {10.0, 20.0, 30.0}
    # Drawn together, means of both envs would rise and fall together.
    assert abs(np.corrcoef(one.mean(axis=1), other.mean(axis=1))[0, 1]) < 0.1


def test_envs_with_different_numbers_of_runs_count_alike_in_a_profile() -> None:
    assert profile([np.array([1.0]), np.array([0.0, 0.0, 0.0])], np.array([0.5]))[0] == 0.5
    assert pooled_iqm([np.array([0.0]), np.array([1.0, 2.0, 100.0])]) == pytest.approx(1.5)


def test_the_band_of_a_curve_holds_the_same_runs_at_all_points() -> None:
    values = np.array([[1.0, 10, 100], [2, 20, 200], [4, 40, 400]])
    low, high = band(values, iqm, 500, 0.9, np.random.default_rng(3))
    assert low == pytest.approx(low[0] * np.array([1, 10, 100]))
    assert high == pytest.approx(high[0] * np.array([1, 10, 100]))
    assert 1 <= low[0] < 7 / 3 < high[0] <= 4


def test_smoothing_takes_the_newest_measurements_and_never_looks_ahead() -> None:
    line = [(10.0, 1.0), (20.0, 3.0), (30.0, 8.0), (40.0, 1.0)]
    assert smoothed(line, 1) == line
    assert smoothed(line, 2) == [(10.0, 1.0), (20.0, 2.0), (30.0, 5.5), (40.0, 4.5)]
    assert smoothed(line, 9)[-1] == (40.0, pytest.approx(13 / 4))


def test_a_line_ends_with_its_first_run_or_keeps_last_values() -> None:
    short, long = [(10.0, 1.0), (20.0, 2.0)], [(15.0, 5.0), (30.0, 6.0)]
    places, values = aligned([short, long], extend=False)
    assert places.tolist() == [15, 20]
    assert values.tolist() == [[1, 2], [5, 5]]
    places, values = aligned([short, long], extend=True)
    assert places.tolist() == [15, 20, 30]
    assert values.tolist() == [[1, 2, 2], [5, 5, 6]]


def test_what_is_above_one_does_not_make_up_for_what_is_below() -> None:
    assert AGGREGATES["optimality gap"]([np.array([0.5, 3.0])]) == pytest.approx(0.25)
