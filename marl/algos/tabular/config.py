"""Keys of tables of action values."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from marl.algos.config import LearnerConfig
from marl.needs import declare, needs, none_of, one_of, unused

NO_GRADIENT = unused("a table has no gradient")
NO_LOSS = unused("a table has no loss")
CONSTANT = declare(needs(one_of("averaging", False), why="the mean of all targets has the step size 1 / visits"))
RETURNS = declare(needs(one_of("backup", "return"), why="monte_carlo alone learns from whole episodes"))


class TabularConfig(LearnerConfig):
    """q_learning, sarsa, monte_carlo: a value for each state and action, moved towards what was seen to follow."""

    inherited_needs: ClassVar = {
        "bootstrap_at_time_limit": declare(
            needs(none_of("backup", "return"), why="monte_carlo counts what was paid and values nothing behind it")
        ),
        "lr_schedule": CONSTANT,
        "grad_clip": NO_GRADIENT,
        "optimizer": NO_GRADIENT,
        "custom_loss": NO_LOSS,
        "custom_loss_config": NO_LOSS,
        "train_batch_size": unused("a table learns from every decision once, as soon as its outcome is known"),
    }

    backup: Literal["max", "played", "return"] = Field(
        "max",
        description="What follows a decision is worth: the best next action (q_learning), the next action that was played "
        "(sarsa), or all that was paid until the end (monte_carlo).",
    )
    lr: Annotated[float, Field(gt=0, le=1)] = Field(
        0.1,
        description="Share of the way that a value moves towards its target with each visit.",
        json_schema_extra=CONSTANT,
    )
    averaging: bool = Field(
        False, description="Values are the mean of all their targets so far (step size 1 / visits) instead of lr."
    )
    first_visit: bool = Field(
        False,
        description="Only the first visit of a state and action in an episode counts, instead of every visit.",
        json_schema_extra=RETURNS,
    )
    initial_value: float = Field(
        0.0,
        description="Of all actions of a state that was never met. One above all returns makes an agent try everything.",
    )
    float_states: bool = Field(
        False,
        description="Take fractions (a Box of floats) for states too, compared to the last bit: for envs that show few "
        "different observations, such as one-hot vectors.",
    )
    max_states: PositiveInt = Field(100_000, description="States that a table may hold; one more ends the run.")

    @property
    def acting(self) -> dict[str, Any]:
        return {
            "initial_value": self.initial_value,
            "float_states": self.float_states,
            "max_states": self.max_states,
        }

    @property
    def needs_whole_episodes(self) -> bool:
        return self.backup == "return"

    @property
    def compares_actions(self) -> bool:
        return self.backup == "max"
