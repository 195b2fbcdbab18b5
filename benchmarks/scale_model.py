"""A model of what a round costs: a sum of terms (per round, per tick, per row, per byte ...), each with a price of at least 0.

Prices are found by non-negative least squares on relative errors, so that a point of a millisecond counts as much as one of a
second. How far to trust them: each point is predicted from all the others (leave one out).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import nnls

Row: TypeAlias = Mapping[str, Any]
Terms: TypeAlias = dict[str, float]
"""Name of a term -> how often it is paid."""
FLOAT = 4  # bytes of a number


@dataclass(frozen=True)
class Cost:
    """Seconds as a sum of prices; ``errors`` are relative, each of a point that the fit did not see."""

    prices: dict[str, float]
    terms: Callable[[Row], Terms]
    errors: tuple[float, ...]

    def __call__(self, row: Row) -> float:
        return sum(self.parts(row).values())

    def parts(self, row: Row) -> Terms:
        return {name: self.prices[name] * often for name, often in self.terms(row).items()}

    @property
    def typical_error(self) -> float:
        return float(np.median(self.errors))

    @property
    def large_error(self) -> float:
        return float(np.quantile(self.errors, 0.9))


def fit(rows: Sequence[Row], seconds: Sequence[float], terms: Callable[[Row], Terms]) -> Cost:
    names = list(terms(rows[0]))
    table = np.array([[terms(row)[name] for name in names] for row in rows])
    measured = np.array(seconds)
    prices = _solve(table, measured)
    errors = []
    for i in range(len(rows)):
        others = np.arange(len(rows)) != i
        foreseen = table[i] @ _solve(table[others], measured[others])
        errors.append(abs(foreseen - measured[i]) / measured[i])
    return Cost(dict(zip(names, prices.tolist(), strict=True)), terms, tuple(errors))


def _solve(table: Any, measured: Any) -> Any:
    relative = table / measured[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    prices, _ = nnls(relative / scale, np.ones(len(measured)))
    return prices / scale


# -- what is paid for ------------------------------------------------------------------------------------------------


def rows_of(row: Row) -> float:
    """Decisions of one round."""
    return float(row["envs"] * row["agents"] * row["ticks"])


def minibatches_of(row: Row) -> list[int]:
    """How many minibatches each policy has per epoch: agents are dealt in turn, so some policies have one agent more."""
    fewest, with_one_more = divmod(row["agents"], row["policies"])
    per_agent, counts = row["envs"] * row["ticks"], []
    for agents, policies in ((fewest + 1, with_one_more), (fewest, row["policies"] - with_one_more)):
        counts += [math.ceil(agents * per_agent / row["minibatch"])] * policies
    return counts


def collecting(row: Row) -> Terms:
    ticks, rows = row["ticks"], rows_of(row)
    return {
        "round": 1.0, "tick": ticks, "policy and tick": ticks * row["policies"], "env step": ticks * row["envs"],
        "agent step": rows, "observed byte": rows * row["obs"] * FLOAT,
    }  # fmt: skip


def loading(row: Row) -> Terms:
    return {
        "round": 1.0,
        "policy": row["policies"],
        "row": rows_of(row),
        "observed byte": rows_of(row) * row["obs"] * FLOAT,
    }


def updating(row: Row) -> Terms:
    seen, counts = rows_of(row) * row["epochs"], minibatches_of(row)
    # Policies of one shape take their steps together: a step is paid once, and each policy's minibatch in it.
    return {
        "round": 1.0, "policy": row["policies"], "step": max(counts) * row["epochs"],
        "minibatch": sum(counts) * row["epochs"], "row and epoch": seen, "byte and epoch": seen * row["obs"] * FLOAT,
    }  # fmt: skip


def gathering(row: Row) -> Terms:
    return {"round": 1.0, "worker": row["workers"], "byte": row["bytes"]}


def broadcasting(row: Row) -> Terms:
    return {"round": 1.0, "worker": row["workers"]}


def sizing(row: Row) -> Terms:
    return {"row": rows_of(row), "number": rows_of(row) * row["obs"]}


# -- a whole run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A run whose speed is foretold; sizes are those of one worker."""

    name: str
    envs: int
    ticks: int
    agents: int
    obs: int
    epochs: int
    env_step_s: float  # what the env itself costs
    minibatch: int = 400

    def row(self, workers: int) -> dict[str, Any]:
        return {**vars(self), "policies": 1, "workers": workers}


