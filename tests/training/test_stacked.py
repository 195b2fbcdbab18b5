"""Seeds that train in one process at once: each as if it were alone, with its own run directory."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from marl.data.task import Array
from marl.errors import CheckpointError, ConfigError, ResourceError, TrainingError
from marl.memory import free_memory
from marl.runs.checkpoint import read_part
from marl.runs.files import RunFiles
from marl.runs.progress import Progress
from marl.runs.result import without_wall_clock
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.display import Display, Quiet
from marl.training.loop import Outcome
from marl.training.memory_estimate import check_memory
from marl.training.seed_displays import SeedLines, SeedsTable, _Row
from marl.training.stacked import check_stack, run_stack
from marl.training.trainer import Trainer
from tests.training.own_callbacks import StopsInEvaluation
from tests.training.test_display import Terminal, result

KEYS: dict[str, Any] = {
    "env": "two_step_game", "algo": {"name": "ppo", "train_batch_size": 50, "sgd_minibatch_size": 18, "num_sgd_iter": 2},
    "num_envs_per_worker": 3, "model": {"fcnet_hiddens": [10, 7]}, "evaluation": {"interval": 2, "episodes": 2},
    "stop": {"training_iteration": 4}, "checkpoint_freq": 1, "stacked": True, "log_sys_usage": False,
}  # fmt: skip
Weights = Mapping[str, Mapping[str, Array]]


def keys_of(seed: int, iterations: int = 4, **algo: Any) -> dict[str, Any]:
    stop = {"training_iteration": iterations}
    return {**KEYS, "seed": seed, "stop": stop, "algo": {**KEYS["algo"], **algo}}


def train(
    place: Path, runs: Mapping[str, Mapping[str, Any]], displays: Sequence[Display] = ()
) -> dict[str, Outcome | Exception]:
    """Train runs by name together into directories of these names, or go on there."""
    with ExitStack() as opened:
        trainers = []
        for name, keys in runs.items():
            there = (place / name / "checkpoints").exists()
            trainer = opened.enter_context(Trainer(scenario=compose(keys), fresh=not there))
            trainer.store.enter(place / name, place / name if there else None)
            trainers.append(trainer)
        outcomes = run_stack(trainers, displays or [Quiet() for _ in trainers])
    return dict(zip(runs, outcomes, strict=True))


def weights(directory: Path, iteration: int = 4) -> Weights:
    found: Weights = read_part(directory / "checkpoints" / f"checkpoint_{iteration:06d}", "policies")
    return found


def same(a: Weights, b: Weights, tolerance: float = 0.0) -> bool:
    for policy in a:
        for name, array in a[policy].items():
            if not np.allclose(array, b[policy][name], rtol=0.0, atol=tolerance):
                return False
    return True


def results(directory: Path) -> list[dict[str, Any]]:
    return [without_wall_clock(line) for line in RunFiles(directory).results()]


# -- the numbers of a seed -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds that were trained together without a break."""
    place = tmp_path_factory.mktemp("straight")
    train(place, {"0": keys_of(0), "1": keys_of(1), "2": keys_of(2)})
    return place


def test_a_seed_learns_the_same_bit_for_bit_in_every_stack_and_alone(straight: Path, tmp_path: Path) -> None:
    train(tmp_path / "two", {"7": keys_of(7), "1": keys_of(1)})
    with Trainer(scenario=compose(keys_of(1)), directory=tmp_path / "alone") as trainer:
        trainer.run()
    expected = weights(straight / "1")
    assert same(expected, weights(tmp_path / "two" / "1"))
    assert same(expected, weights(tmp_path / "alone"))
    assert not same(expected, weights(straight / "2"), 1e-3)
    assert len(results(straight / "1")) == 4
    for place in (tmp_path / "two" / "1", tmp_path / "alone"):
        for line, other in zip(results(straight / "1"), results(place), strict=True):
            assert line["info"]["learner"] == other["info"]["learner"]
            assert line["episode_reward_mean"] == other["episode_reward_mean"]


