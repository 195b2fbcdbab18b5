"""TensorBoard's file of events, written in this thread: what the disk says against a write is heard where it was made.

torch's own ``SummaryWriter`` writes in a thread of its own, which dies with a traceback on a full disk.
"""

from __future__ import annotations

import io
import itertools
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marl.storage import append_to

_files = itertools.count()


class Events:
    """One file of events in ``directory``. What is added comes to the disk by ``flush``, all of it or nothing.

    With ``purge_step`` TensorBoard drops the events of earlier files from this step on.
    """

    def __init__(self, directory: Path, purge_step: int | None = None) -> None:
        # Here and not at the top: importing it takes long, and commands that only read do without.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        second, number = int(time.time()), next(_files)
        self.path = directory / f"events.out.tfevents.{second:010d}.{platform.node()}.{os.getpid()}.{number}"
        self._waiting = io.BytesIO()
        self._records = RecordWriter(self._waiting)
        self._add(Event(file_version="brain.Event:2"), 0)
        if purge_step is not None:
            self._add(Event(session_log=SessionLog(status=SessionLog.START)), purge_step)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        from torch.utils.tensorboard.summary import scalar

        self.add_summary(scalar(tag, value), step)

    def add_histogram(self, tag: str, values: Sequence[float], step: int) -> None:
        from torch.utils.tensorboard.summary import histogram

        bins = _bins()
        # What lies outside of all bins counts in the last one: torch fails where nothing else is left.
        inside = np.clip(np.asarray(values, np.float64), bins[0], bins[-1])
        self.add_summary(histogram(tag, inside, bins), step)

    def add_image(self, tag: str, shape: Sequence[int], content: bytes, step: int) -> None:
        """A picture or film as it stands in its file, of ``shape`` height, width and colours."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        height, width, colours = shape
        image = Summary.Image(height=height, width=width, colorspace=colours, encoded_image_string=content)
        self.add_summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)

    def add_summary(self, summary: Any, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._add(Event(summary=summary), step)

    def _add(self, event: Any, step: int) -> None:
        event.wall_time, event.step = time.time(), int(step)
        self._records.write(event.SerializeToString())

    def flush(self) -> None:
        """Bring to the disk what was added; after a failure it is dropped, so that nothing half-written is read."""
        waiting = self._waiting.getvalue()
        # Emptied before it is written: after a failure the same events must not be written twice.
        self._waiting.seek(0)
        self._waiting.truncate()
        append_to(self.path, waiting)


def _bins() -> list[float]:
    """TensorBoard's own limits of buckets: growing by a tenth, from 1e-12 to 1e20, on both sides of 0."""
    limits, limit = [], 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return [*(-limit for limit in reversed(limits)), 0.0, *limits]
