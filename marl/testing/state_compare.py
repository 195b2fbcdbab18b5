"""What ``check_learner`` looks at: state, compared bit for bit, grids in another order, and a generator without luck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from marl.algos.family import Preset
from marl.data.batch import ENV_COLUMNS, ROW_COLUMNS, SEAT_COLUMNS, MultiAgentBatch
from marl.data.task import Array, Ints, PolicyID
from marl.data.tree import pack
from marl.errors import UserError
from marl.testing.learner_report import NotSo
from marl.training.trainer import Trainer


class NoLuck(np.random.Generator):
    """Draws every row once and in order, and no noise, so that two learners differ by what they were given alone."""

    def integers(self, low: Any, high: Any = None, size: Any = None, **_: Any) -> Any:  # type: ignore[override]
        if high is None:
            low, high = 0, low
        return np.arange(size) % (high - low) + low

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.full(_shape(size), 0.5)

    def standard_exponential(self, size: Any = None, dtype: Any = np.float64, *_: Any, **__: Any) -> Any:
        return np.ones(_shape(size), dtype)

    def permutation(self, x: Any, *_: Any, **__: Any) -> Any:
        return np.arange(x)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, **_: Any) -> Any:  # type: ignore[override]
        return np.zeros(_shape(size), dtype)


def _shape(size: Any) -> Any:
    # No size means a single number, whose shape is empty.
    if size is None:
        return ()
    return size


def large_steps(preset: Preset) -> dict[str, float]:
    """Three times the preset's own step sizes, and not too small ones: a short run has to get somewhere."""
    config = preset.configure().model_dump()
    rates = {}
    for key in ("lr", "actor_lr", "critic_lr", "alpha_lr"):
        own = config.get(key)
        if own is not None:
            rates[key] = max(5e-3, 3 * own)
    return rates


def known(preset: Preset, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the keys that this preset takes."""
    taken = {}
    for key, value in keys.items():
        try:
            preset.configure(**{key: value})
        except (ValueError, UserError):  # not a key of this family, means nothing to it, or is fixed
            continue
        taken[key] = value
    return taken


def in_order(batch: MultiAgentBatch, env_ids: Ints) -> MultiAgentBatch:
    """The same grid with its copies in another order."""
    columns: dict[str, Any] = {}
    for name in ENV_COLUMNS:  # one array for each kind of agents
        columns[name] = [part[:, env_ids] for part in getattr(batch, name)]
    for name in (*SEAT_COLUMNS, *ROW_COLUMNS):
        columns[name] = getattr(batch, name)[:, env_ids]
    return replace(batch, **columns)


def check_finite(trainer: Trainer) -> None:
    """No weight and no metric may have become infinite or NaN."""
    for policy, arrays in trainer.get_weights().items():
        _check_finite(arrays, "weights ", policy)
    for policy, row in trainer.last_metrics.items():
        _check_finite(row, "", policy)


def _check_finite(values: Mapping[str, Any], what: str, policy: PolicyID) -> None:
    bad = [name for name, value in values.items() if not np.isfinite(value).all()]
    if bad:
        raise NotSo(f"{what}{', '.join(bad)} of policy {policy!r} are not finite.")


def everything(trainer: Trainer) -> dict[str, Any]:
    """What a checkpoint would hold of policies, learners and workers."""
    return {
        "policies": trainer.get_weights(),
        "learners": [learner.state_dict() for learner in trainer.learners],
        "replay": [learner.replay_state() for learner in trainer.learners],
        "workers": trainer.workers.state_dict(),
    }


def different(a: Any, b: Any) -> list[str]:
    """Places at which two trees of state are not equal to the last bit."""
    (plain_a, arrays_a), (plain_b, arrays_b) = pack(a), pack(b)
    found = []
    for name in sorted(arrays_a.keys() | arrays_b.keys()):
        if not same_bits(arrays_a.get(name), arrays_b.get(name)):
            found.append(name)
    if repr(plain_a) != repr(plain_b):
        found.append("numbers")
    return found


def same_bits(a: Array | None, b: Array | None) -> bool:
    """Two arrays of one shape and type that are equal to the last bit."""
    if a is None or b is None:
        return False
    # Bytes, not ==: a NaN equals itself here, and 0.0 is not -0.0.
    return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
