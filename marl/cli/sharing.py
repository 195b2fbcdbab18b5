"""Policies for others, on the Hugging Face Hub: ``marl push`` and ``marl pull``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from marl.cli.options import Allow, EnvAgain
from marl.errors import printable

Repo = Annotated[str, typer.Argument(help="The repository: OWNER/NAME.")]
Local = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(metavar="FOLDER", help="FOLDER/OWNER/NAME instead of the Hub: nothing leaves this machine."),
]


def push(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a run directory (its newest one is pushed).")],
    repo: Repo,
    policy: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="ID", help="A policy to push; repeatable. Default: all."),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="A repository that is made now is private.")] = False,
    license: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="ID", help="The licence that the card names, e.g. apache-2.0. Default: none."),
    ] = None,
    local: Local = None,
    sets: EnvAgain = None,
    allow: Allow = None,
) -> None:
    """Put the policies of a run on the Hugging Face Hub, with a model card: marl push RUN OWNER/NAME.

    Needs marl[hub]. HF_TOKEN, or `hf auth login`, says who you are; HF_ENDPOINT names another server.
    """
    from marl.scenario.load import parse_set
    from marl.sharing.remote import push_to_hub

    # A file of the run is not followed to other files, unless the user names them again.
    changes = dict(map(parse_set, sets or []))
    place = push_to_hub(
        checkpoint, repo, policies=policy or None, local=local, private=private, license=license, allow=allow or [],
        changes=changes,
    )  # fmt: skip
    print(f"pushed: {printable(place)}")


def pull(
    repo: Repo,
    target: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="DIR", help="A new folder. Default: the repository's name."),
    ] = None,
    revision: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="A branch, tag or commit. Default: the newest."),
    ] = None,
    local: Local = None,
    allow: Allow = None,
) -> None:
    """Fetch policies from the Hugging Face Hub, verified: marl pull OWNER/NAME, then marl rollout NAME."""
    from marl.sharing.remote import pull_from_hub

    folder = pull_from_hub(repo, target, local=local, revision=revision, allow=allow or [])
    print(f"pulled: {printable(folder)}")
