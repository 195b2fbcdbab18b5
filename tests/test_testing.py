"""``marl.testing``: a run that did not learn fails a test, with its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from marl.errors import DataError, GoalMissedError
from marl.testing import check_learning_achieved

RESULTS: list[dict[str, Any]] = [
    {"episode_reward_mean": None},
    {
        "episode_reward_mean": 9.0,
        "policy_reward_mean": {"a": 6.0, "b": 3.0},
        "evaluation": {"episode_reward_mean": 2.0},
    },
    {"episode_reward_mean": 7.0, "policy_reward_mean": {"a": 5.0, "b": 2.0}},
]


def test_the_last_result_decides() -> None:
    assert check_learning_achieved(RESULTS, 7.0) == 7.0
    assert check_learning_achieved(RESULTS[1], 9.0) == 9.0
    assert check_learning_achieved(RESULTS, 5.0, policy="a") == 5.0
    assert check_learning_achieved(RESULTS, 2.0, evaluation=True) == 2.0


class Searched:
    """As ``marl.tune.run`` gives it: of its trials the best one counts."""

    best_trial = SimpleNamespace(results=RESULTS)


def test_of_a_search_the_best_trial_decides() -> None:
    assert check_learning_achieved(Searched(), 7.0) == 7.0
    with pytest.raises(GoalMissedError, match="expected at least 8"):
        check_learning_achieved(Searched(), 8.0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"reward": 8.0}, r"episode_reward_mean is 7 at the end \(best: 9\), expected at least 8"),
        ({"reward": 2.5, "policy": "b"}, r"policy_reward_mean\.b is 2 at the end"),
        ({"reward": 0.0, "policy": "c"}, "check the name of the policy"),
        ({"reward": 3.0, "evaluation": True}, r"evaluation\.episode_reward_mean is 2"),
    ],
)
def test_what_was_not_reached_is_an_error_with_numbers(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(GoalMissedError, match=text):
        check_learning_achieved(RESULTS, **arguments)


def test_a_run_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("".join(json.dumps(result) + "\n" for result in RESULTS))
    assert check_learning_achieved(tmp_path, 7.0) == check_learning_achieved(str(tmp_path / "result.json"), 7.0) == 7.0
    with pytest.raises(DataError, match="cannot be read as results"):
        check_learning_achieved(tmp_path / "nothing", 7.0)
