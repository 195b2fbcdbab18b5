"""Kuhn poker, Leduc poker and liar's dice: rules, deals, what players see, mistakes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import marl
from marl.envs.check import check_env
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.games.cards.kuhn import KuhnGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames, all_hands
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, EnvError
from tests.envs.card_trees import nodes, random_moves

GAMES: list[tuple[type[DealtEnv], dict[str, Any]]] = [
    (KuhnGames, {}),
    (KuhnGames, {"players": 3}),
    (LeducGames, {}),
    (LeducGames, {"ranks": 2}),
    (LeducGames, {"suit_isomorphism": True}),
    (LeducGames, {"ranks": 2, "players": 3}),
    (LiarsDiceGames, {"sides": 2}),
    (LiarsDiceGames, {}),
    (LiarsDiceGames, {"dice": 2, "sides": 4}),
    (LiarsDiceGames, {"sides": 3, "players": 3}),
]
on_every_game = pytest.mark.parametrize(
    ("game", "config"), GAMES, ids=[f"{g.name}-{'-'.join(f'{k}{v}' for k, v in c.items())}" for g, c in GAMES]
)


def played(game: type[DealtEnv], deal: int, moves: list[int], **config: Any) -> tuple[DealtEnv, Any]:
    """One copy after some moves, and its last frame."""
    env = game(1, config)
    frame = env.reset_to(np.array([0]), np.array([deal]))
    for move in moves:
        frame = env.step([np.full((1, env.kinds[0].size), move)])
    return env, frame


def rewards(game: type[DealtEnv], deal: int, moves: list[int]) -> list[float]:
    _, frame = played(game, deal, moves)
    assert frame.over[0]
    return frame.rewards[0].tolist()


# -- rules -----------------------------------------------------------------------------------------------------------


@on_every_game
def test_the_env_keeps_its_contract(game: type[DealtEnv], config: dict[str, Any]) -> None:
    assert check_env(game.name, config) == []


@on_every_game
def test_probabilities_of_deals_sum_to_one(game: type[DealtEnv], config: dict[str, Any]) -> None:
    chances = game(1, config).deal_probabilities
    assert chances.dtype == np.float64
    assert chances.min() > 0
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)


def test_kuhn_pays_one_after_a_fold_or_two_passes_and_two_after_two_bets() -> None:
    jack_queen, king_jack = 0, 4  # deals in the order JQ JK QJ QK KJ KQ
    assert rewards(KuhnGames, jack_queen, [0, 0]) == [-1, 1]
    assert rewards(KuhnGames, jack_queen, [1, 0]) == [1, -1]
    assert rewards(KuhnGames, jack_queen, [1, 1]) == [-2, 2]
    assert rewards(KuhnGames, king_jack, [0, 1, 0]) == [-1, 1]
    assert rewards(KuhnGames, king_jack, [0, 1, 1]) == [2, -2]


def test_only_the_player_to_move_is_asked_and_both_end_together() -> None:
    assert [played(KuhnGames, 0, moves)[1].present[0].tolist() for moves in ([], [0], [0, 1])] == [
        [True, False],
        [False, True],
        [True, False],
    ]
    _, frame = played(KuhnGames, 0, [0, 1, 1])
    assert frame.terminated.tolist() == [[True, True]]
    assert not frame.present.any()
    assert not frame.truncated.any()
    _, frame = played(KuhnGames, 0, [0, 1])
    assert not frame.rewards.any()
    assert not frame.terminated.any()


def test_uniform_play_of_kuhn_is_worth_an_eighth_to_the_first_player() -> None:
    # Showdowns cancel out over the six deals; pass-bet-pass loses 1 with chance 1/8, bet-pass wins 1 with chance 1/4.
    chance = {2: Fraction(1, 4), 3: Fraction(1, 8)}
    ends = [node for node in nodes(KuhnGames, {}) if node.over]
    assert sum(Fraction(1, 6) * chance[len(n.history)] * Fraction(n.rewards[0]) for n in ends) == Fraction(1, 8)


def test_leduc_pays_by_pair_then_rank_and_splits_equal_ranks() -> None:
    deals = {tuple(cards): row for row, cards in enumerate(np.hstack([_leduc().cards, _leduc().board]).tolist())}
    call, bet = 1, 2
    dear = [bet, bet, call, bet, bet, call]  # 1 + 2 + 2 and 4 + 4 from both
    assert rewards(LeducGames, deals[0, 4, 1], dear) == [13, -13]  # a pair of jacks beats a king
    assert rewards(LeducGames, deals[2, 4, 1], dear) == [-13, 13]  # queen, king
    assert rewards(LeducGames, deals[4, 5, 1], dear) == [0, 0]  # two kings
    assert rewards(LeducGames, deals[4, 0, 2], [bet, 0]) == [1, -1]
    assert rewards(LeducGames, deals[4, 0, 2], [bet, bet, 0]) == [-3, 3]
    assert rewards(LeducGames, deals[4, 0, 2], [call, call, call, bet, 0]) == [-1, 1]


def test_three_players_of_leduc_play_on_when_one_has_folded() -> None:
    rules = LeducGames(1, {"players": 3, "ranks": 4}).rules
    deals = {tuple(cards): row for row, cards in enumerate(np.hstack([rules.cards, rules.board]).tolist())}
    deal = deals[0, 2, 6, 1]  # player_0 will have a pair
    fold, call, bet = 0, 1, 2
    env, frame = played(LeducGames, deal, [bet, bet, fold, call, call], players=3, ranks=4)
    assert frame.present.tolist() == [[False, True, False]]
    env, frame = played(LeducGames, deal, [bet, bet, fold, call, call, bet, call], players=3, ranks=4)
    assert frame.rewards.tolist() == [[10, -9, -1]]  # 5 and 4 from player_1, the ante of player_2
    hidden = env.scene(0, "player_1")["players"]
    assert [player["cards"] for player in hidden] == [["10♠"], ["J♠"], [None]]  # who folded shows nothing


def test_the_second_round_begins_with_the_first_player_who_has_not_folded() -> None:
    fold, call, bet = 0, 1, 2
    _, frame = played(LeducGames, 0, [call, bet, call, fold], players=3, ranks=4)
    assert frame.obs[0][0, 0, 3 + 8 : 3 + 16].any()  # the card on the table is seen
    assert frame.present.tolist() == [[False, True, False]]


def test_two_who_hold_the_best_rank_share_the_pot_of_three() -> None:
    rules = LeducGames(1, {"players": 3, "ranks": 4}).rules
    deals = {tuple(cards): row for row, cards in enumerate(np.hstack([rules.cards, rules.board]).tolist())}
    _, frame = played(LeducGames, deals[6, 2, 7, 0], [1] * 6, players=3, ranks=4)
    assert frame.rewards.tolist() == [[0.5, -1, 0.5]]


def _leduc() -> Any:
    return LeducGames(1, {}).rules


@pytest.mark.parametrize(
    ("moves", "legal"),
    [([], [1, 2]), ([1], [1, 2]), ([2], [0, 1, 2]), ([2, 2], [0, 1]), ([1, 2, 2], [0, 1]), ([2, 1], [1, 2])],
)
def test_leduc_forbids_folding_for_free_and_a_third_raise(moves: list[int], legal: list[int]) -> None:
    _, frame = played(LeducGames, 0, moves)
    (player,) = np.flatnonzero(frame.present[0])
    assert np.flatnonzero(frame.legal[0][0, player]).tolist() == legal


def test_the_card_on_the_table_is_seen_from_the_second_round_on() -> None:
    first, second = played(LeducGames, 7, [2])[1], played(LeducGames, 7, [2, 1])[1]
    board = slice(8, 14)  # behind who (2) and the own card (6)
    assert not first.obs[0][0, :, board].any()
    assert second.obs[0][0, :, board].argmax(axis=1).tolist() == [_leduc().board[7, 0]] * 2
    assert second.obs[0][0, :, board].sum() == 2


@pytest.mark.parametrize(
    ("dice", "bid", "true"),
    [
        ((2, 5), (1, 2), True),
        ((2, 5), (2, 2), False),
        ((2, 6), (2, 2), True),  # sixes are wild
        ((6, 6), (2, 6), True),
        ((2, 6), (2, 6), False),
        ((1, 6), (1, 4), True),
        ((1, 3), (1, 4), False),
    ],
)
def test_a_bid_in_liars_dice_counts_the_face_and_the_wild_sixes(
    dice: tuple[int, int], bid: tuple[int, int], true: bool
) -> None:
    hands, _ = all_hands(1, 6)
    first, second = (int(np.flatnonzero(hands[:, face - 1])[0]) for face in dice)
    action = (bid[0] - 1) * 6 + bid[1] - 1
    assert rewards(LiarsDiceGames, first * 6 + second, [action, 12]) == ([1, -1] if true else [-1, 1])


def test_of_three_players_only_the_caller_and_the_bidder_win_or_lose() -> None:
    _, frame = played(LiarsDiceGames, 0, [0, 1, 9], sides=3, players=3)  # all show a one; player_1 bid a two
    assert frame.rewards.tolist() == [[0, -1, 1]]
    _, frame = played(LiarsDiceGames, 0, [0, 6, 9], sides=3, players=3)  # three ones
    assert frame.rewards.tolist() == [[0, 1, -1]]


def test_two_dice_show_a_mixed_pair_twice_as_often_as_a_double() -> None:
    hands, chances = all_hands(2, 6)
    doubles = (hands == 2).any(axis=1)
    assert len(hands) == 21
    assert chances[doubles] == pytest.approx(1 / 36)
    assert chances[~doubles] == pytest.approx(2 / 36)


# -- what players see ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "config", "sets"),
    [
        (KuhnGames, {}, [6, 6]),
        (LeducGames, {}, [468, 468]),
        (LeducGames, {"suit_isomorphism": True}, [144, 144]),
        (LiarsDiceGames, {"sides": 2}, [2 * 8, 2 * 8]),
    ],
)
def test_the_number_of_information_sets_is_known(game: type[DealtEnv], config: dict[str, Any], sets: list[int]) -> None:
    """Liar's dice with four bids: 16 sets of bids were made, half of them with player 0 to move, for two dice each."""
    seen = {(node.player, node.seen) for node in nodes(game, config) if not node.over}
    assert [sum(player == p for player, _ in seen) for p in (0, 1)] == sets


