"""Merged positions against trees on random games, and memories that join positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.envs.wrappers import read_wrappers, wrap
from marl.errors import ConfigError, PolicyError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.memory import drawn_games, with_memories
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


def test_draws_of_two_mixtures_are_games_of_their_own_on_the_same_positions() -> None:
    tree, positions = build_tree("kuhn_poker"), positions_of("kuhn_poker")
    kind = positions.kinds[0]
    policies: dict[str, Policy] = {
        "player_0": mixture(kind, 3, 0, np.array([0.25, 0.0, 0.75])),
        "player_1": mixture(kind, 8, 0, np.array([0.4, 0.6])),
    }
    found = drawn_games(positions, policies)
    assert sorted(chance for chance, _ in found) == pytest.approx([0.1, 0.15, 0.3, 0.45])
    assert all(game.positions is positions for _, game in found)  # not four times as many
    measured, strategy = MergedGame(positions).measure(policies), strategy_of(tree, policies)
    assert measured.values == pytest.approx(expected_values(tree, strategy), abs=EXACT)
    assert measured.gains == pytest.approx(gains(tree, strategy), abs=EXACT)


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


class Echo(MultiAgentEnv):
    """Two players move at once, ``rounds`` times, and see the other's last move alone. Its own state is that move and the
    time, so histories merge; a stack of two observations keeps more of them apart."""

    possible_agents = ("left", "right")

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.rounds = int((config or {}).get("rounds", 4))
        self.see, self.do = spaces.Box(0.0, 2.0, (1,), np.float32), spaces.Discrete(2)
        self.last, self.round = [0, 0], 0

    def observation_space(self, agent: str) -> Any:
        return self.see

    def action_space(self, agent: str) -> Any:
        return self.do

    def _seen(self) -> dict[str, Any]:
        return {"left": np.array([self.last[1]], np.float32), "right": np.array([self.last[0]], np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.last, self.round = [0, 0], 0
        return self._seen(), {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        before, self.last = self.last, [1 + int(actions[agent]) for agent in self.possible_agents]
        self.round += 1
        rewards = {"left": float(self.last[0] == before[1]), "right": (self.last[0] == self.last[1]) / 2}
        over = self.round == self.rounds
        return StepResult(self._seen(), rewards, {ALL: over}, {ALL: False}, {})


def test_a_stack_of_frames_is_part_of_the_position() -> None:
    pytest.importorskip("supersuit")
    stack = read_wrappers([{"frame_stack_v1": {"stack_size": 2}}])
    plain = positions_of(Echo, chance_samples=1)
    assert np.bincount(plain.level[~plain.over]).tolist() == [1, 4, 4, 4]  # the last moves

    def stacked(config: Mapping[str, Any]) -> MultiAgentEnv:
        return wrap(Echo(config), stack, "echo")

    tree, positions = build_tree(stacked, chance_samples=1), positions_of(stacked, chance_samples=1)
    assert np.bincount(positions.level[~positions.over]).tolist() == [1, 4, 16, 16]  # the last two of both
    policies = {name: HashedPolicy(tree.kind_of(player), player, 0) for player, name in enumerate(tree.players)}
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
