"""Fictitious play, regret matching and replicator dynamics against slow loops and known limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from marl.errors import ConfigError
from marl.gametheory.classics import classic_game, random_game
from marl.gametheory.game import Profile, bimatrix
from marl.gametheory.solve import deviation_gains, fictitious_play, projected_replicator, regret_matching, replicator
from marl.gametheory.solve.dynamics import project

PENNIES = classic_game("matching_pennies")
RPS = classic_game("rock_paper_scissors")


def test_the_first_rounds_of_fictitious_play_in_matching_pennies_are_those_worked_out_by_hand() -> None:
    # (H, H); the column player leaves for T; then (H, H)+(H, T) ties for the row player: lowest index, H; and so on.
    run = fictitious_play(PENNIES, 6, beliefs="counts")
    assert run.path[0].argmax(1).tolist() == [0, 0, 0, 1, 1, 1]
    assert run.path[1].argmax(1).tolist() == [0, 1, 1, 1, 1, 1]
    # After 6 rounds: row (3, 3), column (1, 5): the row player could gain 4/6 by T, the column player nothing.
    assert run.curve[-1] == pytest.approx(4 / 6)
    assert run.nash_conv == pytest.approx(4 / 6)


def test_exact_ties_in_rock_paper_scissors_slow_fictitious_play_down() -> None:
    run = fictitious_play(RPS, 1_000, beliefs="counts")
    assert run.curve[[9, 99, 999]] == pytest.approx([0.4, 0.14, 0.042])


def test_fictitious_play_of_three_players_records_the_nash_conv_of_past_play() -> None:
    game = random_game((2, 3, 2), np.random.default_rng(0))
    for beliefs in ("frequencies", "counts"):
        run = fictitious_play(game, 50, beliefs=beliefs)  # type: ignore[arg-type]
        for t in (1, 7, 50):
            average = tuple(path[:t].mean(0) for path in run.path)
            assert run.curve[t - 1] == pytest.approx(game.nash_conv(average), abs=1e-12)
            if t < 50:
                replies = [int(game.deviations(average, i).argmax()) for i in range(3)]
                assert [int(path[t].argmax()) for path in run.path] == replies


def test_regret_matching_follows_a_slow_loop() -> None:
    rng = np.random.default_rng(1)
    game = random_game((3, 4), rng)
    first = (rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4)))
    for plus in (False, True):
        run = regret_matching(game, 40, plus=plus, start=first)
        regrets = [[0.0] * 3, [0.0] * 4]
        played: list[list[np.ndarray]] = [[], []]
        for _ in range(40):
            now = []
            for i in range(2):
                positive = [max(r, 0.0) for r in regrets[i]]
                now.append(np.array(positive) / sum(positive) if sum(positive) else first[i])
                played[i].append(now[i])
            for i, table in enumerate((game.payoffs[0], game.payoffs[1].T)):
                earned = table @ now[1 - i]
                for a in range(len(earned)):
                    regrets[i][a] += float(earned[a] - now[i] @ earned)
                    regrets[i][a] = max(regrets[i][a], 0.0) if plus else regrets[i][a]
        weights = np.arange(1, 41) if plus else np.ones(40)
        for i in range(2):
            assert run.path[i] == pytest.approx(np.array(played[i]))
            assert run.profile[i] == pytest.approx(np.average(played[i], axis=0, weights=weights))
        joint = np.einsum("t,ta,tb->ab", weights / weights.sum(), *run.path)
        assert run.regret == pytest.approx(max(signed_regrets(game.payoffs, joint)))


def signed_regrets(payoffs: np.ndarray, joint: np.ndarray) -> list[float]:
    row = (payoffs[0] @ joint.sum(0) - (payoffs[0] * joint).sum()).max()
    column = (joint.sum(1) @ payoffs[1] - (payoffs[1] * joint).sum()).max()
    return [float(row), float(column)]


def test_play_over_time_of_regret_matching_is_a_coarse_correlated_equilibrium_where_strategies_do_not_settle() -> None:
    start = (np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    game = classic_game("shapley")
    run = regret_matching(game, 3_000, start=start)
    joint = np.einsum("ta,tb->ab", *run.path) / 3_000
    assert run.regret < 0.02
    assert deviation_gains(game, joint, coarse=True).max() == pytest.approx(max(run.regret, 0.0), abs=1e-9)


@pytest.mark.parametrize("plus", [False, True])
def test_regret_matching_solves_zero_sum_games(plus: bool) -> None:
    game = random_game((6, 5), np.random.default_rng(2), zero_sum=True)
    run = regret_matching(game, 2_000, plus=plus)
    assert run.nash_conv < 0.06
    assert run.curve[-1] == pytest.approx(run.nash_conv)
    assert run.nash_conv <= 2 * run.regret + 1e-9  # the theorem: NashConv is at most the sum of both regrets


def test_replicator_dynamics_agree_with_a_general_purpose_integrator() -> None:
    rng = np.random.default_rng(3)
    game = random_game((3, 2, 2), rng)
    start = tuple(rng.dirichlet(np.ones(n)) for n in game.shape)

    def slope(_: float, x: np.ndarray) -> np.ndarray:
        profile = tuple(np.split(x, [3, 5]))
        earned = [game.deviations(profile, i) for i in range(3)]
        return np.concatenate([p * (u - p @ u) for p, u in zip(profile, earned, strict=True)])

    slow = solve_ivp(slope, (0, 3), np.concatenate(start), rtol=1e-11, atol=1e-12)
    run = replicator(game, start, duration=3.0)
    assert np.concatenate(run.profile) == pytest.approx(slow.y[:, -1], abs=1e-8)
    assert run.curve[0] == pytest.approx(game.nash_conv(start))
    assert run.curve[-1] == pytest.approx(run.nash_conv)


def test_what_is_extinct_stays_extinct() -> None:
    start = (np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.5, 0.0]))
    run = replicator(RPS, start, duration=20.0)
    assert run.profile[0][2] == 0.0
    assert run.profile[0][1] > 0.999  # without scissors paper wins


def test_projected_replicator_keeps_every_action_alive_and_averages_towards_the_equilibrium() -> None:
    game = random_game((5, 5), np.random.default_rng(4), zero_sum=True)
    run = projected_replicator(game, floor=1e-3)
    assert min(path.min() for path in run.path) >= 1e-3 - 1e-12
    assert run.nash_conv < 0.1 < run.curve[0]
    assert run.profile[0] == pytest.approx(run.path[0].mean(0))


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_projected_replicator_follows_a_slow_loop(scale: float) -> None:
    # Euler steps of dt / max(1, largest payoff); rows of a game whose payoffs differ by the scale.
    game = bimatrix(np.array([[1.0, -0.5], [0.0, 0.75]]) * scale, np.array([[-0.25, 1.0], [0.5, 0.0]]) * scale)
    x, y = np.array([0.7, 0.3]), np.array([0.2, 0.8])
    run = projected_replicator(game, 5, dt=0.3, floor=0.05, start=(x, y))
    seen = []
    for _ in range(5):
        u, v = game.payoffs[0] @ y, x @ game.payoffs[1]
        step = 0.3 / max(1.0, scale)
        x, y = (project(p + step * p * (w - p @ w), 0.05) for p, w in ((x, u), (y, v)))
        seen.append((x, y))
    assert run.path[0] == pytest.approx(np.array([x for x, _ in seen]))
    assert run.path[1] == pytest.approx(np.array([y for _, y in seen]))
    assert run.profile[0] == pytest.approx(np.mean([x for x, _ in seen], axis=0))
    assert run.times.tolist() == [1, 2, 3, 4, 5]
    averages = [tuple(np.mean([play[i] for play in seen[:t]], axis=0) for i in (0, 1)) for t in range(1, 6)]
    assert run.curve == pytest.approx([game.nash_conv(average) for average in averages])


@pytest.mark.parametrize(("scale", "steps"), [(0.5, 20), (1.0, 20), (4.0, 80)])
def test_replicator_steps_are_shorter_where_payoffs_are_larger_than_one(scale: float, steps: int) -> None:
    game = bimatrix(np.array([[1.0, 0.0], [0.0, 1.0]]) * scale)
    run = replicator(game, (np.array([0.6, 0.4]), np.array([0.3, 0.7])), duration=2.0, dt=0.1)
    assert run.iterations == steps
    assert run.times == pytest.approx(np.linspace(0, 2, steps + 1))
    assert len(run.path[0]) == steps + 1


def test_projection_lands_on_the_nearest_distribution_above_the_floor() -> None:
    assert project(np.array([0.5, 0.5, 0.5])) == pytest.approx([1 / 3] * 3)
    assert project(np.array([2.0, 0.0])) == pytest.approx([1.0, 0.0])
    assert project(np.array([0.9, 0.2, -0.1]), 0.1) == pytest.approx([0.8, 0.1, 0.1])
    rng = np.random.default_rng(5)
    for _ in range(20):
        point, others = rng.standard_normal(4), 0.05 + 0.8 * rng.dirichlet(np.ones(4), 500)
        nearest = project(point, 0.05)
        assert nearest.sum() == pytest.approx(1.0)
        assert nearest.min() >= 0.05 - 1e-12
        assert np.linalg.norm(others - point, axis=1).min() >= np.linalg.norm(nearest - point) - 1e-12


def test_projection_with_a_floor_that_leaves_no_room_is_uniform() -> None:
    assert project(np.array([0.7, 0.2, 0.1, 0.0]), 0.25) == pytest.approx([0.25] * 4)


def test_bad_input_is_refused_before_anything_is_played() -> None:
    start: Profile = (np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    with pytest.raises(ConfigError, match="iterations is 0"):
        fictitious_play(PENNIES, 0)
    with pytest.raises(ConfigError, match="beliefs are 'exact'"):
        fictitious_play(PENNIES, 5, beliefs="exact")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="iterations is -1"):
        regret_matching(PENNIES, -1)
    with pytest.raises(ConfigError, match="dt is 0"):
        replicator(PENNIES, start, dt=0.0)
    with pytest.raises(ConfigError, match="duration is nan"):
        replicator(PENNIES, start, duration=float("nan"))
    with pytest.raises(ConfigError, match="not a distribution"):
        replicator(PENNIES, (np.array([0.9, 0.9]), np.array([0.5, 0.5])))
    with pytest.raises(ConfigError, match=r"floor is 0\.6"):
        projected_replicator(PENNIES, floor=0.6)
