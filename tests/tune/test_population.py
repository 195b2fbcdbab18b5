"""Population based training: who copies whom, what is copied, and that a killed search decides the same."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from marl.data.seal import sealed, sealed_line
from marl.errors import CheckpointError
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.files import RunFiles
from marl.runs.result import without_wall_clock
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.tune.config import TuneConfig
from marl.tune.copying import take_over
from marl.tune.generations import FILE, Generation, History, schedule_of
from marl.tune.mutations import Mutation
from marl.tune.outcome import Tuning
from marl.tune.population import Copy, Exploitation, Following, Standing, quantiles
from marl.tune.search import grid_search
from marl.tune.sweep import search_scenario
from marl.tune.trial import RunningTrial
from tests.command import marl
from tests.processes import run_code
from tests.tune.searches import SMALL
from tests.tune.test_trials import REWARD

LRS = [1e-6, 1e-4, 0.1, 1.0]
KEYS: dict[str, Any] = {**SMALL, "lr": grid_search(LRS), "checkpoint_freq": 2, "stop": {"training_iteration": 7}}
OPTIONS: dict[str, Any] = {
    "scheduler": "pbt",
    "stacked": True,
    "perturbation_interval": 2,
    "quantile_fraction": 0.5,
    "mutations": {"lr": {"loguniform": [1e-6, 1.0]}},
}


def search(directory: Path, resume: Path | None = None, **changes: Any) -> Tuning:
    options = TuneConfig.model_validate({**OPTIONS, **changes.pop("options", {})})
    return search_scenario({**KEYS, **changes}, options, "here", "s", directory, resume, verbose=0)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Tuning:
    return search(tmp_path_factory.mktemp("straight"))


# -- decisions ---------------------------------------------------------------------------------------------------------


def standing(index: int, value: float | None, is_open: bool = True) -> Standing:
    return Standing(index, 10, value, {"algo.lr": 0.01 * (index + 1)}, is_open)


def exploitation(quantile: float = 0.25) -> Exploitation:
    lr = Mutation("algo.lr", "loguniform", (1e-4, 1e-1))
    return Exploitation("timesteps_total", 100, (lr,), quantile, 0.0, (0.8, 1.2), 5)


def test_the_worst_quarter_copies_from_the_best_quarter_and_changes_its_values() -> None:
    trials = [standing(index, float(value)) for index, value in enumerate([3, 9, 1, 4, 8, 2, 5, 6])]
    copies = exploitation().decide(0, trials, 1.0)
    assert [copy.trial for copy in copies] == [5, 2]
    for copy in copies:
        assert copy.source in (1, 4)
        own = 0.01 * (copy.source + 1)  # of the one that was copied, not of the one that copies
        assert copy.values["algo.lr"] in (pytest.approx(0.8 * own), pytest.approx(1.2 * own))
        assert copy.before == {"algo.lr": 0.01 * (copy.trial + 1)}
    assert exploitation().decide(0, trials, 1.0) == copies
    less_is_better = exploitation().decide(0, trials, -1.0)
    assert [copy.trial for copy in less_is_better] == [4, 1]
    assert {copy.source for copy in less_is_better} <= {2, 5}


def test_every_one_of_the_best_is_copied_in_the_long_run() -> None:
    trials = [standing(index, float(index)) for index in range(8)]
    sources = {copy.source for number in range(20) for copy in exploitation().decide(number, trials, 1.0)}
    assert sources == {6, 7}


def test_nobody_copies_one_that_is_no_better() -> None:
    assert exploitation().decide(0, [standing(index, 2.0) for index in range(4)], 1.0) == []


def test_who_has_no_value_is_not_compared_and_who_has_ended_is_copied_but_copies_nobody() -> None:
    trials = [standing(0, None), standing(1, 9.0, is_open=False), standing(2, 1.0), standing(3, 0.0, is_open=False)]
    best, worst = quantiles(trials, 0.25, 1.0)
    assert ([trial.index for trial in best], [trial.index for trial in worst]) == ([1], [3])
    assert exploitation().decide(0, trials, 1.0) == []
    assert [(copy.trial, copy.source) for copy in exploitation().decide(0, trials[:3], 1.0)] == [(2, 1)]


def test_nobody_is_among_the_best_and_the_worst() -> None:
    best, worst = quantiles([standing(index, float(index)) for index in range(3)], 0.5, 1.0)
    assert ([trial.index for trial in best], [trial.index for trial in worst]) == ([2], [0])
    assert quantiles([standing(0, 1.0)], 0.5, 1.0) == ([], [])


def test_the_schedule_of_a_trial_goes_through_those_that_it_copied() -> None:
    def line(number: int, *copies: Copy) -> Generation:
        return Generation(number, 100.0 * (number + 1), "timesteps_total", {}, {}, (), copies)

    history = History(Path(), [
        line(0, Copy(1, 0, {"lr": 0.2}, {})),
        line(1, Copy(2, 1, {"lr": 0.3}, {}), Copy(0, 3, {"lr": 9.0}, {})),
        line(2, Copy(1, 3, {"lr": 0.5}, {})),  # of no importance for what trial 2 had copied before
    ])  # fmt: skip
    first = {index: {"lr": float(index)} for index in range(4)}
    assert schedule_of(history, 2, first) == [(0.0, {"lr": 0.0}), (100.0, {"lr": 0.2}), (200.0, {"lr": 0.3})]
    assert schedule_of(history, 3, first) == [(0.0, {"lr": 3.0})]


# -- copying -----------------------------------------------------------------------------------------------------------


OFF_POLICY = {
    "env": "two_step_game",
    "algo": {"name": "dqn", "train_batch_size": 8, "learning_starts": 8},
    "timesteps_per_iteration": 64,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}


def begin(keys: dict[str, Any], directory: Path) -> RunningTrial:
    return RunningTrial({**keys, "stop": {"training_iteration": 9}}, directory, "abcde_0", REWARD, "training_iteration")


def trained(keys: dict[str, Any], directory: Path, steps: int) -> None:
    running = begin(keys, directory)
    for _ in range(steps):
        running.step()
    running.close(draw=False)


def same(one: Any, other: Any) -> bool:
    """Whether two parts of checkpoints hold the same."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("keys", [SMALL, OFF_POLICY], ids=["ppo", "dqn"])