@pytest.mark.parametrize(("game", "config"), GAMES[:7])
def test_rewards_of_every_end_sum_to_zero_and_only_leduc_for_two_knows_a_draw(
    game: type[DealtEnv], config: dict[str, Any]
) -> None:
    ends = np.array([node.rewards for node in nodes(game, config) if node.over])
    assert not ends.sum(axis=1).any()
    assert bool((ends == 0).all(axis=1).any()) == (game is LeducGames and config.get("players") is None)


# -- deals and copies -------------------------------------------------------------------------------------------------


def test_deals_follow_their_probabilities_and_the_seed_alone() -> None:
    env = make_batched_env("liars_dice", 36_000, {"dice": 2, "sides": 3})
    assert isinstance(env, LiarsDiceGames)
    env.reset(np.arange(36_000), np.arange(36_000))
    expected = env.deal_probabilities * 36_000
    counts = np.bincount(env.deal, minlength=len(expected))
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected)).all()
    few = LiarsDiceGames(2, {"dice": 2, "sides": 3})
    few.reset(np.array([1]), np.array([777]))
    assert few.deal[1] == env.deal[777]


@on_every_game
def test_many_lanes_play_as_each_would_alone(game: type[DealtEnv], config: dict[str, Any]) -> None:
    rng, seeds = np.random.default_rng(0), np.arange(40)
    crowd = game(40, config)
    alone = [game(1, config) for _ in seeds]
    frame = crowd.reset(seeds, seeds)
    for one, seed in zip(alone, seeds, strict=True):
        one.reset(np.array([0]), seeds[seed : seed + 1])
    while not frame.over.all():
        actions = random_moves(crowd, frame, rng)
        over, frame = frame.over, crowd.step([actions])
        for env_id in np.flatnonzero(~over):
            single = alone[env_id].step([actions[env_id : env_id + 1]])
            np.testing.assert_array_equal(single.obs[0][0], frame.obs[0][env_id])
            np.testing.assert_array_equal(single.rewards[0], frame.rewards[env_id])
            np.testing.assert_array_equal(single.legal[0][0], frame.legal[0][env_id])
            assert single.over[0] == frame.over[env_id]


