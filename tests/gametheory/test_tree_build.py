"""Trees of envs: who knows what, what is paid, how chance comes in, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.envs.registry import make_batched_env, make_env
from marl.errors import ConfigError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.chance import enough
from marl.gametheory.tree.openspiel import tree_from_openspiel
from marl.gametheory.tree.response import expected_values, nash_conv
from marl.gametheory.tree.tree import CHANCE, TERMINAL, Tree
from marl.gametheory.tree.value import equilibrium

from .trees import Guess


def check_shape(tree: Tree) -> None:
    """Children stand side by side below their parents, level by level."""
    assert tree.parent[0] == -1
    assert (np.diff(tree.parent) >= 0).all()
    for node in range(len(tree)):
        first, count = tree.first_child[node], tree.num_children[node]
        assert (count == 0) == (tree.player[node] == TERMINAL)
        assert (tree.parent[first : first + count] == node).all()
        assert tree.branch[first : first + count].tolist() == list(range(count))
        if tree.player[node] == CHANCE:
            assert tree.probability[first : first + count].sum() == pytest.approx(1.0)
        if tree.player[node] >= 0:
            assert tree.sets.num_actions[tree.infoset[node]] == count
            assert tree.sets.player[tree.infoset[node]] == tree.player[node]


@pytest.mark.parametrize("env", ["kuhn_poker", "two_step_game", "matrix_game", Guess])
def test_nodes_stand_level_by_level_and_sum_to_one(env) -> None:
    check_shape(build_tree(env))


def test_kuhn_has_thirty_ends_behind_six_deals() -> None:
    # Five courses of play (pp, pbp, pbb, bp, bb) for each of six deals; four decisions per deal; the deal itself.
    tree = build_tree("kuhn_poker")
    assert (len(tree), len(tree.terminal)) == (1 + 6 * 9, 30)
    assert tree.chance == "exact"
    assert tree.probability[1:7] == pytest.approx([1 / 6] * 6)


def test_three_player_kuhn_has_sixteen_information_sets_each() -> None:
    tree = build_tree("kuhn_poker", {"players": 3})
    assert np.bincount(tree.sets.player).tolist() == [16, 16, 16]
    assert nash_conv(tree, tree.uniform()) == pytest.approx(2.0625)


def test_simultaneous_moves_are_hidden_from_the_one_who_is_asked_later() -> None:
    tree = build_tree("matrix_game", {"game": "rock_paper_scissors"})
    assert (len(tree), len(tree.sets)) == (1 + 3 + 9, 2)
    assert tree.chance == "none"
    assert (tree.infoset[1:4] == 1).all()  # after rock, paper and scissors alike
    assert tree.payoffs[tree.terminal][:, 0].tolist() == [0, -1, 1, 1, 0, -1, -1, 1, 0]


def test_repeated_game_without_observation_is_told_apart_by_own_actions_alone() -> None:
    tree = build_tree("matrix_game", {"game": "prisoners_dilemma", "repetitions": 2})
    assert np.bincount(tree.sets.player).tolist() == [3, 3]  # first round; second after cooperating, after defecting
    shown = build_tree("matrix_game", {"game": "prisoners_dilemma", "repetitions": 2, "observe": "last"})
    assert np.bincount(shown.sets.player).tolist() == [5, 5]  # first round; second after each joint action
    both_defect = tree.payoffs[tree.terminal].min(axis=1).tolist().count(2.0)
    assert both_defect == 1  # 1 + 1, paid in two steps


def test_two_step_game_pays_the_team_seven_or_up_to_eight() -> None:
    tree = build_tree("two_step_game")
    assert sorted(set(tree.payoffs[tree.terminal].sum(axis=1).tolist())) == [0, 1, 7, 8]
    assert np.bincount(tree.sets.player).tolist() == [
        3,
        5,
    ]  # the second agent does not see the first one's choice as its own


def test_rewards_on_the_way_are_added_up_and_equal_seeds_count_together() -> None:
    tree = build_tree(Guess, chance_samples=8)  # the coin shows 1 for the seeds 3 and 7
    assert tree.chance == "sampled"
    assert tree.probability[1:3] == pytest.approx([0.75, 0.25])
    assert np.bincount(tree.sets.player).tolist() == [2, 2]
    assert tree.payoffs[tree.terminal].max(axis=0).tolist() == [1.5, 1.0]
    assert expected_values(tree, tree.uniform()) == pytest.approx([0.75, 0.5])


def test_env_that_plays_alike_for_all_seeds_is_a_sample_of_one_start_unless_it_says_that_nothing_is_random() -> None:
    tree = build_tree(Guess, {"coin": 1})
    assert tree.sample is not None
    assert (tree.chance, tree.player[0], tree.sample.counts.tolist()) == ("sampled", 0, [1 + enough(1)])
    few = build_tree(Guess, {"coin": 1}, chance_samples=4)
    assert (few.chance, few.player[0]) == ("sampled", 0)

    class Certain(Guess):
        def chance_outcomes(self):
            return {None: 1.0}

    certain = build_tree(Certain, {"coin": 1})
    assert (certain.chance, certain.sample, certain.player[0], len(certain)) == ("none", None, 0, len(tree))


@pytest.mark.parametrize("env", ["matrix_game", "two_step_game", "congestion", "graphical_game"])
def test_native_envs_in_which_nothing_is_random_say_so_also_as_dict_envs(env) -> None:
    for batched_env in (env, lambda config: make_env(env, config)):
        assert (build_tree(batched_env).chance, build_tree(batched_env).sample) == ("none", None)
    assert build_tree(env, chance_samples=3).chance == "sampled"  # what is asked for is done


def test_turns_of_a_pettingzoo_game_hide_the_first_move_and_show_it_in_the_next_round() -> None:
    once = build_tree("pettingzoo:classic/rps_v2", {"max_cycles": 1})
    assert (len(once), len(once.sets), once.chance) == (13, 2, "none")
    assert once.payoffs[once.terminal][:, 0].tolist() == [0, -1, 1, 1, 0, -1, -1, 1, 0]
    twice = build_tree("pettingzoo:classic/rps_v2", {"max_cycles": 2})
    assert np.bincount(twice.sets.player).tolist() == [1 + 9, 1 + 9]  # first round; after each pair of moves


def test_liars_dice_has_as_many_information_sets_as_rolls_times_bids() -> None:
    # Two sides, one die each: 4 bids. Bids rise, so what was bid is a subset of them: of an even number where player 0 is to
    # move (after all 4 it can only doubt), of an odd number where player 1 is; times 2 sides of the own die.
    tree = build_tree("liars_dice", {"sides": 2})
    even, odd = 1 + 6 + 1, 4 + 4  # subsets of 4 bids with 0, 2, 4 and with 1, 3 members
    assert np.bincount(tree.sets.player).tolist() == [2 * even, 2 * odd]
    assert tree.probability[1:5] == pytest.approx([0.25] * 4)


def test_too_large_trees_are_refused_with_their_size() -> None:
    with pytest.raises(ConfigError, match=r"has [\d,]+ nodes so far, more than max_nodes = 500"):
        build_tree("leduc_poker", max_nodes=500)
    with pytest.raises(ConfigError, match=r"max_nodes = 300"):
        build_tree("pettingzoo:classic/tictactoe_v3", max_nodes=300, chance_samples=1)


@pytest.mark.parametrize(
    ("env", "config", "match"),
    [
        ("two_step_game", {"actions_are_logits": True}, "Discrete"),
        ("traffic", {}, "fixed list of players"),
    ],
)
def test_envs_without_a_finite_choice_of_moves_are_refused(env, config, match) -> None:
    with pytest.raises(ConfigError, match=match):
        build_tree(env, config)


def test_no_chance_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match="chance_samples is 0"):
        build_tree(Guess, chance_samples=0)


def test_openspiel_env_by_seeds_approaches_the_game_with_explicit_chance() -> None:
    pytest.importorskip("pyspiel")
    sampled = build_tree("openspiel:kuhn_poker", chance_samples=300)
    exact = tree_from_openspiel("kuhn_poker")
    assert (sampled.chance, exact.chance) == ("sampled", "exact")
    assert len(sampled.sets) == len(exact.sets) == 12
    assert sampled.probability[1:7] == pytest.approx([1 / 6] * 6, abs=0.08)
    assert equilibrium(exact).values[0] == pytest.approx(-1 / 18)


def test_openspiel_env_by_its_name_has_the_chance_of_the_game_and_policies_trained_there_fit() -> None:
    pytest.importorskip("pyspiel")
    tree = build_tree("openspiel:kuhn_poker", action_names=("pass", "bet"))
    assert (tree.chance, tree.sample, len(tree)) == ("exact", None, 58)
    assert tree.sets.labels[:2] == ("pass", "bet")
    assert equilibrium(tree).values[0] == pytest.approx(-1 / 18)
    batched_env = make_batched_env("openspiel:kuhn_poker", 1, {}, with_state=False)
    assert [(k.agents, k.obs_width, k.columns.sizes, k.masked) for k in tree.kinds] == [
        (k.agents, k.obs_width, k.columns.sizes, k.masked) for k in batched_env.kinds
    ]


def test_openspiel_game_with_simultaneous_moves_is_serialised() -> None:
    pytest.importorskip("pyspiel")
    tree = tree_from_openspiel("matrix_rps")
    assert (len(tree), len(tree.sets), tree.chance) == (13, 2, "none")
    assert tree.sets.labels[:3] == ("Rock", "Paper", "Scissors")
    check_shape(tree_from_openspiel("goofspiel(num_cards=3,imp_info=True,points_order=descending)"))


def test_unknown_openspiel_game_is_named() -> None:
    pytest.importorskip("pyspiel")
    with pytest.raises(ConfigError, match="no_such_game"):
        tree_from_openspiel("no_such_game")


class Blind(MultiAgentEnv):
    """Nobody sees the coin, which falls by the seed and is all that is paid."""

    possible_agents = ("a",)

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.coin = (seed or 0) % 2
        return {"a": 0}, {"a": {}}

    def step(self, actions: dict[str, Any]) -> StepResult:
        return StepResult({"a": 1}, {"a": float(self.coin)}, {ALL: True}, {ALL: False}, {})


def test_courses_of_chance_that_differ_in_payoffs_alone_are_kept_apart() -> None:
    tree = build_tree(Blind)
    ends = tree.payoffs[tree.player == TERMINAL][:, 0]
    assert sorted(set(ends.tolist())) == [0.0, 1.0]


def test_a_mean_field_game_of_openspiel_has_no_tree() -> None:
    pytest.importorskip("pyspiel")
    with pytest.raises(ConfigError, match="mean-field game"):
        tree_from_openspiel("mfg_crowd_modelling")
