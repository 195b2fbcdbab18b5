"""Games of OpenSpiel as scenes: boards and cards of some, the text of the others.

A viewer of a game with hidden cards is shown its own information state, never the whole state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marl.data.task import AgentID
from marl.envs.adapters.board_scenes import Cells, told, winning_line
from marl.envs.games.cards.hands import Seat
from marl.envs.games.cards.kuhn import kuhn_table
from marl.envs.games.cards.leduc import leduc_table
from marl.envs.games.cards.leduc_course import replay

PIECES = {"x": "X", "o": "O"}  # all others are empty cells
RANKS = ("J", "Q", "K")
LEDUC_MOVES = {"Fold": 0, "Call": 1, "Raise": 2}


def openspiel_scene(game: Any, state: Any, agents: Sequence[AgentID], viewer: AgentID | None) -> Mapping[str, Any]:
    """Drawn where we know how, else read."""
    name = game.get_type().short_name
    draw = GAMES.get(name)
    found = None if draw is None else draw(state, agents, viewer)
    if found is not None:
        return found
    return {"kind": "text", "text": _read(game, state, agents, viewer)}


def _read(game: Any, state: Any, agents: Sequence[AgentID], viewer: AgentID | None) -> str:
    sort = game.get_type()
    everything_is_seen = "PERFECT_INFORMATION" in str(sort.information) and "IMPERFECT" not in str(sort.information)
    if viewer is None or everything_is_seen:
        return str(state)
    if viewer not in agents:
        return "The state of the game is hidden."
    player = list(agents).index(viewer)
    if sort.provides_information_state_string:
        return str(state.information_state_string(player))
    if sort.provides_observation_string:
        return str(state.observation_string(player))
    return "The state of the game is hidden."


# -- boards ------------------------------------------------------------------------------------------------------------


def _turn(state: Any, agents: Sequence[AgentID]) -> AgentID | None:
    return None if state.is_terminal() else agents[state.current_player()]


def _board(state: Any, agents: Sequence[AgentID], title: str, cells: Cells, wins: int) -> dict[str, Any]:
    turn = _turn(state, agents)
    line = winning_line(cells, wins)
    piece = None
    if turn is not None:
        piece = ("X", "O")[state.current_player()]
    return {
        "kind": "board",
        "text": told(title, cells, turn, line),
        "rows": len(cells),
        "columns": len(cells[0]),
        "cells": cells,
        "line": line,
        "turn": turn,
        "piece": piece,
        "actions": {},
    }


def _rows_of(lines: Sequence[str]) -> Cells:
    return [[PIECES.get(letter) for letter in line] for line in lines]


def tic_tac_toe(state: Any, agents: Sequence[AgentID], viewer: AgentID | None) -> Mapping[str, Any]:
    """Also m,n,k games: actions count along the rows."""
    del viewer  # everybody sees the board
    cells = _rows_of(str(state).split())
    wins = 3 if len(cells) == 3 else 5
    scene = _board(state, agents, "Tic-tac-toe" if wins == 3 else "m,n,k game", cells, wins)
    for action in state.legal_actions():
        row, column = divmod(action, len(cells[0]))
        scene["actions"][f"{row},{column}"] = action
    return scene


def connect_four(state: Any, agents: Sequence[AgentID], viewer: AgentID | None) -> Mapping[str, Any]:
    """An action is a column; its place is the cell to which the disc falls."""
    del viewer
    cells = _rows_of(str(state).split())
    scene = _board(state, agents, "Connect four", cells, 4) | {"style": "holes"}
    for column in state.legal_actions():
        free = [row for row in range(len(cells)) if cells[row][column] is None]
        scene["actions"][f"{max(free)},{column}"] = column
    return scene


def othello(state: Any, agents: Sequence[AgentID], viewer: AgentID | None) -> Mapping[str, Any]:
    """Actions count along the rows; the one after the last is passing."""
    del viewer
    lines: list[str] = []
    for line in str(state).splitlines():
        words = line.split()
        if words and words[0].isdigit():
            lines.append("".join(words[1:-1]))
    cells = _rows_of(lines)
    scene = _board(state, agents, "Othello", cells, 0)
    for action in state.legal_actions():
        row, column = divmod(action, len(cells))
        if row < len(cells):
            scene["actions"][f"{row},{column}"] = action
    return scene


# -- cards -------------------------------------------------------------------------------------------------------------


def kuhn(state: Any, agents: Sequence[AgentID], viewer: AgentID | None) -> Mapping[str, Any] | None:
    """The first moves of a history are the deal."""
    players = len(agents)
    if players + 1 > len(RANKS):
        return None
    history = state.history()
    cards = [RANKS[card] for card in history[:players]]
    payoffs = state.returns() if state.is_terminal() else None
    return kuhn_table(cards, tuple(history[players:]), payoffs).scene(viewer)


def leduc(state: Any, agents: Sequence[AgentID], viewer: AgentID | None) -> Mapping[str, Any] | None:
    """From the lines of its text: cards by number, two of each rank, and the moves of both rounds."""
    said: dict[str, str] = {}
    for line in str(state).splitlines():
        title, _, value = line.partition(":")
        said[title.split(" (")[0]] = value
    public, *held = map(int, said["Cards"].split())
    if max(public, *held) >= 2 * len(RANKS):
        return None
    moves = f"{said['Round 1 sequence']} {said['Round 2 sequence']}".replace(",", " ")
    history = tuple(LEDUC_MOVES[word] for word in moves.split())
    seats: list[Seat] = []
    for agent, card, won in zip(agents, held, state.returns(), strict=True):
        seats.append(Seat(agent, cards=[_leduc_card(card)], won=won if state.is_terminal() else None))
    board = _leduc_card(public) if public >= 0 else None
    return leduc_table(seats, board, replay(history, len(agents))).scene(viewer)


def _leduc_card(card: int) -> str:
    return f"{RANKS[card // 2]}{'♠♥'[card % 2]}"


GAMES: dict[str, Callable[[Any, Sequence[AgentID], AgentID | None], Mapping[str, Any] | None]] = {
    "tic_tac_toe": tic_tac_toe,
    "mnk": tic_tac_toe,
    "connect_four": connect_four,
    "othello": othello,
    "kuhn_poker": kuhn,
    "leduc_poker": leduc,
}
