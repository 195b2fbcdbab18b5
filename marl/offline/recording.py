"""Keeping what is played: whole episodes of all agents go to ``trajs_0.npz``, ``trajs_1.npz``, ... of a directory.

Rounds bring a few rows of many running episodes; each env copy's rows are put aside until its episode has ended. A file is
written when it is full, and the last one, as far as it has come, with every checkpoint and at the end. A checkpoint holds
the running episodes and the number of finished ones, so a resumed run drops what came after it and nothing is there twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from marl.data.batch import MultiAgentBatch
from marl.data.task import PolicyID, Task
from marl.errors import CheckpointError, DataError
from marl.offline.manifest import write_manifest
from marl.offline.trajectories import (
    Rows,
    file_name,
    is_over,
    joined,
    numbered_files,
    read_episodes,
    recorded_files,
    rows_of,
    write_episodes,
)
from marl.policies.policy import Policy
from marl.rollout.pool import WorkerPool
from marl.rollout.rollout_buffer import Collected

EPISODES_PER_FILE = 1_000


class Files(Protocol):
    """Where finished episodes go."""

    def keep(self, env_id: int, episode: Rows) -> None: ...

    def write(self) -> None:
        """Bring to the disk what is not there yet."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cut the files back to what they held when the state was taken."""


class ArrayFiles:
    """``trajs_0.npz``, ``trajs_1.npz``, ... with so many episodes each."""

    def __init__(self, directory: Path, per_file: int) -> None:
        self.directory, self.per_file = directory, per_file
        self.full_files = 0
        self.finished: list[Rows] = []  # episodes of the file that is not full yet
        self._unwritten = False

    def keep(self, env_id: int, episode: Rows) -> None:
        del env_id
        self.finished.append(episode)
        self._unwritten = True
        if len(self.finished) == self.per_file:
            self.write()
            self.finished, self.full_files = [], self.full_files + 1

    def write(self) -> None:
        if self._unwritten:
            write_episodes(self.directory / file_name(self.full_files), self.finished)
            self._unwritten = False

    def state_dict(self) -> dict[str, Any]:
        return {"full_files": self.full_files, "finished": len(self.finished)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.full_files, kept = state["full_files"], state["finished"]
        files = numbered_files(self.directory)
        count = self.full_files + (kept > 0)
        check_there(self.directory, [file_name(number) for number in range(count)])
        self.finished = []
        if kept:
            last = self.directory / file_name(self.full_files)
            self.finished = read_episodes(last)[:kept]
        self._unwritten = bool(kept)  # the file may hold later episodes as well
        for path in files[count:]:
            path.unlink()


def check_there(directory: Path, needed: Sequence[str]) -> None:
    """The files that a checkpoint's run had written."""
    for name in needed:
        if not (directory / name).is_file():
            raise CheckpointError(
                f"the checkpoint's run had recorded {len(needed)} file(s) in {directory}, but {name} is not there. "
                "Bring it back, or start a new run."
            )


class Recorder:
    """Writes the episodes of one run into ``directory``, which must not hold those of another one."""

    def __init__(
        self, directory: Path, task: Task, env: str, policies: Sequence[PolicyID], normalized: bool,
        per_file: int = EPISODES_PER_FILE, files: Files | None = None, told: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.directory = directory
        self.files = files or ArrayFiles(directory, per_file)
        self._manifest = (task, env, policies, normalized, told)
        self.ready = False
        self.running: dict[int, tuple[int, list[Rows]]] = {}  # env copy to its episode and what happened in it so far

    def add(self, batch: MultiAgentBatch) -> None:
        """Take the new rows of a round."""
        if not self.ready:
            self.prepare()
        new = batch.context  # rows before are those of the round before, for learners with a memory
        for env_id in range(batch.t.shape[1]):
            ids = batch.eps_id[new:, env_id]
            begins = np.flatnonzero(np.diff(ids)) + 1  # of all episodes but the first
            for first, last in pairwise([0, *begins.tolist(), len(ids)]):
                rows = rows_of(batch, slice(new + first, new + last), env_id)
                self._continue(batch.first_lane + env_id, int(ids[first]), rows)

    def prepare(self) -> None:
        """Look whether there is room, before anything is played; a recorder that goes on from a checkpoint has its own."""
        if recorded_files(self.directory):
            raise DataError(
                f"{self.directory} already holds recorded episodes. Choose another directory, or move them away; a resumed "
                "run goes on in its own one."
            )
        self._make()

    def _make(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_manifest(self.directory, *self._manifest)
        except OSError as error:
            raise DataError(f"cannot record into {self.directory}: {error}. Choose a directory to write to.") from error
        self.ready = True

    def _continue(self, env_id: int, episode: int, rows: Rows) -> None:
        before, parts = self.running.setdefault(env_id, (episode, []))
        if before != episode:
            self._finish(env_id, parts)
            parts = []
            self.running[env_id] = (episode, parts)
        parts.append(rows)

    def _finish(self, env_id: int, parts: Sequence[Rows]) -> None:
        """Keep an episode that came to its end; one that was broken off is worth nothing to learners of returns."""
        episode = joined(parts)
        if is_over(episode):
            self.files.keep(env_id, episode)

    def close(self) -> None:
        """Bring all finished episodes to the disk, also where the env copy has not started anew. Nothing may be added then."""
        for env_id, (_, parts) in self.running.items():
            self._finish(env_id, parts)
        self.running = {}
        self.files.write()

    def state_dict(self) -> dict[str, Any]:
        self.files.write()
        running = {}
        for env_id, (episode, parts) in self.running.items():
            running[str(env_id)] = [episode, joined(parts)]
        return {**self.files.state_dict(), "running": running}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind the episodes that were there at the checkpoint; later ones come again."""
        self.files.load_state_dict(state)
        self._make()
        self.running = {}
        for env_id, (episode, rows) in state["running"].items():
            self.running[int(env_id)] = (episode, [dict(rows)])


def who_tells(policies: Mapping[PolicyID, Policy], explore: bool) -> list[int]:
    """The places of those whose recorded log probabilities are true."""
    return [place for place, policy in enumerate(policies.values()) if policy.tells_logp(explore)]


class RecordedPlay:
    """The workers' rounds, written down on their way to the learners."""

    def __init__(self, workers: WorkerPool, recorder: Recorder) -> None:
        self.workers, self.recorder = workers, recorder

    def collect(self, steps: int) -> Collected:
        if not self.recorder.ready:
            self.recorder.prepare()
        collected = self.workers.collect(steps)
        self.recorder.add(collected.batch)
        return collected

    def state_dict(self) -> dict[str, Any]:
        return self.recorder.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.recorder.load_state_dict(state)

    def close(self) -> None:
        self.recorder.close()
