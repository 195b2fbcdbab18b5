"""The registry of methods, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from marl.errors import ChanceError, ConfigError, UserError
from marl.populations.exploit_config import ExploitabilityConfig
from marl.training.examination.game import ExaminedGame
from marl.training.examination.merged import ByPositions, EndlessMemoryError
from marl.training.examination.method import Method
from marl.training.examination.projected import ByProjection
from marl.training.examination.trained import ByTraining
from marl.training.examination.tree import ByTree

METHODS: dict[str, type[Method]] = {method.name: method for method in (ByTree, ByPositions, ByProjection, ByTraining)}
"""By the names of ``exploitability.method``."""
EXACT_ONES = ("tree", "merged")
"""What ``method: auto`` tries first; ``trained`` works in every game."""
INSTEAD = {
    "tree": "Use merged where positions can be compared, or trained, which gives a lower bound.",
    "merged": "Use projected or trained, which give lower bounds.",
    "projected": "Use trained, which gives a lower bound as well.",
}


@dataclass(frozen=True)
class Choice:
    """The methods that measure, the first of them as asked for; and why none before it in the order could."""

    methods: tuple[Method, ...]
    why: str = ""

    @property
    def first(self) -> Method:
        return self.methods[0]


def choose(game: ExaminedGame, config: ExploitabilityConfig) -> Choice:
    """The method that the config names, or the best one that this game allows."""
    if config.method == "auto":
        return _best(game, config)
    try:
        return Choice((METHODS[config.method](game, config),))
    except ChanceError:
        raise
    except UserError as error:
        if config.method not in INSTEAD:
            raise
        raise ConfigError(f"exploitability.method {config.method}: {error} {INSTEAD[config.method]}") from error


def _best(game: ExaminedGame, config: ExploitabilityConfig) -> Choice:
    """The first exact method that this game allows, else trained best responses, with perfect replies to projections where
    memories alone are in the way of exactness."""
    refused: list[UserError] = []
    for name in EXACT_ONES:
        try:
            return Choice((METHODS[name](game, config),), _told(refused))
        except ChanceError:  # a mistake to mend, whatever the method: the env says something wrong about itself
            raise
        except UserError as error:
            refused.append(error)
    return lower_bounds(game, config, refused)


def lower_bounds(game: ExaminedGame, config: ExploitabilityConfig, refused: Sequence[UserError]) -> Choice:
    """What is left where exact methods have refused."""
    bounds: list[Method] = []
    if isinstance(refused[-1], EndlessMemoryError):
        with suppress(ConfigError):  # the game is too large for this too
            bounds.append(ByProjection(game, config))
    bounds.append(ByTraining(game, config))
    return Choice(tuple(bounds), _told(refused))


def _told(refused: Sequence[UserError]) -> str:
    return " ".join(map(str, refused))
