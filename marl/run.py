"""``python -m marl.run scenarios/x.yaml``: run a scenario."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from marl.cli.guard import guarded, keep_traceback
from marl.cli.joyrl import played_instead
from marl.cli.last_words import after_failure, can_go_on, closing_lines, prepare_last_words, stopped_at_the_end
from marl.cli.options import (
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
    Stacked,
    StopIters,
    StopReward,
    StopTimesteps,
    Verbose,
    given,
    log_level_of,
    one_of,
    output_of,
    parse_seeds,
    read_json,
    stop_changes,
)
from marl.errors import ConfigError, StorageError, printable
from marl.trust import Trust, under, words_of

if TYPE_CHECKING:
    from marl.runs.saved import SavedRun

Resume = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        help="Go on with a run directory, or go back to a checkpoint or `best` in it; its scenario is used without FILE."
    ),
]


def run(
    file: Annotated[Optional[Path], typer.Argument(help="A scenario file, or the name of a shipped one.")] = None,  # noqa: UP045
    config: ConfigJson = None,
    sets: Sets = None,
    local_dir: LocalDir = None,
    num_workers: NumWorkers = None,
    num_cpus: NumCpus = None,
    seed: Seed = None,
    seeds: Seeds = None,
    stacked: Stacked = False,
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

    Of FILE, --config, --set and the options for single keys, the later ones win. With --stacked the same command goes on
    with seeds that were stopped. Exit codes: 0 when the run ended in the regular way, 1 with --as-test when the goal was
    missed, or when Ray died or disk or memory ran out and the run can go on, 2 for bad input, 130 after Ctrl-C. The last
    line printed is `results: DIR`.
    """
    if file is None and resume is None:
        raise ConfigError("give a scenario file, or --resume RUN to go on with an earlier run. Try: marl list")
    of_training = {
        "--config": config, "--set": sets, "--local-dir": local_dir, "--num-workers": num_workers, "--seed": seed,
        "--seeds": seeds, "--stacked": stacked, "--stop-iters": stop_iters, "--stop-timesteps": stop_timesteps,
        "--stop-reward": stop_reward, "--resume": resume, "--as-test": as_test, "--quiet": quiet,
    }  # fmt: skip
    if played_instead(file, of_training, allow, as_json):
        return
    one_of({"--seed": seed, "--seeds": seeds})
    if resume is not None and seeds is not None:
        raise ConfigError("--resume goes on with one run, so it cannot be given with --seeds.")
    if stacked and seeds is None:
        raise ConfigError(
            "--stacked trains several seeds in one process, but none are given. Add --seeds, such as 0..9."
        )
    output, more = output_of(as_json, quiet), read_json(config)
    saved = _opened(resume)  # once, as every file is compared with its hash
    options = given(
        num_workers=num_workers, ray_num_cpus=num_cpus, seed=seed, checkpoint_freq=checkpoint_freq,
        keep_checkpoints=keep_checkpoints, log_level=log_level_of(verbose),
    )  # fmt: skip
    stops = stop_changes(stop_iters, stop_timesteps, stop_reward)
    sets = sets or []
    folder, trust = None, None
    if saved is not None:
        folder = saved.folder
    if file is None:  # the scenario comes from the checkpoint, which may be a stranger's
        trust = Trust(frozenset(allow or []), _words_typed(sets, more))
    raw = raw_scenario(file, saved, sets, more, options)  # once: reading it may say something
    if stacked:
        raise typer.Exit(_all_at_once(raw, parse_seeds(str(seeds)), stops, local_dir, as_test, output))
    codes = []
    for index, one_seed in enumerate(_seeds_of(seeds)):
        code = execute({**raw, **given(seed=one_seed)}, stops, local_dir, folder, as_test, trust, index, output)
        codes.append(code)
        if code == 130:  # Ctrl-C means the command, not one of its seeds
            break
    raise typer.Exit(max(codes))


def _words_typed(sets: list[str], config: Mapping[str, Any]) -> frozenset[str]:
    """Names that stand in the command itself: whoever typed them trusts them."""
    values = [value for _, value in given_values(sets, config)]
    return frozenset(words_of(values))


def _seeds_of(seeds: str | None) -> Sequence[int | None]:
    """One run per seed; None stands for the seed of the scenario."""
    if seeds is None:
        return [None]
    return parse_seeds(seeds)


def _opened(resume: Path | None) -> SavedRun | None:
    """The run to go on with, at the checkpoint from which it can."""
    if resume is None:
        return None
    from marl.runs.resume import TO_RESUME
    from marl.runs.saved import SavedRun

    return SavedRun.open(resume, need=TO_RESUME)


