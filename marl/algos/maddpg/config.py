"""Keys of the deterministic actor-critic family."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from marl.algos.config import ReplayConfig
from marl.needs import above, declare, needs, not_given, plays

COMMON_LR = declare(
    needs(not_given("actor_lr"), not_given("critic_lr"), why="each optimiser has a constant step size of its own")
)


class MaddpgConfig(ReplayConfig):
    """ddpg, td3, maddpg: deterministic actors whose critics of actions see as much as ``critic_sees`` says."""

    inherited_needs: ClassVar = {"lr_schedule": COMMON_LR}

    critic_sees: Literal["own", "group", "all"] = Field(
        "own",
        description="Whose observations and actions the critic looks at: the agent's own, its group's, or everybody's.",
    )
    share_reward: bool = Field(False, description="Train each agent of a group on the sum of the group's rewards.")
    lr: PositiveFloat = Field(
        1e-3,
        description="Step size of both optimisers, unless actor_lr or critic_lr is given.",
        json_schema_extra=COMMON_LR,
    )
    actor_lr: PositiveFloat | None = Field(
        None, description="Step size of the actor's optimiser, constant; null: lr or its schedule."
    )
    critic_lr: PositiveFloat | None = Field(
        None, description="Step size of the critic's optimiser, constant; null: lr or its schedule."
    )
    train_batch_size: PositiveInt = Field(128, description="Rows (decisions of one agent) per update.")
    # The share of TD3 (Fujimoto et al., 2018).
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
    target_noise_clip: NonNegativeFloat = Field(
        0.5,
        description="Largest size of this noise, in the same units.",
        json_schema_extra=declare(needs(above("target_noise", 0))),
    )
    gumbel_temperature: PositiveFloat = Field(
        1.0,
        description="Softness of the gradient through a drawn option; towards 0 it is sharp and noisy.",
        json_schema_extra=declare(plays("choices")),
    )
    actor_reg: NonNegativeFloat = Field(
        1e-3, description="Weight of the mean squared output of the actor's network, which keeps it from saturating."
    )

    @property
    def looks_at_groups(self) -> bool:
        return self.critic_sees != "own" or self.share_reward

    @property
    def looks_at_everybody(self) -> bool:
        return self.critic_sees == "all"
