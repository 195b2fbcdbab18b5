"""Checkpoints without pickle: JSON and safetensors files, vouched for by a manifest of hashes.

A checkpoint is a folder of *parts*. A part is any nested state that ``marl.data.tree`` can pack: its
plain values stand in ``NAME.json`` (Python's dialect: ``NaN`` and ``Infinity`` are numbers), its arrays
in ``NAME.safetensors``. A part counts only if ``manifest.json`` lists it. The folder is written under a
hidden name and renamed when it is complete, so a crash leaves nothing that looks like a checkpoint.

Nothing is loaded that was not verified: ``find_checkpoint`` passes over checkpoints of a run that are damaged, ``read_part``
compares each file with its hash before it parses it, and then looks at the outline of what it holds (``restoring.py``).
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError

from marl.data.task import Array
from marl.data.tree import pack, unpack
from marl.errors import CheckpointError, CheckpointWriteError, did_you_mean
from marl.inputs import check_fits, real_path
from marl.runs.atomic import clear_leftovers, put_in_place, remove, sync, temporary_beside, write_atomically
from marl.runs.damage import tell
from marl.runs.directories import default_results, named_run, runs_called
from marl.runs.manifest import (
    BEST,
    MANIFEST,
    Manifest,
    check_hash,
    checkpoint_name,
    damaged_file,
    elsewhere,
    no_such_path,
    numbered,
    read_json_file,
    read_manifest,
    sha256_of,
    write_manifest,
)
from marl.runs.restoring import strange_part

log = logging.getLogger(__name__)
TO_PLAY = ("run", "policies", "population")  # parts that are enough to play
_PART = re.compile(r"\w+", re.ASCII)


def write_checkpoint(folder: Path, parts: Mapping[str, object]) -> Path:
    """Write the parts as one checkpoint and return its folder; after a failure nothing has changed.

    An older checkpoint of the same name is replaced in one step where the file system can exchange two
    folders (Linux), else by two renames. A folder that holds anything but a checkpoint is refused.
    """

    def fill(temporary: Path) -> None:
        for part, tree in parts.items():
            _write_part(temporary, part, tree)
        # The manifest comes last: what it lists is there, and complete.
        files = sorted(temporary.iterdir())
        hashes = {file.name: sha256_of(file) for file in files}
        write_manifest(temporary, Manifest(hashes, removed=[]))

    return _put(folder, fill)


def copy_checkpoint(source: Path, folder: Path) -> Path:
    """The same checkpoint under another name beside it; takes no space where the file system has hard links.

    Shared files are safe: no file of a checkpoint is ever written to, parts are only removed and manifests replaced.
    """
    files = [*read_manifest(source).files, MANIFEST]

    def fill(temporary: Path) -> None:
        for file in files:
            try:
                os.link(source / file, temporary / file)
            except OSError:  # no hard links here, or too many of this file
                shutil.copyfile(source / file, temporary / file)
                sync(temporary / file)

    return _put(folder, fill)


def _put(folder: Path, fill: Callable[[Path], None]) -> Path:
    _refuse_foreign(folder)
    temporary = temporary_beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder.parent)
        temporary.mkdir()
        fill(temporary)
        put_in_place(temporary, folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointWriteError(
            f"could not write the checkpoint {folder}: {error}. Older checkpoints are untouched; check free "
            "space and permissions there, or choose another place."
        ) from error
    finally:
        remove(temporary)  # what a failure left, or the older checkpoint after an exchange
    log.info("wrote checkpoint %s", folder)
    return folder


def read_part(folder: Path, part: str) -> Any:
    """The part as it was written, verified; ``CheckpointError`` if a file is missing or is not what the hash says."""
    manifest = read_manifest(folder)
    plain_file, array_file = folder / f"{part}.json", folder / f"{part}.safetensors"
    if plain_file.name not in manifest.files:
        raise _no_such_part(folder, part, manifest)
    # The hash before the content: damaged bytes are not parsed at all.
    check_hash(plain_file, manifest)
    plain = read_json_file(plain_file)
    arrays: dict[str, Array] = {}
    if array_file.name in manifest.files:
        check_hash(array_file, manifest)
        arrays = _read_arrays(array_file)
    try:
        tree = unpack(plain, arrays)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged_file(plain_file, f"it is not a packed state ({type(error).__name__}: {error})") from error
    strange = strange_part(part, tree)
    if strange:
        raise damaged_file(plain_file, strange)
    return tree


def has_part(folder: Path, part: str) -> bool:
    """Whether the checkpoint's manifest lists the part; a folder without a valid manifest is an error."""
    manifest = read_manifest(folder)
    return f"{part}.json" in manifest.files


