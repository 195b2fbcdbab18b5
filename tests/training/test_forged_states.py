"""States that were changed and hashed anew end with a sentence that names the file, never with a traceback."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from marl.cli.guard import guarded
from marl.errors import CheckpointError, DataError
from marl.offline.manifest import read_manifest
from marl.play.export import exported_folders, load_policy
from marl.play.exported_run import open_playable
from marl.runs.checkpoint import read_part, write_checkpoint
from marl.training.loop import run_until_stopped
from marl.training.trainer import Trainer
from tests.command import marl
from tests.forgeries import write_sealed

KEYS: dict[str, Any] = {
    "env": "two_step_game", "num_envs_per_worker": 2, "fcnet_hiddens": [8], "learning_starts": 8, "train_batch_size": 8,
    "timesteps_per_iteration": 16, "rollout_fragment_length": 4, "stop": {"training_iteration": 2},
}  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint and an export."""
    folder = tmp_path_factory.mktemp("honest")
    with Trainer("qmix", config=KEYS) as trainer:
        trainer.train()
        trainer.save(folder / "checkpoint")
        trainer.export_model(folder / "export")
    return folder


@pytest.fixture
def forged(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "forged"))


def change(checkpoint: Path, part: str, how: Callable[[Any], object]) -> None:
    """Change the plain values of a part, and make the manifest agree."""
    file = checkpoint / f"{part}.json"
    plain = json.loads(file.read_text())
    how(plain)
    file.write_text(json.dumps(plain))
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    write_sealed(checkpoint / "manifest.json", manifest)


def put(path: str, value: object) -> Callable[[Any], None]:
    def how(tree: Any) -> None:
        *above, last = [int(key) if key.isdigit() else key for key in path.split("/")]
        for key in above:
            tree = tree[key]
        tree[last] = value

    return how


@pytest.mark.parametrize(
    ("part", "how"),
    [
        ("learners", put("0", {})),
        ("learners", put("0/optimisers", 7)),
        ("learners", lambda tree: tree.clear()),
        ("replay", put("0/all", [1, 2])),
        ("workers", put("workers/0", {"player": None})),
        ("workers", put("workers", 3)),
        ("run", put("recent", {"nothing": 1})),
        ("run", put("counters", [])),
        ("run", put("scenario", "ppo")),
        ("policies", put("default_policy", {"w": 3})),
    ],
)
def test_a_part_that_does_not_fit_is_named_with_its_checkpoint(part: str, how: Any, forged: Path) -> None:
    change(forged / "checkpoint", part, how)
    with Trainer("qmix", config=KEYS) as trainer, pytest.raises(CheckpointError, match=part) as refusal:
        trainer.restore(forged / "checkpoint")
    assert str(forged / "checkpoint") in str(refusal.value)


NUMBERS = ("iteration", "timesteps_total", "agent_timesteps_total", "episodes_total", "decisions_lost")
STRANGE: list[tuple[str, object]] = [
    *((f"counters/{name}", value) for name in NUMBERS for value in (1.5, None, "x", -1, True, 10**30, [])),
    *(("counters/time_total_s", value) for value in ("x", None, -1.0, float("nan"), float("inf"), 10**400)),
    *(("counters/best_evaluation", value) for value in ("x", [1], 10**400)),
    *((f"counters/{name}", value) for name in ("trial_id", "experiment_id") for value in (5, None, ["a"])),
    *(("last_result", value) for value in ([1], None, 7, {"episode_reward_mean": 10**400}, {"a": {"b": [10**400]}})),
    *(("last_evaluation", value) for value in ([1], 7, "x", {"episodes": 10**400})),
    *(("last_metrics", value) for value in (7, None, [], {"default_policy": 3}, {"default_policy": {"loss": "x"}})),
    *(("recent", value) for value in (None, [], {}, {"nothing": 1})),
    *((f"recent/{name}", 3) for name in ("rewards", "lengths", "agents", "agent", "episode", "policy", "returns")),
    *(("recent/remarks", value) for value in (7, [1], [{}])),
    *((f"recent/{name}", {"__array__": "/recent/rewards"}) for name in ("agent", "lengths")),
    ("recent/agents", []),
    ("recent/rewards", {"__array__": "/recent/returns"}),
]


@pytest.mark.parametrize(("path", "value"), STRANGE, ids=lambda value: str(value)[:40])
def test_what_no_run_can_have_counted_is_refused_as_soon_as_it_is_read(path: str, value: object, forged: Path) -> None:
    change(forged / "checkpoint", "run", put(path, value))
    entry = path.removeprefix("counters/").partition("/")[0]
    with pytest.raises(CheckpointError, match=rf"run\.json is damaged: its {entry} is .*, expected "):
        read_part(forged / "checkpoint", "run")


