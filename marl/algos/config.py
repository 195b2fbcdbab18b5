"""Keys that every learner knows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from marl.algos.intrinsic.config import IntrinsicConfig
from marl.algos.schedule import Schedule as Schedule
from marl.algos.schedule import scheduled as scheduled
from marl.config import Config
from marl.needs import declare, given, needs, one_of


class OptimizerConfig(Config):
    """The torch optimiser."""

    type: Literal["adam", "sgd", "rmsprop"] = Field("adam", description="Which optimiser.")
    eps: PositiveFloat = Field(
        1e-5,
        description="Added to the denominator.",
        json_schema_extra=declare(needs(one_of("type", "adam", "rmsprop"))),
    )
    momentum: NonNegativeFloat = Field(
        0.0, description="Momentum.", json_schema_extra=declare(needs(one_of("type", "sgd", "rmsprop")))
    )
    weight_decay: NonNegativeFloat = Field(0.0, description="L2 penalty.")


class LearnerConfig(Config):
    """Keys of ``algo:`` that all algorithms share; each policy may override them."""

    lr: PositiveFloat = Field(5e-4, description="Step size of the optimiser.")
    lr_schedule: Schedule | None = Field(
        None, description="Points [env steps, lr], joined by straight lines; replaces lr."
    )
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(0.99, description="Discount per env step.")
    bootstrap_at_time_limit: bool = Field(
        True,
        description="An episode that is cut off (truncated, as by a time limit) would go on: what is left is worth what the "
        "last observation is. false: it is over then, like one that terminates, as the time limit were part of the rules.",
    )
    train_batch_size: PositiveInt = Field(
        32, description="On-policy: env steps per training batch. Off-policy: rows per update."
    )
    grad_clip: PositiveFloat | None = Field(10.0, description="Largest norm of a policy's gradient; null: no limit.")
    optimizer: OptimizerConfig = Field(OptimizerConfig(), description="Torch optimiser and its arguments.")
    custom_loss: str | None = Field(
        None, description="Registered name or package.module:Class of a Loss that adds to the algorithm's own."
    )
    custom_loss_config: dict[str, Any] = Field(
        {}, description="Handed to the custom loss.", json_schema_extra=declare(needs(given("custom_loss")))
    )
    intrinsic: IntrinsicConfig | None = Field(
        None, description="A reward for what is new to the policy, added to what it learns from; null: the env's alone."
    )

    @property
    def looks_at_groups(self) -> bool:
        """Whether the algorithm mixes a group's values or shows a critic more than one agent."""
        return False

    @property
    def looks_at_everybody(self) -> bool:
        """Whether policies of this family learn together even where no group joins them."""
        return False

    @property
    def needs_state(self) -> bool:
        """Whether the algorithm looks at the env's global state."""
        return False

    @property
    def acting(self) -> dict[str, Any]:
        """What its policies have to know while acting, besides model and exploration (``PolicySpec.options``)."""
        return {}

    @property
    def needs_whole_episodes(self) -> bool:
        return False

    @property
    def learns_from_recordings(self) -> bool:
        """Whether batches may also be episodes that somebody else played (``input``); with a replay they always may."""
        return False

    @property
    def compares_actions(self) -> bool:
        """Whether updates look at actions that were not played, so that masks count in them."""
        return True

    @property
    def corrects_for_lag(self) -> bool:
        """On-policy learners: whether what slightly older weights played is weighed by how likely the policy still is to do
        it. Off-policy ones need no such correction."""
        return False

    @property
    def joined_keys(self) -> tuple[str, ...]:
        """Keys on which policies that learn together through a group must agree."""
        return ()

    @property
    def shared_keys(self) -> tuple[str, ...]:
        """Keys on which policies that share layers must agree: these take one gradient step for all of them."""
        return tuple(type(self).model_fields)


class ReplayConfig(LearnerConfig):
    """Keys of algorithms that learn from a replay."""

    n_step: PositiveInt = Field(
        1, description="Decisions whose rewards are summed before the value of the next one is used."
    )
    buffer_size: PositiveInt = Field(100_000, description="Rows that the replay of a policy or team holds.")
    learning_starts: NonNegativeInt = Field(1_000, description="Env steps to collect before the first update.")
    updates_per_step: PositiveFloat = Field(1.0, description="Updates per env step; fractions are carried over.")
    prioritized_replay: bool = Field(
        False, description="Draw rows by the size of their last error instead of uniformly."
    )
    prioritized_replay_alpha: Annotated[float, Field(gt=0, le=1)] = Field(
        0.6,
        description="How strongly priorities count; towards 0: uniform.",
        json_schema_extra=declare(needs(one_of("prioritized_replay", True))),
    )
    prioritized_replay_beta: Annotated[float, Field(ge=0, le=1)] = Field(
        0.4,
        description="How much of the bias of prioritised drawing is corrected.",
        json_schema_extra=declare(needs(one_of("prioritized_replay", True))),
    )
    full_td_error: bool = Field(
        False,
        description="Results also list the absolute error of each row of the newest training batch "
        "(info.learner.POLICY.td_error).",
    )
