"""What a run leaves behind: its directory, its checkpoints, and the way back from them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.errors import ConfigError, LoggerError, StorageError, UserError
from marl.policies.loading import set_weights
from marl.runs.arithmetic import ARITHMETIC, other_rounding
from marl.runs.checkpoint import copy_checkpoint, has_part, keep_newest, read_part, write_checkpoint
from marl.runs.files import RunFiles, new_run_directory, run_name
from marl.runs.lock import RunLock, take_lock
from marl.runs.loggers import RunLoggers
from marl.runs.manifest import BEST, checkpoint_name, numbered
from marl.runs.notes import keep_note
from marl.runs.restoring import put_to_use
from marl.runs.resume import TO_RESUME, find_resumable, holds_a_run, keep_as_numbered, leave_future, strip_older
from marl.runs.resume_check import check_same
from marl.runs.saved import SavedRun, check_given_again
from marl.scenario.describe import can_be_replayed, describe
from marl.scenario.env import env_name
from marl.storage import make_folder
from marl.training.change_policies import PolicyChange, change_policies
from marl.training.sources import load_source_state, source_state
from marl.trust import words_of

if TYPE_CHECKING:
    from marl.populations.loop import PopulationTrainer
    from marl.scenario.config import Scenario
    from marl.training.trainer import Trainer

log = logging.getLogger(__name__)
MORE_PARTS = ("policies", "learners", "workers", "replay", "source", "population")  # of a checkpoint, besides `run`
VERSION = 1


def experiment_name(scenario: Scenario) -> str:
    """The folder in which the run directories of a scenario lie side by side."""
    return scenario.name or env_name(scenario.env).split("/")[-1].replace(":", "_")


class Store:
    """Files of one trainer. Without a directory nothing is written until one is opened."""

    def __init__(self, trainer: Trainer, directory: Path | None) -> None:
        self.trainer = trainer
        self.directory = directory
        self.files: RunFiles | None = None
        self.loggers = RunLoggers(trainer.scenario.loggers)
        self.lock: RunLock | None = None  # held while the directory is open
        self.newest: Mapping[str, Any] = {}  # the last result, as it stands in result.json
        self.restored: Path | None = None  # the checkpoint from which the run goes on
        self._best_at: int | None = None  # the iteration of the best evaluation
        self._unproven: Path | None = None  # the checkpoint from which no iteration has been made yet
        self._of_another = False  # whether the directory holds another run, which goes on only after `restore`
        self._told = ""  # what restoring had to say, until there is a directory to keep it in
        if directory is not None:
            try:
                self.open(directory)
            except BaseException:
                self.unlock()
                raise

    def enter(self, directory: Path, checkpoint: Path | None, patience: float = 0.0) -> None:
        """Begin in a run directory, or go on there from a checkpoint; nothing is touched while another process writes there.

        ``patience``: seconds to wait for such a process to end.
        """
        self.claim(directory, patience)
        if checkpoint is None:
            self.trainer.workers.start()
        else:
            self.restore(checkpoint)
        self.open(directory)
        self.go_on()

    def claim(self, directory: Path, patience: float = 0.0) -> None:
        """Keep other processes from writing to this directory."""
        if self.lock is None or self.lock.directory != directory:
            self.unlock()
            self.lock = take_lock(directory, patience)

    def unlock(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def open(self, directory: Path) -> None:
        """Use this directory for everything from now on."""
        make_folder(directory)
        self.claim(directory)
        self.directory = directory
        self.files = RunFiles(directory, events=self.loggers.events)
        self.trainer.workers.opened(directory)
        self._of_another = holds_a_run(directory)
        described = describe(self.trainer.scenario)
        if not self._of_another:  # else what is there stays as it is until `go_on`
            self.files.write_params(described)
            self.loggers.open(directory, described)
            self._keep_told()
            if self.trainer.population is not None and self.trainer.population.round:  # of a run that goes on here
                self.write_population(self.trainer.population)
        if not can_be_replayed(described):
            self.trainer.notes.append(
                "this run was given Python objects that cannot be found by name, so it cannot be replayed from its "
                "files alone; restore needs the same objects again."
            )

    def go_on(self) -> None:
        """Drop the results that were written after the restored checkpoint, which come again; set newer checkpoints aside."""
        assert self.files is not None
        assert self.directory is not None
        iteration = self.trainer.iteration
        leave_future(self.directory, iteration, self.restored)
        if self.restored is not None:
            keep_as_numbered(self.directory, iteration, self.restored)
        is_open = self.trainer.unmeasured is not None  # then its result comes again as well
        self.files.resume_at(iteration - is_open)
        described = describe(self.trainer.scenario)
        self.files.write_params(described)
        self.loggers.open(self.directory, described)
        self._of_another = False
        self._keep_told()
        if self.trainer.population is not None:
            self.write_population(self.trainer.population)

    def _keep_told(self) -> None:
        """Keep with the results what restoring had to say: a terminal shows it once."""
        assert self.directory is not None
        if self._told:
            keep_note(self.directory, self._told, iteration=self.trainer.iteration)
            self._told = ""

    def create(self, local_dir: Path, index: int = 0, params: Mapping[str, object] | None = None) -> Path:
        """Make and open a new run directory under ``local_dir``."""
        trainer, scenario = self.trainer, self.trainer.scenario
        env = env_name(scenario.env)
        name = run_name(
            scenario.preset.name,
            env,
            trainer.trial_id,
            index,
            params or {"seed": scenario.seed},
            datetime.now(),
        )
        directory = new_run_directory(local_dir, experiment_name(scenario), name)
        try:
            self.open(directory)
        except UserError:
            if self.directory is None:  # not even the lock could be written
                shutil.rmtree(directory, ignore_errors=True)
            raise
        return directory

    def written(self, result: Mapping[str, Any]) -> None:
        """Append a result; write the checkpoints that are due. The iteration is over, so they hold one moment."""
        if self.files is None:
            return
        assert self.directory is not None
        self.check_own()
        self.claim(self.directory)  # a trainer that was stopped has given it back
        try:
            self.newest = self.files.append(result)
            self.loggers.write(self.newest)
        except (StorageError, LoggerError):
            self._rescue()
            raise
        iteration, freq = self.trainer.iteration, self.trainer.scenario.checkpoint_freq
        best = None
        if self._best_at == iteration:
            best = write_checkpoint(self.directory / "checkpoints" / BEST, self._parts())
            self.trainer.workers.saved(best)
        if freq and iteration % freq == 0:
            self.save(equal=best)

    def check_own(self) -> None:
        """A run that begins anew does not write among the results of another one."""
        if not self._of_another:
            return
        assert self.directory is not None
        can_go_on = bool(numbered(self.directory / "checkpoints"))
        go_on = f"Go on with it: restore({str(self.directory)!r}) before train(). " if can_go_on else ""
        raise ConfigError(
            f"{self.directory} holds results or checkpoints of another run, and a new run there would mix with them. "
            f"{go_on}For a new run give another directory, or move that one away."
        )

    def _rescue(self) -> None:
        """A file or a logger failed. Where the result was written, the iteration is complete: keep it, if there is room."""
        assert self.files is not None
        with suppress(UserError):
            if any(result["training_iteration"] == self.trainer.iteration for result in self.files.results()[-1:]):
                self._save(None, None)

    def write_population(self, population: PopulationTrainer) -> None:
        """What a reader wants to know of a population: members, lineage, payoffs."""
        if self.files is not None:
            self.files.write_population(population.as_json() if population.round else None)

    def new_best(self) -> None:
        """The evaluation was the best so far: it is kept as ``best`` when its iteration is over."""
        self._best_at = self.trainer.iteration

    def policies_changed(self) -> None:
        """The run's file of keys tells of its policies as they are now."""
        if self.files is not None:
            self.files.write_params(describe(self.trainer.scenario))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def save(self, path: Path | None = None, equal: Path | None = None) -> Path:
        """Write a checkpoint, by default into the run directory; ``equal`` was written at this very moment."""
        target = self._save(path, equal)
        self.trainer.hooks("on_checkpoint", trainer=self.trainer, path=target)
        return target

    def _save(self, path: Path | None, equal: Path | None) -> Path:
        if path is not None:
            return write_checkpoint(path, self._parts())
        if self.directory is None:
            from marl.runs.directories import default_results

            self.create(default_results())
        assert self.directory is not None
        self.check_own()
        folder = self.directory / "checkpoints"
        target = folder / checkpoint_name(self.trainer.iteration)
        if equal is not None:  # the best was written in this iteration: a copy is cheaper than another checkpoint
            copy_checkpoint(equal, target)
        else:
            write_checkpoint(target, self._parts())
        strip_older(folder, self.trainer.scenario.keep_resumable, target)
        keep_newest(folder, self.trainer.scenario.keep_checkpoints, target)
        self.trainer.workers.saved(target)
        return target

    def _parts(self) -> dict[str, Any]:
        trainer = self.trainer
        parts: dict[str, Any] = {
            "run": {
                "version": VERSION,
                "arithmetic": ARITHMETIC,
                "scenario": describe(trainer.scenario),
                **trainer.state_dict(),
            },
            "policies": trainer.get_weights(),
            "learners": [learner.state_dict() for learner in trainer.learners],
            "workers": trainer.workers.state_dict(),
            "replay": [learner.replay_state() for learner in trainer.learners],
        }
        if trainer.population is not None:
            parts["population"] = trainer.population.state_dict()
        source = source_state(trainer.source, trainer.workers)
        if source:
            parts["source"] = source
        return parts

    def restore(self, path: Path) -> None:
        """Load everything, after it was verified; the trainer must have been built from the same scenario."""
        folder, trainer = find_resumable(path), self.trainer
        run = read_part(folder, "run")
        if run.get("policies_changed"):
            self._follow_changes(folder)
        check_same(folder, run["scenario"], describe(trainer.scenario))
        # All is read, and verified by `read_part`, before anything changes.
        saved = {name: read_part(folder, name) for name in MORE_PARTS if has_part(folder, name)}
        with put_to_use(folder, "policies"):
            for name, weights in saved["policies"].items():
                set_weights(trainer.policies[name], weights, f"{folder}, policy {name!r}")
        with put_to_use(folder, "learners"):
            for learner, state in zip(trainer.learners, saved["learners"], strict=True):
                learner.load_state_dict(state)
        with put_to_use(folder, "replay"):
            for learner, state in zip(trainer.learners, saved["replay"], strict=True):
                learner.load_replay_state(state)
        with put_to_use(folder, "run"):
            trainer.load_state_dict(run)
        with put_to_use(folder, "workers"):
            trainer.workers.sync_weights()
            trainer.workers.load_state_dict(saved["workers"])
        if "source" in saved:
            with put_to_use(folder, "source"):
                load_source_state(trainer.source, saved["source"])
        if trainer.population is not None:
            with put_to_use(folder, "population"):
                trainer.extensions.rounds.load_state_dict(saved["population"])
        trainer.learning.align()
        self.restored = self._unproven = folder
        self._tell_rounding(folder, run)
        if self.files is not None:
            self.go_on()

    def _tell_rounding(self, folder: Path, run: Mapping[str, Any]) -> None:
        self._told = other_rounding(folder, run)
        # Told at once: whoever only calls `train` has no display that would show notes.
        if self._told:
            log.warning("%s", self._told)

    def _follow_changes(self, folder: Path) -> None:
        """Bring this trainer to the policies of a run that were changed while it trained."""
        here = describe(self.trainer.scenario)
        remedy = "Name the policy_mapping_fn as package.module:function or as patterns, so that a file can tell it."
        run = SavedRun(folder, words=words_of(here), remedy=remedy)
        if run.scenario["multiagent"] == here["multiagent"]:
            return
        scenario = run.compose({**run.scenario, **{key: here[key] for key in here if key != "multiagent"}})
        section = scenario.multiagent
        with run.trusted():
            listed = section.policies_to_train if isinstance(section.policies_to_train, list) else None
            change = PolicyChange(section.policies, section.policy_mapping_fn, listed)
            change_policies(self.trainer, change)

    @contextmanager
    def proven(self) -> Iterator[None]:
        """Around an iteration: a state that was taken from a file and breaks at first use did not fit."""
        self.check_own()
        if self._unproven is None:
            yield
            return
        with put_to_use(self._unproven):
            yield
        self._unproven = None

    @staticmethod
    def rebuild(cls: type[Trainer], path: Path, allow: frozenset[str], changes: Mapping[str, Any]) -> Trainer:
        """A trainer from a checkpoint alone; names in it may only point to built-in things and allowed modules."""
        remedy = (
            "Build the trainer as before and call restore, or give them again: Trainer.from_checkpoint(path, env=...)."
        )
        run = SavedRun.open(path, allow, words_of(changes), need=TO_RESUME, remedy=remedy)
        check_given_again(run.scenario, changes, run.folder, in_python=True)
        scenario = run.compose({**run.scenario, **changes})
        with run.trusted():
            trainer = cls(scenario=scenario, fresh=False)
            trainer.restore(run.folder)
        return trainer

    def close(self) -> None:
        if self.files is not None:
            self.files.close()
        self.loggers.close()
        self.unlock()
