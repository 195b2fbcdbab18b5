"""Keys of the deterministic actor-critic family."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from marl.algos.config import ReplayConfig, refuse_unused_lr


class MaddpgConfig(ReplayConfig):
    """ddpg, td3, maddpg: deterministic actors whose critics of actions see as much as ``critic_sees`` says."""

    critic_sees: Literal["own", "group", "all"] = Field(
        "own",
        description="Whose observations and actions the critic looks at: the agent's own, its group's, or everybody's.",
    )
    share_reward: bool = Field(False, description="Train each agent of a group on the sum of the group's rewards.")
    lr: PositiveFloat = Field(1e-3, description="Step size of both optimisers, unless actor_lr or critic_lr is given.")
    actor_lr: PositiveFloat | None = Field(
        None, description="Step size of the actor's optimiser, constant; null: lr or its schedule."
    )
    critic_lr: PositiveFloat | None = Field(
        None, description="Step size of the critic's optimiser, constant; null: lr or its schedule."
    )
    train_batch_size: PositiveInt = Field(128, description="Rows (decisions of one agent) per update.")
    tau: Annotated[float, Field(gt=0, le=1)] = Field(
        0.005, description="Share of the way that target networks move towards the learned ones per update."
    )
    twin_q: bool = Field(
        False, description="Two critics; targets take the smaller value, which holds overestimation down."
    )
    policy_delay: PositiveInt = Field(
        1, description="Updates of the critic per update of the actor and of the targets."
    )
    target_noise: NonNegativeFloat = Field(
        0.0,
        description="Standard deviation of the noise on coordinates of target actions, in normalised units (-1..1).",
    )
    target_noise_clip: NonNegativeFloat = Field(0.5, description="Largest size of this noise, in the same units.")
    gumbel_temperature: PositiveFloat = Field(
        1.0, description="Choices: softness of the gradient through a drawn option; towards 0 it is sharp and noisy."
    )
    actor_reg: NonNegativeFloat = Field(
        1e-3, description="Weight of the mean squared output of the actor's network, which keeps it from saturating."
    )

    @model_validator(mode="after")
    def _only_keys_that_count(self) -> MaddpgConfig:
        refuse_unused_lr(self, "actor_lr", "critic_lr")
        if self.changed("target_noise_clip") and not self.target_noise:
            raise ValueError("target_noise_clip means nothing while target_noise is 0; set target_noise, or drop it")
        return self

    @property
    def looks_at_groups(self) -> bool:
        return self.critic_sees != "own" or self.share_reward

    @property
    def looks_at_everybody(self) -> bool:
        return self.critic_sees == "all"