def test_a_copy_has_all_that_was_learned_and_the_counters_and_luck_of_its_own(
    keys: dict[str, Any], tmp_path: Path
) -> None:
    own, source = tmp_path / "own", tmp_path / "source"
    trained({**keys, "seed": 1}, own, steps=2)
    trained({**keys, "seed": 2}, source, steps=3)
    before = {part: read_part(find_checkpoint(own), part) for part in ("run", "workers", "policies")}
    theirs = find_checkpoint(source)
    changed = {**keys, "seed": 1, "lr": 0.5}
    for _ in range(2):  # after a kill it is done again
        folder = take_over(own, source, describe(compose({**changed, "stop": {"training_iteration": 9}})))
        assert folder.name == "checkpoint_000002"
        for part in ("policies", "learners", "replay"):
            assert same(read_part(folder, part), read_part(theirs, part))
        assert same(read_part(folder, "workers"), before["workers"])
        assert read_part(folder, "run")["counters"] == before["run"]["counters"]
    assert not same(before["policies"], read_part(theirs, "policies"))
    # It goes on: with the new value, from its own iteration.
    running = begin(changed, own)
    told = running.step()
    running.close(draw=False)
    assert told is not None
    assert told["shown"]["training_iteration"] == 3
    (learner,) = RunFiles(own).results()[-1]["info"]["learner"].values()
    assert learner["learner_stats"]["cur_lr"] == 0.5


# -- whole searches ----------------------------------------------------------------------------------------------------


def numbers(found: Tuning) -> list[list[dict[str, Any]]]:
    """All results, without the wall clock and what differs between folders."""
    told = []
    for trial in found.trials:
        rows = [without_wall_clock(result) for result in RunFiles(trial.directory).results()]
        told.append([{key: row[key] for key in row if key not in ("trial_id", "experiment_id")} for row in rows])
    return told