def test_what_runs_do_count_is_taken(forged: Path) -> None:
    for path, value in [
        ("counters/best_evaluation", None), ("counters/best_evaluation", float("nan")), ("counters/time_total_s", 3),
        ("last_evaluation", None), ("last_result", {}), ("last_metrics", {"default_policy": {"loss": float("nan")}}),
    ]:  # fmt: skip
        change(forged / "checkpoint", "run", put(path, value))
        read_part(forged / "checkpoint", "run")
    change(forged / "checkpoint", "run", lambda tree: tree["counters"].pop("decisions_lost"))  # as older ones
    with Trainer("qmix", config=KEYS) as trainer:
        trainer.restore(forged / "checkpoint")
        trainer.train()


@pytest.mark.parametrize(
    ("path", "value"),
    [("counters/iteration", 1.5), ("last_result", [1]), ("counters/trial_id", 5), ("last_metrics", 7)],
)
def test_on_the_command_line_a_forged_count_ends_with_a_sentence_and_touches_nothing(
    path: str, value: object, forged: Path
) -> None:
    run = forged / "run"
    shutil.move(forged / "checkpoint", run / "checkpoints" / "checkpoint_000001")
    change(run / "checkpoints" / "checkpoint_000001", "run", put(path, value))
    before = sorted(forged.rglob("*"))
    for more in ([], ["--local-dir", str(forged / "new")]):
        code, _, said = marl("run", "--resume", str(run), "--quiet", *more)
        assert code == 2, said
        assert said.startswith("error: ")
        assert f"its {path.removeprefix('counters/')} is" in said
        assert sorted(forged.rglob("*")) == before


def test_a_state_that_breaks_at_first_use_is_said_to_come_from_the_checkpoint(forged: Path, tmp_path: Path) -> None:
    change(forged / "checkpoint", "learners", put("0/timesteps", {"somebody": 1}))
    with Trainer("qmix", config=KEYS, directory=tmp_path / "run") as trainer:
        trainer.restore(forged / "checkpoint")
        with pytest.raises(CheckpointError, match=r"what it holds does not fit this run \(KeyError"):
            run_until_stopped(trainer)


def test_errors_of_a_run_that_was_not_restored_are_not_blamed_on_a_checkpoint(tmp_path: Path) -> None:
    with Trainer("qmix", config=KEYS, directory=tmp_path / "run") as trainer:
        trainer.learners[0].timesteps = {}  # type: ignore[attr-defined]
        with pytest.raises(KeyError):
            run_until_stopped(trainer)


def test_players_refuse_a_run_without_its_scenario(forged: Path) -> None:
    change(forged / "checkpoint", "run", lambda tree: tree.pop("scenario"))
    with pytest.raises(CheckpointError, match=r"run\.json is damaged: it has no scenario"):
        open_playable(forged / "checkpoint", frozenset()).runner()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_states_nested_too_deeply_are_refused_when_read_and_when_written(forged: Path, tmp_path: Path) -> None:
    change(forged / "checkpoint", "run", put("scenario/env_config", nested(300)))
    with pytest.raises(CheckpointError, match="nested more than 200 levels deep"):
        read_part(forged / "checkpoint", "run")
    with pytest.raises(CheckpointError, match="nested more than 66 levels deep"):
        write_checkpoint(tmp_path / "deep", {"run": nested(100)})
    assert read_part(write_checkpoint(tmp_path / "flat", {"own": nested(60)}), "own") == nested(60)


@pytest.mark.parametrize(
    "how",
    [
        put("policy", {"a": 1}),
        put("policy", None),
        put("agents", []),
        put("recipe/acts", "nonsense"),
        put("recipe/model/fcnet_hiddens", [-3]),
        put("observation_space", {"type": "Discrete", "n": -1, "start": 0}),
        put("normalize_actions", "perhaps"),
        put("masked", []),
        put("recipe/options", 3),
    ],
)
def test_an_export_that_makes_no_sense_is_refused(how: Any, forged: Path) -> None:
    (folder,) = exported_folders(forged / "export").values()
    file = folder / "policy.json"
    about = json.loads(file.read_text())
    how(about)
    write_sealed(file, about)
    with pytest.raises(CheckpointError, match=str(folder)):
        load_policy(folder)


def test_a_recording_that_does_not_say_whose_it_is_is_refused(tmp_path: Path) -> None:
    with Trainer(
        "dqn", config={"env": "CartPole-v1", "output": str(tmp_path), "timesteps_per_iteration": 50}
    ) as trainer:
        trainer.train()
    file = tmp_path / "trajectories.json"
    honest = json.loads(file.read_text())
    assert read_manifest(tmp_path) == honest
    for missing in ("env", "policies", "state_size", "kinds", "normalized_actions"):
        write_sealed(file, {key: value for key, value in honest.items() if key != missing})
        with pytest.raises(DataError, match=rf"trajectories\.json cannot be read.*{missing}"):
            read_manifest(tmp_path)


def test_ctrl_c_outside_of_a_command_ends_with_130_and_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        guarded(interrupted)
    assert end.value.code == 130
    assert capfd.readouterr().err == "stopped\n"
