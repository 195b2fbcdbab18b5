"""To the Hugging Face Hub and back, by its own package ``huggingface_hub``.

Who you are (``HF_TOKEN``, or ``hf auth login``) and which server it is (``HF_ENDPOINT``) the package finds out by itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marl.errors import ConfigError, HubError, ResourceError, UserError
from marl.sharing.bundle import check_repo, check_target, copy_to_folder, is_part, take_bundle, write_bundle


def push_to_hub(
    run: Path | str,
    repo: str,
    *,
    policies: Collection[str] | None = None,
    local: Path | str | None = None,
    private: bool = False,
    license: str | None = None,
    message: str = "Policies trained with marl",
    allow: Collection[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> str:
    """Export the policies of a run or checkpoint with a model card to ``OWNER/NAME`` on the Hugging Face Hub; the address.

    With ``local`` they go to the folder ``local/OWNER/NAME`` instead, and nothing leaves the machine.
    """
    check_repo(repo)
    api = None if local is not None else _api()
    with tempfile.TemporaryDirectory(prefix="marl_push_") as temporary:
        folder = Path(temporary)
        parts = write_bundle(Path(run), folder, repo, policies, frozenset(allow), changes, license)
        if api is None:
            target = Path(str(local)).expanduser() / repo
            copy_to_folder(folder, parts, target)
            return str(target)
        with _told(f"push to {repo}"):
            return _upload(api, repo, folder, parts, private, message)


def pull_from_hub(
    repo: str,
    target: Path | str | None = None,
    *,
    local: Path | str | None = None,
    revision: str | None = None,
    allow: Collection[str] = (),
) -> Path:
    """Fetch what ``push_to_hub`` wrote into a new folder (default: the repository's name), verified; the folder.

    The files are a stranger's: hashes are compared, modules that they name are only used if they are allowed, and nothing but
    policies and their card is fetched.
    """
    check_repo(repo)
    place = check_target(Path(target if target is not None else repo.rpartition("/")[2]))
    if local is not None:
        source = Path(local).expanduser() / repo
        if not source.is_dir():
            raise ConfigError(f"{source} is not there. Push to it first: marl push RUN {repo} --local {local}.")
        take_bundle(source, place, repo, allow)
        return place
    api = _api()
    with tempfile.TemporaryDirectory(prefix="marl_pull_") as temporary:
        with _told(f"pull from {repo}"):
            _download(api, repo, revision, Path(temporary))
        take_bundle(Path(temporary), place, repo, allow)
    return place


def _api() -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ResourceError(
            f"the Hugging Face Hub needs the package huggingface_hub, which is not installed ({error}). Install it: "
            'pip install "marl[hub]"; --local FOLDER works without it.'
        ) from error
    # Said here, because the package reads it once, when it is imported.
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="marl")


def _upload(api: Any, repo: str, folder: Path, parts: Sequence[Path], private: bool, message: str) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    # The full name: without an owner it is your own.
    repo = str(api.create_repo(repo, private=private, exist_ok=True).repo_id)
    sent = [part.as_posix() for part in parts]
    operations: list[Any] = [CommitOperationAdd(name, folder / name) for name in sent]
    for old in api.list_repo_files(repo):
        # A policy that an earlier push brought and this one has not would be loaded along with the new ones.
        if is_part(old) and old not in sent:
            operations.append(CommitOperationDelete(old))
    api.create_commit(repo, operations, commit_message=message)
    return f"{api.endpoint}/{repo}"


def _download(api: Any, repo: str, revision: str | None, folder: Path) -> None:
    info = api.model_info(repo, revision=revision, files_metadata=True)
    sizes = _sizes(info)
    needed, free = sum(sizes.values()), shutil.disk_usage(folder).free
    if needed > free:
        raise HubError(
            f"{repo} has {needed:,} bytes, and {free:,} are free in {folder.parent}. Make room, or leave it."
        )
    for file in sizes:
        # By the commit that was looked at: what is pushed meanwhile does not mix with it.
        api.hf_hub_download(repo, file, revision=info.sha, local_dir=folder)


def _sizes(info: Any) -> dict[str, int]:
    """The files of the bundle in a repository, with their bytes."""
    sizes: dict[str, int] = {}
    for file in info.siblings or []:
        if is_part(file.rfilename):
            sizes[file.rfilename] = file.size or 0
    return sizes


@contextmanager
def _told(doing: str) -> Iterator[None]:
    """Whatever the package or the server says against it ends with a sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:400]
        raise HubError(
            f"cannot {doing}: {type(error).__name__}: {said}. Check the name, the network, and who you are (HF_TOKEN, or "
            "`hf auth login`); HF_ENDPOINT names another server, --local FOLDER needs none."
        ) from error
