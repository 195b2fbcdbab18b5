"""What is played, as text: every worker's episodes go to files of its own, an episode per line (``output_format: json``).

A line is appended when its episode has ended. A checkpoint holds how long each file is, so a resumed run cuts the files back
to it and nothing is there twice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from marl.data.task import AgentID, PolicyID
from marl.errors import CheckpointError, printable
from marl.offline.json_lines import NAME, to_line, trace_files, trace_name
from marl.offline.recording import EPISODES_PER_FILE, check_there
from marl.offline.trajectories import Rows
from marl.scenario.resolve import Setup
from marl.storage import append_to


@dataclass
class _Place:
    """Where a worker's next line goes."""

    number: int = 0
    episodes: int = 0
    size: int = 0  # bytes of the file so far


class TextFiles:
    """``output-<date>_worker-<i>_<n>.json``. Lanes of one worker are neighbours; the first worker is ``first``."""

    def __init__(
        self, directory: Path, agents: Sequence[AgentID], policies: Sequence[PolicyID], lanes_per_worker: int, first: int,
        per_file: int = EPISODES_PER_FILE,
    ) -> None:  # fmt: skip
        self.directory, self.agents, self.policies = directory, agents, policies
        self.lanes_per_worker, self.first, self.per_file = lanes_per_worker, first, per_file
        self.date = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        self.places: dict[int, _Place] = {}

    def keep(self, env_id: int, episode: Rows) -> None:
        worker = self.first + env_id // self.lanes_per_worker
        place = self.places.setdefault(worker, _Place())
        if place.episodes == self.per_file:
            place = self.places[worker] = _Place(place.number + 1)
        line = to_line(episode, self.agents, self.policies, worker)
        append_to(self._path(worker, place), line)
        place.episodes, place.size = place.episodes + 1, place.size + len(line)

    def _path(self, worker: int, place: _Place) -> Path:
        return self.directory / trace_name(self.date, worker, place.number)

    def write(self) -> None:
        """Lines are there already; let them survive a loss of power as well."""
        for worker, place in self.places.items():
            with self._path(worker, place).open("rb") as file:
                os.fsync(file.fileno())

    def state_dict(self) -> dict[str, Any]:
        places = {}
        for worker, place in self.places.items():
            places[str(worker)] = [place.number, place.episodes, place.size]
        return {"date": self.date, "places": places}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.date = state["date"]
        self.places = {int(worker): _Place(*numbers) for worker, numbers in state["places"].items()}
        needed = self._names()
        check_there(self.directory, needed)
        for path in trace_files(self.directory):
            # Of this run (its date), and begun after the checkpoint: other runs may record into the same directory.
            ours = path.name.startswith(f"output-{self.date}_worker-")
            if ours and path.name not in needed:
                path.unlink()
        for worker, place in self.places.items():
            os.truncate(self._path(worker, place), place.size)

    def _names(self) -> list[str]:
        """The files that there should be, which are cut; the state may be a stranger's, so none leads out of the directory."""
        names = []
        for worker, place in self.places.items():
            names += [trace_name(self.date, worker, number) for number in range(place.number + 1)]
        for name in names:
            if not NAME.fullmatch(name):
                raise CheckpointError(
                    f"the checkpoint's run recorded {printable(names[0])}, which is no file of recordings."
                )
        return names


def text_files(directory: Path, setup: Setup) -> TextFiles:
    """Files for the workers of a run."""
    config = setup.rollout.config
    return TextFiles(
        directory, setup.task.seat_names, list(setup.policies), config.num_envs_per_worker, int(config.num_workers > 0)
    )
