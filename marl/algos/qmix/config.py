"""Keys of the action-value family."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from marl.algos.config import ReplayConfig


class QmixConfig(ReplayConfig):
    """dqn, vdn, qmix: action values from a replay, alone or mixed over a group."""

    mixer: Literal["none", "sum", "monotonic"] = Field(
        "monotonic",
        description="How agents' values become the team's value: apart (dqn), added (vdn), or by QMIX's network.",
    )
    double_q: bool = Field(
        True, description="Choose the next action with the online network, value it with the target."
    )
    dueling: bool = Field(False, description="Network gives a state value and centred advantages.")
    huber_delta: PositiveFloat | None = Field(
        None, description="Errors beyond this count linearly instead of squared (Huber's loss); null: all squared."
    )
    reward_shift: float = Field(
        0.0,
        description="Added to the reward of every env step (the team's) before reward_scale. A monotonic mixer learns slowly "
        "where all values are far below 0. In worlds that can end early it changes what is best.",
    )
    reward_scale: PositiveFloat = Field(
        1.0,
        description="Rewards are learned from multiplied by this; mixers learn best where values are of the order of 1 to 10.",
    )
    buffer_size: PositiveInt = Field(50_000, description="Rows that the replay holds.")
    updates_per_step: PositiveFloat = Field(0.25, description="Updates per env step; fractions are carried over.")
    target_update_every: PositiveInt = Field(500, description="Updates between two copies into the target network.")
    mixing_embed_dim: PositiveInt = Field(32, description="Hidden units of the monotonic mixer.")
    hypernet_embed: NonNegativeInt = Field(
        0, description="Hidden units of the networks that turn the state into the mixer's weights; 0: one linear layer."
    )

    @model_validator(mode="after")
    def _only_keys_that_count(self) -> QmixConfig:
        unused = self.changed("mixing_embed_dim", "hypernet_embed") if self.mixer != "monotonic" else []
        if unused:
            raise ValueError(f"{unused[0]} means nothing to the mixer {self.mixer!r}; drop it, or use qmix")
        return self

    @property
    def looks_at_groups(self) -> bool:
        return self.mixer != "none"

    @property
    def needs_state(self) -> bool:
        return self.mixer == "monotonic"

    @property
    def acting(self) -> dict[str, Any]:
        return {"dueling": self.dueling}

    @property
    def joined_keys(self) -> tuple[str, ...]:
        return tuple(type(self).model_fields)
