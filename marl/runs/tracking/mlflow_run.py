"""A run in MLflow, by default in a database of its own inside the run directory."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from marl.inputs import real_path
from marl.runs.files import table_row
from marl.runs.tracking.keys import MlflowKeys
from marl.runs.tracking.tracker import Tracker, pictures_of

log = logging.getLogger(__name__)
MOST_METRICS, MOST_PARAMS = 1000, 100  # that MLflow takes in one call
LONGEST_VALUE, LONGEST_NAME = 6000, 250


def begin_mlflow(directory: Path, params: Mapping[str, Any], keys: MlflowKeys) -> Tracker:
    """The logger of ``loggers: [mlflow]``."""
    return Tracker("mlflow", directory, partial(MlflowRun, directory, params, keys))


class MlflowRun:
    """One run of MLflow. Steps there are env steps.

    Only its client is used: the functions of ``mlflow`` itself have one active run per program, and seeds may train together.
    """

    def __init__(self, directory: Path, params: Mapping[str, Any], keys: MlflowKeys, known: str | None) -> None:
        # MLflow counts its users by calls out of the machine, also where runs stay in a local file.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # What it says about making tables would break the table that a run shows.
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        from mlflow.tracking import MlflowClient

        self._directory, self._media = directory, keys.media
        place = keys.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
        self._artifacts: str | None = None  # where the server says
        if place is None:
            folder = directory.resolve() / "mlflow"
            folder.mkdir(exist_ok=True)
            place = f"sqlite:///{folder / 'mlflow.db'}"
            self._artifacts = (folder / "artifacts").as_uri()
        self._client = MlflowClient(tracking_uri=place)
        plain = dict(_flat(params, ""))
        self.is_new = known is None or not self._goes_on(known, plain)
        self.id = known or ""
        if self.is_new:
            self.id = self._new_run(keys, params, plain)
        if self._artifacts is not None and not self._keeps_artifacts_here():
            log.warning(
                "MLflow keeps files of this run elsewhere; pictures and films are in %s alone", directory / "media"
            )
            self._media = False

    def _keeps_artifacts_here(self) -> bool:
        """Whether files would go to the run directory: a database that came with it may name any place."""
        place = urlsplit(self._client.get_run(self.id).info.artifact_uri)
        if place.scheme not in ("file", ""):
            return False
        return real_path(url2pathname(place.path)).is_relative_to(real_path(self._directory))

    def _new_run(self, keys: MlflowKeys, params: Mapping[str, Any], plain: Mapping[str, str]) -> str:
        from mlflow.entities import Param

        experiment = self._experiment(keys.experiment or params.get("name") or "marl")
        made = self._client.create_run(experiment, run_name=keys.name or self._directory.name, tags=keys.tags)
        run = str(made.info.run_id)
        waiting = iter(plain.items())
        while some := [Param(name, value) for name, value in islice(waiting, MOST_PARAMS)]:
            self._client.log_batch(run, params=some)
        return run

    def _experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=self._artifacts))
            except MlflowException:
                # Another run that begins now may have made it in between.
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _goes_on(self, run: str, plain: Mapping[str, str]) -> bool:
        """Whether the run is there; then it is running again, with the keys that it has now."""
        from mlflow.exceptions import MlflowException

        try:
            before = self._client.get_run(run).data.params
        except MlflowException:
            return False  # another server, or a run directory that was moved
        self._client.update_run(run, status="RUNNING")
        for name, value in plain.items():
            # A parameter never changes in MLflow, so a new value becomes a tag.
            if before.get(name) != value:
                self._client.set_tag(run, _name(f"resumed.{name}"), value)
        return True

    def log(self, result: Mapping[str, Any]) -> None:
        metrics = list(_metrics(result))
        for begin in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self.id, metrics=metrics[begin : begin + MOST_METRICS])
        if self._media:
            self._show(result)

    def _show(self, result: Mapping[str, Any]) -> None:
        for files in pictures_of(result, self._directory).values():
            for file in files:
                self._client.log_artifact(self.id, str(file), "media")

    def finish(self) -> None:
        self._client.set_terminated(self.id)


def _metrics(result: Mapping[str, Any]) -> Iterator[Any]:
    """The numbers of a result, at its env steps."""
    from mlflow.entities import Metric

    step, now = int(result.get("timesteps_total") or 0), int(time.time() * 1000)
    for name, value in table_row(result).items():
        # A bool is an int to Python, but no curve.
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        yield Metric(_name(name), float(value), now, step)


def _flat(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Keys joined by dots, values as texts: MLflow's parameters."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield _name(name), str(value)[:LONGEST_VALUE]


def _name(text: str) -> str:
    """A name that MLflow takes; policies and agents may be called anything."""
    plain = _path(re.sub(r"[^\w./ :-]", "_", text))
    # Once more: cut off in the middle, the last step may have become one of those.
    return _path(plain[: LONGEST_NAME - 1])


def _path(name: str) -> str:
    """MLflow may keep names as paths of files, and takes none with steps that lead elsewhere or nowhere."""
    steps = []
    for step in name.split("/"):
        steps.append("_" if step in ("", ".", "..") else step)
    return "/".join(steps)
