"""``marl report`` as a person uses it: runs with several checkpoints, populations, files, exit codes, Ctrl-C, a browser."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from marl import Trainer
from marl.analysis.participants import Env, read_entrants
from marl.analysis.report.build import ReportOptions, build_report
from marl.analysis.report.names import spelled_out
from marl.errors import CheckpointError, ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.runs.checkpoint import read_part
from tests.analysis.runs import RPS, TINY, checkpoint, with_fixed
from tests.processes import run as marl
from tests.processes import start

pytestmark = pytest.mark.slow  # whole runs or processes

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with the checkpoints of iterations 1, 2 and 10."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with Trainer("ppo", config={**TINY["ppo"], **RPS}) as trainer:
        for iteration in range(1, 11):
            trainer.train()
            if iteration in (1, 2, 10):
                trainer.save(folder / "checkpoints" / f"checkpoint_{iteration:06d}")
    return folder


@pytest.fixture(scope="module")
def league(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a population with one side for each player, after two rounds."""
    population = {"kind": "fictitious", "round_timesteps": 64}
    with Trainer("ppo", config={**TINY["ppo"], **RPS, "population": population}) as trainer:
        for _ in range(2):
            trainer.train()
        return Path(trainer.save(tmp_path_factory.mktemp("runs") / "league"))


# -- who takes part ------------------------------------------------------------------------------------------------


def test_all_checkpoints_of_a_run_take_part_in_order_and_are_named_by_iteration(run: Path) -> None:
    found = build_report("matrix_game", [run], wishes=ReportOptions(all_checkpoints=True, episodes=4))
    assert [one["name"] for one in found.numbers["entrants"]] == [
        "iteration 1",
        "iteration 2",
        "iteration 10",
        "random",
    ]
    assert [one["iteration"] for one in found.numbers["entrants"]] == [1, 2, 10, None]
    assert found.payoffs is not None
    assert found.payoffs.names[0] == ("iteration 1", "iteration 2", "iteration 10", "random")
    assert "the later one ranks above the earlier one in" in " ".join(found.text.split())
    newest = build_report("matrix_game", [run], wishes=ReportOptions(episodes=4, with_random=False))
    assert [one["name"] for one in newest.numbers["entrants"]] == ["iteration 10"]


def test_two_runs_are_told_apart_by_letters(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "other")
    shutil.rmtree(tmp_path / "other" / "checkpoints" / "checkpoint_000010")
    found = build_report("matrix_game", [run, tmp_path / "other"], wishes=ReportOptions(episodes=2, with_random=False))
    assert [one["name"] for one in found.numbers["entrants"]] == ["A: iteration 10", "B: iteration 2"]


def test_a_member_of_a_population_plays_its_own_weights_and_only_the_players_of_its_side(league: Path) -> None:
    names = [f"{league}#player_0.answer/1", f"{league}#player_1.answer/0"]
    (first, second), setup = read_entrants(names, Env(), frozenset())
    strategy = first.strategy(["player_0"], setup.task)
    assert strategy is not None
    stored = read_part(league, "policies")["player_0.answer"]
    for name, array in strategy[0].weights.items():
        np.testing.assert_array_equal(array, stored[f"members.1.{name}"])
    assert len(strategy[0].weights) == sum(name.startswith("members.1.") for name in stored)
    assert first.strategy(["player_1"], setup.task) is None
    assert second.strategy(["player_0"], setup.task) is None


def test_members_adds_every_member_of_a_population(league: Path) -> None:
    sizes = {
        name: len(weights["chances"])
        for name, weights in read_part(league, "policies").items()
        if name.endswith(".answer")
    }
    assert min(sizes.values()) > 1
    found = spelled_out([str(league)], False, True, True)
    assert found == [
        str(league), *(f"{league}#{side}/{i}" for side, size in sizes.items() for i in range(size)), "random",
    ]  # fmt: skip
    report = build_report("matrix_game", [league], wishes=ReportOptions(members=True, episodes=4))
    assert report.payoffs is not None
    assert report.payoffs.names[0][:2] == ("league (answer)", "player_0_0")
    assert report.payoffs.names[1][:2] == ("league (answer)", "player_1_0")