@pytest.mark.parametrize("algo", ["mappo", "happo"])
def test_scaled_values_and_policies_that_take_turns_are_a_seeds_own_in_a_stack(algo: str, tmp_path: Path) -> None:
    """Each seed has its own statistics of returns and draws its own order of turns."""
    own = {"name": algo, "normalize_values": True}
    multiagent = {"policy_mapping_fn": "per_agent", "groups": {"team": ["agent_*"]}}
    runs = {str(seed): {**keys_of(seed, 2, **own), "multiagent": multiagent} for seed in (0, 1)}
    train(tmp_path / "two", runs)
    with Trainer(scenario=compose(runs["1"]), directory=tmp_path / "alone") as trainer:
        trainer.run()
    expected = weights(tmp_path / "two" / "1", 2)
    assert same(expected, weights(tmp_path / "alone", 2))
    assert not same(expected, weights(tmp_path / "two" / "0", 2), 1e-3)
    with Trainer(scenario=compose({**runs["1"], "stacked": False})) as ordinary:
        ordinary.train()
        ordinary.train()
    assert same(expected, ordinary.get_weights(), 1e-5)


def test_a_stacked_run_equals_an_ordinary_one_up_to_rounding() -> None:
    with Trainer(scenario=compose(keys_of(1))) as stacked:
        stacked.train()
    with Trainer(scenario=compose({**keys_of(1), "stacked": False})) as ordinary:
        ordinary.train()
    assert same(stacked.get_weights(), ordinary.get_weights(), 1e-5)


def test_a_stack_that_was_stopped_goes_on_exactly_as_a_whole_or_one_by_one(straight: Path, tmp_path: Path) -> None:
    train(tmp_path / "half", {"0": keys_of(0, 2), "1": keys_of(1, 3), "2": keys_of(2, 2)})
    with Trainer.from_checkpoint(tmp_path / "half" / "2", stop={"training_iteration": 4}) as alone:
        assert alone.scenario.stacked
        alone.train()
        alone.train()
        assert same(alone.get_weights(), weights(straight / "2"))
    train(tmp_path / "half", {"0": keys_of(0), "1": keys_of(1)})
    for seed in ("0", "1"):
        assert same(weights(tmp_path / "half" / seed), weights(straight / seed))


