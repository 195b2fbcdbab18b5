"""Runs from before a key was there go on, and are played, as they ran: not by the defaults that the key has got since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marl.algos.presets import ALGOS
from marl.errors import CheckpointError
from marl.runs.checkpoint import read_part, write_checkpoint
from marl.runs.old_defaults import BEFORE, as_it_ran
from marl.runs.resume_check import check_same
from marl.runs.saved import SavedRun
from marl.scenario.describe import to_plain
from marl.training.trainer import Trainer
from tests.algos.updates import small_run

PARTS = ("run", "policies", "learners", "workers", "replay")
OLD = {key: value for key, value in BEFORE.items() if key != "take_turns"} | {"hypernet_embed": 0}


def old_run(algo: str, folder: Path) -> Path:
    """A checkpoint as it was written when none of the keys was there."""
    own = ALGOS[algo].family.config.model_fields
    mixes = ALGOS[algo].defaults.get("mixer") == "monotonic"
    of_mixers = () if mixes else ("normalize_state", "hypernet_embed")
    keys = {key: value for key, value in OLD.items() if key in own and key not in of_mixers}
    with small_run(algo, **keys) as trainer:
        for _ in range(2):
            trainer.train()
        saved = trainer.save(folder / "new")
    parts = {name: read_part(saved, name) for name in PARTS}
    for key in BEFORE:
        parts["run"]["scenario"]["algo"].pop(key, None)
    for learner in parts["learners"]:
        learner.pop("reward_unit", None)
        for mixer in learner.get("mixers", {}).values():
            mixer["mixer"].pop("unit", None)
            mixer["target"].pop("unit", None)
    return write_checkpoint(folder / "old", parts)


@pytest.mark.parametrize("algo", ["dqn", "vdn", "qmix", "mappo"])
def test_an_old_run_is_played_and_goes_on_as_it_ran(algo: str, tmp_path: Path) -> None:
    folder = old_run(algo, tmp_path)
    saved = SavedRun.open(folder, allow=["tests", "marl"])
    policy = saved.policy("default_policy")  # today's defaults would ask for weights that it does not have
    assert "unit" not in policy.state_dict()
    kept = {key: saved.scenario["algo"][key] for key in BEFORE if key in saved.scenario["algo"]}
    assert kept == {key: BEFORE[key] for key in kept}
    assert kept
    with Trainer.from_checkpoint(folder, allow=["marl"]) as again:
        learner = again.learners[0]
        config = next(iter(again.setup.roles.values())).config
        assert config.bootstrap_at_time_limit
        assert not learner.ends_at_limits
        again.train()


def stored(algo: str, **keys: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"algo": {"name": algo, **to_plain(ALGOS[algo].configure(**keys))}}
    for key in BEFORE:
        described["algo"].pop(key, None)
    return described


def test_a_scenario_of_today_is_refused_by_an_old_run_whose_behaviour_it_would_change(tmp_path: Path) -> None:
    old = stored("mappo")
    here = as_it_ran(old)
    here["algo"] = {**here["algo"], "normalize_values": True}
    with pytest.raises(CheckpointError, match=r"algo\.normalize_values \(False -> True\)"):
        check_same(tmp_path, old, here)


def test_keys_that_had_no_effect_are_left_alone() -> None:
    assert as_it_ran(stored("rainbow"))["algo"].get("normalize_rewards") is None
    assert "normalize_state" not in as_it_ran(stored("vdn"))["algo"]
    assert as_it_ran(stored("qmix"))["algo"]["normalize_state"] is False
    assert as_it_ran(stored("deep_cfr"))["algo"]["take_turns"] is False
    today = {"algo": {"name": "qmix", **to_plain(ALGOS["qmix"].configure())}}
    assert as_it_ran(today) == today


def test_a_policy_with_an_algorithm_of_its_own_ran_by_its_old_defaults_too() -> None:
    policies = {"mixed": {"algo": "qmix"}, "alike": {"lr": 0.1}, "scripted": {"scripted": {"type": "random"}}}
    old = {**stored("ppo"), "multiagent": {"policies": policies}}
    found = as_it_ran(old)["multiagent"]["policies"]
    own = {key: value for key, value in OLD.items() if key != "normalize_values"}
    assert found == {**policies, "mixed": {"algo": {"name": "qmix", **own}}}
    ALGOS["qmix"].configure(**own)
    today = {"algo": {"name": "ppo", **to_plain(ALGOS["ppo"].configure())}, "multiagent": {"policies": policies}}
    assert as_it_ran(today) == today
