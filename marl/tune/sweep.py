"""A whole search: plan it, start Ray, let Ray Tune play the trials, say what came out."""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.errors import ConfigError, RayLostError, ResourceError
from marl.inputs import check_texts
from marl.runs.directories import default_results
from marl.runs.lock import check_unlocked, clear_lock, take_lock
from marl.runs.saved import check_stays_inside
from marl.scenario.describe import can_be_replayed, to_plain
from marl.scenario.load import apply
from marl.tune.config import TuneConfig, tune_config
from marl.tune.journal import Journal, read_journal
from marl.tune.outcome import Tuning, command_to_go_on, outcome_of
from marl.tune.plan import Plan, as_before, function_name, new_experiment, plan_functions, plan_scenarios
from marl.tune.replay import write_schedule
from marl.tune.reporter import check_function
from marl.tune.resources import check_fits, total

if TYPE_CHECKING:
    from marl.tune.table import Screen

SCRATCH = ".ray_tune"  # Ray Tune's own files while it works
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths in a scenario mean the user's folder
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # run directories have files of their own
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_RESULT_BUFFER_LENGTH": "1",
}


def run(
    trainable: str | Callable[..., Any],
    *,
    env: Any = None,
    config: Mapping[str, Any] | None = None,
    stop: Mapping[str, float | bool] | None = None,
    name: str | None = None,
    local_dir: Path | str | None = None,
    resume: Path | str | None = None,
    num_cpus: int | None = None,
    verbose: int = 1,
    **options: Any,
) -> Tuning:
    """Try all values that ``config`` searches over, side by side, and give back what came out.

    ``trainable`` is an algorithm (``"ppo"``), whose keys ``config`` holds, or a function ``train(config, reporter)``.
    ``options`` are the keys of ``TuneConfig``: num_samples, metric, mode, scheduler, resources_per_trial, ... A search that
    was interrupted goes on when it is called again with ``resume`` set to its folder. A Ray that is already there is used;
    otherwise one is started with ``num_cpus`` and shut down at the end.
    """
    keys, chosen = dict(config or {}), tune_config(options, "marl.tune.run")
    if callable(trainable):
        check_function(trainable)
        if env is not None:
            keys["env"] = env
        plan = plan_functions(trainable, keys, stop or {}, chosen)
        head = {"trainable": f"function {function_name(trainable)}", "keys": {}}
        return search(plan, head, name or function_name(trainable), local_dir, resume, num_cpus, verbose)
    if stop:
        keys["stop"] = {**(keys.get("stop") or {}), **stop}
    for key, value in (("env", env), ("algo", trainable)):
        if value is not None:
            apply(keys, key, value)
    return search_scenario(keys, chosen, "config", name, local_dir, resume, num_cpus, verbose)


def search_scenario(
    keys: Mapping[str, Any],
    options: TuneConfig,
    where: str,
    name: str | None = None,
    local_dir: Path | str | None = None,
    resume: Path | str | None = None,
    num_cpus: int | None = None,
    verbose: int = 1,
) -> Tuning:
    """A search over the keys of a scenario."""
    plan = plan_scenarios(keys, options, where)
    env = "world"  # of a class or function, which has no name that is worth a folder's
    if isinstance(keys["env"], str):
        env = keys["env"].split("/")[-1].replace(":", "_")
    known = name or keys.get("name") or env
    num_cpus = num_cpus or plan.num_cpus
    head = {"trainable": "scenario", "keys": to_plain(keys), "num_cpus": num_cpus}
    return search(plan, head, str(known), local_dir, resume, num_cpus, verbose)


