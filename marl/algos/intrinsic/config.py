"""Keys of ``intrinsic:``."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from marl.algos.intrinsic import count as _count  # both register their kinds
from marl.algos.intrinsic import rnd as _rnd
from marl.algos.intrinsic.kind import INTRINSIC, kinds_in_words
from marl.algos.schedule import Schedule
from marl.config import Config, Named
from marl.needs import Declared, declare, needs, registered

BUILT_IN = (_rnd, _count)


def _kinds_with(key: str) -> Declared:
    """Kinds say by themselves which keys they take, those from outside of marl too."""
    return declare(needs(registered("kind", partial(_names_with, key))))


def _names_with(key: str) -> tuple[str, ...]:
    return tuple(name for name in INTRINSIC.names if key in INTRINSIC[name].keys)


class IntrinsicConfig(Config):
    """A reward that the learner adds to the env's, for what is new to the policy."""

    kind: str = Field(
        description=kinds_in_words(), json_schema_extra=Named(names=lambda: INTRINSIC.names, meaning=kinds_in_words)
    )
    coeff: NonNegativeFloat = Field(0.1, description="What a bonus is multiplied by before it is added to the reward.")
    coeff_schedule: Schedule | None = Field(
        None, description="Points [env steps, coeff], joined by straight lines; replaces coeff."
    )
    lr: PositiveFloat = Field(
        1e-3, description="Step size of the network that learns what is known.", json_schema_extra=_kinds_with("lr")
    )
    hiddens: list[PositiveInt] = Field(
        [64, 64], description="Units of the hidden layers of both networks.", json_schema_extra=_kinds_with("hiddens")
    )
    embedding: PositiveInt = Field(
        32, description="Outputs of both networks.", json_schema_extra=_kinds_with("embedding")
    )
    update_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="Share of a round's decisions from which the network learns; less: what was seen stays new for longer.",
        json_schema_extra=_kinds_with("update_share"),
    )
    minibatch_size: PositiveInt = Field(
        256, description="Decisions per gradient step of the network.", json_schema_extra=_kinds_with("minibatch_size")
    )
    decimals: NonNegativeInt = Field(
        2, description="Observations are equal if they are so many digits behind the point.",
        json_schema_extra=_kinds_with("decimals"),
    )  # fmt: skip
    kind_config: dict[str, Any] = Field({}, description="Handed to a kind of your own.")

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        if value not in INTRINSIC:
            raise ValueError(INTRINSIC.unknown(value).rstrip("."))
        return value.lower()

    @model_validator(mode="after")
    def _takes_keys_of_its_own(self) -> IntrinsicConfig:
        # No declared need: while nothing was registered from outside, it would list no kind at all.
        if self.kind_config and "kind_config" not in INTRINSIC[self.kind].keys:
            raise ValueError(
                f"kind_config: {self.kind_config} needs a kind of your own, but kind is {self.kind}. Drop kind_config"
            )
        return self
