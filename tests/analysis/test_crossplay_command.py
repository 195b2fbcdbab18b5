"""``marl crossplay`` as a person uses it: the table, the files, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import signal
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from marl.analysis.payoff_table import caption, payoff_table
from marl.gametheory.payoffs import PayoffTensor
from tests.analysis.runs import DILEMMA, RPS, checkpoint, with_fixed
from tests.processes import run as marl
from tests.processes import start

pytestmark = pytest.mark.slow  # whole runs or processes


def words(text: str) -> list[str]:
    """The lines without the widths of columns."""
    return [" ".join(line.split()) for line in text.splitlines()]


def printed(tensor: PayoffTensor) -> list[str]:
    console = Console(width=200, file=StringIO(), record=True)
    console.print(payoff_table(tensor))
    return words(console.export_text())


def test_the_command_prints_a_table_and_writes_the_tensor(tmp_path: Path) -> None:
    path = with_fixed(tmp_path / "dilemma", DILEMMA, 2)
    entrants = [f"{path}#fixed_0", f"{path}#fixed_1"]
    done = marl("crossplay", *entrants, "--episodes", 4, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    lines = words(done.stdout)
    assert lines[0] == "dilemma#fixed_0 dilemma#fixed_1"
    assert lines[1] == "dilemma#fixed_0 3 ± 0 | 3 ± 0 0 ± 0 | 5 ± 0"
    assert lines[2] == "dilemma#fixed_1 5 ± 0 | 0 ± 0 1 ± 0 | 1 ± 0"
    assert "4 episodes per pairing, averaged over seatings" in done.stdout
    saved = PayoffTensor.load(tmp_path / "out" / "payoffs.json")
    assert saved.mean[0].tolist() == [[3, 0], [5, 1]]
    as_json = marl(
        "crossplay",
        *entrants,
        "--episodes",
        4,
        "--json",
        "--by-seat",
        "--players",
        '{"x": ["player_1"], "y": ["player_0"]}',
    )
    found = PayoffTensor.from_json(json.loads(as_json.stdout))
    assert found.players == ("x", "y")
    assert found.mean[0].tolist() == [[3, 0], [5, 1]]
    assert not found.symmetric


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "error: there is no checkpoint 'nowhere'"),
        (["random", "--env", "matrix_game", "--players", "[1]"], "error: --players holds a list"),
    ],
)
def test_a_mistake_ends_with_one_message_and_code_2(arguments: list[str], message: str) -> None:
    done = marl("crossplay", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_played_and_the_same_command_plays_only_the_rest(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "rps", {**RPS, "env_config": {**RPS["env_config"], "repetitions": 200}})
    log = tmp_path / "out" / "crossplay.jsonl"
    command = ["crossplay", path, "random", "--episodes", 8_000, "--out", tmp_path / "out"]
    process = start(*command)
    while not log.exists() or log.stat().st_size == 0:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on" in errors
    kept = log.read_text()
    assert marl(*command, timeout=300).returncode == 0
    assert log.read_text().startswith(kept[: kept.rindex("\n") + 1])
    seeds = [
        (json.dumps(match["seating"]), seed)
        for line in log.read_text().splitlines()
        for match in json.loads(line)["matches"]
        for seed in match["seeds"]
    ]
    assert len(seeds) == len(set(seeds)) == 3 * 8_000


def test_a_zero_sum_table_shows_the_rows_payoffs_and_three_players_a_line_each() -> None:
    table = PayoffTensor.two_player([[0, 0.5], [-0.5, 0]], ["a", "b"], stderr=[[0, 0.1], [0.1, 0]])
    assert printed(table) == ["a b", "a 0 ± 0 0.5 ± 0.1", "b -0.5 ± 0.1 0 ± 0"]
    names = (("x",), ("x", "y"), ("x",))
    mean = np.arange(6.0).reshape(3, 1, 2, 1)
    mean[:, 0, 1, 0] = np.nan
    three = PayoffTensor(mean, np.zeros((3, 1, 2, 1)), np.array([[[5], [0]]]), names, ("p", "q", "r"))
    assert printed(three) == [
        "p q r payoff p payoff q payoff r",
        "x x x 0 ± 0 2 ± 0 4 ± 0",
        "x y x - - -",
    ]
    assert caption(three).endswith("0 to 5 episodes per pairing, seats as named")
