"""The page's solvers give the numbers of ``marl.gametheory``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.gametheory.tree.cfr import CFR
from marl.gametheory.tree.response import best_response, expected_values, gains
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.watch.tasks import tree as tasks
from tests.watch.javascript import RunJs, run_js

__all__ = ["run_js"]
CLOSE = 1e-9

EVALUATE = """
  const { compileTree, uniform } = await import("marl/solve/tree.js");
  const { evaluate, makeSolver } = await import("marl/solve/response.js");
  const { reachAndValues, reachOfSet } = await import("marl/solve/nodes.js");
  return data.map(({ game, strategy }) => {
    const tree = compileTree(game);
    const chosen = Float64Array.from(strategy);
    const found = evaluate(makeSolver(tree), chosen);
    const nodes = reachAndValues(tree, chosen);
    const sets = tree.members.map((_, set) => reachOfSet(tree, found.plans, set));
    return {
      values: [...found.values], gains: [...found.gains], nashConv: found.nashConv, best: [...found.isBest],
      regret: [...found.regret], choiceValue: [...found.choiceValue], rootValues: [...nodes.values.subarray(0, tree.P)],
      reach: [...nodes.reach], others: sets.map((set) => set.others), own: sets.map((set) => set.own),
      all: sets.map((set) => set.all), uniform: [...uniform(tree)],
    };
  });
"""


def opened(name: str, **config: Any) -> tuple[Tree, dict[str, Any]]:
    """A game as Python and as the page have it."""
    arguments = {"name": name} if not config else {"env": name, "env_config": config}
    told = tasks.game(arguments, lambda *_: None)
    return tasks._open(arguments).tree, told


def drawn(tree: Tree, rng: np.random.Generator) -> Behaviour:
    """A random strategy in which some actions are never taken, so that parts of the tree are not reached."""
    weights = rng.exponential(size=tree.num_choices) * (rng.random(tree.num_choices) > 0.3)
    weights[tree.sets.first_choice] += 1e-3
    return np.asarray(weights / np.add.reduceat(weights, tree.sets.first_choice)[tree.sets.owner])


def random_payoffs(seed: int, shape: tuple[int, ...], rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    payoffs = rng.normal(size=(len(shape), *shape)).round(3).tolist()
    return {"payoffs": payoffs, "repetitions": rounds, "observe": "last"}


def all_games() -> list[tuple[Tree, dict[str, Any]]]:
    found = [
        opened(name)
        for name in ("kuhn_poker", "kuhn_poker_3", "leduc_poker", "liars_dice_3", "goofspiel_3", "two_step_game")
    ]
    for seed, (shape, rounds) in enumerate([((2, 2), 3), ((3, 2), 2), ((2, 2, 2), 2), ((2, 3, 2, 2), 1)]):
        found.append(opened("matrix_game", **random_payoffs(seed, shape, rounds)))
    return found


def test_values_best_replies_and_nash_conv_are_those_of_python(run_js: RunJs) -> None:
    rng = np.random.default_rng(0)
    asked, expected = [], []
    for tree, game in all_games():
        for strategy in (tree.uniform(), drawn(tree, rng), drawn(tree, rng)):
            asked.append({"game": game, "strategy": strategy.tolist()})
            expected.append((tree, strategy))
    for found, (tree, strategy) in zip(run_js(EVALUATE, asked), expected, strict=True):
        assert found["values"] == pytest.approx(expected_values(tree, strategy), abs=CLOSE)
        assert found["gains"] == pytest.approx(gains(tree, strategy), abs=CLOSE)
        assert found["nashConv"] == pytest.approx(gains(tree, strategy).sum(), abs=CLOSE)
        assert found["rootValues"] == pytest.approx(expected_values(tree, strategy), abs=CLOSE)
        assert found["uniform"] == pytest.approx(tree.uniform(), abs=CLOSE)
        for player in range(tree.num_players):
            part = tree.choices(player)
            _, chosen = best_response(tree, strategy, player)
            # Rounding may break ties of actions that are equally good; what they earn is compared above.
            played = np.array(found["best"][part], float)
            assert expected_values(tree, tree.joined({player: played}, strategy))[player] == pytest.approx(
                expected_values(tree, tree.joined({player: chosen}, strategy))[player], abs=CLOSE
            )


def test_regrets_and_reach_are_those_of_python(run_js: RunJs) -> None:
    rng = np.random.default_rng(1)
    cases = [(tree, game, drawn(tree, rng)) for tree, game in all_games()]
    answers = run_js(EVALUATE, [{"game": game, "strategy": strategy.tolist()} for _, game, strategy in cases])
    for found, (tree, _, strategy) in zip(answers, cases, strict=True):
        plans = tree.form.plans(strategy)
        for player, form in enumerate(tree.form.players):
            expected = form.regrets(tree.form.counterfactual(player, plans), strategy[form.choices])
            assert found["regret"][form.choices] == pytest.approx(expected, abs=CLOSE)
        reach, others, own = by_hand(tree, strategy)
        assert found["reach"] == pytest.approx(reach, abs=CLOSE)
        assert found["others"] == pytest.approx(others, abs=CLOSE)
        assert found["own"] == pytest.approx(own, abs=CLOSE)
        assert found["all"] == pytest.approx(others * own, abs=CLOSE)


def by_hand(tree: Tree, strategy: Behaviour) -> tuple[Any, Any, Any]:
    """Reach of nodes; of information sets by all but their player, and by their player alone."""
    reach, apart = np.ones(len(tree)), np.ones((len(tree), tree.num_players + 1))
    for node in range(1, len(tree)):
        above = tree.parent[node]
        number = tree.infoset[above]
        step = tree.probability[node]
        if number >= 0:
            step = strategy[tree.sets.first_choice[number] + tree.branch[node]]
        reach[node], apart[node] = reach[above] * step, apart[above]
        apart[node, tree.player[above] if number >= 0 else -1] *= step
    others, own = np.zeros(len(tree.sets)), np.zeros(len(tree.sets))
    for node in np.flatnonzero(tree.infoset >= 0):
        number, player = tree.infoset[node], tree.player[node]
        others[number] += np.delete(apart[node], player).prod()
        own[number] = apart[node, player]
    return reach, others, own


CFR_PLUS = """
  const { compileTree } = await import("marl/solve/tree.js");
  const { evaluate, makeSolver } = await import("marl/solve/response.js");
  const { average, startCfr, step } = await import("marl/solve/cfr.js");
  return data.map(({ game, marks }) => {
    const tree = compileTree(game);
    const [cfr, solver] = [startCfr(tree), makeSolver(tree)];
    return marks.map((mark) => {
      while (cfr.iterations < mark) step(cfr);
      return evaluate(solver, average(cfr)).nashConv;
    });
  });
