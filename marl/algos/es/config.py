"""Keys of evolution strategies."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, PositiveFloat, PositiveInt

from marl.algos.config import LearnerConfig
from marl.needs import unused


class EsConfig(LearnerConfig):
    """es: perturbed copies of a policy play whole episodes, and the policy moves towards those that were paid more."""

    inherited_needs: ClassVar = {
        "gamma": unused("es compares whole episodes by what they paid, without a discount"),
        "bootstrap_at_time_limit": unused(
            "es compares whole episodes by what they paid, and values nothing behind them"
        ),
        "intrinsic": unused("es compares whole episodes by what the env paid"),
        "custom_loss": unused("es has no loss"),
        "custom_loss_config": unused("es has no loss"),
        "train_batch_size": unused("the batch of es is num_perturbations pairs of episodes_per_perturbation episodes"),
    }

    lr: PositiveFloat = Field(0.03, description="Step size of the optimiser.")
    num_perturbations: PositiveInt = Field(
        20, description="Pairs of perturbed policies (+noise and -noise) per update; policies of one run agree on it."
    )
    episodes_per_perturbation: PositiveInt = Field(
        1,
        description="Episodes that each perturbed policy plays per update; both of a pair play the same ones. A worker plays "
        "so many copies of the env at once; more copies (num_envs_per_worker) are of no use to es.",
    )
    noise_stdev: PositiveFloat = Field(0.05, description="Standard deviation of the noise on every parameter.")
    sample_actions: bool = Field(
        False, description="Perturbed policies act with their exploration (exploration_config) instead of greedily."
    )
    grad_clip: PositiveFloat | None = Field(
        None, description="Largest norm of a policy's estimated gradient; null: no limit."
    )

    @property
    def population_keys(self) -> tuple[str, ...]:
        """Keys on which all es policies of a run must agree, because they are perturbed in the same episodes."""
        return ("num_perturbations", "episodes_per_perturbation", "sample_actions")
