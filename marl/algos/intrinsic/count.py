"""Bonuses by counting (Strehl & Littman, 2008): ``1 / sqrt(n)`` for an outcome that was seen ``n`` times, this one included.

Observations are the same where all their numbers are, rounded to ``decimals``. For small worlds, where it is exact and needs
no network; in large ones every observation is new for ever, and ``rnd`` is the kind to take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from marl.algos.intrinsic.kind import INTRINSIC, IntrinsicReward, IntrinsicSpec
from marl.data.batch import SampleBatch
from marl.data.task import Array, Floats


class VisitCount(IntrinsicReward):
    """How often each observation was the outcome of a decision."""

    description = "outcomes seen n times pay 1 / sqrt(n)"
    keys: ClassVar = ("decimals",)

    def __init__(self, spec: IntrinsicSpec) -> None:
        super().__init__(spec)
        self.visits: dict[bytes, int] = {}
        self.width = np.dtype(spec.agents.obs_dtype).itemsize * spec.agents.obs_width  # bytes of an observation

    def observe(self, rows: SampleBatch) -> None:
        for key in self._keys(rows["new_obs"]):
            self.visits[key] = self.visits.get(key, 0) + 1

    def bonus(self, rows: SampleBatch) -> Floats:
        # A decision that is only looked at again was counted before.
        counts = [max(self.visits.get(key, 0), 1) for key in self._keys(rows["new_obs"])]
        return np.asarray(1 / np.sqrt(counts), np.float32)

    def _keys(self, observations: Array) -> list[bytes]:
        """Equal bytes for equal observations."""
        if np.issubdtype(observations.dtype, np.floating):
            # Adding 0 turns -0.0 into 0.0, which is equal to it but has other bytes.
            observations = np.round(observations, self.config.decimals) + np.float32(0)
        return [row.tobytes() for row in observations]

    def state_dict(self) -> dict[str, Any]:
        seen = np.frombuffer(b"".join(self.visits), np.uint8).reshape(len(self.visits), self.width)
        return {"seen": seen.copy(), "counts": np.array(list(self.visits.values()), np.int64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        seen = [np.asarray(row, np.uint8).tobytes() for row in state["seen"]]
        self.visits = dict(zip(seen, np.asarray(state["counts"]).tolist(), strict=True))


INTRINSIC.register("count", VisitCount)
