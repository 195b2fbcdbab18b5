"""Checkpoints without pickle: JSON and safetensors files, vouched for by a manifest of hashes.

A checkpoint is a folder of *parts*. A part is any nested state that ``marl.data.tree`` can pack: its
plain values stand in ``NAME.json`` (Python's dialect: ``NaN`` and ``Infinity`` are numbers), its arrays
in ``NAME.safetensors``. A part counts only if ``manifest.json`` lists it. The folder is written under a
hidden name and renamed when it is complete, so a crash leaves nothing that looks like a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.numpy
from safetensors import SafetensorError

from marl.data.seal import check_seal, sealed
from marl.data.task import Array
from marl.data.tree import pack, unpack
from marl.errors import CheckpointError, CheckpointWriteError, did_you_mean
from marl.inputs import check_fits, open_input, read_json, real_path
from marl.runs.atomic import clear_leftovers, put_in_place, remove, sync, temporary_beside, write_atomically
from marl.runs.damage import tell
from marl.runs.directories import default_results, named_run, runs_called
from marl.runs.restoring import strange_part

log = logging.getLogger(__name__)
FORMAT = 2
UNSEALED = 1  # formats up to this one have no seal
MANIFEST = "manifest.json"
BEST = "best"
TO_PLAY = ("run", "policies", "population")  # parts that are enough to play
_PART = re.compile(r"\w+", re.ASCII)
_FILE = re.compile(r"\w+\.(json|safetensors)", re.ASCII)
_NUMBERED = re.compile(r"checkpoint_(\d{6,})", re.ASCII)


class Manifest(NamedTuple):
    """Which files belong to a checkpoint (name -> SHA-256), and which ones ``strip`` has taken away."""

    files: dict[str, str]
    removed: list[str]


def checkpoint_name(iteration: int) -> str:
    """The folder name of an iteration's checkpoint: ``checkpoint_000010``."""
    return f"checkpoint_{iteration:06d}"


def iteration_of(folder: Path) -> int:
    """The iteration in the name of a numbered checkpoint; names such as ``best`` have none."""
    match = _NUMBERED.fullmatch(folder.name)
    if match is None:
        raise CheckpointError(
            f"{folder} has no iteration in its name (as {checkpoint_name(10)} has). Choose a numbered checkpoint."
        )
    return int(match[1])


def write_checkpoint(folder: Path, parts: Mapping[str, object]) -> Path:
    """Write the parts as one checkpoint and return its folder; after a failure nothing has changed.

    An older checkpoint of the same name is replaced in one step where the file system can exchange two
    folders (Linux), else by two renames. A folder that holds anything but a checkpoint is refused.
    """

    def fill(temporary: Path) -> None:
        for part, tree in parts.items():
            _write_part(temporary, part, tree)
        _write_manifest(temporary, Manifest({file.name: _sha256(file) for file in sorted(temporary.iterdir())}, []))

    return _put(folder, fill)


def copy_checkpoint(source: Path, folder: Path) -> Path:
    """The same checkpoint under another name beside it; takes no space where the file system has hard links.

    Shared files are safe: no file of a checkpoint is ever written to, parts are only removed and manifests replaced.
    """
    files = [*_read_manifest(source).files, MANIFEST]

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
    """The part as it was written; ``CheckpointError`` if a file is missing or is not what the hash says."""
    manifest = _read_manifest(folder)
    if f"{part}.json" not in manifest.files:
        raise _no_such_part(folder, part, manifest)
    plain_file, array_file = folder / f"{part}.json", folder / f"{part}.safetensors"
    _check_hash(plain_file, manifest)
    plain = _read_json(plain_file)
    arrays: dict[str, Array] = {}
    if array_file.name in manifest.files:
        _check_hash(array_file, manifest)
        arrays = _read_arrays(array_file)
    try:
        tree = unpack(plain, arrays)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(plain_file, f"it is not a packed state ({type(error).__name__}: {error})") from error
    strange = strange_part(part, tree)
    if strange:
        raise _damaged(plain_file, strange)
    return tree


def has_part(folder: Path, part: str) -> bool:
    """Whether the checkpoint's manifest lists the part; a folder without a valid manifest is an error."""
    return f"{part}.json" in _read_manifest(folder).files


def same_state(one: Path, other: Path) -> bool:
    """Whether two checkpoints were written at the same moment of a run; either may hold fewer parts."""
    try:
        mine, theirs = _read_manifest(one).files, _read_manifest(other).files
    except CheckpointError:
        return False
    return all(theirs[file] == digest for file, digest in mine.items() if file in theirs)


