"""``marl compare A.yaml B.yaml --stacked``: the seeds of each scenario learn in one process at once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from marl.analysis.compare.runs import check_plan, gather, plan_comparison
from marl.errors import ConfigError
from tests.analysis.test_compare import SCENARIO
from tests.command import marl


@pytest.fixture
def scenarios(tmp_path: Path) -> list[str]:
    files = [tmp_path / "slow.yaml", tmp_path / "fast.yaml"]
    for file, lr in zip(files, ("0.0001", "0.01"), strict=True):
        file.write_text(SCENARIO.replace("LR", lr))
    return [str(file) for file in files]


def test_after_ctrl_c_the_same_comparison_goes_on_with_the_same_numbers(scenarios: list[str], tmp_path: Path) -> None:
    told = []

    def press(share: float, what: str) -> None:
        told.append((share, what))
        if share == 0.75:
            signal.raise_signal(signal.SIGINT)

    plan = plan_comparison(scenarios[:1], [0, 1], stacked=True)
    assert all(scenario.stacked for scenario in plan.scenarios["slow"])
    with pytest.raises(KeyboardInterrupt):
        gather(plan, tmp_path / "stopped", report=press)
    assert told[0] == (0.0, "slow, all seeds")
    went_on = gather(plan, tmp_path / "stopped")
    whole = gather(plan, tmp_path / "whole")
    for a, b in zip(went_on[0].runs, whole[0].runs, strict=True):
        assert a.points("episode_reward_mean") == b.points("episode_reward_mean")
        assert a.results[-1]["timesteps_total"] == 256
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("result.json")}
    gather(plan, tmp_path / "whole")
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("result.json")} == before
    with pytest.raises(ConfigError, match="stacked is True there and False now"):
        check_plan(plan_comparison([*scenarios], [0, 1]), tmp_path / "whole")


def test_the_command_refuses_what_does_not_stack_before_anything_is_trained(
    scenarios: list[str], tmp_path: Path
) -> None:
    done = marl("compare", *scenarios, "--seeds", 2, "--stacked", "--set", "algo.name=dqn", "--out", tmp_path / "out")
    assert done.code == 2
    assert not (tmp_path / "out").exists()
    runs = tmp_path / "runs"
    runs.mkdir()
    refused = marl("compare", runs, runs, "--stacked")
    assert "--stacked is about scenarios that are trained" in refused.errors[0]
