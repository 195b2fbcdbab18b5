"""A picture that cannot be drawn never fails what it shows: a warning names it, and everything else is there."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marl import Trainer
from marl.analysis.compare import page
from marl.analysis.report.content import Picture, Words, picture
from tests.command import marl
from tests.small_envs import Scripted, Step

TINY = {"train_batch_size": 64, "sgd_minibatch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}


def broken(*_: Any, **__: Any) -> Any:
    raise ValueError("no paint")


@pytest.mark.slow
def test_a_run_with_a_backend_that_does_not_exist_ends_well_and_names_the_missing_curve(tmp_path: Path) -> None:
    # An interpreter of its own: matplotlib looks at MPLBACKEND when it is imported.
    command = [sys.executable, "-m", "marl.cli", "run", "two_step_game", "--stop-iters", "1", "--local-dir", tmp_path]
    done = subprocess.run(
        [*command, "--set", "record_env=1"],
        env={**os.environ, "MPLBACKEND": "nonsense"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    directory = Path(done.stdout.splitlines()[-1].removeprefix("results: "))
    missing = [line for line in done.stderr.splitlines() if "is missing" in line]
    assert len(missing) == 1
    assert f"{directory}/learning_curve.png" in missing[0]
    assert "MPLBACKEND is set to 'nonsense'; unset it" in missing[0]
    assert (directory / "checkpoints" / "checkpoint_000001").is_dir()
    assert list((directory / "videos").glob("*.gif")), "films of texts need no backend"


def test_a_comparison_without_its_picture_still_tells_who_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        for seed in (0, 1):
            directory = tmp_path / name / str(seed)
            config = {**TINY, "name": name, "seed": seed, "stop": {"training_iteration": 1}}
            with Trainer("ppo", env="two_step_game", config=config, directory=directory) as trainer:
                trainer.train()
                trainer.save()
    monkeypatch.setattr(page, "draw_comparison", broken)
    with caplog.at_level(logging.WARNING, "marl"):
        words = (
            "compare",
            tmp_path / "a",
            tmp_path / "b",
            "--out",
            tmp_path / "out",
            "--metric",
            "episode_reward_mean",
        )
        done = marl(*words)
        as_json = marl(*words, "--json")
    assert done.code == 0, done.err
    assert "a run is better with probability" in done.out
    assert "picture:" not in done.out
    assert json.loads(as_json.out)["picture"] is None
    assert f"{tmp_path}/out/compare.png is missing: ValueError: no paint" in caplog.text


def test_a_drawing_of_a_report_that_fails_is_told_in_its_place() -> None:
    assert picture(lambda: "<svg/>", "a curve", "Rewards") == Picture("<svg/>", "a curve", "Rewards")
    told = picture(broken, "a curve that rises", "Rewards")
    assert isinstance(told, Words)
    assert told.kind == "warning"
    assert "'Rewards' could not be drawn" in told.text
    assert "a curve that rises" in told.text


class DrawsTwice(Scripted):
    """Its first pictures succeed, so the run begins; later ones do not."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(["agent_0"], [Step([], {"agent_0": 1.0}, terminated=["agent_0"])], agents=["agent_0"])
        self.drawn: list[str] = config["drawn"]

    def render(self) -> str:
        if len(self.drawn) == 2:
            raise RuntimeError("the painter has left")
        self.drawn.append("picture")
        return self.drawn[-1]


def test_a_film_that_cannot_be_made_does_not_end_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    drawn: list[str] = []
    with (
        caplog.at_level(logging.WARNING, "marl"),
        Trainer(
            "ppo", env=lambda _: DrawsTwice({"drawn": drawn}), config={**TINY, "record_env": 1}, directory=tmp_path
        ) as trainer,
    ):
        trainer.train()
        trainer.train()
        assert trainer.iteration == 2
    assert "iteration_000001_worker-0.gif is missing" in caplog.text
    assert "the painter has left" in caplog.text
    assert not list((tmp_path / "videos").glob("*.gif"))
