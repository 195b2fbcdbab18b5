"""What a suite file says, what is refused before anything is trained, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from marl.cli.app import app
from marl.errors import ConfigError, RunLockedError
from marl.runs.lock import take_lock
from marl.suite.load import chosen, load_suite, shipped_suites
from marl.suite.plan import plan_suite
from marl.suite.results import read_suite
from marl.suite.schema import suite_schema
from marl.suite.table import section
from tests.suite.small import DQN, PPO, SMALL, planned, written


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        planned(folder, **changes)
    return str(caught.value)


def envs(**keys: Any) -> dict[str, Any]:
    return {"two": {"env": "two_step_game", **keys}}


def test_the_nearest_to_the_cell_decides(tmp_path: Path) -> None:
    """Suite, env, algorithm, cell: the later one wins; goals and budgets by algorithm come right behind the cell's own."""
    file = written(
        tmp_path,
        seeds=[7, 9],
        envs={
            "one": {"env": "two_step_game", "goal": 1, "budget": 100, "gamma": 0.5, "goals": {"dqn": 3}},
            "two": {"env": "two_step_game", "budgets": {"ppo": 300}, "env_config": {}},
        },
        algos={"ppo": {"lr": 0.1, "goal": 2, "budget": 200, "seeds": 1}, "dqn": {"lr": 0.2}},
        cells={"two/ppo": {"lr": 0.3, "goal": 4, "seeds": [5]}},
    )
    cells = {cell.name: cell for cell in load_suite(file).cells}
    assert list(cells) == ["one/ppo", "one/dqn", "two/ppo", "two/dqn"]
    assert [cell.goal for cell in cells.values()] == [2, 3, 4, None]
    assert [cell.budget for cell in cells.values()] == [200, 100, 300, 256]
    assert [list(cell.seeds) for cell in cells.values()] == [[0], [7, 9], [5], [7, 9]]
    assert [cell.keys["algo"]["lr"] for cell in cells.values()] == [0.1, 0.2, 0.3, 0.2]
    assert cells["one/dqn"].keys["algo"] == {"name": "dqn", "lr": 0.2, "gamma": 0.5}
    assert cells["two/dqn"].keys["evaluation"] == SMALL["scenario"]["evaluation"]


