"""The grid that a worker fills: one row per step, all agents aligned, every decision closed when its outcome is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from marl.data.batch import ENV_COLUMNS, ROW_COLUMNS, SEAT_COLUMNS, MultiAgentBatch
from marl.data.task import Array, Bools, Ints, PolicyID, Task
from marl.envs.batched import State, StepOutput
from marl.rollout.env_runner import Actions, EnvRunner


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
        self.complete_episodes = complete_episodes
        self.context = 0
        self.open = np.full((copies, task.num_seats), -1, np.int64)
        self.alive = np.zeros((copies, task.num_seats), bool)
        self.start = np.zeros(copies, np.int64)  # row in which the running episode of each copy began
        self.lost_decisions = 0  # truncated without a last observation
        self.columns: dict[str, Any] = self._allocate(0)

    def _allocate(self, rows: int) -> dict[str, Any]:
        shape = (rows, self.copies)
        seats = (*shape, self.task.num_seats)
        kinds = self.task.kinds
        columns: dict[str, Any] = {
            "obs": [np.empty((*shape, k.size, k.obs_width), k.obs_dtype) for k in kinds],
            "new_obs": [np.empty((*shape, k.size, k.obs_width), k.obs_dtype) for k in kinds],
            "actions": [np.empty((*shape, k.size, *k.action_shape), k.action_dtype) for k in kinds],
            "legal": [np.empty((*shape, k.size, k.legal_width), bool) for k in kinds],
            "new_legal": [np.empty((*shape, k.size, k.legal_width), bool) for k in kinds],
            "carry": [np.empty((*shape, k.size, n), np.float32) for k, n in zip(kinds, self.carry_sizes, strict=True)],
            "rewards": np.empty(seats, np.float32),
            "action_logp": np.empty(seats, np.float32),
            "policy_index": np.empty(seats, np.int64),
            "new_policy_index": np.empty(seats, np.int64),
            "elapsed": np.zeros(seats, np.int64),
            "state": np.empty((*shape, self.task.state_size), np.float32),
            "new_state": np.empty((*shape, self.task.state_size), np.float32),
            "t": np.empty(shape, np.int64),
            "eps_id": np.empty(shape, np.int64),
            "over": np.zeros(shape, bool),
        }
        for name in ("terminateds", "truncateds", "present", "new_present", "alive", "new_alive", "active"):
            columns[name] = np.zeros(seats, bool)
        return columns

    def extend(self, steps: int) -> range:
        """Make room for ``steps`` more rows behind the context; gives their numbers."""
        old, self.columns = self.columns, self._allocate(self.context + steps)
        for name in (*SEAT_COLUMNS, *ROW_COLUMNS):
            self.columns[name][: self.context] = old[name]
        for name in ENV_COLUMNS:
            for new, before in zip(self.columns[name], old[name], strict=True):
                new[: self.context] = before
        return range(self.context, self.context + steps)

    def record(self, row: int, player: EnvRunner, choices: Actions) -> None:
        """The view before the step and what everybody decided."""
        columns, view = self.columns, player.view
        for k, actions in enumerate(choices.actions):
            columns["obs"][k][row] = view.obs[k]
            if view.legal[k].size:
                columns["legal"][k][row] = view.legal[k]
            columns["actions"][k][row] = actions
            if self.carry_sizes[k]:
                columns["carry"][k][row] = choices.carry[k]
        self.alive[player.t == 0] = False
        self.alive |= view.present
        columns["present"][row], columns["alive"][row] = view.present, self.alive
        columns["state"][row] = view.state
        columns["action_logp"][row] = choices.logp
        columns["policy_index"][row] = player.policy_of
        columns["t"][row], columns["eps_id"][row] = player.t, player.eps_id
        np.copyto(self.open, row, where=view.present)

    def settle(self, row: int, frame: StepOutput, policy_of: Ints) -> None:
        """The view after the step; decisions whose agents are asked again or have ended are closed."""
        columns = self.columns
        for k in range(len(self.task.kinds)):
            columns["new_obs"][k][row] = frame.obs[k]
            if frame.legal[k].size:
                columns["new_legal"][k][row] = frame.legal[k]
        ended = frame.terminated | frame.truncated
        self.alive = (self.alive | frame.present) & ~ended
        columns["new_present"][row] = frame.present
        columns["new_alive"][row] = self.alive | (frame.truncated & ~frame.blind)
        columns["new_policy_index"][row] = policy_of
        columns["new_state"][row] = frame.state
        columns["rewards"][row] = frame.rewards
        columns["terminateds"][row], columns["truncateds"][row] = frame.terminated, frame.truncated
        columns["over"][row] = frame.over
        self._close(row, frame, ended)
        if self.complete_episodes:
            self._hand_over_episodes(row, frame)

    def _close(self, row: int, frame: StepOutput, ended: Bools) -> None:
        closing = (self.open >= 0) & (frame.present | ended)
        blind = closing & frame.blind
        if blind.any():
            self.lost_decisions += int(blind.sum())
            self.open[blind] = -1
            closing &= ~blind
        if closing.all() and (self.open == row).all():  # everybody decided in this row and is asked again or has ended
            self.columns["elapsed"][row] = 1
            self.columns["active"][row] = not self.complete_episodes
            self.open[:] = -1
            return
        env_ids, seats = np.nonzero(closing)
        rows = self.open[env_ids, seats]
        self.columns["elapsed"][rows, env_ids, seats] = row + 1 - rows
        if not self.complete_episodes:
            self.columns["active"][rows, env_ids, seats] = True
        self.open[closing] = -1

    def _hand_over_episodes(self, row: int, frame: StepOutput) -> None:
        for env_id in np.flatnonzero(frame.over).tolist():
            whole = slice(int(self.start[env_id]), row + 1)
            self.columns["active"][whole, env_id] = self.columns["elapsed"][whole, env_id] > 0
            self.start[env_id] = row + 1

    def forget(self, env_ids: Ints) -> None:
        """Drop the open decisions of lanes whose episode could not be brought back."""
        self.lost_decisions += int((self.open[env_ids] >= 0).sum())
        self.open[env_ids] = -1
        self.start[env_ids] = self.context

    def clear(self) -> None:
        """All running episodes were broken off: drop their open decisions and all rows kept for them."""
        self.lost_decisions += int((self.open >= 0).sum())
        self.open[:], self.alive[:], self.start[:], self.context = -1, False, 0, 0
        self.columns = self._allocate(0)

    def batch(self) -> MultiAgentBatch:
        """What the learners get."""
        return MultiAgentBatch(self.task, self.policy_ids, **self.columns, context=self.context)

    def keep_tail(self) -> None:
        """Keep only the rows that the next grid has to repeat."""
        rows = len(self.columns["t"])
        first = self._oldest_needed(rows)
        for name in (*SEAT_COLUMNS, *ROW_COLUMNS):
            self.columns[name] = self.columns[name][first:].copy()
        for name in ENV_COLUMNS:
            self.columns[name] = [column[first:].copy() for column in self.columns[name]]
        self.columns["active"][:] = False
        self.context = rows - first
        self.open = np.where(self.open >= 0, self.open - first, -1)
        self.start -= first

    def _oldest_needed(self, rows: int) -> int:
        if self.complete_episodes:
            return int(min(self.start.min(), rows))
        waiting = self.open[self.open >= 0]
        return int(waiting.min()) if waiting.size else rows

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


def _copied(column: Array | list[Array]) -> Array | list[Array]:
    return [np.array(part) for part in column] if isinstance(column, list) else np.array(column)
