"""Keys of imitation learning."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from marl.algos.config import LearnerConfig
from marl.needs import above, declare, needs, one_of, unused

WEIGHTS = declare(needs(above("beta", 0), why="without it all decisions weigh the same, as in bc"))

REWARDS = declare(needs(above("vf_coeff", 0), why="without a critic, as in bc, nothing is learned from rewards"))


class MarwilConfig(LearnerConfig):
    """marwil, bc: stochastic policies that imitate what was done, good decisions more than bad ones."""

    inherited_needs: ClassVar = {
        "intrinsic": unused("imitation learns from what others did, which no bonus leads elsewhere"),
        "gamma": REWARDS,
        "bootstrap_at_time_limit": REWARDS,
    }

    beta: NonNegativeFloat = Field(
        1.0, description="How much better decisions are preferred: weight exp(beta * scaled advantage); 0: all alike."
    )
    vf_coeff: NonNegativeFloat = Field(
        1.0,
        description="Weight of the critic's loss; 0: there is no critic.",
        json_schema_extra=declare(
            needs(one_of("beta", 0), when=(0,), why="better decisions are told by advantages, and these need a critic")
        ),
    )
    max_advantage_weight: PositiveFloat = Field(
        20.0,
        description="Largest weight of one decision, so that no single one rules an update.",
        json_schema_extra=WEIGHTS,
    )
    moving_average_sqd_adv_norm_start: PositiveFloat = Field(
        100.0,
        description="First value of the moving average of squared advantages, by whose root advantages are scaled.",
        json_schema_extra=WEIGHTS,
    )
    moving_average_sqd_adv_norm_update_rate: Annotated[float, Field(gt=0, le=1)] = Field(
        0.01, description="Share of a new update in this moving average.", json_schema_extra=WEIGHTS
    )
    lr: PositiveFloat = Field(1e-3, description="Step size of the optimiser.")
    grad_clip: PositiveFloat | None = Field(
        None,
        description="Largest norm of a policy's gradient; null: no limit. The critic's part, as large as the returns, counts.",
    )
    train_batch_size: PositiveInt = Field(2_000, description="Env steps per training batch.")
    num_sgd_iter: PositiveInt = Field(1, description="Passes over a training batch.")
    sgd_minibatch_size: PositiveInt = Field(256, description="Rows per gradient step.")

    @property
    def needs_whole_episodes(self) -> bool:
        return True

    @property
    def learns_from_recordings(self) -> bool:
        return True
