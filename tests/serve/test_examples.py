"""Every example of examples/serve runs against a real server and shows what it says."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.serve import cartpole_client, play_tictactoe, two_processes
from marl.serve.served import load_served
from tests.serve.cutting import cutting
from tests.serve.players import server, trained

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "serve"
SMALL: dict[str, Any] = {"model": {"fcnet_hiddens": [16]}, "train_batch_size": 64}


@contextmanager
def cartpole_server(folder: Path, iterations: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The server of the example in a process of its own, and its address."""
    command = [sys.executable, str(EXAMPLES / "cartpole_server.py"), "--port", "0", "--folder", str(folder)]
    process = subprocess.Popen(
        [*command, "--stop-iters", str(iterations)], stdout=subprocess.PIPE, text=True, cwd=folder
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("Policy server at "):
                yield line.split()[-1], process
                break
        process.stdout.read()
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.stdout.close()


@pytest.mark.slow
def test_cartpole_learns_through_the_server_from_a_second_process(tmp_path: Path) -> None:
    with cartpole_server(tmp_path, 60) as (url, _):
        reward = cartpole_client.main(["--address", url, "--stop-at-reward", "120", "--episodes", "400"])
        assert reward >= 120  # random play: 22
        subprocess.run([sys.executable, "-c", FINISH, url], check=True, timeout=300)
    assert (tmp_path / "last_checkpoint.out").is_file()


# Episodes until the server has had its iterations and closes.
FINISH = """
import sys, marl
marl.drive("CartPole-v1", sys.argv[1], patience=1.0, agents=None)
"""


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
    with server(load_served(str(run))) as running, cutting(running.server.url, every=25) as (url, cuts):
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
