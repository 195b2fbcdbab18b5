"""Keys that every learner knows."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from marl.config import Config


def _in_order(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    times = [time for time, _ in points]
    if not points or times != sorted(set(times)):
        raise ValueError("expected points [env steps, value] with growing env steps")
    return points


Schedule = Annotated[list[tuple[NonNegativeInt, NonNegativeFloat]], AfterValidator(_in_order)]


class OptimizerConfig(Config):
    """The torch optimiser."""

    type: Literal["adam", "sgd", "rmsprop"] = Field("adam", description="Which optimiser.")
    eps: PositiveFloat = Field(1e-5, description="Adam, RMSprop: added to the denominator.")
    momentum: NonNegativeFloat = Field(0.0, description="SGD, RMSprop: momentum.")
    weight_decay: NonNegativeFloat = Field(0.0, description="L2 penalty.")


class LearnerConfig(Config):
    """Keys of ``algo:`` that all algorithms share; each policy may override them."""

    lr: PositiveFloat = Field(5e-4, description="Step size of the optimiser.")
    lr_schedule: Schedule | None = Field(
        None, description="Points [env steps, lr], joined by straight lines; replaces lr."
    )
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(0.99, description="Discount per env step.")
    train_batch_size: PositiveInt = Field(
        32, description="On-policy: env steps per training batch. Off-policy: rows per update."
    )
    grad_clip: PositiveFloat | None = Field(10.0, description="Largest norm of a policy's gradient; null: no limit.")
    optimizer: OptimizerConfig = Field(OptimizerConfig(), description="Torch optimiser and its arguments.")
    custom_loss: str | None = Field(
        None, description="Registered name or package.module:Class of a Loss that adds to the algorithm's own."
    )
    custom_loss_config: dict[str, Any] = Field({}, description="Handed to the custom loss.")

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
        """Whether the algorithm looks at the world's global state."""
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
    def joined_keys(self) -> tuple[str, ...]:
        """Keys on which policies that learn together through a group must agree."""
        return ()

    @property
    def shared_keys(self) -> tuple[str, ...]:
        """Keys on which policies that share layers must agree: these take one gradient step for all of them."""
        return tuple(type(self).model_fields)


def scheduled(points: Schedule | None, constant: float, timesteps: int) -> float:
    """Value of a schedule after so many env steps; before the first and after the last point it is flat."""
    if not points:
        return constant
    if timesteps <= points[0][0]:
        return points[0][1]
    for (t0, v0), (t1, v1) in itertools.pairwise(points):
        if timesteps < t1:
            return v0 + (v1 - v0) * (timesteps - t0) / (t1 - t0)
    return points[-1][1]