SETTINGS = (
    Setting("an env on arrays", envs=256, ticks=25, agents=3, obs=18, epochs=4, env_step_s=1e-6),
    Setting("an env in Python", envs=8, ticks=100, agents=3, obs=18, epochs=4, env_step_s=350e-6),
    Setting(
        "an env in Python with 1,024 numbers to see", envs=8, ticks=100, agents=1, obs=1024, epochs=4, env_step_s=1e-3
    ),
)
DRIVER = ("gather", "load", "update", "broadcast")


@dataclass(frozen=True)
class Model:
    """All costs of a run."""

    collect: Cost
    load: Cost
    update: Cost
    concat: Cost
    gather: Cost
    daemon: Cost
    broadcast: Cost
    size: Cost

    def learn(self, row: Row) -> float:
        return self.load(row) + self.update(row)

    def round(self, setting: Setting, workers: int) -> Terms:
        """Seconds of each part of a round; each worker brings its share, so the batch grows with their number."""
        one, steps = setting.row(workers), setting.envs * setting.ticks
        every = {**one, "envs": setting.envs * max(1, workers)}
        parts = {
            "collect": self.collect(one) + steps * setting.env_step_s,
            "load": self.load(every),
            "update": self.update(every),
        }
        sent = {"workers": workers, "bytes": self.size(every)}
        by_ray = {"gather": self.gather, "broadcast": self.broadcast, "daemon": self.daemon, "concat": self.concat}
        for name, cost in by_ray.items():
            parts[name] = cost(sent) if workers else 0.0
        return parts

    def speed(self, setting: Setting, workers: int, overlap: bool = False, spared: Sequence[str] = ()) -> float:
        """Env steps per second, where the driver is spared some parts, which then are the workers' (or other learners')."""
        parts = self.round(setting, workers)
        collect = parts["collect"] + sum(parts[name] for name in spared) / max(1, workers)
        driver = sum(parts[name] for name in DRIVER if name not in spared)
        took = max(collect, driver) if overlap else collect + driver
        return max(1, workers) * setting.envs * setting.ticks / took

    def limit(self, setting: Setting, parts: Sequence[str] = DRIVER) -> float:
        """With how many workers these parts of the driver's work take as long as collecting; infinite if they never do."""
        for workers in range(1, 100_000):
            found = self.round(setting, workers)
            if sum(found[name] for name in parts) >= found["collect"]:
                return float(workers)
        return math.inf


def model_of(found: Mapping[str, Any]) -> Model:
    """The model that fits the numbers of ``benchmarks/scale.py``."""
    points, workers, concat = found["points"], found["workers"], found["concat"]
    updates = [row["learn"] - row["load"] for row in points]
    whole = [{**row, "envs": row["envs"] * row["workers"]} for row in workers]
    return Model(
        collect=fit(points, [row["collect"] for row in points], collecting),
        load=fit(points, [row["load"] for row in points], loading),
        update=fit(points, updates, updating),
        concat=fit(concat, [row["seconds"] for row in concat], gathering),
        gather=fit(workers, [row["gather"] for row in workers], gathering),
        daemon=fit(workers, [max(row["daemon"], 1e-5) for row in workers], gathering),
        broadcast=fit(workers, [row["broadcast"] for row in workers], broadcasting),
        size=fit(whole, [row["bytes"] for row in whole], sizing),
    )
