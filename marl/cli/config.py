"""The commands around configuration: ``marl init``, ``schema``, ``show``, ``doctor``, ``debug``, ``tune-throughput``."""

from __future__ import annotations

import json
import pdb
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Optional

import typer

from marl.cli.options import ConfigJson, Seed, Sets, StopIters, given, read_json, stop_changes
from marl.errors import ConfigError, UserError
from marl.inputs import real_path
from marl.storage import storing, write_atomically

EnvConfig = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--config", metavar="JSON|@FILE", help="env_config of the env as JSON, or @file.json."),
]
Algo = Annotated[str, typer.Option("--run", metavar="ALGO", help="The algorithm.")]


def init(
    env: Annotated[str, typer.Argument(help="The env, as behind `env:` in a scenario.")],
    config: EnvConfig = None,
    algo: Algo = "ppo",
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Where to write it; - prints it. Default: the env's name with .yaml."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")] = False,
) -> None:
    """Write a commented scenario for an env, which runs as it is."""
    from marl.scenario.init_template import file_name, scenario_text

    path = out or Path(file_name(env))
    to_screen = str(path) == "-"
    # Before the env is built, which may take a while.
    if not to_screen and path.exists() and not force:
        raise ConfigError(f"{path} is there already. Choose another --out, or write over it with --force.")
    text = scenario_text(env, read_json(config), algo)
    if to_screen:
        print(text, end="")
        return
    _write(path, text)
    print(f"wrote {path}. Run it: marl run {path}")


def _write(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():  # /dev/stdout, for instance
        with storing(path):
            path.write_text(text, encoding="utf-8")
    else:
        write_atomically(real_path(path), text)  # what a link means, not the link


def schema(
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write it there instead."),
    ] = None,
    of_suite: Annotated[bool, typer.Option("--suite", help="Of a suite file instead (marl suite).")] = False,
) -> None:
    """Print the JSON schema of a scenario, for completion and checks in editors (see docs/configuration.md)."""
    from marl.scenario.schema import scenario_schema
    from marl.suite.schema import suite_schema
    from marl.tune.config import TuneConfig

    found = suite_schema() if of_suite else scenario_schema({"tune": TuneConfig})
    text = json.dumps(found, indent=1)
    if out is None:
        print(text)
    else:
        _write(out, text + "\n")


def show(
    algo: Annotated[str, typer.Argument(metavar="ALGO", help="An algorithm, or package.module:Class.")],
    imports: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--import", metavar="MODULE", help="A module that registers it; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print name, file, line and code of each function.")] = False,
) -> None:
    """Print the code of an algorithm in reading order: learn, the update, the losses, the returns, the optimiser's step."""
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.text import Text

    from marl.algos.presets import ALGOS
    from marl.registry import import_module

    # First, as the algorithm's name may be registered by one of them.
    for module in imports or []:
        import_module(module, "--import")
    preset = ALGOS[algo]
    passages = preset.reading()
    console = Console(emoji=False, highlight=False)
    if as_json:
        code = [asdict(passage) for passage in passages]
        print(json.dumps({"algo": preset.name, "summary": preset.summary, "code": code}, indent=1))
    elif not console.is_terminal:  # valid Python, to be piped into a file or a pager
        parts = [f"# {passage.place}  {passage.name}\n{passage.code}\n" for passage in passages]
        print("\n".join([f"# {preset.name}: {preset.summary}\n", *parts]), end="")
    else:
        console.print(f"{preset.name}: {preset.summary}\n", style="bold", markup=False)
        for passage in passages:
            console.rule(Text(f"{passage.place}  {passage.name}"), align="left")
            highlighted = Syntax(
                passage.code,
                "python",
                line_numbers=True,
                start_line=passage.line,
                word_wrap=True,
                background_color="default",  # the terminal's own
            )
            console.print(highlighted)


def doctor(
    without_ray: Annotated[bool, typer.Option("--without-ray", help="Do not start Ray, which takes seconds.")] = False,
) -> None:
    """Look whether this installation works: packages, torch, a place for results, a short run, a run on Ray.

    Exit codes: 0 when it does (warnings may be), 2 otherwise.
    """
    from marl.diagnostics.doctor import examine

    bad = 0
    for finding in examine(with_ray=not without_ray):
        print(finding, flush=True)  # one by one: the last ones take seconds
        bad += finding.verdict == "error"
    if bad:
        print(f"{bad} thing(s) to mend")
        raise typer.Exit(2)
    print("everything works")