def strip(folder: Path, keep: Sequence[str]) -> None:
    """Remove all parts but those in ``keep``; the checkpoint is valid at every moment."""
    manifest = _read_manifest(folder)
    kept = {file: digest for file, digest in manifest.files.items() if file.rpartition(".")[0] in set(keep)}
    removed = sorted({*manifest.removed, *(manifest.files.keys() - kept.keys())})
    _write_manifest(folder, Manifest(kept, removed))
    for file in removed:
        (folder / file).unlink(missing_ok=True)


def keep_newest(checkpoints: Path, count: int, spare: Path | None) -> None:
    """Delete all numbered checkpoints but ``spare`` and the newest ``count`` (at least 1) complete ones."""
    folders = numbered(checkpoints)
    newest = [folder for folder in folders if _is_complete(folder)][-max(count, 1) :]
    if len(newest) < max(count, 1):
        return
    for folder in folders[: folders.index(newest[0])]:
        if spare is None or real_path(folder) != real_path(spare):
            doomed = temporary_beside(folder)  # renamed first: a half-deleted one must not look like a checkpoint
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
    path = meant_by(path)
    folder = path.parent if path.is_file() else path
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
    """What is wrong with the checkpoint's files, or with those of the parts; empty if nothing is."""
    try:
        manifest = _read_manifest(folder)
        for file in manifest.files:
            if parts is None or file.rpartition(".")[0] in parts:
                _check_hash(folder / file, manifest)
    except CheckpointError as error:
        return error.reason
    except OSError as error:
        return f"it cannot be read ({error})"
    return ""


def meant_by(path: Path) -> Path:
    """The path itself; one that does not exist here is looked for among the results.

    There it is ``EXPERIMENT/NAME``, or the name of a run (see ``runs.named_run``), alone or with a path inside of the run
    behind it: ``NAME/checkpoints/best``.
    """
    path = path.expanduser()
    if path.exists():
        return path
    if len(path.parts) == 1 and not path.name.startswith("checkpoint_"):
        return named_run(path.name)
    there = default_results() / path
    if there.exists():
        return there
    name, *inside = path.parts
    if not inside or not runs_called(name):
        raise _no_such_path(path)
    found = named_run(name).joinpath(*inside)
    if not found.exists():
        raise _no_such_path(there if there.parent.is_dir() else found)
    return found


def _write_part(folder: Path, part: str, tree: object) -> None:
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
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise CheckpointError(
                f"part {part!r} cannot be stored: the array at {where} has dtype {array.dtype}. A checkpoint "
                "takes bool, integer and float arrays of at most 64 bits: convert it in get_state()."
            )
    write_atomically(folder / f"{part}.json", text)
    if arrays:
        safetensors.numpy.save_file(arrays, folder / f"{part}.safetensors")
        sync(folder / f"{part}.safetensors")


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    content = {"format": FORMAT, "files": manifest.files, "removed": manifest.removed}
    write_atomically(folder / MANIFEST, json.dumps(sealed(content), indent=2) + "\n")


def _read_manifest(folder: Path) -> Manifest:
    if not folder.is_dir():
        raise _no_such_path(folder)
    file = folder / MANIFEST
    if not file.is_file():
        reason = f"it has no {MANIFEST}"
        raise CheckpointError(f"{folder} is not a complete checkpoint: {reason}. {_elsewhere(folder)}", reason)
    content = _read_json(file)
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is not int or version < 1:
        raise _damaged(file, f"its format is {version!r}, expected a number from 1 to {FORMAT}")
    if version > FORMAT:
        reason = f"has format {version}, which a newer marl wrote; this one reads formats up to {FORMAT}"
        raise CheckpointError(f"{file} {reason}. Update marl. {_elsewhere(folder)}", f"{MANIFEST} {reason}")
    try:
        check_seal(content, required=version > UNSEALED)
    except ValueError as error:
        raise _damaged(file, str(error)) from error
    files, removed = content.get("files"), content.get("removed")
    if not isinstance(files, dict) or not isinstance(removed, list):
        raise _damaged(file, "it has no list of files")
    for name in [*files, *removed]:
        if not isinstance(name, str) or not _FILE.fullmatch(name) or name == MANIFEST:
            raise _damaged(file, f"it lists {name!r}, which is no file of a checkpoint")
    return Manifest(files, removed)


def _read_json(file: Path) -> Any:
    try:
        return read_json(file)
    except (OSError, ValueError) as error:
        raise _damaged(file, f"it is not readable JSON ({error})") from error


