"""Kuhn poker, Leduc poker and liar's dice are OpenSpiel's: the same moves, the same information, the same returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.games.cards.kuhn import KuhnGames
from marl.envs.games.cards.leduc import LeducGames
from marl.envs.games.cards.liars_dice import LiarsDiceGames
from tests.envs.card_trees import History, nodes, random_moves

pyspiel = pytest.importorskip("pyspiel")


def open_spiel_state(env: DealtEnv, spiel: str, deal: int, history: History) -> Any:
    """OpenSpiel's state after the same deal and the same moves."""
    if isinstance(env, LiarsDiceGames):
        hands = env.hands[list(np.unravel_index(deal, (len(env.hands),) * env.players))]
        chance = np.concatenate([np.repeat(np.arange(env.sides), hand) for hand in hands]).tolist()
    else:
        assert isinstance(env, KuhnGames | LeducGames)
        chance = [*env.rules.cards[deal].tolist(), *env.rules.board[deal].tolist()]
    state = pyspiel.load_game(spiel).new_initial_state()
    for move in (*history, None):
        while state.is_chance_node():
            state.apply_action(chance.pop(0))
        if move is not None:
            state.apply_action(move)
    return state


@pytest.mark.parametrize(
    ("game", "config", "spiel"),
    [
        (KuhnGames, {}, "kuhn_poker"),
        (KuhnGames, {"players": 3}, "kuhn_poker(players=3)"),
        (LeducGames, {}, "leduc_poker"),
        (LeducGames, {"suit_isomorphism": True}, "leduc_poker(suit_isomorphism=True)"),
        (LiarsDiceGames, {"sides": 3}, "liars_dice(dice_sides=3)"),
    ],
)
def test_the_whole_game_is_open_spiels(game: type[DealtEnv], config: dict[str, Any], spiel: str) -> None:
    env, pairs = game(1, config), set()
    for node in nodes(game, config):
        state = open_spiel_state(env, spiel, node.deal, node.history)
        assert state.is_terminal() == node.over
        if node.over:
            assert tuple(state.returns()) == node.rewards
        else:
            assert state.current_player() == node.player
            assert tuple(state.legal_actions()) == node.legal
            pairs.add(((node.player, node.seen), (node.player, state.information_state_string())))
    ours, theirs = {a for a, _ in pairs}, {b for _, b in pairs}
    assert len(ours) == len(theirs) == len(pairs)  # one to one


@pytest.mark.parametrize(
    ("game", "config", "spiel"),
    [
        (LiarsDiceGames, {}, "liars_dice"),
        (LiarsDiceGames, {"dice": 2, "sides": 4}, "liars_dice(numdice=2,dice_sides=4)"),
        (LiarsDiceGames, {"dice": 2}, "liars_dice(numdice=2)"),
        (LeducGames, {"players": 3, "ranks": 4}, "leduc_poker(players=3)"),
        (LeducGames, {"players": 4, "ranks": 5}, "leduc_poker(players=4)"),
    ],
)
def test_random_games_go_as_in_open_spiel(game: type[DealtEnv], config: dict[str, Any], spiel: str) -> None:
    copies = 200
    env, rng = game(copies, config), np.random.default_rng(1)
    frame = env.reset(np.arange(copies), np.arange(copies))
    histories: list[History] = [()] * copies
    pairs: set[tuple[bytes, str]] = set()
    checked = 0
    while not frame.over.all():
        actions, over = random_moves(env, frame, rng), frame.over
        mover = frame.present.argmax(axis=1)
        frame = env.step([actions])
        for env_id in np.flatnonzero(~over).tolist():
            histories[env_id] = (*histories[env_id], int(actions[env_id, mover[env_id]]))
            state = open_spiel_state(env, spiel, int(env.deal[env_id]), histories[env_id])
            assert state.is_terminal() == frame.over[env_id]
            if state.is_terminal():
                assert state.returns() == frame.rewards[env_id].tolist()
                checked += 1
                continue
            player = state.current_player()
            assert frame.present[env_id, player]
            assert np.flatnonzero(frame.legal[0][env_id, player]).tolist() == state.legal_actions()
            pairs.add((frame.obs[0][env_id, player].tobytes(), f"{player} {state.information_state_string()}"))
    ours, theirs = {a for a, _ in pairs}, {b for _, b in pairs}
    assert len(ours) == len(theirs) == len(pairs)  # equal observations where the information is equal
    assert checked == copies
