"""``marl tune``: search for good values of a scenario's keys."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from marl.cli.options import (
    Allow,
    LocalDir,
    NumCpus,
    NumWorkers,
    Seed,
    Sets,
    StopIters,
    StopReward,
    StopTimesteps,
    given,
    stop_changes,
)
from marl.errors import ConfigError, printable

if TYPE_CHECKING:
    from marl.trust import Trust
    from marl.tune.outcome import Tuning

NumSamples = Annotated[Optional[int], typer.Option(min=1, help="Trials per point of the grid.")]  # noqa: UP045
Metric = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Result field to compare by. Default: the evaluation's."),
]
Mode = Annotated[Optional[str], typer.Option(metavar="max|min", help="What is better. Default: max.")]  # noqa: UP045
Scheduler = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="fifo|asha|pbt|schedule",
        help="asha stops trials that are behind; in pbt they copy one that is ahead. Default: fifo.",
    ),
]
MaxConcurrent = Annotated[Optional[int], typer.Option(min=1, help="Trials at the same time at most.")]  # noqa: UP045
Stacked = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option(
        "--stacked", help="Without Ray: trials that differ in lr and seed alone learn together in this process."
    ),
]
ResumeSearch = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(metavar="DIR", help="Go on with an interrupted search."),
]
Verbose = Annotated[
    int, typer.Option("--verbose", min=0, max=3, help="0: nothing, 1: table, 2: results, 3: all fields.")
]


def tune(
    file: Annotated[Optional[Path], typer.Argument(help="A scenario file with {grid_search: [...]}.")] = None,  # noqa: UP045
    sets: Sets = None,
    num_samples: NumSamples = None,
    metric: Metric = None,
    mode: Mode = None,
    scheduler: Scheduler = None,
    max_concurrent_trials: MaxConcurrent = None,
    stacked: Stacked = None,
    local_dir: LocalDir = None,
    num_workers: NumWorkers = None,
    num_cpus: NumCpus = None,
    seed: Seed = None,
    stop_iters: StopIters = None,
    stop_timesteps: StopTimesteps = None,
    stop_reward: StopReward = None,
    resume: ResumeSearch = None,
    allow: Allow = None,
    verbose: Verbose = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end and nothing else.")] = False,
) -> None:
    """Run a scenario once for each value that it searches over, side by side, and name the best.

    A value is searched by writing {grid_search: [...]}, {choice: [...]}, {uniform: [a, b]}, {loguniform: [a, b]} or
    {randint: [a, b]} in its place. Exit codes: 0 when all trials ended, 1 when one failed, 2 for bad input, 130 after
    Ctrl-C. The last line printed is `results: DIR`.
    """
    from marl.runs.damage import noted
    from marl.trust import under
    from marl.tune.config import tune_config
    from marl.tune.sweep import search_scenario

    # What a folder holds decides everything: a file beside it could only contradict it.
    if (file is None) == (resume is None):
        raise ConfigError("give a scenario file, or --resume DIR to go on with an interrupted search, but not both.")
    if resume is not None and local_dir is not None:
        raise ConfigError("--resume goes on where the search is, so it cannot be given with --local-dir.")
    trust, cpus = None, None
    if file is not None:
        keys, options = _read(file)
    if resume is not None:
        keys, options, cpus = _read_again(resume)
        trust = _trust_in(keys, resume, sets or [], allow or [])
    _change(keys, options, sets or [])
    keys.update(given(num_workers=num_workers, seed=seed))
    stops = stop_changes(stop_iters, stop_timesteps, stop_reward)
    # Added to those of the file: whichever is met first ends a trial.
    if stops:
        keys["stop"] = {**(keys.get("stop") or {}), **stops}
    options.update(
        given(
            num_samples=num_samples,
            metric=metric,
            mode=mode,
            scheduler=scheduler,
            max_concurrent_trials=max_concurrent_trials,
            stacked=stacked,
        )
    )
    where = str(file or resume)
    chosen = tune_config(options, where)
    if as_json:
        verbose = 0
    with noted() as damaged, under(trust):
        found = search_scenario(keys, chosen, where, None, local_dir, resume, num_cpus or cpus, verbose)
        # Still in this block: looking for the best checkpoint may find damaged ones.
        if as_json:
            told = json.dumps({**as_dict(found), **damaged.as_json()}, indent=2)
        else:
            told = "\n".join(closing_lines(found))
    print(told)
    raise typer.Exit(_exit_code(found))


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scenario's keys and its section ``tune``."""
    from marl.scenario.load import read_yaml

    keys = read_yaml(file)
    keys.setdefault("name", file.stem)
    options = keys.pop("tune", None) or {}
    if not isinstance(options, dict):
        raise ConfigError(f"{file}: tune is {options!r}; expected keys and values, such as `tune: {{num_samples: 4}}`.")
    return keys, options


