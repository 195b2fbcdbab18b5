"""``python -m marl.run scenarios/x.yaml``: run a scenario."""

from __future__ import annotations

import faulthandler
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from marl.cli_options import (
    Allow,
    AsJson,
    AsTest,
    CheckpointFreq,
    ConfigJson,
    KeepCheckpoints,
    LocalDir,
    NumCpus,
    NumWorkers,
    Output,
    QuietOption,
    Seed,
    Seeds,
    Sets,
    StopIters,
    StopReward,
    StopTimesteps,
    Verbose,
    given,
    log_level_of,
    output_of,
    parse_seeds,
    read_json,
    stop_changes,
)
from marl.errors import ConfigError, UserError

Resume = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="Go on with a run directory or checkpoint; its scenario is used if no FILE is given."),
]


def run(
    file: Annotated[Optional[Path], typer.Argument(help="A scenario file.")] = None,  # noqa: UP045
    config: ConfigJson = None,
    sets: Sets = None,
    local_dir: LocalDir = None,
    num_workers: NumWorkers = None,
    num_cpus: NumCpus = None,
    seed: Seed = None,
    seeds: Seeds = None,
    stop_iters: StopIters = None,
    stop_timesteps: StopTimesteps = None,
    stop_reward: StopReward = None,
    checkpoint_freq: CheckpointFreq = None,
    keep_checkpoints: KeepCheckpoints = None,
    resume: Resume = None,
    as_test: AsTest = False,
    as_json: AsJson = False,
    quiet: QuietOption = False,
    verbose: Verbose = 0,
    allow: Allow = None,
) -> None:
    """Run a scenario until its stop condition; Ctrl-C saves a checkpoint and says how to go on.

    Of FILE, --config, --set and the options for single keys, the later ones win. Exit codes: 0 when the run ended in the
    regular way, 1 with --as-test when the goal was missed, 2 for bad input, 130 after Ctrl-C. The last line printed is
    `results: DIR`.
    """
    if file is None and resume is None:
        raise ConfigError("give a scenario file, or --resume RUN to go on with an earlier run. Try: marl list")
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds cannot be given together.")
    if resume is not None and seeds is not None:
        raise ConfigError("--resume goes on with one run, so it cannot be given with --seeds.")
    output, more = output_of(as_json, quiet), read_json(config)
    options = given(
        num_workers=num_workers, ray_num_cpus=num_cpus, seed=seed, checkpoint_freq=checkpoint_freq,
        keep_checkpoints=keep_checkpoints, log_level=log_level_of(verbose),
    )  # fmt: skip
    stops = stop_changes(stop_iters, stop_timesteps, stop_reward)
    codes = []
    for index, one_seed in enumerate(parse_seeds(seeds) if seeds is not None else [None]):
        raw = raw_scenario(file, resume, sets or [], more, {**options, **given(seed=one_seed)})
        codes.append(
            execute(raw, stops, local_dir, resume, as_test, frozenset(allow or []), file is None, index, output)
        )
        if codes[-1] == 130:
            break
    raise typer.Exit(max(codes))


def raw_scenario(
    file: Path | None,
    resume: Path | None,
    sets: list[str],
    config: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The scenario as a dict: of the file, or of the checkpoint to resume, or empty; changed by ``--config``, then by
    ``--set``, then by options for single keys."""
    from marl.scenario.load import apply, parse_set, read_yaml

    raw: dict[str, Any] = {}
    if file is not None:
        raw = read_yaml(file)
        raw.setdefault("name", file.stem)
    elif resume is not None:
        from marl.training.checkpoint import find_checkpoint, read_part

        raw = read_part(find_checkpoint(resume), "run")["scenario"]
    changes = [*(config or {}).items(), *(parse_set(text) for text in sets), *(options or {}).items()]
    for key, value in changes:
        apply(raw, key, value)
    return raw


def execute(
    raw: Mapping[str, Any],
    stops: Mapping[str, float],
    local_dir: Path | None,
    resume: Path | None,
    as_test: bool,
    allow: frozenset[str],
    from_checkpoint: bool,
    index: int = 0,
    output: Output = Output.TABLE,
) -> int:
    """One run from start to end; gives the exit code."""
    from marl.registry import only_modules
    from marl.scenario.load import compose

    keys = dict(raw)
    if stops:
        before = keys.get("stop") or {}
        keys["stop"] = {**before, **stops} if isinstance(before, Mapping) else before
    if as_test and not keys.get("goal"):
        if "episode_reward_mean" not in stops:
            raise ConfigError("--as-test needs a goal: in the scenario, or by --stop-reward.")
        keys["goal"] = {"episode_reward_mean": stops["episode_reward_mean"]}
    if from_checkpoint:
        with only_modules(allow):
            return _train(compose(keys, str(resume)), local_dir, resume, as_test, index, output)
    return _train(compose(keys, str(raw.get("name", "config"))), local_dir, resume, as_test, index, output)


def _train(
    scenario: Any, local_dir: Path | None, resume: Path | None, as_test: bool, index: int, output: Output
) -> int:
    from marl.training.checkpoint import find_checkpoint
    from marl.training.session import run_to_the_end
    from marl.training.trainer import Trainer

    folder = find_checkpoint(resume) if resume is not None else None
    with _displayed(output) as display:
        trainer = Trainer(scenario=scenario, fresh=folder is None)
        try:
            try:
                if scenario.num_workers:
                    display.note(f"starting Ray and {scenario.num_workers} workers ...")
                _open(trainer, folder, local_dir, index)
            except KeyboardInterrupt:
                display.finish(["stopped before the first iteration; nothing was written"])
                return 130
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


def _open(trainer: Any, folder: Path | None, local_dir: Path | None, index: int) -> None:
    """Workers and a run directory, ready for the first iteration: a new run, or one that goes on from a checkpoint."""
    from marl.training.places import default_results

    if folder is None:
        trainer.workers.start()
        trainer.store.create(local_dir or default_results(), index)
        return
    trainer.restore(folder)
    if folder.parent.name == "checkpoints" and local_dir is None:  # where it was
        trainer.store.open(folder.parent.parent)
        trainer.store.go_on()
    else:
        trainer.store.create(local_dir or default_results(), index)


@contextmanager
def _displayed(output: Output) -> Iterator[Any]:
    """Where the run is shown. While JSON is printed, whatever else is printed (by a world, for instance) goes to stderr."""
    from marl.training.display import JsonLines, LastLine, make_display

    if output is Output.TABLE:
        yield make_display()
    elif output is Output.QUIET:
        yield LastLine()
    else:
        display = JsonLines(sys.stdout, sys.stderr)
        with redirect_stdout(sys.stderr):
            yield display


def _closing_lines(trainer: Any, outcome: Any) -> list[str]:
    from marl.training.result import look_up

    lines = []
    if trainer.scenario.goal:
        wanted = ", ".join(f"{field} {value:g}" for field, value in trainer.scenario.goal.items())
        verdict = "met" if trainer.goal_met else "not met yet" if outcome.interrupted else "missed"
        lines.append(f"goal {verdict}: {wanted}")
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
    except KeyboardInterrupt:  # before a command has begun, or after it has ended
        print("stopped", file=sys.stderr)
        sys.exit(130)


def main() -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(run)
    guarded(app)


if __name__ == "__main__":
    main()
