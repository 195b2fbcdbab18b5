"""``evaluation.env``: trained on one env, evaluated on another that the same agents can play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from marl.envs.registry import register_env
from marl.errors import ConfigError, SpaceMismatchError, UnknownNameError
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.trainer import Trainer

SPREAD: dict[str, Any] = {
    "env": "fast:simple_spread",
    "algo": {"name": "mappo", "train_batch_size": 100, "sgd_minibatch_size": 150, "num_sgd_iter": 1},
    "model": {"fcnet_hiddens": [8]},
    "num_envs_per_worker": 4,
    "evaluation": {"interval": 1, "episodes": 4, "env": "pettingzoo:mpe2/simple_spread_v3"},
}
POLE: dict[str, Any] = {
    "env": "CartPole-v1",
    "algo": {"name": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 16, "num_sgd_iter": 1},
    "model": {"fcnet_hiddens": [8]},
    "num_envs_per_worker": 2,
}


class SevenSteps(gym.Env[Any, Any]):
    """Has the spaces of CartPole, ends after seven steps and pays ``pay`` for each of them."""

    observation_space = gym.make("CartPole-v1").observation_space
    action_space = gym.spaces.Discrete(2)

    def __init__(self, pay: float = 1.0) -> None:
        self.pay, self.steps = pay, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(4, np.float32), self.pay, self.steps == 7, False, {}


def seven_steps(config: dict[str, Any]) -> gym.Env[Any, Any]:
    return SevenSteps(**config)


def evaluation_of(scenario: dict[str, Any]) -> dict[str, Any]:
    with Trainer(scenario=compose(scenario)) as trainer:
        return dict(trainer.train()["evaluation"])


def test_the_evaluation_plays_the_other_env_with_its_own_keys() -> None:
    keys = {"interval": 1, "episodes": 2, "env": seven_steps, "env_config": {"pay": 3.0}}
    evaluation = evaluation_of({**POLE, "evaluation": keys})
    assert evaluation["episode_reward_mean"] == 21.0
    assert evaluation["episode_len_mean"] == 7.0


def test_env_config_and_wrappers_of_training_stay_in_training() -> None:
    trained = {"env_config": {"render_mode": None}, "wrappers": ["clip_reward_v0"]}  # SevenSteps knows no render_mode
    keys = {"interval": 1, "episodes": 2, "env": seven_steps, "env_config": {"pay": 3.0}}
    assert evaluation_of({**POLE, **trained, "evaluation": keys})["episode_reward_mean"] == 21.0  # clipped: 7


def test_a_group_played_as_one_agent_is_one_agent_in_the_other_env_as_well() -> None:
    joint = {"groups": {"team": ["agent_*"]}, "joint": ["team"]}
    evaluation = evaluation_of({**SPREAD, "algo": {**SPREAD["algo"], "name": "ppo"}, "multiagent": joint})
    assert set(evaluation["agent_reward_mean"]) == {"team"}


def test_spread_is_trained_natively_and_evaluated_on_the_original() -> None:
    setup = resolve(compose(SPREAD))
    assert setup.header[-1] == "evaluated on: pettingzoo:mpe2/simple_spread_v3"
    assert evaluation_of(SPREAD)["episode_len_mean"] == 25.0


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"env": "pettingzoo:mpe2/simple_tag_v3"}, SpaceMismatchError, r"'pettingzoo:mpe2/simple_tag_v3' is not played by .*"
         r"it has adversary_0, .*; env 'fast:simple_spread' has agent_0, agent_1, agent_2 \(Box"),
        ({"env": "fast:simple_spread", "env_config": {"N": 2}}, SpaceMismatchError, r"it has agent_0, agent_1 \(Box"),
        ({"env": "fast:simple_spread", "env_config": {"continuous_actions": True}}, SpaceMismatchError, "equal spaces"),
        ({"env": "fast:simple_spred"}, ConfigError, "Did you mean 'fast:simple_spread'"),
        ({"env": "simple_pole"}, UnknownNameError, "unknown env 'simple_pole'"),
        ({"env": "fast:simple_spread", "env_config": {"M": 2}}, ConfigError, "M"),
    ],
)  # fmt: skip
def test_an_env_that_the_trained_agents_cannot_play_is_refused_before_the_start(
    changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        resolve(compose({**SPREAD, "evaluation": {"interval": 1, "episodes": 2, **changes}}))


def test_it_comes_back_with_a_checkpoint_and_only_from_allowed_modules(tmp_path: Path) -> None:
    keys = {"interval": 1, "episodes": 2, "env": f"{__name__}:seven_steps"}
    with Trainer(scenario=compose({**POLE, "evaluation": keys})) as trainer:
        trainer.train()
        saved = trainer.save(tmp_path / "saved")
        expected = trainer.train()["evaluation"]
    with pytest.raises(ConfigError, match="allow"):
        Trainer.from_checkpoint(saved)
    with Trainer.from_checkpoint(saved, allow=["tests"]) as again:
        assert again.train()["evaluation"] == expected


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_a_registered_env_reaches_ray_workers() -> None:
    register_env("seven_steps_for_evaluation", lambda config: SevenSteps(pay=2.0))
    keys = {"interval": 1, "episodes": 4, "env": "seven_steps_for_evaluation"}
    assert evaluation_of({**POLE, "num_workers": 1, "evaluation": keys})["episode_reward_mean"] == 14.0