def _read_again(directory: Path) -> tuple[dict[str, Any], dict[str, Any], int | None]:
    """The same of a search that was begun earlier, and how many CPUs its Ray had."""
    from marl.tune.sweep import stored_search

    keys, options, cpus = stored_search(directory)
    return keys, options.model_dump(), cpus


def _trust_in(keys: dict[str, Any], directory: Path, sets: list[str], allow: list[str]) -> Trust:
    """Names and places in a file are only used as far as the user says so again."""
    from marl.runs.saved import PLACES_OF_NEW_RUNS, check_given_again
    from marl.scenario.load import parse_set
    from marl.trust import Trust, words_of

    again = [parse_set(text) for text in sets]
    check_given_again(keys, [key for key, _ in again], directory, PLACES_OF_NEW_RUNS)
    typed = words_of([value for _, value in again])
    return Trust(frozenset(allow), frozenset(typed))


def _change(keys: dict[str, Any], options: dict[str, Any], sets: list[str]) -> None:
    """What was given by ``--set``; ``--set tune.KEY=VALUE`` goes to the options."""
    from marl.scenario.load import apply, parse_set

    for text in sets:
        key, value = parse_set(text)
        if key.startswith("tune."):
            options[key.removeprefix("tune.")] = value
        else:
            apply(keys, key, value)


def _exit_code(found: Tuning) -> int:
    if found.interrupted:
        return 130
    if found.failed:
        return 1
    return 0


def closing_lines(found: Tuning) -> list[str]:
    """The best trial, what failed, how to go on, where everything is."""
    from marl.tune.replay import FILE as SCHEDULE

    lines = [f"trial {trial.index:05d} failed: {printable(trial.error)}" for trial in found.failed]
    if found.has_score:
        best = found.best_trial
        values = ", ".join(f"{name}={value}" for name, value in best.params.items())
        lines.append(f"best trial: {best.index:05d} ({values}), {found.metric} {best.score:.4g}")
        if best.checkpoint is not None:
            lines.append(f"play it: marl rollout {shlex.quote(str(best.checkpoint))}")
        schedule = found.directory / SCHEDULE
        if schedule.exists():
            lines.append(f"train with its values by time: marl tune {shlex.quote(str(schedule))}")
    else:
        lines.append(f"no trial has a value of {found.metric} yet")
    if found.interrupted:
        lines.append(f"interrupted. Go on with: {found.go_on}")
    return [*lines, f"results: {found.directory}"]


def as_dict(found: Tuning) -> dict[str, Any]:
    """The same for programs."""
    from marl.runs.files import to_plain

    best = None  # `best_trial` is an error where no trial has a score
    if found.has_score:
        best = found.best_trial.index
    trials = []
    for trial in found.trials:
        checkpoint = None
        if trial.checkpoint is not None:
            checkpoint = str(trial.checkpoint)
        trials.append(
            {
                "index": trial.index,
                "trial_id": trial.trial_id,
                "params": to_plain(trial.params),
                "status": trial.status,
                "error": trial.error or None,
                "score": trial.score,
                "directory": str(trial.directory),
                "checkpoint": checkpoint,
            }
        )
    return {
        "directory": str(found.directory),
        "metric": found.metric,
        "mode": found.mode,
        "interrupted": found.interrupted,
        "best_trial": best,
        "trials": trials,
        **_of_population(found),
    }


def _of_population(found: Tuning) -> dict[str, Any]:
    """Who copied whom, and the values by time of every trial; nothing of trials that have nothing to do with each other."""
    if not found.schedules:
        return {}
    copies = []
    for generation in found.generations:
        for copy in generation.copies:
            copies.append({"at": generation.at, "clock": generation.clock, **copy.as_json()})
    return {"copies": copies, "schedules": found.schedules}