def stored_search(directory: Path) -> tuple[dict[str, Any], TuneConfig, int | None]:
    """Keys, options and CPUs of a search in a folder, to go on with it from its files alone."""
    stored = read_journal(directory)
    given_objects = stored.get("trainable") != "scenario" or not can_be_replayed(stored["keys"])
    if given_objects or _has_functions(stored["tune"].get("resources_per_trial") or {}):
        raise ConfigError(
            f"the search in {directory} was given Python objects ({stored.get('trainable')}), so its files alone are not "
            "enough. Go on with it from Python: marl.tune.run(..., resume=DIR), with the same arguments."
        )
    # The folder may be a stranger's, and all of this ends up in messages.
    check_texts(stored, str(directory))
    return stored["keys"], tune_config(stored["tune"], str(directory)), stored.get("num_cpus")


def _has_functions(resources: Any) -> bool:
    """Whether stored resources were functions, of which a file only has the names; amounts are numbers."""
    if isinstance(resources, str):
        return True
    if isinstance(resources, list):  # bundles
        return False
    return any(isinstance(amount, str) for amount in resources.values())


def search(
    plan: Plan,
    head: Mapping[str, Any],
    name: str,
    local_dir: Path | str | None,
    resume: Path | str | None,
    num_cpus: int | None,
    verbose: int,
) -> Tuning:
    """Play all trials of a plan that have not ended."""
    if verbose not in range(4):
        raise ConfigError(
            f"verbose is {verbose!r}; expected 0 (nothing), 1 (the table), 2 (results) or 3 (all fields)."
        )
    if resume is not None:
        check_unlocked(Path(resume).expanduser())  # two drivers would write one journal
    if plan.options.stacked:
        return _search_stacked(plan, head, name, local_dir, resume, num_cpus, verbose)
    if plan.population is None:  # else Ray alone is enough
        need_ray_tune()
    with ray_for(plan, num_cpus) as there:
        journal = _open_journal(plan, head, name, local_dir, resume)
        lock = take_lock(journal.directory)
        try:
            with suppress(KeyboardInterrupt), _last_words(journal):  # Ctrl-C: no time for the trials' last checkpoints
                _play(journal, there, verbose)
        finally:
            lock.release()
    for trial in journal.plan.trials:  # Ray ends processes of trials without a chance to release their locks
        clear_lock(journal.directory_of(trial))
    return _outcome(journal)


def _search_stacked(
    plan: Plan,
    head: Mapping[str, Any],
    name: str,
    local_dir: Path | str | None,
    resume: Path | str | None,
    num_cpus: int | None,
    verbose: int,
) -> Tuning:
    from marl.tune.stacked import check_stacked_search, play_stacked

    check_stacked_search(plan, num_cpus)
    journal = _open_journal(plan, head, name, local_dir, resume)
    play_stacked(journal, verbose)
    return _outcome(journal)


def _outcome(journal: Journal) -> Tuning:
    """What came out; the values by time that a population found are left as a file."""
    found = outcome_of(journal)
    if found.has_score:
        write_schedule(journal, found.best_trial.index)
    return found


def _open_journal(
    plan: Plan, head: Mapping[str, Any], name: str, local_dir: Path | str | None, resume: Path | str | None
) -> Journal:
    if resume is None:
        journal = Journal(new_experiment(Path(local_dir or default_results()), name), head, plan)
    else:
        directory = Path(resume).expanduser()
        check_stays_inside(directory)
        stored = read_journal(directory)
        trials = as_before(plan.trials, stored["trials"], directory)
        journal = Journal(directory, head, replace(plan, trials=trials))
        journal.recall(stored)
    journal.write()
    return journal


def _play(journal: Journal, there: Mapping[str, float], verbose: int) -> None:
    """Train the open trials, and show it."""
    from marl.tune.ray_hosts import play_on_ray
    from marl.tune.table import Board, Screen

    if not journal.open_trials:
        return
    screen = Screen(Board(journal.plan, journal.directory, there, journal.status), verbose)
    for trial in journal.open_trials:
        # Of an earlier start: a trial that dies without a word must not be explained by it.
        (journal.directory_of(trial) / "error.txt").unlink(missing_ok=True)
    screen.start()
    try:
        if journal.plan.population is None:
            _play_with_ray_tune(journal, screen)
        else:
            play_on_ray(journal, there, screen)
    finally:
        journal.settle()
        for index, status in enumerate(journal.status):
            screen.board.rows[index].status = status
        screen.finish()


