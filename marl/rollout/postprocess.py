"""Shows what a worker collected to the user's hooks before anybody learns from it, and takes their changes back.

A trajectory holds the decisions of one agent in one episode that became complete in this fragment, so every decision is shown
once, however the rows of its steps are cut into fragments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.callbacks.running_episode import RunningEpisode
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards
from marl.data.task import AgentID, Array, Floats, Ints
from marl.errors import CallbackError

if TYPE_CHECKING:
    from marl.rollout.worker import RolloutWorker

HOOK = "on_postprocess_trajectory"
WRITABLE = ("obs", "new_obs", "actions", "rewards", "action_logp")


class Trajectory(SampleBatch):
    """Rows of one agent. ``obs``, ``new_obs``, ``actions``, ``rewards`` and ``action_logp`` may be changed, in place or by
    ``batch["rewards"] = ...``; the others are there to be read."""

    def __init__(self, columns: dict[str, Array], writable: tuple[str, ...] = WRITABLE) -> None:
        super().__init__({name: _held(column, name in writable) for name, column in columns.items()})
        self.writable = writable

    def __setitem__(self, column: str, values: Any) -> None:
        if column not in self.writable:
            raise CallbackError(
                f"column {column!r} of a trajectory cannot be set. {', '.join(self.writable) or 'None'} can; learners make "
                "advantages and the like by themselves, later."
            )
        if np.ndim(values) and np.shape(values) != self.columns[column].shape:
            raise CallbackError(
                f"column {column!r} of a trajectory got an array of shape {np.shape(values)}, expected "
                f"{self.columns[column].shape}, a row for every decision, or one number for all of them."
            )
        self.columns[column][...] = values


def _held(column: Array, writable: bool) -> Array:
    held = column.copy() if writable else column.view()
    held.flags.writeable = writable
    return held


def rewrite(batch: MultiAgentBatch, worker: RolloutWorker) -> None:
    """Call ``on_postprocess_trajectory`` for every agent and episode, then ``on_sample_end``."""
    callbacks = worker.runner.callbacks
    episodes = callbacks.pop_episodes() if callbacks is not None else {}
    if HOOK in worker.hooks:
        _Rewriting(batch, worker, episodes).run()
    worker.hooks("on_sample_end", worker=worker, samples=batch)
    if not np.isfinite(batch.rewards).all():
        raise CallbackError(
            f"callback {worker.hooks.name} made rewards of worker {worker.index} NaN or infinite, from which nobody can "
            f"learn. Look at {HOOK} and on_sample_end."
        )


def _by_agent(agents: Sequence[AgentID], shown: Sequence[dict[str, Array]]) -> dict[AgentID, Trajectory]:
    """Read-only rows of everybody; an agent that came back on another seat has them in one."""
    parts: dict[AgentID, list[SampleBatch]] = {}
    for agent, columns in zip(agents, shown, strict=True):
        parts.setdefault(agent, []).append(SampleBatch(columns))
    found: dict[AgentID, Trajectory] = {}
    for agent, mine in parts.items():
        found[agent] = Trajectory(SampleBatch.concat_samples(mine).columns, ())
    return found


class _Rewriting:
    """One fragment."""

    def __init__(self, batch: MultiAgentBatch, worker: RolloutWorker, episodes: dict[int, RunningEpisode]) -> None:
        self.batch, self.worker, self.episodes = batch, worker, episodes
        self.paid = fold_rewards(batch, 1.0).copy()  # of a decision: all that was paid during its steps

    def run(self) -> None:
        for env_id, episode, agents in self._episodes():
            shown = [self._rows(rows, env_id, seat) for _, seat, rows in agents]
            originals = _by_agent([agent for agent, _, _ in agents], shown)
            for (agent, seat, rows), columns in zip(agents, shown, strict=True):
                mine = Trajectory(columns)
                policy = self.batch.policy_ids[int(self.batch.policy_index[rows[0], env_id, seat])]
                self.worker.hooks(
                    HOOK, worker=self.worker, episode=episode, agent_id=agent, policy_id=policy,
                    policies=self.worker.policy_map, postprocessed_batch=mine, original_batches=originals,
                )  # fmt: skip
                self._write_back(mine, columns, rows, env_id, seat)

    def _episodes(self) -> Iterator[tuple[int, RunningEpisode, list[tuple[AgentID, int, Ints]]]]:
        """Copy by copy and in the order of time: who decided what, as (agent, seat, rows)."""
        t, e, a = np.nonzero(self.batch.active)
        ids = self.batch.eps_id[t, e]
        for env_id in np.unique(e).tolist():
            for number in np.unique(ids[e == env_id]).tolist():
                here = (e == env_id) & (ids == number)
                episode = self.episodes[number]
                agents: list[tuple[AgentID, int, Ints]] = []
                for seat in np.unique(a[here]).tolist():
                    agents += self._agents(episode, seat, t[here & (a == seat)])
                yield env_id, episode, agents

    def _agents(self, episode: RunningEpisode, seat: int, rows: Ints) -> Iterator[tuple[AgentID, int, Ints]]:
        """Who sat there: one agent, or one after the other where seats change hands."""
        if not episode.seated:
            yield self.batch.task.seat_names[seat], seat, rows
            return
        places: dict[AgentID, list[int]] = {}
        for i, step in enumerate(self.batch.t[rows, episode.env_index].tolist()):
            places.setdefault(episode.agent_at(seat, step), []).append(i)
        for name, mine in places.items():
            yield name, seat, rows[mine]

    def _rows(self, t: Ints, e: int, seat: int) -> dict[str, Array]:
        batch = self.batch
        k = batch.task.kind_of(seat)
        column = seat - batch.task.kinds[k].first_seat
        done = t + batch.elapsed[t, e, seat] - 1
        infos = (
            {} if batch.infos is None else {"infos": batch.infos_at(done, np.full_like(t, e), np.full_like(t, seat))}
        )
        return {
            **infos,
            "obs": batch.obs[k][t, e, column],
            "new_obs": batch.new_obs[k][done, e, column],
            "actions": batch.actions[k][t, e, column],
            "rewards": self.paid[t, e, seat],
            "terminateds": batch.terminateds[done, e, seat],
            "truncateds": batch.truncateds[done, e, seat],
            "legal": batch.legal[k][t, e, column],
            "new_legal": batch.new_legal[k][done, e, column],
            "action_logp": batch.action_logp[t, e, seat],
            "elapsed": batch.elapsed[t, e, seat],
            "t": batch.t[t, e],
            "eps_id": batch.eps_id[t, e],
        }

    def _write_back(self, mine: Trajectory, shown: dict[str, Array], t: Ints, e: int, seat: int) -> None:
        batch = self.batch
        k = batch.task.kind_of(seat)
        column = seat - batch.task.kinds[k].first_seat
        done = t + batch.elapsed[t, e, seat] - 1
        batch.obs[k][t, e, column] = mine["obs"]
        batch.new_obs[k][done, e, column] = mine["new_obs"]
        batch.actions[k][t, e, column] = mine["actions"]
        batch.action_logp[t, e, seat] = mine["action_logp"]
        self._pay(mine["rewards"], shown["rewards"], t, e, seat)

    def _pay(self, new: Array, old: Array, t: Ints, e: int, seat: int) -> None:
        """A decision of several steps gets the difference in its first one, where no discount touches it."""
        rewards: Floats = self.batch.rewards
        short = self.batch.elapsed[t, e, seat] <= 1
        rewards[t[short], e, seat] = new[short]
        longer = t[~short]
        rewards[longer, e, seat] += new[~short] - old[~short]
