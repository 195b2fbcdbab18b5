"""What goes to others: exported policies and a model card, in one folder; and the same from others, verified.

A bundle holds texts, JSON and safetensors. Nothing in it runs, and nothing else is taken out of one.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from marl.errors import ConfigError, HubError
from marl.inputs import read_bytes
from marl.play.export import ABOUT, WEIGHTS, exported_folders, read_exported
from marl.play.write_export import export_checkpoint
from marl.registry import only_modules
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.files import RunFiles
from marl.runs.saved import directory_of, stored_scenario
from marl.sharing.card import CARD, Facts, model_card
from marl.storage import make_folder, storing, write_atomically

LARGEST_CARD = 1_000_000  # bytes
# One folder deep at most, and no folder called `..`; names are those that `marl export` gives folders.
_PART = re.compile(rf"(?:(?!\.{{1,2}}/)[A-Za-z0-9_.~%-]+/)?(?:{re.escape(ABOUT)}|{re.escape(WEIGHTS)})")
_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")


def check_repo(repo: str) -> str:
    """The name of a repository: ``name``, or ``owner/name``."""
    if not _REPO.fullmatch(repo) or ".." in repo:
        raise ConfigError(f"{repo!r} is not the name of a repository; expected OWNER/NAME, such as me/two_step_qmix.")
    return repo


def is_part(file: str) -> bool:
    """Whether a file of a repository belongs to a bundle."""
    return file == CARD or _PART.fullmatch(file) is not None


def write_bundle(
    path: Path,
    folder: Path,
    repo: str,
    policies: Collection[str] | None = None,
    allow: frozenset[str] = frozenset(),
    changes: Mapping[str, Any] | None = None,
    license: str | None = None,
) -> list[Path]:
    """Export policies of a run or checkpoint into ``folder``, with a card; the files, inside of the folder."""
    checkpoint = find_checkpoint(path)
    names = list(policies) if policies is not None else None
    export_checkpoint(checkpoint, folder, names, allow, changes)
    with only_modules(allow):
        exported = [read_exported(place, name) for name, place in exported_folders(folder).items()]
    directory = directory_of(checkpoint)
    facts = Facts(
        scenario=stored_scenario(checkpoint),
        results=RunFiles(directory).results() if directory is not None else [],
        policies=exported,
        checkpoint=checkpoint.name,
        iteration=int(read_part(checkpoint, "run")["counters"]["iteration"]),
        repo=repo,
        license=license,
    )
    write_atomically(folder / CARD, model_card(facts))
    return parts_of(folder)


def parts_of(folder: Path) -> list[Path]:
    """The files of a bundle in a folder, as paths inside of it; whatever else lies there is passed over."""
    found = []
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if file.is_file() and is_part(inside.as_posix()):
            found.append(inside)
    return found


def check_target(target: Path) -> Path:
    """Refuse to write among other files."""
    target = target.expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} is there already. Name a folder that is empty or new: marl pull REPO DIR.")
    return target


def take_bundle(source: Path, target: Path, repo: str, allow: Collection[str] = ()) -> list[str]:
    """Copy a bundle after its policies were verified; their names. The target has all of it, or does not come to be."""
    check_target(target)
    make_folder(target.absolute().parent)
    # Beside the target, so that putting it there is one step.
    with storing(target), tempfile.TemporaryDirectory(prefix=".marl_pull_", dir=target.absolute().parent) as beside:
        whole = Path(beside) / "bundle"
        whole.mkdir()
        _copy(source, parts_of(source), whole)
        names = verify(whole, repo, allow)
        if target.exists():
            target.rmdir()  # empty, as `check_target` has seen
        os.rename(whole, target)
    return names


def _copy(source: Path, parts: Iterable[Path], target: Path) -> None:
    for part in parts:
        largest = LARGEST_CARD if part.name == CARD else None
        # Read and written anew: what is a link there is a file here.
        content = read_bytes(source / part, largest=largest)
        (target / part).parent.mkdir(exist_ok=True)
        (target / part).write_bytes(content)


def verify(folder: Path, repo: str, allow: Collection[str]) -> list[str]:
    """Read and build every policy as a stranger's file: hashes, spaces, shapes of weights, names of modules."""
    with only_modules(frozenset(allow)):
        found = exported_folders(folder)
        if not found:
            raise HubError(
                f"{repo} holds no policy of marl (no {ABOUT} with {WEIGHTS}). What `marl push` wrote can be pulled; "
                "for other files use the tools of their own library."
            )
        for name, place in found.items():
            read_exported(place, name).build()
    return list(found)


def copy_to_folder(source: Path, parts: Iterable[Path], target: Path) -> None:
    """Put a bundle into a local folder; an older bundle there is replaced, other files stay."""
    make_folder(target)
    with storing(target):
        for old in parts_of(target):
            (target / old).unlink()
            if old.parent != Path() and not any((target / old.parent).iterdir()):
                (target / old.parent).rmdir()
        for part in parts:
            (target / part).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / part, target / part)
