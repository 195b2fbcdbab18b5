"""Policies that play in evaluation alone: opponents to be measured against, scripted or loaded, that take no part in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.errors import ConfigError, SpaceMismatchError
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.trainer import Trainer
from tests.training.trees import differences

DUEL: dict[str, Any] = {
    "env": "matrix_game",
    "env_config": {"game": "rock_paper_scissors"},
    "algo": {"name": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 16, "num_sgd_iter": 2},
    "fcnet_hiddens": [8],
    "num_envs_per_worker": 4,
    "policies": {
        "learner": {},
        "rock": {"scripted": {"name": "fixed", "action": 0}},
        "paper": {"scripted": {"name": "fixed", "action": 1}},
    },
    "policy_mapping_fn": {"player_*": "learner"},
    "evaluation": {"interval": 1, "episodes": 4, "policy_mapping_fn": {"player_0": "rock", "player_1": "paper"}},
}
OLD = {
    "policies": {"learner": {}, "old": {}},
    "evaluation": {"interval": 1, "episodes": 4, "policy_mapping_fn": {"player_0": "learner", "*": "old"}},
}


def test_opponents_of_the_evaluation_need_no_agent_in_training() -> None:
    with Trainer(scenario=compose(DUEL)) as trainer:
        assert set(trainer.setup.roles) == {"learner"}
        assert "rock plays in evaluation alone; paper plays in evaluation alone" in trainer.setup.header[1]
        result = trainer.train()
    assert result["policy_reward_mean"] == {"learner": 0.0, "rock": None, "paper": None}
    assert result["evaluation"]["policy_reward_mean"] == {"learner": None, "rock": -1.0, "paper": 1.0}


def test_a_network_that_plays_in_evaluation_alone_keeps_its_weights_bit_for_bit() -> None:
    with Trainer(scenario=compose({**DUEL, **OLD})) as trainer:
        before = trainer.get_weights()
        trainer.train()
        after = trainer.get_weights()
        assert trainer.policies_to_train == {"learner"}
    assert not differences(before["old"], after["old"])
    assert differences(before["learner"], after["learner"])


def test_it_may_be_loaded_from_another_run_and_comes_back_with_a_checkpoint(tmp_path: Path) -> None:
    alone = {"policies": {"learner": {}}, "evaluation": {"interval": 0}, "seed": 5}
    with Trainer(scenario=compose({**DUEL, **alone})) as first:
        first.train()
        loaded = first.get_weights()["learner"]
        source = first.save(tmp_path / "first")
    scenario = compose({**DUEL, **OLD, "load": {"old": f"{source}#learner"}})
    with Trainer(scenario=scenario) as second:
        assert not differences(loaded, second.get_weights()["old"])
        second.train()
        saved = second.save(tmp_path / "second")
        expected = second.train()["evaluation"]
    with Trainer.from_checkpoint(saved) as again:
        assert not differences(loaded, again.get_weights()["old"])
        assert again.train()["evaluation"] == expected


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"evaluation": {"policy_mapping_fn": {"*": "rock"}}}, ConfigError, "'paper' plays nobody"),
        ({"evaluation": {"interval": 1}}, ConfigError, "'rock' plays nobody"),
        ({"policies_to_train": ["paper"]}, ConfigError, "scripted or plays in evaluation alone"),
        ({**OLD, "policies_to_train": ["old"]}, ConfigError, "scripted or plays in evaluation alone"),
        (
            {
                "env": "traffic",
                "env_config": {},
                "policies": {"cars": {}, "lights": {}, "anybody": {"scripted": "random"}},
                "policy_mapping_fn": {"car_*": "cars", "*": "lights"},
                "evaluation": {"policy_mapping_fn": {"*": "anybody"}},
            },
            SpaceMismatchError,
            r"evaluation.policy_mapping_fn sends 'traffic_light_\*\[0\]' to policy 'anybody', which plays agents like 'car_\*",
        ),
    ],
)
def test_mistakes_are_found_before_the_first_step(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        resolve(compose({**DUEL, **changes}))


def test_a_mapping_function_of_the_evaluation_may_choose_any_policy() -> None:
    def against(agent: str, episode: Any) -> str:
        return "rock" if (agent == "player_0") == bool(np.random.default_rng(episode.seed).integers(2)) else "learner"

    two = {name: DUEL["policies"][name] for name in ("learner", "rock")}
    setup = resolve(compose({**DUEL, "policies": two, "evaluation": {"policy_mapping_fn": against}}))
    assert set(setup.roles) == {"learner"}
    assert set(setup.policies) == {"learner", "rock"}
