"""Keys of ``fast:rware``: those of rware's ``Warehouse``, set one by one or by an id of the tables."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from marl.config import Config
from marl.envs.games.warehouse.floor import Floor, floor_of_lines, floor_of_shelves
from marl.needs import declare, needs, not_given

IDS = re.compile(r"rware-(?P<size>tiny|small|medium|large)-(?P<agents>[1-9]\d*)ag(?P<difficulty>-easy|-hard)?-v2")
SIZES = {"tiny": (1, 3), "small": (2, 3), "medium": (2, 5), "large": (3, 5)}  # rows and columns of blocks of shelves
REQUESTS_PER_AGENT = {"-easy": 2.0, None: 1.0, "-hard": 0.5}


class WarehouseConfig(Config):
    """Keys of ``env_config``."""

    id: str | None = Field(
        None,
        description="rware-SIZE-Nag[-easy|-hard]-v2 with SIZE tiny, small, medium or large sets shelf_rows, shelf_columns, "
        "n_agents and request_queue_size, as in rware; other keys override it.",
    )
    shelf_rows: PositiveInt = Field(
        1, description="Rows of blocks.", json_schema_extra=declare(needs(not_given("layout")))
    )
    shelf_columns: PositiveInt = Field(
        3, description="Columns of blocks, an odd number; a block is two shelves wide.",
        json_schema_extra=declare(needs(not_given("layout"))),
    )  # fmt: skip
    column_height: PositiveInt = Field(
        8,
        description="Shelves from the top to the bottom of a block.",
        json_schema_extra=declare(needs(not_given("layout"))),
    )
    layout: str | None = Field(
        None, description="A floor plan of one's own instead, a line per row: x shelf, . free, g goal."
    )
    n_agents: PositiveInt = Field(2, description="Number of robots.")
    request_queue_size: PositiveInt = Field(2, description="How many shelves are wanted at a time.")
    sensor_range: NonNegativeInt = Field(1, description="Cells that a robot sees in each direction.")
    max_steps: PositiveInt | None = Field(500, description="Env steps after which an episode is truncated; null: none.")
    max_inactivity_steps: PositiveInt | None = Field(
        None, description="Env steps without a delivery after which an episode is truncated; null: none."
    )
    reward_type: Literal["individual", "global", "two_stage"] = Field(
        "individual",
        description="Who is paid 1 for a shelf that was delivered: its carrier or all; two_stage: half at once, half when the "
        "carrier has put it back.",
    )
    normalised_coordinates: bool = Field(False, description="Robots see their place as numbers from 0 to 1.")

    @model_validator(mode="before")
    @classmethod
    def _by_id(cls, given: Any) -> Any:
        """The options that an id stands for, where they are not given themselves."""
        if not isinstance(given, dict) or given.get("id") is None:
            return given
        return {**options_of(str(given["id"])), **given}

    @model_validator(mode="after")
    def _fits(self) -> WarehouseConfig:
        if self.max_steps is None and self.max_inactivity_steps is None:
            raise ValueError("episodes would never end: set max_steps or max_inactivity_steps")
        floor = self.floor()
        cells, shelves = floor.inside.sum(), len(floor.shelves)
        if self.n_agents > cells:
            raise ValueError(f"n_agents is {self.n_agents}, but the floor has {cells} cells")
        if self.request_queue_size >= shelves:
            raise ValueError(
                f"request_queue_size is {self.request_queue_size} of {shelves} shelves; expected fewer than there are, for a "
                "shelf that was delivered is replaced by another one"
            )
        return self

    def floor(self) -> Floor:
        """The floor plan; raises a ValueError where it cannot be built."""
        border = max(1, self.sensor_range)
        if self.layout is not None:
            return floor_of_lines(self.layout, border)
        if self.shelf_columns % 2 == 0:
            raise ValueError(
                f"shelf_columns is {self.shelf_columns}; expected an odd number, the goals are in the middle"
            )
        return floor_of_shelves(self.shelf_rows, self.shelf_columns, self.column_height, border)


def options_of(env_id: str) -> dict[str, Any]:
    """The keys that an id of rware stands for."""
    found = IDS.fullmatch(env_id)
    if found is None:
        raise ValueError(
            f"id {env_id!r} is no id of a warehouse. Expected rware-SIZE-Nag[-easy|-hard]-v2 with SIZE tiny, small, medium or "
            "large, for instance rware-tiny-2ag-v2 (2 robots)"
        )
    rows, columns = SIZES[found["size"]]
    agents = int(found["agents"])
    return {
        "shelf_rows": rows,
        "shelf_columns": columns,
        "n_agents": agents,
        "request_queue_size": int(agents * REQUESTS_PER_AGENT[found["difficulty"]]),
    }
