"""YAML and JSON from anybody: refused quickly, in words, whatever they unfold to."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from pathlib import Path

import pytest

from marl.cli.options import read_json
from marl.config import LIMITS
from marl.errors import ConfigError
from marl.scenario.config import Scenario
from marl.scenario.load import check_algo_keys, compose, load_scenario, parse_set, read_yaml
from marl.scenario.yaml_text import parse_yaml
from tests.command import marl


def multiplied(levels: int, line: str) -> str:
    """Each level names the one before nine times."""
    names = [f"l{i}" for i in range(levels)]
    lines = [line.format(name=new, nine=", ".join([f"*{old}"] * 9)) for old, new in pairwise(names)]
    return "\n".join(["l0: &l0 {x: 1}", *lines])


HOSTILE = {
    "a list in itself": ("env: &a [*a]", "contains itself"),
    "a section in itself": ("env: e\nenv_config: &a {x: {y: *a}}", "contains itself"),
    "aliases of aliases": (multiplied(12, "{name}: &{name} [{nine}]"), "unfolds to more than 100000"),
    "merges of merges": (multiplied(12, "{name}: &{name} {{<<: [{nine}]}}"), "unfold to more than 100000"),
    "brackets": ("env: " + "[" * 100_000, "nested in more than 50 levels"),
    "closed brackets": ("env: " + "[" * 60 + "]" * 60, "nested in more than 50 levels"),
    "steps": ("".join(" " * i + f"a{i}:\n" for i in range(400)), "nested in more than 50 levels"),
    "a key twice": ("env: a\nenv: b", "'env' is given twice"),
    "a number without end": ("env: e\nseed: " + "9" * 5_000, "a number of 5000 characters"),
    "a date that is none": ("env: 2026-13-45", "month must be in 1..12"),
    "a tag without its value": ("env: !!timestamp x", "not readable YAML"),
    "a bool that is none": ("env: !!bool abc", "not readable YAML"),
    "code": ("env: !!python/object/apply:os.system [echo]", "could not determine a constructor"),
    "a tab": ("model:\n\tdim: 8", "cannot start any token"),
    "a NUL": ("env: a\0b", "special characters are not allowed"),
    "two documents": ("a: 1\n---\nb: 2", "expected a single document"),
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_hostile_yaml_is_refused_within_seconds(case: str, tmp_path: Path) -> None:
    text, message = HOSTILE[case]
    file = tmp_path / "hostile.yaml"
    file.write_text(text)
    started = time.process_time()
    with pytest.raises(ConfigError, match=message):
        read_yaml(file)
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize("content", [b"env: caf\xe9", "env: e".encode("utf-16")])
def test_files_that_are_not_utf8_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot be read as a scenario: 'utf-8' codec can't decode"):
        load_scenario(tmp_path / "latin.yaml")


def test_a_value_on_the_command_line_is_read_as_carefully() -> None:
    with pytest.raises(ConfigError, match="contains itself"):
        parse_set("env_config=&a [*a]")
    with pytest.raises(ConfigError, match="nested in more than 50 levels"):
        parse_set("env_config=" + "[" * 5_000)


def test_aliases_and_merges_of_sound_files_still_work_and_share_nothing() -> None:
    found = parse_yaml("a: &a {x: [1]}\nb: {<<: *a, y: 2}\nc: *a", "it")
    assert found == {"a": {"x": [1]}, "b": {"x": [1], "y": 2}, "c": {"x": [1]}}


@pytest.mark.parametrize("text", ['{"a": ' + "[" * 100_000, '{"seed": ' + "9" * 5_000 + "}"])
def test_json_on_the_command_line_that_is_too_deep_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--config is not readable JSON"):
        read_json(text)


@pytest.mark.parametrize(
    ("keys", "message"),
    [({"lr": math.inf}, "lr holds inf; expected a finite number"), ({"lr": math.nan}, "lr = nan"),
     ({"reward_shift": math.nan, "algo": "qmix"}, "reward_shift holds nan"), ({"entropy_coeff": math.inf}, "entropy_coeff holds inf"),
     ({"goal": {"episode_reward_mean": math.nan}}, "goal holds nan"), ({"goal": {"episode_reward_mean": math.inf}}, "goal holds inf"),
     ({"stop": {"timesteps_total": math.nan}}, "stop holds nan"), ({"clip_param": math.nan}, "clip_param"),
     ({"fcnet_hiddens": [math.inf]}, "finite"), ({"lr_schedule": [[0, math.nan]]}, "lr_schedule")],
)  # fmt: skip
def test_nan_and_infinity_are_no_numbers_for_keys(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scenario = compose({"env": "two_step_game", **keys})
        check_algo_keys(scenario, "config")


@pytest.mark.parametrize(
    ("keys", "message"),
    [({"num_workers": True}, "num_workers is true; expected a number"), ({"seed": False}, "seed is false"),
     ({"lr": True}, "lr is true"), ({"grad_clip": False}, "grad_clip is false"), ({"model": {"max_seq_len": True}}, "max_seq_len is true")],
)  # fmt: skip
def test_true_is_no_number_for_keys(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scenario = compose({"env": "two_step_game", **keys})
        check_algo_keys(scenario, "config")


def test_keys_that_take_truth_values_beside_others_still_do() -> None:
    assert compose({"env": "two_step_game", "stacked": True}).stacked is True


def test_infinity_means_no_limit_to_keys_that_are_limits_and_envs_may_be_told_anything() -> None:
    scenario = compose(
        {"env": "e", "env_config": {"bound": math.inf, "gap": math.nan}, "clip_param": math.inf, "stop": {"timesteps_total": math.inf}}
    )  # fmt: skip
    assert isinstance(scenario, Scenario)
    assert scenario.preset.configure(**scenario.algo_keys).clip_param == math.inf
    assert "clip_param" in LIMITS


def test_the_command_says_it_in_one_line_and_exits_with_2(tmp_path: Path) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text("env: &a [*a]")
    done = marl("run", file)
    assert (done.code, len(done.errors), done.err.count("\n")) == (2, 1, 1)
