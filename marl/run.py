"""``python -m marl.run scenarios/x.yaml``: run a scenario."""

from __future__ import annotations

import faulthandler
import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from marl.errors import ConfigError, UserError

Sets = Annotated[
    Optional[list[str]], typer.Option("--set", metavar="KEY=VALUE", help="Change a key, e.g. --set algo.lr=0.001.")  # noqa: UP045
]
LocalDir = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="Where results go. Default: MARL_RESULTS_DIR or ~/marl_results."),
]
NumWorkers = Annotated[Optional[int], typer.Option(min=0, help="Rollout workers; 0: in this process.")]  # noqa: UP045
Seed = Annotated[Optional[int], typer.Option(min=0, help="The seed of the run.")]  # noqa: UP045
Seeds = Annotated[Optional[str], typer.Option(help="Several runs, one per seed: 0..4 or 0,3,7.")]  # noqa: UP045
StopIters = Annotated[Optional[int], typer.Option(min=1, help="Stop after so many iterations.")]  # noqa: UP045
StopTimesteps = Annotated[Optional[int], typer.Option(min=1, help="Stop after so many env steps.")]  # noqa: UP045
StopReward = Annotated[Optional[float], typer.Option(help="Stop at this episode_reward_mean.")]  # noqa: UP045
Resume = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="Go on with a run directory or checkpoint; its scenario is used if no FILE is given."),
]
AsTest = Annotated[bool, typer.Option("--as-test", help="Exit with 1 if the goal is missed.")]
Allow = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--allow", metavar="MODULE", help="A module that the checkpoint may import; repeatable."),
]
NumCpus = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="CPUs that a Ray started by this run may use."),
]


def run(
    file: Annotated[Optional[Path], typer.Argument(help="A scenario file.")] = None,  # noqa: UP045
    sets: Sets = None,
    local_dir: LocalDir = None,
    num_workers: NumWorkers = None,
    num_cpus: NumCpus = None,
    seed: Seed = None,
    seeds: Seeds = None,
    stop_iters: StopIters = None,
    stop_timesteps: StopTimesteps = None,
    stop_reward: StopReward = None,
    resume: Resume = None,
    as_test: AsTest = False,
    allow: Allow = None,
) -> None:
    """Run a scenario until its stop condition; Ctrl-C saves a checkpoint and says how to go on.

    Exit codes: 0 when the run ended in the regular way, 1 with --as-test when the goal was missed, 2 for bad input, 130 after
    Ctrl-C. The last line printed is `results: DIR`.
    """
    if file is None and resume is None:
        raise ConfigError("give a scenario file, or --resume RUN to go on with an earlier run. Try: marl list")
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds cannot be given together.")
    if resume is not None and seeds is not None:
        raise ConfigError("--resume goes on with one run, so it cannot be given with --seeds.")
    changes: dict[str, Any] = {}
    for key, value in (("num_workers", num_workers), ("seed", seed), ("ray_num_cpus", num_cpus)):
        if value is not None:
            changes[key] = value
    stops = stop_changes(stop_iters, stop_timesteps, stop_reward)
    codes = []
    for index, one_seed in enumerate(parse_seeds(seeds) if seeds is not None else [None]):
        if one_seed is not None:
            changes["seed"] = one_seed
        raw = raw_scenario(file, resume, sets or [])
        codes.append(
            execute(raw, changes, stops, local_dir, resume, as_test, frozenset(allow or []), file is None, index)
        )
        if codes[-1] == 130:
            break
    raise typer.Exit(max(codes))


def raw_scenario(file: Path | None, resume: Path | None, sets: list[str]) -> dict[str, Any]:
    """The scenario as a dict: from the file, or from the checkpoint to resume."""
    from marl.scenario.load import apply, parse_set, read_yaml

    if file is not None:
        raw = read_yaml(file)
        raw.setdefault("name", file.stem)
    else:
        from marl.training.checkpoint import find_checkpoint, read_part

        assert resume is not None
        raw = read_part(find_checkpoint(resume), "run")["scenario"]
    for text in sets:
        apply(raw, *parse_set(text))
    return raw


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


def stop_changes(iters: int | None, timesteps: int | None, reward: float | None) -> dict[str, float]:
    named = {"training_iteration": iters, "timesteps_total": timesteps, "episode_reward_mean": reward}
    return {field: value for field, value in named.items() if value is not None}


def parse_seeds(text: str) -> list[int]:
    """``0..4`` or ``0,3,7``."""
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split(".."))
            found = list(range(first, last + 1))
        else:
            found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise ConfigError(f"--seeds {text!r}: expected a range such as 0..4 or a list such as 0,3,7.")
    return found


