"""The ``marl`` command. Every sub-command is a few lines that call the package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from marl.errors import ConfigError
from marl.run import (
    Allow,
    AsTest,
    LocalDir,
    NumCpus,
    NumWorkers,
    Seed,
    Sets,
    StopIters,
    StopReward,
    StopTimesteps,
    execute,
    guarded,
    run,
    stop_changes,
)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Multi-agent reinforcement learning with game theory.",
)
app.command()(run)


@app.command()
def train(
    algo: Annotated[
        str | None, typer.Option("--run", metavar="ALGO", help="The algorithm, e.g. DQN. Default: PPO.")
    ] = None,
    env: Annotated[Optional[str], typer.Option(help="The world, e.g. CartPole-v1.")] = None,  # noqa: UP045
    file: Annotated[Optional[Path], typer.Option("-f", "--file", help="A scenario file to start from.")] = None,  # noqa: UP045
    config: Annotated[Optional[str], typer.Option(help="More keys as JSON, or @file.json.")] = None,  # noqa: UP045
    sets: Sets = None,
    local_dir: LocalDir = None,
    num_workers: NumWorkers = None,
    num_cpus: NumCpus = None,
    seed: Seed = None,
    stop_iters: StopIters = None,
    stop_timesteps: StopTimesteps = None,
    stop_reward: StopReward = None,
    checkpoint_freq: Annotated[Optional[int], typer.Option(min=0, help="Iterations between checkpoints.")] = None,  # noqa: UP045
    as_test: AsTest = False,
) -> None:
    """Train an algorithm on a world without a scenario file: marl train --run PPO --env CartPole-v1."""
    from marl.run import raw_scenario
    from marl.scenario.load import apply, parse_set

    raw: dict[str, Any] = raw_scenario(file, None, []) if file is not None else {}
    for key, value in {
        "algo": algo,
        "env": env,
        "num_workers": num_workers,
        "ray_num_cpus": num_cpus,
        "seed": seed,
        "checkpoint_freq": checkpoint_freq,
    }.items():
        if value is not None:
            apply(raw, key, value)
    for key, value in read_json(config).items():
        apply(raw, key, value)
    for text in sets or []:
        apply(raw, *parse_set(text))
    if "env" not in raw:
        raise ConfigError("no world was given. Add --env, for instance --env CartPole-v1, or -f FILE.")
    stops = stop_changes(stop_iters, stop_timesteps, stop_reward)
    if not stops and not raw.get("stop"):
        raise ConfigError("when should it stop? Add --stop-timesteps, --stop-iters or --stop-reward.")
    raise typer.Exit(execute(raw, {}, stops, local_dir, None, as_test, frozenset(), False))


def read_json(text: str | None, option: str = "--config") -> dict[str, Any]:
    """A JSON object given as text or as ``@file``."""
    if text is None:
        return {}
    if text.startswith("@"):
        path = Path(text[1:])
        if not path.is_file():
            raise ConfigError(f"{option} {text}: there is no file {path}.")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{option} {text}: cannot be read as text ({error}).") from error
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{option} is not readable JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        ) from None
    if not isinstance(loaded, dict):
        raise ConfigError(f'{option} holds a {type(loaded).__name__}; expected an object such as {{"lr": 0.001}}.')
    return loaded


@app.command()
def rollout(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a run directory (its newest one is played).")],
    episodes: Annotated[Optional[int], typer.Option(min=1, help="Episodes to play. Default: 10.")] = None,  # noqa: UP045
    steps: Annotated[Optional[int], typer.Option(min=1, help="Env steps to play instead.")] = None,  # noqa: UP045
    explore: Annotated[bool, typer.Option("--explore", help="Play with exploration instead of greedily.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode.")] = 0,
    render: Annotated[bool, typer.Option("--render", help="Print the world's text picture after each step.")] = False,
    record: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Keep the episodes here, to learn from them by `input: DIR`."),
    ] = None,
    allow: Allow = None,
) -> None:
    """Play a trained run and print the return of each episode, by policy; needs nothing but the path."""
    from marl.training.playback import play

    if episodes is not None and steps is not None:
        raise ConfigError("--episodes and --steps cannot be given together.")
    for line in play(checkpoint, episodes or 10, steps, explore, seed, frozenset(allow or []), render, record):
        print(line, flush=True)


@app.command()
def crossplay(
    checkpoints: Annotated[
        list[str], typer.Argument(metavar="CHECKPOINT...", help="Run directories, checkpoints, PATH#policy, or random.")
    ],
    env: Annotated[Optional[str], typer.Option(help="Another world to play on, with equal spaces.")] = None,  # noqa: UP045
    env_config: Annotated[Optional[str], typer.Option(help="Its env_config as JSON, or @file.json.")] = None,  # noqa: UP045
    players: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help='Players as JSON, e.g. {"red": ["red_*"], "blue": ["blue_*"]}. Default: groups, then agents.'
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes per pairing, at least 2.")] = 100,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="More episodes where it is open who earns more.")
    ] = False,
    max_episodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="--until-decided: episodes per pairing at most. Default: ten times --episodes."),
    ] = None,
    by_seat: Annotated[
        bool, typer.Option("--by-seat", help="Do not average over seats where one population plays them all.")
    ] = False,
    explore: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option("--explore/--greedy", help="Default: distributions are drawn from, others play their best guess."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0: in this process.")] = 0,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Keep the matches and payoffs.json here; the same command goes on from them."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode of each pairing.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the payoffs as one JSON object.")] = False,
    allow: Allow = None,
) -> None:
    """Let trained policies play each other and print what each earns against each.

    Exit codes: 0 when all was played, 2 for bad input, 130 after Ctrl-C (with --out, what was played is kept).
    """
    from rich.console import Console

    from marl.analysis.crossplay import cross_play
    from marl.analysis.payoff_table import caption, payoff_table
    from marl.analysis.progress import progress_bar

    try:
        with progress_bar("episodes") as progress:
            tensor = cross_play(
                checkpoints, env, read_json(env_config, "--env-config") if env_config else None,
                read_json(players, "--players") if players else None, episodes=episodes, until_decided=until_decided,
                max_episodes=max_episodes, symmetric=False if by_seat else "auto", explore=explore, num_workers=workers,
                directory=out, seed=seed, allow=allow or [], progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        print("stopped." + (f" The same command goes on with what is in {out}." if out else ""), file=sys.stderr)
        raise typer.Exit(130) from None
    if out is not None:
        tensor.save(out.expanduser() / "payoffs.json")
    if as_json:
        print(json.dumps(tensor.as_json()))
        return
    Console(width=100_000, emoji=False).print(payoff_table(tensor))  # a cell in two lines cannot be read
    print(caption(tensor))
    if out is not None:
        print(f"payoffs: {out / 'payoffs.json'}")


@app.command()
def exploit(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a run directory (its newest one is measured).")],
    method: Annotated[str, typer.Option(help="exact, best_response, or auto: exact on small games.")] = "auto",
    algo: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Algorithm of trained best responses; default: the run's."),
    ] = None,
    timesteps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Env steps of training per player. Default: 20000."),
    ] = None,
    episodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=2, help="Episodes that show what a best response earns. Default: 400."),
    ] = None,
    max_nodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="exact: the largest tree, in nodes. Default: 200000."),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0: in this process.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    allow: Allow = None,
) -> None:
    """Measure how far a trained run is from equilibrium: NashConv, exact or as a lower bound."""
    from pydantic import ValidationError

    from marl.analysis.exploit import exploitability_of, told
    from marl.config import explain
    from marl.populations.exploit_config import ExploitabilityConfig

    given = {"best_response_algo": algo, "best_response_timesteps": timesteps, "best_response_episodes": episodes}
    given |= {"max_nodes": max_nodes, "method": method}
    try:
        config = ExploitabilityConfig(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        raise explain(error, "marl exploit", ExploitabilityConfig.model_fields) from None
    found = exploitability_of(checkpoint, config, workers, allow or [])
    print(json.dumps(found.as_json(), indent=2) if as_json else "\n".join(told(found)))


@app.command()
def report(
    env: Annotated[str, typer.Argument(help="The world, as behind `env:` in a scenario.")],
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
    env_config: Annotated[Optional[str], typer.Option(help="env_config as JSON, or @file.json.")] = None,  # noqa: UP045
    players: Annotated[Optional[str], typer.Option(help="Players as JSON, as in crossplay.")] = None,  # noqa: UP045
    episodes: Annotated[int, typer.Option(help="Episodes per pairing, and of random play; at least 2.")] = 100,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="More episodes where it is open who earns more.")
    ] = False,
    by_seat: Annotated[bool, typer.Option("--by-seat", help="Do not average over seats.")] = False,
    explore: Annotated[Optional[bool], typer.Option("--explore/--greedy", help="As in crossplay.")] = None,  # noqa: UP045
    best_response: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, metavar="TIMESTEPS", help="Also train best responses, for so many env steps per player."),
    ] = None,
    max_nodes: Annotated[int, typer.Option(min=1, help="The largest tree that is solved exactly, in nodes.")] = 50_000,
    workers: Annotated[int, typer.Option(min=0, help="Ray workers; 0: in this process.")] = 0,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Where the report goes. Default: report_ENV."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    allow: Allow = None,
) -> None:
    """Report on a game and on those trained for it: payoffs, ranking, exploitability, equilibria, curves; text, JSON, HTML.

    Exit codes: 0 when the report is written, 2 for bad input, 130 after Ctrl-C (what was played is kept).
    """
    from marl.analysis.progress import progress_bar
    from marl.analysis.report.build import Wishes, build_report, checked_place, default_directory

    wishes = Wishes(
        all_checkpoints, members, not no_random, episodes, until_decided, by_seat, explore, workers, seed, best_response,
        max_nodes, allow or [],
    )  # fmt: skip
    directory = checked_place(out or default_directory(env))
    try:
        with progress_bar("report") as progress:
            found = build_report(
                env, checkpoints or [], read_json(env_config, "--env-config") if env_config else None,
                read_json(players, "--players") if players else None, wishes, directory, progress,
            )  # fmt: skip
            found.write(directory)
    except KeyboardInterrupt:
        print(f"stopped. The same command goes on with what is in {directory}.", file=sys.stderr)
        raise typer.Exit(130) from None
    print(json.dumps(found.as_json()) if as_json else f"{found.text}\nreport: {directory / 'report.html'}")


@app.command()
def config(
    algo: Annotated[Optional[str], typer.Argument(help="An algorithm; without one, the keys of a scenario.")] = None,  # noqa: UP045
    all_keys: Annotated[bool, typer.Option("--all", help="The keys of everything.")] = False,
) -> None:
    """Print every key with its type, default and meaning."""
    from marl.scenario.reference import algorithm_keys, everything, scenario_keys

    if algo and all_keys:
        raise ConfigError("give an algorithm, or --all, not both.")
    print(everything() if all_keys else algorithm_keys(algo) if algo else scenario_keys())


@app.command(name="list")
def list_() -> None:
    """Show algorithms, worlds, mappers and scenarios."""
    from marl.scenario.reference import overview

    print(overview(Path("scenarios")))


@app.command()
def check(
    env: Annotated[str, typer.Argument(help="The world, as behind `env:` in a scenario.")],
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
    """Look whether a world keeps its contract before training on it, and how fast it is.

    Exit codes: 0 when there are no errors (warnings may be), 2 otherwise.
    """
    from rich.console import Console

    from marl.envs.check import examine

    chosen = [read_json(text, "--wrapper") if text.startswith("{") else text for text in wrappers or []]
    report = examine(env, read_json(config_), steps, episodes=episodes, seed=seed, wrappers=chosen)
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        report.print(Console(soft_wrap=True, emoji=False))
    raise typer.Exit(0 if report.passed else 2)


def main() -> None:
    guarded(app)


if __name__ == "__main__":
    main()
