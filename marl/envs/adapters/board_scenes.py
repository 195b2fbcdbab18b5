"""Boards of PettingZoo's classic games as scenes: where the pieces stand, and which action a click on a place is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Cells: TypeAlias = list[list[str | None]]

MARKS = (None, "X", "O")


def board_scene(bare: Any) -> Mapping[str, Any] | None:
    """The scene of a classic board game of PettingZoo; None where it is another game. Everybody sees the whole board."""
    draw = GAMES.get(type(bare).__module__)
    return None if draw is None else draw(bare)


def _turn(bare: Any) -> str | None:
    """Whose move it is; None when the game is over."""
    over = not bare.agents or all(bare.terminations.values())
    return None if over else str(bare.agent_selection)


def tictactoe(bare: Any) -> Mapping[str, Any]:
    """Squares count down the columns, as the env does."""
    marks = bare.board.squares
    cells = [[MARKS[marks[3 * column + row]] for column in range(3)] for row in range(3)]
    turn = _turn(bare)
    actions: dict[str, int] = {}
    for square in bare.board.legal_moves():
        if turn is not None:
            column, row = divmod(square, 3)
            actions[f"{row},{column}"] = square
    return _scene("Tic-tac-toe", cells, turn, bare.possible_agents, actions=actions, wins=3)


def connect_four(bare: Any) -> Mapping[str, Any]:
    """A disc falls to the lowest free cell of its column: that cell is the place of the column's action."""
    cells = [[MARKS[bare.board[7 * row + column]] for column in range(7)] for row in range(6)]
    turn = _turn(bare)
    actions: dict[str, int] = {}
    for column in range(7):
        free = [row for row in range(6) if cells[row][column] is None]
        if free and turn is not None:
            actions[f"{max(free)},{column}"] = column
    return _scene("Connect four", cells, turn, bare.possible_agents, actions=actions, wins=4, style="holes")


def go(bare: Any) -> Mapping[str, Any]:
    """Stones stand on the crossings. Passing is the action after the last crossing; it has no place on the board."""
    stones = {1: "X", -1: "O", 0: None}  # black moves first
    size = len(bare._go.board)
    cells: Cells = [[stones[int(stone)] for stone in row] for row in bare._go.board]
    turn = _turn(bare)
    actions: dict[str, int] = {}
    for crossing in bare.next_legal_moves:
        if turn is not None and crossing < size * size:
            row, column = divmod(int(crossing), size)
            actions[f"{row},{column}"] = int(crossing)
    last = []
    if bare._go.recent and bare._go.recent[-1].move is not None:
        last = [list(bare._go.recent[-1].move)]
    return _scene("Go", cells, turn, bare.possible_agents, actions=actions, style="points") | {"last": last}


def chess(bare: Any) -> Mapping[str, Any]:
    """White at the bottom. A place is where a piece comes from and where it goes to: ``"6,4>4,4"``."""
    board = bare.board
    cells: Cells = [[None] * 8 for _ in range(8)]
    for square, piece in board.piece_map().items():
        row, column = _chess_place(square)
        cells[row][column] = piece.unicode_symbol()
    last = []
    if board.move_stack:
        move = board.peek()
        last = [_chess_place(move.from_square), _chess_place(move.to_square)]
    turn = _turn(bare)
    actions = {} if turn is None else _chess_actions(board)
    return _scene("Chess", cells, turn, bare.possible_agents, actions=actions, style="chess") | {"last": last}


def _chess_place(square: int) -> list[int]:
    return [7 - square // 8, square % 8]


def _chess_actions(board: Any) -> dict[str, int]:
    from pettingzoo.classic.chess import chess_utils

    actions: dict[str, int] = {}
    player = int(not board.turn)
    for number in chess_utils.legal_moves(board):
        move = chess_utils.action_to_move(board, number, player)
        (row, column), (to_row, to_column) = _chess_place(move.from_square), _chess_place(move.to_square)
        key = f"{row},{column}>{to_row},{to_column}"
        is_queen = move.promotion in (None, 5)  # of the promotions only the one to a queen has a place
        if is_queen:
            actions[key] = int(number)
    return actions


GAMES: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "pettingzoo.classic.tictactoe.tictactoe": tictactoe,
    "pettingzoo.classic.connect_four.connect_four": connect_four,
    "pettingzoo.classic.go.go": go,
    "pettingzoo.classic.chess.chess": chess,
}


# -- what boards share -------------------------------------------------------------------------------------------------


def _scene(
    title: str,
    cells: Cells,
    turn: str | None,
    players: Sequence[str],
    *,
    actions: Mapping[str, int],
    wins: int = 0,
    style: str = "squares",
) -> dict[str, Any]:
    piece = None
    if turn is not None:
        piece = MARKS[1 + list(players).index(turn)]
    line = winning_line(cells, wins)
    return {
        "kind": "board",
        "text": told(title, cells, turn, line),
        "rows": len(cells),
        "columns": len(cells[0]),
        "cells": cells,
        "style": style,
        "line": line,
        "turn": turn,
        "piece": piece,
        "actions": dict(actions),
    }


def winning_line(cells: Cells, length: int) -> list[list[int]]:
    """The first row, column or diagonal of so many equal pieces; empty where there is none."""
    rows, columns = len(cells), len(cells[0])
    starts = [(row, column) for row in range(rows) for column in range(columns) if cells[row][column] is not None]
    for row, column in starts:
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            places = [[row + k * down, column + k * right] for k in range(length)]
            inside = all(0 <= r < rows and 0 <= c < columns for r, c in places)
            if places and inside and len({cells[r][c] for r, c in places}) == 1:
                return places
    return []


def told(title: str, cells: Cells, turn: str | None, line: Sequence[Sequence[int]]) -> str:
    """The board in a sentence: how many pieces, whose turn or who has won."""
    pieces = [piece for row in cells for piece in row if piece is not None]
    state = f"{turn} is to move"
    if turn is None:
        state = "the game is over"
    if line:
        row, column = line[0]
        state = f"{cells[row][column]} has {len(line)} in a row"
    return f"{title} with {len(pieces)} pieces on the board; {state}."