def same_state(one: Path, other: Path) -> bool:
    """Whether two checkpoints were written at the same moment of a run; either may hold fewer parts."""
    try:
        mine, theirs = read_manifest(one).files, read_manifest(other).files
    except CheckpointError:
        return False
    # Counters and clocks are among the parts, so two moments never have the same hashes.
    in_both = mine.keys() & theirs.keys()
    return all(mine[file] == theirs[file] for file in in_both)


def strip(folder: Path, keep: Sequence[str]) -> None:
    """Remove all parts but those in ``keep``; the checkpoint is valid at every moment."""
    manifest = read_manifest(folder)
    kept = {}
    removed = set(manifest.removed)
    for file, digest in manifest.files.items():
        part = Path(file).stem
        if part in keep:
            kept[file] = digest
        else:
            removed.add(file)
    # First the manifest, then the files: after a kill in between, nothing that is listed is missing.
    write_manifest(folder, Manifest(kept, sorted(removed)))
    for file in sorted(removed):
        (folder / file).unlink(missing_ok=True)


def keep_newest(checkpoints: Path, count: int, spare: Path | None) -> None:
    """Delete all numbered checkpoints but ``spare`` and the newest ``count`` (at least 1) complete ones."""
    count = max(count, 1)
    folders = numbered(checkpoints)
    complete = [folder for folder in folders if _is_complete(folder)]
    if len(complete) < count:
        return
    oldest_kept = folders.index(complete[-count])
    for folder in folders[:oldest_kept]:
        is_spared = spare is not None and real_path(folder) == real_path(spare)
        if is_spared:
            continue
        # Renamed first: a half-deleted one must not look like a checkpoint.
        doomed = temporary_beside(folder)
        os.rename(folder, doomed)
        remove(doomed)


def find_checkpoint(path: Path, parts: Collection[str] | None = None) -> Path:
    """The checkpoint folder that a user means.

    ``path`` is a checkpoint folder, any file in one, or a run directory (or its ``checkpoints`` folder); of a run the newest
    undamaged numbered checkpoint is taken, and damaged ones that are newer are named (see ``damage``). Every file is
    compared with its hash, or only those of ``parts``. What is no path may begin with the name of a run among the
    results, see ``meant_by``.
    """
    return choose_checkpoint(path, lambda folder: damage_of(folder, parts))


def choose_checkpoint(path: Path, fault_of: Callable[[Path], str]) -> Path:
    """The checkpoint that ``path`` names, or the newest one of a run in which ``fault_of`` finds no fault."""
    folder = meant_by(path)
    if folder.is_file():
        if not (folder.parent / MANIFEST).is_file():
            raise CheckpointError(f"{folder} is a file, not a checkpoint or a run. Expected the folder of one of them.")
        folder = folder.parent
    # One that is named is taken as it is: whoever reads it hears of its faults.
    if (folder / MANIFEST).is_file():
        return folder
    damaged: list[tuple[Path, str]] = []
    for candidate in reversed(numbered(folder / "checkpoints") or numbered(folder)):
        fault = fault_of(candidate)
        if not fault:
            tell(damaged, candidate)
            return candidate
        damaged.append((candidate, fault))
    raise _none_in(folder, damaged)


def damage_of(folder: Path, parts: Collection[str] | None = None) -> str:
    """Verify the checkpoint's files, or those of the parts, by their hashes: what is wrong with them; empty if nothing is."""
    try:
        manifest = read_manifest(folder)
        for file in manifest.files:
            part = Path(file).stem
            if parts is None or part in parts:
                check_hash(folder / file, manifest)
    except CheckpointError as error:
        return error.reason
    except OSError as error:
        return f"it cannot be read ({error})"
    return ""