def execute(
    raw: Mapping[str, Any],
    changes: Mapping[str, Any],
    stops: Mapping[str, float],
    local_dir: Path | None,
    resume: Path | None,
    as_test: bool,
    allow: frozenset[str],
    from_checkpoint: bool,
    index: int = 0,
) -> int:
    """One run from start to end; gives the exit code."""
    from marl.registry import only_modules
    from marl.scenario.load import compose

    keys = {**raw, **changes}
    if stops:
        given = keys.get("stop") or {}
        keys["stop"] = {**given, **stops} if isinstance(given, Mapping) else given
    if as_test and not keys.get("goal"):
        if "episode_reward_mean" not in stops:
            raise ConfigError("--as-test needs a goal: in the scenario, or by --stop-reward.")
        keys["goal"] = {"episode_reward_mean": stops["episode_reward_mean"]}
    if from_checkpoint:
        with only_modules(allow):
            return _train(compose(keys, str(resume)), local_dir, resume, as_test, index)
    return _train(compose(keys, str(raw.get("name", "config"))), local_dir, resume, as_test, index)


def _train(scenario: Any, local_dir: Path | None, resume: Path | None, as_test: bool, index: int) -> int:
    from marl.training.checkpoint import find_checkpoint
    from marl.training.display import make_display
    from marl.training.places import default_results
    from marl.training.session import run_to_the_end
    from marl.training.trainer import Trainer

    folder = find_checkpoint(resume) if resume is not None else None
    trainer = Trainer(scenario=scenario, fresh=folder is None)
    try:
        if folder is None:
            trainer.workers.start()
            trainer.store.create(local_dir or default_results(), index)
        else:
            at_home = folder.parent.name == "checkpoints" and local_dir is None
            trainer.restore(folder)
            if at_home:
                trainer.store.open(folder.parent.parent)
                trainer.store.go_on()
            else:
                trainer.store.create(local_dir or default_results(), index)
        display = make_display()
        try:
            outcome = run_to_the_end(trainer, display)
        except Exception:
            display.finish(_after_failure(trainer.store.directory, fresh=folder is None))
            raise
        except KeyboardInterrupt:  # the second Ctrl-C
            display.finish(_after_failure(trainer.store.directory, fresh=folder is None))
            return 130
        display.finish(_closing_lines(trainer, outcome))
    finally:
        trainer.stop()
    if outcome.interrupted:
        return 130
    return 1 if as_test and not trainer.goal_met else 0


def _closing_lines(trainer: Any, outcome: Any) -> list[str]:
    from marl.training.result import look_up

    lines = []
    if trainer.scenario.goal:
        wanted = ", ".join(f"{field} {value:g}" for field, value in trainer.scenario.goal.items())
        lines.append(f"goal {'met' if trainer.goal_met else 'missed'}: {wanted}")
    metric = trainer.scenario.evaluation.metric
    value = look_up(trainer.last_evaluation or {}, metric)
    if value is not None:
        lines.append(f"last evaluation: {metric} {value:.4g}")
    if outcome.interrupted:
        lines.append(f"stopped at iteration {trainer.iteration}. Go on with: {_resume_command(outcome.directory)}")
    lines += [f"checkpoint: {outcome.checkpoint}", f"results: {outcome.directory}"]
    return lines


def _after_failure(directory: Path | None, fresh: bool) -> list[str]:
    """Where the last checkpoint is; a fresh run that wrote no result at all leaves nothing behind."""
    if directory is None:
        return []
    kept = sorted((directory / "checkpoints").glob("checkpoint_*"))
    if fresh and not kept and not (directory / "result.json").exists():
        shutil.rmtree(directory, ignore_errors=True)
        return ["the run ended before its first result; nothing was kept"]
    last = f"last checkpoint: {kept[-1]}. Go on with: {_resume_command(directory)}" if kept else "no checkpoint yet"
    return [last, f"results: {directory}"]


def _resume_command(directory: Path) -> str:
    """What to type to go on; a checkpoint may only load the user's own modules if the user says so again."""
    from marl.registry import used_packages

    return " ".join(["marl run --resume", str(directory), *(f"--allow {package}" for package in used_packages())])


def guarded(app: Callable[[], Any]) -> None:
    """Run a command line: mistakes of the user end with one clear message and code 2, never with a traceback."""
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    try:
        app()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def main() -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(run)
    guarded(app)


if __name__ == "__main__":
    main()
