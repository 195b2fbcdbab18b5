"""Every example runs and shows what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import marl
from examples import (
    agent_groups,
    custom_env,
    exploit_a_network,
    hierarchical_training,
    learn_from_recordings,
    multiagent_cartpole,
    policies_to_train,
    register_pettingzoo,
    two_algorithms,
)
from marl.policies.tabular import TabularPolicy

pytestmark = pytest.mark.slow  # whole runs or processes

ROOT = Path(__file__).parents[1]


def test_visitors_learn_to_follow_a_guide_that_learns_to_point() -> None:
    assert custom_env.main(20) > 4.5  # of 5; chance is 1.7


@pytest.mark.slow
def test_tic_tac_toe_by_self_play_beats_random_play() -> None:
    rewards = register_pettingzoo.main(20)
    assert rewards["learned"] > 0.6
    assert rewards["learned"] == -rewards["random"]


def test_both_algorithms_report_their_own_numbers() -> None:
    learners = two_algorithms.main(2)["info"]["learner"]
    assert "entropy" in learners["car"]["learner_stats"]
    assert "mean_q" in learners["traffic_light"]["learner_stats"]


def test_only_the_player_whose_turn_it_is_changes() -> None:
    assert policies_to_train.main(3) == [
        ("player_0", True, False),
        ("player_1", False, True),
        ("player_0", True, False),
    ]


@pytest.mark.parametrize(
    ("arguments", "policies"),
    [
        (["--flat"], ["default_policy"]),
        ([], ["low_level", "top_level"]),
        (["--levels", "3"], ["low_level", "mid_level", "top_level"]),
    ],
    ids=["flat", "two", "three"],
)
def test_each_level_of_the_maze_is_a_policy_of_its_own(arguments: list[str], policies: list[str]) -> None:
    rewards = hierarchical_training.main([*arguments, "--steps", "4096"])["policy_reward_mean"]
    assert sorted(rewards) == policies


@pytest.mark.long
def test_two_levels_find_the_exit_of_the_maze() -> None:
    assert hierarchical_training.main([])["evaluation"]["policy_reward_mean"]["top_level"] >= 0.9


@pytest.mark.slow
def test_one_policy_over_the_team_and_qmix_find_the_risky_reward_and_strangers_the_safe_one() -> None:
    assert agent_groups.main() == {"joint ppo": 8.0, "qmix": 8.0, "dqn": 7.0}


@pytest.mark.slow
def test_cartpoles_with_a_shared_layer_balance_for_200_steps() -> None:
    trainer = multiagent_cartpole.main()
    assert min(trainer.last_evaluation["agent_reward_mean"].values()) >= 200
    first, second = (trainer.policies[name].network.weights[0] for name in ("policy_0", "policy_1"))
    assert first is second


@pytest.mark.slow
def test_marwil_makes_more_of_mixed_recordings_than_cloning() -> None:
    rewards = learn_from_recordings.main()
    assert rewards["marwil"] > 2 * rewards["bc"]


def test_the_best_response_to_a_network_earns_in_episodes_what_was_computed(tmp_path: Path) -> None:
    value, earned = exploit_a_network.main(5, tmp_path / "exploiter")
    assert earned == pytest.approx(value, abs=4 / 2000**0.5)  # payoffs are -1 and 1: four standard errors at most
    again = marl.Trainer.from_checkpoint(tmp_path / "exploiter")
    assert isinstance(again.get_policy("exploiter"), TabularPolicy)
    again.stop()


def test_an_example_is_a_script() -> None:
    done = subprocess.run(
        [sys.executable, "examples/policies_to_train.py", "1"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("round 0: player_0 learns")
