"""How large a tree is, and trees that are tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.envs.registry import make_batched_env
from marl.gametheory.classics import classic_game
from marl.gametheory.solve import zero_sum
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.normal import one_shot
from marl.gametheory.tree.openspiel import tree_from_openspiel
from marl.gametheory.tree.size import WALKS, Walks, walk, walks_in
from marl.gametheory.tree.value import equilibrium


def test_where_every_way_has_the_same_choices_the_estimate_is_exact() -> None:
    walks = walks_in("matrix_game", {"game": "rock_paper_scissors"})
    assert walks.nodes == 1 + 3 + 9
    assert len(build_tree("matrix_game", {"game": "rock_paper_scissors"})) == 1 + 3 + 9
    assert (walks.most_at_once, walks.discrete, set(walks.lengths)) == (2, True, {1})


class Turns(MultiAgentEnv):
    """Three agents move one after another with 2, 3 and 4 legal actions of 4; the second moves along with the third if told."""

    possible_agents = ("a", "b", "c")

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        given = config or {}
        self.order = [["a"], ["b"], ["b", "c"]] if given.get("together") else [["a"], ["b"], ["c"]]
        self.rounds = given.get("rounds", 1)

    def observation_space(self, agent: str) -> Any:
        return spaces.Dict({"observation": spaces.Box(0, 9, (1,)), "action_mask": spaces.MultiBinary(4)})

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(4)

    def _shown(self) -> dict[str, Any]:
        row = np.full(1, self.t, np.float32)
        legal = {"a": [0, 0, 1, 1], "b": [1, 1, 1, 0], "c": [1, 1, 1, 1]}
        asked = self.order[self.t % 3]
        return {agent: {"observation": row, "action_mask": np.array(legal[agent], np.int8)} for agent in asked}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        shown = self._shown()
        return shown, {agent: {} for agent in shown}

    def step(self, actions: dict[str, Any]) -> StepResult:
        assert list(actions) == self.order[self.t % 3]
        assert all(action >= 2 for agent, action in actions.items() if agent == "a")
        self.t += 1
        over = self.t == 3 * self.rounds
        shown = self._shown()
        return StepResult(shown, dict.fromkeys(actions, 0.0), {ALL: over}, {ALL: False}, {})


def test_those_who_are_asked_count_with_their_legal_actions() -> None:
    walks = walks_in(Turns)
    assert walks.nodes == 1 + 2 + 2 * 3 + 2 * 3 * 4
    assert (walks.most_at_once, walks.discrete, walks.lengths) == (1, True, [3] * WALKS)
    together = walks_in(Turns, {"together": True})
    assert together.nodes == 1 + 2 + 2 * 3 + 2 * 3 * 3 + 2 * 3 * 3 * 4
    assert together.most_at_once == 2


def test_the_env_is_closed_after_the_walks() -> None:
    closed = []

    class Closing(Turns):
        def close(self) -> None:
            closed.append(self)

    walks_in(Closing)
    assert len(closed) >= WALKS


def test_a_walk_ends_at_its_horizon() -> None:
    env = make_batched_env(Turns, 2, {"rounds": 2}, with_state=False)
    short = walk(env, 4, 0)
    assert short.lengths == [4, 4]
    assert short.nodes == 1 + 2 + 6 + 24 + 48
    assert walk(env, None, 0).lengths == [6, 6]


def test_the_size_is_said_with_two_digits() -> None:
    assert Walks(1, [3], 1234.0, True).size == "about 1,200"
    assert Walks(1, [3], 999_999_999.0, True).size == "about 1,000,000,000"
    assert Walks(1, [3], 1e9, True).size == "billions of"


def test_endless_and_continuous_envs_are_seen_at_once() -> None:
    assert walks_in("CartPole-v1").nodes > 200
    assert "billions" in walks_in("pettingzoo:classic/go_v5", {"board_size": 5}).size
    assert not walks_in("Pendulum-v1").discrete


def test_a_game_in_which_everybody_decides_once_is_its_table() -> None:
    tree = build_tree("matrix_game", {"game": "stag_hunt"})
    table = one_shot(tree)
    assert table is not None
    np.testing.assert_allclose(table.payoffs, classic_game("stag_hunt").payoffs)
    assert one_shot(build_tree("kuhn_poker")) is None


def test_a_constant_sum_tree_has_the_value_of_its_table() -> None:
    rows = [[3.0, 0.0], [1.0, 2.0]]
    payoffs = [rows, [[4.0 - x for x in row] for row in rows]]
    tree = build_tree("matrix_game", {"payoffs": payoffs})
    assert tree.is_constant_sum
    assert not tree.is_zero_sum
    table = one_shot(tree)
    assert table is not None
    found = equilibrium(tree)
    assert found.values == pytest.approx([1.5, 2.5])  # row 1/4, 3/4; by hand
    assert found.values == pytest.approx(zero_sum(table).values)
    assert found.nash_conv == pytest.approx(0.0, abs=1e-9)


class Noted(Turns):
    """Writes down the seeds that it is given."""

    seeds: ClassVar[list[int | None]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


def test_walks_follow_from_their_seed() -> None:
    Noted.seeds.clear()
    walks_in(Noted, seed=500)
    assert Noted.seeds[:WALKS] == [500 + env_id for env_id in range(WALKS)]
    assert min(Noted.seeds, default=0) == 500  # type: ignore[type-var]


def test_a_game_that_shows_observations_alone_becomes_a_tree() -> None:
    """Nim: who moves first wins unless the piles' binary sum is 0 (Bouton, 1901)."""
    for piles, first_wins in (("1;2", True), ("1;1", False), ("2;2", False), ("1;2;3", False), ("1;1;2", True)):
        tree = tree_from_openspiel(f"nim(pile_sizes={piles},is_misere=False)")
        assert equilibrium(tree).values.tolist() == pytest.approx([1.0, -1.0] if first_wins else [-1.0, 1.0])


def test_a_tree_in_which_one_player_knows_more_than_one_thing_is_no_table() -> None:
    tree = tree_from_openspiel("nim(pile_sizes=1;1,is_misere=False)")
    assert [form.num_sets for form in tree.form.players] == [1, 2]
    assert one_shot(tree) is None
    table = one_shot(build_tree("matrix_game", {"game": "prisoners_dilemma"}))
    assert table is not None
    assert np.array_equal(table.payoffs, classic_game("prisoners_dilemma").payoffs)
