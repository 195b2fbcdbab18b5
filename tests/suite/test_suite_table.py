"""The arithmetic of the table, against numbers that were worked out by hand, and how it is written down."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.suite.config import Published, Suite
from marl.suite.load import Cell, Rule
from marl.suite.marl_eval import for_marl_eval
from marl.suite.peers import read_peers
from marl.suite.results import CellResult, SeedRun, best_of, curves_of, estimate, last_of
from marl.suite.table import put_into, section
from tests.suite.small import planned

FIELD = "evaluation.episode_reward_mean"
CONFIG = Suite(suite="s", envs={"e": {}, "f": {}}, algos={"a": {}, "b": {}})


def cell(env: str = "e", algo: str = "a", **changes: Any) -> Cell:
    keys: dict[str, Any] = {
        "metric": FIELD, "keys": {}, "seeds": [0, 1, 2], "budget": 100, "goal": None, "early_stop": None, "published": None, "tried": None,
        "notes": [],
    }  # fmt: skip
    return Cell(env=env, algo=algo, **{**keys, **changes})


def seed_run(seed: int, line: Sequence[tuple[float, float]], done: bool = True, early: int | None = None) -> SeedRun:
    results = []
    for step, value in line:
        block = {"episode_reward_mean": value, "hist_stats": {"episode_reward": [value - 1, value + 1]}}
        results.append({"timesteps_total": int(step), "evaluation": block})
    return SeedRun(seed, results, list(line), done, early)


def result(what: Cell, lines: Sequence[Sequence[tuple[float, float]]], done: bool = True, **more: Any) -> CellResult:
    runs = [seed_run(seed, line, done, more.get("early")) for seed, line in enumerate(lines)]
    drawn = [run.line for run in runs if run.line]
    curves = curves_of(drawn) if drawn else None
    last = last_of(drawn, 0.95) if drawn else None
    best = None if curves is None else best_of(curves, 0.95)
    return CellResult(what, False, runs, curves, last, best, 12.0, 34.0, more.get("failed", []))


def test_interquartile_means() -> None:
    """Of 8 values the middle 4; of 5 the middle 3 (a quarter of 5 is 1.25, of which 1 is cut); of 3 all."""
    assert estimate(np.array([0, 1, 2, 3, 4, 5, 6, 70.0]), 0, 0.95).iqm == (2 + 3 + 4 + 5) / 4
    assert estimate(np.array([9.0, 1, 2, 3, -50]), 0, 0.95).iqm == (1 + 2 + 3) / 3
    assert estimate(np.array([9.0, 1, 2]), 0, 0.95).iqm == 4


def test_intervals_are_those_of_all_resamples() -> None:
    """All 27 (or 3,125) ways to draw the seeds again, instead of 2,000 at random."""
    three = [1.0, 2.0, 6.0]
    found = estimate(np.array(three), 0, 0.95)
    # Three equal draws come up in 1 of 27 cases, which is more than 2.5 %: the interval reaches from the worst to the best.
    assert (found.low, found.high) == (1.0, 6.0)
    five = [0.0, 1.0, 2.0, 4.0, 10.0]
    everything = [float(np.mean(sorted(drawn)[1:4])) for drawn in itertools.product(five, repeat=5)]
    low, high = np.percentile(everything, [2.5, 97.5])
    found = estimate(np.array(five), 0, 0.95)
    assert found.low == pytest.approx(low, abs=0.35)
    assert found.high == pytest.approx(high, abs=0.35)
    narrower = estimate(np.array(five), 0, 0.5)
    assert found.low < narrower.low < narrower.high < found.high


def test_last_and_best() -> None:
    """At 20 the three runs have 8, 6, 4 (the third is still at its value of 15); at the end 1, 2, 6."""
    lines = [[(10, 0.0), (20, 8.0), (30, 1.0)], [(10, 0.0), (20, 6.0), (30, 2.0)], [(15, 4.0), (30, 6.0)]]
    curves = curves_of(lines)
    assert curves.steps.tolist() == [15, 20, 30]  # before 15 the third run has no value
    assert curves.values.tolist() == [[0, 8, 1], [0, 6, 2], [4, 4, 6]]
    best, last = best_of(curves, 0.95), last_of(lines, 0.95)
    assert (best.iqm, best.steps, best.low, best.high) == (6.0, 20.0, 4.0, 8.0)
    assert (last.iqm, last.steps, last.low, last.high) == (3.0, 30.0, 1.0, 6.0)
    assert best_of(curves, 0.95, less_is_better=True).iqm == pytest.approx(4 / 3)


def test_a_run_that_ended_early_counts_with_its_last_value() -> None:
    curves = curves_of([[(10, 1.0)], [(10, 0.0), (20, 3.0)]])
    assert curves.values.tolist() == [[1, 1], [0, 3]]


def test_a_goal_is_met_by_the_last_value() -> None:
    line = [(10.0, 5.0), (20.0, 3.0)]
    states = [result(cell(goal=goal), [line]).goal_state for goal in (3, 5, 6, None)]
    assert states == ["met", "best only", "missed", ""]
    assert result(cell(goal=3), [line], done=False).goal_state == ""


def rows_of(text: str) -> list[list[str]]:
    return [[part.strip() for part in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_every_cell_has_its_row_and_says_why_it_is_empty() -> None:
    published = Published(value=0.96, source="Somebody (2020), table 3")
    results = [
        result(cell(goal=2, published=published, tried=4), [[(100, 1.0)], [(100, 2.0)], [(100, 6.0)]]),
        result(cell(algo="b", published=published), [[], [], []], done=False),
        result(cell("f", early_stop=Rule(2, 3), goal=2), [[(60, 2.0)]] * 3, early=60),
        CellResult(cell("f", "b", excluded="it has no discrete actions"), False, [], None, None, None, 0, 0, []),
    ]
    text = section(CONFIG, results, [], None)
    titles, _, *rows = rows_of(text)
    assert titles == ["env", "algorithm", "last", "best", "published", "goal", "seeds", "env steps", "CPU s", "wall s"]
    assert rows == [
        ["e", "a", "**3 [1, 6]**", "3 [1, 6]", "0.96", "2 met", "3", "100", "12", "34"],
        ["", "b", "not run", "", "0.96", "", "", "", "", ""],
        ["f", "a", "**2 [2, 2]**", "2 [2, 2]", "", "2 met", "3", "60 of 100, early 3 of 3", "12", "34"],
        ["", "b", "excluded", "", "", "", "", "", "", ""],
    ]
    assert "- e: published: Somebody (2020), table 3" in text
    assert "- e/a: 4 settings tried, on other seeds" in text
    assert "- f/a: runs end early once 2 was held in 3 evaluations in a row" in text
    assert "- f/b: excluded, because it has no discrete actions" in text


def test_an_unfinished_cell_says_so() -> None:
    unfinished = result(cell(goal=1), [[(40, 1.0)], [(50, 1.0)], []], done=False, failed=["seed 2: it broke\nbadly"])
    text = section(CONFIG, [unfinished], [], None)
    assert rows_of(text)[2][2:] == ["1 [1, 1] (unfinished)", "1 [1, 1]", "", "1", "2 of 3", "50 of 100", "12", "34"]
    assert "all: failed: seed 2: it broke" in text


def test_sections_of_other_suites_stay_as_they_are() -> None:
    page = "# Page\n"
    page = put_into(page, "one", "first\n")
    page = put_into(page, "two", "second")
    page = put_into(page, "one", "changed\ntwice")
    assert page == (
        "# Page\n\n<!-- begin suite one -->\nchanged\ntwice\n<!-- end suite one -->\n\n"
        "<!-- begin suite two -->\nsecond\n<!-- end suite two -->\n"
    )
    with pytest.raises(ConfigError, match="without the other"):
        put_into("<!-- begin suite one -->\n", "one", "x")


def test_marl_eval_gets_the_same_number_of_everything() -> None:
    """Cells whose runs have 2 and 3 evaluations: each is read at 2 moments; an algorithm without its f is left out."""
    results = [
        result(cell(), [[(10, 1.0), (20, 5.0), (30, 3.0)], [(10, 2.0)]]),
        result(cell(algo="b"), [[(10, 1.0), (20, 5.0)]] * 2),
        result(cell("f"), [[(40, 7.0), (80, 8.0)]] * 2),
        result(cell("f", "b"), [[(40, 7.0)]], done=False),
    ]
    found = for_marl_eval("s", results)
    assert found.left_out == ["e/b"]
    assert found.content == {
        "s": {
            "e": {
                "a": {
                    "run_0": {
                        "step_1": {"step_count": 10, "return": [0.0, 2.0]},
                        "step_2": {"step_count": 30, "return": [2.0, 4.0]},
                        "absolute_metrics": {"return": [4.0, 6.0]},
                    },
                    "run_1": {
                        "step_1": {"step_count": 10, "return": [1.0, 3.0]},
                        "step_2": {"step_count": 30, "return": [1.0, 3.0]},
                        "absolute_metrics": {"return": [1.0, 3.0]},
                    },
                }
            },
            "f": {
                "a": {
                    f"run_{number}": {
                        "step_1": {"step_count": 40, "return": [6.0, 8.0]},
                        "step_2": {"step_count": 80, "return": [7.0, 9.0]},
                        "absolute_metrics": {"return": [7.0, 9.0]},
                    }
                    for number in (0, 1)
                }
            },
        }
    }
    assert for_marl_eval("s", results[3:]).content == {}


def test_marl_eval_itself_reads_the_file() -> None:
    """With its own checks and matrices, where the package is installed."""
    pytest.importorskip("marl_eval")
    from marl_eval.utils.data_processing_utils import create_matrices_for_rliable, data_process_pipeline
    from marl_eval.utils.diagnose_data_errors import DiagnoseData

    lines = [[(10, 1.0), (20, 5.0), (30, 3.0)], [(10, 2.0), (20, 4.0), (30, 6.0)]]
    results = [result(cell(env, algo), lines) for env in "ef" for algo in "ab"]
    content = for_marl_eval("s", results).content
    assert all(DiagnoseData(content).check_data()["s"].values())
    processed = data_process_pipeline(content, metrics_to_normalize=["return"])
    scores, curves = create_matrices_for_rliable(processed, "s", metrics_to_normalize=["return"])
    # Episodes reach from 0 to 7; the best evaluations have means of 5 and 6.
    assert scores["mean_norm_return"]["a"] == pytest.approx(np.array([[5 / 7] * 2, [6 / 7] * 2]), abs=1e-5)
    assert curves["mean_norm_return"]["b"].shape == (2, 2, 3)


def test_peers_have_a_column_of_their_own(tmp_path: Path) -> None:
    curves = {"0": {"steps": [10, 20], "values": [1.0, 2.0]}, "1": {"steps": [10, 20], "values": [1.0, float("nan")]}}
    content = {"peer": "Other 1.0", "about": "Its defaults.", "cells": {"two": {"ppo": {"seeds": curves}}}}
    (tmp_path / "other.json").write_text(json.dumps(content), "utf-8")
    plan = planned(tmp_path, peers=["other.json", "not_there.json"])
    (peer,) = read_peers(plan.loaded)
    found = peer.cells["two/ppo"]
    assert (found.last.iqm, found.last.low, found.last.high, found.runs) == (1.5, 1.0, 2.0, 2)
    text = section(plan.config, [result(cell("two", "ppo"), [[(10, 1.0)]])], [peer], None)
    assert rows_of(text)[0][5] == "Other 1.0"
    assert rows_of(text)[2][5] == "1.5 [1, 2]"
    (tmp_path / "other.json").write_text("{}", "utf-8")
    with pytest.raises(ConfigError, match=r"other.json cannot be read as curves of a peer"):
        read_peers(plan.loaded)
