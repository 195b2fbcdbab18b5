"""A function of the user's own evaluates instead of, or around, the usual episodes."""

from __future__ import annotations

from typing import Any

import pytest

import marl
from marl.errors import ConfigError
from tests.documents.parts import PPO


def with_more(trainer: marl.Trainer, play: Any) -> Any:
    """The usual block, and a number of its own."""
    block = play()
    block["custom_metrics"]["own_mean"] = 2.0 * trainer.scenario.seed + trainer.iteration
    return block


def broken(trainer: Any, play: Any) -> Any:
    raise ValueError("no luck")


def config(function: Any, **more: Any) -> dict[str, Any]:
    return {**PPO, "seed": 3, "evaluation": {"interval": 1, "episodes": 2, "custom_function": function, **more}}


@pytest.mark.parametrize("function", [with_more, f"{__name__}:with_more"])
def test_its_block_is_the_evaluation_and_decides_which_is_best(function: Any) -> None:
    keys = config(function, metric="custom_metrics.own_mean")
    with marl.Trainer("ppo", env="CartPole-v1", config=keys) as trainer:
        block = trainer.train()["evaluation"]
        assert block["custom_metrics"] == {"own_mean": 7.0}
        assert block["episodes"] == 2
        assert trainer.best_evaluation == 7.0
        assert trainer.evaluate()["custom_metrics"] == {"own_mean": 7.0}


def test_it_may_do_without_the_usual_episodes() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config=config(lambda trainer, play: {"mine": 1.0})) as trainer:
        assert trainer.train()["evaluation"] == {"mine": 1.0}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (broken, r"custom_function broken failed: ValueError: no luck \(at .*test_custom_evaluation"),
        (lambda t, p: 3, "returned int"),
    ],
)
def test_what_fails_in_it_is_told_with_its_line(function: Any, text: str) -> None:
    with (
        marl.Trainer("ppo", env="CartPole-v1", config=config(function)) as trainer,
        pytest.raises(ConfigError, match=text),
    ):
        trainer.train()


def test_a_name_that_is_no_function_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="custom_function"):
        marl.Trainer("ppo", env="CartPole-v1", config=config(f"{__name__}:nowhere"))
