"""Battleship on a small board: hide your ships, then shoot at those of the other one.

In turn the players lay their ships, from the first length to the last; nobody sees where the other one's lie. Then they shoot
in turn, ``player_0`` first, never twice at the same cell, and are told *water*, *hit*, or *sunk* with the last hit on a ship.
The game ends after ``shots`` shots of each, or as soon as all ships of a player are sunk. A player gets the values of the
ships it has sunk, less ``loss_multiplier`` times the values of those it has lost.

Actions: the first ``cells`` are shots; then come the places of a ship to the right of a cell, then those downwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from marl.config import Config
from marl.data.task import AgentID, Bools, Floats, Ints
from marl.envs.games.boards.drawing import Cells, board_scene, board_text, cell_names, clicks, rows_of
from marl.envs.games.boards.ships import MOST_CELLS, places_of
from marl.envs.games.boards.two_players import PLAYERS, TwoPlayerBoards

NOWHERE = -1  # a ship that is still to be laid
WATER, HIT, SUNK = 1, 2, 3
SIGNS = (None, "~", "*", "#")  # of shots: none, water, hit, sunk
Length: TypeAlias = Annotated[int, Field(ge=1, le=8)]


class BattleshipConfig(Config):
    """Keys of ``env_config``."""

    rows: int = Field(2, ge=1, le=8, description="Rows of the board.")
    columns: int = Field(2, ge=1, le=8, description=f"Columns of the board, which has at most {MOST_CELLS} cells.")
    ships: list[Length] = Field([1, 2], min_length=1, max_length=4, description="Lengths of each player's ships.")
    values: list[PositiveFloat] = Field([1.0, 2.0], description="What sinking each ship is worth.")
    shots: int = Field(3, ge=1, description="Shots of each player, at most as many as cells.")
    loss_multiplier: float = Field(1.0, ge=0, description="What losing a ship costs, in its values; 1: zero-sum.")

    @model_validator(mode="after")
    def _all_fits(self) -> BattleshipConfig:
        cells = self.rows * self.columns
        if cells > MOST_CELLS:
            raise ValueError(
                f"a board of {self.rows} x {self.columns} has {cells} cells; expected at most {MOST_CELLS}"
            )
        if len(self.values) != len(self.ships):
            raise ValueError(f"there are {len(self.ships)} ships but {len(self.values)} values; give each ship a value")
        if self.shots > cells:
            raise ValueError(f"shots is {self.shots}, but the board has only {cells} cells")
        if not places_of(self.rows, self.columns, tuple(self.ships)).room[0, 0]:
            raise ValueError(f"ships of lengths {self.ships} do not fit on a board of {self.rows} x {self.columns}")
        return self


class Battleship(TwoPlayerBoards):
    """``num_envs`` games. A player knows its ships, what it was told of its shots, and where it was shot at."""

    config_class = BattleshipConfig

    name = "battleship"
    title = "Battleship"
    state_arrays = ("ships", "shots", "over")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs, self.config = num_envs, BattleshipConfig(**env_config)
        config = self.config
        self.cells, self.fleet = config.rows * config.columns, len(config.ships)
        self.places = places_of(config.rows, config.columns, tuple(config.ships))
        # The last place is no place: ships that are not laid yet are looked up there.
        self.covers = np.concatenate([self.places.covers, np.zeros((self.fleet, 1), np.int64)], axis=1)
        known = self.fleet * self.cells + 4 * self.cells
        self.state_size = 2 * known
        self._seat(known, 3 * self.cells)
        self.ships = np.full((num_envs, 2, self.fleet), NOWHERE, np.int8)
        self.shots = np.zeros((num_envs, 2, self.cells), np.int8)  # what each was told of its own shots

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds
        self.ships[env_ids] = NOWHERE
        self.shots[env_ids] = 0
        self.over[env_ids] = False

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _laid(self) -> Ints:
        """``[E]``: ships of both that lie somewhere."""
        laid: Ints = (self.ships != NOWHERE).sum(axis=(1, 2))
        return laid

    def _mover(self) -> Ints:
        mover: Ints = (self._laid() + np.count_nonzero(self.shots, axis=(1, 2))) % 2
        return mover

    def _covered(self) -> Ints:
        """``[E, 2, S]``: the cells of each ship, as bit masks."""
        return self.covers[np.arange(self.fleet), self.ships]

    def _legal(self, mover: Ints) -> Bools:
        env_ids, laid = np.arange(self.num_envs), self._laid()
        shooting = laid == 2 * self.fleet
        # Ships do not overlap, so the masks add up to the cells that are taken.
        taken = self._covered()[env_ids, mover].sum(axis=1)
        ship = np.minimum(laid // 2, self.fleet - 1)  # means nothing while shooting
        legal = np.empty((self.num_envs, 3 * self.cells), bool)
        legal[:, : self.cells] = (self.shots[env_ids, mover] == 0) & shooting[:, None]
        legal[:, self.cells :] = self.places.legal(ship, taken) & ~shooting[:, None]
        return legal

    def _move(self, env_ids: Ints, who: Ints, moves: Ints) -> None:
        laying = moves >= self.cells
        ship = self._laid()[env_ids] // 2
        self.ships[env_ids[laying], who[laying], ship[laying]] = moves[laying] - self.cells
        shooting = ~laying
        self._shoot(env_ids[shooting], who[shooting], moves[shooting])

    def _shoot(self, env_ids: Ints, who: Ints, cell: Ints) -> None:
        targets = self._covered()[env_ids, 1 - who]  # [N, S]
        met = targets >> cell[:, None] & 1 == 1
        self.shots[env_ids, who, cell] = np.where(met.any(axis=1), HIT, WATER)
        # A ship is sunk by the shot that leaves no cell of it, and only that shot is told so.
        sunk = self._sunk()[env_ids, 1 - who] & met
        last = sunk.any(axis=1)
        self.shots[env_ids[last], who[last], cell[last]] = SUNK

    def _sunk(self) -> Bools:
        """``[E, 2, S]``: whose ships have been hit in all of their cells."""
        covered = self._covered()
        shot_at = (self.shots != 0)[:, ::-1] @ (1 << np.arange(self.cells))  # [E, 2]: cells, as bit masks
        sunk: Bools = (covered != 0) & (covered & ~shot_at[:, :, None] == 0)
        return sunk

    def _outcome(self) -> tuple[Floats, Bools]:
        sunk = self._sunk()
        lost = sunk @ np.array(self.config.values, np.float32)  # [E, 2]
        fired = np.count_nonzero(self.shots, axis=2)
        beaten = sunk.all(axis=2)  # [E, 2]
        over: Bools = beaten.max(axis=1) | (fired == self.config.shots).all(axis=1)
        return lost[:, ::-1] - np.float32(self.config.loss_multiplier) * lost, over

    def _known(self) -> Floats:
        own = self._covered()[:, :, :, None] >> np.arange(self.cells) & 1  # [E, 2, S, cells]
        told = self.shots[:, :, None] == np.array([WATER, HIT, SUNK])[:, None]  # [E, 2, 3, cells]
        shot_at = (self.shots != 0)[:, ::-1, None]
        known = np.concatenate([own, told, shot_at], axis=2, dtype=np.float32, casting="unsafe")
        return known.reshape(self.num_envs, 2, -1)

    # -- drawings ------------------------------------------------------------------------------------------------------

    def _fleet(self, env_id: int, player: int) -> Cells:
        """A player's ships as letters, large where they are hit; shots into the water beside them."""
        signs: list[str | None] = [None] * self.cells
        shot_at = self.shots[env_id, 1 - player]
        for cell in np.flatnonzero(shot_at).tolist():
            signs[cell] = SIGNS[WATER]
        for ship, cover in enumerate(self._covered()[env_id, player].tolist()):
            for cell in np.flatnonzero(cover >> np.arange(self.cells) & 1).tolist():
                letter = "abcd"[ship]
                signs[cell] = letter.upper() if shot_at[cell] else letter
        return rows_of(signs, self.config.columns)

    def _aims(self, env_id: int, player: int) -> Cells:
        """What a player was told of its shots."""
        return rows_of([SIGNS[sign] for sign in self.shots[env_id, player].tolist()], self.config.columns)

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """Two boards side by side: the viewer's ships and its shots, on which it clicks; for everybody, the ships of both."""
        if viewer is None:
            left, right = self._fleet(env_id, 0), self._fleet(env_id, 1)
        else:
            player = PLAYERS.index(viewer)
            left, right = self._fleet(env_id, player), self._aims(env_id, player)
        cells: Cells = [[*first, "|", *second] for first, second in zip(left, right, strict=True)]
        return board_scene(self.title, cells, self._turn(env_id), line=[], actions=self._clicks(env_id, viewer))

    def _clicks(self, env_id: int, viewer: AgentID | None) -> dict[str, int]:
        """Shots on the right board. A ship needs a direction, so the page lists its places by name."""
        columns = self.config.columns
        turn = self._turn(env_id)
        laying = self._laid()[env_id] < 2 * self.fleet
        if turn is None or viewer != turn or laying:
            return {}
        free = np.flatnonzero(self.shots[env_id, PLAYERS.index(turn)] == 0)
        wide = free // columns * (2 * columns + 1) + columns + 1 + free % columns
        return dict(zip(clicks(wide, 2 * columns + 1), free.tolist(), strict=True))

    def render(self, env_id: int) -> str:
        shown = f"{self.title}; {self._next(env_id)}"
        for player, name in enumerate(PLAYERS):
            shown += f"\n{name}'s ships:\n{board_text(self._fleet(env_id, player))}"
            shown += f"\n{name}'s shots:\n{board_text(self._aims(env_id, player))}"
        return shown

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        cells = cell_names(self.config.rows, self.config.columns)
        names = [f"shoot {cell}" for cell in cells]
        names += [f"ship right of {cell}" for cell in cells]
        return (*names, *(f"ship down from {cell}" for cell in cells))
