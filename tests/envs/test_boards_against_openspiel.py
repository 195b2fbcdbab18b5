"""Board games of ours are OpenSpiel's: the same moves, the same returns, and nobody knows more or less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.envs.batched import StepOutput
from marl.envs.registry import make_batched_env

pyspiel = pytest.importorskip("pyspiel")

HIDDEN = {
    "phantom_ttt()": ("phantom_ttt", {}),
    "phantom_ttt(gameversion=abrupt)": ("phantom_ttt", {"version": "abrupt"}),
    "dark_hex(num_rows=2,num_cols=2)": ("dark_hex", {"rows": 2, "columns": 2}),
    "dark_hex(gameversion=adh,num_rows=2,num_cols=2)": ("dark_hex", {"rows": 2, "columns": 2, "version": "abrupt"}),
    "dark_hex(num_rows=2,num_cols=3)": ("dark_hex", {"rows": 2, "columns": 3}),
    "dark_hex()": ("dark_hex", {}),
    "dark_hex(gameversion=adh)": ("dark_hex", {"version": "abrupt"}),
    "dark_hex(num_rows=4,num_cols=3)": ("dark_hex", {"rows": 4, "columns": 3}),
    "dark_hex(num_rows=4,num_cols=5)": ("dark_hex", {"rows": 4, "columns": 5}),  # too large for a table of all chains
}

OPEN = {
    "tic_tac_toe": ("tic_tac_toe", {}),
    "connect_four": ("connect_four", {}),
    "connect_four(rows=4,columns=5,x_in_row=3)": ("connect_four", {"rows": 4, "columns": 5, "connect": 3}),
    "nim(pile_sizes=1;3;5;7,is_misere=False)": ("nim", {}),
    "nim(pile_sizes=2;2;4,is_misere=True)": ("nim", {"piles": [2, 2, 4], "misere": True}),
}

SMALL_FLEET = "board_width=2,board_height=2,ship_sizes=[1;2],ship_values=[1;2]"
WIDE_FLEET = "board_width=4,board_height=3,ship_sizes=[2;3;1],ship_values=[1;2;4]"
FLEETS = {
    f"battleship({SMALL_FLEET},num_shots=3,allow_repeated_shots=False)": ("battleship", {}),
    f"battleship({WIDE_FLEET},num_shots=7,allow_repeated_shots=False,loss_multiplier=2.0)": (
        "battleship",
        {"rows": 3, "columns": 4, "ships": [2, 3, 1], "values": [1.0, 2.0, 4.0], "shots": 7, "loss_multiplier": 2.0},
    ),
}


def mover_of(frame: StepOutput, env_id: int) -> int:
    (player,) = np.flatnonzero(frame.present[env_id])
    return int(player)


def known_to(state: Any) -> str:
    """What OpenSpiel's mover knows: its board and its own moves in their order.

    The string of dark hex also counts the moves of both together. In the classical version that tells how often the other one
    has failed, which nobody may know; in the abrupt version one's own moves tell it anyway.
    """
    lines = state.information_state_string().split("\n")
    return "\n".join(line for line in lines if not line.isdigit())


@pytest.mark.parametrize("spiel", OPEN)
def test_random_games_in_the_open_go_as_in_open_spiel(spiel: str) -> None:
    played_alike(spiel, *OPEN[spiel])


@pytest.mark.parametrize("spiel", HIDDEN | FLEETS)
def test_random_games_in_the_dark_go_as_in_open_spiel(spiel: str) -> None:
    pairs = played_alike(spiel, *(HIDDEN | FLEETS)[spiel])
    ours, theirs = {a for a, _ in pairs}, {b for _, b in pairs}
    assert len(ours) == len(theirs) == len(pairs)  # what is known is the same


def played_alike(spiel: str, name: str, config: dict[str, Any]) -> set[tuple[Any, str]]:
    """Random games of both side by side. Returns what the mover knows by ours and by OpenSpiel's account."""
    num_envs, rng, game = 60, np.random.default_rng(2), pyspiel.load_game(spiel)
    env = make_batched_env(name, num_envs, config)
    frame = env.reset(np.arange(num_envs), np.arange(num_envs))
    states = [game.new_initial_state() for _ in range(num_envs)]
    histories: list[tuple[Any, ...]] = [()] * num_envs  # of both players: what was seen and played
    pairs: set[tuple[Any, str]] = set()
    while not frame.over.all():
        actions = np.zeros((num_envs, 2), np.int64)
        for env_id, state in enumerate(states):
            if state.is_terminal():
                continue
            player = mover_of(frame, env_id)
            legal = np.flatnonzero(frame.legal[0][env_id, player]).tolist()
            assert player == state.current_player()
            assert legal == state.legal_actions()
            seen = frame.obs[0][env_id, player].tobytes()
            own = tuple(step for step in histories[env_id] if step[0] == player)
            pairs.add(((player, own, seen), f"{player} {known_to(state)}"))
            action = int(rng.choice(legal))
            histories[env_id] = (*histories[env_id], (player, seen, action))
            actions[env_id, player] = action
            state.apply_action(action)
        over = frame.over
        frame = env.step([actions])
        for env_id in np.flatnonzero(~over).tolist():
            assert states[env_id].is_terminal() == frame.over[env_id]
            if frame.over[env_id]:
                assert states[env_id].returns() == frame.rewards[env_id].tolist()
    return pairs
