"""``benchmarks/rivals.py``: which rows are chosen, how rounds become ratios, the table, and one side that really plays.

Nothing is installed here: the rivals' own environments belong to the benchmark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import rivals
from rival_envs import PINS, CannotMeasure, older_code, python_of
from rival_rows import Row, Side, marl, rows
from rival_sides import Places, Round, started

WORDS = Side("ours", "marl", "unused.py", ())
TINY = {"env": "CartPole-v1", "fcnet_hiddens": [4], "train_batch_size": 16, "sgd_minibatch_size": 16, "num_sgd_iter": 1}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "envs", tmp_path, "no-such-commit", 0)


def found(**more: Any) -> dict[str, Any]:
    """A row as it is written to a file: 3 and 4 units per CPU second against 2 and 2.5."""
    sides = {
        "ours": {"name": "marl", "best": 4_000.0, "rewards": [1.0, 5.0], "versions": {}},
        "rival": {"name": "RLlib", "best": 2_500.0, "rewards": [], "versions": {}},
    }
    common = {
        "work": "PPO",
        "unit": "env steps",
        "clock": "cpu",
        "goal": 1.5,
        "costs": False,
        "met": True,
        "sides": sides,
    }
    return {**common, "ratio": 1.6, "ratio_of_medians": 1.55, "spread": [1.5, 1.7], **more}


# -- rows ----------------------------------------------------------------------------------------------------------


def test_a_number_chooses_all_rows_that_bear_it_and_a_key_chooses_one() -> None:
    assert [row.key for row in rivals.chosen("7,1")] == ["1", "7a", "7b"]
    assert [row.key for row in rivals.chosen("8b")] == ["8b"]
    assert sorted({row.number for row in rivals.chosen(None)}) == list(range(1, 12))


def test_an_unknown_row_is_named_with_the_known_ones() -> None:
    with pytest.raises(SystemExit, match=r"no row '12'\. Known: 1, 2, 3"):
        rivals.chosen("1,12")


def test_every_side_has_its_script_and_every_rival_its_versions() -> None:
    for row in rows():
        for side in (row.ours, row.rival):
            if side.where not in ("marl", "older", "startup"):
                assert all("==" in pin for pin in PINS[side.where])
            if side.script.endswith(".py"):
                assert (Path(rivals.__file__).parent / side.script).is_file()


def test_rivals_import_nothing_of_marl() -> None:
    for file in (Path(rivals.__file__).parent / "rivals").glob("*.py"):
        imports = [line for line in file.read_text("utf-8").splitlines() if line.startswith(("import", "from"))]
        assert not [line for line in imports if line.split()[1].partition(".")[0] == "marl"]


# -- numbers -------------------------------------------------------------------------------------------------------


def test_the_ratio_is_that_of_the_best_rounds_and_the_spread_that_of_neighbours() -> None:
    ours, rival = [Round(1.0, 9.0, 30), Round(0.5, 9.0, 30)], [Round(1.0, 1.0, 10), Round(1.0, 1.0, 20)]
    assert rivals.compared(ours, rival, "cpu", costs=False) == {
        "ratio": 3.0, "ratio_of_medians": 3.0, "spread": [3.0, 3.0],
    }  # fmt: skip
    assert rivals.compared(ours, rival, "wall", costs=False)["ratio"] == pytest.approx(30 / 9 / 20)


def test_where_time_is_compared_the_ratio_is_that_of_the_shortest_times() -> None:
    ten, one = [Round(40.0, 40.0, 1), Round(30.0, 30.0, 1)], [Round(10.0, 10.0, 1), Round(12.0, 12.0, 1)]
    assert rivals.compared(ten, one, "cpu", costs=True)["ratio"] == pytest.approx(3.0)
    assert rivals.compared(ten, one, "cpu", costs=True)["spread"] == pytest.approx([2.5, 4.0])
    assert Row("8a", "", WORDS, WORDS, 4, costs=True).met(3.0)
    assert not Row("1", "", WORDS, WORDS, 4).met(3.0)


def test_the_older_marl_plays_along_only_where_it_is_not_the_rival_and_knows_how() -> None:
    with_older = [row.key for row in rows() if "before" in rivals.sides_of(row, before=True)]
    assert with_older == ["1", "2", "3", "4", "5", "6", "9", "10a", "10b"]
    assert not any("before" in rivals.sides_of(row, before=False) for row in rows())


# -- the table -----------------------------------------------------------------------------------------------------


def test_the_table_holds_rates_ratios_and_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "numbers.json"
    runs = {
        "4": found(),
        "8a": found(costs=True, ratio=3.25, goal=4),
        "6": {"work": "CartPole", "skipped": "no network"},
    }
    file.write_text(json.dumps({"rows": runs}))
    rivals.main(["--table", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == (
        "| 4. PPO | marl: 4,000 env steps per CPU s | RLlib: 2,500 env steps per CPU s | **1.60** | 1.55 | 1.50 to 1.70 "
        "| >= 1.5 | met |"
    )
    assert "| **3.25** | 1.55 | 1.50 to 1.70 | <= 4 | met |" in lines[3]
    assert lines[4].startswith("| 6. CartPole | not measured: no network |")
    assert len({line.count("|") for line in lines}) == 1


def test_what_the_older_marl_reached_has_a_column_of_its_own() -> None:
    lines = rivals.markdown({"4": found(ratio_before=0.8), "7a": found()}).splitlines()
    assert lines[0].startswith("| work | marl | rival | before | ratio |")
    assert "| 0.80 | **1.60** |" in lines[2]
    assert len({line.count("|") for line in lines}) == 1


def test_rewards_of_the_first_and_last_round_are_told() -> None:
    assert rivals.learned({"4": found(), "6": {"work": "CartPole", "skipped": ""}}) == ["4. marl: 1.0 to 5.0"]


# -- sides ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_side_plays_rounds_and_tells_what_was_done_in_them(places: Places) -> None:
    with started(marl("marl", "ppo", TINY, iterations=2, pinned=False), places) as runner:
        first, second = runner.play(), runner.play()
    assert (first.count, second.count) == (32, 32)
    assert first.cpu > 0
    assert "torch" in runner.versions


def test_a_side_that_cannot_run_is_left_out_with_its_last_words(places: Places) -> None:
    broken = marl("marl", "ppo", {**TINY, "env": "CartPole-v7"}, pinned=False)
    with pytest.raises(CannotMeasure, match=r"marl stopped: .*CartPole-v7"), started(broken, places):
        pass


def test_a_commit_that_is_not_there_leaves_the_row_out(places: Places) -> None:
    with pytest.raises(CannotMeasure, match="no commit 'no-such-commit' to compare with"):
        older_code(places.against, places.scratch)


def test_what_pip_cannot_install_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PINS, "jax", ("no version of this ==1",))
    python = tmp_path / "jax" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    with pytest.raises(CannotMeasure, match="jax cannot be installed: "):
        python_of("jax", tmp_path)
