"""Keys of ``fast:lbf``: those of lbforaging's ``ForagingEnv``, set one by one or by an id of the tables."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from marl.config import Config
from marl.needs import declare, needs, one_of

IDS = re.compile(
    r"Foraging(?P<near>-2s)?-(?P<rows>\d+)x(?P<columns>\d+)-(?P<players>\d+)p-(?P<food>\d+)f(?P<coop>-coop)?-v3"
)
NEAR = 2  # cells: the sight of ids with -2s
SMALLEST = 3  # cells along a side: food never lies on the border
WEAKEST = 3  # by default a food's level is at most what so many players, the weakest, have together

Levels = PositiveInt | list[PositiveInt]


class ForagingConfig(Config):
    """Keys of ``env_config``."""

    id: str | None = Field(
        None,
        description="Foraging[-2s]-RxC-Pp-Ff[-coop]-v3 sets field_size, players, max_num_food, force_coop and sight, as in "
        "lbforaging; other keys override it.",
    )
    field_size: tuple[int, int] = Field((8, 8), description="Rows and columns.")
    players: PositiveInt = Field(2, description="Number of agents.")
    max_num_food: PositiveInt = Field(2, description="Food at the start; less where no more fits in.")
    force_coop: bool = Field(
        False,
        description="All food has the highest level, so that by default up to three of the agents have to load it.",
    )
    sight: NonNegativeInt | None = Field(None, description="Cells that an agent sees in each direction; null: all.")
    max_episode_steps: PositiveInt = Field(50, description="Env steps after which an episode is truncated.")
    min_player_level: Levels = Field(1, description="Lowest level of agents, or a list that is dealt among them.")
    max_player_level: Levels = Field(2, description="Highest level of agents, or a list that is dealt among them.")
    min_food_level: Levels = Field(
        1,
        description="Lowest level of food, or a list, one for each.",
        json_schema_extra=declare(needs(one_of("force_coop", False))),
    )
    max_food_level: Levels | None = Field(
        None, description="Highest level of food, or a list; null: what the three weakest agents have together."
    )
    normalize_reward: bool = Field(
        True, description="All food of an episode together pays 1; false: it pays its levels."
    )
    observe_agent_levels: bool = Field(True, description="Agents see their own and the others' levels.")
    penalty: NonNegativeFloat = Field(0.0, description="What it costs to load food that is too heavy.")

    @model_validator(mode="before")
    @classmethod
    def _by_id(cls, given: Any) -> Any:
        """The options that an id stands for, where they are not given themselves."""
        if not isinstance(given, dict) or given.get("id") is None:
            return given
        return {**options_of(str(given["id"])), **given}

    @model_validator(mode="after")
    def _fits(self) -> ForagingConfig:
        rows, columns = self.field_size
        if min(rows, columns) < SMALLEST:
            raise ValueError(f"field_size {[rows, columns]}: expected at least {SMALLEST} rows and {SMALLEST} columns")
        if self.players > rows * columns:
            raise ValueError(f"players is {self.players}, but a field of {rows} x {columns} has {rows * columns} cells")
        self._check_levels("player", self.players)
        self._check_levels("food", self.max_num_food)
        heaviest = sum(sorted(self.levels("min_player_level"))[:WEAKEST])
        if self.max_food_level is None and max(self.levels("min_food_level")) > heaviest:
            raise ValueError(
                f"min_food_level {self.min_food_level} is above what the weakest agents may have together, {heaviest}. Set "
                "max_food_level, or raise min_player_level"
            )
        return self

    def _check_levels(self, whose: str, count: int) -> None:
        """Lists are as long as there are agents or food; no minimum is above its maximum."""
        for key in (f"min_{whose}_level", f"max_{whose}_level"):
            given = getattr(self, key)
            if isinstance(given, list) and len(given) != count:
                raise ValueError(f"{key} has {len(given)} levels; expected a number, or a list of {count}")
        if getattr(self, f"max_{whose}_level") is None:
            return
        lowest, highest = self.levels(f"min_{whose}_level"), self.levels(f"max_{whose}_level")
        if any(low > high for low, high in zip(lowest, highest, strict=True)):
            raise ValueError(f"min_{whose}_level {lowest} is above max_{whose}_level {highest}")

    def levels(self, key: str) -> list[int]:
        """One of the level keys as a list, a level for each agent or food."""
        given = getattr(self, key)
        if isinstance(given, list):
            return given
        return [given] * (self.players if "player" in key else self.max_num_food)

    @property
    def sees_all(self) -> bool:
        """Whether agents see the whole field from everywhere."""
        return self.sight is None or self.sight >= max(self.field_size) - 1

    @property
    def highest_food(self) -> int:
        """The highest level that food can have."""
        if self.max_food_level is None:
            return sum(sorted(self.levels("max_player_level"))[:WEAKEST])
        return max(self.levels("max_food_level"))


def options_of(env_id: str) -> dict[str, Any]:
    """The keys that an id of lbforaging stands for."""
    found = IDS.fullmatch(env_id)
    if found is None:
        raise ValueError(
            f"id {env_id!r} is no id of level-based foraging. Expected Foraging[-2s]-RxC-Pp-Ff[-coop]-v3, for instance "
            "Foraging-8x8-2p-2f-coop-v3 (8 x 8 cells, 2 players, 2 food; -2s: agents see 2 cells far; -coop: food takes all)"
        )
    size = int(found["rows"]), int(found["columns"])
    return {
        "field_size": size,
        "players": int(found["players"]),
        "max_num_food": int(found["food"]),
        "force_coop": found["coop"] is not None,
        "sight": NEAR if found["near"] else max(size),
    }
