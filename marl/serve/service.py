"""The server of a run that learns from clients: its hub, its journal and where it listens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from marl.config import Config
from marl.envs.external.training import ExternalTraining
from marl.errors import CheckpointError
from marl.inputs import read_text
from marl.runs.resume import is_resumable
from marl.serve.config import ServerConfig
from marl.serve.hub import Hub, Stage
from marl.serve.journal import Journal
from marl.serve.limits import Limits
from marl.serve.program import Program
from marl.serve.server import Server
from marl.storage import write_atomically

JOURNAL = "journal"  # folder of the run directory
MARKS = "marks.json"
C = TypeVar("C", bound=Config)


class Service:
    """Listens from ``start`` on. Without a ``directory`` there is no journal, and open episodes end with the process.

    With a ``program`` that one plays, and serves if it likes. It begins anew in every process, so there is no journal either.
    """

    def __init__(self, keys: ExternalTraining, stage: Stage, program: Callable[[Hub], Program] | None = None) -> None:
        self.keys, self.stage = keys, stage
        self.directory: Path | None = None
        self.note: Callable[[str], None] = _tell_nobody
        self.on_failure: Callable[[BaseException], None] = _tell_nobody  # of a program
        self.hub = Hub(stage, _part(keys, Limits))
        self.program = None if program is None else program(self.hub)
        self.server = self.program or Server(self.hub, _part(keys, ServerConfig))  # refuses what would let strangers in
        self.open = False
        self.marks: dict[str, int] = {}  # checkpoint to the segment that goes on from it

    @property
    def url(self) -> str:
        return self.server.url

    def hand_over(self, stage: Stage) -> None:
        """Another stage plays from now on, also what clients have begun meanwhile."""
        waiting = self.hub.replace_stage(stage)
        for episode in waiting:
            stage.begin(episode)

    def start(self, segment: int | None = None, play_again: bool = True) -> None:
        """Go on from a segment of the journal, if there is one, and listen, unless that is done already.

        ``play_again``: the run plays what clients have reported since the segment began; else open episodes are over.
        """
        if self.directory is not None and self.program is None:
            journal = Journal(self.directory / JOURNAL)
            self.hub.keep_journal(journal)
            # A run that ended before it served anybody has a checkpoint, and no journal yet.
            self.hub.recover(segment if journal.segments() else None, play_again)
            if not play_again:
                self.forget_past()
            self.marks = read_marks(journal.folder)
        if self.open:
            return
        if self.program is not None:
            self.program.note, self.program.on_failure = self.note, self.on_failure
        self.server.start()
        self.open = True
        if self.program is None:
            self._tell_address()

    def _tell_address(self) -> None:
        told = f"clients: {self.url}"
        if self.keys.token_file is not None:
            told += f", with the token in {self.keys.token_file}"
        self.note(told)

    @property
    def segment(self) -> int | None:
        """The segment of the journal that is written to."""
        return None if self.hub.journal is None else self.hub.journal.segment

    def mark(self) -> int | None:
        """A checkpoint is being written: the journal from here on belongs to it."""
        if self.hub.journal is None:
            return None
        return self.hub.mark()

    def saved(self, checkpoint: Path, segment: int | None) -> None:
        """A checkpoint is there: forget the segments that no checkpoint needs any more."""
        journal = self.hub.journal
        if journal is None or segment is None:
            return
        # By name, also of earlier lives of the run: `best` may be much older than the others.
        beside = checkpoint.parent
        kept = {name: number for name, number in self.marks.items() if _can_go_on(beside / name)}
        self.marks = {**kept, checkpoint.name: segment}
        write_marks(journal.folder, self.marks)
        journal.forget(min(self.marks.values()))

    def forget_past(self) -> None:
        """For a run that never plays anything again: the journal needs no more than who is there now."""
        if self.hub.journal is not None:
            self.hub.journal.forget(self.hub.mark())

    def stop(self, reason: str) -> None:
        """Whoever waits for an answer gets the reason at once: what has been reported is kept."""
        if self.open:
            self.server.stop(grace_s=0.0, reason=reason)


def _can_go_on(checkpoint: Path) -> bool:
    """Whether a run could still be resumed from it: older ones are gone, or only good for playing."""
    if not checkpoint.is_dir():
        return False
    try:
        return is_resumable(checkpoint)
    except CheckpointError:  # damaged: whoever mends it may still want its segment
        return True


def read_marks(folder: Path) -> dict[str, int]:
    """Which segment belongs to which checkpoint; without the file nobody knows, and nothing is forgotten."""
    file = folder / MARKS
    if not file.is_file():
        return {}
    told = json.loads(read_text(file))
    return {str(name): int(segment) for name, segment in told.items()}


def write_marks(folder: Path, marks: Mapping[str, int]) -> None:
    write_atomically(folder / MARKS, json.dumps(dict(marks)) + "\n")


def _part(keys: ExternalTraining, kind: type[C]) -> C:
    return kind(**{key: getattr(keys, key) for key in kind.model_fields})


def _tell_nobody(told: object) -> None:
    del told
