"""Values, best responses and solvers, against slow walks over the tree."""

from __future__ import annotations

from functools import cache
from math import inf

import numpy as np
import pytest

from marl.errors import ConfigError, UnknownNameError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import CFR, Discount, cfr
from marl.gametheory.tree.psro import exact_psro
from marl.gametheory.tree.response import best_response, expected_values, gains, nash_conv
from marl.gametheory.tree.sampling import SampledCFR, sampled_cfr
from marl.gametheory.tree.tree import Tree
from marl.gametheory.tree.value import equilibrium

from .trees import Guess, best_by_enumeration, play_through, pure_strategies, random_strategy

ENVS = {
    "kuhn": ("kuhn_poker", {}),
    "three": ("matrix_game", {"payoffs": np.random.default_rng(0).normal(size=(3, 2, 3, 2)).tolist()}),
    "repeated": ("matrix_game", {"game": "chicken", "repetitions": 2}),
    "two_step": ("two_step_game", {}),
    "guess": (Guess, {}),
}


@cache
def tree_of(name: str) -> Tree:
    env, config = ENVS[name]
    return build_tree(env, config)


@pytest.mark.parametrize("name", ENVS)
def test_values_equal_a_walk_over_the_whole_tree(name: str) -> None:
    tree = tree_of(name)
    strategy = random_strategy(tree, 1)
    assert expected_values(tree, strategy) == pytest.approx(play_through(tree, strategy), abs=1e-12)


@pytest.mark.parametrize("name", ENVS)
def test_best_response_is_the_best_of_all_pure_strategies(name: str) -> None:
    tree = tree_of(name)
    strategy = random_strategy(tree, 2)
    for player in range(tree.num_players):
        value, reply = best_response(tree, strategy, player)
        assert value == pytest.approx(best_by_enumeration(tree, strategy, player), abs=1e-12)
        played = play_through(tree, tree.joined({player: reply}, strategy))[player]
        assert played == pytest.approx(value, abs=1e-12)
        assert gains(tree, strategy)[player] == pytest.approx(value - play_through(tree, strategy)[player], abs=1e-12)


def test_plan_and_behaviour_are_inverse_where_the_plan_leads() -> None:
    tree = tree_of("kuhn")
    strategy = random_strategy(tree, 3)
    assert tree.form.behaviour(tree.form.plans(strategy)) == pytest.approx(strategy)
    pure = tree.first_action()  # after passing, betting sets are not reached by the player's own bets
    back = tree.form.behaviour(tree.form.plans(pure))
    assert expected_values(tree, back) == pytest.approx(expected_values(tree, pure))


def test_regrets_are_what_single_choices_would_have_earned_more() -> None:
    # Slow: walk the tree for each choice at each set; weight by the reach of all others.
    tree = tree_of("kuhn")
    strategy = random_strategy(tree, 4)
    form, plans = tree.form, tree.form.plans(strategy)
    for player, mine in enumerate(form.players):
        found = mine.regrets(form.counterfactual(player, plans), strategy[mine.choices])
        for infoset in range(*tree.infosets(player).indices(len(tree.sets))):
            nodes = np.flatnonzero(tree.infoset == infoset)
            reach = [others_reach(tree, strategy, player, node) for node in nodes]
            worth = [
                sum(
                    r * play_through(tree, strategy, tree.first_child[n] + a)[player]
                    for r, n in zip(reach, nodes, strict=True)
                )
                for a in range(tree.sets.num_actions[infoset])
            ]
            at = tree.sets.first_choice[infoset]
            here = strategy[at : at + len(worth)]
            slow = np.array(worth) - here @ np.array(worth)
            assert found[at - mine.choices.start :][: len(worth)] == pytest.approx(slow, abs=1e-12)


def others_reach(tree: Tree, strategy: np.ndarray, player: int, node: int) -> float:
    reach = 1.0
    while tree.parent[node] >= 0:
        above = tree.parent[node]
        reach *= tree.probability[node]
        if tree.player[above] not in (player, -1):
            reach *= strategy[tree.sets.first_choice[tree.infoset[above]] + tree.branch[node]]
        node = above
    return float(reach)


def test_cfr_finds_matching_pennies_and_the_two_step_optimum() -> None:
    pennies = build_tree("matrix_game", {"game": "matching_pennies"})
    assert cfr(pennies, 500).strategy == pytest.approx([0.5] * 4, abs=0.02)
    answer = cfr(tree_of("two_step"), 200)
    assert answer.nash_conv == pytest.approx(0.0, abs=0.05)


def test_cfr_run_in_two_parts_equals_one_run() -> None:
    whole, parts = CFR(tree_of("kuhn"), "dcfr").run(30), CFR(tree_of("kuhn"), "dcfr").run(10).run(20)
    assert (whole.average() == parts.average()).all()


