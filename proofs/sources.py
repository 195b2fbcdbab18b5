"""Which source files decide a result: those of the modules of marl that its run has loaded, and no others.

A result keeps ``{module: hash of its file}``. While each of these files still has that hash, nothing has to be replayed; a new
algorithm that a run never loads changes none of them.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TypeAlias

import marl
from proofs.declaration import Places, Proof

Sources: TypeAlias = dict[str, str]
"""Modules, by their dotted names, to the first digits of the hash of their files."""
DIGITS = 16


def package_sources(package: Path | None = None) -> Sources:
    """Every module of the installed package, loaded or not."""
    folder = package or Path(marl.__file__).parent
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]
    return found


def all_sources(proof: Proof, places: Places, package: Sources | None = None) -> Sources:
    """Every module of the package, and the one that prepares the proof."""
    found = package_sources() if package is None else dict(package)
    if proof.prepare is not None:
        module, _, _ = proof.prepare.partition(":")
        found[module] = hashlib.sha256(places.recipe(proof).encode()).hexdigest()[:DIGITS]
    return found


def loaded(package: Sources) -> Sources:
    """Those that this process has imported so far."""
    return {name: digits for name, digits in package.items() if name in sys.modules}


def changed(measured: Sources, package: Sources) -> list[str]:
    """Modules that a result was measured with and that are others now, or gone."""
    return [name for name, digits in measured.items() if package.get(name) != digits]
