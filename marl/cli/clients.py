"""The commands for the other end of ``marl serve``: ``marl drive`` plays an env here, ``marl client`` hands out clients."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

import marl
from marl.cli.options import read_json
from marl.errors import ConfigError, UserError, printable
from marl.inputs import read_text
from marl.storage import make_folder, write_atomically

PACKAGE = Path(marl.__file__).parent


class Language(StrEnum):
    """Languages for which there is a client of one file."""

    python = "python"
    js = "js"


# The file in the package, and what it is called where it stands alone.
FILES = {
    Language.python: (PACKAGE / "client.py", "marl_client.py"),
    Language.js: (PACKAGE / "serve" / "clients" / "marl_client.js", "marl_client.js"),
}


def client(
    language: Annotated[Language, typer.Argument(help="python: standard library only; js: browsers and Node.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; it is made if it is missing.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")] = False,
) -> None:
    """Write a client of marl serve into a folder: one file that needs neither marl nor other packages."""
    source, name = FILES[language]
    path = folder / name
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already. Choose another DIR, or write over it with --force.")
    make_folder(folder)
    write_atomically(path, source.read_text(encoding="utf-8"))
    print(f"wrote {printable(path)}. The documentation's page on the wire format describes its messages.")


def drive(
    env: Annotated[str, typer.Argument(help="The env, as behind `env:` in a scenario.")],
    url: Annotated[str, typer.Argument(help="The server, e.g. http://127.0.0.1:9900.")],
    episodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Episodes to play. Default: until the server closes, or Ctrl-C."),
    ] = None,
    config: Annotated[Optional[str], typer.Option(help="env_config as JSON, or @file.json.")] = None,  # noqa: UP045
    token_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="The file with the server's token."),
    ] = None,
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="A name under which a driver that was killed goes on with its episode."),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Download the policies and act here instead of asking for each action.")
    ] = False,
    no_training: Annotated[bool, typer.Option("--no-training", help="Episodes are not learned from.")] = False,
    cafile: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Certificate (PEM) to trust, of a server with one of its own."),
    ] = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for a server that does not answer.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was played as one JSON object.")] = False,
) -> None:
    """Play an env of this machine with the policies of a server: marl drive CartPole-v1 http://127.0.0.1:9900.

    Exit codes: 0 when all was played or the server closed, 2 for bad input, 130 after Ctrl-C.
    """
    options: dict[str, Any] = {}
    if name is not None:
        options["name"] = name
    if token_file is not None:
        options["token"] = read_text(token_file).strip()
    if cafile is not None:
        options["cafile"] = str(cafile)
    if local:
        options["inference_mode"] = "local"
    typer.echo(f"playing {printable(env)} for {printable(url)}; Ctrl-C ends it", err=True)
    try:
        driven = marl.drive(
            env,
            url,
            episodes=episodes,
            env_config=read_json(config),
            training=not no_training,
            patience=patience,
            **options,
        )
    except marl.PolicyClientError as error:
        raise ServerRefusal(str(error)) from error
    if as_json:
        print(json.dumps(driven.as_json()))
    else:
        print(f"{driven} ({driven.why})")
    if driven.why == "interrupted":
        raise typer.Exit(130)


class ServerRefusal(UserError):
    """The server could not be reached, or did not take what the env shows."""
