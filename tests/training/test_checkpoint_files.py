"""Checkpoints come back as they were written, and say so when they cannot."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.errors import CheckpointError
from marl.runs import atomic
from marl.runs.checkpoint import find_checkpoint, has_part, keep_newest, read_part, strip, write_checkpoint
from marl.runs.manifest import MANIFEST, checkpoint_name, iteration_of
from tests.forgeries import write_sealed

PARTS = {"trainer": {"iteration": 3}, "learners": {"team": {"w": np.arange(6.0)}}, "replay": {"obs": np.ones((4, 2))}}


def same(one: Any, other: Any) -> bool:
    """Equal values, types, dtypes and bits (so NaN equals NaN, and -0.0 differs from 0.0)."""
    if isinstance(one, np.ndarray):
        alike = isinstance(other, np.ndarray) and one.dtype == other.dtype and one.shape == other.shape
        return alike and one.tobytes() == other.tobytes()
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)


def checkpoint(parent: Path, iteration: int = 10, parts: dict[str, Any] | None = None) -> Path:
    return write_checkpoint(parent / checkpoint_name(iteration), parts or PARTS)


def forge(folder: Path, file: str, content: bytes) -> None:
    """Change a file and make the manifest agree, as somebody with bad intentions would."""
    (folder / file).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][file] = hashlib.sha256(content).hexdigest()
    write_sealed(folder / MANIFEST, manifest)


# --- round trips -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"])
def test_arrays_of_every_dtype_come_back_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 2, (3, 4, 5)).astype(dtype)
    state = {
        "full": values,
        "strided": values[::2, :, ::-1],
        "transposed": values.T,
        "empty": values[:, :0],
        "scalar": np.array(values[0, 0, 0]),
        "list": [values[0], values[1]],
    }
    back = read_part(checkpoint(tmp_path, parts={"state": state}), "state")
    assert same(back, {**state, "strided": state["strided"].copy(), "transposed": values.T.copy(order="C")})
    back["full"][:] = 0  # what comes back can be written to


def test_a_part_with_only_empty_arrays_comes_back(tmp_path: Path) -> None:
    state = {"carry": np.zeros((8, 0), np.float32)}
    assert same(read_part(checkpoint(tmp_path, parts={"state": state}), "state"), state)


def test_special_floats_come_back_inside_arrays_and_as_plain_values(tmp_path: Path) -> None:
    special = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 0.1]
    state = {"array": np.array(special), "half": np.array(special, np.float16), "plain": special}
    assert same(read_part(checkpoint(tmp_path, parts={"state": state}), "state"), state)


def test_generator_states_with_128_bit_integers_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rng.integers(10, size=3)
    state = rng.bit_generator.state
    assert state["state"]["state"] > 2**64
    back = read_part(checkpoint(tmp_path, parts={"rng": state}), "rng")
    restored = np.random.default_rng()
    restored.bit_generator.state = back
    assert same(back, state)
    assert (restored.random(5) == rng.random(5)).all()


def test_tuples_none_text_and_keys_that_are_no_strings_come_back(tmp_path: Path) -> None:
    state = {
        "pairs": {(1, "a"): (np.arange(2), None), (2, "b"): ()},
        "by_number": {3: True, 1: [False, "ü\u2028\n\x00"]},
        "__array__": "not an array",
        "nested/key": {"": {}, ".": []},
    }
    assert same(read_part(checkpoint(tmp_path, parts={"state": state}), "state"), state)


@pytest.mark.parametrize("tree", [None, 3, [], {}, "text", (1, 2)])
def test_a_part_may_be_any_value_and_has_an_array_file_only_if_it_has_arrays(tmp_path: Path, tree: object) -> None:
    folder = checkpoint(tmp_path, parts={"state": tree})
    assert same(read_part(folder, "state"), tree)
    assert sorted(file.name for file in folder.iterdir()) == [MANIFEST, "state.json"]


def test_a_part_may_be_one_array(tmp_path: Path) -> None:
    assert same(read_part(checkpoint(tmp_path, parts={"state": np.arange(3)}), "state"), np.arange(3))


def test_no_pickle_is_written(tmp_path: Path) -> None:
    assert {file.suffix for file in checkpoint(tmp_path).iterdir()} == {".json", ".safetensors"}


# --- what cannot be stored ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"a": np.array([object()])}, "dtype object"),
        ({"a": np.array(["x"])}, "dtype <U1"),
        ({"a": np.zeros(2, np.complex128)}, "complex128"),
        ({"a": {"deep": {1, 2}}}, "/deep is a set"),
        ({"manifest": 1}, "'manifest' is taken"),
        ({"../a": 1}, "cannot name a part"),
    ],
)
def test_what_cannot_be_stored_is_named_and_leaves_nothing_behind(tmp_path: Path, parts: Any, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        checkpoint(tmp_path, parts={"good": np.arange(3), **parts})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_older_checkpoint_as_it_was(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    with pytest.raises(CheckpointError):
        checkpoint(tmp_path, parts={"trainer": object()})
    assert read_part(folder, "trainer") == {"iteration": 3}


def test_a_folder_with_other_things_in_it_is_never_replaced(tmp_path: Path) -> None:
    for name in ("notes.txt", MANIFEST):
        (tmp_path / "home").mkdir(exist_ok=True)
        (tmp_path / "home" / name).write_text("{}")
        with pytest.raises(CheckpointError, match=r"would delete it"):
            write_checkpoint(tmp_path / "home", PARTS)
    (tmp_path / "file").write_text("precious")
    with pytest.raises(CheckpointError, match=r"would delete it"):
        write_checkpoint(tmp_path / "file", PARTS)


# --- crashes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("can_exchange", [True, False])
def test_writing_again_replaces_the_checkpoint(tmp_path: Path, can_exchange: bool, monkeypatch: Any) -> None:
    if not can_exchange:  # a file system without an atomic exchange
        monkeypatch.setattr(atomic, "_exchange", lambda one, other: False)
    checkpoint(tmp_path)
    folder = checkpoint(tmp_path, parts={"trainer": {"iteration": 4}})
    assert read_part(folder, "trainer") == {"iteration": 4}
    assert not has_part(folder, "replay")
    assert [entry.name for entry in tmp_path.iterdir()] == [folder.name]


CRASH = """
import os, sys
from pathlib import Path
import marl.runs.checkpoint as checkpoint
checkpoint.put_in_place = lambda *_: os._exit(9)
checkpoint.write_checkpoint(Path(sys.argv[1]), {"trainer": {"iteration": 99}})
"""


def test_a_crash_in_the_middle_leaves_the_old_checkpoint_and_the_next_write_clears_up(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "checkpoints", 10)
    for name in (folder.name, checkpoint_name(20)):
        crashed = subprocess.run([sys.executable, "-c", CRASH, str(folder.parent / name)], check=False)
        assert crashed.returncode == 9
    assert len(list(folder.parent.iterdir())) == 2  # the second one cleared up after the first
    assert find_checkpoint(tmp_path) == folder
    assert read_part(folder, "trainer") == {"iteration": 3}
    checkpoint(tmp_path / "checkpoints", 30)
    assert sorted(entry.name for entry in folder.parent.iterdir()) == [checkpoint_name(10), checkpoint_name(30)]


def test_a_checkpoint_that_stepped_aside_before_a_crash_comes_back(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 10)
    no_process = 2**22 + 1
    os.rename(folder, tmp_path / f".{folder.name}.{no_process}.marl-old")
    checkpoint(tmp_path, 20)
    assert read_part(folder, "trainer") == {"iteration": 3}


def test_a_folder_that_another_living_process_is_writing_stays(tmp_path: Path) -> None:
    busy = tmp_path / f".{checkpoint_name(10)}.{os.getpid()}.marl-tmp"
    busy.mkdir()
    checkpoint(tmp_path, 20)
    assert busy.exists()


# --- damage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["learners.json", "learners.safetensors"])
def test_a_flipped_byte_a_cut_and_a_missing_file_are_noticed(tmp_path: Path, file: str) -> None:
    content = (checkpoint(tmp_path, 20) / file).read_bytes()
    folder = checkpoint(tmp_path, 10)
    flipped = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    for damaged in (flipped, content[:-1], content + b" ", b""):
        (folder / file).write_bytes(damaged)
        with pytest.raises(CheckpointError, match=rf"{file} is damaged: its SHA-256 .* beside it: checkpoint_000020"):
            read_part(folder, "learners")
        assert read_part(folder, "trainer") == {"iteration": 3}
    (folder / file).unlink()
    with pytest.raises(CheckpointError, match=rf"{file} is damaged: it is missing"):
        read_part(folder, "learners")


@pytest.mark.parametrize(
    "plain",
    [
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"__array__": "/nowhere"}',
        b'{"__array__": []}',
        b'{"__tuple__": 3}',
        b'{"__map__": [1]}',
        b'{"__map__": [[[], 1]]}',
        b"1" * 5000,
    ],
)
def test_hostile_json_with_a_matching_hash_is_a_checkpoint_error(tmp_path: Path, plain: bytes) -> None:
    folder = checkpoint(tmp_path)
    forge(folder, "learners.json", plain)
    with pytest.raises(CheckpointError, match=r"learners.json is damaged"):
        read_part(folder, "learners")


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x02" + b"\x00" * 7 + b"{}" + b"x" * 9])
def test_hostile_arrays_with_a_matching_hash_are_a_checkpoint_error(tmp_path: Path, content: bytes) -> None:
    folder = checkpoint(tmp_path)
    forge(folder, "learners.safetensors", content)
    with pytest.raises(CheckpointError, match=r"learners"):
        read_part(folder, "learners")


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{}",
        '{"format": "1"}',
        '{"format": true, "files": {}, "removed": []}',
        '{"format": 1, "files": []}',
        '{"format": 1, "files": {"../../secret.json": "0"}, "removed": []}',
        '{"format": 1, "files": {}, "removed": ["/etc/passwd"]}',
    ],
)
def test_a_broken_manifest_is_damage_and_the_checkpoint_is_passed_over(tmp_path: Path, manifest: str) -> None:
    older, newer = checkpoint(tmp_path / "checkpoints", 10), checkpoint(tmp_path / "checkpoints", 20)
    (newer / MANIFEST).write_text(manifest)
    for touch in (lambda: read_part(newer, "trainer"), lambda: has_part(newer, "x"), lambda: strip(newer, [])):
        with pytest.raises(CheckpointError, match=r"manifest.json is damaged.* beside it: checkpoint_000010"):
            touch()
    assert find_checkpoint(tmp_path) == older


def test_a_newer_format_asks_for_an_update(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    (folder / MANIFEST).write_text('{"format": 3, "parts": {}}')
    with pytest.raises(CheckpointError, match=r"has format 3, which a newer marl wrote; .* Update marl"):
        read_part(folder, "trainer")


def test_missing_folders_manifests_and_parts_are_told_apart(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=r"part 'learner' is not in it.*Did you mean 'learners'"):
        read_part(folder, "learner")
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*Did you mean 'checkpoint_000010'"):
        read_part(tmp_path / "checkpoint_10", "learners")
    (folder / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match=r"it has no manifest.json"):
        read_part(folder, "learners")


# --- thinning out -------------------------------------------------------------------------------------------


def test_a_stripped_checkpoint_is_valid_and_says_what_became_of_its_parts(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    for _ in range(2):
        strip(folder, ["learners", "unheard_of"])
        assert same(read_part(folder, "learners"), PARTS["learners"])
        assert {file.name for file in folder.iterdir()} == {MANIFEST, "learners.json", "learners.safetensors"}
    with pytest.raises(CheckpointError, match=r"part 'replay' was removed to save space"):
        read_part(folder, "replay")
    assert find_checkpoint(folder) == folder


def test_a_crash_while_stripping_leaves_a_valid_checkpoint(tmp_path: Path, monkeypatch: Any) -> None:
    folder = checkpoint(tmp_path)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            strip(folder, ["learners"])
    assert not has_part(folder, "replay")
    assert same(read_part(folder, "learners"), PARTS["learners"])
    strip(folder, ["learners"])
    assert not (folder / "replay.safetensors").exists()


def test_only_the_newest_complete_ones_the_spare_one_and_best_are_kept(tmp_path: Path) -> None:
    for iteration in (5, 10, 20, 30, 40, 1_000_000):
        checkpoint(tmp_path, iteration)
    write_checkpoint(tmp_path / "best", PARTS)
    (tmp_path / checkpoint_name(40) / MANIFEST).unlink()
    keep_newest(tmp_path, 2, spare=tmp_path / checkpoint_name(10))
    names = ["best", *map(checkpoint_name, (10, 30, 40, 1_000_000))]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(names)
    keep_newest(tmp_path, 5, spare=None)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(names)


# --- finding ------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_found_by_its_folder_any_file_in_it_or_its_run(tmp_path: Path) -> None:
    checkpoint(tmp_path / "checkpoints", 999_999)
    folder = checkpoint(tmp_path / "checkpoints", 1_000_000)
    write_checkpoint(tmp_path / "checkpoints" / "best", PARTS)
    for path in (folder, folder / MANIFEST, folder / "learners.json", tmp_path, tmp_path / "checkpoints"):
        assert find_checkpoint(path) == folder
    assert iteration_of(folder) == 1_000_000
    assert find_checkpoint(tmp_path / "checkpoints" / "best").name == "best"


def test_a_checkpoint_with_a_lost_file_is_passed_over(tmp_path: Path) -> None:
    older, newer = checkpoint(tmp_path / "checkpoints", 10), checkpoint(tmp_path / "checkpoints", 20)
    (newer / "replay.safetensors").unlink()
    assert find_checkpoint(tmp_path) == older


def test_a_path_without_a_checkpoint_gets_a_hint(tmp_path: Path) -> None:
    run = tmp_path / "experiment" / "QMIX_run"
    folder = checkpoint(run / "checkpoints", 10)
    cases = {
        tmp_path / "nowhere" / "x": "not even the folder",
        folder.parent / "checkpoint_10": "Did you mean 'checkpoint_000010'",
        tmp_path / "experiment": "It holds runs, name one of them: QMIX_run",
        tmp_path: "Check the path",
    }
    for path, words in cases.items():
        with pytest.raises(CheckpointError, match=words):
            find_checkpoint(path)
    (folder / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match=r"none of its checkpoints is complete"):
        find_checkpoint(run)


def test_names_without_a_number_have_no_iteration() -> None:
    assert checkpoint_name(10) == "checkpoint_000010"
    with pytest.raises(CheckpointError, match=r"has no iteration"):
        iteration_of(Path("best"))
