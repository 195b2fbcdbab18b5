"""Keys of counterfactual regret minimisation with networks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from marl.algos.config import LearnerConfig
from marl.needs import declare, needs, one_of, unused

BY_TRAVERSALS = needs(one_of("regrets_from", "traversals"), why="escher plays one action at a time")
BY_VALUES = needs(one_of("regrets_from", "values"), why="deep_cfr learns no values")


class DeepCfrConfig(LearnerConfig):
    """deep_cfr, escher: what each action would have earned more, remembered over all iterations and learned by networks."""

    inherited_needs: ClassVar = {
        "bootstrap_at_time_limit": unused("regrets come from games that are walked to their end"),
        "intrinsic": unused("regrets are about what the env pays, and a bonus would be another game"),
        "custom_loss": unused("regrets and average policies have their own losses"),
        "custom_loss_config": unused("regrets and average policies have their own losses"),
    }

    regrets_from: Literal["traversals", "values"] = Field(
        "traversals",
        description="traversals: every action of one agent at a time is played to the end (deep_cfr). values: one action is "
        "played, and a learned value of histories tells what the others would have earned (escher).",
    )
    take_turns: bool = Field(
        True,
        description="Agents look for regrets one after the other, each against what the others have learned before, as in the "
        "papers; false: all at once against what was learned in the last iteration, which converges far more slowly.",
    )
    traversals: PositiveInt = Field(
        256, description="Games per iteration of the algorithm and agent, in which this agent's regrets are looked for."
    )
    regret_updates: PositiveInt = Field(200, description="Updates of a policy's regret network per iteration.")
    average_updates: PositiveInt = Field(100, description="Updates of a policy's average network per iteration.")
    value_updates: PositiveInt = Field(
        200,
        description="Updates of a policy's network of history values per iteration.",
        json_schema_extra=declare(BY_VALUES),
    )
    average_lr: PositiveFloat = Field(1e-3, description="Step size of the average policy's optimiser.")
    memory_size: PositiveInt = Field(
        1_000_000,
        description="Rows of regrets, and of strategies, that are kept of each policy: an even sample of all that there were.",
    )
    memory_of: Literal["rows", "views"] = Field(
        "rows",
        description="rows: memories keep single rows. views: all rows that show the same become one with their weighted mean, "
        "so that a memory has as many rows as there are different views, and no noise of sampling.",
    )
    restart_regrets: bool = Field(
        True, description="The regret network begins anew in each iteration, as in the paper; false: it goes on."
    )
    max_branches: PositiveInt = Field(
        10_000,
        description="Positions that one traversal may be spread over at a time; a larger game is refused.",
        json_schema_extra=declare(BY_TRAVERSALS),
    )
    lr: PositiveFloat = Field(1e-3, description="Step size of the optimisers of regrets and of history values.")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(1.0, description="Discount per env step.")
    train_batch_size: PositiveInt = Field(512, description="Rows per update, of each network.")

    @property
    def walk_keys(self) -> tuple[str, ...]:
        """Keys on which all policies of a run must agree, because they meet in the same games."""
        return ("regrets_from", "take_turns", "gamma", "max_branches")