def _play_with_ray_tune(journal: Journal, screen: Screen) -> None:
    """Trials that have nothing to do with each other."""
    from ray import tune

    from marl.tune.ray_trials import make_callback, make_scheduler, make_trainable

    waiting = [trial.index for trial in journal.open_trials]
    scratch = journal.directory / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)  # whatever is there already: Ray Tune's files hold pickles
    try:
        with quiet_ray_tune(), orderly_signals():
            tune.run(
                make_trainable(journal.plan, journal.directory.resolve()),
                name=SCRATCH,
                storage_path=str(journal.directory.resolve()),
                config={"trial": tune.grid_search(waiting)},
                scheduler=make_scheduler(journal),
                callbacks=[make_callback(journal, screen)],
                max_concurrent_trials=journal.plan.options.max_concurrent_trials,
                max_failures=journal.plan.options.max_failures,
                raise_on_failed_trial=False,
                verbose=0,
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _last_words(journal: Journal) -> Iterator[None]:
    """How to go on with a search whose Ray dies, said by this process or, where Ray ends it at once, in its place."""
    from marl.rollout.ray_instance import say_if_ray_dies

    go_on = f"Go on with: {command_to_go_on(journal)}"
    # Ray Tune may wait for a Ray that has died for as long as it likes: then the search is ended by force.
    say_if_ray_dies(f"error: Ray died (its raylet or GCS process) and ended the search. {go_on}", by_force=True)
    try:
        yield
    except RayLostError as error:
        raise RayLostError(f"{error}\n{go_on}") from error
    say_if_ray_dies()


@contextmanager
def orderly_signals() -> Iterator[None]:
    """At the first Ctrl-C Ray Tune ends the trials in an orderly way, at the second one it ends at once. SIGTERM does the
    same here; afterwards all signals mean what they meant before."""
    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread set signals
        yield
        return
    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):  # Windows has fewer
            number = getattr(signal, name)
            before[number] = signal.getsignal(number)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def quiet_ray_tune() -> Iterator[None]:
    """Ray Tune without words and files of its own."""
    before = {key: os.environ.get(key) for key in QUIET}
    moved = os.environ.pop("TUNE_RESULT_DIR", None)  # would be refused by Ray Tune; our folder is chosen already
    os.environ.update(QUIET)
    loggers = [logging.getLogger(name) for name in ("ray.tune", "ray.train", "ray.air")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        for key, value in [*before.items(), ("TUNE_RESULT_DIR", moved)]:
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


@contextmanager
def ray_for(plan: Plan, num_cpus: int | None) -> Iterator[Mapping[str, float]]:
    """What Ray has. A Ray that is already there stays; one that we start is gone at the end, whatever happens."""
    from marl.rollout.config import RolloutConfig
    from marl.rollout.ray_instance import start_ray, stop_ray

    # A trial that is larger than the machine still has to fit into a Ray of our own: its processes then share CPUs.
    largest = max(math.ceil(total(trial.bundles).get("CPU", 0.0)) for trial in plan.trials)
    ours = start_ray(RolloutConfig(address=plan.address, ray_num_cpus=num_cpus), more_cpus=largest)
    import ray

    try:
        there = dict(ray.cluster_resources())
        for trial in plan.trials:
            check_fits(trial.bundles, there, f"trial {trial.index:05d}")
        yield there
    finally:
        if ours:
            stop_ray()


def need_ray_tune() -> None:
    """Ray Tune needs packages that plain Ray does not bring."""
    try:
        import ray.tune  # noqa: F401
    except ImportError as error:
        raise ResourceError(
            f"tuning needs Ray Tune, which is not completely installed ({error}). Install it: pip install 'ray[tune]', or "
            "`pip install -e '.[tune]'` in the repository of marl."
        ) from error