def weights(found: Tuning) -> list[Any]:
    return [read_part(find_checkpoint(trial.directory), "policies") for trial in found.trials]


def assert_same(found: Tuning, other: Tuning) -> None:
    assert (found.directory / FILE).read_text() == (other.directory / FILE).read_text()
    assert numbers(found) == numbers(other)
    assert same(weights(found), weights(other))
    assert [trial.status for trial in found.trials] == [trial.status for trial in other.trials]
    assert found.schedules == other.schedules


def test_trials_that_are_behind_copy_those_ahead_and_the_results_tell_it(straight: Tuning) -> None:
    assert [trial.status for trial in straight.trials] == ["TERMINATED"] * 4
    assert [len(trial.results) for trial in straight.trials] == [7] * 4
    assert [generation.at for generation in straight.generations] == [2.0, 4.0, 6.0]
    copies = [copy for generation in straight.generations for copy in generation.copies]
    assert copies
    for generation in straight.generations:
        for copy in generation.copies:
            mine, other = generation.scores[copy.trial], generation.scores[copy.source]
            assert mine is not None
            assert other is not None
            assert mine < other
    changed = copies[-1]
    trial = straight.trials[changed.trial]
    assert trial.params["lr"] == trial.config["algo"]["lr"] == changed.values["algo.lr"] != LRS[changed.trial]
    assert json.loads((trial.directory / "params.json").read_text())["algo"]["lr"] == changed.values["algo.lr"]
    # Each iteration was made with the value that its generation had.
    for trial in straight.trials:
        rates = [one["info"]["learner"]["default_policy"]["learner_stats"]["cur_lr"] for one in trial.results]
        value, expected = LRS[trial.index], []
        for iteration in range(7):
            for generation in straight.generations:
                for copy in generation.copies:
                    if copy.trial == trial.index and generation.iterations[copy.trial] == iteration:
                        value = copy.values["algo.lr"]
            expected.append(value)
        assert rates == pytest.approx(expected)


KILLED = """
import os, signal, sys
from pathlib import Path
from marl.tune import generations, journal, play_population, trial
from tests.tune.test_population import search

directory, where, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
owner, name = {
    "before the decision is written": (generations.History, "add"),
    "in the middle of the copies": (play_population, "take_over"),
    "after the copies": (journal.Journal, "write"),
    "in an iteration": (trial.RunningTrial, "step"),
}[where]
usual, calls = getattr(owner, name), []

def deadly(*arguments):
    calls.append(where)
    if len(calls) == number and where != "in the middle of the copies":
        os.kill(os.getpid(), signal.SIGKILL)
    result = usual(*arguments)
    if len(calls) == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(owner, name, deadly)
search(directory)
"""
MOMENTS = [
    ("before the decision is written", 2),
    ("in the middle of the copies", 1),
    pytest.param("after the copies", 8, marks=pytest.mark.long),
    pytest.param("in an iteration", 14, marks=pytest.mark.long),
]


@pytest.mark.slow
@pytest.mark.parametrize(("where", "number"), MOMENTS)
def test_a_search_that_was_killed_goes_on_to_the_same_copies_and_results(
    where: str, number: int, straight: Tuning, tmp_path: Path
) -> None:
    killed = run_code(KILLED, tmp_path, where, number)
    assert killed.returncode == -9, killed.stderr
    (directory,) = tmp_path.iterdir()
    assert_same(search(tmp_path, directory), straight)