def raw_scenario(
    file: Path | None,
    saved: SavedRun | None,
    sets: list[str],
    config: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The scenario as a dict: of the file, or of the run to resume, or empty; changed by ``--config``, then by
    ``--set``, then by options for single keys."""
    from marl.scenario.load import apply

    raw: dict[str, Any] = {}
    if file is not None:
        raw = _read_and_tell(file)
        raw.setdefault("name", file.stem)
    elif saved is not None:
        from marl.runs.saved import check_given_again

        raw = dict(saved.scenario)
        check_given_again(raw, [key for key, _ in given_values(sets, config)], saved.folder)
    for key, value in given_values(sets, config, options):
        apply(raw, key, value)
    return raw


def _read_and_tell(file: Path) -> dict[str, Any]:
    """The scenario in a file; what was read in other words is told, beside the output."""
    from marl.scenario.load import read_any, read_yaml

    raw, translation = read_any(file)
    if translation is None:
        return raw
    if translation.playing is not None:
        return read_yaml(file)  # refuses it: there is nothing to train
    print(printable(translation.text), file=sys.stderr, flush=True)
    return raw


def given_values(
    sets: list[str], config: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None
) -> list[tuple[str, Any]]:
    """Keys and values of a command line; later ones win."""
    from marl.scenario.load import parse_set

    by_sets = [parse_set(text) for text in sets]
    return [*(config or {}).items(), *by_sets, *(options or {}).items()]


def execute(
    raw: Mapping[str, Any],
    stops: Mapping[str, float],
    local_dir: Path | None,
    resume: Path | None,
    as_test: bool,
    trust: Trust | None,
    index: int = 0,
    output: Output = Output.TABLE,
) -> int:
    """One run from start to end; gives the exit code. ``trust``: in the checkpoint that the scenario comes from."""
    where = str(resume)
    if trust is None:
        where = str(raw.get("name", "config"))
    with under(trust):
        return _train(_composed(raw, stops, as_test, where), local_dir, resume, as_test, index, output)


def _composed(raw: Mapping[str, Any], stops: Mapping[str, float], as_test: bool, where: str) -> Any:
    """The scenario with what the options of the command add to it."""
    from marl.scenario.load import compose

    keys = dict(raw)
    before = keys.get("stop") or {}
    if stops and isinstance(before, Mapping):  # else composing the scenario says what is wrong with it
        keys["stop"] = {**before, **stops}
    if as_test and not keys.get("goal"):
        if "episode_reward_mean" not in stops:
            raise ConfigError("--as-test needs a goal: in the scenario, or by --stop-reward.")
        keys["goal"] = {"episode_reward_mean": stops["episode_reward_mean"]}
    return compose(keys, where)


def _all_at_once(
    raw: Mapping[str, Any],
    seeds: Sequence[int],
    stops: Mapping[str, float],
    local_dir: Path | None,
    as_test: bool,
    output: Output,
) -> int:
    """All seeds in this process (``--stacked``); gives the exit code."""
    from marl.cli.stacked import train_together

    where = str(raw.get("name", "config"))
    scenarios = []
    for seed in seeds:
        scenarios.append(_composed({**raw, "seed": seed, "stacked": True}, stops, as_test, where))
    return train_together(scenarios, local_dir, as_test, output)


def _train(
    scenario: Any, local_dir: Path | None, folder: Path | None, as_test: bool, index: int, output: Output
) -> int:
    from marl.runs.lock import check_unlocked
    from marl.training.trainer import Trainer

    if folder is not None and _goes_on_there(folder, local_dir):
        check_unlocked(folder.parent.parent)  # before anything is started
    with _displayed(output) as display:
        trainer = Trainer(scenario=scenario, fresh=folder is None)
        with stopped_at_the_end(trainer):
            try:
                if scenario.num_workers:
                    display.note(f"starting Ray and {scenario.num_workers} workers ...")
                _open(trainer, folder, local_dir, index)
            except KeyboardInterrupt:
                display.finish(["stopped before the first iteration; nothing was written"])
                return 130
            except StorageError:
                display.finish(after_failure(trainer, fresh=folder is None))
                raise
            prepare_last_words(trainer)
            in_order = _run_and_tell(trainer, display, fresh=folder is None)
    if not in_order:
        return 130
    if as_test and not trainer.goal_met:
        return 1
    return 0


def _run_and_tell(trainer: Any, display: Any, fresh: bool) -> bool:
    """Train to the end and say what came out; False after Ctrl-C."""
    from marl.training.loop import run_until_stopped

    try:
        outcome = run_until_stopped(trainer, display)
    except Exception as error:
        lines = after_failure(trainer, fresh)
        display.finish([*keep_traceback(error, trainer.store.directory), *lines])  # `results:` stays the last line
        told = can_go_on(error, trainer)
        if told is error:  # `raise error from error` would make it the cause of itself
            raise
        raise told from error
    except KeyboardInterrupt:  # the second Ctrl-C, while a checkpoint was being written after the first one
        display.finish(after_failure(trainer, fresh))
        return False
    display.finish(closing_lines(trainer, outcome))
    return not outcome.interrupted


def _open(trainer: Any, folder: Path | None, local_dir: Path | None, index: int) -> None:
    """Workers and a run directory, ready for the first iteration: a new run, or one that goes on from a checkpoint."""
    from marl.runs.directories import default_results
    from marl.runs.saved import check_stays_inside

    if folder is None:
        trainer.workers.start()
        trainer.store.create(local_dir or default_results(), index)
        return
    if _goes_on_there(folder, local_dir):
        check_stays_inside(folder.parent.parent)
        trainer.store.enter(folder.parent.parent, folder)
    else:
        trainer.restore(folder)
        trainer.store.create(local_dir or default_results(), index)


def _goes_on_there(folder: Path, local_dir: Path | None) -> bool:
    """Whether a resumed run goes on in the run directory of its checkpoint."""
    return folder.parent.name == "checkpoints" and local_dir is None


@contextmanager
def _displayed(output: Output) -> Iterator[Any]:
    """Where the run is shown. While JSON is printed, whatever else is printed (by an env, for instance) goes to stderr."""
    from marl.training.display import JsonLines, LastLine, make_display

    if output is Output.TABLE:
        yield make_display()
    elif output is Output.QUIET:
        yield LastLine()
    else:
        display = JsonLines(sys.stdout, sys.stderr)
        with redirect_stdout(sys.stderr):
            yield display


def main() -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(run)
    guarded(app)


if __name__ == "__main__":
    main()
