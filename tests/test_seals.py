"""Small JSON files vouch for themselves: whatever bit of them flips, it is refused or changes nothing that is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.analysis.match_log import FILE as MATCHES
from marl.analysis.match_log import MatchLog
from marl.data.seal import SEAL
from marl.data.task import AgentType, Task
from marl.errors import CheckpointError, DataError, UserError
from marl.offline.json_lines import read_traces, to_line
from marl.offline.manifest import MANIFEST, read_manifest, write_manifest
from marl.offline.trajectories import empty_rows
from marl.play.export import _about, load_policy
from marl.populations.matches import Job
from marl.runs.checkpoint import has_part, read_part, write_checkpoint
from marl.training.trainer import Trainer
from marl.tune.generations import Generation, History
from marl.tune.journal import read_journal
from marl.tune.population import Copy
from tests.command import marl
from tests.tune.searches import journal_of, plan_of

TASK = Task((AgentType("walker", ("a_0", "a_1"), spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2)),), 0)
JOB = Job((("a", "b"), ("c",)), (7, 8))
FLIPS = 300  # bits of a file, one at a time


def recording(folder: Path) -> tuple[Path, Callable[[], object]]:
    write_manifest(folder, TASK, "my_env", ["p", "q"], normalized=True)
    return folder / MANIFEST, lambda: _content(read_manifest(folder))


def search(folder: Path) -> tuple[Path, Callable[[], object]]:
    journal_of(folder, plan_of([{"lr": 0.25}]))
    return folder / "tune.json", lambda: _content(read_journal(folder))


def generations(folder: Path) -> tuple[Path, Callable[[], object]]:
    copy = Copy(1, 0, {"algo.lr": 0.25}, {"algo.lr": 0.5})
    History(folder).add(Generation(0, 100.0, "timesteps_total", {0: 7, 1: 7}, {0: 1.5, 1: None}, (2,), (copy,)))
    return folder / "generations.jsonl", lambda: History.read(folder, 3, ["algo.lr"]).generations


def checkpoint(folder: Path) -> tuple[Path, Callable[[], object]]:
    made = write_checkpoint(folder / "one", {"world": {"a": np.arange(3)}, "replay": {"b": 2}})
    return made / "manifest.json", lambda: [has_part(made, "replay"), read_part(made, "world")["a"].tolist()]


def trace(folder: Path) -> tuple[Path, Callable[[], object]]:
    file = folder / "output-2020-01-01_00-00-00_worker-0_0.json"
    rows = {name: column for name, column in empty_rows(TASK, 1).items() if name in ("rewards", "alive", "policy")}
    rows["alive"][:], rows["rewards"][:] = True, [[1.5, -2.25]]
    file.write_bytes(to_line(rows, TASK.seat_names, ["p"], 0))
    return file, lambda: [
        (found.rows["rewards"].tolist(), found.about["returns"], found.about["policies"]) for found in read_traces(file)
    ]


def matches(folder: Path) -> tuple[Path, Callable[[], object]]:
    MatchLog(folder, {"env": "x"}).add([(JOB, np.array([[1.25, -1.5], [0.5, 2.0]]))])

    def read() -> object:
        log = MatchLog(folder, {"env": "x"})
        return "not played yet" if log.missing(JOB).seeds else log.returns(JOB).tolist()

    return folder / MATCHES, read


def _content(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != SEAL}


def flipped(content: bytes) -> Iterator[bytes]:
    for bit in range(0, 8 * len(content), 8 * len(content) // FLIPS | 1):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


@pytest.mark.parametrize("made", [recording, search, generations, checkpoint, trace, matches])
def test_a_flipped_bit_is_refused_or_changes_nothing(made: Any, tmp_path: Path) -> None:
    file, read = made(tmp_path)
    honest, content = read(), file.read_bytes()
    refused = 0
    for changed in flipped(content):
        file.write_bytes(changed)
        try:
            found = read()
        except UserError:
            refused += 1
        else:
            file_is_as_if_empty = found in ([], "not played yet")  # of a torn last line nothing is read
            assert found == honest or file_is_as_if_empty, changed
    assert refused > 0.6 * FLIPS


def test_a_flipped_bit_of_an_export_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config={"fcnet_hiddens": [4]}) as trainer:
        (folder,) = trainer.export_model(tmp_path)
    file = folder / "policy.json"
    honest, content = _about(folder), file.read_bytes()
    for changed in flipped(content):
        file.write_bytes(changed)
        try:
            assert _about(folder) == honest, changed
        except CheckpointError:
            continue
    file.write_bytes(content.replace(b"4.8", b"4.9"))
    with pytest.raises(CheckpointError, match="SHA-256"):
        load_policy(folder)


def test_files_of_before_seals_are_read(tmp_path: Path) -> None:
    for number, (made, version) in enumerate([(recording, "version"), (search, "version"), (checkpoint, "format")]):
        (tmp_path / str(number)).mkdir()
        file, read = made(tmp_path / str(number))
        honest = read()
        older = {**_content(json.loads(file.read_text())), version: 1}
        file.write_text(json.dumps(older))
        found = read()
        assert found == ({**honest, version: 1} if isinstance(honest, dict) else honest)
    for number, made in enumerate([trace, matches]):
        (tmp_path / f"lines_{number}").mkdir()
        file, read = made(tmp_path / f"lines_{number}")
        honest = read()
        older = _content(json.loads(file.read_text()))
        file.write_text(json.dumps(older | ({"format": 1} if "format" in older else {})) + "\n")
        assert read() == honest


def test_an_export_of_before_seals_is_read(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config={"fcnet_hiddens": [4]}) as trainer:
        (folder,) = trainer.export_model(tmp_path)
    file = folder / "policy.json"
    file.write_text(json.dumps({**_content(json.loads(file.read_text())), "format": 1}))
    assert load_policy(folder).compute_action(np.zeros(4, np.float32)) in (0, 1)


def test_a_file_that_has_lost_its_seal_is_refused(tmp_path: Path) -> None:
    file, read = recording(tmp_path)
    file.write_text(json.dumps(_content(json.loads(file.read_text()))))
    with pytest.raises(DataError, match="its seal says None"):
        read()


def test_replay_refuses_a_recording_whose_description_was_damaged(tmp_path: Path) -> None:
    with Trainer("ppo", env="matrix_game", config={"output": str(tmp_path), "train_batch_size": 16}) as trainer:
        trainer.train()
    file = tmp_path / MANIFEST
    file.write_text(file.read_text().replace("default_policy", "default_qolicy"))
    done = marl("replay", tmp_path)
    assert done.code == 2
    assert "SHA-256" in " ".join(done.errors)
