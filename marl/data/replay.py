"""A ring of decisions to learn from more than once, uniformly or by priority, with n-step outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np

from marl.data.batch import SampleBatch
from marl.data.task import Array, Floats, Ints


class Replay:
    """The newest ``capacity`` rows. A row knows the serial number of the row that followed it in the same stream (one
    agent or team of one env copy), so n-step outcomes do not end at a fragment's border.

    Not ``linked`` (whole sequences as rows): one-step outcomes only. Expected columns: ``rewards``, ``elapsed``,
    ``terminateds``, ``ended``, ``t``, ``eps_id``, any others; ``new_...`` describe the outcome.
    """

    def __init__(self, capacity: int, alpha: float = 0.0, linked: bool = True) -> None:
        self.capacity, self.linked = capacity, linked
        self.total = 0  # rows ever added; row number s lives at s % capacity
        self.columns: dict[str, Array] = {}
        self.following = np.full(capacity, -1, np.int64)
        self.newest = np.full(0, -1, np.int64)  # per stream
        self.priorities = Priorities(capacity, alpha) if alpha > 0 else None

    def __len__(self) -> int:
        return min(self.total, self.capacity)

    @property
    def row_bytes(self) -> int:
        """Of one row, all columns together."""
        return sum(column.nbytes for column in self.columns.values()) // self.capacity

    def add(self, rows: SampleBatch, stream: Ints) -> None:
        """Append rows (in the order of time within each stream)."""
        if len(rows) > self.capacity:
            rows, stream = rows.rows(slice(-self.capacity, None)), stream[-self.capacity :]
        if not len(rows):
            return
        if not self.columns:
            self.columns = {n: np.zeros((self.capacity, *c.shape[1:]), c.dtype) for n, c in rows.items()}
        serials = self.total + np.arange(len(rows))
        places = serials % self.capacity
        for name, column in rows.items():
            self.columns[name][places] = column
        self.following[places] = -1
        self.total += len(rows)
        if self.linked:
            self._link(serials, stream)
        if self.priorities is not None:
            self.priorities.set(places, np.full(len(places), self.priorities.largest))

    def _link(self, serials: Ints, stream: Ints) -> None:
        if stream.max() >= len(self.newest):
            self.newest = np.concatenate([self.newest, np.full(stream.max() + 1 - len(self.newest), -1, np.int64)])
        order = np.argsort(stream, kind="stable")
        serials, stream = serials[order], stream[order]
        first = np.concatenate([[True], stream[1:] != stream[:-1]])
        before = np.where(first, self.newest[stream], np.concatenate([[-1], serials[:-1]]))
        known = (before >= 0) & (before >= self.total - self.capacity)
        before, after = before[known] % self.capacity, serials[known]
        t, elapsed, eps_id = self.columns["t"], self.columns["elapsed"], self.columns["eps_id"]
        here = after % self.capacity
        adjacent = (eps_id[before] == eps_id[here]) & (t[before] + elapsed[before] == t[here])
        self.following[before[adjacent]] = after[adjacent]
        last = np.concatenate([first[1:], [True]])
        self.newest[stream[last]] = serials[last]

    def sample(self, count: int, rng: np.random.Generator, n_step: int, gamma: float, beta: float = 0.0) -> SampleBatch:
        """Random rows with their outcome after ``n_step`` decisions, plus ``weights`` and ``place``."""
        return self.rows(*self.draw(count, rng, beta), n_step, gamma)

    def draw(self, count: int, rng: np.random.Generator, beta: float = 0.0) -> tuple[Ints, Floats]:
        """Places of random rows, and the weights that make up for drawing some of them more often."""
        if self.priorities is None:
            return rng.integers(0, len(self), count), np.ones(count, np.float32)
        places, chance = self.priorities.sample(count, rng)
        correction = (len(self) * chance) ** -beta
        weights: Floats = (correction / correction.max()).astype(np.float32)
        return places, weights

    def rows(self, places: Ints, weights: Floats, n_step: int, gamma: float) -> SampleBatch:
        """The rows at these places with their outcome after ``n_step`` decisions."""
        rows = self._outcomes(places, n_step, gamma)
        return SampleBatch({**rows, "weights": weights, "place": places})

    def _outcomes(self, places: Ints, n_step: int, gamma: float) -> dict[str, Array]:
        columns = self.columns
        if n_step == 1:
            return {name: column.take(places, axis=0) for name, column in columns.items()}
        last = places
        rewards = columns["rewards"][places].astype(np.float64)
        elapsed = columns["elapsed"][places].copy()
        for _ in range(n_step - 1):
            following = self.following[last]
            go_on = (following >= 0) & ~columns["ended"][last]
            last = np.where(go_on, following % self.capacity, last)
            rewards += np.where(go_on, gamma**elapsed * columns["rewards"][last], 0.0)
            elapsed += np.where(go_on, columns["elapsed"][last], 0)
        rows = {}
        for name, column in columns.items():
            of_outcome = name.startswith("new_") or name in ("terminateds", "ended")
            rows[name] = column.take(last if of_outcome else places, axis=0)
        return {**rows, "rewards": rewards.astype(np.float32), "elapsed": elapsed}

    def update_priorities(self, places: Ints, errors: Floats) -> None:
        if self.priorities is not None:
            self.priorities.raise_to(places, errors)

    def state_dict(self) -> dict[str, Any]:
        filled = len(self)
        return {
            "total": self.total,
            "columns": {name: column[:filled] for name, column in self.columns.items()},
            "following": self.following[:filled],
            "newest": self.newest,
            "priorities": None if self.priorities is None else self.priorities.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]
        filled = len(self)
        self.columns = {}
        for name, column in state["columns"].items():
            self.columns[name] = np.zeros((self.capacity, *column.shape[1:]), column.dtype)
            self.columns[name][:filled] = column
        self.following[:filled] = state["following"]
        self.newest = np.array(state["newest"])
        if self.priorities is not None:
            self.priorities.load_state_dict(state["priorities"])


class Priorities:
    """A binary tree of sums over ``|error| ** alpha`` (Schaul et al., 2016): drawing and changing cost log2(capacity)."""

    def __init__(self, capacity: int, alpha: float) -> None:
        self.alpha = alpha
        self.size = 1 << (capacity - 1).bit_length()
        self.tree = np.zeros(2 * self.size)  # leaf i at size + i; node i has the children 2i and 2i + 1
        self.largest = 1.0

    def set(self, places: Ints, priorities: Array) -> None:
        nodes = places + self.size
        self.tree[nodes] = priorities
        # All nodes are of one level. Two of them may have the same parent, which is then computed twice: sorting costs more.
        while nodes[0] > 1:
            nodes = nodes // 2
            self.tree[nodes] = self.tree[2 * nodes] + self.tree[2 * nodes + 1]

    def raise_to(self, places: Ints, errors: Floats) -> None:
        priorities = (np.abs(errors.astype(np.float64)) + 1e-6) ** self.alpha
        self.largest = max(self.largest, float(priorities.max()))
        self.set(places, priorities)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Ints, Array]:
        """Places, drawn by priority in equal shares of the total, and the chance of each."""
        total = self.tree[1]
        wanted = (np.arange(count) + rng.random(count)) / count * total
        nodes = np.ones(count, np.int64)
        while nodes[0] < self.size:
            left = 2 * nodes
            go_right = (wanted >= self.tree[left]) & (self.tree[left + 1] > 0)
            wanted = np.where(go_right, wanted - self.tree[left], wanted)
            nodes = left + go_right
        return nodes - self.size, self.tree[nodes] / total

    def state_dict(self) -> dict[str, Any]:
        return {"tree": self.tree, "largest": self.largest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tree, self.largest = np.array(state["tree"]), state["largest"]