def test_an_algorithm_may_stand_twice_with_other_keys(tmp_path: Path) -> None:
    plan = planned(tmp_path, algos={"fast": {"algo": "ppo", "lr": 0.1}, "slow": {"algo": {"name": "ppo", "lr": 0.001}}})
    assert [planned.raw["algo"] for planned in plan.cells] == [
        {"name": "ppo", "lr": 0.1},
        {"name": "ppo", "lr": 0.001},
    ]
    assert [planned.folder for planned in plan.cells] == [
        tmp_path / "out" / "two" / "fast",
        tmp_path / "out" / "two" / "slow",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sedes": 3}, ["unknown key 'sedes'", "Did you mean 'seeds'?"]),
        ({"budget": None}, ["two/ppo", "no budget"]),
        ({"seeds": [1, 1]}, ["two/ppo", "[1, 1]", "each once"]),
        ({"seeds": []}, ["two/ppo, two/dqn: its seeds are []", "at least one"]),
        ({"seeds": 0}, ["small.yaml: seeds = 0 (int) does not fit: Input should be greater than 0"]),
        ({"seeds": 10**12}, ["seeds = 1000000000000", "less than or equal to 1000"]),
        ({"envs": envs(goal="high")}, ["env two: goal = 'high' (str) does not fit"]),
        ({"envs": {"two": {"env": "two_step_gam"}}}, ["two/ppo, two/dqn: ", "Did you mean 'two_step_game'?"]),
        ({"envs": envs(env_confg={})}, ["two/ppo, two/dqn: unknown key 'env_confg'. Did you mean 'env_config'?"]),
        ({"algos": {"pqo": {}}}, ["1 of 1 cells", "two/pqo", "Did you mean 'ppo'?"]),
        ({"algos": {"ppo": {"lrr": 1}, "dqn": {}}}, ["1 of 2 cells", "two/ppo", "lrr"]),
        ({"algos": {"ppo": {"buffer_size": 9}}}, ["ppo has no key 'buffer_size'"]),
        ({"algos": {"ppo": {"goals": {}}}}, ["algo ppo", "'goals' cannot be given here"]),
        ({"algos": {"ppo": {"seed": 3}}}, ["algo ppo", "'seed'", "`seeds`"]),
        ({"scenario": {"stop": {"timesteps_total": 9}}}, ["scenario.stop", "`budget`"]),
        ({"envs": envs(published={"ppo": {"value": 1}})}, ["source", "missing"]),
        ({"envs": envs(published={"qmx": {"value": 1, "source": "x"}})}, ["no algorithm 'qmx'"]),
        ({"cells": {"two/pp": {}}}, ["no cell 'two/pp'", "Did you mean 'two/ppo'?"]),
        ({"exclude": {"three/*": "why"}}, ["no cell 'three/*'"]),
        ({"metric": "evaluation.episode_reward_mena"}, ["dqn: metric: no result has a field 'evaluation.episode_reward_mena'"]),
        ({"scenario": {"evaluation": {"interval": 0}}}, ["two/ppo", "evaluation"]),
        ({"stacked": True, "algos": {"dqn": {}}}, ["two/dqn", "cannot be stacked"]),
        ({"early_stop": {"goal": 3}}, ["in_a_row", "missing"]),
        ({"algos": {"a b": {"algo": "ppo"}, "a_b": {"algo": "ppo"}}}, ["would share the folder"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_trained(
    changes: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    said = refused(tmp_path, **changes)
    for word in words:
        assert word in said
    assert not (tmp_path / "out").exists()


def test_cells_that_were_not_asked_for_need_not_be_in_order(tmp_path: Path) -> None:
    loaded = load_suite(written(tmp_path, envs={**envs(), "none": {"env": "no_such_env"}}))
    plan = plan_suite(loaded, tmp_path, ["two/ppo", "two/dqn"])
    assert [planned.cell.name for planned in plan.cells] == ["two/ppo", "two/dqn"]
    *_, last = read_suite(plan)
    assert "no_such_env" in last.failed[0]
    assert "| not run |" in section(plan.config, [last], [], None)
    with pytest.raises(ConfigError, match="1 of 4 cells"):
        plan_suite(loaded, tmp_path, ["none/ppo"])


def test_excluded_cells_are_not_resolved(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, envs={**envs(), "none": {"env": "no_such_env"}}, exclude={"none/*": "there is no such env"}
    )
    assert [planned.cell.name for planned in plan.cells] == ["two/ppo", "two/dqn"]
    assert [cell.excluded for cell in plan.loaded.cells] == ["", "", *["there is no such env"] * 2]


def test_filters_choose_in_the_order_of_the_file(tmp_path: Path) -> None:
    cells = load_suite(written(tmp_path, envs={"a": {}, "b": {}})).cells
    names = [[cell.name for cell in chosen(cells, only)] for only in ([], ["dqn", "a/p*"], ["b"], ["b/dqn", "a/dqn"])]
    assert names == [
        ["a/ppo", "a/dqn", "b/ppo", "b/dqn"],
        ["a/ppo", "a/dqn", "b/dqn"],
        ["b/ppo", "b/dqn"],
        ["a/dqn", "b/dqn"],
    ]
    with pytest.raises(ConfigError, match="Did you mean 'a/dqn'"):
        chosen(cells, ["a/dqm"])


def test_keys_that_changed_since_are_refused_or_put_aside(tmp_path: Path) -> None:
    only = ["suite", str(written(tmp_path, seeds=1, budget=64, algos={"ppo": SMALL["algos"]["ppo"]}))]
    only += ["--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, only).exit_code == 0
    changed = {"ppo": {**SMALL["algos"]["ppo"], "lr": 0.5}}
    written(tmp_path, seeds=1, budget=64, algos=changed)
    result = CliRunner().invoke(app, only)
    assert isinstance(result.exception, ConfigError)
    assert "algo.lr is 0.01 there and 0.5 now" in str(result.exception)
    held = take_lock(tmp_path / "out")  # as another process that trains this suite
    result = CliRunner().invoke(app, [*only, "--again"])
    assert isinstance(result.exception, RunLockedError)
    assert not (tmp_path / "out/replaced").exists()
    held.release()
    assert CliRunner().invoke(app, [*only, "--again"]).exit_code == 0
    assert (tmp_path / "out/replaced/two/ppo_1/seed_0/result.json").exists()
    assert (tmp_path / "out/two/ppo/seed_0/result.json").exists()


def test_keys_that_are_younger_than_a_run_are_no_change(tmp_path: Path) -> None:
    """Runs of an older marl lack keys that have come since. They ran as those keys' defaults do, or as was done before."""
    words = ["suite", str(written(tmp_path, seeds=1, budget=64, algos={"ppo": SMALL["algos"]["ppo"]}))]
    words += ["--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, words).exit_code == 0
    params = tmp_path / "out/two/ppo/seed_0/params.json"
    full = json.loads(params.read_text("utf-8"))
    assert full["algo"].pop("critic_values") == "state"
    del full["normalize_actions"]
    params.write_text(json.dumps(full), "utf-8")
    assert CliRunner().invoke(app, words).exit_code == 0
    full["algo"]["critic_values"] = "actions"
    params.write_text(json.dumps(full), "utf-8")
    result = CliRunner().invoke(app, words)
    assert "algo.critic_values is 'actions' there and 'state' now" in str(result.exception)


def test_shipped_suites_can_be_read() -> None:
    """Whether all their cells resolve is said by `marl suite NAME --check`; optional envs may not be installed here."""
    shipped = shipped_suites()
    assert {"quick", "matrix", "foraging", "particles", "vmas", "warehouse"} <= shipped.keys()
    for name, file in shipped.items():
        loaded = load_suite(file)
        assert loaded.config.suite == name
        assert all(cell.budget for cell in loaded.cells)
        assert name == "quick" or all(len(cell.seeds) >= 3 for cell in loaded.cells)


@pytest.mark.parametrize("name", ["quick", "matrix", "foraging", "warehouse"])
def test_cells_of_shipped_suites_resolve(name: str, tmp_path: Path) -> None:
    assert plan_suite(load_suite(Path(name)), tmp_path).cells


def test_options_are_checked_first(tmp_path: Path) -> None:
    file = str(written(tmp_path))
    for words in (["--page", "x.txt"], ["--page", "nowhere/x.md"], ["--check", "--no-runs"], ["--only", "three"]):
        result = CliRunner().invoke(app, ["suite", file, "--out", str(tmp_path / "out"), *words])
        assert isinstance(result.exception, ConfigError), words
    assert not (tmp_path / "out").exists()


def test_the_schema_knows_what_the_loader_takes() -> None:
    validator = Draft202012Validator(suite_schema())
    for file in shipped_suites().values():
        assert not list(validator.iter_errors(yaml.safe_load(file.read_text(encoding="utf-8")))), file
    assert list(validator.iter_errors({**SMALL, "sedes": 3}))
    assert list(validator.iter_errors({**SMALL, "envs": envs(publishd={})}))
    assert list(validator.iter_errors({**SMALL, "algos": {"ppo": {"seed": 3}}}))


@pytest.mark.parametrize("word", ["off", False])
def test_an_early_stop_is_switched_off_by_the_word_also_where_yaml_reads_it_as_false(tmp_path: Path, word: Any) -> None:
    rule = {"in_a_row": 2, "goal": 7.0}
    algos = {"ppo": {**PPO, "early_stop": word}, "dqn": DQN}
    ppo, dqn = load_suite(written(tmp_path, early_stop=rule, algos=algos)).cells
    assert ppo.early_stop is None
    assert dqn.early_stop is not None
    assert all(cell.early_stop is None for cell in load_suite(written(tmp_path, early_stop=word)).cells)


@pytest.mark.parametrize("given", [5, [1], True])
def test_an_evaluation_that_is_no_section_is_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ConfigError, match="evaluation"):
        planned(tmp_path, scenario={"evaluation": given})
