"""Keys of soft actor-critic."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from marl.algos.config import ReplayConfig
from marl.needs import declare, needs, not_given, one_of, plays

COMMON_LR = declare(
    needs(
        not_given("actor_lr"),
        not_given("critic_lr"),
        not_given("alpha_lr"),
        why="each optimiser has a constant step size of its own",
    )
)


class SacConfig(ReplayConfig):
    """sac, masac: stochastic actors that are paid for entropy, with twin critics that see as much as ``critic_sees`` says."""

    inherited_needs: ClassVar = {"lr_schedule": COMMON_LR}

    lr: PositiveFloat = Field(
        3e-4, description="Step size of the optimisers that have none of their own.", json_schema_extra=COMMON_LR
    )
    actor_lr: PositiveFloat | None = Field(
        None, description="Step size of the actor's optimiser, constant; null: lr or its schedule."
    )
    critic_lr: PositiveFloat | None = Field(
        None, description="Step size of the critics' optimiser, constant; null: lr or its schedule."
    )
    alpha_lr: NonNegativeFloat | None = Field(
        None,
        description="Step size of the temperature's optimiser, constant; null: lr or its schedule; 0: alpha stays at "
        "initial_alpha.",
    )
    critic_sees: Literal["own", "group", "all"] = Field(
        "own",
        description="Whose observations and actions the critics look at: the agent's own, its group's, or everybody's.",
    )
    share_reward: bool = Field(False, description="Train each agent of a group on the sum of the group's rewards.")
    initial_alpha: PositiveFloat = Field(1.0, description="First temperature: reward that one nat of entropy is worth.")
    target_entropy: Literal["auto"] | float = Field(
        "auto",
        description="Entropy in nats that the temperature holds. auto: -1 per Box coordinate; Discrete: target_entropy_share.",
    )
    target_entropy_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5,
        description="Share of the largest entropy, log(number of legal actions).",
        json_schema_extra=declare(
            needs(one_of("target_entropy", "auto")),
            plays("choices", why="it is a share of the entropy of Discrete actions, of which a Box has none"),
        ),
    )
    # tau, batches of 256 and a step size of 3e-4 as in Haarnoja et al. (2018), "SAC Algorithms and Applications".
    tau: Annotated[float, Field(gt=0, le=1)] = Field(
        0.005, description="Share of the critics that their targets take over per update."
    )
    train_batch_size: PositiveInt = Field(256, description="Rows per update.")
    grad_clip: PositiveFloat | None = Field(
        None, description="Largest norm of the gradient of an actor, and of its critics; null: no limit."
    )

    @property
    def looks_at_groups(self) -> bool:
        return self.critic_sees != "own" or self.share_reward
