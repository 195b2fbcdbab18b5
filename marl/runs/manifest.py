"""The manifest of a checkpoint: which files belong to it, and their hashes, by which they are verified.

A file counts only if ``manifest.json`` lists it, and only as long as it is what its hash says. The manifest carries a seal,
a hash of itself. All of this tells damage, not forgery: a stranger can write hashes as well, so names are checked too.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from marl.data.seal import check_seal, sealed
from marl.errors import CheckpointError, did_you_mean
from marl.inputs import open_input, read_json
from marl.storage import write_atomically

FORMAT = 2
UNSEALED = 1  # formats up to this one have no seal
MANIFEST = "manifest.json"
BEST = "best"
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


def numbered(checkpoints: Path) -> list[Path]:
    """The numbered checkpoint folders, oldest first, complete or not."""
    found = []
    for entry in checkpoints.glob("checkpoint_*"):
        if _NUMBERED.fullmatch(entry.name) and entry.is_dir():
            found.append(entry)
    # By the number and not by the name: beyond a million iterations names get longer.
    found.sort(key=iteration_of)
    return found


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Say in ``manifest.json`` which files count from now on; the file is replaced in one step."""
    content = {"format": FORMAT, "files": manifest.files, "removed": manifest.removed}
    write_atomically(folder / MANIFEST, json.dumps(sealed(content), indent=2) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint folder; ``CheckpointError`` where there is none, or none that can be trusted."""
    if not folder.is_dir():
        raise no_such_path(folder)
    file = folder / MANIFEST
    if not file.is_file():
        reason = f"it has no {MANIFEST}"
        raise CheckpointError(f"{folder} is not a complete checkpoint: {reason}. {elsewhere(folder)}", reason)
    content = read_json_file(file)
    version = _format_of(content, file)
    try:
        check_seal(content, required=version > UNSEALED)
    except ValueError as error:
        raise damaged_file(file, str(error)) from error
    files, removed = content.get("files"), content.get("removed")
    if not isinstance(files, dict) or not isinstance(removed, list):
        raise damaged_file(file, "it has no list of files")
    # These names are read, linked and deleted: one with a '/' in it would reach out of the folder.
    for name in [*files, *removed]:
        if not isinstance(name, str) or not _FILE.fullmatch(name) or name == MANIFEST:
            raise damaged_file(file, f"it lists {name!r}, which is no file of a checkpoint")
    return Manifest(files, removed)


def _format_of(content: Any, file: Path) -> int:
    """The version of the format in which a checkpoint was written; refused where this marl cannot read it."""
    version = None
    if isinstance(content, dict):
        version = content.get("format")
    if type(version) is not int or version < 1:
        raise damaged_file(file, f"its format is {version!r}, expected a number from 1 to {FORMAT}")
    if version > FORMAT:
        reason = f"has format {version}, which a newer marl wrote; this one reads formats up to {FORMAT}"
        raise CheckpointError(f"{file} {reason}. Update marl. {elsewhere(file.parent)}", f"{MANIFEST} {reason}")
    return version


def read_json_file(file: Path) -> Any:
    """The content of a JSON file of a checkpoint."""
    try:
        return read_json(file)
    except (OSError, ValueError) as error:
        raise damaged_file(file, f"it is not readable JSON ({error})") from error


def check_hash(file: Path, manifest: Manifest) -> None:
    """Verify one file: refuse it if it is missing or its SHA-256 is not that of the file that was written."""
    if not file.is_file():
        raise damaged_file(file, f"it is missing, but {MANIFEST} lists it")
    found, expected = sha256_of(file), manifest.files[file.name]
    # `expected` is a stranger's and may be anything, so it is only compared and told in part.
    if found != expected:
        raise damaged_file(file, f"its SHA-256 begins with {found[:12]}, {MANIFEST} says {str(expected)[:12]}")


def sha256_of(file: Path) -> str:
    """Read piece by piece: a replay may be larger than the memory."""
    with open_input(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def damaged_file(file: Path, found: str) -> CheckpointError:
    """The error about a file of a checkpoint, with what else the user could take."""
    return CheckpointError(f"{file} is damaged: {found}. {elsewhere(file.parent)}", f"{file.name} is damaged: {found}")


def no_such_path(path: Path) -> CheckpointError:
    """The error about a path at which nothing is."""
    if not path.parent.is_dir():
        return CheckpointError(
            f"there is no checkpoint {path}: not even the folder {path.parent} exists. Check the path."
        )
    names = []
    for entry in sorted(path.parent.iterdir()):
        if entry.is_dir() and not entry.name.startswith("."):
            names.append(entry.name)
    return CheckpointError(f"there is no checkpoint {path}.{did_you_mean(path.name, names)} {elsewhere(path)}")


def elsewhere(folder: Path) -> str:
    """What else the user could take: the other checkpoints beside this folder."""
    names = []
    for entry in [*numbered(folder.parent), folder.parent / BEST]:
        if entry != folder and (entry / MANIFEST).is_file():
            names.append(entry.name)
    if not names:
        return "There is no other checkpoint beside it: start the run anew or restore the files from a copy."
    return f"Use another checkpoint of the run; beside it: {', '.join(names)}."
