"""Ways in which a file breaks: bits, ends, places, kinds."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Damage: TypeAlias = Callable[[Path, random.Random], None]


def flip_a_bit(file: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def flip_many_bits(file: Path, draw: random.Random) -> None:
    for _ in range(draw.randint(2, 40)):
        flip_a_bit(file, draw)


def truncate(file: Path, draw: random.Random) -> None:
    os.truncate(file, draw.randrange(file.stat().st_size))


def empty(file: Path, _: random.Random) -> None:
    file.write_bytes(b"")


def zero_a_block(file: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    first = draw.randrange(len(content))
    last = min(len(content), first + draw.choice([1, 16, 512, 4096]))
    content[first:last] = bytes(last - first)
    file.write_bytes(content)


def extend(file: Path, draw: random.Random) -> None:
    file.write_bytes(file.read_bytes() + draw.randbytes(draw.choice([1, 8, 1000])))


def repeat(file: Path, _: random.Random) -> None:
    file.write_bytes(file.read_bytes() * 2)


def noise(file: Path, draw: random.Random) -> None:
    file.write_bytes(draw.randbytes(max(1, file.stat().st_size)))


def delete(file: Path, _: random.Random) -> None:
    file.unlink()


def swap(file: Path, draw: random.Random) -> None:
    """With a file of the same ending elsewhere in the folder, if there is one."""
    inside = next(parent for parent in file.parents if parent.name == "inside")
    others = [o for o in sorted(inside.rglob(f"*{file.suffix}")) if o.is_file() and o.read_bytes() != file.read_bytes()]
    if not others:
        return noise(file, draw)
    other = draw.choice(others)
    mine, theirs = file.read_bytes(), other.read_bytes()
    file.write_bytes(theirs)
    other.write_bytes(mine)
    return None


def become_a_folder(file: Path, _: random.Random) -> None:
    file.unlink()
    file.mkdir()


def become_a_pipe(file: Path, _: random.Random) -> None:
    """Whoever opens it waits for ever."""
    file.unlink()
    os.mkfifo(file)


def become_a_broken_link(file: Path, draw: random.Random) -> None:
    file.unlink()
    file.symlink_to(draw.choice(["nowhere", file.name, "/dev/null", "/dev/zero"]))


DAMAGES: dict[str, Damage] = {
    "bit flipped": flip_a_bit,
    "bits flipped": flip_many_bits,
    "truncated": truncate,
    "empty": empty,
    "zeroed": zero_a_block,
    "extended": extend,
    "repeated": repeat,
    "noise": noise,
    "deleted": delete,
    "swapped": swap,
    "a folder": become_a_folder,
    "a pipe": become_a_pipe,
    "a broken link": become_a_broken_link,
}