def test_discount_with_infinite_exponents_is_plain_cfr() -> None:
    plain = cfr(tree_of("kuhn"), 20, "cfr").nash_conv
    assert cfr(tree_of("kuhn"), 20, Discount()).nash_conv == plain
    assert cfr(tree_of("kuhn"), 20, Discount(alpha=50.0, beta=50.0)).nash_conv != plain  # 1 / 2 at t = 1
    # 20 to this power is no float any more; 1 less is as good.
    huge = cfr(tree_of("kuhn"), 20, Discount(alpha=2000.0, beta=2000.0)).nash_conv
    assert huge == cfr(tree_of("kuhn"), 20, Discount(alpha=200.0, beta=200.0)).nash_conv
    with pytest.raises(ConfigError, match="gamma 200"):
        Discount(gamma=200.0)


def kept(t: int, exponent: float) -> float:
    return {inf: 1.0, -inf: 0.0}[exponent] if abs(exponent) == inf else t**exponent / (t**exponent + 1)


@pytest.mark.parametrize(
    "discount",
    [
        Discount(),
        Discount(inf, 0.5),
        Discount(1.5, inf),
        Discount(inf, -inf, 1.0),
        Discount(1.5, 0.0, 2.0),
        Discount(-inf, inf),
        Discount(1.0, 1.0, 1.0),
        Discount(1.5, -inf, 4.0),
        Discount(inf, -inf, 2.0, predictive=True),
        Discount(2.3, -inf, 5.0, predictive=True),
        Discount(1.5, 0.5, 2.0, predictive=True),
    ],
    ids=str,
)
def test_every_discount_follows_a_slow_loop_over_a_table(discount: Discount) -> None:
    tables = np.array([[[1.0, -2.0, 0.5], [0.0, 1.0, -1.0]], [[0.25, 1.0, -1.0], [1.0, -0.5, 0.0]]])
    solver = CFR(build_tree("matrix_game", {"payoffs": tables.tolist()}), discount).run(7)
    plays, regrets, sums = [np.full(n, 1 / n) for n in (2, 3)], [np.zeros(2), np.zeros(3)], [np.zeros(2), np.zeros(3)]
    for t in range(1, 8):
        for i in (0, 1):
            sums[i] += t**discount.gamma * plays[i]
            earned = tables[0] @ plays[1] if i == 0 else plays[0] @ tables[1]
            now = earned - plays[i] @ earned
            regrets[i] += now
            for a, regret in enumerate(regrets[i]):
                exponent = discount.alpha if regret > 0 else discount.beta
                regrets[i][a] *= kept(t, exponent)
            positive = np.maximum(regrets[i] + now * discount.predictive, 0)
            plays[i] = positive / positive.sum() if positive.sum() > 0 else np.full(len(positive), 1 / len(positive))
    assert solver.current() == pytest.approx(np.concatenate(plays))
    assert solver.average() == pytest.approx(np.concatenate([total / total.sum() for total in sums]))


def test_a_solver_reports_the_average_and_what_was_played_last() -> None:
    solver = CFR(tree_of("kuhn"), "cfr").run(100)
    answer = solver.solved()
    assert answer.last is not None
    assert (answer.strategy == solver.average()).all()
    assert (answer.last.strategy == solver.current()).all()
    assert answer.last.nash_conv == nash_conv(tree_of("kuhn"), solver.current()) > 5 * answer.nash_conv
    assert equilibrium(tree_of("kuhn")).last is None  # a linear program plays nothing on the way


def test_what_predictive_cfr_plays_last_converges_on_kuhn() -> None:
    for variant in ("pcfr+", "pdcfr+"):
        answer = cfr(tree_of("kuhn"), 1000, variant)
        assert answer.last is not None
        assert answer.last.nash_conv == pytest.approx(0.0, abs=1e-12)
        assert answer.nash_conv < 1e-3 * cfr(tree_of("kuhn"), 1000, "cfr+").nash_conv
        assert answer.values[0] == pytest.approx(-1 / 18, abs=1e-6)


def test_three_player_cfr_lowers_nash_conv() -> None:
    tree = build_tree("kuhn_poker", {"players": 3})
    assert cfr(tree, 200).nash_conv < 0.01 * nash_conv(tree, tree.uniform())


@pytest.mark.parametrize(("sampling", "iterations", "bound"), [("external", 5000, 0.06), ("outcome", 10000, 0.12)])
def test_sampled_cfr_converges_on_kuhn(sampling: str, iterations: int, bound: float) -> None:
    answer = sampled_cfr(tree_of("kuhn"), iterations, sampling, seed=1)
    assert answer.nash_conv < bound
    assert answer.iterations == iterations