def debug(
    file: Annotated[Path, typer.Argument(help="A scenario file, or the name of a shipped one.")],
    config: ConfigJson = None,
    sets: Sets = None,
    seed: Seed = None,
    stop_iters: StopIters = None,
) -> None:
    """Run a scenario in one process and open Python's debugger where it fails.

    Nothing is written to disk. Workers and learners are in this process, whatever the scenario says, so breakpoint() in a
    env, a model or a callback works; so does Ctrl-C. Exit codes: 0 without an error, 2 after one.
    """
    from marl.diagnostics.debug import run_here
    from marl.run import raw_scenario
    from marl.scenario.load import compose

    # A debugger needs the error in this very process, and the screen for itself.
    alone = {"num_workers": 0, "num_learners": 1, "pool": "auto", "collection": "auto", **given(seed=seed)}
    raw: dict[str, Any] = raw_scenario(file, None, sets or [], read_json(config), alone)
    stops = stop_changes(stop_iters, None, None)
    scenario = compose({**raw, "stop": {**(raw.get("stop") or {}), **stops}}, str(file))
    try:
        run_here(scenario)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, ConfigError) and error.__cause__ is None:  # a mistake in the file: nothing to look at
            raise
        _open_debugger(error)
        raise typer.Exit(2) from None


def _open_debugger(error: BaseException) -> None:
    """In the frame that raised first: errors of ours are raised from those of an env or a model."""
    traceback.print_exception(error)
    if isinstance(error, UserError):
        print(f"\nerror: {error}", file=sys.stderr)
    # The user's own line is what he wants to see, not the one of ours that told it.
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    # An error that was made and never raised, as a cause may be, has no place of its own.
    place: TracebackType | None = first.__traceback__ or error.__traceback__
    print("\nPython's debugger: w shows where, p NAME a variable, u and d move, q leaves.", file=sys.stderr)
    pdb.post_mortem(place)


def tune_throughput(
    env: Annotated[str, typer.Argument(help="The env, as behind `env:` in a scenario.")],
    config: ConfigJson = None,
    algo: Algo = "ppo",
    workers: Annotated[str, typer.Option(help="Numbers of Ray workers to try; 0: in this process.")] = "0,1,2",
    copies: Annotated[str, typer.Option(help="Copies of the env per worker to try.")] = "1,4,16,64",
    seconds: Annotated[float, typer.Option(min=0.0, help="How long each measurement takes at least.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure how many workers and copies of an env are fastest here, and say it.

    The table shows env steps per second: collecting alone, and with learning. --config are more keys of the scenario.
    """
    from rich.console import Console
    from rich.table import Table

    from marl.diagnostics.env_speed import advice, measure, settings

    table = Table("workers", "copies", "device", title=f"{env} by {algo}: env steps per second")
    for heading in ("collecting", "with learning"):
        table.add_column(heading, justify="right")
    speeds = []
    # The command's own words win over --config.
    keys = {**read_json(config), "env": env, "algo": algo}
    tried = settings(numbers(workers, "--workers", 0), numbers(copies, "--copies", 1))
    for speed in measure(keys, tried, seconds):
        speeds.append(speed)
        if not as_json:
            print(f"{speed.setting}: {speed.collecting:,.0f}, with learning {speed.training:,.0f}", flush=True)
        where = speed.setting
        rates = f"{speed.collecting:,.0f}", f"{speed.training:,.0f}"
        table.add_row(str(where.num_workers), str(where.num_envs_per_worker), where.device, *rates)
    if as_json:
        measured = [speed.as_json() for speed in speeds]
        print(json.dumps({"env": env, "speeds": measured, "advice": advice(speeds)}))
        return
    Console(emoji=False).print(table)
    print("\n".join(advice(speeds)))


def numbers(text: str, option: str, least: int) -> list[int]:
    """``0,1,2``."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < least:
        raise ConfigError(f"{option} {text!r}: expected whole numbers of at least {least}, such as {least},4,16.")
    return found