class Told(Quiet):
    """Keeps what a person is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_ctrl_c_in_an_evaluation_breaks_off_those_of_all_seeds_and_they_are_made_later(
    straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = "tests.training.own_callbacks:StopsInEvaluation"
    runs = {str(seed): {**keys_of(seed), "callbacks": watched} for seed in (0, 1, 2)}
    monkeypatch.setattr(StopsInEvaluation, "armed", True)
    monkeypatch.setattr(StopsInEvaluation, "begun", ())
    first = Told()
    stopped = train(tmp_path, runs, [first, Told(), Told()])
    assert StopsInEvaluation.begun == (0,)  # nobody waits for those of seeds 1 and 2
    assert first.notes == [
        "stopping; evaluations are broken off, and made when the seeds go on",
        "stopping all seeds after this iteration; press Ctrl-C again to stop at once",
    ]
    assert [outcome.interrupted for outcome in stopped.values()] == [True] * 3  # type: ignore[union-attr]
    train(tmp_path, runs)
    for seed in runs:
        assert same(weights(tmp_path / seed), weights(straight / seed))
        for line, other in zip(results(tmp_path / seed), results(straight / seed), strict=True):
            assert line.get("evaluation") == other.get("evaluation")


def test_seeds_leave_the_stack_when_they_have_met_their_stop_condition(straight: Path, tmp_path: Path) -> None:
    outcomes = train(tmp_path, {"0": keys_of(0, 1), "1": keys_of(1, 4)})
    assert [outcome.result["training_iteration"] for outcome in outcomes.values()] == [1, 4]  # type: ignore[union-attr]
    assert same(weights(tmp_path / "1"), weights(straight / "1"))


def test_a_seed_whose_loss_is_no_number_does_not_take_the_others_down(straight: Path, tmp_path: Path) -> None:
    outcomes = train(tmp_path, {"0": keys_of(0), "1": keys_of(1, lr=1e30), "2": keys_of(2)})
    assert isinstance(outcomes["1"], TrainingError)
    for seed in ("0", "2"):
        assert same(weights(tmp_path / seed), weights(straight / seed))


def test_trials_with_learning_rates_of_their_own_learn_in_one_stack(tmp_path: Path) -> None:
    train(tmp_path, {"slow": keys_of(0, 2, lr=1e-4), "fast": keys_of(0, 2, lr=1e-2)})
    with Trainer(scenario=compose(keys_of(0, lr=1e-2))) as alone:
        alone.train()
        alone.train()
    assert same(weights(tmp_path / "fast", 2), alone.get_weights())
    assert not same(weights(tmp_path / "slow", 2), alone.get_weights(), 1e-3)


def test_populations_and_best_responses_of_a_seed_are_its_own_too(tmp_path: Path) -> None:
    changes = {
        "env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}, "evaluation": {"interval": 0},
        "population": {"kind": "psro", "round_timesteps": 50, "matches": 10},
        "exploitability": {
            "interval": 2, "method": "best_response", "best_response_timesteps": 60, "best_response_episodes": 5,
        },
    }  # fmt: skip
    train(tmp_path, {"0": {**keys_of(0, 2), **changes}, "1": {**keys_of(1, 2), **changes}})
    train(tmp_path / "alone", {"1": {**keys_of(1, 2), **changes}})
    assert same(weights(tmp_path / "1", 2), weights(tmp_path / "alone" / "1", 2))
    found = results(tmp_path / "1")[-1]["exploitability"]
    assert found == results(tmp_path / "alone" / "1")[-1]["exploitability"]
    assert found["timesteps"] > 0


# -- what cannot be stacked ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_workers": 2}, "stacked: true needs num_workers: 0 or pool: in_process"),
        ({"num_learners": 2}, "stacked: true needs num_learners: 1"),
        ({"device": "auto"}, "stacked: true needs device: cpu"),
        ({"algo": {"name": "qmix"}, "multiagent": {"groups": {"team": ["agent_0", "agent_1"]}}}, "learns by qmix"),
        ({"stacked": False}, "Set stacked: true"),
    ],
)
def test_what_cannot_be_stacked_is_refused_before_anything_is_built(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_stack([compose({**KEYS, **changes})])
    assert told in str(refused.value)


def test_the_refusal_names_the_algorithms_that_stack() -> None:
    with pytest.raises(ConfigError, match=r"Algorithms that stack: a2c, .*mappo.*ppo"):
        Trainer("dqn", env="two_step_game", config={"stacked": True})


def test_memory_is_looked_at_for_all_seeds_together(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = resolve(compose({**KEYS, "model": {"fcnet_hiddens": [256, 256]}}))
    check_memory(setup, 10)
    monkeypatch.setattr("marl.training.memory_estimate.free_memory", lambda: 5_000_000)
    assert free_memory() > 5_000_000
    check_memory(setup)
    with pytest.raises(ResourceError, match=r"each of these 10 runs .* free for each.*fewer than 10 of them"):
        check_memory(setup, 10)


def test_a_stacked_run_goes_on_as_one(tmp_path: Path) -> None:
    train(tmp_path, {"0": keys_of(0, 1)})
    with Trainer(scenario=compose({**keys_of(0), "stacked": False}), fresh=False) as trainer:
        with pytest.raises(CheckpointError, match=r"other values of stacked \(True -> False\)"):
            trainer.restore(tmp_path / "0")


# -- what is shown -------------------------------------------------------------------------------------------------

HALF = Progress(0.5, "timesteps_total 500/1000")


def test_lines_name_the_seed_and_the_header_is_told_once() -> None:
    stream = io.StringIO()
    displays = [SeedLines(seed, seed == 0, stream, clock=lambda: 0.0, every=2.0) for seed in (0, 1)]
    for display in displays:
        display.start(["env: two_step_game", f"results: {display._seed}"])
    for iteration in (1, 2):
        for display in displays:
            display.update(result(iteration), HALF)
    displays[1].note("unlucky")
    for display in displays:
        display.finish([f"results: {display._seed}"])
    lines = stream.getvalue().splitlines()
    assert lines[:3] == ["env: two_step_game", "seed 0  results: 0", "seed 1  results: 1"]
    assert [" ".join(line.split()[:4]) for line in lines[3:5]] == ["seed 0 iter 1", "seed 1 iter 1"]
    assert lines[5] == "seed 1  unlucky"
    assert lines[6].startswith("seed 0  iter 2")  # held back until the end: it came too soon
    assert lines[-1] == "results: 1"


def test_a_terminal_shows_one_row_per_seed() -> None:
    stream = Terminal()
    board = SeedsTable(Console(file=stream, width=120, height=40, force_terminal=True, color_system=None), [0, 5])
    rows = [_Row(board, 0), _Row(board, 5)]
    for row in rows:
        row.start(["env: two_step_game", "results: somewhere"])
    for iteration in (1, 2, 3):
        for row in rows:
            row.update(result(iteration), HALF)
    for row in rows:
        row.finish(["results: there"])
    last = stream.getvalue().rpartition("env: two_step_game")[2]
    shown = [line.split()[:2] for line in last.splitlines() if "3000" in line]
    assert shown == [["0", "3"], ["5", "3"]]
    assert "50%" in last
