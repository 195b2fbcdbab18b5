"""A run in Weights & Biases, by default offline: files in the run directory, which ``wandb sync`` uploads."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from marl.runs.files import histograms, table_row
from marl.runs.tracking.keys import WandbKeys
from marl.runs.tracking.tracker import Tracker, pictures_of

STEPS = "timesteps_total"
BINS = 30
FARTHEST = 1e300  # differences of larger numbers are infinite


def begin_wandb(directory: Path, params: Mapping[str, Any], keys: WandbKeys) -> Tracker:
    """The logger of ``loggers: [wandb]``."""
    return Tracker("wandb", directory, partial(WandbRun, directory, params, keys))


class WandbRun:
    """One run of wandb. Steps there are iterations; curves are drawn over env steps."""

    def __init__(self, directory: Path, params: Mapping[str, Any], keys: WandbKeys, known: str | None) -> None:
        # Reports of wandb's own errors go out of the machine, also in offline mode.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        self.id = known or secrets.token_hex(4)
        self.is_new = known is None
        self._directory, self._media = directory, keys.media
        # Its prints and its copy of the terminal would break the table that a run shows.
        settings = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            id=self.id,
            resume="allow",
            dir=str(directory),
            mode=_mode(keys),
            project=keys.project,
            entity=keys.entity,
            name=keys.name or directory.name,
            group=keys.group or params.get("name"),
            tags=keys.tags,
            notes=keys.notes,
            config=dict(params),
            allow_val_change=True,  # a run that is resumed may have another learning rate
            reinit="create_new",  # several seeds may train in one process
            settings=settings,
        )
        self._run.define_metric(STEPS)
        self._run.define_metric("*", step_metric=STEPS)
        self._drop_link()

    def log(self, result: Mapping[str, Any]) -> None:
        told: dict[str, Any] = {}
        for name, value in table_row(result).items():
            if value is not None:
                told[name] = value
        if self._media:
            told.update(self._shown(result))
        self._run.log(told, step=int(result["training_iteration"]))
        self._drop_link()

    def _shown(self, result: Mapping[str, Any]) -> dict[str, Any]:
        import wandb

        shown: dict[str, Any] = {}
        for name, numbers in histograms(result):
            shown[name] = wandb.Histogram(np_histogram=counted(numbers))
        for name, files in pictures_of(result, self._directory).items():
            shown[name] = [_picture(file) for file in files]
        return shown

    def finish(self) -> None:
        self._run.finish()
        self._drop_link()

    def _drop_link(self) -> None:
        """Take away wandb's link to a log in the user's home: a run directory out of which links lead is not resumed."""
        link = Path(self._run.dir).parent / "logs" / "debug-core.log"
        if link.is_symlink():
            link.unlink()


def counted(numbers: Sequence[float]) -> tuple[Any, Any]:
    """How many of the numbers are in each of the bins, and the ends of these, for any finite numbers."""
    values = np.clip(np.asarray(numbers, np.float64), -FARTHEST, FARTHEST)
    low, high = float(values.min()), float(values.max())
    largest = max(abs(low), abs(high))
    # Rewards that differ by rounding alone, 0.1 + 0.2 and 0.3, have no room for bins between them.
    if high - low <= 1e-9 * largest:
        margin = max(0.5, 1e-3 * largest)
        low, high = low - margin, high + margin
    return np.histogram(values, bins=BINS, range=(low, high))


def _mode(keys: WandbKeys) -> Any:
    if keys.mode is not None:
        return keys.mode
    # None: wandb itself reads the environment.
    return None if os.environ.get("WANDB_MODE") else "offline"


def _picture(file: Path) -> Any:
    import wandb

    if file.suffix == ".gif":
        return wandb.Video(str(file), format="gif")
    return wandb.Image(str(file))