def test_ctrl_c_ends_a_population_behind_its_iteration_and_it_goes_on_to_the_same_results(
    straight: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = RunningTrial.step
    steps: list[int] = []

    def press(self: RunningTrial) -> dict[str, Any] | None:
        steps.append(self.trainer.iteration)
        if len(steps) == 10:  # in the third iteration, in the second generation
            signal.raise_signal(signal.SIGINT)
        return step(self)

    monkeypatch.setattr(RunningTrial, "step", press)
    stopped = search(tmp_path)
    monkeypatch.undo()
    assert stopped.interrupted
    assert [trial.status for trial in stopped.trials] == ["INTERRUPTED"] * 4
    assert len(stopped.generations) == 1
    assert_same(search(tmp_path, stopped.directory), straight)


def test_after_the_budget_is_raised_a_population_goes_on_as_if_it_had_never_ended(
    straight: Tuning, tmp_path: Path
) -> None:
    short = search(tmp_path, stop={"training_iteration": 4})
    assert len(short.generations) == 1  # at the end of the budget nobody copies any more
    longer = search(tmp_path, short.directory)
    assert (longer.directory / FILE).read_text() == (straight.directory / FILE).read_text()
    assert same(weights(longer), weights(straight))


def test_a_trial_that_fails_leaves_the_population_and_stays_out_of_it(tmp_path: Path) -> None:
    keys = {"lr": grid_search([1e-6, 0.1, 1e30]), "stop": {"training_iteration": 5}}
    found = search(tmp_path, **keys)
    assert [trial.status for trial in found.trials] == ["TERMINATED", "TERMINATED", "ERROR"]
    assert "lr" in found.failed[0].error
    for generation in found.generations:
        assert generation.failed == (2,)
        assert 2 not in generation.scores
    before = (found.directory / FILE).read_text()
    again = search(tmp_path, found.directory, **keys)
    assert [trial.status for trial in again.trials] == ["TERMINATED", "TERMINATED", "ERROR"]
    assert again.failed[0].error == found.failed[0].error
    assert (found.directory / FILE).read_text() == before


def test_values_of_another_kind_of_key_come_to_all_that_a_trial_learns_with(tmp_path: Path) -> None:
    mutations = {"gamma": {"uniform": [0.5, 0.99]}, "num_sgd_iter": {"randint": [1, 4]}}
    options = {"mutations": mutations, "num_samples": 3, "resample_probability": 1.0}
    keys = {key: value for key, value in KEYS.items() if key not in ("lr", "num_sgd_iter")}
    found = search_scenario(keys, TuneConfig.model_validate({**OPTIONS, **options}), "x", "s", tmp_path, verbose=0)
    copies = [copy for generation in found.generations for copy in generation.copies]
    assert copies
    for trial in found.trials:
        assert trial.last_result["config"]["algo"]["gamma"] == trial.params["gamma"]
        assert trial.last_result["config"]["algo"]["num_sgd_iter"] == trial.params["num_sgd_iter"]


# -- values by time ----------------------------------------------------------------------------------------------------


def test_the_schedule_that_was_found_trains_new_runs(straight: Tuning, tmp_path: Path) -> None:
    best = straight.best_trial
    found = yaml.safe_load((straight.directory / "schedule.yaml").read_text())
    assert found["tune"]["schedule"] == straight.schedules[best.index]
    done = marl("tune", straight.directory / "schedule.yaml", "--num-samples", "2", "--local-dir", tmp_path, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [trial["status"] for trial in told["trials"]] == ["TERMINATED"] * 2
    entries = straight.schedules[best.index]
    for trial in told["trials"]:
        results = RunFiles(Path(trial["directory"])).results()
        rates = [one["info"]["learner"]["default_policy"]["learner_stats"]["cur_lr"] for one in results]
        expected = []
        for iteration in range(7):
            expected.append([one["values"]["algo.lr"] for one in entries if one["at"] <= iteration][-1])
        assert rates == pytest.approx(expected)


def test_a_schedule_ends_its_generations_where_values_change() -> None:
    following = Following("timesteps_total", (100.0, 250.0), ({"algo.lr": 0.1}, {"algo.lr": 0.2}))
    assert [following.end_of(number) for number in range(3)] == [100.0, 250.0, float("inf")]
    copies = following.decide(1, [standing(0, 1.0), standing(1, None), standing(2, 3.0, is_open=False)], 1.0)
    assert [(copy.trial, copy.source, copy.values) for copy in copies] == [
        (0, 0, {"algo.lr": 0.2}),
        (1, 1, {"algo.lr": 0.2}),
    ]


# -- what is told ------------------------------------------------------------------------------------------------------


def test_the_command_tells_who_copied_whom_and_where_the_schedule_is(tmp_path: Path) -> None:
    file = tmp_path / "search.yaml"
    file.write_text(yaml.safe_dump({**KEYS, "stop": {"training_iteration": 3}, "tune": OPTIONS}))
    done = marl("tune", file, "--local-dir", tmp_path / "results")
    assert done.code == 0, done.err
    assert "scheduling: PBT, the worst 50% copy at every 2 training_iteration and change lr" in done.out
    assert "training_iteration 2: trial 0000" in done.out
    assert " copies trial 0000" in done.out
    (directory,) = (tmp_path / "results").iterdir()
    assert f"train with its values by time: marl tune {directory / 'schedule.yaml'}" in done.out
    assert done.out.splitlines()[-1] == f"results: {directory}"


def test_only_values_of_a_generation_itself_count_and_one_without_any_is_told(tmp_path: Path) -> None:
    file = tmp_path / "search.yaml"
    keys = {**KEYS, "evaluation": {"interval": 4, "episodes": 1}}
    file.write_text(yaml.safe_dump({**keys, "tune": OPTIONS}))
    done = marl("tune", file, "--local-dir", tmp_path / "results")
    assert done.code == 0, done.err
    told = [line for line in done.out.splitlines() if line.startswith("nobody was compared")]
    # Evaluated at iteration 4: at 6 that value is of weights that some trials no longer have.
    assert [line.split(":")[0][-1] for line in told] == ["2", "6"]
    assert "no result since the last time has evaluation.episode_reward_mean" in told[0]


def test_a_file_of_generations_that_changes_other_keys_is_refused(tmp_path: Path) -> None:
    for values in ({"env": "other"}, {"algo.lr": "os:system"}):
        copy = Copy(1, 0, values, {})
        History(tmp_path).add(Generation(0, 1.0, "training_iteration", {}, {}, (), (copy,)))
        with pytest.raises(CheckpointError, match="does not become"):
            History.read(tmp_path, 2, ["algo.lr"])
    History(tmp_path).add(Generation(0, 1.0, "training_iteration", {}, {}, (), (Copy(2, 0, {}, {}),)))
    with pytest.raises(CheckpointError, match="there are 2 trials"):
        History.read(tmp_path, 2, ["algo.lr"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"algo.lr": 0.5', '"algo.lr": NaN'),
        ('"at": 2.0', '"at": Infinity'),
        ('"iterations": {}', '"iterations": {"0": Infinity}'),
        ('"scores": {}', '"scores": {"0": "high"}'),
        ('"clock": "training_iteration"', '"clock": "\\u001b[2J"'),
        ('"before": {}', '"before": {"algo.lr": "\\u001b[2J"}'),
    ],
)
def test_a_sealed_file_of_generations_with_nonsense_is_refused(old: str, new: str, tmp_path: Path) -> None:
    line = Generation(0, 2.0, "training_iteration", {}, {}, (), (Copy(1, 0, {"algo.lr": 0.5}, {}),)).as_line()
    text = line.partition(', "seal"')[0] + "}"
    assert old in text
    (tmp_path / FILE).write_text(sealed_line(text))
    assert History.read(tmp_path, 2, ["algo.lr"]).copies()
    (tmp_path / FILE).write_text(sealed_line(text.replace(old, new)))
    with pytest.raises(CheckpointError):
        History.read(tmp_path, 2, ["algo.lr"])


@pytest.mark.parametrize("generation", [0, -1, 4, "2", True, None])
def test_a_journal_that_is_not_of_the_same_moment_as_its_generations_is_refused(
    generation: Any, straight: Tuning, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(straight.directory, copied)
    content = json.loads((copied / "tune.json").read_text())
    del content["seal"]
    assert content["generation"] == 3
    (copied / "tune.json").write_text(json.dumps(sealed({**content, "generation": generation})))
    with pytest.raises(CheckpointError, match="do not belong together"):
        search(tmp_path, copied)
