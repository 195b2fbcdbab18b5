"""Every example runs and shows what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import custom_env, policies_to_train, register_pettingzoo, two_algorithms

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


def test_an_example_is_a_script() -> None:
    done = subprocess.run(
        [sys.executable, "examples/policies_to_train.py", "1"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("round 0: player_0 learns")