def test_what_is_not_there_is_refused_by_name(run: Path, league: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no member '99'. It has the members 0 to"):
        build_report("matrix_game", [f"{league}#player_0.answer/99"])
    with pytest.raises(CheckpointError, match=r"no member '0'. It is one policy"):
        build_report("matrix_game", [f"{league}#player_0/0"])
    with pytest.raises(CheckpointError, match="without `population:`"):
        build_report("matrix_game", [run], wishes=ReportOptions(members=True))
    with pytest.raises(CheckpointError, match="keep_checkpoints: 100"):
        build_report("matrix_game", [league], wishes=ReportOptions(all_checkpoints=True))
    with pytest.raises(ConfigError, match="--members was given without a run"):
        build_report("matrix_game", wishes=ReportOptions(members=True))
    with pytest.raises(ConfigError, match="best responses are trained"):
        build_report("kuhn_poker", wishes=ReportOptions(best_response=100))
    with pytest.raises(ConfigError, match="cannot be given with --players, --greedy"):
        build_report("matrix_game", [run], players={"all": ["player_*"]}, wishes=ReportOptions(best_response=100))
    with pytest.raises(ConfigError, match="cannot be given with --players, --greedy"):
        build_report("matrix_game", [run], wishes=ReportOptions(best_response=100, explore=False))
    with pytest.raises(ConfigError, match="episodes is 1"):
        build_report("kuhn_poker", wishes=ReportOptions(episodes=1))


def test_a_horizon_makes_the_tree_another_game_and_so_nothing_exact_is_told(tmp_path: Path) -> None:
    config = {"env_config": {"game": "prisoners_dilemma", "repetitions": 3}, "fcnet_hiddens": [8], "horizon": 1}
    with Trainer("ppo", env="matrix_game", config=config) as trainer:
        trainer.save(tmp_path / "cut")
    told = build_report("matrix_game", [tmp_path / "cut"], wishes=ReportOptions(episodes=4)).numbers
    assert told["game"]["tree"] is None
    assert "horizon: 1 cuts episodes off" in told["game"]["tree_note"]
    assert {bound["bound"] for bound in told["exploitability"]} == {"lower bound"}


def test_trained_best_responses_stand_beside_the_other_bounds(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object, **__: object) -> None:
        raise ConfigError("too many positions")

    monkeypatch.setattr("marl.analysis.report.bounds.positions_for", too_large)
    wishes = ReportOptions(episodes=4, with_random=False, best_response=128, max_nodes=1)
    bounds = build_report("matrix_game", [run], wishes=wishes).numbers["exploitability"]
    assert [(bound["name"], bound["bound"]) for bound in bounds] == [("iteration 10", "lower bound")] * 2
    assert bounds[0]["how"].startswith("best of the 1 entrants")
    assert bounds[1]["how"] == "best responses trained for 256 env steps in all"


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_command_writes_text_json_page_and_payoffs_and_prints_the_text(tmp_path: Path) -> None:
    path = with_fixed(tmp_path / "rps", RPS, 3)
    entrants = [f"{path}#fixed_{a}" for a in range(3)]
    done = marl("report", "matrix_game", *entrants, "--no-random", "--episodes", 4, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "report_matrix_game"
    assert done.stdout.startswith((out / "report.txt").read_text())
    assert done.stdout.endswith("report: report_matrix_game/report.html\n")
    assert "Cycle: fixed_" in done.stdout
    written = json.loads((out / "report.json").read_text())
    assert PayoffTensor.load(out / "payoffs.json").mean[0].tolist() == [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    again = marl("report", "matrix_game", *entrants, "--no-random", "--episodes", 4, "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == written
    assert (out / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_world"], "error: unknown env 'no_such_world'"),
        (["matrix_game", "nowhere"], "error: there is no checkpoint 'nowhere'"),
        (["kuhn_poker", "--out", "/dev/null/x"], "error: the report cannot be written to /dev/null/x"),
    ],
)
def test_a_mistake_ends_with_one_message_and_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = marl("report", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_played(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "rps", {**RPS, "env_config": {**RPS["env_config"], "repetitions": 200}})
    log = tmp_path / "out" / "crossplay.jsonl"
    process = start("report", "matrix_game", path, "--episodes", 40_000, "--out", log.parent)
    while not log.exists() or log.stat().st_size == 0:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on with what is in" in errors
    assert log.stat().st_size > 0
    assert not (log.parent / "report.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium browser")
def test_a_browser_shows_every_section_and_draws_every_figure(run: Path, tmp_path: Path) -> None:
    build_report("matrix_game", [run], wishes=ReportOptions(all_checkpoints=True, episodes=4)).write(tmp_path)
    assert CHROMIUM is not None
    shot = tmp_path / "page.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}"]
    page = (tmp_path / "report.html").as_uri()
    subprocess.run(
        [CHROMIUM, *options, f"--screenshot={shot}", "--window-size=900,7000", page], check=True, timeout=120
    )
    from matplotlib.image import imread

    picture = imread(shot)[..., :3]
    blue = np.abs(picture - np.array([0x00, 0x72, 0xB2]) / 255).max(axis=2) < 0.02
    assert blue.sum() > 500  # the dots of the rankings: drawings inside of the page are shown
