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
from marl.inputs import read_bytes, real_path
from marl.play.export import ABOUT, WEIGHTS, exported_folders, read_exported
from marl.play.write_export import export_checkpoint
from marl.registry import only_modules
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.files import RunFiles
from marl.runs.saved import SavedRun, directory_of
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
        scenario=SavedRun(checkpoint).scenario,
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
    """Copy a bundle after its policies were verified; their names. The target has all of it, or nothing."""
    target = real_path(check_target(target))
    is_there = target.is_dir()
    near = target if is_there else target.parent
    make_folder(near)
    # On the same disk as the target, so that putting it there copies nothing.
    with storing(target), tempfile.TemporaryDirectory(prefix=".marl_pull_", dir=near) as beside:
        whole = Path(beside) / "bundle"
        whole.mkdir()
        _copy(source, parts_of(source), whole, repo)
        names = verify(whole, repo, allow)
        if is_there:
            # The folder itself stays: somebody may stand in it, or have linked to it.
            for part in sorted(whole.iterdir()):
                os.rename(part, target / part.name)
        else:
            os.rename(whole, target)
    return names


def _copy(source: Path, parts: Iterable[Path], target: Path, repo: str) -> None:
    for part in parts:
        _check_inside(source / part, source)
        largest = LARGEST_CARD if part.name == CARD else None
        try:
            content = read_bytes(source / part, largest=largest)
        except OSError as error:
            raise HubError(f"{repo} cannot be taken: {error}.") from error
        (target / part).parent.mkdir(exist_ok=True)
        (target / part).write_bytes(content)


def _check_inside(file: Path, folder: Path) -> None:
    """Refuse a link out of the folder: what it leads to is not the repository's."""
    if not real_path(file).is_relative_to(real_path(folder)):
        raise HubError(f"{file} is a link that leads out of {folder}. It is not followed; take it away.")


def verify(folder: Path, repo: str, allow: Collection[str]) -> list[str]:
    """Read and build every policy as a stranger's file: hashes, spaces, shapes of weights, names of modules."""
    names: list[str] = []
    with only_modules(frozenset(allow)):
        for place in _places_of(folder, repo):
            policy = read_exported(place)
            policy.build()
            if policy.name in names:
                raise HubError(f"{repo} holds two policies that are called {policy.name!r}. One of them is not used.")
            names.append(policy.name)
    return names


def _places_of(folder: Path, repo: str) -> list[Path]:
    """The folders of a bundle that hold policies, each with both of its files: either the bundle itself or those in it."""
    inside = sorted({(folder / part).parent for part in parts_of(folder) if part.name != CARD})
    if not inside:
        raise HubError(
            f"{repo} holds no policy of marl (no {ABOUT} with {WEIGHTS}). What `marl push` wrote can be pulled; "
            "for other files use the tools of their own library."
        )
    # Beside a policy of its own the others of a folder are never looked at.
    if folder in inside and len(inside) > 1:
        raise HubError(f"{repo} holds a policy and folders with policies. `marl push` writes one or the other.")
    for place in inside:
        _check_whole(place, folder, repo)
    return inside


def _check_whole(place: Path, folder: Path, repo: str) -> None:
    for name in (ABOUT, WEIGHTS):
        file = place / name
        if not file.is_file():
            raise HubError(f"{repo} lacks {file.relative_to(folder)}. Ask for it to be pushed again.")


def copy_to_folder(source: Path, parts: Iterable[Path], target: Path) -> None:
    """Put a bundle into a local folder; an older bundle there is replaced, other files stay."""
    parts = list(parts)
    make_folder(target)
    for part in parts:
        _check_inside(target / part, target)
    with storing(target):
        for old in parts_of(target):
            (target / old).unlink()
            if old.parent != Path() and not any((target / old.parent).iterdir()):
                (target / old.parent).rmdir()
        for part in parts:
            (target / part).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / part, target / part)
