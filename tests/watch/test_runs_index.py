"""The index of runs reads only what is new, and shows what the files say, also while they are written, damaged or removed."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from marl.analysis.runs import list_runs
from marl.inputs import open_input
from marl.watch.runs import index as index_module
from marl.watch.runs import table as table_module
from marl.watch.runs.curves import Curve, curves_json, mean_of, thinned
from marl.watch.runs.index import Index
from marl.watch.runs.table import ProgressTable
from tests.watch.many_runs import csv_text, make_many_runs, params, result, write_run

REWARD = "episode_reward_mean"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that tables have read."""
    names: list[str] = []

    def noted(path: Path | str) -> object:
        names.append(Path(path).name)
        return open_input(path)

    monkeypatch.setattr(table_module, "open_input", noted)
    monkeypatch.setattr(index_module, "PATIENCE_S", 0.0)
    return names


def rows(begin: int, end: int) -> str:
    return csv_text([result(i, 0) for i in range(begin, end)], header=False)


def grown(file: Path, text: str) -> None:
    with file.open("a") as stream:
        stream.write(text)


def test_the_index_says_what_marl_runs_says(tmp_path: Path) -> None:
    made = make_many_runs(tmp_path, 12, 25)
    (made[2] / "state.json").write_text(json.dumps({"state": "failed", "error": "EnvError: it broke"}))
    (made[3] / "progress.csv").unlink()  # a run that was only just begun
    index = Index(tmp_path)
    index.refresh()
    found = {}
    for entry in index.entries():
        assert entry.summary is not None
        found[entry.summary.directory] = entry.summary.as_json() | {"id": ""}
    expected = {run.directory: run.as_json() | {"id": ""} for run in list_runs(tmp_path)}
    assert found == expected
    assert found[str(made[2])]["error"] == "EnvError: it broke"


def test_a_folder_in_which_nothing_happened_is_not_read_again(tmp_path: Path, opened: list[str]) -> None:
    make_many_runs(tmp_path, 8, 20)
    index = Index(tmp_path)
    version = index.refresh()
    assert len(opened) == 8
    opened.clear()
    assert index.refresh() == version
    assert opened == []


def test_only_what_was_appended_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "a", params(), 50, state="stopped")
    table = ProgressTable(tmp_path / "a" / "progress.csv")
    table.needed = frozenset({REWARD})
    table.refresh()
    lengths: list[int] = []
    parse = table._parse
    monkeypatch.setattr(table, "_parse", lambda lines, names: lengths.append(len(lines)) or parse(lines, names))
    grown(table.file, rows(51, 54))
    assert table.refresh()
    assert lengths == [4]  # three lines, and what stands behind the last one: nothing
    expected = [result(i, 0)[REWARD] for i in range(1, 54)]
    assert table.column(REWARD).tolist() == pytest.approx(expected)


def test_a_line_counts_when_it_has_ended(tmp_path: Path) -> None:
    write_run(tmp_path / "a", params(), 3, state="running")
    table = ProgressTable(tmp_path / "a" / "progress.csv")
    table.refresh()
    line = rows(4, 5)
    for cut in (1, 40, len(line) - 1):
        grown(table.file, line[:cut] if cut == 1 else line[1:40] if cut == 40 else line[40:-1])
        table.refresh()
        assert len(table.column(REWARD)) == 3
    grown(table.file, "\n")
    table.refresh()
    assert table.column(REWARD)[-1] == pytest.approx(result(4, 0)[REWARD])


def test_a_table_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    write_run(tmp_path / "a", params(), 30)
    file = tmp_path / "a" / "progress.csv"
    table = ProgressTable(file)
    table.refresh()
    assert table.column(REWARD)[5] == pytest.approx(result(6, 0)[REWARD])
    # As a resumed run does: in one step, with fewer rows; and as an editor does: in place.
    other = file.with_suffix(".new")
    other.write_text(csv_text([result(i, 7) for i in range(1, 11)]))
    os.replace(other, file)
    table.refresh()
    assert table.column(REWARD).tolist() == pytest.approx([result(i, 7)[REWARD] for i in range(1, 11)])
    file.write_text(csv_text([result(i, 9) for i in range(1, 21)]))
    table.refresh()
    assert table.column(REWARD).tolist() == pytest.approx([result(i, 9)[REWARD] for i in range(1, 21)])


def test_new_columns_and_texts_with_commas_do_not_shift_numbers(tmp_path: Path) -> None:
    file = tmp_path / "progress.csv"
    file.write_text('a,word,b\n1,"x, ""y"" <b>",2\n3,z,4\n')
    table = ProgressTable(file)
    table.refresh()
    assert table.column("b").tolist() == [2.0, 4.0]
    assert table.names == ("a", "word", "b")
    assert np.isnan(table.column("word")).all()
    assert table.column("nowhere").tolist() == []


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\x00", b"a,b\n1\n,,,,\n\x00\x00\n", b'a,"b\n1,2\n'])
def test_damaged_tables_hurt_nobody(tmp_path: Path, content: bytes) -> None:
    write_run(tmp_path / "good", params(), 3)
    write_run(tmp_path / "bad", params(), 3)
    (tmp_path / "bad" / "progress.csv").write_bytes(content)
    index = Index(tmp_path)
    index.refresh()
    assert {entry.name for entry in index.entries()} == {"good", "bad"}
    told = curves_json(index, index.entries(), REWARD, "timesteps_total", together=False)
    assert max(len(one["x"]) for one in told["series"]) == 3


