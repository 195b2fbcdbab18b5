"""Keys of imitation learning."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from marl.algos.config import LearnerConfig

WEIGHT_KEYS = (
    "max_advantage_weight", "moving_average_sqd_adv_norm_start", "moving_average_sqd_adv_norm_update_rate",
)  # fmt: skip


class MarwilConfig(LearnerConfig):
    """marwil, bc: stochastic policies that imitate what was done, good decisions more than bad ones."""

    beta: NonNegativeFloat = Field(
        1.0, description="How much better decisions are preferred: weight exp(beta * scaled advantage); 0: all alike."
    )
    vf_coeff: NonNegativeFloat = Field(
        1.0, description="Weight of the critic's loss; 0: there is no critic (needs beta 0)."
    )
    max_advantage_weight: PositiveFloat = Field(
        20.0, description="Largest weight of one decision, so that no single one rules an update."
    )
    moving_average_sqd_adv_norm_start: PositiveFloat = Field(
        100.0,
        description="First value of the moving average of squared advantages, by whose root advantages are scaled.",
    )
    moving_average_sqd_adv_norm_update_rate: Annotated[float, Field(gt=0, le=1)] = Field(
        0.01, description="Share of a new update in this moving average."
    )
    lr: PositiveFloat = Field(1e-3, description="Step size of the optimiser.")
    grad_clip: PositiveFloat | None = Field(
        None,
        description="Largest norm of a policy's gradient; null: no limit. The critic's part, as large as the returns, counts.",
    )
    train_batch_size: PositiveInt = Field(2_000, description="Env steps per training batch.")
    num_sgd_iter: PositiveInt = Field(1, description="Passes over a training batch.")
    sgd_minibatch_size: PositiveInt = Field(256, description="Rows per gradient step.")

    @model_validator(mode="after")
    def _weights_need_a_critic(self) -> MarwilConfig:
        if self.beta > 0 and self.vf_coeff == 0:
            raise ValueError(
                f"beta {self.beta:g} needs advantages, and these a critic: set vf_coeff above 0, or beta 0"
            )
        weights = self.changed(*WEIGHT_KEYS)
        if weights and self.beta == 0:
            raise ValueError(
                f"{', '.join(weights)} means nothing while beta is 0 (bc): all decisions weigh the same; drop it, or use "
                "marwil with a beta above 0"
            )
        if self.changed("gamma") and self.vf_coeff == 0:
            raise ValueError("gamma means nothing while vf_coeff is 0 (bc): nothing is learned from rewards; drop it")
        return self

    @property
    def needs_whole_episodes(self) -> bool:
        return True

    @property
    def learns_from_recordings(self) -> bool:
        return True
