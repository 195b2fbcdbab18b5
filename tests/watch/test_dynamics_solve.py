"""Dynamics and equilibria of the page are those of ``marl.gametheory``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.gametheory.classics import NAMES, classic_game, random_game
from marl.gametheory.game import MatrixGame, Profile, bimatrix
from marl.gametheory.solve.dynamics import fictitious_play, regret_matching, replicator
from marl.gametheory.solve.enumerate import all_equilibria
from marl.gametheory.solve.qre import logit_qre
from marl.gametheory.strategic.motion import DYNAMICS
from marl.gametheory.strategic.populations import earnings
from tests.watch.javascript import RunJs, run_js

__all__ = ["run_js"]

PATHS = """
  const { advance, startAt } = await import("marl/solve/flow.js");
  return data.map(({ A, B, kind, start, steps, options, every }) => {
    const state = startAt({ A, B }, kind, start, options ?? {});
    const path = [{ time: state.time, point: state.point }];
    for (let k = 1; k <= steps; k++) {
      advance(state);
      if (k % every === 0) path.push({ time: state.time, point: state.point });
    }
    return path;
  });
"""


def tables(game: MatrixGame) -> dict[str, Any]:
    return {"A": game.payoffs[0].tolist(), "B": game.payoffs[1].tolist()}


def mixed(game: MatrixGame, seed: int) -> Profile:
    rng = np.random.default_rng(seed)
    return tuple(rng.dirichlet(np.ones(count)) for count in game.shape)


def test_replicator_trajectories_are_those_of_python(run_js: RunJs) -> None:
    games = [classic_game(name) for name in NAMES] + [random_game((3, 3), 0), random_game((2, 2), 1)]
    asked, expected = [], []
    for seed, game in enumerate(games):
        start = mixed(game, seed)
        found = replicator(game, start, duration=4.0, dt=0.02)
        steps = len(found.times) - 1
        every = max(1, steps // 8)
        dt = found.times[1] * max(1.0, game.scale)  # marl fits a whole number of steps into the duration
        given = {"start": [part.tolist() for part in start], "steps": steps, "every": every, "options": {"dt": dt}}
        asked.append({**tables(game), "kind": "replicator", **given})
        expected.append((found, every))
    for path, (found, every) in zip(run_js(PATHS, asked), expected, strict=True):
        for place, shown in enumerate(path):
            k = place * every
            assert shown["time"] == pytest.approx(found.times[k])
            for player, shares in enumerate(shown["point"]):
                assert shares == pytest.approx(found.path[player][k], abs=1e-8)


def test_the_prisoners_dilemma_ends_where_the_literature_says(run_js: RunJs) -> None:
    start = [[0.9, 0.1], [0.9, 0.1]]
    game = classic_game("prisoners_dilemma")
    asked = {**tables(game), "kind": "replicator", "start": start, "steps": 500, "every": 500}
    (path,) = run_js(PATHS, [asked])
    assert path[-1]["time"] == pytest.approx(1.0)
    assert path[-1]["point"][0][0] == pytest.approx(0.60487, abs=1e-5)


def test_orbits_of_rock_paper_scissors_are_closed(run_js: RunJs) -> None:
    start = [0.6, 0.3, 0.1]
    game = classic_game("rock_paper_scissors")
    asked = {**tables(game), "kind": "replicator", "start": [start, start], "steps": 6000, "every": 50}
    (path,) = run_js(PATHS, [asked])
    products = [float(np.prod(shown["point"][0])) for shown in path]
    assert products == pytest.approx([0.018] * len(path), rel=1e-7)
    # It goes around: each action is the most played one at some time.
    most = {int(np.argmax(shown["point"][0])) for shown in path}
    assert most == {0, 1, 2}


def test_fictitious_play_and_regret_matching_are_those_of_python(run_js: RunJs) -> None:
    asked, expected = [], []
    for name in ("matching_pennies", "rock_paper_scissors", "shapley", "stag_hunt"):
        game = classic_game(name)
        first = [np.eye(count)[0] for count in game.shape]
        played = fictitious_play(game, 60, beliefs="counts").path
        averages = [np.cumsum(part, axis=0) / np.arange(1, 61)[:, None] for part in played]
        asked.append({**tables(game), "kind": "fictitious", "start": [part.tolist() for part in first]})
        expected.append(averages)
        start = mixed(game, 3)
        asked.append({**tables(game), "kind": "regret", "start": [part.tolist() for part in start]})
        expected.append(list(regret_matching(game, 60, start=start).path))
    for one in asked:
        one.update(steps=59, every=1)
    for path, truth in zip(run_js(PATHS, asked), expected, strict=True):
        for player in (0, 1):
            found = np.array([shown["point"][player] for shown in path])
            np.testing.assert_allclose(found, truth[player], atol=1e-6)


def test_best_response_trajectories_are_those_of_python(run_js: RunJs) -> None:
    motion = DYNAMICS["best_response"]
    games = [classic_game(name) for name in ("stag_hunt", "battle_of_the_sexes", "prisoners_dilemma", "shapley")]
    asked, expected = [], []
    for seed, game in enumerate(games):
        start = mixed(game, seed)
        place = tuple(part[None] for part in start)
        for _ in range(2000):
            place = motion.step(earnings(game, 2), place, 0.001)
        expected.append(place)
        options = {"dt": 0.001 * max(1.0, game.scale)}
        given = {"start": [part.tolist() for part in start], "steps": 2000, "every": 2000, "options": options}
        asked.append({**tables(game), "kind": "best_response", **given})
    for path, truth in zip(run_js(PATHS, asked), expected, strict=True):
        for player in (0, 1):
            # The page finds changes of the best reply only at the ends of its steps.
            assert path[-1]["point"][player] == pytest.approx(truth[player][0], abs=0.02)


ARROWS = """
  const { direction, startAt, advance } = await import("marl/solve/flow.js");
  return data.map(({ A, B, kind, start }) => {
    const state = startAt({ A, B }, kind, start, { dt: 1e-5 });
    const [from, time] = [state.point, state.time];
    advance(state);
    // Fictitious play moves by 1 / (t + 1) of the way to the best reply.
    const size = kind === "fictitious" ? 1 / (time + 1) : state.size;
    const moved = state.point.map((part, k) => part.map((share, i) => (share - from[k][i]) / size));
    return { moved: moved.flat(), arrow: direction({ A, B }, kind, start).flat() };
  });
