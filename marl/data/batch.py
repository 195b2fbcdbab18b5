"""What flows from the envs to the learners.

``MultiAgentBatch`` is one aligned grid: every row is one step ``t`` of one copy ``e`` of the env. A row holds the
view
*before* the step (``obs``, ``legal``, ``state``, ``present``), what was done (``actions``, ``action_logp``, who decided)
and the view *after* it (``new_obs``, ``new_legal``, ``new_state``, ``new_present``, ``rewards``, the two flags). All
agents are aligned by construction, so a joint view is a slice.

A decision made in row ``t`` lasts ``elapsed`` steps: until its agent is asked again or has ended. What it led to
stands in row ``t + elapsed - 1``. ``active`` marks the decisions to train on in this grid; each decision is active in
exactly one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from marl.data.returns import fold_rewards
from marl.data.task import AgentID, Array, Bools, Floats, Ints, PolicyID, Task
from marl.errors import DataError, did_you_mean

ENV_COLUMNS = ("obs", "new_obs", "actions", "legal", "new_legal", "carry")  # one array per kind of agent
SEAT_COLUMNS = (
    "rewards", "terminateds", "truncateds", "present", "new_present", "alive", "new_alive", "active", "elapsed",
    "policy_index", "new_policy_index", "action_logp",
)  # fmt: skip
ROW_COLUMNS = ("state", "new_state", "t", "eps_id", "over")


Infos: TypeAlias = dict[tuple[int, int], Mapping[int, Mapping[str, Any]]]
"""What the env said beside a step: by episode and step, and there by seat."""


class SampleBatch(Mapping[str, Array]):
    """Columns of equal length: one policy's (or one team's) experience, one row per decision."""

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self.columns = dict(columns)
        self.count = len(next(iter(self.columns.values()))) if self.columns else 0
        for name, column in self.columns.items():
            assert len(column) == self.count, f"column {name!r} has {len(column)} rows, expected {self.count}"

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """Number of rows."""
        return self.count

    def rows(self, index: Array | slice) -> SampleBatch:
        return SampleBatch({name: column[index] for name, column in self.columns.items()})

    def with_columns(self, **columns: Array) -> SampleBatch:
        return SampleBatch({**self.columns, **columns})

    @staticmethod
    def concat_samples(batches: Sequence[SampleBatch]) -> SampleBatch:
        """One below the other; a single batch is returned as it is."""
        if len(batches) == 1:
            return batches[0]
        columns = {}
        for name in batches[0]:
            columns[name] = np.concatenate([batch[name] for batch in batches])
        return SampleBatch(columns)

    def summarize(self) -> str:
        """One line per column: shape, type, smallest, largest and mean value."""
        lines = []
        for name, column in self.columns.items():
            stats = "empty"
            if column.dtype == object:  # infos
                stats = "objects"
            elif column.size:
                numbers = column.astype(np.float64)
                stats = f"min {numbers.min():.4g} max {numbers.max():.4g} mean {numbers.mean():.4g}"
            lines.append(f"{name:<14} {column.shape!s:<14} {column.dtype!s:<8} {stats}")
        return "\n".join(lines)


@dataclass(frozen=True)
class NextActions:
    """What is done after each step of a grid, for critics that see it (``algos/central_critic/next_actions.py``)."""

    actions: list[Array]  # per kind [T, E, A_k, *action_shape]
    acting: Bools  # [T, E, A]: who does anything then
    known: Bools  # [T, E]: the next row holds it, and goes on from the view that the step led to


@dataclass
class MultiAgentBatch:
    """All agents of ``E`` copies over ``T`` steps. The first ``context`` rows repeat the end of the grid before."""

    task: Task
    policy_ids: tuple[PolicyID, ...]
    obs: list[Array]  # per kind [T, E, A_k, obs_width]
    new_obs: list[Array]
    actions: list[Array]  # per kind [T, E, A_k, *action_shape]
    legal: list[Bools]  # per kind [T, E, A_k, legal_width]
    new_legal: list[Bools]
    rewards: Floats  # [T, E, A], as the env paid them at that step
    terminateds: Bools
    truncateds: Bools
    present: Bools  # asked in this row
    new_present: Bools  # asked in the next row
    alive: Bools  # has been seen and has not ended
    new_alive: Bools  # the same after the step; a truncated agent with a last observation counts
    active: Bools
    elapsed: Ints
    policy_index: Ints  # who plays the seat
    new_policy_index: Ints
    action_logp: Floats
    state: Floats  # [T, E, state_size]
    new_state: Floats
    t: Ints  # [T, E], step in the episode
    eps_id: Ints
    context: int = 0
    first_lane: int = 0  # number of this grid's first copy among all copies of the run
    carry: list[Floats] = field(default_factory=list)  # per kind [T, E, A_k, carry_size], as it was before the decision
    over: Bools = field(default_factory=lambda: np.zeros((0, 0), bool))  # [T, E]: the episode ended with this step

    infos: Infos | None = None  # what the env said beside each step, with the key keep_infos
    env_rewards: Floats | None = None  # what the env alone paid, where a learner has added to `rewards`
    next_actions: NextActions | None = None  # where a learner has looked them up

    def __post_init__(self) -> None:
        if not self.carry:
            steps, copies = self.t.shape
            self.carry = [np.zeros((steps, copies, kind.size, 0), np.float32) for kind in self.task.kinds]
        if self.over.shape != self.t.shape:  # not told: episodes end when nobody is left
            ended = self.terminateds | self.truncateds
            left = (self.alive | self.new_present) & ~ended
            self.over = np.asarray(ended.any(axis=2) & ~left.any(axis=2))

    @property
    def env_steps(self) -> int:
        """New env steps in this grid."""
        steps, copies = self.t.shape
        return int((steps - self.context) * copies)

    @property
    def count(self) -> int:
        """The same, under the name that callbacks know."""
        return self.env_steps

    @property
    def agent_steps(self) -> int:
        """New decisions in this grid."""
        return int(self.present[self.context :].sum())

    @property
    def paid(self) -> Floats:
        """What the env paid, without what a learner has added: the last reward of agents that remember it."""
        return self.rewards if self.env_rewards is None else self.env_rewards

    def with_rewards(self, rewards: Floats) -> MultiAgentBatch:
        """The same with other rewards to learn from; all other columns are shared."""
        return replace(self, rewards=rewards, env_rewards=self.paid)

    def with_ends(self, policies: Collection[PolicyID]) -> MultiAgentBatch:
        """The same where agents that these policies play are terminated when they are truncated: nothing comes behind it."""
        own = [index for index, name in enumerate(self.policy_ids) if name in policies]
        cut = self.truncateds & np.isin(self.policy_index, own)
        if not cut.any():
            return self
        return replace(self, terminateds=self.terminateds | cut, truncateds=self.truncateds & ~cut)

    def stack(self, column: str, seats: Sequence[int]) -> Array:
        """``[T, E, n, ...]``: one column of agents that have equal spaces."""
        if column in SEAT_COLUMNS:
            return np.asarray(getattr(self, column)[:, :, list(seats)])
        k = self.task.kind_of(seats[0])
        kind = self.task.kinds[k]
        return np.asarray(getattr(self, column)[k][:, :, [seat - kind.first_seat for seat in seats]])

    def join(self, column: str, seats: Sequence[int]) -> Array:
        """``[T, E, width]``: one column of any agents, side by side in the order of the seats."""
        steps, copies = self.t.shape
        parts = []
        for seat in seats:
            parts.append(self.stack(column, [seat]).reshape(steps, copies, -1))
        return np.concatenate(parts, axis=-1)

    def for_policy(
        self, policy: PolicyID, gamma: float = 1.0, kind: int | None = None, rewards: Floats | None = None
    ) -> SampleBatch:
        """The policy's decisions, in the order of time; rewards folded with ``gamma`` over each decision's steps.

        ``kind`` is the kind of agents that the policy plays; without it, it is looked up among its decisions. ``rewards``
        replaces the batch's own.
        """
        index = self.policy_ids.index(policy)
        mine = self.active & (self.policy_index == index)
        k = self._kind_with(mine) if kind is None else kind
        return self.decisions(mine, k, gamma, rewards)

    def for_agent(self, agent: AgentID, gamma: float = 1.0) -> SampleBatch:
        """The decisions of one agent, whoever played it; ``policy_ids[policy_index]`` tells who. Agents that come and go are
        found by their seats, such as ``car_*[0]``."""
        names = self.task.seat_names
        if agent not in names:
            raise DataError(
                f"the batch has no agent {agent!r}. Agents: {', '.join(names)}.{did_you_mean(agent, names)}"
            )
        seat = names.index(agent)
        mine = np.zeros_like(self.active)
        mine[:, :, seat] = self.active[:, :, seat]
        rows = self.decisions(mine, self.task.kind_of(seat), gamma)
        return rows.with_columns(policy_index=self.policy_index[rows["row"], rows["lane"], seat])

    def decisions(self, mine: Bools, k: int, gamma: float = 1.0, rewards: Floats | None = None) -> SampleBatch:
        """The marked decisions of agents of kind ``k``."""
        first_seat = self.task.kinds[k].first_seat
        t, e, a = np.nonzero(mine)  # in the order of time: sequences and replays rely on it
        done, column = t + self.elapsed[t, e, a] - 1, a - first_seat
        # Where every decision of these seats is wanted and lasts one step, columns are copied instead of gathered.
        seats = self._whole_seats(mine, len(t))
        columns = seats - first_seat

        def before(grid: Array, at: Ints, whole: Ints) -> Array:
            return _whole_columns(grid, whole) if seats.size else np.asarray(grid[t, e, at])

        def after(grid: Array, at: Ints, whole: Ints) -> Array:
            return _whole_columns(grid, whole) if seats.size else np.asarray(grid[done, e, at])

        rows = SampleBatch(
            {
                "obs": before(self.obs[k], column, columns),
                "new_obs": after(self.new_obs[k], column, columns),
                "actions": before(self.actions[k], column, columns),
                "rewards": before(fold_rewards(self, gamma, rewards), a, seats),
                "terminateds": after(self.terminateds, a, seats),
                "truncateds": after(self.truncateds, a, seats),
                "legal": before(self.legal[k], column, columns),
                "new_legal": after(self.new_legal[k], column, columns),
                "action_logp": before(self.action_logp, a, seats),
                "carry": before(self.carry[k], column, columns),
                "elapsed": before(self.elapsed, a, seats),
                "t": self.t[t, e],
                "eps_id": self.eps_id[t, e],
                "agent_index": column,
                "row": t,
                "lane": e,
                "stream": (self.first_lane + e) * self.task.num_seats + a,
                "seat": a,
            }
        )
        if self.infos is None:
            return rows
        return rows.with_columns(infos=self.infos_at(done, e, a))

    def _whole_seats(self, mine: Bools, count: int) -> Ints:
        """Seats to which all marked cells belong, if these are all cells of the seats and all decisions last one step."""
        seats = np.flatnonzero(mine[0, 0]) if mine.size else np.zeros(0, np.int64)
        steps, copies = self.t.shape
        if not seats.size or count != steps * copies * seats.size:
            return seats[:0]
        whole = (
            np.count_nonzero(mine[:, :, seats]) == count and np.count_nonzero(self.elapsed[:, :, seats] == 1) == count
        )
        return seats if whole else seats[:0]

    def infos_at(self, t: Ints, e: Ints, seats: Ints) -> Array:
        """What the env said to these seats at the end of these rows; an empty dict where it said nothing."""
        said = self.infos or {}
        found = np.empty(len(t), object)
        steps = zip(self.eps_id[t, e].tolist(), self.t[t, e].tolist(), seats.tolist(), strict=True)
        for i, (episode, step, seat) in enumerate(steps):
            found[i] = said.get((episode, step), {}).get(seat, {})
        return found

    def _kind_with(self, mine: Bools) -> int:
        for k, kind in enumerate(self.task.kinds):
            if mine[:, :, kind.seats].any():
                return k
        return 0

    @staticmethod
    def concat(batches: Sequence[MultiAgentBatch]) -> MultiAgentBatch:
        """Side by side over the copies ``E``; shorter contexts are filled up with empty rows in front."""
        if len(batches) == 1:
            return batches[0]
        context = max(batch.context for batch in batches)
        missing = [context - batch.context for batch in batches]
        first = batches[0]
        columns: dict[str, object] = {}
        for name in ENV_COLUMNS:
            by_kind: list[Array] = []
            for k in range(len(first.task.kinds)):
                arrays = [getattr(batch, name)[k] for batch in batches]
                by_kind.append(_side_by_side(arrays, missing))
            columns[name] = by_kind
        for name in (*SEAT_COLUMNS, *ROW_COLUMNS):
            arrays = [getattr(batch, name) for batch in batches]
            columns[name] = _side_by_side(arrays, missing)
        infos = _all_infos(batches)
        return MultiAgentBatch(first.task, first.policy_ids, **columns, context=context, infos=infos)  # type: ignore[arg-type]


def _whole_columns(grid: Array, columns: Ints) -> Array:
    """``[N, ...]`` out of ``[T, E, A, ...]``, as gathering cell by cell would give them: a copy."""
    chosen = grid
    if len(columns) < grid.shape[2]:
        chosen = grid[:, :, columns]
    rows = grid.shape[0] * grid.shape[1] * len(columns)
    return np.array(chosen, order="C").reshape(rows, *grid.shape[3:])


def _all_infos(batches: Sequence[MultiAgentBatch]) -> Infos | None:
    """Of all batches together; numbers of episodes are unique in a run."""
    infos: Infos | None = None
    for batch in batches:
        if batch.infos is not None:
            infos = {**(infos or {}), **batch.infos}
    return infos


def _side_by_side(arrays: Sequence[Array], missing: Sequence[int]) -> Array:
    padded = []
    for array, rows in zip(arrays, missing, strict=True):
        if rows:
            empty = np.zeros((rows, *array.shape[1:]), array.dtype)
            array = np.concatenate([empty, array])
        padded.append(array)
    return np.concatenate(padded, axis=1)