def _read_arrays(file: Path) -> dict[str, Array]:
    try:
        check_fits(file, file.stat().st_size)
        arrays: dict[str, Array] = safetensors.numpy.load_file(file)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise _damaged(file, f"it is not a readable safetensors file ({error})") from error
    return arrays


def _check_hash(file: Path, manifest: Manifest) -> None:
    if not file.is_file():
        raise _damaged(file, f"it is missing, but {MANIFEST} lists it")
    found, expected = _sha256(file), manifest.files[file.name]
    if found != expected:
        raise _damaged(file, f"its SHA-256 begins with {found[:12]}, {MANIFEST} says {str(expected)[:12]}")


def _sha256(file: Path) -> str:
    with open_input(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_complete(folder: Path) -> bool:
    try:
        return all((folder / file).is_file() for file in _read_manifest(folder).files)
    except CheckpointError:
        return False


def numbered(checkpoints: Path) -> list[Path]:
    """The numbered checkpoint folders, oldest first, complete or not."""
    found = [entry for entry in checkpoints.glob("checkpoint_*") if _NUMBERED.fullmatch(entry.name)]
    return sorted((entry for entry in found if entry.is_dir()), key=iteration_of)


def _elsewhere(folder: Path) -> str:
    """What else the user could take: the other checkpoints beside this folder."""
    beside = [*numbered(folder.parent), folder.parent / BEST]
    names = [entry.name for entry in beside if entry != folder and (entry / MANIFEST).is_file()]
    if not names:
        return "There is no other checkpoint beside it: start the run anew or restore the files from a copy."
    return f"Use another checkpoint of the run; beside it: {', '.join(names)}."


def _damaged(file: Path, found: str) -> CheckpointError:
    return CheckpointError(f"{file} is damaged: {found}. {_elsewhere(file.parent)}", f"{file.name} is damaged: {found}")


def _no_such_part(folder: Path, part: str, manifest: Manifest) -> CheckpointError:
    parts = sorted(file.removesuffix(".json") for file in manifest.files if file.endswith(".json"))
    reason = "was removed to save space" if f"{part}.json" in manifest.removed else "is not in it"
    hint = f"Its parts: {', '.join(parts) or 'none'}.{did_you_mean(part, parts)} {_elsewhere(folder)}"
    return CheckpointError(f"checkpoint {folder}: part {part!r} {reason}. {hint}")


def _no_such_path(path: Path) -> CheckpointError:
    if not path.parent.is_dir():
        return CheckpointError(
            f"there is no checkpoint {path}: not even the folder {path.parent} exists. Check the path."
        )
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_dir() and entry.name[0] != ".")
    return CheckpointError(f"there is no checkpoint {path}.{did_you_mean(path.name, names)} {_elsewhere(path)}")


def _none_in(folder: Path, damaged: Sequence[tuple[Path, str]]) -> CheckpointError:
    best = next((p for p in (folder / "checkpoints" / BEST, folder / BEST) if (p / MANIFEST).is_file()), None)
    if damaged:
        reasons = "; ".join(f"{entry.name}: {fault}" for entry, fault in damaged)
        remedy = f"Try {best}, or restore" if best is not None else "Start the run anew or restore"
        return CheckpointError(
            f"{folder}: none of its checkpoints is complete ({reasons}). {remedy} the files from a copy."
        )
    if best is not None:
        return CheckpointError(f"{folder} has no numbered checkpoint yet, only {BEST}. Name it: {best}.")
    runs = sorted(entry.parent.name for entry in folder.glob("*/checkpoints"))
    remedy = f"It holds runs, name one of them: {', '.join(runs)}." if runs else "Check the path."
    return CheckpointError(f"{folder} is neither a checkpoint (no {MANIFEST}) nor a run with checkpoints. {remedy}")


def _refuse_foreign(folder: Path) -> None:
    """Whatever is replaced gets deleted, so only a checkpoint or an empty folder may be replaced."""
    entries = list(folder.iterdir()) if folder.is_dir() else []
    known = [entry for entry in entries if entry.is_file() and entry.suffix in (".json", ".safetensors", ".tmp")]
    is_checkpoint = known == entries and (folder / MANIFEST).is_file()
    if (folder.exists() and not folder.is_dir()) or (entries and not is_checkpoint):
        raise CheckpointError(
            f"{folder} exists and is not a checkpoint; writing there would delete it. Choose a new name, "
            f"for instance {folder / checkpoint_name(1)}."
        )
