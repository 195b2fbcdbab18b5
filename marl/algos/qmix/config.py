"""Keys of the action-value family."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from marl.algos.config import ReplayConfig
from marl.needs import above, declare, needs, one_of

MONOTONIC = declare(needs(one_of("mixer", "monotonic"), why="qmix alone mixes by a network"))
WITH_ATOMS = declare(needs(above("num_atoms", 1)))


class QmixConfig(ReplayConfig):
    """dqn, iql, hysteretic, noisy_dqn, rainbow, softq, vdn, qmix, apex: action values from a replay, alone or mixed."""

    mixer: Literal["none", "sum", "monotonic"] = Field(
        "monotonic",
        description="How agents' values become the team's value: apart (dqn), added (vdn), or by QMIX's network.",
    )
    double_q: bool = Field(
        True, description="Choose the next action with the online network, value it with the target."
    )
    dueling: bool = Field(False, description="Network gives a state value and centred advantages.")
    huber_delta: PositiveFloat | None = Field(
        None,
        description="Errors beyond this count linearly instead of squared (Huber's loss); null: all squared.",
        json_schema_extra=declare(needs(one_of("num_atoms", 1), why="chances of returns have a loss of their own")),
    )
    negative_error_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0,
        description="Weight of outcomes that were worse than their value, against 1 for better ones: below 1 a partner's "
        "exploration is blamed less (hysteretic Q-learning); 0 forgets nothing good (distributed Q-learning). Only for "
        "teams: it also overrates luck.",
        json_schema_extra=declare(needs(one_of("num_atoms", 1), why="chances of returns have a loss of their own")),
    )
    reward_shift: float = Field(
        0.0,
        description="Added to the reward of every env step (the team's) before reward_scale. A monotonic mixer learns slowly "
        "where all values are far below 0. In envs that can end early it changes what is best.",
    )
    reward_scale: PositiveFloat = Field(
        1.0,
        description="Rewards are learned from multiplied by this; mixers learn best where values are of the order of 1 to 10.",
    )
    normalize_rewards: bool | None = Field(
        None,
        description="Networks and mixers count in a unit that follows the size of the rewards seen so far (their mean size, "
        "and at least a twentieth of the largest); values are told in rewards all the same. null: unless num_atoms or "
        "reward_scale is given.",
        json_schema_extra=declare(
            needs(one_of("num_atoms", 1), when=(True,), why="chances of returns have v_min and v_max for that"),
            needs(one_of("reward_scale", 1.0), when=(True,), why="the unit would undo it"),
        ),
    )
    center_rewards: bool = Field(
        False,
        description="Rewards are learned from less their running mean per env step; with normalize_rewards this is what "
        "EPyMARL calls standardised rewards. Values are then about centred rewards. In envs that can end early it changes "
        "what is best: where rewards are above 0, every step costs something.",
        json_schema_extra=declare(needs(one_of("num_atoms", 1), why="chances of returns have a fixed range")),
    )
    num_atoms: PositiveInt = Field(
        1,
        description="Returns whose chances are learned for each action (C51; 51 is usual); 1: the mean return alone.",
        json_schema_extra=declare(
            needs(one_of("mixer", "none"), why="a mixer takes values, not distributions; dqn and apex have none")
        ),
    )
    v_min: float = Field(
        -10.0,
        description="The lowest of these returns, after reward_scale; lower ones count as this.",
        json_schema_extra=WITH_ATOMS,
    )
    v_max: float = Field(
        10.0,
        description="The highest of these returns, after reward_scale; higher ones count as this.",
        json_schema_extra=WITH_ATOMS,
    )
    priorities: Literal["error", "divergence"] = Field(
        "error",
        description="What the priority of a row follows: the difference of the means, or how far the chances that were "
        "predicted are from those that should have been (Kullback-Leibler, as in Rainbow).",
        json_schema_extra=WITH_ATOMS.joined(declare(needs(one_of("prioritized_replay", True)))),
    )
    noisy: bool = Field(
        False,
        description="Fully connected layers draw their weights and learn how far these spread (NoisyNet). They explore by "
        "that; exploration_config.type NoisyLayers leaves it to them alone.",
    )
    sigma0: PositiveFloat = Field(
        0.5,
        description="Deviation of the weights of a noisy layer at the start, times the root of its number of inputs.",
        json_schema_extra=declare(needs(one_of("noisy", True))),
    )
    temperature: NonNegativeFloat = Field(
        0.0,
        description="Soft values: in place of the highest action value an outcome counts temperature * log(sum(exp(Q / "
        "temperature))), which pays for keeping several actions likely. 0: the highest.",
        json_schema_extra=declare(
            needs(one_of("mixer", "none", "sum"), why="the soft value of a team is known where values are added up"),
            needs(one_of("num_atoms", 1), why="chances of returns have no soft value"),
        ),
    )
    buffer_size: PositiveInt = Field(50_000, description="Rows that the replay holds.")
    updates_per_step: PositiveFloat = Field(0.25, description="Updates per env step; fractions are carried over.")
    target_update_every: PositiveInt = Field(500, description="Updates between two moves of the target network.")
    tau: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="How far the target network moves then; 1: it becomes a copy. Soft targets: 0.005 to 0.01 every update.",
    )
    mixing_embed_dim: PositiveInt = Field(
        32, description="Hidden units of the monotonic mixer.", json_schema_extra=MONOTONIC
    )
    hypernet_embed: NonNegativeInt = Field(
        64,
        description="Hidden units of the networks that turn the state into the mixer's weights; 0: one linear layer.",
        json_schema_extra=MONOTONIC,
    )

    normalize_state: bool = Field(
        True,
        description="The mixer sees the state less its running mean, divided by its running deviation.",
        json_schema_extra=MONOTONIC,
    )

    @model_validator(mode="after")
    def _returns_in_order(self) -> QmixConfig:
        if self.v_min >= self.v_max:
            raise ValueError(f"v_min {self.v_min:g} has to be below v_max {self.v_max:g}")
        return self

    @property
    def normalizes(self) -> bool:
        """Whether networks count in a unit of their own."""
        if self.normalize_rewards is None:
            return self.num_atoms == 1 and self.reward_scale == 1.0
        return self.normalize_rewards

    @property
    def looks_at_groups(self) -> bool:
        return self.mixer != "none"

    @property
    def needs_state(self) -> bool:
        return self.mixer == "monotonic"

    @property
    def acting(self) -> dict[str, Any]:
        options: dict[str, Any] = {"dueling": self.dueling}
        if self.num_atoms > 1:
            options |= {"num_atoms": self.num_atoms, "v_min": self.v_min, "v_max": self.v_max}
        if self.normalizes:
            options["units"] = True
        if self.noisy:
            options |= {"noisy": True, "sigma0": self.sigma0}
        if self.temperature:
            options["temperature"] = self.temperature
        return options

    @property
    def joined_keys(self) -> tuple[str, ...]:
        return tuple(type(self).model_fields)
