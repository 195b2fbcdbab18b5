"""Arrays of an ``.npz`` file from anybody: sizes are looked at before anything is unpacked, and nothing is ever unpickled.

A zip archive of a few kilobytes can unfold to terabytes. The list of its members and the headers of the arrays say how
large they are; the two have to agree, and all together have to fit into the memory that is free.
"""

from __future__ import annotations

import math
import re
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from marl.data.task import Array
from marl.inputs import check_fits, open_input

COPIES = 2  # of every array in memory while files are read and joined
_MEMBER = re.compile(r"[\w.]+\.npy", re.ASCII)


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays by their names; what is no such file, or does not fit into memory, is an ``OSError`` or a ``ValueError``."""
    with open_input(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _check_members(path, members)
                return {info.filename.removesuffix(".npy"): _read_array(archive, info) for info in members}
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:  # RuntimeError: a password
            raise ValueError(f"not a readable archive of arrays ({error})") from error
        except Exception as error:
            if type(error).__module__ == "zlib":  # its error has no other parent
                raise ValueError(f"not a readable archive of arrays ({error})") from error
            raise


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    names = set()
    size = 0
    for info in members:
        # The names become columns: nothing with a path in it, and no second array that would hide the first.
        if not _MEMBER.fullmatch(info.filename):
            raise ValueError(f"it holds {info.filename!r}, which is no array of a recording")
        if info.filename in names:
            raise ValueError("it holds two arrays of one name")
        names.add(info.filename)
        size += info.file_size
    check_fits(path, COPIES * size)


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as member:
        shape, fortran_order, dtype = _read_header(member)
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds Python objects, which are never loaded")
        size = math.prod(shape) * dtype.itemsize
        if size != info.file_size - member.tell():
            raise ValueError(f"{info.filename} claims the shape {shape}, which its {info.file_size} bytes are not")
        content = bytearray(member.read())  # writable, as what comes from `bytes` would not be
    flat: Array = np.frombuffer(content, dtype)
    if fortran_order:
        return flat.reshape(shape, order="F")
    return flat.reshape(shape)


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(member)
    elif version == (2, 0):
        shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(member)
    else:
        raise ValueError(f"arrays of format {version} are not read; expected 1.0 or 2.0")
    return tuple(shape), bool(fortran_order), dtype
