"""The keys of a suite file (``marl suite FILE``), besides those of scenarios that stand between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from marl.config import Config

METRIC = "evaluation.episode_reward_mean"
MOST_SEEDS = 1000
Seeds = Annotated[int, Field(gt=0, le=MOST_SEEDS)] | list[NonNegativeInt]


class Published(Config):
    """A number from the literature, with the place where it can be looked up."""

    value: float = Field(description="The published number, in the unit of the suite's metric.")
    source: str = Field(min_length=1, description="Paper and table, or the repository and its settings.")
    note: str = Field("", description="What is different there: another budget, another version of the env.")


class EarlyStop(Config):
    """A run ends before its budget once it has held its goal for a while."""

    in_a_row: PositiveInt = Field(
        description="So many evaluations, one after the other, have to be at the goal or better."
    )
    goal: float | None = Field(None, description="The value that has to be held. Default: the goal of the cell.")


class Entry(Config):
    """What an env, an algorithm or a cell says besides keys of a scenario, which may stand beside these."""

    budget: PositiveInt | None = Field(
        None, description="Env steps per run. Of several the cell's counts, then the algorithm's, then the env's."
    )
    goal: float | None = Field(
        None, description="Value that the last evaluation has to reach. The same order as for budget."
    )
    seeds: Seeds | None = Field(None, description="Other seeds than those of the suite. The same order as for budget.")
    early_stop: EarlyStop | Literal["off", False] | None = Field(
        None, description="Another rule than the suite's; off: none. The same order as for budget."
    )
    tried: NonNegativeInt | None = Field(
        None,
        description="How many settings were tried before this one was chosen, on other seeds than those of the table; told "
        "below the table.",
    )
    note: str = Field(
        "", description="A sentence below the table, for instance on what was tried where the goal is missed."
    )


class EnvEntry(Entry):
    """An env of the suite: a row of the table per algorithm."""

    metric: str | None = Field(None, description="Another result field than the suite's.")
    published: dict[str, Published] = Field(
        {}, description="Algorithm (its name in this suite) to a published number and its source."
    )
    goals: dict[str, float] = Field(
        {}, description="Algorithm to goal, where they differ. Comes before goal of the algorithm and of the env."
    )
    budgets: dict[str, PositiveInt] = Field(
        {},
        description="Algorithm to env steps, where they differ. Comes before budget of the algorithm and of the env.",
    )


class CellEntry(Entry):
    """One env with one algorithm."""

    published: Published | None = Field(None, description="A published number and its source.")


class Suite(Config):
    """A whole file."""

    suite: str = Field(min_length=1, description="Name of the suite: its folder, its section of a page, its pictures.")
    title: str = Field("", description="Heading of the section. Default: the name.")
    about: str = Field("", description="Sentences above the table.")
    seeds: Seeds = Field(5, description="Seeds of every cell: a number of them, from 0 on, or a list.")
    metric: str = Field(METRIC, description="Result field that is shown, compared and held against goals.")
    budget: PositiveInt | None = Field(None, description="Env steps per run where nothing else says how many.")
    stacked: Literal["auto"] | bool = Field(
        "auto",
        description="Train the seeds of a cell together in one process (see `marl run --stacked`). auto: where its learners "
        "can; true: everywhere, else it is an error; false: each seed by itself.",
    )
    early_stop: EarlyStop | Literal["off", False] | None = Field(
        None, description="End runs that have held their goal for a while; the table says which did. Default: never."
    )
    confidence: float = Field(0.95, ge=0.5, le=0.999, description="Of the intervals.")
    scenario: dict[str, Any] = Field({}, description="Keys of a scenario for all cells.")
    envs: dict[str, dict[str, Any]] = Field(
        min_length=1, description="Name to keys of a scenario (env, env_config, ...) and those of EnvEntry."
    )
    algos: dict[str, dict[str, Any]] = Field(
        min_length=1,
        description="Name to keys of a scenario and those of Entry. The name is that of the algorithm, unless `algo` says "
        "another one.",
    )
    cells: dict[str, dict[str, Any]] = Field(
        {}, description="ENV/ALGO to keys of a scenario for this cell alone, and those of CellEntry."
    )
    exclude: dict[str, str] = Field(
        {}, description="ENV/ALGO, or a pattern such as */maddpg, to the reason why it is not run."
    )
    peers: list[str] = Field(
        [],
        description="Files with curves of other libraries on the same cells (see docs/suite.md), as paths beside this file; "
        "their numbers stand in a column of their own. A file that is not there is passed over.",
    )

    @field_validator("envs", "algos", "cells", mode="before")
    @classmethod
    def _nothing_more_to_say(cls, value: object) -> object:
        """``vdn:`` alone is null in YAML: an algorithm as it is."""
        if not isinstance(value, Mapping):
            return value
        return {str(name): keys or {} for name, keys in value.items()}


def seeds_in(seeds: int | list[int]) -> list[int]:
    """The seeds themselves, where a number says how many."""
    if isinstance(seeds, int):
        return list(range(seeds))
    return seeds
