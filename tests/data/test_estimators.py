"""Off-policy estimators against sums by hand, and against games whose value is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from benchmarks.estimators import repetition
from marl.errors import ConfigError
from marl.offline.estimators import ESTIMATORS, NOTHING, LoggedEpisodes, estimate, interval
from marl.offline.fitted_values import cross_fitted
from marl.registry import Registry

ALL = ("is", "wis", "dr")


def logged(ratios: list[list[float]], rewards: list[list[float]], gamma: float = 1.0) -> LoggedEpisodes:
    """Episodes by their ratios and rewards; a model of values sees a constant."""
    lengths = np.array([len(episode) for episode in ratios])
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate(ratios))
    ones = np.ones((int(lengths.sum()), 1))
    return LoggedEpisodes(lengths, logs, np.concatenate(rewards).astype(float), gamma, lambda: (ones, ones))


RATIOS = [[0.5, 2.0], [1.5], [2.0, 0.5, 3.0]]
REWARDS = [[1.0, 4.0], [2.0], [0.0, 1.0, 5.0]]


def test_importance_sampling_weighs_a_reward_by_the_decisions_up_to_it() -> None:
    gamma = 0.5
    by_hand = [0.5 * 1 + gamma * 1.0 * 4, 1.5 * 2, gamma * 1.0 * 1 + gamma**2 * 3.0 * 5]
    found = ESTIMATORS["is"](logged(RATIOS, REWARDS, gamma))
    assert found.tolist() == pytest.approx(by_hand)


def test_weighted_importance_sampling_divides_each_steps_rewards_by_its_weights() -> None:
    gamma = 0.5
    # Weights step by step; an episode that has ended keeps its last one.
    weights = np.array([[0.5, 1.5, 2.0], [1.0, 1.5, 1.0], [1.0, 1.5, 3.0]])
    rewards = np.array([[1.0, 2.0, 0.0], [4.0, 0.0, 1.0], [0.0, 0.0, 5.0]])
    by_hand = sum(gamma**t * (weights[t] @ rewards[t]) / weights[t].sum() for t in range(3))
    assert estimate("wis", logged(RATIOS, REWARDS, gamma)).value == pytest.approx(by_hand)


def test_the_interval_of_weighted_importance_sampling_is_as_wide_as_its_spread_over_recordings() -> None:
    values, halves = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 300
        ratios, rewards = [], []
        for _ in range(n):
            drawn = rng.choice([0.4, 1.6], 2)
            ratios.append(drawn.tolist())
            rewards.append((drawn + rng.standard_normal(2)).tolist())
        found = estimate("wis", logged(ratios, rewards))
        assert found.value is not None
        assert found.high is not None
        values.append(found.value)
        halves.append(found.high - found.value)
    assert np.mean(halves) == pytest.approx(1.96 * np.std(values), rel=0.15)


def test_doubly_robust_is_importance_sampling_of_what_the_model_does_not_know() -> None:
    episodes = logged(RATIOS, REWARDS, 0.5)
    q, v = cross_fitted(episodes)
    by_hand, at = [], 0
    for ratios, rewards in zip(RATIOS, REWARDS, strict=True):
        total, weight = 0.0, 1.0
        for t, (ratio, reward) in enumerate(zip(ratios, rewards, strict=True)):
            total += 0.5**t * (weight * v[at] + weight * ratio * (reward - q[at]))
            weight, at = weight * ratio, at + 1
        by_hand.append(total)
    assert np.abs(v).max() > 0.1
    assert ESTIMATORS["dr"](episodes).tolist() == pytest.approx(by_hand)


def test_a_model_that_sees_everything_leaves_no_doubt() -> None:
    """Two arms that always pay the same: only how often each was drawn is luck, and the model takes it away."""
    rng = np.random.default_rng(0)
    arms, chances, wished = np.array([1.0, 5.0]), np.array([0.7, 0.3]), np.array([0.2, 0.8])
    drawn = rng.choice(2, 4_000, p=chances)
    taken, expected = np.eye(2)[drawn], np.tile(wished, (4_000, 1))
    episodes = LoggedEpisodes(
        np.ones(4_000, int), np.log(wished / chances)[drawn], arms[drawn], 1.0, lambda: (taken, expected)
    )
    sure, unsure = estimate("dr", episodes), estimate("is", episodes)
    assert sure.value == pytest.approx(wished @ arms, abs=0.01)
    assert sure.low is not None
    assert sure.high is not None
    assert unsure.low is not None
    assert unsure.high is not None
    assert sure.high - sure.low < 0.1 * (unsure.high - unsure.low)


def test_episodes_that_the_policy_would_never_play_tell_nothing_instead_of_zero() -> None:
    episodes = logged([[0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]])
    assert [estimate(name, episodes) for name in ALL] == [NOTHING] * 3
    assert episodes.effective == 0


def test_effective_episodes_are_all_for_equal_weights_and_one_for_a_single_heavy_one() -> None:
    assert logged([[1.0]] * 8, [[1.0]] * 8).effective == pytest.approx(8)
    assert logged([[1e9], *[[1.0]] * 7], [[1.0]] * 8).effective == pytest.approx(1)


def test_long_episodes_do_not_overflow() -> None:
    episodes = logged([[10.0] * 1_000, [0.1] * 1_000], [[1.0] * 1_000] * 2)
    for name in ALL:
        assert np.isfinite(estimate(name, episodes))[0]


def test_a_single_episode_has_a_value_and_no_interval() -> None:
    assert interval(np.array([3.0])) == (3.0, None, None)


def test_an_estimator_of_ones_own_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ESTIMATORS, "_items", dict(ESTIMATORS._items))
    monkeypatch.setattr(ESTIMATORS, "_added", set())
    assert isinstance(ESTIMATORS, Registry)
    marl.register_estimator("last", lambda episodes: episodes.rewards[episodes.last])
    assert estimate("last", logged(RATIOS, REWARDS)).value == pytest.approx((4 + 2 + 5) / 3)
    marl.register_estimator("wrong", lambda episodes: episodes.rewards)
    with pytest.raises(ConfigError, match=r"shape \(6,\); expected one number for each of the 3 episodes"):
        estimate("wrong", logged(RATIOS, REWARDS))


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (lambda episodes: 1 / 0, "failed: ZeroDivisionError: division by zero"),
        (lambda episodes: ["much"] * len(episodes), "failed: ValueError: could not convert"),
        (lambda episodes: np.full(len(episodes), np.nan), "NaN or infinity for some of the 3 episodes"),
    ],
)
def test_what_goes_wrong_in_an_estimator_of_ones_own_is_told_by_its_name(
    own: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ESTIMATORS, "_items", {**ESTIMATORS._items, "own": own})
    with pytest.raises(ConfigError, match=f"estimator 'own'.*{text}"):
        estimate("own", logged(RATIOS, REWARDS))


def test_in_a_known_bandit_the_truth_is_inside_of_95_in_at_least_90_of_100_recordings() -> None:
    """With the numbers alone; benchmarks/estimators.py does the same through files."""
    rng = np.random.default_rng(1)
    arms, chances, wished = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    inside: dict[str, int] = dict.fromkeys(ALL, 0)
    n = 10_000
    for _ in range(100):
        drawn = rng.choice(3, n, p=chances)
        paid = arms[drawn] + rng.standard_normal(n)
        tables: Any = (np.eye(3)[drawn], np.tile(wished, (n, 1)))
        episodes = LoggedEpisodes(
            np.ones(n, int), np.log(wished / chances)[drawn], paid, 1.0, lambda tables=tables: tables
        )
        for name in ALL:
            _, low, high = estimate(name, episodes)
            assert low is not None
            assert high is not None
            inside[name] += low <= wished @ arms <= high
    assert min(inside.values()) >= 90


@pytest.mark.parametrize("game", ["bandit", "two_step_game"])
def test_recorded_games_of_a_known_value_are_judged_right_through_files(tmp_path: Path, game: str) -> None:
    true, estimates = repetition(game, seed=7, episodes=2_000, folder=tmp_path)
    for value, low, high in estimates.values():
        assert value is not None
        assert low is not None
        assert high is not None
        # Four standard errors, so that luck does not decide; a ratio or a mapping that is wrong is further away.
        assert abs(value - true) < high - low
