"""Every example of examples/serve runs against a real server and shows what it says."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.serve import cartpole_client, play_tictactoe, two_processes
from marl.serve.served import load_served
from tests.serve.cutting import cutting
from tests.serve.players import server, trained
from tests.serve.waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "serve"
SMALL: dict[str, Any] = {"model": {"fcnet_hiddens": [16]}, "train_batch_size": 64}


@contextmanager
def cartpole_server(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The server of the example in a process of its own: its address, and what it has said so far."""
    command = [sys.executable, str(EXAMPLES / "cartpole_server.py"), "--port", "0", "--folder", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    lines: list[str] = []

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    try:
        wait_until(lambda: any("Policy server at" in line for line in lines))
        (told,) = [line for line in lines if "Policy server at" in line]
        yield told.split()[-1], lines
    finally:
        process.kill()
        process.wait()
        listening.join()


@pytest.mark.slow
def test_cartpole_learns_through_the_server_from_a_second_process(tmp_path: Path) -> None:
    with cartpole_server(tmp_path) as (url, _):
        reward = cartpole_client.main(["--address", url, "--stop-at-reward", "120", "--episodes", "1000"])
    assert reward >= 120  # of 300 random episodes the best brings about 80
    assert (tmp_path / "last_checkpoint.out").is_file()


@pytest.mark.slow
def test_actions_that_a_client_chose_itself_are_learned_from(tmp_path: Path) -> None:
    with cartpole_server(tmp_path) as (url, lines):
        cartpole_client.main(["--address", url, "--off-policy", "--episodes", "30"])
        wait_until(lambda: "training_iteration: 2\n" in lines)
    # What it has learned so far is where the next server begins.
    with cartpole_server(tmp_path) as (url, lines):
        assert any(line.startswith("Restoring from checkpoint path") for line in lines)
        cartpole_client.main(["--address", url, "--no-train", "--episodes", "1"])


@pytest.mark.slow
def test_the_two_agents_of_a_game_play_one_episode_in_two_processes() -> None:
    returns = two_processes.main(2)
    assert len(returns) >= 2 * two_processes.EPISODES_PER_ITERATION
    assert set(returns) <= {7.0, 0.0, 1.0, 8.0}


def test_a_human_plays_against_a_served_policy(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    run = trained(tmp_path / "run", "ppo", "pettingzoo:classic/tictactoe_v3", **SMALL)
    # More than enough moves: nonsense and squares that are taken are asked for again.
    monkeypatch.setattr("sys.stdin", io.StringIO("nine\n4\n4\n" + "".join(f"{square}\n" for square in range(9)) * 5))
    with server(load_served(str(run))) as running:
        winner = play_tictactoe.main(running.server.url)
        assert running.hub.counters.ended == 1
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == winner
    assert "'nine' is no free square" in told
    assert "'4' is no free square" in told


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    built = subprocess.run(["sh", str(EXAMPLES / "build_simulator.sh"), str(folder)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    if built.stdout.startswith("skipped"):
        pytest.skip(built.stdout.strip())
    return folder / "simulator"


def test_a_simulator_in_c_plays_also_over_a_network_that_cuts_connections(simulator: Path, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "ppo", "CartPole-v1", **SMALL)
    with server(load_served(str(run))) as running, cutting(running.server.url, every=40) as (url, cuts):
        host, port = url.removeprefix("http://").split(":")
        done = subprocess.run([str(simulator), host, port, "3"], capture_output=True, text=True, timeout=100)
        counters = running.hub.counters
        assert (done.returncode, done.stderr) == (0, "")
        lines = [re.fullmatch(r"episode (\d): (\d+) steps, return (\d+\.0)", line) for line in done.stdout.splitlines()]
        assert [line and int(line[1]) for line in lines] == [0, 1, 2]
        assert all(line and float(line[2]) == float(line[3]) for line in lines)
        assert (counters.begun, counters.ended, counters.sessions) == (3, 3, 1)
    assert cuts() > 0


def test_without_a_compiler_the_simulator_is_skipped_with_a_word(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    (tmp_path / "dirname").symlink_to(str(shutil.which("dirname")))
    built = subprocess.run(
        [shell, str(EXAMPLES / "build_simulator.sh"), str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
    )
    assert (built.returncode, built.stdout[:8]) == (0, "skipped:")


def test_every_example_has_a_line_in_the_readme() -> None:
    page = (EXAMPLES / "README.md").read_text()
    files = {
        file.name for file in EXAMPLES.iterdir() if file.suffix in (".py", ".c", ".sh") and file.name != "__init__.py"
    }
    assert set(re.findall(r"\]\((\w+\.\w+)\)", page)) == files
