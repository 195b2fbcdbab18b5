"""Adds up what agents were paid, episode by episode: an agent's return holds all of it, also what came after its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.episode import Episode, EpisodeStats
from marl.data.task import AgentID, Array, Bools, Ints, PolicyID
from marl.envs.batched import BatchedEnv, State, StepOutput


class EpisodeStatsRecorder:
    """Returns of the running episodes of ``E`` copies, and the statistics of those that ended."""

    def __init__(self, env: BatchedEnv, policy_ids: Sequence[PolicyID]) -> None:
        self.env = env
        self.policy_ids = list(policy_ids)
        self.seat_names = env.seat_names
        seats = len(self.seat_names)
        self.returns = np.zeros((env.num_envs, seats))
        self.seen = np.zeros((env.num_envs, seats), bool)
        self.lengths = np.zeros(env.num_envs, np.int64)
        self.past: list[list[tuple[AgentID, int, float]]] = [[] for _ in range(env.num_envs)]
        self.names = [list(env.seat_names) for _ in range(env.num_envs)]
        self._ended: list[tuple[Array, Bools, Ints, Ints]] = []  # returns, who took part, lengths, policies; by seat
        self._ended_by_name: list[EpisodeStats] = []  # where seats change hands
        self._watched: list[Any] = []  # the ended episodes' objects, if hooks watch them

    def begin(self, env_ids: Ints) -> None:
        self.returns[env_ids], self.seen[env_ids], self.lengths[env_ids] = 0.0, False, 0
        if not self.env.fixed_seats:
            for env_id in env_ids.tolist():
                self.past[env_id] = []

    def hand_over(self, env_id: int, seat: int, policy: int) -> None:
        """A seat was taken by somebody else: put the return of the agent before aside."""
        if self.seen[env_id, seat]:
            self.past[env_id].append((self.names[env_id][seat], policy, float(self.returns[env_id, seat])))
        self.returns[env_id, seat], self.seen[env_id, seat] = 0.0, False
        self.names[env_id][seat] = self.env.agent_at(env_id, seat)

    def pay(self, output: StepOutput, episodes: Sequence[Episode]) -> None:
        """Count a step and its rewards; those of agents that have ended as well, also if another one has their seat by now."""
        self.returns += output.rewards
        self.lengths += 1
        for env_id, agent, reward in output.late:
            policy = episodes[env_id].policies.get(agent)
            if policy is not None:
                self.past[env_id].append((agent, self.policy_ids.index(policy), reward))

    def end(self, env_ids: Ints, policy_of: Ints, watched: Sequence[Any] = ()) -> None:
        """Episodes of these copies have ended; ``watched`` are their objects, whose notes are read by ``pop``."""
        self._watched += watched
        if not self.env.fixed_seats:
            for env_id in env_ids.tolist():
                self._ended_by_name.append(self._by_name(env_id, policy_of[env_id]))
            return
        returns = self.returns[env_ids]
        self._ended.append((returns, self.seen[env_ids] | (returns != 0), self.lengths[env_ids], policy_of[env_ids]))

    def _by_name(self, env_id: int, policy_of: Ints) -> EpisodeStats:
        """Seats changed hands in this episode: sum up by agent id and policy."""
        totals: dict[tuple[AgentID, int], float] = {}
        earnings = list(self.past[env_id])
        for seat in np.flatnonzero(self.seen[env_id]).tolist():
            earnings.append((self.names[env_id][seat], int(policy_of[seat]), float(self.returns[env_id, seat])))
        for name, policy, earned in earnings:
            totals[name, policy] = totals.get((name, policy), 0.0) + earned
        names = list(dict.fromkeys(name for name, _ in totals))
        returns = np.array(list(totals.values()), np.float32)
        return EpisodeStats(
            rewards=np.array([sum(totals.values())], np.float32),
            lengths=self.lengths[[env_id]].copy(),
            agents=names,
            agent=np.array([names.index(name) for name, _ in totals], np.int64),
            episode=np.zeros(len(totals), np.int64),
            policy=np.array([policy for _, policy in totals], np.int64),
            returns=returns,
        )

    def pop(self) -> EpisodeStats:
        """Statistics of the episodes that ended since the last call."""
        ended, self._ended = self._ended, []
        if ended:
            returns, taken, lengths, policies = map(np.concatenate, zip(*ended, strict=True))
            episode, seat = np.nonzero(taken)
            totals, earned = returns.sum(axis=1), returns[episode, seat]
            stats = EpisodeStats(
                totals.astype(np.float32), lengths, self.seat_names,
                seat, episode, policies[episode, seat], earned.astype(np.float32),
            )  # fmt: skip
        else:
            stats = EpisodeStats.concat(self._ended_by_name)
            self._ended_by_name = []
        if self._watched:
            stats.remarks = [running.remarks() for running in self._watched]
            self._watched = []
        return stats

    def state_dict(self) -> State:
        return {
            "returns": self.returns.copy(), "seen": self.seen.copy(), "lengths": self.lengths.copy(),
            "past": [[list(entry) for entry in entries] for entries in self.past],
            "names": [list(names) for names in self.names],
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, State]) -> None:
        self.returns[:], self.seen[:], self.lengths[:] = state["returns"], state["seen"], state["lengths"]
        self.names = [list(names) for names in state["names"]]
        self.past = []
        for entries in state["past"]:
            self.past.append([(name, int(policy), float(earned)) for name, policy, earned in entries])
