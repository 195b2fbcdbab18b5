"""Merged positions against trees on random games, and memories that join positions."""

from __future__ import annotations

import numpy as np
import pytest

from marl.errors import ConfigError, PolicyError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.memory import with_memories
from marl.gametheory.merged.positions import positions_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import policies_of, strategy_of
from marl.gametheory.tree.response import expected_values, gains
from marl.policies.build import PolicySpec, build_policy
from marl.policies.config import ModelConfig
from marl.policies.policy import Decision, Inputs, Policy

from .random_games import HashedPolicy, RandomGame, compare, mixture
from .trees import random_strategy

EXACT = 1e-12
REPEATED = {"game": "prisoners_dilemma", "repetitions": 3, "observe": "none"}


@pytest.mark.slow
def test_fifty_random_games_measure_as_on_their_trees() -> None:
    shapes = set()
    for seed in range(50):
        found = compare(seed)
        assert found.difference <= EXACT, seed
        assert found.played <= EXACT, seed
        shapes.add((found.tree.num_players, found.tree.chance))
    assert shapes == {(2, "exact"), (2, "none"), (3, "exact"), (3, "none")}


def test_a_random_game_measures_as_on_its_tree() -> None:
    for seed in (4, 9):  # three players with chance, two players with chance
        found = compare(seed)
        assert len(found.positions) < len(found.tree)
        assert max(found.difference, found.played) <= EXACT


# -- memories ------------------------------------------------------------------------------------------------------


def test_a_mixture_starts_once_for_each_member_that_can_be_drawn() -> None:
    positions = positions_of("kuhn_poker")
    mixed = mixture(positions.kinds[0], 3, 0, np.array([0.25, 0.0, 0.75]))
    found = with_memories(positions, {"player_1": mixed}, exploiter=0)
    assert len(found.positions.start) == 2 * len(positions.start)
    assert found.positions.start_probability.sum() == pytest.approx(1.0)
    assert sorted(set(found.positions.start_probability.round(9))) == pytest.approx([0.25 / 6, 0.75 / 6])
    assert found.positions.views[0] is positions.views[0]  # the exploiter sees what it saw before
    assert len(found.positions.views[1]) == 2 * len(positions.views[1])


def test_views_that_come_up_again_are_told_apart_by_own_decisions_alone() -> None:
    # Two players who always see the same and choose twice: their views lead back to themselves.
    tree, positions = build_tree("matrix_game", REPEATED), positions_of("matrix_game", REPEATED)
    policies = policies_of(tree, random_strategy(tree, 1))
    strategy = strategy_of(tree, policies)
    measured = MergedGame(positions).measure(policies)
    assert measured.values == pytest.approx(expected_values(tree, strategy), abs=EXACT)
    assert measured.gains == pytest.approx(gains(tree, strategy), abs=EXACT)


def test_a_memory_that_keeps_every_step_apart_is_refused_beyond_the_limit() -> None:
    positions = positions_of("leduc_poker")
    spec = PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[4], use_lstm=True, lstm_cell_size=4), None, seed=0)
    lstm = build_policy(spec, positions.kinds[0])
    with pytest.raises(ConfigError, match=r"(?s)policies of player_1 .* more than 500 .* does not merge .*LSTM"):
        with_memories(positions, {"player_1": lstm}, exploiter=0, limit=500)


def test_an_lstm_on_a_small_game_measures_as_on_its_tree() -> None:
    tree, positions = build_tree("kuhn_poker"), positions_of("kuhn_poker")
    spec = PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[4], use_lstm=True, lstm_cell_size=4), None, seed=0)
    policies = dict.fromkeys(tree.players, build_policy(spec, tree.kinds[0]))
    strategy = strategy_of(tree, policies)
    measured = MergedGame(positions).measure(policies)
    assert measured.values == pytest.approx(expected_values(tree, strategy), abs=EXACT)
    assert measured.gains == pytest.approx(gains(tree, strategy), abs=EXACT)


class Secretive(HashedPolicy):
    """Remembers something, and does not say what."""

    carried = None  # type: ignore[assignment]

    def act(self, inputs: Inputs, carry: np.ndarray, rng: np.random.Generator, *, explore: bool) -> Decision:
        raise NotImplementedError


def test_a_policy_that_cannot_tell_its_memory_is_asked_for_a_method() -> None:
    positions = positions_of(RandomGame, {"seed": 9})
    policy: Policy = Secretive(positions.kinds[0], 1, 1)
    with pytest.raises(PolicyError, match=r"carried\(inputs, carry, actions\)"):
        with_memories(positions, dict.fromkeys(positions.players, policy))
