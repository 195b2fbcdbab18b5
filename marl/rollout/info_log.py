"""What the env said beside its steps (``infos``), for callbacks and for looking; learners never see it.

It is kept apart from the grid, which holds numbers alone: by episode and step, and there by seat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.data.batch import Infos, MultiAgentBatch
from marl.data.task import Array
from marl.envs.vector.vector_env import DictVector
from marl.rollout.env_runner import EnvRunner


class InfoLog:
    """The infos of the steps in a worker's grid."""

    def __init__(self) -> None:
        self.said: Infos = {}

    def note(self, player: EnvRunner) -> None:
        """Right after a step, before any episode begins anew."""
        env = player.env
        if not isinstance(env, DictVector):  # a native env says nothing
            return
        for env_id, infos in enumerate(env.infos):
            by_seat = {}
            for seat in range(len(env.seat_names)):
                info = infos.get(env.agent_at(env_id, seat))
                if info:
                    by_seat[seat] = info
            if by_seat:
                # The step has been counted already; rows are numbered by the step that they begin with.
                self.said[int(player.eps_id[env_id]), int(player.t[env_id]) - 1] = by_seat

    def put_into(self, batch: MultiAgentBatch) -> None:
        batch.infos = dict(self.said)

    def keep(self, eps_id: Array, t: Array) -> None:
        """Only those of these rows, which the next grid repeats."""
        kept = set(zip(eps_id.ravel().tolist(), t.ravel().tolist(), strict=True))
        self.said = {key: infos for key, infos in self.said.items() if key in kept}

    def state_dict(self) -> list[Any]:
        """As far as a file can hold it: numbers, texts, lists, dicts and arrays."""
        rows = []
        for (episode, step), by_seat in self.said.items():
            infos = [[seat, _plain(info)] for seat, info in by_seat.items()]
            rows.append([episode, step, infos])
        return rows

    def load_state_dict(self, rows: list[Any]) -> None:
        self.said = {}
        for episode, step, infos in rows:
            self.said[episode, step] = dict(infos)


def _plain(value: Any) -> Any:
    """The value without what no file can hold."""
    if isinstance(value, Mapping):
        parts: dict[str, Any] = {}
        for key, item in value.items():
            if _is_plain(item):
                parts[str(key)] = _plain(item)
        return parts
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value if _is_plain(item)]
    return value


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype != object)
    return value is None or isinstance(value, Mapping | list | tuple | str | bool | int | float | np.generic)