"""


def test_arrows_point_where_play_goes(run_js: RunJs) -> None:
    asked = []
    for seed, size in enumerate((2, 3, 2, 3)):
        game = random_game((size, size), seed)
        for kind in ("replicator", "best_response", "logit", "fictitious"):
            start = [part.tolist() for part in mixed(game, seed)]
            asked.append({**tables(game), "kind": kind, "start": start})
    for found in run_js(ARROWS, asked):
        assert max(map(abs, found["arrow"])) > 1e-3
        assert found["arrow"] == pytest.approx(found["moved"], abs=1e-4)


def test_logit_dynamics_rest_in_a_quantal_response_equilibrium(run_js: RunJs) -> None:
    game = bimatrix([[2.0, 0.0], [0.0, 1.0]], [[-1.0, 0.5], [1.0, 0.0]])
    truth = logit_qre(game, rationality=2.0).profile
    asked = {**tables(game), "kind": "logit", "start": [[0.5, 0.5], [0.5, 0.5]], "steps": 8000, "every": 8000}
    (path,) = run_js(PATHS, [{**asked, "options": {"rationality": 2.0}}])
    for player in (0, 1):
        assert path[-1]["point"][player] == pytest.approx(truth[player], abs=1e-6)


EQUILIBRIA = """
  const { equilibria, isSymmetric, nashConv } = await import("marl/solve/matrix.js");
  return data.map((game) => {
    const { found, degenerate } = equilibria(game);
    return { found: found.map(({ x, y }) => [...x, ...y]), degenerate, symmetric: isSymmetric(game),
      worst: Math.max(...found.map(({ x, y }) => nashConv(game, x, y))) };
  });
"""


def test_equilibria_are_those_of_python(run_js: RunJs) -> None:
    games = [classic_game(name) for name in NAMES]
    games += [random_game((size, size), seed, symmetric=seed % 2 == 0) for seed in range(20) for size in (2, 3)]
    games += [bimatrix([[1, 1], [1, 1]], [[1, 0], [0, 1]]), bimatrix([[1, 0], [1, 0]], [[0, 0], [0, 0]])]
    found = run_js(EQUILIBRIA, [tables(game) for game in games])
    for game, shown in zip(games, found, strict=True):
        truth = all_equilibria(game)
        expected = sorted(np.concatenate(one.profile).round(7).tolist() for one in truth)
        assert sorted(np.round(shown["found"], 7).tolist()) == pytest.approx(np.array(expected), abs=1e-6), game.name
        assert shown["degenerate"] == truth.degenerate, game.name
        assert shown["symmetric"] == game.is_symmetric
        assert shown["worst"] < 1e-8


EIGENVALUES = """
  const { replicatorEigenvalues, stability } = await import("marl/solve/stability.js");
  return data.map(({ A, B, point, single }) => {
    const found = replicatorEigenvalues({ A, B }, point, single);
    return { found: found.map(({ re, im }) => [re, im]), kind: stability(found).kind, words: stability(found).words };
  });
