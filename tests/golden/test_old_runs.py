"""Runs that were written before modules were moved and renamed still load, play and go on.

``old_runs`` holds checkpoints (two iterations each) and a recording of that time; ``expected.json`` what the code of that
time made of them: mean and mean size of each array of weights as saved and after one more iteration, and the agents'
returns in three greedy episodes. It cannot be recorded anew. What is compared is equal within rounding, not bit for bit: these
runs were computed with the first arithmetic (``marl/runs/arithmetic.py``), and numbers differ in their last digits between
processors too.
"""

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl import Trainer
from marl.old_names import _tell
from marl.play.playback import RolloutOptions, play
from marl.play.write_export import export_checkpoint
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.saved import SavedRun
from marl.scenario.load import compose

OLD = Path(__file__).parent / "old_runs"
EXPECTED = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))
RUNS = [name for name in EXPECTED if name != "recorded"]


TOLERANCE = {"rel": 1e-3, "abs": 1e-5}


def check_weights(found: Mapping[str, Mapping[str, Any]], expected: Mapping[str, Mapping[str, list[float]]]) -> None:
    assert {policy: set(arrays) for policy, arrays in found.items()} == {p: set(a) for p, a in expected.items()}
    for policy, arrays in found.items():
        for name, array in arrays.items():
            now = [np.mean(array), np.mean(np.abs(array))]
            assert now == pytest.approx(expected[policy][name], **TOLERANCE), (policy, name)


@pytest.mark.parametrize("name", RUNS)
def test_an_old_checkpoint_holds_the_weights_that_were_saved(name: str) -> None:
    check_weights(SavedRun.open(OLD / name).weights, EXPECTED[name]["saved"])


@pytest.mark.parametrize("name", RUNS)
def test_an_old_checkpoint_plays_as_it_played(name: str) -> None:
    (tally,) = play(OLD / name, RolloutOptions(episodes=3), say=lambda _: None)
    assert tally.stats.returns == pytest.approx(EXPECTED[name]["returns"], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_an_old_run_goes_on_as_it_would_have_gone_on(name: str, tmp_path: Path) -> None:
    shutil.copytree(OLD / name, tmp_path / name)
    with Trainer.from_checkpoint(tmp_path / name) as trainer:
        trainer.train()
        assert trainer.iteration == 3
        check_weights(trainer.get_weights(), EXPECTED[name]["resumed"])


@pytest.mark.parametrize("name", ["qmix", "tag"])
def test_policies_of_an_old_run_are_exported(name: str, tmp_path: Path) -> None:
    for folder in export_checkpoint(OLD / name, tmp_path):
        actor = marl.load_policy(folder)
        check_weights({folder.name: actor.policy.get_weights()}, {folder.name: EXPECTED[name]["saved"][folder.name]})


def test_an_old_recording_is_learned_from() -> None:
    config = {
        "env_config": {"game": "rock_paper_scissors", "repetitions": 10},
        "input": str(OLD / "recorded"),
        "train_batch_size": 64,
        "fcnet_hiddens": [8],
        "evaluation": {"interval": 0},
        "log_sys_usage": False,
    }
    with Trainer("bc", env="matrix_game", config=config) as trainer:
        trainer.train()
        check_weights(trainer.get_weights(), EXPECTED["recorded"]["resumed"])


@pytest.mark.parametrize("module", ["fleeing", "scripted_prey"])
def test_an_old_run_goes_on_from_a_scenario_with_old_or_new_names(module: str) -> None:
    raw = read_part(find_checkpoint(OLD / "tag"), "run")["scenario"]
    raw["multiagent"]["policies"]["prey"]["scripted"] = f"marl.envs.games.particles.{module}:flee"
    with Trainer(scenario=compose(raw, "tag"), fresh=False) as trainer:
        trainer.restore(OLD / "tag")
        assert trainer.iteration == 2


def test_names_of_moved_modules_in_an_old_checkpoint_are_told_and_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = "marl.envs.games.particles.fleeing:flee", "marl.envs.games.particles.scripted_prey:flee"
    assert old in json.dumps(read_part(find_checkpoint(OLD / "tag"), "run")["scenario"])
    shutil.copytree(OLD / "tag", tmp_path / "tag")
    _tell.cache_clear()  # another test may have heard it already
    with caplog.at_level(logging.WARNING), Trainer.from_checkpoint(tmp_path / "tag") as trainer:
        again = trainer.save(tmp_path / "again")
    assert f"{old} is called {new} now" in caplog.text
    scenario = json.dumps(read_part(find_checkpoint(again), "run")["scenario"])
    assert new in scenario
    assert "marl.callbacks.callbacks:Callbacks" in scenario
    assert old not in scenario
