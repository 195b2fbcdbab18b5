"""``benchmarks/frontier.py``: a table that was stopped goes on where it was, and becomes a section of a page."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import frontier
import frontier_page
import frontier_settings

from marl.algos.presets import ALGOS
from marl.scenario.load import compose, load_scenario
from marl.scenario.resolve import resolve

SMALL = ["--plies", "12000", "--games", "dark_hex_2x2", "--methods", "mmd", "--seeds", "2"]
PAGE = f"# A page\n\nbefore\n\n{frontier_page.BEGIN}\n\nold\n\n{frontier_page.END}\n\nafter\n"


def points(folder: Path, seed: int) -> list[dict[str, float]]:
    found: list[dict[str, float]] = json.loads((folder / f"dark_hex_2x2.mmd.{seed}" / "points.json").read_text())[
        "points"
    ]
    return found


@pytest.mark.slow
def test_a_stopped_table_goes_on_and_ends_as_one_that_was_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier.main([str(tmp_path / "whole"), *SMALL])
    keep, kept = frontier.Run._keep, []

    def stop_after_the_first(self: frontier.Run, trainer: Any, known: dict[str, Any]) -> None:
        keep(self, trainer, known)
        kept.append(self.seed)
        if len(kept) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(frontier.Run, "_keep", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        frontier.main([str(tmp_path / "stopped"), *SMALL])
    assert len(points(tmp_path / "stopped", 1000)) == 1
    monkeypatch.setattr(frontier.Run, "_keep", keep)
    frontier.main([str(tmp_path / "stopped"), *SMALL])
    for seed in (1000, 1001):
        whole, stopped = points(tmp_path / "whole", seed), points(tmp_path / "stopped", seed)
        assert [p["plies"] for p in whole] == [4096, 8192, 12288]
        assert [(p["plies"], p["nash_conv"]) for p in stopped] == [(p["plies"], p["nash_conv"]) for p in whole]
        assert whole[-1]["nash_conv"] < 1.25  # of uniform play
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    (tmp_path / "pictures").mkdir()
    frontier.main([str(tmp_path / "whole"), "--page", str(page)])
    text = page.read_text()
    assert "| dark hex 2x2 | mmd | 12,288 | 2 | " in text
    assert "old" not in text
    assert text.startswith("# A page\n\nbefore")
    assert text.endswith("after\n")
    assert "<polyline" in (tmp_path / "pictures" / "frontier.svg").read_text()


def test_what_a_page_has_and_a_folder_has_not_stays(tmp_path: Path) -> None:
    def cell(method: str, found: float) -> frontier_page.Cell:
        return frontier_page.Cell("kuhn", method, 10, [[{"plies": 10, "nash_conv": found, "train_s": 1.0}]])

    cells = frontier_page.together([cell("mmd", 0.3), cell("ppo", 0.9)], [cell("ppo", 0.8), cell("rnad", 0.2)])
    assert [(one.method, one.ends) for one in cells] == [("ppo", [0.8]), ("mmd", [0.3]), ("rnad", [0.2])]
    numbers = tmp_path / "numbers.json"
    numbers.write_text(json.dumps([one._asdict() for one in cells]))
    assert frontier_page.read_page(numbers) == cells
    assert frontier_page.read_page(tmp_path / "none.json") == []


def test_the_table_tells_the_end_and_beside_it_the_smallest_on_the_way() -> None:
    def curve(*found: float) -> list[dict[str, float]]:
        return [{"plies": 5.0 * i, "nash_conv": value, "train_s": 2.0 * i} for i, value in enumerate(found, 1)]

    cell = frontier_page.Cell("kuhn", "ppo", 10, [curve(0.25, 0.5), curve(0.75, 0.7)])
    assert (
        frontier_page.table([cell]).splitlines()[-1]
        == "| Kuhn poker | ppo | 10 | 2 | 0.600 ± 1.271 | 0.500 | 0.475 | 4 |"
    )


def test_intervals_over_seeds_are_those_of_student() -> None:
    mean, half = frontier_page.interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302653 / 3**0.5, abs=1e-5)  # t of 2 degrees of freedom, deviation 1
    assert (
        frontier_page.interval([5.0])[1] != frontier_page.interval([5.0])[1]
    )  # nan: one seed says nothing about others


def test_schedules_fall_by_equal_factors_over_the_whole_run() -> None:
    assert frontier_settings.falling(100, 8.0, 0.5) == [[0, 8.0], [25, 4.0], [50, 2.0], [75, 1.0], [100, 0.5]]


@pytest.mark.parametrize("method", list(frontier_settings.METHODS))
def test_every_run_of_the_table_is_a_scenario_that_resolves(method: str) -> None:
    assert method in ALGOS or method == "psro"
    for game in frontier_settings.TABLE_GAMES:
        keys = frontier_settings.scenario_of(game, method, 1_000_000, 0, "own")
        assert resolve(compose(keys, "frontier")).policies


@pytest.mark.parametrize("method", frontier_settings.PROTOCOL_METHODS)
@pytest.mark.parametrize("game", frontier_settings.TABLE_GAMES)
def test_the_benchmarks_settings_are_shipped_scenarios_whose_step_size_falls_over_the_whole_run(
    game: str, method: str
) -> None:
    shipped = load_scenario(Path(f"{game}_{method}"))
    assert set(resolve(shipped).policies) == {"both"}
    assert 480_000 <= shipped.exploitability.interval * shipped.algo["train_batch_size"] <= 520_000  # every 0.5 M plies
    keys = frontier_settings.scenario_of(game, method, 1_000_000, 7, "protocol")
    short = compose(keys, "frontier")
    assert [t for t, _ in short.algo["lr_schedule"]] == [0, 1_000_000]
    assert (short.seed, short.env, short.env_config) == (7, shipped.env, shipped.env_config)
    assert short.env_config == dict(frontier_settings.GAMES[game].env_config)
    differing = {name for name, kept in shipped.algo.items() if kept != short.algo[name]}
    assert differing == {"lr_schedule"}


def test_unknown_names_and_pages_without_marks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"unknown: chess\. Known: phantom_ttt"):
        frontier.main([str(tmp_path), "--games", "chess"])
    with pytest.raises(SystemExit, match="holds no measurements yet"):
        frontier.main([str(tmp_path), "--page", str(tmp_path / "page.md")])


def test_without_options_every_method_has_plies_points_and_seeds_of_its_own(tmp_path: Path) -> None:
    usual = Namespace(plies=None, points=None, seeds=None, settings="own")
    found = {method: frontier.runs_of(tmp_path, usual, "kuhn", method) for method in ("mmd", "psro")}
    assert {method: len(runs) for method, runs in found.items()} == {"mmd": 5, "psro": 3}
    assert {(run.plies, run.measurements) for run in found["mmd"]} == {(10_000_000, 20)}
    assert {(run.plies, run.measurements) for run in found["psro"]} == {(2_000_000, 4)}
    asked = Namespace(plies=500, points=2, seeds=1, settings="own")
    (run,) = frontier.runs_of(tmp_path, asked, "kuhn", "psro")
    assert (run.plies, run.measurements) == (500, 2)
