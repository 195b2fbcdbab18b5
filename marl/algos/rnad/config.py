"""Keys of regularised Nash dynamics."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from marl.algos.config import LearnerConfig


class RnadConfig(LearnerConfig):
    """rnad: a game whose rewards are changed has one resting point; it is found, and the change is moved there."""

    lr: PositiveFloat = Field(1e-3, description="Step size of the optimiser.")
    train_batch_size: PositiveInt = Field(2_000, description="Env steps per training batch.")
    num_sgd_iter: PositiveInt = Field(1, description="Passes over a training batch.")
    sgd_minibatch_size: PositiveInt = Field(1_000, description="Rows per gradient step.")
    grad_clip: PositiveFloat | None = Field(10.0, description="Largest norm of a policy's gradient; null: no limit.")
    regularisation_coeff: NonNegativeFloat = Field(
        0.2,
        description="What a player pays per unit of log(policy / regularisation policy) of what it does; in a game of two the "
        "other one is paid it.",
    )
    regularisation_every: PositiveInt = Field(
        100, description="Training batches until the regularisation policy becomes the slow copy of the policy."
    )
    target_tau: Annotated[float, Field(gt=0, le=1)] = Field(
        0.05, description="How far the slow copies of policy and critic move after each training batch; 1: all the way."
    )
    critic_sees: Literal["own", "all", "state"] = Field(
        "own", description="What the critic looks at: the agent's own observation, everybody's, or the env's state."
    )
    vf_loss_coeff: PositiveFloat = Field(1.0, description="Weight of the critic's loss.")
    vtrace_rho_bar: PositiveFloat = Field(1.0, description="Largest ratio that weighs a temporal difference.")
    vtrace_c_bar: PositiveFloat = Field(1.0, description="Largest ratio by which later differences are handed back.")
    neurd_threshold: PositiveFloat = Field(
        2.0, description="A logit that is further than this from the mean of the legal ones is pushed no further."
    )
    neurd_clip: PositiveFloat = Field(
        10_000.0, description="Largest advantage of an action, after division by the chance of having chosen it."
    )

    @property
    def looks_at_everybody(self) -> bool:
        return True  # what the other player pays is computed from its policy

    @property
    def needs_state(self) -> bool:
        return self.critic_sees == "state"

    @property
    def corrects_for_lag(self) -> bool:
        return True
