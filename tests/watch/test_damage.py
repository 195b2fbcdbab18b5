"""Results folders as they are after a full disk, a crash, or a stranger: the page shows what can be read, and says the rest."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from marl.serve.refused import Refused
from marl.watch.runs.processes import FOLDER, Processes
from tests.watch.asking import client_of
from tests.watch.browser import watched
from tests.watch.many_runs import csv_text, params, result, write_run

HUGE = 10**400  # more than a float can hold
PARAMS: dict[str, Any] = {
    "a list": [],
    "null": None,
    "huge goal": {**params(), "goal": {"x": HUGE}},
    "huge stop": {**params(), "stop": {"training_iteration": HUGE, "timesteps_total": "x"}},
    "goal of words": {**params(), "goal": {"episode_reward_mean": "high"}},
    "goals in a list": {**params(), "goal": [1, 2]},
    "algo is a number": {**params(), "algo": 7},
    "almost nothing": {"env": "two_step_game"},
    "seed is a map": {**params(), "seed": {"a": 1}},
    "evaluation is a number": {**params(), "evaluation": 3},
    "policies are a number": {**params(), "multiagent": {"policies": 5}},
    "exploitability is a list": {**params(), "exploitability": [1]},
    "metric is a list": {**params(), "evaluation": {"metric": ["a"]}},
    "half a letter": {**params(), "env": "\ud800", "name": "\ud800", "goal": {"\ud800": 1}},
}
TABLES = {
    "empty": "",
    "half": csv_text([result(1, 0)])[:-20],
    "zeros": "\0" * 5000,
    "open quote": 'training_iteration,"a\n1,2\n3,"4\n',
    "huge numbers": "timesteps_total,episode_reward_mean\n1e308,-1e308\n9" + "9" * 5000 + ",inf\n-inf,1e308\n",
    "short rows": csv_text([result(1, 0)]) + "1,2\n",
    "backwards": csv_text([result(3, 0), result(1, 0)]),
    "wide": "a," * 20_000 + "\n1\n",
}
RESULTS = {
    "empty": "",
    "half": '{"a": 1',
    "a list": "[1]\n",
    "deep": "[" * 50_000 + "\n",
    "wrong kinds": '{"episode_reward_mean": NaN, "info": 3, "policy_reward_mean": [1], "evaluation": 4}\n',
    "huge": json.dumps({"x": HUGE, "info": {"num_decisions_lost": HUGE}}) + "\n",
    "nested": '{"a":' * 900 + "1" + "}" * 900 + "\n",
    "half a letter": '{"\\ud800": "\\ud800", "": {"": 1}}\n',
}
STATES = {"empty": "", "a list": "[]", "odd": '{"state": 3, "error": [1]}', "unknown": '{"state": "flying"}'}
MANIFESTS = {"empty": "", "null": "null", "odd": '{"files": 3}', "outside": '{"files": {"a/../../x": 1, "\\u0000": 2}}'}
LISTS = (
    "/api/runs", "/api/runs/fields", "/api/runs/started", "/api/episodes", "/api/play/choices", "/api/games",
    "/api/explain/runs", "/api/explain/demo", "/api/tree/games",
)  # fmt: skip


def damage(root: Path, kind: str, file: str, contents: Mapping[str, str]) -> None:
    for name, content in contents.items():
        run = root / kind / name
        write_run(run, params(), 3)
        place = run / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")


def replace(place: Path, number: int) -> None:
    """A folder, a FIFO or a link to itself in the place of a file."""
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    if number == 0:
        place.mkdir()
    elif number == 1 and hasattr(os, "mkfifo"):
        os.mkfifo(place)
    elif number == 2:
        place.symlink_to(place.name)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    damage(root, "params", "params.json", {name: json.dumps(keys) for name, keys in PARAMS.items()})
    damage(root, "params", "params.json", {"half": '{"env": "two', "deep": "[" * 50_000, "zeros": "\0" * 50})
    damage(root, "tables", "progress.csv", TABLES)
    damage(root, "results", "result.json", RESULTS)
    damage(root, "states", "state.json", STATES)
    damage(root, "locks", "run.lock", STATES)
    damage(root, "manifests", "checkpoints/checkpoint_000001/manifest.json", MANIFESTS)
    for file in ("params.json", "progress.csv", "result.json", "state.json", "error.txt", "checkpoints"):
        for number in range(3):
            run = root / "kinds" / f"{file} {number}"
            write_run(run, params(), 3)
            replace(run / file, number)
    for file in ("population.json", "report.json", "payoffs.json", "trajectories.json", "play.json"):
        damage(root, f"games {file}", file, {"empty": "", "list": "[]", "null": "null", "odd": '{"payoffs": 3}'})
    logs = root / FOLDER
    logs.mkdir()
    (logs / "1.log").write_text(f"results: \0bad\nresults: {'x' * 5000}\nresults: {root}/params/null\n")
    return root


@pytest.fixture
def client(damaged: Path) -> Iterator[httpx.Client]:
    with watched(damaged) as server, client_of(server) as client:
        yield client


def answered(answer: httpx.Response) -> Any:
    """An answer, or a refusal in a sentence; never a mistake of the server."""
    assert answer.status_code < 500, (answer.url, answer.text[:300])
    return answer.json()


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_damaged_files_hide_no_other_run_and_are_no_mistake_of_the_server(client: httpx.Client, damaged: Path) -> None:
    for path in LISTS:
        assert client.get(path).status_code == 200, path
    runs = [run["run"] for run in client.get("/api/runs").json()["runs"]]
    assert {f"tables/{name}" for name in TABLES} | {f"results/{name}" for name in RESULTS} <= set(runs)
    for run in sorted(damaged.glob("*/*")):
        name = run.relative_to(damaged).as_posix()
        answered(client.get("/api/runs/detail", params={"run": name}))
        answered(client.get("/api/runs/curves", params={"run": name}))
        answered(client.get("/api/episodes/checkpoints", params={"run": name}))
        for kind in ("population", "report", "crossplay", "run"):
            answered(client.get("/api/games/one", params={"path": name, "kind": kind}))
    for together in ("true", "false"):
        answered(client.get("/api/runs/curves", params={"run": runs, "together": together}))


@pytest.mark.slow
def test_a_folder_that_goes_away_while_it_is_watched_is_empty_and_comes_back(tmp_path: Path) -> None:
    root = tmp_path / "results"
    for number in range(20):
        write_run(root / "x" / str(number), params(), 3)
    with watched(root) as server, client_of(server) as client:
        assert len(client.get("/api/runs").json()["runs"]) == 20
        ended = threading.Event()

        def poll(number: int) -> int:
            count = 0
            while not ended.is_set() or count < 3:
                for path in (*LISTS, f"/api/runs/detail?run=x/{number}", f"/api/runs/curves?run=x/{number}"):
                    answered(client.get(path))
                count += 1
            return count

        with ThreadPoolExecutor(8) as pool:
            polls = [pool.submit(poll, number) for number in range(8)]
            root.rename(tmp_path / "moved")
            (tmp_path / "moved").rename(root)
            shutil.rmtree(root)
            ended.set()
            for one in polls:
                assert one.result(60) >= 3
        assert client.get("/api/runs").json()["runs"] == []
        write_run(root / "y", params(), 3)
        [run] = client.get("/api/runs").json()["runs"] or wait_for_runs(client)
        assert run["run"] == "y"


def wait_for_runs(client: httpx.Client) -> list[Any]:
    for _ in range(100):
        runs: list[Any] = client.get("/api/runs").json()["runs"]
        if runs:
            return runs
        threading.Event().wait(0.05)
    return []


@pytest.mark.slow
def test_two_hundred_polls_at_once_are_all_answered(damaged: Path) -> None:
    with watched(damaged) as server, client_of(server) as client:
        with ThreadPoolExecutor(40) as pool:
            codes = list(pool.map(lambda number: client.get(LISTS[number % len(LISTS)]).status_code, range(200)))
        assert set(codes) == {200}


# -- folders that nothing can be written to ----------------------------------------------------------------------------------


def no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("place", ["pathlib.Path.mkdir", "pathlib.Path.open"])
def test_a_full_disk_is_told_when_a_run_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    processes = Processes(tmp_path, frozenset())
    monkeypatch.setattr(place, no_space)
    with pytest.raises(Refused, match=r"nothing can be written to .*No space left"):
        processes.start("two_step_game", [])


def test_a_system_without_room_for_a_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(tmp_path, frozenset())
    monkeypatch.setattr("marl.watch.runs.processes.subprocess.Popen", no_space)
    with pytest.raises(Refused, match="starts no process"):
        processes.start("two_step_game", [])


def test_runs_that_two_browsers_start_at_once_are_both_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.watch.runs.processes.sys.executable", shutil.which("true"))
    processes = Processes(tmp_path, frozenset())
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: processes.start("x", []), range(16)))
    assert sorted(one.number for one in started) == list(range(1, 17))
    assert len(processes.to_json()) == 16
    for one in started:
        one.process.wait(30)


@pytest.mark.slow
def test_what_a_full_disk_or_a_lost_file_does_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.watch.demo.tempfile.mkdtemp", no_space)
    monkeypatch.setattr("marl.watch.api.games.games_in", no_space)
    with watched(tmp_path) as server, client_of(server) as client:
        for answer in (client.post("/api/explain/demo", json={}), client.get("/api/games")):
            assert answer.status_code == 409
            assert "No space left on device" in answer.json()["error"]["message"]
        assert client.get("/api/explain/demo").json()["state"] == "idle"
