"""Where trials meet Ray Tune: what an actor does, what the driver hears, which scheduler decides. Ray is imported inside
functions only.

Ray Tune is handed the numbers of the trials and nothing else: what a number means stands in the plan, results and checkpoints
are in run directories. So nothing has to be read back from Ray Tune's own files, which are deleted at the end.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from marl.registry import Registrations, registrations, take_registrations
from marl.runs.files import RunFiles
from marl.trust import as_built
from marl.tune.journal import ENDED, ERROR, PENDING, RUNNING, STOPPED, TERMINATED, Journal
from marl.tune.plan import Plan, Planned
from marl.tune.reporter import Reporter, call
from marl.tune.table import Screen
from marl.tune.trial import RunningTrial, newest_checkpoint, read_error, write_error

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """All that an actor has to know; ``registered`` are the envs, models, ... that the program made known by name."""

    plan: Plan
    directory: Path
    registered: Registrations = field(default_factory=dict)

    def with_trial(self, trial: Planned) -> Job:
        """The same job, in which one trial has other keys than in the plan."""
        trials = list(self.plan.trials)
        trials[trial.index] = trial
        return replace(self, plan=replace(self.plan, trials=trials))

    @as_built(lambda job: job.plan.trust)
    def begin(self, index: int) -> RunningTrial:
        take_registrations(self.registered)
        trial, plan = self.plan.trials[index], self.plan
        place = self.directory / trial.directory
        try:
            return RunningTrial(trial.config, place, trial.trial_id, plan.objective, plan.clock)
        except Exception as error:
            write_error(place, error)
            raise

    @as_built(lambda job: job.plan.trust)
    def step(self, running: RunningTrial) -> dict[str, Any]:
        try:
            told = running.step()
        except Exception as error:
            write_error(running.directory, error)
            raise
        assert told is not None, "evaluations are broken off by signals, of which an actor hears none"
        return told

    def call_function(self, index: int) -> None:
        from ray import tune

        take_registrations(self.registered)
        trial, plan = self.plan.trials[index], self.plan
        place = self.directory / trial.directory
        assert plan.function is not None
        try:
            reporter = Reporter(
                trial.config, place, trial.trial_id, plan.objective, plan.clock, plan.stop, send=tune.report
            )
            call(plan.function, trial.config, reporter)
        except Exception as error:
            write_error(place, error)
            raise


def sendable(registered: Registrations) -> Registrations:
    """What can travel to another process. The rest may be of no use to the trials, so it is left out with a warning."""
    from ray import cloudpickle

    found: Registrations = {}
    for what, items in registered.items():
        for name, item in items.items():
            try:
                cloudpickle.dumps(item)
            except Exception as error:  # pickling runs code of the item's own class
                log.warning("trials will not know the %s %r, which cannot be pickled: %s", what, name, error)
            else:
                found.setdefault(what, {})[name] = item
    return found


def make_trainable(plan: Plan, directory: Path) -> Any:
    """What Ray Tune starts for each trial, with the trial's own request for resources."""
    from ray import tune

    class Trial(tune.Trainable):  # type: ignore[misc]
        def setup(self, config: dict[str, Any], job: Job) -> None:
            self.job, self.running = job, job.begin(config["trial"])

        def step(self) -> dict[str, Any]:
            return self.job.step(self.running)

        def cleanup(self) -> None:
            self.running.close()

    def function_trial(config: dict[str, Any], job: Job) -> None:
        job.call_function(config["trial"])

    # Parameters go to the actors by Ray's store, once, and not with each trial's config.
    trial: Any = Trial
    if plan.function is not None:
        trial = function_trial
    trainable = tune.with_parameters(trial, job=Job(plan, directory, sendable(registrations())))
    bundles = [trial.bundles for trial in plan.trials]
    return tune.with_resources(trainable, lambda config: tune.PlacementGroupFactory(bundles[config["trial"]]))


def make_scheduler(journal: Journal) -> Any:
    """First come, first served; or halving, which remembers what the trials of an interrupted search had reached."""
    from ray.tune.schedulers import ASHAScheduler, FIFOScheduler

    halving = journal.plan.halving
    if halving is None:
        return FIFOScheduler()
    budget = halving.budget

    class Remembering(ASHAScheduler):  # type: ignore[misc]
        def on_trial_add(self, controller: Any, trial: Any) -> None:
            super().on_trial_add(controller, trial)
            for told in past(journal, trial.config["trial"]):
                super().on_trial_result(controller, trial, told)

        def on_trial_result(self, controller: Any, trial: Any, result: dict[str, Any]) -> Any:
            decision = super().on_trial_result(controller, trial, result)
            # At the end of the budget ASHA says STOP as well, but there the trial has simply ended.
            if decision == self.STOP and result["clock"] < budget:
                journal.halted.add(trial.config["trial"])
            return decision

    scheduler = Remembering(
        time_attr="clock",
        metric="score",
        mode=journal.plan.objective.mode,
        max_t=budget,
        grace_period=halving.grace_period,
        reduction_factor=halving.reduction_factor,
    )
    for trial in journal.plan.trials:
        if journal.status[trial.index] in ENDED:  # it no longer runs, but others are compared with it
            scheduler.on_trial_add(
                None, SimpleNamespace(trial_id=f"ended {trial.index}", config={"trial": trial.index})
            )
    return scheduler


def past(journal: Journal, index: int) -> list[dict[str, float]]:
    """Scores that a trial had reached before; of one that goes on those up to its checkpoint, as later ones come again."""
    from marl.runs.manifest import iteration_of
    from marl.runs.result import look_up

    plan, place = journal.plan, journal.directory_of(journal.plan.trials[index])
    last = math.inf
    if journal.status[index] not in ENDED:
        checkpoint = newest_checkpoint(place)
        last = 0
        if checkpoint is not None:
            last = iteration_of(checkpoint)
    told: list[dict[str, float]] = []
    score: float | None = None
    for result in RunFiles(place).results():
        score, clock = plan.objective.after(score, result), look_up(result, plan.clock)
        if score is None or clock is None or result["training_iteration"] > last:
            continue
        told.append({"clock": clock, "score": score})
    return told


def make_callback(journal: Journal, screen: Screen) -> Any:
    """What the driver does when Ray Tune tells of a trial: write it down, show it."""
    from ray import tune

    from marl.rollout.ray_instance import check_ray

    def note(index: int, status: str, why: str = "") -> None:
        journal.note(index, status, why)
        screen.status(index, status, why)

    class Watch(tune.Callback):  # type: ignore[misc]
        def on_step_begin(self, **_: Any) -> None:
            check_ray()

        def on_trial_start(self, *, trial: Any, **_: Any) -> None:
            note(trial.config["trial"], RUNNING)

        def on_trial_result(self, *, trial: Any, result: dict[str, Any], **_: Any) -> None:
            if "shown" in result:
                screen.result(trial.config["trial"], result)

        def on_trial_complete(self, *, trial: Any, **_: Any) -> None:
            index = trial.config["trial"]
            status = TERMINATED
            if index in journal.halted:
                status = STOPPED
            note(index, status)

        def on_trial_recover(self, *, trial: Any, **_: Any) -> None:
            check_ray()
            index = trial.config["trial"]
            why = read_error(journal.directory_of(journal.plan.trials[index]))
            note(index, PENDING, f"failed and starts again: {why}")

        def on_trial_error(self, *, trial: Any, **_: Any) -> None:
            check_ray()  # a trial that went down with Ray has not failed
            index = trial.config["trial"]
            note(index, ERROR, read_error(journal.directory_of(journal.plan.trials[index])))

    return Watch()
