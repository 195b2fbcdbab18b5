"""Going on from an older checkpoint or from ``best`` equals the run as it was then; nothing newer is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from marl.errors import CheckpointError, ConfigError
from marl.run import _open
from marl.runs.checkpoint import damage_of, find_checkpoint, has_part, read_part, strip, write_checkpoint
from marl.runs.files import RunFiles
from marl.runs.manifest import checkpoint_name, iteration_of, numbered
from marl.runs.result import without_wall_clock
from marl.runs.resume import find_resumable, resumable_in
from marl.scenario.load import compose
from marl.training.trainer import Trainer
from marl.tune.objective import Objective
from marl.tune.trial import RunningTrial
from tests.training.test_exact_resume import CARTPOLE, TWO_STEP, config
from tests.training.test_killed_populations import scenario as population
from tests.training.trees import differences

LAST = 8
KEPT = {"checkpoint_freq": 2, "keep_checkpoints": 9, "keep_resumable": 4, "evaluation": {"interval": 3, "episodes": 3}}
RUNS: dict[str, dict[str, Any]] = {
    "ppo": {**config("ppo", CARTPOLE), **KEPT, "algo": "ppo"},
    "qmix": {**config("qmix", TWO_STEP), **KEPT, "algo": "qmix"},
    "psro": {**population("rps", "psro", 0), **KEPT, "exploitability": {"interval": 0}},
}


def train_to(trainer: Trainer, iteration: int) -> None:
    while trainer.iteration < iteration:
        trainer.train()


def whole_run(directory: Path, keys: dict[str, Any], iterations: int = LAST) -> Path:
    with Trainer(config=keys, directory=directory) as trainer:
        train_to(trainer, iterations)
    return directory


@pytest.fixture(scope="module")
def straight(tmp_path_factory: Any) -> Callable[[str], Path]:
    """Runs that were never stopped, each trained once; tests copy them."""
    return cache(lambda name: whole_run(tmp_path_factory.mktemp(name), RUNS[name]))


def copied(directory: Path, to: Path) -> Path:
    return Path(shutil.copytree(directory, to))


def go_on(folder: Path, keys: dict[str, Any], iterations: int = LAST) -> None:
    """As ``marl run --resume FOLDER`` does."""
    with Trainer(config=keys, fresh=False) as trainer:
        _open(trainer, folder, None, 0)
        train_to(trainer, iterations)


def everything(folder: Path) -> dict[str, Any]:
    names = ("run", "policies", "learners", "workers", "replay", "population")
    parts = {name: read_part(folder, name) for name in names if has_part(folder, name)}
    parts["run"]["counters"].pop("time_total_s")
    return parts


def rows(directory: Path) -> list[dict[str, Any]]:
    return [without_wall_clock(row) for row in RunFiles(directory).results()]


def iteration_in(folder: Path) -> int:
    return int(read_part(folder, "run")["counters"]["iteration"])


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.unlink()  # it may be shared with another checkpoint
    file.write_bytes(content)


# -- exactly as it was -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back_to", ["checkpoint_000004", "best"])
@pytest.mark.parametrize("name", list(RUNS))
def test_going_back_repeats_the_run_to_the_last_bit(
    name: str, back_to: str, straight: Callable[[str], Path], tmp_path: Path
) -> None:
    never_stopped = straight(name)
    again = copied(never_stopped, tmp_path / "again")
    went_back_to = iteration_in(again / "checkpoints" / back_to)
    assert went_back_to < LAST
    go_on(again / "checkpoints" / back_to, RUNS[name])
    last = Path("checkpoints", checkpoint_name(LAST))
    assert differences(everything(again / last), everything(never_stopped / last)) == []
    assert differences(everything(again / "checkpoints/best"), everything(never_stopped / "checkpoints/best")) == []
    assert [row["training_iteration"] for row in rows(again)] == list(range(1, LAST + 1))
    assert differences(rows(again), rows(never_stopped)) == []
    if name == "psro":
        assert (again / "population.json").read_text() == (never_stopped / "population.json").read_text()


def test_best_is_written_when_its_iteration_is_over(tmp_path: Path) -> None:
    """It holds what a numbered checkpoint of the same iteration holds, also what hooks and a curriculum did at its end."""
    keys = {
        **CARTPOLE, "algo": {"name": "ppo", "train_batch_size": 60}, "fcnet_hiddens": [8], "evaluation": {"interval": 2, "episodes": 2},
        "curriculum": [{"until": {"training_iteration": 2}}, {"env_config": {}}], "checkpoint_freq": 1, "keep_checkpoints": 9,
    }  # fmt: skip
    with Trainer(config=keys, directory=tmp_path) as trainer:
        train_to(trainer, 2)
    best, second = tmp_path / "checkpoints" / "best", tmp_path / "checkpoints" / checkpoint_name(2)
    assert read_part(best, "run")["curriculum"]["stage"] == 1
    assert differences(everything(best), everything(second)) == []
    assert (best / "learners.safetensors").samefile(second / "learners.safetensors")  # one file, no space
    with Trainer(config=keys, directory=tmp_path) as trainer:
        trainer.restore(tmp_path)
        train_to(trainer, 3)
        trainer.save()
    strip(second, ["run", "policies"])
    assert damage_of(best) == ""
    assert find_resumable(best) == best


# -- a new run where another one was ------------------------------------------------------------------------------------


def files_in(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("left", ["both", "results", "checkpoints"])
def test_a_new_run_among_the_results_of_another_is_refused_and_nothing_there_changes(left: str, tmp_path: Path) -> None:
    keys = {**RUNS["ppo"], "evaluation": {"interval": 0}, "keep_checkpoints": 1, "keep_resumable": 1}
    run = whole_run(tmp_path / "run", keys, 2)
    if left == "results":
        shutil.rmtree(run / "checkpoints")
    elif left == "checkpoints":
        (run / "result.json").unlink()
    before = files_in(run)
    with Trainer(config={**keys, "seed": 7}, directory=run) as trainer:
        for attempt in (trainer.train, trainer.save):
            with pytest.raises(ConfigError, match=r"of another run.*give another directory") as refused:
                attempt()
            assert ("restore(" in str(refused.value)) == (left != "results")
        with pytest.raises(ConfigError, match="of another run"), trainer.store.proven():
            raise AssertionError("nothing begins")
        trainer.save(tmp_path / "elsewhere")
    assert files_in(run) == before


def test_a_restored_run_writes_its_own_keys_and_goes_on_counting(tmp_path: Path) -> None:
    keys = {**RUNS["ppo"], "evaluation": {"interval": 0}}
    run = whole_run(tmp_path, keys, 2)
    with Trainer(config={**keys, "keep_checkpoints": 8}, directory=run) as trainer:
        trainer.restore(run)
        trainer.train()
    assert json.loads((run / "params.json").read_text())["keep_checkpoints"] == 8
    assert [result["training_iteration"] for result in RunFiles(run).results()] == [1, 2, 3]


def test_what_was_just_saved_is_neither_deleted_nor_stripped(tmp_path: Path) -> None:
    keys = {**RUNS["ppo"], "evaluation": {"interval": 0}, "keep_checkpoints": 1, "keep_resumable": 1}
    with Trainer(config=keys, directory=tmp_path) as trainer:
        trainer.train()
        stranger = trainer.save(tmp_path / "checkpoints" / checkpoint_name(9))
        saved = trainer.save()
    assert find_resumable(saved) == saved
    assert numbered(tmp_path / "checkpoints") == [saved, stranger]


# -- what is newer -----------------------------------------------------------------------------------------------------


def test_newer_checkpoints_and_results_are_set_aside_as_a_run_of_their_own(
    straight: Callable[[str], Path], tmp_path: Path, caplog: Any
) -> None:
    run = copied(straight("qmix"), tmp_path / "run")
    before = rows(run)
    go_on(run / "checkpoints" / checkpoint_name(4), {**RUNS["qmix"], "lr": 0.002}, iterations=5)
    assert (
        f"checkpoint_000006, checkpoint_000008 and the results so far were set aside in {run}/abandoned/after_000004"
        in caplog.text
    )
    assert [iteration_of(folder) for folder in numbered(run / "checkpoints")] == [2, 4]
    assert find_checkpoint(run).name == checkpoint_name(4)
    assert len(rows(run)) == 5
    aside = run / "abandoned" / "after_000004"
    assert differences(rows(aside), before) == []
    assert json.loads((aside / "params.json").read_text())["algo"]["lr"] != 0.002  # the keys it was trained with
    with Trainer.from_checkpoint(aside) as trainer:
        assert trainer.iteration == 8
    go_on(run / "checkpoints" / checkpoint_name(2), RUNS["qmix"], iterations=2)
    go_on(run / "checkpoints" / checkpoint_name(2), RUNS["qmix"], iterations=2)  # nothing newer is left
    assert sorted(folder.name for folder in (run / "abandoned").iterdir()) == ["after_000002", "after_000004"]


def test_best_goes_aside_with_its_future_but_stays_after_a_kill(tmp_path: Path, caplog: Any) -> None:
    keys = {**RUNS["ppo"], "evaluation": {"interval": 5, "episodes": 1}}
    run = whole_run(tmp_path / "run", keys)
    best_at = iteration_in(run / "checkpoints" / "best")
    assert best_at == 5
    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    for folder in numbered(killed / "checkpoints"):
        if iteration_of(folder) > 4:
            shutil.rmtree(folder)
    go_on(killed / "checkpoints" / checkpoint_name(4), keys, iterations=4)
    assert iteration_in(killed / "checkpoints" / "best") == best_at
    assert f"best is of iteration {best_at}, and the run goes on at 4" in caplog.text
    go_on(killed / "checkpoints" / checkpoint_name(4), keys)
    assert iteration_in(killed / "checkpoints" / "best") == best_at
    assert not (killed / "abandoned").exists()
    go_on(run / "checkpoints" / checkpoint_name(4), keys, iterations=4)
    assert not (run / "checkpoints" / "best").exists()
    assert iteration_in(run / "abandoned" / "after_000004" / "checkpoints" / "best") == best_at


def test_after_going_back_to_best_a_kill_goes_on_from_there(tmp_path: Path) -> None:
    keys = {**RUNS["qmix"], "keep_checkpoints": 2, "keep_resumable": 1}
    run = whole_run(tmp_path, keys)
    best_at = iteration_in(run / "checkpoints" / "best")
    go_on(run / "checkpoints" / "best", keys, iterations=best_at)  # killed before anything was trained
    newest = find_resumable(run)
    assert newest.name == checkpoint_name(best_at)
    assert differences(everything(newest), everything(run / "checkpoints" / "best")) == []


# -- how many ----------------------------------------------------------------------------------------------------------


def test_more_resumable_checkpoints_than_kept_ones_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"keep_resumable is 5, but keep_checkpoints only 3.*Raise keep_checkpoints"):
        compose({"env": "two_step_game", "keep_resumable": 5, "keep_checkpoints": 3})
    with pytest.raises(ConfigError, match="keep_resumable"):
        compose({"env": "two_step_game", "keep_resumable": 0})
    assert compose({"env": "two_step_game", "keep_checkpoints": 1}).keep_resumable == 2  # one is kept, and resumable


def test_the_number_of_resumable_checkpoints_can_change_when_a_run_goes_on(
    straight: Callable[[str], Path], tmp_path: Path
) -> None:
    run = copied(straight("qmix"), tmp_path / "run")
    whole = [iteration_of(folder) for folder in numbered(run / "checkpoints") if has_part(folder, "replay")]
    assert whole == [2, 4, 6, 8]
    go_on(find_checkpoint(run), {**RUNS["qmix"], "keep_resumable": 1}, iterations=10)
    assert [iteration_of(folder) for folder in numbered(run / "checkpoints") if has_part(folder, "replay")] == [10]
    assert len(numbered(run / "checkpoints")) == 5


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_damaged_newest_checkpoint_is_named_and_the_run_goes_on_from_the_one_before(
    straight: Callable[[str], Path], tmp_path: Path, caplog: Any
) -> None:
    run = copied(straight("qmix"), tmp_path / "run")
    newest = run / "checkpoints" / checkpoint_name(LAST)
    flip_a_byte(newest / "replay.safetensors")
    with Trainer(config=RUNS["qmix"], directory=run) as trainer:
        trainer.restore(run)
        assert trainer.iteration == 6
        train_to(trainer, LAST)
    words = f"{newest} is passed over: replay.safetensors is damaged: its SHA-256 begins with"
    assert words in caplog.text
    assert "checkpoint_000006 is used instead" in caplog.text
    assert differences(everything(newest), everything(straight("qmix") / "checkpoints" / newest.name)) == []
    assert (
        damage_of(run / "abandoned" / "after_000006" / "checkpoints" / newest.name) != ""
    )  # also a damaged one is not deleted


def test_a_damaged_checkpoint_that_is_named_is_refused_before_anything_changes(
    straight: Callable[[str], Path], tmp_path: Path
) -> None:
    run = copied(straight("qmix"), tmp_path / "run")
    newest = run / "checkpoints" / checkpoint_name(LAST)
    flip_a_byte(newest / "replay.safetensors")
    with Trainer(config=RUNS["qmix"]) as trainer:
        before = trainer.store._parts()
        with pytest.raises(CheckpointError, match=r"replay.safetensors is damaged: .*beside it: checkpoint_000002"):
            trainer.restore(newest)
        assert differences(trainer.store._parts(), before) == []


def test_damage_in_what_only_training_needs_does_not_keep_anybody_from_playing(tmp_path: Path) -> None:
    parts = {"run": {"a": 1}, "policies": {"b": 2}, "learners": {"c": 3}, "workers": {}, "replay": {}}
    older, newer = (write_checkpoint(tmp_path / "checkpoints" / checkpoint_name(n), parts) for n in (1, 2))
    flip_a_byte(newer / "learners.json")
    assert find_checkpoint(tmp_path, ("run", "policies")) == newer
    assert find_resumable(tmp_path) == older
    flip_a_byte(newer / "policies.json")
    assert find_checkpoint(tmp_path, ("run", "policies")) == older


def test_where_all_are_damaged_each_is_named_with_its_reason_and_best_is_the_way_out(tmp_path: Path) -> None:
    parts = {"run": {"a": 1}, "policies": {"b": 2}, "learners": {"c": 3}, "workers": {}, "replay": {}}
    checkpoints = tmp_path / "checkpoints"
    for folder in [write_checkpoint(checkpoints / checkpoint_name(n), parts) for n in (1, 2, 3)]:
        flip_a_byte(folder / "learners.json")
    strip(checkpoints / checkpoint_name(1), ["run", "policies"])
    words = "checkpoint_000003: learners.json is damaged.*checkpoint_000001: it holds only what is needed to play"
    with pytest.raises(CheckpointError, match=f"none of its checkpoints is complete .*{words}.*Start the run anew"):
        find_resumable(tmp_path)
    with pytest.raises(CheckpointError, match="none of its checkpoints is complete"):
        resumable_in(tmp_path)  # a comparison or a trial does not begin anew over it
    write_checkpoint(checkpoints / "best", parts)
    with pytest.raises(CheckpointError, match=f"{words}.*Try {checkpoints / 'best'}"):
        find_resumable(tmp_path)
    shutil.rmtree(checkpoints / checkpoint_name(1))
    shutil.rmtree(checkpoints / checkpoint_name(2))
    shutil.rmtree(checkpoints / checkpoint_name(3))
    with pytest.raises(CheckpointError, match="no numbered checkpoint yet, only best"):
        find_resumable(tmp_path)


def test_a_trial_tells_the_driver_what_it_passed_over(straight: Callable[[str], Path], tmp_path: Path) -> None:
    keys = {**RUNS["qmix"], "stop": {"training_iteration": 9}}
    run = copied(straight("qmix"), tmp_path / "run")
    flip_a_byte(run / "checkpoints" / checkpoint_name(LAST) / "run.json")
    running = RunningTrial(keys, run, "abcde_00000", Objective("episode_reward_mean"), "timesteps_total")
    told = running.step()
    running.trainer.stop()
    assert told["shown"]["training_iteration"] == 7
    assert "run.json is damaged" in told["notes"][0]
