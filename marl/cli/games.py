"""The commands of the game theory: ``marl crossplay``, ``marl exploit``, ``marl report``, ``marl solve``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer

from marl.cli.options import Allow, EnvAgain, read_json
from marl.cli.options import given as options_given

EnvConfig = Annotated[Optional[str], typer.Option(help="env_config of the env as JSON, or @file.json.")]  # noqa: UP045
PlayersOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help='Players as JSON, e.g. {"red": ["red_*"], "blue": ["blue_*"]}. Default: groups, then agents.'),
]
UntilDecided = Annotated[bool, typer.Option("--until-decided", help="More episodes where it is open who earns more.")]
BySeat = Annotated[
    bool, typer.Option("--by-seat", help="Do not average over seats where one population plays them all.")
]
Explore = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option("--explore/--greedy", help="Default: distributions are drawn from, others play their best guess."),
]
Workers = Annotated[int, typer.Option(min=0, help="Ray workers; 0: in this process.")]
ChanceSamples = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1,
        help="Reset seeds that stand for chance in a tree. Default: as the env lists it, else until nothing is new.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FirstSeed = Annotated[int, typer.Option(min=0, help="Seed of the first episode of each pairing.")]


def crossplay(
    checkpoints: Annotated[
        list[str], typer.Argument(metavar="CHECKPOINT...", help="Run directories, checkpoints, PATH#policy, or random.")
    ],
    env: Annotated[Optional[str], typer.Option(help="Another env to play on, with equal spaces.")] = None,  # noqa: UP045
    env_config: EnvConfig = None,
    players: PlayersOption = None,
    episodes: Annotated[int, typer.Option(help="Episodes per pairing, at least 2.")] = 100,
    until_decided: UntilDecided = False,
    max_episodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="--until-decided: episodes per pairing at most. Default: ten times --episodes."),
    ] = None,
    by_seat: BySeat = False,
    explore: Explore = None,
    workers: Workers = 0,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Keep the matches and payoffs.json here; the same command goes on from them."),
    ] = None,
    seed: FirstSeed = 0,
    as_json: AsJson = False,
    allow: Allow = None,
) -> None:
    """Let trained policies play each other and print what each earns against each.

    Exit codes: 0 when all was played, 2 for bad input, 130 after Ctrl-C (with --out, what was played is kept).
    """
    from rich.console import Console

    from marl.analysis.crossplay import cross_play
    from marl.analysis.payoff_table import caption, payoff_table
    from marl.analysis.progress import progress_bar
    from marl.runs.damage import noted

    # Where one population plays all seats they are averaged over, as if a coin decided who moves first.
    symmetric: Literal["auto"] | bool = "auto"
    if by_seat:
        symmetric = False
    try:
        with noted() as damaged, progress_bar("episodes") as progress:
            tensor = cross_play(
                checkpoints, env, given(env_config, "--env-config"), given(players, "--players"), episodes=episodes,
                until_decided=until_decided, max_episodes=max_episodes, symmetric=symmetric,
                explore=explore, num_workers=workers, directory=out, seed=seed, allow=allow or [], progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        stopped = "stopped."
        if out is not None:
            stopped = f"stopped. The same command goes on with what is in {out}."
        print(stopped, file=sys.stderr)
        raise typer.Exit(130) from None
    if out is not None:
        tensor.save(out.expanduser() / "payoffs.json")
    if as_json:
        print(json.dumps({**tensor.as_json(), **damaged.as_json()}))
        return
    Console(width=100_000, emoji=False).print(payoff_table(tensor))  # a cell in two lines cannot be read
    print(caption(tensor))
    if out is not None:
        print(f"payoffs: {out / 'payoffs.json'}")


def exploit(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A checkpoint, or a run directory (its newest one is measured); FILE.yaml: a language model and a game."
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            help="tree or merged (exact), projected or trained (lower bounds), or auto: the first that works."
        ),
    ] = "auto",
    algo: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Algorithm of trained best responses; default: the run's."),
    ] = None,
    timesteps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Env steps of training per player, rounded up to whole batches. Default: 20000."),
    ] = None,
    episodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=2, help="Episodes that show what a best response earns. Default: 400."),
    ] = None,
    max_nodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="tree: the largest one, in nodes. Default: 200000."),
    ] = None,
    max_positions: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="merged: the most distinct positions. Default: 2000000 of a native env."),
    ] = None,
    max_seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="merged: the longest measurement, as estimated before. Default: 60."),
    ] = None,
    chance_samples: ChanceSamples = None,
    workers: Workers = 0,
    as_json: AsJson = False,
    sets: EnvAgain = None,
    allow: Allow = None,
) -> None:
    """Measure how far a trained run is from equilibrium: NashConv, exact or as a lower bound."""
    if checkpoint.suffix in (".yaml", ".yml"):
        of_checkpoints = options_given(
            method=None if method == "auto" else method, algo=algo, timesteps=timesteps, episodes=episodes,
            max_nodes=max_nodes, max_positions=max_positions, max_seconds=max_seconds, chance_samples=chance_samples,
            workers=workers or None, set=sets, allow=allow,
        )  # fmt: skip
        _exploit_language_model(checkpoint, as_json, of_checkpoints)
        return
    from pydantic import ValidationError

    from marl.analysis.exploit import exploitability_of, told
    from marl.analysis.progress import progress_bar
    from marl.config import explain
    from marl.populations.exploit_config import ExploitabilityConfig
    from marl.runs.damage import noted
    from marl.scenario.load import parse_set

    # Only what was given: defaults stand in the config class, where `marl config` finds them.
    keys = options_given(
        method=method,
        best_response_algo=algo,
        best_response_timesteps=timesteps,
        best_response_episodes=episodes,
        max_nodes=max_nodes,
        max_positions=max_positions,
        max_seconds=max_seconds,
        chance_samples=chance_samples,
    )
    try:
        config = ExploitabilityConfig(**keys)
    except ValidationError as error:
        raise explain(error, "marl exploit", ExploitabilityConfig.model_fields) from None
    env_again = dict(map(parse_set, sets or []))
    with noted() as damaged, progress_bar("env steps") as progress:
        found = exploitability_of(checkpoint, config, workers, allow or [], progress, env_again)
    if as_json:
        print(json.dumps({**found.as_json(), **damaged.as_json()}, indent=2))
    else:
        print("\n".join(told(found)))


def _exploit_language_model(path: Path, as_json: bool, unused: dict[str, Any]) -> None:
    from marl.analysis.asked import asked_exploitability, told_asked
    from marl.errors import ConfigError

    if unused:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
        raise ConfigError(
            f"marl exploit {path}: {names} is about checkpoints. A language model is measured by the game's tree, "
            "as its file says: only --json goes with it."
        )

    found = asked_exploitability(path)
    print(json.dumps(found.as_json(), indent=2) if as_json else "\n".join(told_asked(found)))


def report(
    env: Annotated[str, typer.Argument(help="The env, as behind `env:` in a scenario.")],
    checkpoints: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="[CHECKPOINT...]", help="As in crossplay, also PATH#SIDE.answer/3. None: only the game."
        ),
    ] = None,
    all_checkpoints: Annotated[
        bool, typer.Option("--all-checkpoints", help="All checkpoints of the run directories, not only the newest.")
    ] = False,
    members: Annotated[bool, typer.Option("--members", help="Also all members of the runs' populations.")] = False,
    no_random: Annotated[bool, typer.Option("--no-random", help="Without the random player.")] = False,
    env_config: EnvConfig = None,
    players: PlayersOption = None,
    episodes: Annotated[int, typer.Option(help="Episodes per pairing, and of random play; at least 2.")] = 100,
    until_decided: UntilDecided = False,
    by_seat: BySeat = False,
    explore: Explore = None,
    best_response: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, metavar="TIMESTEPS", help="Also train best responses, for so many env steps per player."),
    ] = None,
    max_nodes: Annotated[int, typer.Option(min=1, help="The largest tree that is solved exactly, in nodes.")] = 50_000,
    chance_samples: ChanceSamples = None,
    workers: Workers = 0,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Where the report goes. Default: report_ENV."),
    ] = None,
    seed: FirstSeed = 0,
    as_json: AsJson = False,
    allow: Allow = None,
    imports: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--import", metavar="MODULE", help="Import this first: it may register rankings or envs of yours."
        ),
    ] = None,
) -> None:
    """Report on a game and on those trained for it: payoffs, ranking, exploitability, equilibria, curves; text, JSON, HTML.

    Exit codes: 0 when the report is written, 2 for bad input, 130 after Ctrl-C (what was played is kept).
    """
    from marl.analysis.progress import progress_bar
    from marl.analysis.report.build import ReportOptions, build_report, checked_place, default_directory
    from marl.runs.damage import noted

    wishes = ReportOptions(
        all_checkpoints, members, not no_random, episodes, until_decided, by_seat, explore, workers, seed, best_response,
        max_nodes, chance_samples, allow or [], imports or [],
    )  # fmt: skip
    directory = checked_place(out or default_directory(env))  # before matches are played that could not be kept
    try:
        with noted() as damaged, progress_bar("report") as progress:
            found = build_report(
                env, checkpoints or [], given(env_config, "--env-config"), given(players, "--players"), wishes, directory,
                progress,
            )  # fmt: skip
            # Into the report itself: whoever reads it later should know which checkpoints were left out.
            found.numbers.update(damaged.as_json())
            found.write(directory)
    except KeyboardInterrupt:
        print(f"stopped. The same command goes on with what is in {directory}.", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        print(f"{found.text}\nreport: {directory / 'report.html'}")


def solve(
    env: Annotated[str, typer.Argument(help="The env, as behind `env:` in a scenario.")],
    env_config: EnvConfig = None,
    chance_samples: ChanceSamples = None,
    max_positions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Different positions at most. Default: 5,000,000; 50,000 of envs that are played one by one."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve a game of perfect information exactly: its value for everybody, and how often several moves are best.

    Exit codes: 0 when it is solved, 2 for bad input.
    """
    from marl.gametheory.merged.perfect import perfect_play, solvable_positions

    config = given(env_config, "--env-config")
    most = max_positions or solvable_positions(env, config)
    play = perfect_play(env, config, chance_samples=chance_samples, max_positions=most)
    if as_json:
        print(json.dumps(play.as_json()))
        return
    for player, value in play.as_json()["values"].items():
        print(f"{player}: {value:g}")
    print(play.text)


def given(text: str | None, option: str) -> dict[str, Any] | None:
    """What an option holds as JSON; None where it was not given."""
    if not text:
        return None
    return read_json(text, option)
