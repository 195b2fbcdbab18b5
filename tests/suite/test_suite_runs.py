"""Suites that are trained: stopped and gone on, stacked and alone, ended early, failed."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marl.cli.app import app
from marl.errors import ConfigError
from marl.runs.lock import LOCK
from marl.suite.early_stop import held_since
from marl.suite.hosts import InProcess
from marl.suite.load import Rule
from marl.suite.results import read_suite
from marl.suite.run import How, jobs_of
from marl.suite.screen import Screen
from marl.suite.train import DONE, Job, Status
from tests.suite.small import DQN, PPO, SMALL, numbers_in, planned, silent, trained, written

FIELD = "evaluation.episode_reward_mean"


class Killed(Screen):
    """Keeps what is on the disk when the n-th job ends or is half done: what a kill at that moment would leave."""

    def __init__(self, out: Path, copies: Path) -> None:
        super().__init__(silent()._console)
        self._out, self._copies, self._count = out, copies, 0

    def show(self) -> None:
        self._count += 1
        place = self._copies / str(self._count)
        shutil.copytree(self._out, place)
        for lock in place.rglob(LOCK):  # of a process that is gone
            lock.unlink()


def test_a_suite_that_was_killed_goes_on_to_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.suite.train.SECONDS_BETWEEN_WRITES", 0.0)
    plan = planned(tmp_path)
    assert [cell.stacked for cell in plan.cells] == [True, False]
    trained(plan, screen=Killed(tmp_path / "out", tmp_path / "copies"))
    whole = numbers_in(tmp_path / "out")
    assert {name: len(results) for name, results in whole.items()} == dict.fromkeys(whole, 4)
    assert len(whole) == 4
    copies = sorted((tmp_path / "copies").iterdir(), key=lambda place: int(place.name))
    # In the middle of the stack, between two cells, in the middle of a single run.
    unfinished = [place for place in copies if numbers_in(place) != whole]
    assert len(unfinished) >= 10
    for place in unfinished[2::7]:
        trained(planned(tmp_path, out=place))
        assert numbers_in(place) == whole


def test_seeds_trained_together_equal_single_runs_of_the_stacked_mode(tmp_path: Path) -> None:
    algos = {"ppo": PPO}
    trained(planned(tmp_path, out=tmp_path / "together", algos=algos))
    for seed in (0, 1):
        plan = planned(tmp_path, out=tmp_path / "alone", algos=algos, seeds=[seed])
        assert plan.cells[0].stacked
        trained(plan)
    assert numbers_in(tmp_path / "together") == numbers_in(tmp_path / "alone")


def test_a_run_ends_once_it_has_held_its_goal(tmp_path: Path) -> None:
    """The goal is held from the first evaluation on: after the third the run ends, and that is told."""
    rule = {"early_stop": {"in_a_row": 3, "goal": -100}}
    plan = planned(tmp_path, **rule)
    trained(plan)
    found = numbers_in(tmp_path / "out")
    assert {len(results) for results in found.values()} == {3}
    assert all(results[-1]["done"] for results in found.values())
    results = read_suite(plan)
    assert [[run.stopped_early for run in result.runs] for result in results] == [[192, 192], [192, 192]]
    assert all(result.complete for result in results)
    assert trained(planned(tmp_path, **rule)).trained == 0
    # Without the rule the same folder goes on to the whole budget.
    trained(planned(tmp_path))
    assert {len(results) for results in numbers_in(tmp_path / "out").values()} == {4}


def test_the_count_of_evaluations_survives_a_stop(tmp_path: Path) -> None:
    """Stopped after two of three: one more is enough, not three."""
    rule = {"early_stop": {"in_a_row": 3, "goal": -100}, "algos": {"ppo": PPO}}
    trained(planned(tmp_path, budget=128, **rule))
    assert {len(results) for results in numbers_in(tmp_path / "out").values()} == {2}
    trained(planned(tmp_path, **rule))
    assert {len(results) for results in numbers_in(tmp_path / "out").values()} == {3}


@pytest.mark.parametrize(
    ("values", "in_a_row", "at"),
    [
        ([5, 5, 5], 3, 30),
        ([5, 4, 5, 5], 2, 40),
        ([5, 4, 5, 4], 2, None),
        ([5, None, 5, None], 2, 30),  # results without an evaluation change nothing
        ([], 1, None),
    ],
)
def test_a_goal_is_held_in_so_many_evaluations_in_a_row(values: list[Any], in_a_row: int, at: int | None) -> None:
    results: list[dict[str, Any]] = []
    for number, value in enumerate(values, start=1):
        block = {} if value is None else {"evaluation": {"episode_reward_mean": value}}
        results.append({"timesteps_total": 10 * number, **block})
    assert held_since(results, FIELD, Rule(5, in_a_row)) == at


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    envs = {
        "bad": {"env": "tests.suite.test_suite_runs:FailsLater"},
        "two": {"env": "two_step_game"},
    }
    plan = planned(tmp_path, envs=envs, algos={"ppo": PPO}, seeds=1, budget=64)
    ran = trained(plan)
    assert (ran.trained, ran.open_jobs) == (1, 1)
    ((title, error),) = ran.failed.items()
    assert title == "bad/ppo, seed 0"
    assert "no more steps" in error
    bad, good = read_suite(plan)
    assert not bad.complete
    assert bad.failed
    assert good.complete


class FailsLater:
    """An env that plays only a few steps."""

    def __new__(cls, config: Any = None) -> Any:
        import gymnasium

        class Env(gymnasium.Env[Any, Any]):
            observation_space = gymnasium.spaces.Discrete(2)
            action_space = gymnasium.spaces.Discrete(2)
            steps = 0

            def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
                super().reset(seed=seed)
                return 0, {}

            def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
                self.steps += 1
                if self.steps > 20:
                    raise RuntimeError("no more steps")
                return 0, 0.0, self.steps % 5 == 0, False, {}

        return Env()


def test_a_finished_suite_is_only_written_down(tmp_path: Path) -> None:
    file = written(tmp_path, seeds=1, budget=64, algos={"ppo": PPO}, exclude={})
    page = tmp_path / "page.md"
    page.write_text("# Before\n\nText.\n", encoding="utf-8")
    words = ["suite", str(file), "--out", str(tmp_path / "out"), "--page", str(page)]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert first.stdout.rstrip().endswith(f"results: {tmp_path / 'out'}")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Before\n\nText.\n\n<!-- begin suite small -->\n")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/two").rglob("*")}
    second = CliRunner().invoke(app, words)
    assert second.exit_code == 0
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out/two").rglob("*")} == before
    assert page.read_text(encoding="utf-8") == text
    assert (tmp_path / "pictures/suite_small.svg").exists()


def test_a_page_keeps_cells_that_another_machine_has_trained(tmp_path: Path) -> None:
    """Two machines train one cell each; the page that both write into holds both, until the file asks for something else."""
    page = tmp_path / "page.md"

    def write(out: str, *more: str, **changes: Any) -> list[str]:
        file = written(tmp_path, seeds=2, budget=64, **changes)
        found = CliRunner().invoke(app, ["suite", str(file), "--out", str(tmp_path / out), "--page", str(page), *more])
        assert found.exit_code == 0, found.output
        return [
            line for line in page.read_text(encoding="utf-8").splitlines() if re.match(r"\|.*\| (ppo|dqn) \|", line)
        ]

    write("here", "--only", "two/ppo")
    for job in (tmp_path / "here/two/ppo").glob("job_*.json"):
        cost = 1.46 if job.name == min(file.name for file in job.parent.glob("job_*.json")) else 0.0
        job.write_text(json.dumps({**json.loads(job.read_text("utf-8")), "cpu_s": cost}), "utf-8")
    here = write("here", "--only", "two/ppo")
    assert "not run" in here[1]
    there = write("there", "--only", "two/dqn")
    assert there[0] == here[0], "to the last digit, seconds included"
    assert "not run" not in there[1]
    svg = (tmp_path / "pictures/suite_small.svg").read_text(encoding="utf-8")
    words = ["suite", str(tmp_path / "small.yaml"), "--out", str(tmp_path / "there"), "--page", str(page), "--no-runs"]
    told = CliRunner().invoke(app, words).output
    assert re.search(r"not in marl_eval\.json, .*: two/ppo", told), "it has no episodes of what a page has kept"
    assert write("nowhere", "--no-runs") == there
    assert "ppo" in svg
    kept = json.loads((tmp_path / "pictures/suite_small.json").read_text(encoding="utf-8"))["cells"]
    assert list(kept) == ["two/ppo", "two/dqn"]
    # A smaller budget is met by what is there, a larger one is not; nor are other keys or more seeds.
    assert write("nowhere", "--no-runs", "--budget", "32") == there
    changed = write("nowhere", "--no-runs", algos={"ppo": {**PPO, "lr": 0.5}, "dqn": {**DQN, "budget": 640}})
    assert [line.count("not run") for line in changed] == [1, 1]
    assert write("nowhere", "--no-runs") == there, "what the file does not ask for any more is kept all the same"
    # What changes no number takes nothing away, and neither does an env that is not there.
    more = {
        "scenario": {**SMALL["scenario"], "checkpoint_freq": 7},
        "envs": {"two": {"env": "two_step_game", "goal": 7}},
    }
    assert [line.count("not run") for line in write("nowhere", "--no-runs", **more)] == [0, 0]
    write(
        "nowhere",
        "--no-runs",
        "--only",
        "two/ppo",
        envs={"two": {"env": "two_step_game"}, "not": {"env": "vmas:balance"}},
    )
    assert write("nowhere", "--no-runs") == there


def test_a_run_that_was_only_begun_does_not_take_the_place_of_a_finished_one(tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", written(tmp_path, seeds=1, budget=128, algos={"ppo": PPO})
    kept = tmp_path / "pictures/suite_small.json"
    runner = CliRunner()
    assert runner.invoke(app, ["suite", str(file), "--out", str(tmp_path / "one"), "--page", str(page)]).exit_code == 0
    before = kept.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")
    other = ["suite", str(file), "--out", str(tmp_path / "other")]
    assert runner.invoke(app, [*other, "--budget", "64"]).exit_code == 0
    assert runner.invoke(app, [*other, "--no-runs", "--page", str(page)]).exit_code == 0
    assert (kept.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")) == before


def test_runs_of_other_keys_are_not_shown_and_not_kept(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "pictures/suite_small.json"

    def write(*more: str, **changes: Any) -> str:
        file = written(tmp_path, seeds=1, budget=64, **changes)
        found = CliRunner().invoke(
            app, ["suite", str(file), "--out", str(tmp_path / "out"), "--page", str(page), *more]
        )
        assert found.exit_code == 0, found.output
        return page.read_text(encoding="utf-8")

    write()
    before = kept.read_text(encoding="utf-8")
    faster = {"ppo": {**PPO, "lr": 0.5}, "dqn": DQN}
    for option in (["--no-runs"], ["--only", "two/dqn"]):
        text = write(*option, algos=faster)
        assert re.search(r"\|.*\| ppo \| not run \|", text)
        assert "runs with other keys are there, which are not shown" in text
        assert "0.5" not in kept.read_text(encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == before
    write()
    assert kept.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    "more",
    [{"load": {"default_policy": "elsewhere"}}, {"explore": False}, {"input": "elsewhere"}, {"lr": 0.5}],
    ids=["load", "explore", "input", "lr"],
)
def test_keys_that_change_numbers_are_noticed(tmp_path: Path, more: dict[str, Any]) -> None:
    """Also those that a resumed run may change."""
    first = planned(tmp_path, seeds=1, budget=64, algos={"ppo": PPO})
    trained(first)
    (cell,) = first.cells
    again = replace(cell, raw={**cell.raw, **more})
    assert not replace(cell, raw={**cell.raw, "checkpoint_freq": 9}).changed()
    assert next(iter(more)) in again.changed()


def test_what_could_not_be_written_is_told_before_anything_is_trained(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- end suite small -->\n", encoding="utf-8")
    words = ["suite", str(written(tmp_path, seeds=1)), "--out", str(tmp_path / "out"), "--page", str(page)]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ConfigError)
    assert "without the other" in str(result.exception)
    assert not (tmp_path / "out").exists()


HOST: list[InProcess] = []


class StopsItsSuite(FailsLater):
    """Somebody presses Ctrl-C while it is built."""

    def __new__(cls, config: Any = None) -> Any:
        for host in HOST:
            host.stop()
        return super().__new__(cls, config)


def test_a_suite_that_is_stopped_while_an_env_is_built_trains_nothing(tmp_path: Path) -> None:
    name = f"{__name__}:StopsItsSuite"
    plan = planned(tmp_path, seeds=1, algos={"ppo": PPO}, envs={"two": {"env": name}})
    (job,) = jobs_of(plan.cells)
    HOST.append(InProcess(lambda: None))
    try:
        HOST[0].start(job)
    finally:
        (host,) = HOST
        HOST.clear()
    ((_, status),) = host.ended()
    assert (status.status, status.steps) == ("stopped", {})


@pytest.mark.parametrize("content", ["[]", "no json", '{"cells": {"two/ppo": {}}}'])
def test_a_damaged_file_of_kept_cells_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/suite_small.json").write_text(content, encoding="utf-8")
    words = ["suite", str(written(tmp_path, seeds=1)), "--out", str(tmp_path / "out"), "--no-runs"]
    result = CliRunner().invoke(app, [*words, "--page", str(tmp_path / "page.md")])
    assert isinstance(result.exception, ConfigError)
    assert "Restore it, or delete it" in str(result.exception)


def test_time_that_is_up_stops_in_order_and_says_so(tmp_path: Path) -> None:
    file = written(tmp_path, seeds=1, budget=10_000_000, algos={"ppo": PPO})
    words = ["suite", str(file), "--out", str(tmp_path / "out"), "--minutes", "0.03", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["time_is_up"], found["cells"][0]["complete"]) == (True, False)
    job = Status.read(tmp_path / "out/two/ppo/job_stack.json")
    assert job.status == "stopped"
    assert list((tmp_path / "out/two/ppo/seed_0/checkpoints").iterdir())


def test_what_would_be_done_is_said_without_doing_it(tmp_path: Path) -> None:
    words = ["suite", str(written(tmp_path)), "--out", str(tmp_path / "out"), "--check", "--json", "--budget", "100"]
    result = CliRunner().invoke(app, [*words, "--only", "ppo"])
    (row,) = json.loads(result.stdout)["cells"]
    assert (row["cell"], row["open"], row["budget"], row["stacked"]) == ("two/ppo", [0, 1], 100, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_processes_come_to_the_same_numbers(tmp_path: Path) -> None:
    changes = {"budget": 128, "seeds": 1}
    trained(planned(tmp_path, out=tmp_path / "here", **changes))
    ran = trained(planned(tmp_path, out=tmp_path / "there", **changes), How(jobs=2, niceness=1))
    assert (ran.trained, ran.failed, ran.interrupted) == (2, {}, False)
    assert numbers_in(tmp_path / "there") == numbers_in(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.ray
def test_ray_comes_to_the_same_numbers(tmp_path: Path) -> None:
    changes = {"budget": 128, "seeds": 1, "algos": {"ppo": PPO}}
    trained(planned(tmp_path, out=tmp_path / "here", **changes))
    ran = trained(planned(tmp_path, out=tmp_path / "there", **changes), How(jobs=1, ray="local"))
    assert (ran.trained, ran.failed) == (1, {})
    assert numbers_in(tmp_path / "there") == numbers_in(tmp_path / "here")


def test_seconds_add_up_over_several_starts(tmp_path: Path) -> None:
    plan = planned(tmp_path, seeds=1, budget=128, algos={"ppo": PPO})
    file = plan.cells[0].folder / "job_stack.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"status": "running", "cpu_s": 1000.0, "wall_s": 2000.0, "steps": {"0": 64}}), "utf-8")
    trained(plan)
    found = Status.read(file)
    assert found.status == DONE
    assert 1000 < found.cpu_s < 2000 < found.wall_s
    assert found.steps == {"0": 128}


def test_a_job_is_plain_json() -> None:
    job = Job("two/ppo", "x", {**SMALL["scenario"], "stacked": False}, [3], FIELD, 64, {"goal": 1.0, "in_a_row": 2})
    assert Job(**json.loads(job.as_json())) == job
    assert (job.name, job.title) == ("seed_3", "two/ppo, seed 3")