"""


def numeric_eigenvalues(game: MatrixGame, point: list[list[float]], single: bool) -> Any:
    """Of the direction field by finite differences, in all shares but the last of each player."""
    sizes = [len(part) for part in point]

    def whole(free: Any) -> list[Any]:
        if single:
            x = np.append(free, 1 - free.sum())
            return [x, x]
        x, y = free[: sizes[0] - 1], free[sizes[0] - 1 :]
        return [np.append(x, 1 - x.sum()), np.append(y, 1 - y.sum())]

    def field(free: Any) -> Any:
        profile = whole(free)
        slopes = []
        for player in range(1 if single else 2):
            paid = game.deviations(tuple(profile), player)
            slopes.append((profile[player] * (paid - profile[player] @ paid))[:-1])
        return np.concatenate(slopes)

    at = np.array(point[0][:-1] if single else [*point[0][:-1], *point[1][:-1]])
    steps = np.eye(len(at)) * 1e-5
    matrix = np.array([(field(at + step) - field(at - step)) / 2e-5 for step in steps]).T
    return np.linalg.eigvals(matrix)


def test_eigenvalues_are_those_of_the_field(run_js: RunJs) -> None:
    asked, expected = [], []
    for seed in range(6):
        game = random_game((3, 3), seed) if seed % 2 else random_game((2, 2), seed)
        for one in list(all_equilibria(game))[:3]:
            point = [part.tolist() for part in one.profile]
            asked.append({**tables(game), "point": point, "single": False})
            expected.append(numeric_eigenvalues(game, point, False))
    for seed in range(4):
        game = random_game((3, 3), seed, symmetric=True)
        x = np.random.default_rng(seed).dirichlet(np.ones(3)).tolist()
        asked.append({**tables(game), "point": [x, x], "single": True})
        expected.append(numeric_eigenvalues(game, [x, x], True))
    for shown, truth in zip(run_js(EIGENVALUES, asked), expected, strict=True):
        found = np.sort_complex(np.array([complex(*one) for one in shown["found"]]).round(6))
        np.testing.assert_allclose(found.real, np.sort_complex(truth.round(6)).real, atol=1e-4)
        np.testing.assert_allclose(np.sort(np.abs(found.imag)), np.sort(np.abs(truth.imag)), atol=1e-4)


def test_stability_in_words(run_js: RunJs) -> None:
    third = [1 / 3] * 3
    cases = [
        ("prisoners_dilemma", [[0.0, 1.0], [0.0, 1.0]], False, "stable"),
        ("stag_hunt", [[0.5, 0.5], [0.5, 0.5]], False, "saddle"),
        ("matching_pennies", [[0.5, 0.5], [0.5, 0.5]], False, "centre"),
        ("rock_paper_scissors", [third, third], True, "centre"),
    ]
    asked = [{**tables(classic_game(name)), "point": point, "single": single} for name, point, single, _ in cases]
    winning_pays_more = [[0, -1, 2], [2, 0, -1], [-1, 2, 0]]
    losing_costs_more = [[0, -2, 1], [1, 0, -2], [-2, 1, 0]]
    for table in (winning_pays_more, losing_costs_more):
        asked.append({"A": table, "B": np.transpose(table).tolist(), "point": [third, third], "single": True})
    words = [shown["words"] for shown in run_js(EIGENVALUES, asked)]
    for (*_, expected), told in zip(cases, words, strict=False):
        assert expected in told
    assert words[-2].startswith("stable: play nearby spirals into")
    assert words[-1].startswith("unstable: play nearby spirals away")


def test_equal_eigenvalues_are_no_spirals(run_js: RunJs) -> None:
    coordination = {"A": (3 * np.eye(3)).tolist(), "B": (3 * np.eye(3)).tolist()}
    shifted = (np.roll(np.eye(3), 1, axis=1) - np.eye(3)).tolist()  # zero-sum, and not symmetric
    pennies = {"A": shifted, "B": (-np.array(shifted)).tolist()}
    corner, middle = [1.0, 0.0, 0.0], [1 / 3] * 3
    asked = [
        {**coordination, "point": [corner, corner], "single": False},
        {**coordination, "point": [middle, middle], "single": False},
        {**pennies, "point": [middle, middle], "single": False},
    ]
    pure, mixed_one, centre = run_js(EIGENVALUES, asked)
    assert pure["found"] == [[-3, 0]] * 4
    assert pure["words"] == "stable: play nearby comes back to it"
    assert sorted(re for re, _ in mixed_one["found"]) == pytest.approx([-1, -1, 1, 1])
    assert [im for _, im in mixed_one["found"]] == pytest.approx([0] * 4)
    assert sorted(im for _, im in centre["found"]) == pytest.approx([-(3**-0.5)] * 2 + [3**-0.5] * 2)
    assert centre["words"].startswith("a centre")
