"""The ``marl`` command. Every sub-command is a few lines that call the package."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from marl import __version__
from marl.cli.bench import bench
from marl.cli.clients import client, drive
from marl.cli.config import debug, doctor, init, schema, show, tune_throughput
from marl.cli.estimate import estimate
from marl.cli.games import crossplay, exploit, report, solve
from marl.cli.guard import DEBUG, guarded
from marl.cli.help import BEGIN, GAMES, PLAY, RESULTS, SPEED, TRAIN, GroupedCommands
from marl.cli.joyrl import played_instead
from marl.cli.options import (
    AsJson,
    AsTest,
    CheckpointFreq,
    ConfigJson,
    KeepCheckpoints,
    LocalDir,
    NumCpus,
    NumWorkers,
    QuietOption,
    Seed,
    Sets,
    StopIters,
    StopReward,
    StopTimesteps,
    Verbose,
    given,
    log_level_of,
    output_of,
    read_json,
    stop_changes,
)
from marl.cli.play import export, replay, rollout
from marl.cli.plot import plot
from marl.cli.runs import compare, explain, runs
from marl.cli.serve import serve
from marl.cli.sharing import pull, push
from marl.cli.suite import suite
from marl.cli.tune import tune
from marl.cli.watch import watch
from marl.cli.why import why
from marl.errors import ConfigError
from marl.run import execute, raw_scenario, run

app = typer.Typer(
    cls=GroupedCommands,
    no_args_is_help=True,
    rich_markup_mode=None,  # help texts hold brackets, which rich would take for markup
)
app.command(rich_help_panel=TRAIN)(run)


def _say_version(wanted: bool) -> None:
    if wanted:  # typer calls it in any case
        print(f"marl {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[  # noqa: ARG001  (the callback has read it)
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(DEBUG, help="Print the whole traceback of what fails; also MARL_DEBUG=1. Anywhere in the line."),
    ] = False,
) -> None:
    """Multi-agent reinforcement learning with game theory."""
    del debug  # taken out of the words before they come here, so that it may stand behind a command as well


@app.command(rich_help_panel=TRAIN)
def train(
    algo: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--run", metavar="ALGO", help="The algorithm, e.g. DQN, or package.module:Class. Default: PPO."),
    ] = None,
    env: Annotated[Optional[str], typer.Option(help="The env, e.g. CartPole-v1.")] = None,  # noqa: UP045
    file: Annotated[Optional[Path], typer.Option("-f", "--file", help="A scenario file to start from.")] = None,  # noqa: UP045
    config: ConfigJson = None,
    sets: Sets = None,
    local_dir: LocalDir = None,
    num_workers: NumWorkers = None,
    num_cpus: NumCpus = None,
    seed: Seed = None,
    stop_iters: StopIters = None,
    stop_timesteps: StopTimesteps = None,
    stop_reward: StopReward = None,
    checkpoint_freq: CheckpointFreq = None,
    keep_checkpoints: KeepCheckpoints = None,
    as_test: AsTest = False,
    as_json: AsJson = False,
    quiet: QuietOption = False,
    verbose: Verbose = 0,
) -> None:
    """Train an algorithm on an env without a scenario file: marl train --run PPO --env CartPole-v1.

    Without a stop option it trains until Ctrl-C, which saves a checkpoint and says how to go on.
    """
    of_training = {
        "--run": algo, "--env": env, "--config": config, "--set": sets, "--local-dir": local_dir, "--seed": seed,
        "--num-workers": num_workers, "--stop-iters": stop_iters, "--stop-timesteps": stop_timesteps,
        "--stop-reward": stop_reward, "--as-test": as_test, "--quiet": quiet,
    }  # fmt: skip
    if played_instead(file, of_training, as_json=as_json):
        return
    options = given(
        algo=algo, env=env, num_workers=num_workers, ray_num_cpus=num_cpus, seed=seed, checkpoint_freq=checkpoint_freq,
        keep_checkpoints=keep_checkpoints, log_level=log_level_of(verbose),
    )  # fmt: skip
    raw: dict[str, Any] = raw_scenario(file, None, sets or [], read_json(config), options)
    # In the words of this command: without a file, nobody should be told about keys of one.
    if "env" not in raw:
        raise ConfigError("no env was given. Add --env, for instance --env CartPole-v1, or -f FILE.")
    stops = stop_changes(stop_iters, stop_timesteps, stop_reward)
    output = output_of(as_json, quiet)
    raise typer.Exit(execute(raw, stops, local_dir, None, as_test, None, output=output))


# The order is that of `marl --help`, panel by panel.
BY_PANEL = {
    TRAIN: (tune, suite),
    PLAY: (rollout, replay, estimate, why, export, push, pull, serve, drive, client),
    GAMES: (crossplay, exploit, report, solve),
    RESULTS: (watch, runs, compare, plot, explain),
    BEGIN: (init, show, schema),
    SPEED: (doctor, debug, tune_throughput),
}
for panel, commands in BY_PANEL.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(bench, name="bench", rich_help_panel=SPEED)


@app.command(rich_help_panel=BEGIN)
def config(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="An algorithm, or an env as behind `env:`; without one, the keys of a scenario."),
    ] = None,
    all_keys: Annotated[bool, typer.Option("--all", help="The keys of everything.")] = False,
) -> None:
    """Print every key with its type, default and meaning."""
    from marl.scenario.reference import everything, keys_by_name, scenario_keys

    if name and all_keys:
        raise ConfigError("give an algorithm or an env, or --all, not both.")
    if all_keys:
        print(everything())
    elif name:
        print(keys_by_name(name))
    else:
        print(scenario_keys())


@app.command(name="list", rich_help_panel=BEGIN)
def list_() -> None:
    """Show algorithms, envs, mappers and scenarios."""
    from marl.scenario.reference import overview

    print(overview(Path("scenarios")))


@app.command(rich_help_panel=BEGIN)
def check(
    env: Annotated[str, typer.Argument(help="The env, as behind `env:` in a scenario.")],
    config_: Annotated[Optional[str], typer.Option("--config", help="env_config as JSON, or @file.json.")] = None,  # noqa: UP045
    wrappers: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--wrapper", help="A wrapper by name, or as JSON with its keys; repeatable, innermost first."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play at most.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Env steps to play at most.")] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Look whether an env keeps its contract before training on it, and how fast it is.

    Exit codes: 0 when there are no errors (warnings may be), 2 otherwise.
    """
    from rich.console import Console

    from marl.envs.check import examine

    chosen: list[str | dict[str, Any]] = []
    for text in wrappers or []:
        if text.startswith("{"):
            chosen.append(read_json(text, "--wrapper"))
        else:
            chosen.append(text)
    report = examine(env, read_json(config_), steps, episodes=episodes, seed=seed, wrappers=chosen)
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        # Without emojis: the text of an env's own error may hold ":warning:" and the like.
        report.print(Console(soft_wrap=True, emoji=False))
    if not report.passed:
        raise typer.Exit(2)


def main() -> None:
    # The name is said here: however it was started, help and completion are those of `marl`.
    guarded(partial(app, prog_name="marl"))
