"""What a proof needs before its run: a directory that a function fills, such as recordings to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from marl.errors import ConfigError
from marl.registry import load_object
from marl.trust import Sort
from proofs.declaration import Proof


@contextmanager
def prepared(proof: Proof) -> Iterator[Path | None]:
    """The filled directory, for as long as it is needed; None where nothing has to be prepared."""
    if proof.prepare is None:
        yield None
        return
    prepare = load_object(proof.prepare, Sort(f"proof {proof.name!r}, prepare", creators=True))
    if not callable(prepare):
        raise ConfigError(f"proof {proof.name!r}: prepare {proof.prepare!r} is no function.")
    with TemporaryDirectory() as folder:
        prepare(folder)
        yield Path(folder)
