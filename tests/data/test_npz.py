"""Recordings from anybody: sizes are checked before anything is unpacked."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.errors import DataError
from marl.inputs import TooLargeError
from marl.memory import free_memory
from marl.offline.npz import read_npz
from marl.offline.trajectories import read_episodes


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(text, {"descr": descr, "fortran_order": False, "shape": shape})
    return text.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def with_claimed_size(path: Path, size: int) -> Path:
    """The same archive, whose list of members says that the last one has so many bytes."""
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = min(size, 2**32 - 2).to_bytes(4, "little")
    path.write_bytes(content)
    return path


def peak_of(call: Any) -> int:
    tracemalloc.start()
    try:
        call()
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def test_all_that_numpy_writes_comes_back_and_can_be_written_to(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "lengths": np.arange(3), "obs.0": np.ones((2, 0, 4), np.float32), "flag": np.array([True, False]),
        "across": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "one": np.array(7, np.int16),
    }  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "it.npz", **arrays)
        found = read_npz(tmp_path / "it.npz")
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array, strict=True)
            assert found[name].flags.writeable


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    zeros = 8 * 10**7
    bomb = archive(tmp_path / "bomb.npz", lengths=header((zeros // 8,)) + bytes(zeros))
    assert bomb.stat().st_size < zeros / 500
    with_claimed_size(bomb, 2**32 - 2)  # 4 GB
    several = {f"a{i}": header((1,)) + bytes(8) for i in range(3)}
    many = archive(tmp_path / "many.npz", **several)
    needed = 2 * (2**32 - 2)
    assert read_npz(many).keys() == several.keys()
    if needed > free_memory():
        with pytest.raises(TooLargeError, match="would take"):
            read_npz(bomb)
    else:
        with pytest.raises(ValueError, match="claims the shape"):
            read_npz(bomb)


def test_what_does_not_fit_into_memory_is_told_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive(tmp_path / "it.npz", lengths=header((10_000_000,)) + bytes(80_000_000))
    monkeypatch.setattr("marl.inputs.free_memory", lambda: 100_000_000)

    def refused() -> None:
        with pytest.raises(DataError, match=r"would take 160.0 MB of memory, and 100.0 MB are free"):
            read_episodes(file)

    assert peak_of(refused) < 5_000_000


@pytest.mark.parametrize("shape", [(10**12,), (10**9, 10**9), (2**62, 4), (-1,)])
def test_a_header_that_claims_more_than_there_is_takes_no_memory(shape: tuple[int, ...], tmp_path: Path) -> None:
    file = archive(tmp_path / "it.npz", lengths=header(shape) + bytes(80))

    def refused() -> None:
        with pytest.raises(DataError, match="claims the shape"):
            read_episodes(file)

    assert peak_of(refused) < 5_000_000


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "it.npz", lengths=np.array([{"a": 1}], object))
    with pytest.raises(DataError, match="Python objects, which are never loaded"):
        read_episodes(tmp_path / "it.npz")


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "a b", "folder/evil"])
def test_names_that_are_paths_are_refused(name: str, tmp_path: Path) -> None:
    file = archive(tmp_path / "it.npz", **{name: header((1,)) + bytes(8)})
    with pytest.raises(DataError, match="no array of a recording"):
        read_episodes(file)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("damage", ["twice", "text", "cut", "bits", "password", "2d", "negative"])
def test_damaged_archives_are_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "it.npz"
    lengths = {"2d": np.ones((2, 2), np.int64), "negative": np.array([-3, 5])}.get(damage, np.array([2, 3]))
    np.savez_compressed(path, lengths=lengths, rewards=np.ones((5, 1)))
    content = bytearray(path.read_bytes())
    if damage == "twice":
        with zipfile.ZipFile(path, "a") as file:
            file.writestr("lengths.npy", header((1,)) + bytes(8))
        content = bytearray(path.read_bytes())
    elif damage == "text":
        content = bytearray(b"not an archive")
    elif damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "bits":
        content[60:90] = bytes(30)
    elif damage == "password":
        for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.index(mark) + offset] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError):
        read_episodes(path)
