"""The views of runs in a real browser: the table, the chart, and a run that is started, stopped and resumed from the page."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from marl.runs.lock import holder_of
from tests.watch.browser import complaints, show, text_of, wait_for, wait_until, watched
from tests.watch.many_runs import csv_text, make_many_runs, params, result, write_run

pytestmark = pytest.mark.slow

ROWS = "document.querySelectorAll('.runs-table tbody tr').length"
LEGEND = "[...document.querySelectorAll('.chart-legend button')].map(b => b.innerText.trim())"


def change(browser: Any, selector: str, value: str, event: str = "change") -> None:
    """Choose or type a value as a person does, as far as the page can tell."""
    script = "const e = document.querySelector(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event(arguments[2]));"
    browser.execute_script(script, selector, value, event)


def click(browser: Any, selector: str) -> None:
    element = wait_for(browser, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def rows(browser: Any, count: int) -> None:
    wait_until(browser, f"{ROWS} === {count}", f"{count} rows")


def legend(browser: Any, count: int) -> list[str]:
    wait_until(browser, f"{LEGEND}.length === {count}", f"{count} curves")
    found: list[str] = browser.execute_script(f"return {LEGEND}")
    return found


def test_runs_are_filtered_sorted_compared_and_followed(browser: Any, tmp_path: Path, downloads: Path) -> None:
    made = make_many_runs(tmp_path, 20, 30)
    with watched(tmp_path) as server:
        show(browser, server, "/runs")
        rows(browser, 20)
        change(browser, "#runs-filter", "vdn seed=3", "input")
        rows(browser, 1)
        change(browser, "#runs-filter", "", "input")
        change(browser, "#runs-algo", "qmix")
        rows(browser, 5)
        assert "algo=qmix" in browser.current_url
        click(browser, "#choose-shown")
        [label] = legend(browser, 1)  # five seeds, one mean
        assert label.endswith("experiment_000 · qmix")
        assert "Student" in text_of(browser)
        click(browser, ".runs-together")
        assert len(legend(browser, 5)) == 5
        click(browser, ".runs-together")
        change(browser, "#runs-algo", "")
        click(browser, ".runs-table tr:has(.runs-algo) input:not(:checked)")
        legend(browser, 2)
        change(browser, ".runs-field", "info.learner.team.learner_stats.loss_3")
        wait_until(browser, "document.body.innerText.includes('learner_stats.loss_3')", "the field")
        change(browser, ".runs-field", "evaluation.episode_reward_mean")
        wait_until(browser, "document.body.innerText.includes('In the evaluation')", "its sentence")
        # What is looked at is in the address: opened again it is the same.
        address = browser.current_url
        browser.get("about:blank")
        browser.get(address)
        wait_for(browser, "#main[data-ready]")
        legend(browser, 2)
        # A run that goes on is seen without doing anything.
        place = made[0]
        text = csv_text([result(i, 0) for i in range(31, 41)], header=False)
        with (place / "progress.csv").open("a") as file:
            file.write(text)
        cell = f'document.querySelector(\'[data-run$="{place.name}"]\').innerText.includes("40,960")'
        wait_until(browser, cell, "the new number of steps")
        click(browser, ".chart-foot .picture-buttons button")
        wait_for_file(downloads / "runs.svg")
        picture = (downloads / "runs.svg").read_text()
        assert "<polygon" in picture
        assert "experiment_000 · qmix" in picture
        leave(browser)


def judged_by_a_policy(iterations: int, *more: str) -> str:
    """A table of a zero-sum game: the reward is 0, the evaluated policy gets better; ``more`` are fields of value 1."""
    results = [{**result(i, 0), "episode_reward_mean": 0.0} for i in range(1, iterations + 1)]
    head, *lines = csv_text(results).splitlines()
    columns = ["evaluation/policy_reward_mean/team", *more]
    table = [",".join([head, *columns])]
    for one, line in zip(results, lines, strict=True):
        value = str(one["training_iteration"]) if "evaluation" in one else ""
        table.append(",".join([line, value, *("1" for _ in more)]))
    return "\n".join(table) + "\n"


def test_a_run_that_is_judged_by_one_policy_shows_that_first(browser: Any, tmp_path: Path) -> None:
    keys = params(name="zero_sum")
    keys["env"] = "pettingzoo:classic/tictactoe_v3"
    keys["evaluation"] = {"metric": "policy_reward_mean.team", "interval": 10}
    place = tmp_path / "zero_sum" / "QMIX_two_step_game_00000_00000_seed=0_2026-11-18_01-00-00"
    write_run(place, keys, 30)
    (place / "progress.csv").write_text(judged_by_a_policy(30))
    chosen = "document.querySelector('.runs-field').value"
    label = "document.querySelector('.chart-plot').getAttribute('aria-label')"
    with watched(tmp_path) as server:
        show(browser, server, "/runs")
        wait_until(browser, f"{chosen} === 'evaluation.policy_reward_mean.team'", "what the run is judged by")
        wait_until(browser, f"{label}.includes('3 points from 10 to 30')", "its curve")
        # All columns are in sight at this width.
        table = "document.querySelector('.runs-table').parentElement"
        assert browser.execute_script(f"return {table}.scrollWidth <= {table}.clientWidth")
        change(browser, ".runs-field", "episode_reward_mean")
        wait_until(browser, f"{label}.includes('30 points from 0 to 0')", "what was chosen")
        # A field that comes while a run trains can be chosen without opening the page again; the choice stays.
        for iterations in (40, 41, 42):
            (place / "progress.csv").write_text(judged_by_a_policy(iterations, "later"))
            steps = f"{1024 * iterations:,}"
            wait_until(browser, f"document.querySelector('.runs-table').innerText.includes('{steps}')", "the new row")
            time.sleep(2.1)  # names of fields are asked for every five seconds
        wait_until(browser, "document.querySelector('.runs-field').innerText.includes('later')", "the new field")
        assert browser.execute_script(f"return {chosen}") == "episode_reward_mean"
        leave(browser)


def leave(browser: Any) -> None:
    """Nothing was wrong; and the page does not ask a server that has ended."""
    assert complaints_but_refusals(browser) == []
    browser.get("about:blank")


def wait_for_file(file: Path) -> None:
    wait_until_saved(file.parent, 1, file.name)


def wait_until_saved(folder: Path, count: int, pattern: str = "*.html") -> None:
    deadline = time.monotonic() + 30
    while len(list(folder.glob(pattern))) < count:
        assert time.monotonic() < deadline, f"{pattern} was not saved"
        time.sleep(0.05)


@contextmanager
def ending_runs(root: Path) -> Iterator[None]:
    """Runs that were started go on without their page; a test that fails must not leave one behind."""
    try:
        yield
    finally:
        for lock in root.glob("*/*/run.lock"):
            holder = holder_of(lock.parent)
            if holder is not None and holder.running:
                os.kill(holder.pid, signal.SIGKILL)


def test_a_run_is_started_stopped_resumed_and_watched_to_its_end(browser: Any, tmp_path: Path) -> None:
    with ending_runs(tmp_path), watched(tmp_path) as server:
        show(browser, server, "/runs")
        assert "marl run two_step_game" in text_of(browser)  # what to do in an empty folder
        click(browser, "#start-run")
        change(browser, "#start-sets", "algo.lrr=0.1\nnum_workers=0")
        click(browser, ".runs-start button[type=submit]")
        wait_until(
            browser, "document.body.innerText.includes(\"Did you mean 'lr'\")", "the sentence of the command line"
        )
        assert not (tmp_path / ".marl_watch").exists()  # refused before anything began
        change(browser, "#start-sets", "num_workers=0\nalgo.updates_per_step=0.01\ncheckpoint_freq=0")
        change(browser, "#start-iterations", "100000")
        click(browser, ".runs-start button[type=submit]")
        wait_until(browser, "location.hash.startsWith('#/run/')", "the page of the run")
        wait_for(browser, ".chip.running")
        wait_until(browser, "document.querySelector('.runs-log-text')?.innerText.includes('iter 1')", "what it prints")
        wait_until(browser, f"{LEGEND}.length === 1", "the first curve")
        # Nothing was saved yet, so there is nothing to play against; afterwards there is.
        assert "need a checkpoint" in text_of(browser)
        click(browser, "#stop-run")
        wait_for(browser, ".chip.stopped")
        [run] = [file.parent for file in tmp_path.glob("*/*/params.json")]
        done = read_iterations(run)
        assert "stopping after this iteration" in json.dumps([note["text"] for note in notes(browser)])
        change(browser, "#resume-iterations", str(done))  # nothing would be left to train
        click(browser, "#resume-run")
        assert browser.execute_script("return document.querySelector('#resume-iterations:invalid') !== null")
        change(browser, "#resume-iterations", str(done + 3))
        click(browser, "#resume-run")
        wait_for(browser, ".chip.finished")
        assert read_iterations(run) == done + 3
        wait_for(browser, ".runs-checkpoints a[href*='/episodes?']")
        assert wait_for(browser, ".runs-acts a[href*='/play?']").text == "Play against it"
        assert holder_of(run) is None
        click(browser, "#newest-result summary")
        wait_until(browser, "document.body.innerText.includes('episode_len_mean')", "all fields")
        leave(browser)


def notes(browser: Any) -> list[dict[str, str]]:
    wait_for(browser, ".runs-notes li")
    items = "[...document.querySelectorAll('.runs-notes li')].map(li => ({text: li.innerText}))"
    found: list[dict[str, str]] = browser.execute_script(f"return {items}")
    return found


def read_iterations(run: Path) -> int:
    lines = (run / "result.json").read_text().splitlines()
    return int(json.loads(lines[-1])["training_iteration"])


def complaints_but_refusals(browser: Any) -> list[str]:
    """The browser notes every answer with an error's status, also those that are meant."""
    return [text for text in complaints(browser) if "status of 400" not in text]


def test_a_saved_view_shows_the_same_without_a_server(browser: Any, tmp_path: Path, downloads: Path) -> None:
    make_many_runs(tmp_path, 10, 20)
    with watched(tmp_path) as server:
        show(browser, server, "/runs")
        legend(browser, 2)
        click(browser, "#save-view")
        wait_for_file(downloads / "Runs.html")
        run = next(tmp_path.glob("*/*/params.json")).parent
        show(browser, server, f"/run/{run.parent.name}%2F{run.name}")
        names = legend(browser, 3)  # of the field, and of each policy
        assert [name[1:].strip() for name in names[1:]] == ["team", "scripted"]
        click(browser, "#save-view")
        wait_until_saved(downloads, 2)
        leave(browser)
    browser.get((downloads / "Runs.html").as_uri())
    rows(browser, 10)
    legend(browser, 2)
    assert browser.execute_script("return document.querySelector('#start-run')") is None
    change(browser, "#runs-filter", "vdn", "input")
    rows(browser, 5)
    [saved] = [file for file in downloads.glob("*.html") if file.name != "Runs.html"]
    browser.get(saved.as_uri())
    legend(browser, 3)
    assert browser.execute_script("return document.querySelector('#resume-run')") is None
    assert complaints(browser) == []
