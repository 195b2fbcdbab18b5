"""The command that opens the page: ``marl watch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from marl.cli.options import Allow, given
from marl.errors import ConfigError


def watch(
    results: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(help="The folder with runs. Default: where runs are written, ~/marl_results."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Train the two-step game three ways and show what each learns.")
    ] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    host: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Address to listen on; any but this machine's own needs --token-file. Default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one. Default: 9901."),
    ] = None,
    token_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Token of the page, the same at every start; made if it is missing."),
    ] = None,
    tls_cert: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Certificate (PEM) for https.")] = None,  # noqa: UP045
    tls_key: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Its private key (PEM).")] = None,  # noqa: UP045
    allow: Allow = None,
) -> None:
    """Open a page in the browser: runs as they train, episodes step by step, games to play and to look into.

    The address that it prints ends with the token of this session, without which nothing is shown. Exit codes: 0 after
    Ctrl-C; 2 for bad input.
    """
    from marl.runs.directories import default_results

    network = given(host=host, port=port, token_file=token_file, tls_cert=tls_cert, tls_key=tls_key)
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401

        from marl.watch.command import WatchOptions
        from marl.watch.command import watch as show
    except ModuleNotFoundError as error:  # of a package of the extra
        raise ConfigError(
            f'the page needs packages that are not installed ({error.name}). Install them: pip install "marl[serve]"'
        ) from error
    show(WatchOptions(results or default_results(), network, browser, demo, frozenset(allow or [])))
