"""What the server says of runs, and the processes that it starts and stops."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from marl.runs.notes import keep_note
from marl.serve.refused import Refused
from marl.watch.runs.processes import Processes, tail_of
from tests.watch.browser import watched
from tests.watch.many_runs import make_many_runs, params, write_run

HOLDER = """
import signal, sys, time
from pathlib import Path
from marl.runs.lock import take_lock
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run behind a shell are deaf to it
lock = take_lock(Path(sys.argv[1]))
print("holds", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    lock.release()
    print("was stopped", flush=True)
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with watched(tmp_path) as server:
        right = {"authorization": f"Bearer {server.desk.secret}"}
        with httpx.Client(base_url=server.url, headers=right, timeout=60) as client:
            yield client


def told(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


def refusal(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["error"]["message"])


def test_the_table_follows_the_folder(client: httpx.Client, tmp_path: Path) -> None:
    assert told(client.get("/api/runs"))["runs"] == []
    make_many_runs(tmp_path, 6, 20)
    time.sleep(0.3)  # answers are at most a quarter of a second old
    answer = told(client.get("/api/runs"))
    assert {run["algo"] for run in answer["runs"]} == {"qmix", "vdn"}
    assert all(run["state"] == "finished" and run["iterations"] == 20 for run in answer["runs"])
    assert str(tmp_path) not in json.dumps(answer)  # it may be saved in a file and sent to others


def test_an_answer_is_compressed_only_for_those_who_take_it(client: httpx.Client, tmp_path: Path) -> None:
    make_many_runs(tmp_path, 8, 3)
    plain = client.get("/api/runs", headers={"accept-encoding": "identity"})
    packed = client.get("/api/runs", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert plain.json() == packed.json()


def test_fields_come_with_the_sentence_of_explain(client: httpx.Client, tmp_path: Path) -> None:
    make_many_runs(tmp_path, 2, 20)
    fields = {field["name"]: field for field in told(client.get("/api/runs/fields"))["fields"]}
    assert "what all agents earned together" in fields["episode_reward_mean"]["text"]
    assert fields["evaluation.episode_reward_mean"]["text"].startswith("In the evaluation")
    assert fields["policy_reward_mean.team"]["runs"] == 2
    assert fields["info.learner.team.learner_stats.loss_3"]["runs"] == 2
    assert not {"hostname", "date", "done", "versions.torch"} & set(fields)


def test_curves_of_runs_that_are_asked_for(client: httpx.Client, tmp_path: Path) -> None:
    make_many_runs(tmp_path, 5, 20)
    runs = [run["run"] for run in told(client.get("/api/runs"))["runs"]]
    asked: dict[str, Any] = {"run": runs, "field": ["episode_reward_mean", "evaluation.episodes"], "together": "true"}
    first, second = told(client.get("/api/runs/curves", params=asked))["charts"]
    assert len(first["series"]) == 1
    assert len(first["series"][0]["low"]) == 20
    assert second["series"][0]["x"] == [10_240, 20_480]
    assert "no run" in refusal(client.get("/api/runs/curves", params={"run": "../etc"}), 404)
    assert "timesteps_total" in refusal(client.get("/api/runs/curves", params={"over": "<b>"}), 400)


def test_details_tell_keys_notes_warnings_and_checkpoints(client: httpx.Client, tmp_path: Path) -> None:
    run = tmp_path / "x" / "one"
    write_run(run, params(), 20)
    (run / "state.json").write_text(json.dumps({"state": "failed", "error": "EnvError: it broke"}))
    (run / "error.txt").write_text("Traceback: my_env.py")
    (run / "checkpoints" / "checkpoint_000010").mkdir()
    with (run / "result.json").open("a") as file:
        file.write('{"episode_reward_mean": 1')  # it is being written
    keep_note(run, "worker 1 was replaced", "warning", 12)
    answer = told(client.get("/api/runs/detail", params={"run": "x/one"}))
    texts = [note["text"] for note in answer["notes"]]
    assert texts[0] == "EnvError: it broke"
    assert "checkpoint_000010 cannot be used: it has no manifest.json." in texts
    assert "worker 1 was replaced" in texts
    assert answer["traceback"] == "Traceback: my_env.py"
    values = {field["name"]: field["value"] for field in answer["result"]}
    assert values["training_iteration"] == 20
    assert values["hist_stats.episode_reward"].startswith("20 values")
    assert answer["params"]["algo"] == {"name": "qmix", "lr": 0.001}
    assert answer["policies"] == ["team", "scripted"]
    assert "no run" in refusal(client.get("/api/runs/detail", params={"run": "x"}), 404)


@pytest.mark.parametrize(
    "body",
    [{}, {"scenario": ""}, {"scenario": 3}, {"scenario": "a\0b"}, {"scenario": "a", "sets": "b"},
     {"scenario": "a", "sets": [1]}, {"scenario": "a", "seed": -1}, {"scenario": "a", "stop_iters": True}],
)  # fmt: skip
def test_requests_without_sense_are_refused(client: httpx.Client, body: dict[str, Any]) -> None:
    assert "expected" in refusal(client.post("/api/runs/start", json=body), 400)


def test_acting_needs_the_token(client: httpx.Client, tmp_path: Path) -> None:
    write_run(tmp_path / "one", params(), 3)
    for act in ("start", "stop", "resume"):
        strange = {"authorization": "Bearer wrong"}
        body = {"run": "one", "scenario": "two_step_game"}
        assert client.post(f"/api/runs/{act}", json=body, headers=strange).status_code == 401
    assert not (tmp_path / ".marl_watch").exists()


def test_the_process_that_holds_the_lock_is_stopped_and_no_other(client: httpx.Client, tmp_path: Path) -> None:
    run = tmp_path / "one"
    write_run(run, params(), 3)
    assert "ended already" in refusal(client.post("/api/runs/stop", json={"run": "one"}), 409)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(run)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "holds\n"
        lock = run / "run.lock"
        true = lock.read_text()
        # The number of the process is used again by another one, or it runs elsewhere: it is left alone.
        lock.write_text(json.dumps({**json.loads(true), "process_began": 1.0}))
        assert "ended already" in refusal(client.post("/api/runs/stop", json={"run": "one"}), 409)
        lock.write_text(json.dumps({**json.loads(true), "hostname": "elsewhere"}))
        assert "'elsewhere'" in refusal(client.post("/api/runs/stop", json={"run": "one"}), 409)
        lock.write_text("{")
        assert "delete it" in refusal(client.post("/api/runs/stop", json={"run": "one"}), 409)
        assert holder.poll() is None
        lock.write_text(true)
        told(client.post("/api/runs/stop", json={"run": "one"}))
        assert holder.stdout.readline() == "was stopped\n"


# -- processes, with a program in the place of Python that only tells how it was called -----------------------------------------


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep='|')\n"
        f"print('results: {tmp_path}/results/x/one')\nprint('\\x1b[31mred\\x07')\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("marl.watch.runs.processes.sys.executable", str(program))
    (tmp_path / "results").mkdir()
    return Processes(tmp_path / "results", frozenset({"my_envs"}))


def test_words_of_the_page_stay_words(processes: Processes, tmp_path: Path) -> None:
    started = processes.start("--evil; rm -rf $HOME", ["--set=a=$(id)", "--seed=3"])
    assert started.process.wait(30) == 0
    lines = tail_of(started.log).splitlines()
    root = (tmp_path / "results").resolve()
    assert lines[1] == f"-m|marl.run|--set=a=$(id)|--seed=3|--local-dir={root}|--|--evil; rm -rf $HOME"
    assert lines[3] == "[31mred"  # no letters that only a terminal obeys


def test_a_started_process_is_told_with_its_run_and_its_log_is_found_later(
    processes: Processes, tmp_path: Path
) -> None:
    started = processes.resume(tmp_path / "results" / "x" / "one", [])
    started.process.wait(30)
    [told_of] = processes.to_json()
    assert (told_of["run"], told_of["code"]) == ("x/one", 0)
    assert "--allow=my_envs" in told_of["command"]
    again = Processes(tmp_path / "results", frozenset())  # of a marl watch that is started later
    assert "|--resume=" in again.log_of("x/one")
    assert again.log_of("x/two") == ""
    with pytest.raises(Refused, match="ended already"):
        processes.stop_started(started.number)
