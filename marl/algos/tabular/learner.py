"""Values in a table (Sutton & Barto, 2018, chapters 5 and 6): Q-learning, Sarsa and Monte Carlo differ in the target.

    Q(o, u) <- Q(o, u) + lr * (y - Q(o, u))

    q_learning    y = r + gamma ** elapsed * max_u' Q(o', u')
    sarsa         y = r + gamma ** elapsed * Q(o', u')            u' is the action that was played next
    monte_carlo   y = sum_k gamma ** k * r_k                      all that was paid until the end; lr = 1 / visits

Details that matter for results: decisions are learned from in the order of time, those of one env step together; values of
states that were never met are ``initial_value``; a truncated decision goes on with the value of what was seen last. There
sarsa, of which no further action was played, takes the mean over its exploring play; monte_carlo counts what was paid.
Agents of one policy share its table; those of different policies learn by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.algos.config import LearnerConfig, scheduled
from marl.algos.learner import Learner, LearnerSpec, Metrics
from marl.algos.reading import Reading
from marl.algos.tabular.config import TabularConfig
from marl.algos.tabular.updates import LOOK_AHEAD, Doubles, backed_up, first_visits, move, next_played
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import returns_to_go
from marl.data.task import Ints, PolicyID
from marl.errors import TrainingError
from marl.policies.value_table import ValueTable

COLUMNS = (
    "obs", "new_obs", "actions", "rewards", "terminateds", "truncateds", "new_legal", "elapsed", "t", "eps_id", "agent_index",
    "stream",
)  # fmt: skip
"""What has to be known of a decision."""
BEFORE = -1  # when something happened that an earlier round brought


class TabularLearner(Learner):
    """One policy: nothing joins several of them. ``visits`` ``[R, actions]`` goes with the rows of its table."""

    def __init__(self, name: PolicyID, table: ValueTable, config: TabularConfig, spec: LearnerSpec) -> None:
        super().__init__({name: table}, spec.seed)
        self.name, self.table, self.config = name, table, config
        self.kind = spec.task.kinds.index(table.kind)
        self.visits: Ints = np.zeros((0, table.num_actions), np.int64)
        self.waiting: SampleBatch | None = None  # decisions of sarsa whose next action has not been played yet

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.tabular.reading import reading  # knows this class itself

        assert isinstance(config, TabularConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> TabularLearner:
        ((name, table),) = spec.policies.items()
        config = spec.configs[name]
        assert isinstance(table, ValueTable)
        assert isinstance(config, TabularConfig)
        return cls(name, table, config, spec)

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        if not self.trained:
            self.waiting = None  # what follows is played by a policy that does not learn from it
            return {}
        self._count_steps(batch.env_steps)
        self.clock.start()
        rows = self._decisions(batch)
        self.clock.lap("load")
        metrics: Metrics = {}
        if len(rows):
            self._show(self.name, rows)
            metrics[self.name] = self._train(rows)
        self._anneal()
        return metrics

    def _decisions(self, batch: MultiAgentBatch) -> SampleBatch:
        """Decisions whose target can be told now, and ``when``: the row of the batch in which all of it was known."""
        found = batch.for_policy(self.name, self.config.gamma, self.kind)
        columns = {name: found[name] for name in COLUMNS}
        columns["when"] = found["row"] + found["elapsed"]
        if self.config.backup == "return":
            returns = returns_to_go(batch, batch.rewards, self.config.gamma)
            columns["returns"] = returns[found["row"], found["lane"], found["seat"]]
        rows = SampleBatch(columns)
        if self.config.backup == "played":
            return self._followed(rows)
        return rows

    def _followed(self, rows: SampleBatch) -> SampleBatch:
        """Sarsa: decisions with the action that was ``played`` next; those that wait for it are kept for the next round."""
        if self.waiting is not None:
            rows = SampleBatch.concat_samples([self.waiting, rows])
        played, ready, follower = next_played(rows)
        known_by = rows["when"] - rows["elapsed"]  # the row of a decision is the one in which its action is known
        when = np.where(follower >= 0, known_by[follower], rows["when"])
        late = rows.rows(~ready)
        # Rows of the batch are counted anew in the next round, where these come first.
        self.waiting = late.with_columns(when=np.full(len(late), BEFORE))
        return rows.with_columns(played=played, when=when).rows(ready)

    def _train(self, rows: SampleBatch) -> dict[str, float]:
        """One visit of each decision."""
        states = self.table.add(rows["obs"], rows["agent_index"])
        self._make_room()
        cells = states * self.table.num_actions + rows["actions"]
        if self.config.backup == "return":
            before, targets, updates = self._learn_returns(rows, cells)
        else:
            before, targets, updates = self._learn_step_by_step(rows, cells)
        self.counters["num_updates"] += updates
        self.counters["num_steps_trained"] += len(rows)
        self.counters["num_agent_steps_trained"] += len(rows)
        return self._report(before, targets)

    def _learn_step_by_step(self, rows: SampleBatch, cells: Ints) -> tuple[Doubles, Doubles, int]:
        """Temporal differences, env step by env step: each sees what the steps before it have taught."""
        # After the states of all these decisions were added: what one of them reached, another one may have been made in.
        later = self.table.rows_of(rows["new_obs"], rows["agent_index"])
        before, targets = np.zeros(len(rows)), np.zeros(len(rows))
        order = np.argsort(rows["when"], kind="stable")
        steps = np.split(order, np.flatnonzero(np.diff(rows["when"][order])) + 1)
        for step in steps:
            before[step] = self.table.values.numpy().reshape(-1)[cells[step]]
            targets[step] = self._target(rows.rows(step), later[step])
            self._move(cells[step], targets[step])
        return before, targets, len(steps)

    def _target(self, rows: SampleBatch, later: Ints) -> Doubles:
        """``r + gamma ** elapsed * next value``; ``later`` are the rows of the table that were reached."""
        values, legal = self.table.at(later), rows["new_legal"].astype(bool)
        played = rows.columns.get("played", np.zeros(len(rows), np.int64))
        epsilon = self.table.exploration.chance_of_random()
        next_value = LOOK_AHEAD[self.config.backup](values, legal, played, epsilon)
        return backed_up(rows, self.config.gamma, next_value)

    def _learn_returns(self, rows: SampleBatch, cells: Ints) -> tuple[Doubles, Doubles, int]:
        """Monte Carlo: every visit, or the first one of each episode, has the return that followed it for a target."""
        targets = rows["returns"].astype(np.float64)
        if self.config.first_visit:
            first = first_visits(rows, cells)
            cells, targets = cells[first], targets[first]
        before = self.table.values.numpy().reshape(-1)[cells]
        self._move(cells, targets)
        return before, targets, 1

    def _move(self, cells: Ints, targets: Doubles) -> None:
        if not np.isfinite(targets).all():
            raise TrainingError(
                f"a target of policy {self.name!r} became {targets[~np.isfinite(targets)][0]} after "
                f"{self.counters['num_updates']} updates. Look at the env's rewards."
            )
        lr = None if self.config.averaging else self._lr()
        move(self.table.values.numpy().reshape(-1), self.visits.reshape(-1), cells, targets, lr)

    # -- beside the rule -------------------------------------------------------------------------------------------

    def _lr(self) -> float:
        return scheduled(self.config.lr_schedule, self.config.lr, self.timesteps[self.name])

    def _make_room(self) -> None:
        """Visits have the rows of the table."""
        more = len(self.table.values) - len(self.visits)
        if more:
            self.visits = np.concatenate([self.visits, np.zeros((more, self.table.num_actions), np.int64)])

    def _report(self, before: Doubles, targets: Doubles) -> dict[str, float]:
        told = {
            "mean_q": float(before.mean()),
            "min_q": float(before.min()),
            "max_q": float(before.max()),
            "mean_td_error": float(np.abs(targets - before).mean()),
            "states": float(len(self.table)),
        }
        if not self.config.averaging:
            told["cur_lr"] = self._lr()
        return told

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        waiting = {} if self.waiting is None else dict(self.waiting.columns)
        return {**self._common_state(), "visits": self.visits.copy(), "waiting": waiting}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        self.visits = np.array(state["visits"])
        self.waiting = SampleBatch(state["waiting"]) if state["waiting"] else None
