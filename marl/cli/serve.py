"""The command that lets other programs play with trained policies: ``marl serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from marl.cli.options import Allow, given
from marl.errors import ConfigError


def serve(
    path: Annotated[
        str, typer.Argument(help="A run, a checkpoint, an exported policy, DIR#policy, or a folder of several.")
    ],
    host: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Address to listen on; any but this machine's own needs --token-file. Default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one. Default: 9900."),
    ] = None,
    token_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Token that clients have to show; made, for you alone, if it is missing."),
    ] = None,
    tls_cert: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Certificate (PEM) for https.")] = None,  # noqa: UP045
    tls_key: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Its private key (PEM).")] = None,  # noqa: UP045
    origin: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="URL", help="A web page that may talk to the server, e.g. https://game.org; repeatable."),
    ] = None,
    replicas: Annotated[
        int, typer.Option(min=1, help="Processes that play, on Ray Serve behind one address; 1: in this one.")
    ] = 1,
    policy: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="ID=PATH",
            help="Let a policy of another run play: ID is a policy or an agent, PATH a run, an export, or random.",
        ),
    ] = None,
    explore: Annotated[bool, typer.Option("--explore", help="Play with exploration instead of greedily.")] = False,
    seed: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=0, help="Seed of all that is drawn. Default: a new one each time."),
    ] = None,
    journal: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Write all messages and answers here, so that sessions outlive a restart."),
    ] = None,
    max_body: Annotated[Optional[int], typer.Option(help="Bytes of one message. Default: 1 MiB.")] = None,  # noqa: UP045
    max_sessions: Annotated[Optional[int], typer.Option(help="Sessions at once. Default: 1000.")] = None,  # noqa: UP045
    max_episodes: Annotated[Optional[int], typer.Option(help="Open episodes at once. Default: 256.")] = None,  # noqa: UP045
    max_pending: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Messages that wait for their answer at once. Default: 1024."),
    ] = None,
    max_rate: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Messages per second and session. Default: as many as come."),
    ] = None,
    max_depth: Annotated[Optional[int], typer.Option(help="Nesting of a message. Default: 16.")] = None,  # noqa: UP045
    max_wait_ms: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="How long a request waits for others, to be answered together. Default: 2."),
    ] = None,
    episode_timeout_s: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Silence after which an episode ends. Default: 300."),
    ] = None,
    session_timeout_s: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Silence after which a session ends. Default: 3600."),
    ] = None,
    allow: Allow = None,
) -> None:
    """Answer programs that ask for actions over the network, with the policies of a run, a checkpoint or an export.

    Example: marl serve ~/marl_results/cartpole --port 9900, and in the program marl.PolicyClient("http://127.0.0.1:9900").
    The messages are on http://127.0.0.1:9900/docs while it runs. A run of a population draws a member for each episode.
    Exit codes: 0 after Ctrl-C, when all that was asked has been answered; 2 for bad input.
    """
    from marl.play.policy_sources import read_sources

    network = given(
        host=host, port=port, token_file=token_file, tls_cert=tls_cert, tls_key=tls_key, origins=origin,
    )  # fmt: skip
    limits = given(
        max_body=max_body, max_sessions=max_sessions, max_episodes=max_episodes, max_pending=max_pending,
        max_rate=max_rate, max_depth=max_depth, max_wait_ms=max_wait_ms, episode_timeout_s=episode_timeout_s,
        session_timeout_s=session_timeout_s,
    )  # fmt: skip
    try:
        from marl.serve.command import ServeOptions, run_server
    except ModuleNotFoundError as error:  # of a package of the extra
        raise ConfigError(
            f'serving needs packages that are not installed ({error.name}). Install them: pip install "marl[serve]"'
        ) from error
    options = ServeOptions(
        path=path,
        network=network,
        limits=limits,
        sources=read_sources(policy or []),
        explore=explore,
        seed=seed,
        replicas=replicas,
        journal=journal,
        allow=frozenset(allow or []),
    )
    run_server(options)
