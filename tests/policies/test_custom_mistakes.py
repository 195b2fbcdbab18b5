"""Mistakes in the user's own classes are told before anything is trained, by the name of the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import marl
from marl.errors import ConfigError, UnknownNameError


class TooWide(marl.Model):
    def __init__(self, inputs: int, outputs: int, config: Mapping[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = nn.Linear(inputs, outputs + 1)

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(features), carry


class NoCarry(marl.Model):
    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return features[:, : self.outputs]  # type: ignore[return-value]


class TwoArguments(marl.Model):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, {})

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return features, carry


class NoSize(marl.Preprocessor):
    def forward(self, obs: Tensor) -> Tensor:
        return obs.float()


class WrongSize(marl.Preprocessor):
    size = 9

    def forward(self, obs: Tensor) -> Tensor:
        return obs.float()


class Silent(marl.Loss):
    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        return None  # type: ignore[return-value]


class Vector(marl.Loss):
    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        return torch.stack([loss, loss])


class Keyless(marl.Loss):
    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        return loss * self.config["weight"]


@pytest.mark.parametrize(
    ("key", "name", "told"),
    [
        ("custom_model", "TooWide", r"custom model TooWide gives outputs \[2, [34]\].*expected \[2, [23]\]"),
        ("custom_model", "NoCarry", r"custom model NoCarry failed on two rows of zeros"),
        ("custom_model", "TwoArguments", r"TwoArguments\(inputs, outputs, config\) could not be built: TypeError"),
        ("custom_preprocessor", "NoSize", r"custom preprocessor NoSize has size None"),
        ("custom_preprocessor", "WrongSize", r"WrongSize gives \[2, 4\] for two observations, but its size is 9"),
    ],
)
@pytest.mark.parametrize("algo", ["ppo", "dqn", "sac", "es"])
def test_a_part_that_does_not_fit_is_told_before_the_start(algo: str, key: str, name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        marl.Trainer(algo, env="CartPole-v1", config={key: f"{__name__}:{name}"})


@pytest.mark.parametrize("algo", ["ppo", "dqn", "sac", "maddpg", "marwil"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Silent", r"gave None"),
        ("Vector", r"gave \[2\]"),
        ("Keyless", r"custom loss Keyless failed: KeyError: 'weight'"),
    ],
)
def test_a_loss_that_fails_is_told_by_its_name(algo: str, name: str, told: str) -> None:
    keys: dict[str, Any] = {"custom_loss": f"{__name__}:{name}", "fcnet_hiddens": [8], "train_batch_size": 16}
    if algo not in ("ppo", "marwil"):
        keys["learning_starts"] = 8
    with (
        marl.Trainer(algo, env="two_step_game", config={**keys, "timesteps_per_iteration": 32}) as trainer,
        pytest.raises(ConfigError, match=told),
    ):
        trainer.train()


def test_an_unknown_name_says_how_to_register_it() -> None:
    with pytest.raises(UnknownNameError, match=r"marl\.register_model\(name, class\).*imports.*package\.module:Class"):
        marl.Trainer("ppo", env="CartPole-v1", config={"custom_model": "resnet"})
