"""Keys of the stochastic actor-critic family."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from marl.algos.config import LearnerConfig, Schedule, scheduled
from marl.needs import above, declare, needs, one_of

PPO = needs(one_of("objective", "ppo"))
VTRACE = needs(one_of("objective", "vtrace"))
WITH_CRITIC = needs(one_of("objective", "a2c", "ppo", "vtrace"), why="pg learns no values")
OF_STATES = needs(one_of("critic_values", "state"), why="a critic of actions weighs all of them by its own values")


class CentralCriticConfig(LearnerConfig):
    """pg, a2c, a3c, ia2c, maa2c, coma, ppo, ippo, mappo, happo, mmd, nashpg, impala: stochastic policies whose critics see as
    much as ``critic_sees`` says."""

    inherited_needs: ClassVar = {"bootstrap_at_time_limit": declare(WITH_CRITIC)}

    objective: Literal["pg", "a2c", "ppo", "vtrace"] = Field(
        "ppo",
        description="pg: returns weigh the log probabilities; a2c: advantages do; ppo: clipped ratios over several passes; "
        "vtrace: advantages corrected for data that older weights played.",
    )
    critic_sees: Literal["own", "group", "all", "state", "agent_state"] = Field(
        "own",
        description="What the critic looks at: the agent's own observation, its group's, everybody's, the env's state, or the "
        "state and its own observation.",
        json_schema_extra=declare(WITH_CRITIC),
    )
    critic_values: Literal["state", "actions"] = Field(
        "state",
        description="state: the critic learns a value of what it sees, and the action that was taken is judged by what came "
        "after it. actions: it learns a value of each action, and the policy learns from all of them at once.",
        json_schema_extra=declare(
            needs(one_of("objective", "a2c", "ppo"), why="pg learns no values, and vtrace corrects those of states"),
        ),
    )
    critic_sees_actions: bool = Field(
        False,
        description="The critic of actions also sees what the others in its view do at the same time, so that its agent's "
        "actions are compared given what they do.",
        json_schema_extra=declare(
            needs(one_of("critic_values", "actions"), why="a baseline of states must not know what is done"),
            needs(one_of("critic_sees", "group", "all"), why="the others have to be in its view"),
        ),
    )
    share_reward: bool = Field(False, description="Train each agent of a group on the sum of the group's rewards.")
    sequential_update: bool = Field(
        False,
        description="Policies of a group learn one after the other, in a new random order for each training batch, each "
        "weighed by how those before it have changed; false: all at once.",
        json_schema_extra=declare(PPO, OF_STATES),
    )
    lr: PositiveFloat = Field(3e-4, description="Step size of the optimiser.")
    train_batch_size: PositiveInt = Field(4_000, description="Env steps per training batch.")
    # Clipping at 0.2, ten passes and lambda 0.95 are those of Schulman et al. (2017) on continuous control.
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = Field(
        0.95, description="How far advantages look past the critic.", json_schema_extra=declare(WITH_CRITIC)
    )
    num_sgd_iter: PositiveInt = Field(10, description="Passes over a training batch.", json_schema_extra=declare(PPO))
    sgd_minibatch_size: PositiveInt = Field(400, description="Rows per gradient step.", json_schema_extra=declare(PPO))
    clip_param: PositiveFloat = Field(
        0.2, description="How far the probability ratio may move.", json_schema_extra=declare(PPO)
    )
    vf_clip_param: PositiveFloat | None = Field(
        None, description="How far a value may move per update; null: freely.", json_schema_extra=declare(PPO)
    )
    vf_huber_delta: PositiveFloat | None = Field(
        None,
        description="Errors of values above it count linearly, not squared (Huber); null: all squared.",
        json_schema_extra=declare(WITH_CRITIC),
    )
    normalize_values: bool = Field(
        False,
        description="The critic learns returns scaled to mean 0 and deviation 1 by running statistics; all values that are "
        "used or shown stay in units of rewards.",
        json_schema_extra=declare(WITH_CRITIC),
    )
    vf_loss_coeff: NonNegativeFloat = Field(
        0.5, description="Weight of the critic's loss.", json_schema_extra=declare(WITH_CRITIC)
    )
    entropy_coeff: NonNegativeFloat = Field(0.0, description="Weight of the entropy bonus.")
    entropy_coeff_schedule: Schedule | None = Field(
        None,
        description="Points [env steps, entropy_coeff], joined by straight lines; replaces entropy_coeff.",
    )
    kl_coeff: NonNegativeFloat = Field(
        0.0,
        description="First weight of the penalty KL(old || new); 0: no penalty.",
        json_schema_extra=declare(PPO),
    )
    kl_target: PositiveFloat = Field(
        0.01,
        description="The weight of the KL penalty is adapted to hold this KL.",
        json_schema_extra=declare(PPO, needs(above("kl_coeff", 0))),
    )
    backward_kl_coeff: NonNegativeFloat = Field(
        0.0,
        description="Weight of KL(new || old), where old is the policy before the training batch; 0: none. Makes a "
        "training batch a step of mirror descent.",
        json_schema_extra=declare(PPO),
    )
    backward_kl_coeff_schedule: Schedule | None = Field(
        None,
        description="Points [env steps, backward_kl_coeff], joined by straight lines; replaces backward_kl_coeff.",
        json_schema_extra=declare(PPO),
    )
    vtrace_rho_bar: PositiveFloat = Field(
        1.0, description="Largest ratio that weighs a temporal difference.", json_schema_extra=declare(VTRACE)
    )
    vtrace_c_bar: PositiveFloat = Field(
        1.0,
        description="Largest ratio by which later differences are handed back.",
        json_schema_extra=declare(VTRACE),
    )
    magnet_coeff: NonNegativeFloat = Field(
        0.0,
        description="Weight of KL(policy || magnet), where the magnet is a slowly moving copy of the policy; 0: none. Makes "
        "self-play settle instead of cycling.",
    )
    magnet_tau: Annotated[float, Field(gt=0, le=1)] = Field(
        0.05,
        description="How far the magnet moves towards the policy after each training batch; 1: all the way.",
        json_schema_extra=declare(needs(above("magnet_coeff", 0))),
    )
    magnet_every: PositiveInt = Field(
        1,
        description="Training batches between two moves of the magnet.",
        json_schema_extra=declare(needs(above("magnet_coeff", 0))),
    )
    normalize_advantages: bool = Field(
        True,
        description="Scale the advantages of a training batch to mean 0 and deviation 1.",
        json_schema_extra=declare(OF_STATES),
    )
    grad_clip: PositiveFloat | None = Field(0.5, description="Largest norm of a policy's gradient; null: no limit.")

    def entropy_coeff_at(self, timesteps: int) -> float:
        """Its schedule's value after so many env steps."""
        return scheduled(self.entropy_coeff_schedule, self.entropy_coeff, timesteps)

    def backward_kl_coeff_at(self, timesteps: int) -> float:
        """Its schedule's value after so many env steps."""
        return scheduled(self.backward_kl_coeff_schedule, self.backward_kl_coeff, timesteps)

    @property
    def looks_at_groups(self) -> bool:
        return self.critic_sees != "own" or self.share_reward or self.sequential_update

    @property
    def needs_state(self) -> bool:
        return self.critic_sees in ("state", "agent_state")

    @property
    def acting(self) -> dict[str, Any]:
        options: dict[str, Any] = {"own_value": self.critic_sees == "own" and self.objective != "pg"}
        if self.normalize_values:
            options["normalize_values"] = True
        return options

    @property
    def needs_whole_episodes(self) -> bool:
        return self.objective == "pg"

    @property
    def corrects_for_lag(self) -> bool:
        return self.objective in ("ppo", "vtrace")

    @property
    def joined_keys(self) -> tuple[str, ...]:
        return ("sequential_update", "train_batch_size") if self.sequential_update else ("sequential_update",)

    @property
    def shared_keys(self) -> tuple[str, ...]:
        return (
            "objective", "lr", "lr_schedule", "train_batch_size", "num_sgd_iter", "sgd_minibatch_size", "grad_clip",
            "optimizer",
        )  # fmt: skip
