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
from marl.gametheory.game import EXACT, MatrixGame, Payoffs

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
        shape = tuple(map(len, self.names))
        if self.mean.shape != (len(self.players), *shape) or self.stderr.shape != self.mean.shape:
            raise ConfigError(
                f"payoff tensor: mean {self.mean.shape} and stderr {self.stderr.shape} do not fit {len(self.players)} players "
                f"with {list(shape)} strategies."
            )
        if self.count.shape != shape:
            raise ConfigError(f"payoff tensor: count has shape {self.count.shape}; expected {shape}.")
        if self.symmetric and len(set(self.names)) > 1:
            raise ConfigError("payoff tensor: a symmetric one has the same strategies for every player.")

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
        """A zero-sum population from one square table: what the row's strategy earned against the column's."""
        table = np.asarray(row, np.float64)
        error = np.zeros_like(table) if stderr is None else np.asarray(stderr, np.float64)
        matches = np.zeros(table.shape, np.int64) if count is None else np.asarray(count, np.int64)
        same = (tuple(names), tuple(names))
        return cls(np.stack([table, -table]), np.stack([error, error]), matches, same, ("player_0", "player_1"), True)

    @property
    def is_exact(self) -> bool:
        return not self.stderr.any() and self.is_complete

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
        """Whether both seats of a symmetric two-player table tell of the same matches: ``u_1[a, b] = u_0[b, a]``."""
        if not self.symmetric or len(self.players) != 2:
            return False
        return np.array_equal(self.mean[1], self.mean[0].T, equal_nan=True) and np.array_equal(self.count, self.count.T)

    def redrawn(self, rng: np.random.Generator) -> PayoffTensor:
        """Means drawn anew within their errors: one draw of the parametric bootstrap.

        What is tied stays tied: two players whose payoffs add up to a constant with equal errors lose what the other wins,
        players who are paid alike stay so, and mirrored seats stay mirrored. Cells without a payoff stay empty.
        """
        noise = rng.standard_normal(self.mean.shape)
        opposed, alike = self._tied()
        if self.is_mirrored:
            above = np.triu(noise[0], 1)
            if opposed:
                noise[0] = above - above.T
            elif alike:
                noise[0] = above + above.T + np.diag(np.diag(noise[0]))
            noise[1] = noise[0].T
        elif opposed:
            noise[1] = -noise[0]
        elif alike:
            noise[:] = noise[0]
        return replace(self, mean=self.mean + noise * self.stderr, stderr=np.zeros_like(self.stderr))

    def _tied(self) -> tuple[bool, bool]:
        """Whether two players' payoffs add up to a constant, and whether all players are paid alike, errors included."""
        played = np.isfinite(self.mean).all(axis=0)
        mean, error = self.mean[:, played], self.stderr[:, played]
        if not mean.size or np.ptp(error, axis=0).max() > EXACT:
            return False, False
        close = EXACT * max(1.0, float(np.abs(mean).max()))
        return len(mean) == 2 and bool(np.ptp(mean.sum(axis=0)) <= close), bool(np.ptp(mean, axis=0).max() <= close)

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
        Path(path).write_text(json.dumps(self.as_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> PayoffTensor:
        try:
            data = json.loads(Path(path).read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise ConfigError(f"cannot read the payoff tensor {path}: {error}.") from error
        return cls.from_json(data, str(path))


def _with_null(array: Payoffs) -> Any:
    """Nested lists in which NaN, which JSON does not know, is None."""
    if array.ndim == 0:
        return None if np.isnan(array) else float(array)
    return [_with_null(part) for part in array]