"""


def test_cfr_plus_in_the_page_falls_as_in_the_literature(run_js: RunJs) -> None:
    marks = [1, 10, 100]
    games = [opened(name) for name in ("kuhn_poker", "leduc_poker", "kuhn_poker_3", "liars_dice_3")]
    found = run_js(CFR_PLUS, [{"game": game, "marks": marks} for _, game in games])
    assert found[0] == pytest.approx([0.916667, 0.0653742, 0.00238881], abs=1e-6)
    assert found[1] == pytest.approx([4.747222, 1.220878, 0.0268320], abs=1e-6)
    for curve, (tree, _) in zip(found, games, strict=True):
        solver, expected = CFR(tree), []
        for mark in marks:
            solver.run(mark - solver.iterations)
            expected.append(solver.solved().nash_conv)
        assert curve == pytest.approx(expected, abs=1e-7)


def test_rounding_does_not_decide_between_actions_that_tie(run_js: RunJs) -> None:
    # Against equal shares every action earns 0.2, but sums of 0.1, 0.2 and 0.3 in another order differ by some 1e-17.
    table = [[0.1, 0.2, 0.3], [0.3, 0.1, 0.2], [0.2, 0.3, 0.1]]
    tree, game = opened("matrix_game", payoffs=[table, [list(row) for row in zip(*table, strict=True)]])
    (curve,) = run_js(CFR_PLUS, [{"game": game, "marks": [1, 5, 50]}])
    assert curve == pytest.approx([0.0] * 3, abs=1e-15)
    assert CFR(tree).run(50).solved().nash_conv == pytest.approx(0.0, abs=1e-15)


SLIDE = """
  const { compileTree, setProbability, uniform } = await import("marl/solve/tree.js");
  const tree = compileTree(data.game);
  const strategy = uniform(tree);
  for (const [choice, value] of data.moves) setProbability(tree, strategy, choice, value);
  return [...strategy];
"""


def test_a_moved_probability_leaves_distributions(run_js: RunJs) -> None:
    tree, game = opened("liars_dice_3")
    moves = [[0, 0.9], [1, 1.0], [2, 0.25], [0, 0.0], [3, 7.0], [3, 0.5], [40, -1.0]]
    found = np.array(run_js(SLIDE, {"game": game, "moves": moves}))
    tree.checked(found)
    assert found[3] == 0.5
    assert found[:6].sum() == pytest.approx(1.0)
