"""Perfect play by backward induction: boards with known values, ties, chance, simultaneous moves, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.perfect import PerfectPlay, perfect_play, solvable_positions, solve_positions
from marl.gametheory.merged.positions import Positions, Views, positions_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import expected_values, nash_conv
from marl.policies.policy import Inputs
from marl.policies.scripted import RandomPolicy
from tests.command import marl

PILES = [[1], [2, 2], [1, 2], [1, 2, 3], [2, 3, 3], [1, 1, 1]]


def gain_of(play: PerfectPlay) -> float:
    """What anybody could gain against perfect play, by its merged best responses."""
    return MergedGame(play.positions).measure(play.policies()).nash_conv


def test_tic_tac_toe_is_a_draw_and_nobody_gains_against_perfect_play() -> None:
    play = perfect_play("tic_tac_toe")
    assert play.values.tolist() == [0.0, 0.0]
    assert play.ties_that_matter == 0
    assert gain_of(play) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("piles", PILES, ids=str)
def test_nim_is_won_exactly_where_the_exclusive_or_of_the_piles_is_not_0(piles: list[int]) -> None:
    won = 1.0 if reduce(xor, piles) else -1.0
    assert perfect_play("nim", {"piles": piles}).values.tolist() == [won, -won]


@pytest.mark.parametrize("piles", PILES, ids=str)
def test_misere_nim_is_the_same_but_for_piles_of_one(piles: list[int]) -> None:
    won = 1.0 if reduce(xor, piles) else -1.0
    if max(piles) == 1:  # Bouton (1901): an even number of single matches wins
        won = 1.0 if len(piles) % 2 == 0 else -1.0
    assert perfect_play("nim", {"piles": piles, "misere": True}).values.tolist() == [won, -won]


def test_perfect_play_acts_and_never_loses() -> None:
    policies, games, rng = perfect_play("tic_tac_toe").policies(), 200, np.random.default_rng(0)
    for perfect in ("player_0", "player_1"):
        env = make_batched_env("tic_tac_toe", games, {}, with_state=False)
        players = {**dict.fromkeys(policies, RandomPolicy(env.kinds[0])), perfect: policies[perfect]}
        frame, going, earned = env.reset(np.arange(games), np.arange(games)), np.ones(games, bool), np.zeros(games)
        for _ in range(9):
            actions = np.zeros((games, 2), np.int64)
            for seat, name in enumerate(env.seat_names):
                rows = np.flatnonzero(frame.present[:, seat] & going)
                seen = Inputs(frame.obs[0][rows, seat], frame.legal[0][rows, seat], np.full(len(rows), seat))
                nothing = np.zeros((len(rows), 0), np.float32)
                actions[rows, seat] = players[name].act(seen, nothing, rng, explore=False).actions
            frame = env.step([actions])
            earned += np.where(going, frame.rewards[:, env.seat_names.index(perfect)], 0.0)
            going &= ~frame.over
        assert not going.any()
        assert earned.min() >= 0.0
        assert earned.mean() > 0.5


def test_what_is_tiny_is_told_apart_where_everything_is_tiny() -> None:
    play = scripted({(0,): [1e-12, 0.0], (1,): [3e-12, 0.0]}, [[0]])
    assert play.values[0] == pytest.approx(3e-12, rel=1e-6)
    assert play.ties == 0


# -- connect four, by a search that knows nothing of positions -----------------------------------------------------


def searched(rows: int, columns: int, connect: int) -> int:
    """The value for the first player, by depth-first search over strings."""
    known: dict[tuple[str, ...], int] = {}

    def wins(board: tuple[str, ...], mark: str) -> bool:
        for i in range(columns):
            for j in range(rows):
                for di, dj in ((1, 0), (0, 1), (1, 1), (1, -1)):
                    cells = [(i + n * di, j + n * dj) for n in range(connect)]
                    if all(0 <= a < columns and 0 <= b < len(board[a]) and board[a][b] == mark for a, b in cells):
                        return True
        return False

    def value(board: tuple[str, ...], mark: str) -> int:
        """For who is to move."""
        if board not in known:
            other, best = "ox"[mark == "o"], -2
            for i in range(columns):
                if len(board[i]) < rows:
                    after = (*board[:i], board[i] + mark, *board[i + 1 :])
                    best = max(best, 1 if wins(after, mark) else -value(after, other))
            known[board] = 0 if best == -2 else best
        return known[board]

    return value(("",) * columns, "x")


@pytest.mark.parametrize(("rows", "columns", "connect"), [(3, 3, 3), (2, 4, 3), (4, 3, 3)])
def test_small_connect_four_has_the_value_of_a_plain_search(rows: int, columns: int, connect: int) -> None:
    play = perfect_play("connect_four", {"rows": rows, "columns": columns, "connect": connect})
    assert play.values[0] == searched(rows, columns, connect)


@pytest.mark.slow
def test_connect_four_on_four_by_four_is_a_draw() -> None:
    # Tromp's table of solved sizes: a draw, with 161,029 legal positions. 26,740 of them are over, which are one per level here.
    play = perfect_play("connect_four", {"rows": 4, "columns": 4, "connect": 4})
    assert play.values.tolist() == [0.0, 0.0]
    assert int((~play.positions.over).sum()) == 161_029 - 26_740


# -- small games by hand -------------------------------------------------------------------------------------------


class Scripted(MultiAgentEnv):
    """Players who choose one after the other, or at once, and see everything; ``paid`` says what each course pays."""

    def __init__(self, paid: Mapping[tuple[int, ...], list[float]], order: list[list[int]], coin: bool = False) -> None:
        self.paid, self.order, self.coin = paid, order, coin
        self.possible_agents = tuple(f"p{i}" for i in range(len(next(iter(paid.values())))))
        self.done: list[int] = []
        self.see, self.do = spaces.MultiDiscrete([4] * 4), spaces.Discrete(2)

    def observation_space(self, agent: str) -> Any:
        return self.see

    def action_space(self, agent: str) -> Any:
        return self.do

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return [(0, 0.25), (1, 0.75)] if self.coin else [(0, 1.0)]

    def _seen(self) -> dict[str, Any]:
        asked = self.order[len(self.turns)]
        shown = np.array([*(done + 1 for done in self.done), *[0] * (4 - len(self.done))])
        return {f"p{i}": shown for i in asked}

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        drawn = int(np.random.default_rng(seed).random() < 0.75)
        fallen = int((options or {}).get("chance", drawn))
        self.done, self.turns = ([fallen] if self.coin else []), []
        return self._seen(), {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        self.done += [int(action) for action in actions.values()]
        self.turns.append(len(actions))
        if len(self.turns) < len(self.order):
            return StepResult(self._seen(), {}, {ALL: False}, {ALL: False}, {})
        rewards = dict(zip(self.possible_agents, self.paid[tuple(self.done)], strict=True))
        return StepResult({}, rewards, {ALL: True}, {ALL: False}, {})


def scripted(paid: Mapping[tuple[int, ...], list[float]], order: list[list[int]], coin: bool = False) -> PerfectPlay:
    return perfect_play(lambda config: Scripted(paid, order, coin))


def test_every_player_maximises_its_own_payoff() -> None:
    # p0 would like (0, 0, 0) best, but p1 turns aside, and p2 after it.
    paid = {(a, b, c): [4.0 * (a == b == c == 0) + a, 2.0 * b + c * a, float(c != b)] for a in (0, 1) for b in (0, 1)
            for c in (0, 1)}  # fmt: skip
    play = scripted(paid, [[0], [1], [2]])
    assert play.values.tolist() == [1.0, 2.0, 1.0]  # a = 1, b = 1 (2 > 0 + 1), c = 0
    assert (play.ties, play.is_unique) == (0, True)
    assert gain_of(play) == pytest.approx(0.0, abs=1e-12)


def test_a_tie_that_matters_to_others_is_told() -> None:
    # p1 is paid the same whatever it does; p0 is not. The first action is taken, and the answer says that it mattered.
    play = scripted({(0, 0): [0.0, 1.0], (0, 1): [5.0, 1.0], (1, 0): [1.0, 0.0], (1, 1): [1.0, 0.0]}, [[0], [1]])
    assert play.values.tolist() == [1.0, 0.0]
    assert (play.ties, play.ties_that_matter, play.is_unique) == (2, 1, False)


def test_chance_is_averaged_and_play_follows_it() -> None:
    paid = {(coin, a): [float(a == coin) * (1 + 3 * coin), 0.0] for coin in (0, 1) for a in (0, 1)}
    play = scripted(paid, [[0]], coin=True)
    assert play.values[0] == pytest.approx(0.25 * 1 + 0.75 * 4)


def test_chance_on_the_way_is_averaged() -> None:
    # A gamble (3 with a quarter, else -1) is worth nothing, so the sure 0.75 is taken.
    kinds = positions_of("nim", {"piles": [2]}).kinds
    seen = np.zeros((1, kinds[0].obs_width), np.float32)
    nobody = Views(seen[:0], np.zeros((0, 2), bool))
    game = Positions(
        name="gamble", players=("player_0", "player_1"), kinds=kinds, chance="exact", sample=None,
        level=np.array([0, 1]), over=np.array([False, True]), asked=np.array([[True, False], [False, False]]),
        view=np.array([[0, -1], [-1, -1]]), views=(Views(seen, np.ones((1, 2), bool)), nobody),
        start=np.array([0]), start_probability=np.ones(1), source=np.zeros(3, np.int64), target=np.ones(3, np.int64),
        actions=np.array([[0, -1], [0, -1], [1, -1]]), rewards=np.array([[3.0, -3.0], [-1.0, 1.0], [0.75, -0.75]]),
        probability=np.array([0.25, 0.75, 1.0]),
    )  # fmt: skip
    assert solve_positions(game).values.tolist() == [0.75, -0.75]


def test_simultaneous_moves_are_matrix_games_within_the_game() -> None:
    # Inspection: p0 first chooses between a sure 0.25 and a matrix game of value 0.4 (rows 2, 0 and 0, 0.5).
    table = [[2.0, 0.0], [0.0, 0.5]]
    paid = {(1, a, b): [table[a][b], -table[a][b]] for a in (0, 1) for b in (0, 1)}
    paid |= {(0, a, b): [0.25, -0.25] for a in (0, 1) for b in (0, 1)}
    play = scripted(paid, [[0], [0, 1]])
    assert play.values == pytest.approx([0.4, -0.4], abs=1e-9)
    mixed = play.tables[0][(play.tables[0] > 0).sum(axis=1) == 2]
    assert mixed[0] == pytest.approx([0.2, 0.8], abs=1e-9)
    assert gain_of(play) == pytest.approx(0.0, abs=1e-9)


def test_perfect_play_is_an_equilibrium_on_the_tree_as_well() -> None:
    env = {"piles": [1, 2]}
    play, tree = perfect_play("nim", env), build_tree("nim", env)
    strategy = strategy_of(tree, play.policies())
    assert expected_values(tree, strategy).tolist() == play.values.tolist()
    assert nash_conv(tree, strategy) == pytest.approx(0.0, abs=1e-12)


def test_the_command_prints_values_and_refuses_in_one_sentence() -> None:
    done = marl("solve", "nim", "--env-config", '{"piles": [1, 2, 3]}')
    assert (done.code, done.out.splitlines()[:2]) == (0, ["player_0: -1", "player_1: 1"])
    assert "positions, solved backwards" in done.out
    done = marl("solve", "nim", "--env-config", '{"piles": [1, 2]}', "--json")
    assert (done.code, json.loads(done.out)["values"]) == (0, {"player_0": 1.0, "player_1": -1.0})
    done = marl("solve", "kuhn_poker")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "no game of perfect information" in done.err


class OneChoice(MultiAgentEnv):
    """One player chooses among payoffs; the other one only pays."""

    possible_agents = ("chooser", "payer")

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.payoffs = config["payoffs"]

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(1)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(len(self.payoffs))

    def chance_outcomes(self) -> dict[None, float]:
        return {None: 1.0}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return {"chooser": 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        paid = self.payoffs[actions["chooser"]]
        return StepResult({}, {"chooser": paid, "payer": -paid}, {ALL: True}, {ALL: False}, {})


@pytest.mark.parametrize("payoffs", [(-1e10, 0.0, 0.5), (-1e6, 0.0, 0.0005), (-1.0, 1e-7, 0.0)])
def test_a_large_loss_elsewhere_hides_no_small_gain(payoffs: tuple[float, ...]) -> None:
    play = perfect_play(OneChoice, {"payoffs": payoffs})
    assert play.values.tolist() == [max(payoffs), -max(payoffs)]
    assert play.ties == 0


def test_equal_up_to_rounding_is_a_tie() -> None:
    play = perfect_play(OneChoice, {"payoffs": (0.3, 0.1 + 0.2, -5.0)})
    assert (play.ties, play.ties_that_matter) == (1, 0)


def test_a_player_who_is_never_asked_has_a_policy_too() -> None:
    assert set(perfect_play(OneChoice, {"payoffs": (1.0, 2.0)}).policies()) == {"chooser", "payer"}


def test_the_command_looks_through_fewer_positions_where_they_are_played_one_by_one() -> None:
    assert solvable_positions("tic_tac_toe") == 5_000_000
    assert solvable_positions(OneChoice, {"payoffs": (1.0, 2.0)}) == 50_000


# -- what is refused -----------------------------------------------------------------------------------------------


def test_hidden_cards_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)sees the same in positions .* no game of perfect information"):
        solve_positions(positions_of("kuhn_poker"))


def test_simultaneous_moves_without_opposed_interests_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)choose at once, and it is not .* cfr\(tree, iterations\)"):
        perfect_play("matrix_game", {"game": "prisoners_dilemma"})


def test_a_tree_that_is_too_large_says_how_positions_are_merged() -> None:
    with pytest.raises(ConfigError, match=r"(?s)more than max_nodes = 1,000\..*merge equal positions"):
        build_tree("tic_tac_toe", max_nodes=1_000)
