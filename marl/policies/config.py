"""Keys of ``model:``, ``exploration_config:`` and ``scripted:``, and the recipe from which a policy is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, field_validator, model_validator

from marl.config import Config


class ModelConfig(Config):
    """What the network looks like."""

    fcnet_hiddens: list[PositiveInt] = Field([256, 256], description="Sizes of the hidden layers.")
    fcnet_activation: Literal["tanh", "relu"] = Field("tanh", description="Activation after each hidden layer.")
    post_fcnet_hiddens: list[PositiveInt] = Field(
        [], description="Sizes of more hidden layers after these; they stay a policy's own where the encoder is shared."
    )
    post_fcnet_activation: Literal["tanh", "relu"] = Field("relu", description="Activation after each of them.")
    shared: dict[str, str] = Field(
        {},
        description="encoder: NAME makes the layers of fcnet_hiddens the same tensors in all policies with this NAME.",
    )
    vf_share_layers: bool = Field(
        False, description="The value head shares the policy's layers (only where critic_sees is own)."
    )
    free_log_std: bool = Field(
        False,
        description="Box actions: the log standard deviation is a free parameter instead of a network output.",
    )
    agent_id: Literal["auto"] | bool = Field(
        "auto",
        description="Show the policy the one-hot seat of the agent it plays. auto: when it plays several agents "
        "of a group that is mixed or shares a critic.",
    )

    @field_validator("shared")
    @classmethod
    def _only_encoders(cls, value: dict[str, str]) -> dict[str, str]:
        unknown = [key for key in value if key != "encoder"]
        if unknown:
            raise ValueError(f"{unknown[0]!r} cannot be shared; expected encoder: NAME")
        return value


class ExplorationConfig(Config):
    """How a policy explores. Which keys count depends on ``type``."""

    type: Literal["EpsilonGreedy", "StochasticSampling", "GaussianNoise"] = Field(
        description="EpsilonGreedy for action values; StochasticSampling or GaussianNoise for stochastic policies."
    )
    initial_epsilon: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="EpsilonGreedy: chance of a random action at the start. Default 1.0."
    )
    final_epsilon: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="EpsilonGreedy: chance of a random action at the end. Default 0.02."
    )
    epsilon_timesteps: NonNegativeInt | None = Field(
        None,
        description="EpsilonGreedy: env steps from the initial to the final value, linearly. Default 10000.",
    )
    random_timesteps: NonNegativeInt | None = Field(
        None,
        description="StochasticSampling, GaussianNoise: env steps of uniformly random actions first. Default 0.",
    )
    initial_scale: NonNegativeFloat | None = Field(
        None,
        description="GaussianNoise: standard deviation of the noise on normalised actions at the start. Default 1.0.",
    )
    final_scale: NonNegativeFloat | None = Field(
        None, description="GaussianNoise: standard deviation at the end. Default 0.1."
    )
    scale_timesteps: NonNegativeInt | None = Field(
        None,
        description="GaussianNoise: env steps from the initial to the final scale, linearly. Default 10000.",
    )

    @model_validator(mode="after")
    def _only_its_own_keys(self) -> ExplorationConfig:
        given = {name for name in type(self).model_fields if name != "type" and getattr(self, name) is not None}
        foreign = given - EXPLORATION_KEYS[self.type]
        if foreign:
            raise ValueError(
                f"{', '.join(sorted(foreign))} means nothing to {self.type}; it knows "
                f"{', '.join(sorted(EXPLORATION_KEYS[self.type]))}"
            )
        return self


EXPLORATION_KEYS: dict[str, set[str]] = {
    "EpsilonGreedy": {"initial_epsilon", "final_epsilon", "epsilon_timesteps"},
    "StochasticSampling": {"random_timesteps"},
    "GaussianNoise": {"random_timesteps", "initial_scale", "final_scale", "scale_timesteps"},
}


class ScriptedConfig(Config):
    """A policy that does not learn."""

    name: str | Callable[..., Any] = Field(
        description="random, fixed, or package.module:name of a function (obs, rng) -> action or of a Policy class."
    )
    action: int | list[int] | list[float] | None = Field(None, description="fixed: the action that is always played.")


@dataclass(frozen=True)
class PolicySpec:
    """All that is needed to build a policy anywhere: on the driver or in a worker."""

    acts: Literal["value", "stochastic", "scripted"]
    kind: int  # index of the kind of agents that it plays
    model: ModelConfig = field(default_factory=ModelConfig)
    exploration: ExplorationConfig | None = None
    scripted: ScriptedConfig | None = None
    agent_id: bool = False
    dueling: bool = False
    seed: int = 0
