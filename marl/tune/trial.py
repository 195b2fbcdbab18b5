"""One trial, as Ray Tune drives it: a trainer in a run directory of its own. Ray knows nothing of what happens here."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from marl.errors import CheckpointError, UserError
from marl.inputs import read_text
from marl.storage import make_folder, write_atomically
from marl.tune.objective import Objective

ERROR_FILE = "error.txt"
PATIENCE = 60.0  # seconds in which the process of a trial that is started again, or of a killed search, should be gone
NOT_SENT = ("config", "hist_stats", "info")  # what the driver does not look at


class RunningTrial:
    """A run that is trained one iteration at a time. Its directory decides where it begins: at its newest checkpoint, if
    it has one."""

    def __init__(
        self, keys: Mapping[str, Any], directory: Path, trial_id: str, objective: Objective, clock: str
    ) -> None:
        from marl.runs.damage import noted
        from marl.runs.resume import resumable_in
        from marl.scenario.load import compose
        from marl.training.trainer import Trainer

        self.directory, self.objective, self.clock = directory, objective, clock
        self.broken = False
        self.score: float | None = None
        with noted() as damaged:
            checkpoint = resumable_in(directory)
        self.trainer = trainer = Trainer(scenario=compose(keys, directory.name), fresh=checkpoint is None)
        try:
            if checkpoint is None:
                trainer.trial_id = trial_id
                trainer.experiment_id = trial_id.partition("_")[0]  # Ray's ids begin with the experiment's
            # The driver prints notes; what an actor writes to its own screen nobody sees.
            trainer.notes += damaged.lines()
            trainer.store.enter(directory, checkpoint, patience=PATIENCE)
            assert trainer.store.files is not None
            for result in trainer.store.files.results():
                self.score = objective.after(self.score, result)
        except BaseException:
            trainer.stop()
            raise

    def arrived(self, until: float) -> bool:
        """Whether the clock shows so much already, and the trial has not ended."""
        from marl.runs.result import look_up

        # A checkpoint keeps no clocks of the wall in its last result.
        known = {**self.trainer.last_result, "time_total_s": self.trainer.time_total_s}
        time = look_up(known, self.clock)
        return time is not None and time >= until and not self.trainer.finished

    def step(self) -> dict[str, Any] | None:
        """One iteration; a trial that had ended already only says so. None where its evaluation was broken off by Ctrl-C."""
        from marl.training.extensions.evaluation import EvaluationBrokenOff

        try:
            if self.trainer.finished:
                result = {**self.trainer.last_result, "done": True}
            else:
                result = self.trainer.train()
        except EvaluationBrokenOff:
            return None  # all was learned, and is kept: the evaluation is made when the trial goes on
        except Exception:
            self.broken = True  # in the middle of an iteration: such a state must not become the newest checkpoint
            raise
        notes, self.trainer.notes = self.trainer.notes, []
        self.score = self.objective.after(self.score, result)
        return report(result, self.score, self.clock, notes)

    def close(self, draw: bool = True) -> None:
        """End with a checkpoint and the learning curve, whoever stopped it; without the curve where it soon goes on."""
        try:
            if self.trainer.iteration and not self.broken:
                self.trainer.save()
                assert self.trainer.store.files is not None
                if draw:
                    self.trainer.store.files.draw_curve()
        finally:
            self.trainer.stop()


def report(result: Mapping[str, Any], score: float | None, clock: str, notes: list[str]) -> dict[str, Any]:
    """What Ray Tune hears of a result. Its own words would be overwritten, so ours are kept apart under ``shown``."""
    from marl.runs.result import look_up

    shown = {key: value for key, value in result.items() if key not in NOT_SENT}
    told: dict[str, Any] = {"done": bool(result.get("done")), "notes": notes, "shown": shown}
    # Left out where there is none: ASHA would compare a null.
    if score is not None:
        told["score"] = score
    time = look_up(result, clock)
    if time is not None:
        told["clock"] = time
    return told


def newest_checkpoint(directory: Path) -> Path | None:
    """The newest undamaged checkpoint of a run directory; None if there is none, or no directory."""
    from marl.runs.checkpoint import find_checkpoint

    # Without this, the path would be looked for among the results by its name.
    if not directory.is_dir():
        return None
    try:
        return find_checkpoint(directory)
    except CheckpointError:
        return None


def write_error(directory: Path, error: BaseException) -> None:
    """Leave a failure where the driver and the user find it: one sentence for mistakes, the type too for anything else."""
    text = str(error)
    if not isinstance(error, UserError):
        text = f"{type(error).__name__}: {text}"
    with suppress(OSError):  # a full disk must not hide the error
        make_folder(directory)
        write_atomically(directory / ERROR_FILE, text + "\n")


def read_error(directory: Path) -> str:
    """The failure that a trial left behind."""
    file = directory / ERROR_FILE
    if not file.is_file():
        return "its process died without a word; usual reasons are too little memory and a crash in the env's own code"
    return read_text(file, errors="replace").strip()