@pytest.mark.parametrize("content", ["", "[1]", '{"algo": 3}', "{", "null"])
def test_folders_whose_params_are_none_of_a_run_are_left_out(tmp_path: Path, content: str) -> None:
    write_run(tmp_path / "good", params(), 3)
    write_run(tmp_path / "bad", params(), 3)
    (tmp_path / "bad" / "params.json").write_text(content)
    index = Index(tmp_path)
    index.refresh()
    assert [entry.name for entry in index.entries()] == ["good"]


def test_runs_come_and_go(tmp_path: Path, opened: list[str]) -> None:
    write_run(tmp_path / "x" / "one", params(), 3)
    index = Index(tmp_path)
    first = index.refresh()
    write_run(tmp_path / "x" / "two", params(), 3)
    write_run(tmp_path / "y" / "deep" / "three", params(), 3)
    second = index.refresh()
    assert second > first
    assert {entry.name for entry in index.entries()} == {"x/one", "x/two", "y/deep/three"}
    shutil.rmtree(tmp_path / "x" / "one")
    assert index.refresh() > second
    assert {entry.name for entry in index.entries()} == {"x/two", "y/deep/three"}


def test_old_folders_are_not_listed_again_but_new_runs_in_them_are_found(tmp_path: Path, opened: list[str]) -> None:
    write_run(tmp_path / "x" / "one", params(), 3)
    long_ago = time.time() - 100
    for folder in (tmp_path, tmp_path / "x", tmp_path / "x" / "one"):
        os.utime(folder, (long_ago, long_ago))
    index = Index(tmp_path)
    index.refresh()
    looked: list[Path] = []
    look = index._folders._look
    index._folders._look = lambda place: looked.append(place) or look(place)  # type: ignore[method-assign]
    index.refresh()
    assert looked == []
    write_run(tmp_path / "x" / "two", params(), 3)
    index.refresh()
    assert {entry.name for entry in index.entries()} == {"x/one", "x/two"}


def test_a_process_that_was_killed_is_noticed_without_a_new_file(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "a", params(), 3, state="running")
    alive = [True]
    monkeypatch.setattr("marl.runs.directories._is_gone", lambda content: not alive[0])
    index = Index(tmp_path)
    index.refresh()
    assert index.entries()[0].to_json()["state"] == "running"
    alive[0] = False
    index.refresh()
    assert index.entries()[0].to_json()["state"] == "failed"


def test_long_tables_are_glanced_at_first_and_then_read(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "FIRST_LOOK_S", -1.0)
    monkeypatch.setattr(Index, "_read_the_rest", lambda self: None)
    [run] = make_many_runs(tmp_path, 1, 200)
    index = Index(tmp_path)
    index.refresh()
    glance = index.entries()[0].to_json()
    assert (glance["iterations"], glance["best"], index.glances) == (200, None, 1)
    index._read_all()
    [expected] = list_runs(tmp_path)
    found = index.entries()[0].to_json()
    assert (found["best"], found["reward"], index.glances) == (expected.best, expected.reward, 0)
    assert run.is_dir()


# -- curves ----------------------------------------------------------------------------------------------------------------


def curve(x: list[float], y: list[float]) -> Curve:
    return Curve(np.array(x), np.array(y), np.empty(0), np.empty(0))


def test_the_interval_is_students_t_by_hand() -> None:
    found = mean_of([curve([1, 2], [1, 4]), curve([1, 2], [3, 4]), curve([1, 2], [5, 4])])
    assert found.y.tolist() == [3.0, 4.0]
    reach = 4.302652729911275 * 2.0 / 3**0.5  # t(2, 0.975), s = 2
    assert found.high[0] - found.y[0] == pytest.approx(reach)
    assert found.low.tolist() == pytest.approx([3.0 - reach, 4.0])


def test_a_mean_does_not_look_ahead_and_forgets_runs_that_have_ended() -> None:
    found = mean_of([curve([1, 3], [0, 10]), curve([2, 3, 4], [4, 6, 8])])
    assert found.x.tolist() == [1, 2, 3, 4]
    assert found.y.tolist() == [0.0, 2.0, 8.0, 8.0]
    assert np.isnan(found.low[[0, 3]]).all()  # of a single run nobody knows
    assert found.low[1] < 2.0 < found.high[1]


def test_thinned_curves_keep_every_spike() -> None:
    y = np.sin(np.arange(50_000) / 1000)
    y[12_345], y[33_333] = 9.0, -9.0
    found = thinned(Curve(np.arange(50_000.0), y, y - 1, y + 1))
    assert len(found.x) <= 1_000
    assert {9.0, -9.0} <= set(found.y.tolist())
    assert found.x[[0, -1]].tolist() == [0.0, 49_999.0]
    assert (np.diff(found.x) > 0).all()
    assert found.low.tolist() == (found.y - 1).tolist()


def test_runs_are_taken_together_over_seeds_but_not_over_other_keys(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / "x" / f"slow_{seed}", params(seed=seed), 5)
        fast = params(seed=seed)
        fast["algo"]["lr"] = 0.1
        write_run(tmp_path / "x" / f"fast_{seed}", fast, 5)
    index = Index(tmp_path)
    index.refresh()
    entries = sorted(index.entries(), key=lambda entry: entry.name)
    told = curves_json(index, entries, REWARD, "timesteps_total", together=True)
    assert [(one["label"], len(one["runs"])) for one in told["series"]] == [
        ("x · qmix (algo.lr=0.1)", 3),
        ("x · qmix (algo.lr=0.001)", 3),
    ]
    assert "Student" in told["method"]
    alone = curves_json(index, entries, REWARD, "training_iteration", together=False)
    assert len({one["label"] for one in alone["series"]}) == 6
    assert alone["series"][0]["x"] == [1, 2, 3, 4, 5]
    assert alone["method"] == ""
