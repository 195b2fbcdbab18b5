"""A team that shares what it sees is one exploiter; and what memories do on average."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.gametheory.merged import teams
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.positions import Positions, Views, positions_of
from marl.gametheory.merged.projection import Player, project
from marl.gametheory.merged.teams import with_team
from marl.policies.build import build_policy
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.scripted import RandomPolicy


class Naive:
    """The best response of a team, written down as it is defined, with dictionaries."""

    def __init__(self, positions: Positions, tables: Sequence[Any], team: Sequence[int]) -> None:
        self.game, self.tables, self.team = positions, tables, list(team)
        self.others = [player for player in range(positions.num_players) if player not in self.team]

    def solve(self) -> float:
        belief: dict[int, float] = defaultdict(float)
        for x, chance in zip(self.game.start.tolist(), self.game.start_probability.tolist(), strict=True):
            belief[x] += chance
        return self._value(belief)

    def _value(self, belief: dict[int, float]) -> float:
        paid, seen = self._until_asked(belief)
        for group in seen.values():
            moves = {tuple(self.game.actions[e, self.team]) for x in group for e in self._edges(x)}
            paid += max(self._after(group, move) for move in moves)
        return paid

    def _until_asked(self, belief: dict[int, float]) -> tuple[float, dict[Any, dict[int, float]]]:
        paid, seen = 0.0, defaultdict(lambda: defaultdict(float))
        waiting = dict(belief)
        while waiting:
            x, weight = waiting.popitem()
            if self.game.asked[x, self.team].any():
                seen[tuple(self.game.view[x, self.team])][x] += weight
                continue
            for e in self._edges(x):
                happens = weight * self._chance(e)
                paid += happens * self.game.rewards[e, self.team].sum()
                target = int(self.game.target[e])
                waiting[target] = waiting.get(target, 0.0) + happens
        return paid, seen  # type: ignore[return-value]

    def _after(self, group: dict[int, float], move: tuple[int, ...]) -> float:
        paid, after = 0.0, defaultdict(float)
        for x, weight in group.items():
            for e in self._edges(x):
                if tuple(self.game.actions[e, self.team]) == move:
                    happens = weight * self._chance(e)
                    paid += happens * self.game.rewards[e, self.team].sum()
                    after[int(self.game.target[e])] += happens
        return paid + self._value(after)

    def _edges(self, x: int) -> range:
        return range(int(self.game.first_edge[x]), int(self.game.first_edge[x + 1]))

    def _chance(self, e: int) -> float:
        x, chance = int(self.game.source[e]), float(self.game.probability[e])
        for player in self.others:
            if self.game.view[x, player] >= 0:
                chance *= self.tables[player][self.game.view[x, player], self.game.actions[e, player]]
        return chance


def random_tables(positions: Positions, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for views in positions.views:
        weights = rng.random(views.legal.shape) * views.legal
        found.append(weights / weights.sum(axis=1, keepdims=True))
    return found


GAMES: list[tuple[str, dict[str, Any], list[int]]] = [
    ("kuhn_poker", {"players": 3}, [0, 1]),
    ("kuhn_poker", {"players": 3}, [0, 2]),
    ("kuhn_poker", {"players": 3}, [1]),
    ("two_step_game", {}, [0, 1]),
]


@pytest.mark.parametrize(("env", "config", "members"), GAMES)
def test_the_best_response_of_a_team_is_what_a_naive_search_finds(
    env: str, config: dict[str, Any], members: list[int]
) -> None:
    positions = positions_of(env, config)
    tables = random_tables(positions, seed=3)
    game = with_team(positions, members)
    found = game.best_value(tables)
    assert found == pytest.approx(Naive(positions, tables, members).solve(), abs=1e-12)
    value, policy = MergedGame(game.positions).best_response(game.tables(tables), game.team)
    assert value == pytest.approx(found, abs=1e-12)
    assert policy.num_actions == np.prod([positions.views[player].legal.shape[1] for player in members])


def test_a_team_of_one_is_that_player() -> None:
    positions = positions_of("leduc_poker")
    tables = random_tables(positions, seed=1)
    assert with_team(positions, [1]).best_value(tables) == pytest.approx(MergedGame(positions).measure(tables).best[1])


def test_a_team_with_too_many_joint_actions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teams, "MOST_ACTIONS", 3)
    with pytest.raises(ConfigError, match="has 4 joint actions, more than the 3"):
        with_team(positions_of("kuhn_poker", {"players": 3}), [0, 1])


# -- projections -------------------------------------------------------------------------------------------------------


def projected(policies: list[Any], episodes: int, explore: bool = True) -> tuple[Positions, Any]:
    positions = positions_of("kuhn_poker")
    players = {name: Player(policy, explore) for name, policy in zip(positions.players, policies, strict=True)}
    made = project(positions, lambda lanes: make_batched_env("kuhn_poker", lanes, {}), players, episodes, seed=0)
    return positions, made


def test_the_projection_of_play_without_memory_is_that_play() -> None:
    kind = positions_of("kuhn_poker").kinds[0]
    network = build_policy(PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[8]), seed=3), kind)
    positions, found = projected([network, RandomPolicy(kind)], 2_000)
    exact = MergedGame(positions).tables({"player_0": network, "player_1": RandomPolicy(kind)})
    assert found.tables[0] == pytest.approx(exact[0], abs=1e-6)  # of the probabilities that it tells
    assert found.tables[1] == pytest.approx(exact[1], abs=0.1)  # of what it does
    assert (found.visits[0] > 0).all()


def test_a_memory_is_projected_on_the_mean_of_what_it_does_where_it_sees_the_same() -> None:
    """In Kuhn poker a view tells the whole own past, so a memory is projected without a loss."""
    kind = positions_of("kuhn_poker").kinds[0]
    model = ModelConfig(fcnet_hiddens=[8], use_lstm=True, lstm_cell_size=8)
    network = build_policy(PolicySpec("stochastic", 0, model, seed=3), kind)
    positions, found = projected([network, network], 2_000)
    for table in found.tables:
        assert table.sum(axis=1) == pytest.approx(1.0)
    from marl.gametheory.tree.build import build_tree
    from marl.gametheory.tree.policy_conversion import strategy_of
    from marl.gametheory.tree.response import nash_conv

    tree = build_tree("kuhn_poker")
    exact = nash_conv(tree, strategy_of(tree, {"player_0": network, "player_1": network}))
    assert MergedGame(positions).measure(found.tables).nash_conv == pytest.approx(exact, abs=1e-4)


def test_greedy_play_is_projected_on_its_best_guesses() -> None:
    kind = positions_of("kuhn_poker").kinds[0]
    network = build_policy(PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[8]), seed=3), kind)
    _, found = projected([network, network], 512, explore=False)
    seen = found.visits[0] > 0
    assert set(np.unique(found.tables[0][seen])) == {0.0, 1.0}


def test_a_member_that_is_never_asked_changes_nothing() -> None:
    positions = positions_of("kuhn_poker")
    nothing = np.full((len(positions), 1), -1)
    idle = replace(
        positions,
        players=(*positions.players, "idle"),
        asked=np.column_stack([positions.asked, nothing >= 0]),
        view=np.column_stack([positions.view, nothing]),
        views=(*positions.views, Views(np.zeros((0, 3)), np.zeros((0, 2), bool))),
        actions=np.column_stack([positions.actions, np.full(len(positions.source), -1)]),
        rewards=np.column_stack([positions.rewards, np.zeros(len(positions.source))]),
    )
    even = [views.legal / views.legal.sum(axis=1, keepdims=True) for views in positions.views]
    team = with_team(idle, [1, 2])
    alone = MergedGame(positions).best_value(even, 1)
    assert team.best_value([*even, np.zeros((0, 2))]) == pytest.approx(alone, abs=1e-12)


def test_a_team_whose_joint_actions_overflow_is_refused() -> None:
    positions = positions_of("kuhn_poker")
    crowd = replace(positions, views=(positions.views[0],) * 64, players=tuple(map(str, range(64))))
    with pytest.raises(ConfigError, match=r"18,446,744,073,709,551,616 joint actions"):  # 2 ** 64
        with_team(crowd, range(64))
