"""The grid that a worker fills: one row per step, all agents aligned, every decision closed when its outcome is known.

An agent that dies (terminates or is truncated) while others play on: ``RolloutBuffer.settle`` writes the reward of its last
step into that step's row and closes its open decision there, so ``data/returns.py:fold_rewards`` credits it to this decision.
What the env pays the dead agent later stands in rows in which it has no decision. It trains no policy, unless a group is paid
together (``share_reward``, mixers), and counts in the agent's return (``EpisodeStatsRecorder.pay``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from marl.data.batch import ENV_COLUMNS, SEAT_COLUMNS, MultiAgentBatch
from marl.data.episode import EpisodeStats
from marl.data.task import Array, Bools, Ints, PolicyID, Task
from marl.envs.batched import State, StepOutput
from marl.rollout.cells import all_of, any_of
from marl.rollout.deciding import Actions
from marl.rollout.env_runner import EnvRunner

Columns: TypeAlias = dict[str, Any]
"""Name to array; for the columns of agents, name to one array per kind."""

DTYPES = {
    "rewards": np.float32, "action_logp": np.float32,
    "elapsed": np.int64, "policy_index": np.int64, "new_policy_index": np.int64,
}  # fmt: skip
"""Columns with one cell per seat that are not flags."""

WRITTEN_IN_PART = ("active", "elapsed")
"""Columns of which a step writes only some cells; of all others it writes the whole row."""


@dataclass
class Collected:
    """What was collected in one round: a grid, and the episodes that ended in it.

    ``extra`` are more numbers for the result's ``info``, such as the policy lag of asynchronous collection. ``seconds``
    are those of all workers by activity, and their ``steps``.
    """

    batch: MultiAgentBatch
    episodes: EpisodeStats
    decisions_lost: int = 0
    notes: list[str] = field(default_factory=list)
    extra: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def env_steps(self) -> int:
        return self.batch.env_steps

    @property
    def agent_steps(self) -> int:
        return self.batch.agent_steps


@dataclass
class Rollout(Collected):
    """What one worker collected, and the state with which a replacement could go on."""

    state: State = None
    version: int = 0  # of the weights that played it


class RolloutBuffer:
    """Columns of ``rows`` steps. The first ``context`` rows repeat the steps since the oldest open decision.

    ``open[e, a]`` is the row of the decision of this seat that still waits for its outcome, or -1. It is closed in
    the row after which its agent is asked again or has ended. Under ``complete_episodes`` decisions become active
    only when their whole episode has ended; until then their rows are carried on as context.
    """

    def __init__(
        self, task: Task, policy_ids: Sequence[PolicyID], copies: int, complete_episodes: bool,
        carry_sizes: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.task, self.policy_ids, self.copies = task, tuple(policy_ids), copies
        self.carry_sizes = list(carry_sizes) or [0] * len(task.kinds)
        self._masked = [kind.legal_width > 0 for kind in task.kinds]
        self.complete_episodes = complete_episodes
        self.context = 0
        self.open = np.full((copies, task.num_seats), -1, np.int64)
        self.alive = np.zeros((copies, task.num_seats), bool)  # as the runner knows it
        self.start = np.zeros(copies, np.int64)  # row in which the running episode of each copy began
        self.lost_decisions = 0  # truncated without a last observation
        self.columns = self.allocate(0)

    def allocate(self, rows: int) -> Columns:
        """Columns of zeros: of agents by kind, of seats, of copies."""
        shape = (rows, self.copies)
        columns: Columns = {name: [] for name in ENV_COLUMNS}
        for kind, carry_size in zip(self.task.kinds, self.carry_sizes, strict=True):
            seats = (*shape, kind.size)
            for name in ("obs", "new_obs"):
                columns[name].append(np.zeros((*seats, kind.obs_width), kind.obs_dtype))
            for name in ("legal", "new_legal"):
                columns[name].append(np.zeros((*seats, kind.legal_width), bool))
            columns["actions"].append(np.zeros((*seats, *kind.action_shape), kind.action_dtype))
            columns["carry"].append(np.zeros((*seats, carry_size), np.float32))
        for name in SEAT_COLUMNS:
            columns[name] = np.zeros((*shape, self.task.num_seats), DTYPES.get(name, bool))
        for name in ("state", "new_state"):
            columns[name] = np.zeros((*shape, self.task.state_size), np.float32)
        columns["t"], columns["eps_id"] = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        columns["over"] = np.zeros(shape, bool)
        return columns

    def extend(self, steps: int, all_recorded: bool = False) -> range:
        """Make room for ``steps`` more rows behind the context; returns their numbers.

        ``all_recorded``: all of them will be recorded and settled before anybody looks, so they need not hold zeros.
        """
        rows = self.context + steps
        if all_recorded:
            # Zeros for megabytes that are overwritten at once would cost as much as the overwriting.
            in_part = {name: self.columns[name] for name in WRITTEN_IN_PART}
            self.columns = _resized(self.columns, 0, rows, np.empty) | _resized(in_part, 0, rows)
        else:
            self.columns = _resized(self.columns, 0, rows)
        return range(self.context, rows)

    def record(self, row: int, runner: EnvRunner, choices: Actions) -> None:
        """The view before the step and what the agents decided."""
        columns, view, present = self.columns, runner.view, runner.view.present
        for k, actions in enumerate(choices.actions):
            columns["obs"][k][row] = view.obs[k]
            columns["actions"][k][row] = actions
            # Columns of width 0 are the rule: even an empty assignment costs as much as a short one.
            if self._masked[k]:
                columns["legal"][k][row] = view.legal[k]
            if self.carry_sizes[k]:
                columns["carry"][k][row] = choices.carry[k]
        columns["present"][row] = present
        np.logical_or(runner.alive, present, out=columns["alive"][row])
        if self.task.state_size:
            columns["state"][row] = view.state
        columns["action_logp"][row] = choices.logp
        columns["policy_index"][row] = runner.policy_of
        columns["t"][row], columns["eps_id"][row] = runner.t, runner.eps_id
        np.copyto(self.open, row, where=present)

    def settle(self, row: int, runner: EnvRunner, output: StepOutput) -> None:
        """The view after the step and its rewards; decisions whose agents are asked again or have ended are closed."""
        columns = self.columns
        for k, shown in enumerate(output.obs):
            columns["new_obs"][k][row] = shown
            if self._masked[k]:
                columns["new_legal"][k][row] = output.legal[k]
        self.alive = runner.alive.copy()
        columns["new_present"][row] = output.present
        columns["new_policy_index"][row] = runner.policy_of
        if self.task.state_size:
            columns["new_state"][row] = output.state
        columns["rewards"][row] = output.rewards
        columns["terminateds"][row], columns["truncateds"][row] = output.terminated, output.truncated
        columns["over"][row] = output.over
        blind = any_of(output.blind)
        seen_last = output.truncated & ~output.blind if blind else output.truncated
        np.logical_or(self.alive, seen_last, out=columns["new_alive"][row])
        answered = output.present | output.terminated
        answered |= output.truncated
        if not blind and all_of(answered) and all_of(self.open == row):
            # All agents decided in this row and are asked again or have ended: the usual case of games without turns.
            columns["elapsed"][row] = 1
            columns["active"][row] = not self.complete_episodes
            self.open.fill(-1)
        else:
            self._close(row, (self.open >= 0) & answered, output.blind)
        if self.complete_episodes:
            self._hand_over_episodes(row, output)

    def _close(self, row: int, closing: Bools, blind: Bools) -> None:
        """Some decisions end with this row; those of agents that were truncated without a last observation are lost."""
        lost = closing & blind
        self.lost_decisions += int(lost.sum())
        env_ids, seats = np.nonzero(closing & ~lost)
        rows = self.open[env_ids, seats]
        self.columns["elapsed"][rows, env_ids, seats] = row + 1 - rows
        if not self.complete_episodes:
            self.columns["active"][rows, env_ids, seats] = True
        self.open[closing] = -1

    def _hand_over_episodes(self, row: int, output: StepOutput) -> None:
        for env_id in np.flatnonzero(output.over).tolist():
            whole = slice(int(self.start[env_id]), row + 1)
            self.columns["active"][whole, env_id] = self.columns["elapsed"][whole, env_id] > 0
            self.start[env_id] = row + 1

    def forget(self, env_ids: Ints) -> None:
        """Drop the open decisions of copies whose episode could not be brought back."""
        self.lost_decisions += int((self.open[env_ids] >= 0).sum())
        self.open[env_ids] = -1
        self.start[env_ids] = self.context

    def clear(self) -> None:
        """All running episodes were broken off: drop their open decisions and all rows kept for them."""
        self.lost_decisions += int((self.open >= 0).sum())
        self.open[:], self.alive[:], self.start[:], self.context = -1, False, 0, 0
        self.columns = self.allocate(0)

    def batch(self) -> MultiAgentBatch:
        """What the learners get."""
        return MultiAgentBatch(self.task, self.policy_ids, **self.columns, context=self.context)

    def keep_tail(self) -> None:
        """Keep only the rows that the next grid has to repeat."""
        rows = len(self.columns["t"])
        waiting = self.start if self.complete_episodes else self.open[self.open >= 0]
        first = int(waiting.min(initial=rows))
        self.columns = _resized(self.columns, first, rows - first)
        self.columns["active"][:] = False
        self.context = rows - first
        self.open = np.where(self.open >= 0, self.open - first, -1)
        self.start -= first

    def state_dict(self) -> State:
        return {
            "columns": self.columns, "context": self.context, "open": self.open.copy(), "start": self.start.copy(),
            "alive": self.alive.copy(), "lost_decisions": self.lost_decisions,
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        self.columns = {name: _copied(column) for name, column in state["columns"].items()}
        self.context, self.lost_decisions = state["context"], state["lost_decisions"]
        self.open, self.start = np.array(state["open"]), np.array(state["start"])
        self.alive = np.array(state["alive"])


def _resized(columns: Any, first: int, rows: int, make: Callable[..., Array] = np.zeros) -> Any:
    """New arrays of so many rows, which begin with those of the old ones from row ``first`` on."""
    if isinstance(columns, dict):
        resized = {}
        for name, column in columns.items():
            resized[name] = _resized(column, first, rows, make)
        return resized
    if isinstance(columns, list):
        return [_resized(column, first, rows, make) for column in columns]
    kept = columns[first : first + rows]
    new = make((rows, *columns.shape[1:]), columns.dtype)
    new[: len(kept)] = kept
    return new


def _copied(column: Array | list[Array]) -> Array | list[Array]:
    if isinstance(column, list):
        return [np.array(part) for part in column]
    return np.array(column)