def test_a_lane_can_be_rendered_as_text() -> None:
    assert played(KuhnGames, 0, [0, 1])[0].render(0) == (
        "Kuhn poker; cards: player_0 J, player_1 Q; moves: pass, bet; player_0 to move"
    )
    assert played(LeducGames, 0, [2, 1, 1])[0].render(0) == (
        "Leduc poker; cards: player_0 Ja, player_1 Jb; table: Qa; moves: raise, call / call; put in: 3 and 3; "
        "player_1 to move"
    )
    assert played(LiarsDiceGames, 11, [1, 8, 12])[0].render(0) == (
        "Liar's dice; dice: player_0 2, player_1 6; bids: 1 x 2, 2 x 3; player_0 called liar"
    )


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "moves", "text"),
    [
        (LeducGames, [0], "'player_0' played action 0 in env 0, which is not legal now. Legal: 1, 2"),
        (LeducGames, [2, 2, 2], "'player_0' played action 2"),
        (LiarsDiceGames, [12], "'player_0' played action 12"),
        (LiarsDiceGames, [5, 5], "'player_1' played action 5"),
        (KuhnGames, [0, 2], "'player_1' played action 2 in env 0, which is not legal now. Legal: 0, 1"),
    ],
)
def test_an_illegal_move_is_refused_with_the_legal_ones(game: type[DealtEnv], moves: list[int], text: str) -> None:
    with pytest.raises(EnvError, match=text):
        played(game, 0, moves)


@pytest.mark.parametrize("deal", [-1, 6])
def test_a_deal_that_does_not_exist_is_refused(deal: int) -> None:
    with pytest.raises(EnvError, match=f"no deal {deal}. Deals are numbered from 0 to 5"):
        KuhnGames(2, {}).reset_to(np.array([0, 1]), np.array([0, deal]))


@pytest.mark.parametrize(
    ("name", "config", "text"),
    [
        ("kuhn_poker", {"players": 6}, "players = 6"),
        ("leduc_poker", {"ranks": 1}, "ranks = 1"),
        ("leduc_poker", {"ranks": 2, "players": 4}, "ranks = 2 make 4 cards; 4 players and the table need 5"),
        ("liars_dice", {"dice": 6}, "dice = 6"),
        ("liars_dice", {"dice": 3, "players": 4}, "have 9,834,496 deals, more than the 1,000,000 that are listed"),
        ("liars_dice", {"side": 6}, "unknown key 'side'. Did you mean 'sides'"),
    ],
)
def test_a_wrong_key_is_named(name: str, config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        marl.make_env(name, config)
