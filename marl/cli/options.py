"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from marl.cli.allowing import with_standing
from marl.errors import ConfigError
from marl.inputs import parse_json, read_text

Sets = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, e.g. --set algo.lr=0.001; repeatable."),
]
ConfigJson = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--config", metavar="JSON|@FILE", help="More keys as JSON, or @file.json; --set wins over them."),
]
LocalDir = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(metavar="DIR", help="Where results go. Default: MARL_RESULTS_DIR or ~/marl_results."),
]
NumWorkers = Annotated[Optional[int], typer.Option(min=0, help="Rollout workers; 0: in this process.")]  # noqa: UP045
Seed = Annotated[Optional[int], typer.Option(min=0, help="The seed of the run.")]  # noqa: UP045
Seeds = Annotated[Optional[str], typer.Option(help="Several runs, one per seed: 0..4 or 0,3,7.")]  # noqa: UP045
Stacked = Annotated[
    bool,
    typer.Option(
        "--stacked", help="Train all seeds in this process at once, their updates as one batched computation."
    ),
]
StopIters = Annotated[Optional[int], typer.Option(min=1, help="Stop after so many iterations.")]  # noqa: UP045
StopTimesteps = Annotated[Optional[int], typer.Option(min=1, help="Stop after so many env steps.")]  # noqa: UP045
StopReward = Annotated[Optional[float], typer.Option(help="Stop at this episode_reward_mean.")]  # noqa: UP045
CheckpointFreq = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=0, help="Iterations between checkpoints; 0: only at the end."),
]
KeepCheckpoints = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="How many of the newest checkpoints are kept, besides the best."),
]
AsTest = Annotated[bool, typer.Option("--as-test", help="Exit with 1 if the goal is missed.")]
Allow = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--allow",
        metavar="MODULE",
        help="A module that the checkpoint may import; repeatable. Also MARL_ALLOW, for all commands.",
        callback=with_standing,
    ),
]
EnvAgain = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Give a key of the run's env again, e.g. --set env_config.filename=PATH; repeatable.",
    ),
]
NumCpus = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="CPUs that a Ray started by this run may use."),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON result per iteration; everything else goes to stderr."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the last line (`results: DIR`) alone.")]
Verbose = Annotated[
    int,
    typer.Option("--verbose", "-v", count=True, help="Log what begins and ends (log_level INFO); -vv: every round."),
]


# More is no config but a mistake, such as a checkpoint or a video.
LARGEST_FILE = 1_000_000  # bytes


class Output(Enum):
    """What a run prints on the standard output."""

    TABLE = "table"
    QUIET = "quiet"
    JSON = "json"


def output_of(as_json: bool, quiet: bool) -> Output:
    one_of({"--json": as_json, "--quiet": quiet})
    if as_json:
        return Output.JSON
    if quiet:
        return Output.QUIET
    return Output.TABLE


def one_of(options: Mapping[str, object]) -> None:
    """Refuse two options of which each makes the other one mean nothing; None and False are not given."""
    given: list[str] = []
    for name, value in options.items():
        # 0 is a value that somebody gave, although it is equal to False.
        if value is None or value is False:
            continue
        given.append(name)
    if len(given) > 1:
        first, second, *_ = given
        raise ConfigError(f"{first} and {second} cannot be given together.")


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, by the key that they set."""
    # None is "not given": a 0 or a false is a value that the user may want.
    return {key: value for key, value in options.items() if value is not None}


def log_level_of(verbose: int) -> str | None:
    """``-v`` is INFO, ``-vv`` is DEBUG; without it the scenario's ``log_level`` holds."""
    # None and not WARN: the scenario may say DEBUG itself.
    return (None, "INFO", "DEBUG")[min(verbose, 2)]


def read_json(text: str | None, option: str = "--config") -> dict[str, Any]:
    """A JSON object given as text or as ``@file``."""
    if text is None:
        return {}
    # As curl does: keys of any length without a shell's quotes.
    if text.startswith("@"):
        path = Path(text[1:])
        if not path.exists():
            raise ConfigError(f"{option} {text}: there is no file {path}.")
        try:
            text = read_text(path, largest=LARGEST_FILE)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{option} {text}: cannot be read as text ({error}).") from error
    try:
        loaded = parse_json(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{option} is not readable JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        ) from None
    except ValueError as error:  # nested too deeply, or a number of thousands of digits
        raise ConfigError(f"{option} is not readable JSON: {error}.") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f'{option} holds a {type(loaded).__name__}; expected an object such as {{"lr": 0.001}}.')
    return loaded


def stop_changes(iters: int | None, timesteps: int | None, reward: float | None) -> dict[str, float]:
    return given(training_iteration=iters, timesteps_total=timesteps, episode_reward_mean=reward)


def parse_seeds(text: str) -> list[int]:
    """``0..4`` or ``0,3,7``, each seed once: a run that counts twice would look like two."""
    try:
        found = _numbers_in(text)
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise ConfigError(f"--seeds {text!r}: expected a range such as 0..4 or a list such as 0,3,7.")
    if len(set(found)) < len(found):  # only then are they counted, as ranges may be long
        twice = next(seed for seed in found if found.count(seed) > 1)
        raise ConfigError(f"--seeds {text!r} has seed {twice} more than once. Give each seed once.")
    return found


def _numbers_in(text: str) -> list[int]:
    if ".." in text:
        first, last = text.split("..")
        end = int(last) + 1  # 0..4 has 4 in it
        return list(range(int(first), end))
    return [int(part) for part in text.split(",")]


def count_or_seeds(text: str) -> list[int]:
    """``5``: so many seeds, from 0 on; else as ``parse_seeds``."""
    if not text.isdecimal():
        return parse_seeds(text)
    count = int(text)
    if count == 0:
        raise ConfigError("--seeds 0: expected at least 1 seed. For seed 0 alone say --seeds 1, or 0..0.")
    return list(range(count))
