"""What strategies earn against each other, measured: the table behind rankings, meta-solvers and reports.

Every cell has a mean, a standard error and a count. Cells that nobody has played yet have the mean NaN and the count 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marl.errors import ConfigError
from marl.gametheory.game import EXACT, MatrixGame, Payoffs, numbers
from marl.gametheory.resampling import drawn_errors
from marl.inputs import read_json
from marl.storage import write_atomically

FORMAT = 1


@dataclass(frozen=True, eq=False)
class PayoffTensor:
    """``mean[i, s_0, s_1, ...]`` is what player ``i`` earned on average when player 0 played strategy ``s_0``, and so on.

    ``symmetric`` says that all players have the same strategies and that seats do not matter: one population.
    """

    mean: Payoffs  # [players, s_0, s_1, ...]
    stderr: Payoffs  # the same shape; 0 where exact
    count: NDArray[np.int64]  # [s_0, s_1, ...] matches; 0 where exact or unplayed
    names: tuple[tuple[str, ...], ...]  # of the strategies, per player
    players: tuple[str, ...]
    symmetric: bool = False

    def __post_init__(self) -> None:
        # The class is frozen; only here, before anybody has seen the table, its parts are brought into their form.
        object.__setattr__(self, "mean", numbers(self.mean, "payoff tensor: mean"))
        object.__setattr__(self, "stderr", numbers(self.stderr, "payoff tensor: stderr"))
        object.__setattr__(self, "count", _counts(self.count))
        object.__setattr__(self, "names", tuple(map(tuple, self.names)))
        object.__setattr__(self, "players", tuple(self.players))
        self._check_shapes()
        self._check_names()
        self._check_numbers()

    def _check_shapes(self) -> None:
        shape = tuple(map(len, self.names))
        if self.mean.shape != (len(self.players), *shape) or self.stderr.shape != self.mean.shape:
            raise ConfigError(
                f"payoff tensor: mean {self.mean.shape} and stderr {self.stderr.shape} do not fit {len(self.players)} players "
                f"with {list(shape)} strategies."
            )
        if self.count.shape != shape:
            raise ConfigError(f"payoff tensor: count has shape {self.count.shape}; expected {shape}.")

    def _check_names(self) -> None:
        if self.symmetric and len(set(self.names)) > 1:
            raise ConfigError("payoff tensor: a symmetric one has the same strategies for every player.")
        sizes = list(map(len, self.names))
        if not sizes or 0 in sizes:
            raise ConfigError(f"payoff tensor: {sizes} strategies; expected at least one for every player.")

    def _check_numbers(self) -> None:
        if np.isinf(self.mean).any():
            raise ConfigError("payoff tensor: a mean is infinite; expected numbers, or NaN for what nobody has played.")
        errors = self.stderr[np.isfinite(self.mean)]  # what nobody has played has no error
        if not (np.isfinite(errors).all() and (errors >= 0).all()):
            raise ConfigError(
                "payoff tensor: a standard error is negative or not finite; expected 0 or more wherever there is a mean."
            )

    @classmethod
    def exact(cls, game: MatrixGame, symmetric: bool | None = None) -> PayoffTensor:
        """A table without errors. ``symmetric`` is looked up unless it is given."""
        alike = game.is_symmetric and len(set(game.actions)) == 1 if symmetric is None else symmetric
        zeros = np.zeros_like(game.payoffs)
        return cls(game.payoffs, zeros, np.zeros(game.shape, np.int64), game.actions, game.players, alike)

    @classmethod
    def two_player(
        cls, row: ArrayLike, names: Sequence[str], stderr: ArrayLike | None = None, count: ArrayLike | None = None
    ) -> PayoffTensor:
        """One population from one square table: what the row's strategy earned against the column's.

        The two must share a constant: ``row[a, b] + row[b, a]`` is 0 for margins, 1 for win shares, the same in all cells.
        """
        table = numbers(row, "two_player: the table")
        if table.shape != (len(names), len(names)):
            raise ConfigError(
                f"two_player: a table of shape {table.shape} for {len(names)} strategies; expected {len(names)} rows and "
                "columns."
            )
        _refuse_open_sum(table, names)
        error = np.zeros_like(table) if stderr is None else numbers(stderr, "two_player: stderr")
        matches = np.zeros(table.shape, np.int64) if count is None else _counts(count)
        same = (tuple(names), tuple(names))
        errors = np.stack([error, error.T])
        return cls(np.stack([table, table.T]), errors, matches, same, ("player_0", "player_1"), True)

    @property
    def is_exact(self) -> bool:
        """Whether nothing was sampled. A few matches that happened to end alike have no error either, and prove little."""
        return not self.stderr.any() and not self.count.any() and self.is_complete

    @property
    def is_complete(self) -> bool:
        """Whether every cell was played or is known."""
        return bool(np.isfinite(self.mean).all())

    @property
    def game(self) -> MatrixGame:
        """The means as a game."""
        if not self.is_complete:
            missing = int(np.isnan(self.mean[0]).sum())
            raise ConfigError(
                f"payoff tensor: {missing} pairing(s) have not been played yet. Finish the cross-play first."
            )
        return MatrixGame(self.mean, self.names, self.players, "empirical game")

    @property
    def is_mirrored(self) -> bool:
        """Whether all seats of a symmetric table tell of the same matches: ``u_1[a, b] = u_0[b, a]``, and so on."""
        if not self.symmetric or len(self.players) < 2:
            return False
        for i in range(len(self.players) - 1):  # swaps of neighbours give all permutations
            order = list(range(len(self.players)))
            order[i], order[i + 1] = i + 1, i
            moved = self.mean[order].transpose(0, *(1 + j for j in order))
            if not np.array_equal(self.mean, moved, equal_nan=True):
                return False
            if not np.array_equal(self.count, self.count.transpose(order)):
                return False
        return True

    def redrawn(self, rng: np.random.Generator) -> PayoffTensor:
        """Means drawn anew within their errors: one draw of the parametric bootstrap.

        What is tied stays tied, for any number of players. Payoffs that add up to a constant still do: errors within a pairing
        are drawn so that they cancel, each of the size of its standard error where that is possible. Players who are paid
        alike stay so. In one population whose seats tell of the same matches, all seatings of a pairing get one draw. Cells
        without a payoff stay empty. The drawn table has no errors of its own. How: `marl.gametheory.resampling`.
        """
        errors = drawn_errors(self.mean, self.stderr, self.is_mirrored, rng)
        return replace(self, mean=self.mean + errors, stderr=np.zeros_like(self.stderr))

    # -- files -----------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "players": list(self.players),
            "names": [list(names) for names in self.names],
            "symmetric": self.symmetric,
            "mean": _with_null(self.mean),
            "stderr": _with_null(self.stderr),
            "count": self.count.tolist(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str = "payoff tensor") -> PayoffTensor:
        try:
            if data["format"] != FORMAT:
                raise ConfigError(f"{where}: format {data['format']!r}; this version reads {FORMAT}.")
            return cls(
                np.array(data["mean"], np.float64),
                np.array(data["stderr"], np.float64),
                np.array(data["count"], np.int64),
                tuple(map(tuple, data["names"])),
                tuple(data["players"]),
                bool(data["symmetric"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{where} is not a payoff tensor: {type(error).__name__}: {error}.") from error

    def save(self, path: Path | str) -> None:
        write_atomically(Path(path), json.dumps(self.as_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> PayoffTensor:
        try:
            data = read_json(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read the payoff tensor {path}: {error}.") from error
        return cls.from_json(data, str(path))


def _counts(count: ArrayLike) -> NDArray[np.int64]:
    """Matches as whole numbers; refuses others."""
    found = numbers(count, "payoff tensor: count")
    if not (np.isfinite(found).all() and (found >= 0).all() and (found == np.round(found)).all()):
        raise ConfigError("payoff tensor: count holds numbers that are no counts of matches; expected 0, 1, 2, ...")
    return found.astype(np.int64)


def _refuse_open_sum(table: Payoffs, names: Sequence[str]) -> None:
    """Refuses a table in which the two of a pairing do not always share the same sum."""
    total = table + table.T
    pairs = sorted(
        (tuple(map(int, pair)) for pair in np.argwhere(np.isfinite(total))), key=lambda pair: pair[0] == pair[1]
    )
    close = EXACT * float(np.nanmax(np.abs(table), initial=0.0))
    for a, b in pairs:
        c, d = pairs[0]
        if abs(total[a, b] - total[c, d]) <= close:
            continue
        raise ConfigError(
            f"two_player: {names[a]} and {names[b]} share {total[a, b]:.6g} when they meet, and {names[c]} and "
            f"{names[d]} share {total[c, d]:.6g}; expected the same sum in all pairings, such as 0 for margins "
            "or 1 for win shares, with half of it on the diagonal (NaN where nobody met). For a game in which both can win: "
            "PayoffTensor.exact(bimatrix(table, transposed table), symmetric=True). For seats that were measured apart: "
            "PayoffTensor(mean, ...) with both players' means."
        )


def _with_null(array: Payoffs) -> Any:
    """Nested lists in which NaN, which JSON does not know, is None."""
    if array.ndim == 0:
        return None if np.isnan(array) else float(array)
    return [_with_null(part) for part in array]