def meant_by(path: Path) -> Path:
    """The path itself; one that does not exist here is looked for among the results.

    There it is ``EXPERIMENT/NAME``, or the name of a run (``directories.named_run``), alone or with a path inside of the run
    behind it: ``NAME/checkpoints/best``.
    """
    path = path.expanduser()
    if path.exists():
        return path
    name, *inside = path.parts
    if not inside and not name.startswith("checkpoint_"):
        return named_run(name)
    among_results = default_results() / path
    if among_results.exists():
        return among_results
    if not inside or not runs_called(name):
        raise no_such_path(path)
    found = named_run(name).joinpath(*inside)
    if found.exists():
        return found
    # Of two places where it is not, the one whose folder exists tells the user more: it can name what lies there.
    if among_results.parent.is_dir():
        raise no_such_path(among_results)
    raise no_such_path(found)


def _write_part(folder: Path, part: str, tree: object) -> None:
    # The name of a part becomes the name of a file, so it must not lead elsewhere.
    if not _PART.fullmatch(part) or f"{part}.json" == MANIFEST:
        raise CheckpointError(
            f"{part!r} cannot name a part of a checkpoint. Use letters, digits and '_'; 'manifest' is taken."
        )
    try:
        plain, arrays = pack(tree)
        text = json.dumps(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"part {part!r} cannot be stored: {error}") from error
    for where, array in arrays.items():
        # numpy's letters: bool, whole numbers with and without a sign, fractions. Objects would need pickle.
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise CheckpointError(
                f"part {part!r} cannot be stored: the array at {where} has dtype {array.dtype}. A checkpoint "
                "takes bool, integer and float arrays of at most 64 bits: convert it in get_state()."
            )
    write_atomically(folder / f"{part}.json", text)
    if arrays:
        file = folder / f"{part}.safetensors"
        safetensors.numpy.save_file(arrays, file)
        sync(file)


def _read_arrays(file: Path) -> dict[str, Array]:
    try:
        check_fits(file, file.stat().st_size)
        arrays: dict[str, Array] = safetensors.numpy.load_file(file)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise damaged_file(file, f"it is not a readable safetensors file ({error})") from error
    return arrays


def _is_complete(folder: Path) -> bool:
    try:
        return all((folder / file).is_file() for file in read_manifest(folder).files)
    except CheckpointError:
        return False


def _no_such_part(folder: Path, part: str, manifest: Manifest) -> CheckpointError:
    parts: list[str] = []
    for file in sorted(manifest.files):
        if file.endswith(".json"):  # every part has one; its arrays may have a file beside it
            parts.append(file.removesuffix(".json"))
    listed = ", ".join(parts) or "none"
    reason = "is not in it"
    if f"{part}.json" in manifest.removed:
        reason = "was removed to save space"
    hint = f"Its parts: {listed}.{did_you_mean(part, parts)} {elsewhere(folder)}"
    return CheckpointError(f"checkpoint {folder}: part {part!r} {reason}. {hint}")


def _none_in(folder: Path, damaged: Sequence[tuple[Path, str]]) -> CheckpointError:
    best = None
    for place in (folder / BEST, folder / "checkpoints" / BEST):
        if (place / MANIFEST).is_file():
            best = place
    if damaged:
        reasons = "; ".join(f"{entry.name}: {fault}" for entry, fault in damaged)
        remedy = "Start the run anew or restore"
        if best is not None:
            remedy = f"Try {best}, or restore"
        return CheckpointError(
            f"{folder}: none of its checkpoints is complete ({reasons}). {remedy} the files from a copy."
        )
    if best is not None:
        return CheckpointError(f"{folder} has no numbered checkpoint yet, only {BEST}. Name it: {best}.")
    runs = sorted(entry.parent.name for entry in folder.glob("*/checkpoints"))
    remedy = "Check the path."
    if runs:
        remedy = f"It holds runs, name one of them: {', '.join(runs)}."
    return CheckpointError(f"{folder} is neither a checkpoint (no {MANIFEST}) nor a run with checkpoints. {remedy}")


def _refuse_foreign(folder: Path) -> None:
    """Whatever is replaced gets deleted, so only a checkpoint or an empty folder may be replaced."""
    if not folder.exists() or _is_empty_or_ours(folder):
        return
    raise CheckpointError(
        f"{folder} exists and is not a checkpoint; writing there would delete it. Choose a new name, "
        f"for instance {folder / checkpoint_name(1)}."
    )


def _is_empty_or_ours(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    entries = list(folder.iterdir())
    if not entries:
        return True
    for entry in entries:
        if not entry.is_file() or entry.suffix not in (".json", ".safetensors", ".tmp"):
            return False
    return (folder / MANIFEST).is_file()