@pytest.mark.parametrize("sampling", ["external", "outcome"])
def test_sampled_cfr_repeats_itself_for_the_same_seed(sampling: str) -> None:
    first, again, other = (SampledCFR(tree_of("kuhn"), sampling, seed=seed).run(50).average() for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_outcome_sampling_guesses_regrets_and_averages_right_on_average() -> None:
    # From the same start (uniform play) the mean over seeds is the regret of one full iteration. A set of two nodes that the
    # own play reaches with chance r adds 2 r / 2 to the weight of each of two actions: 1 at first, 1 / 2 after a pass.
    tree = tree_of("kuhn")
    form = tree.form
    exact = form.players[0].regrets(form.counterfactual(0, form.plans(tree.uniform())), form.players[0].uniform)
    regrets, sums = [], []
    for seed in range(4000):
        solver = SampledCFR(tree, "outcome", seed=seed)
        solver._walk(0, 0)
        regrets.append(np.concatenate(solver.regrets[:6]))
        sums.append(np.concatenate(solver.sums[:6]))
    for drawn, truth in ((regrets, exact), (sums, np.repeat([1.0, 0.5], 6))):
        error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
        assert (np.abs(np.mean(drawn, axis=0) - truth) < 4 * error).all()


def test_linear_program_finds_the_maximin_of_an_asymmetric_game() -> None:
    # By hand: [[2, -1], [-1, 1]]: both mix 2/5, 3/5 with value 1/5.
    tree = build_tree("matrix_game", {"payoffs": [[[2, -1], [-1, 1]], [[-2, 1], [1, -1]]]})
    answer = equilibrium(tree)
    assert answer.values[0] == pytest.approx(0.2)
    assert answer.strategy == pytest.approx([0.4, 0.6, 0.4, 0.6])


def test_games_that_are_not_two_player_zero_sum_have_no_value_by_linear_program() -> None:
    for name in ("three", "repeated"):
        with pytest.raises(ConfigError, match="cfr"):
            equilibrium(tree_of(name))
        with pytest.raises(ConfigError, match="zero-sum"):
            exact_psro(tree_of(name), 3)


def test_psro_ends_with_the_equilibrium_of_a_matrix_game() -> None:
    tree = build_tree("matrix_game", {"game": "rock_paper_scissors"})
    found = exact_psro(tree, 10)
    assert found.nash_convs[0] == 2.0  # rock against rock: paper wins 1 for both
    assert found.answer.nash_conv == pytest.approx(0.0, abs=1e-9)
    assert found.answer.strategy == pytest.approx([1 / 3] * 6)
    # rock; paper beats it; scissors beat that: two rounds of best responses, and the third measure is 0
    assert found.answer.iterations == len(found.nash_convs) - 1 == len(found.mixtures) - 1 == 2
    assert [len(weights) for weights, _ in found.mixtures] == [1, 2, 3]


def test_psro_stops_after_the_given_iterations() -> None:
    found = exact_psro(build_tree("matrix_game", {"game": "rock_paper_scissors"}), 1)
    assert found.nash_convs == pytest.approx([2.0, 2.0])  # paper against paper: scissors win 1 for both
    assert found.answer.iterations == 1


def test_strategies_that_are_none_are_refused() -> None:
    tree = tree_of("kuhn")
    with pytest.raises(ConfigError, match="24 choices"):
        nash_conv(tree, np.ones(3))
    with pytest.raises(ConfigError, match="information set 0 of player_0"):
        nash_conv(tree, np.full(24, 0.4))
    with pytest.raises(UnknownNameError, match="cfr"):
        CFR(tree, "cfr++")
    with pytest.raises(UnknownNameError, match="outcome"):
        SampledCFR(tree, "outcomes")
    with pytest.raises(ConfigError, match="epsilon"):
        SampledCFR(tree, "outcome", epsilon=0.0)
    for iterations in (0, -1, 1.5, True):
        with pytest.raises(ConfigError, match="1 or more"):
            cfr(tree, iterations)
    assert cfr(tree, 1).iterations == 1


def test_always_plays_the_named_action() -> None:
    tree = build_tree("kuhn_poker", action_names=("pass", "bet"))
    assert expected_values(tree, tree.always("bet")) == pytest.approx([0, 0])
    assert (tree.always("pass") == tree.first_action()).all()
    with pytest.raises(UnknownNameError, match="raise"):
        tree.always("raise")


def test_pure_strategies_are_two_to_the_sixth_in_kuhn() -> None:
    assert sum(1 for _ in pure_strategies(tree_of("kuhn"), 0)) == 64


def test_no_iterations_and_too_few_names_of_actions_are_refused() -> None:
    tree = build_tree("kuhn_poker")
    for solve in (sampled_cfr, exact_psro):
        for iterations in (0, 2.5):
            with pytest.raises(ConfigError, match=f"iterations is {iterations}"):
                solve(tree, iterations)
    with pytest.raises(ConfigError, match="expected a name for every action"):
        build_tree("kuhn_poker", action_names=("pass",))
