"""Adds up what agents were paid, episode by episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.episode import Episode, EpisodeStats
from marl.data.task import AgentID, Ints, PolicyID
from marl.envs.batched import BatchedEnv, Frame, State


class Ledger:
    """Returns of the running episodes of ``E`` lanes, and the statistics of those that ended."""

    def __init__(self, world: BatchedEnv, policy_ids: Sequence[PolicyID]) -> None:
        self.world = world
        self.policy_ids = list(policy_ids)
        self.seat_names = world.seat_names
        seats = len(self.seat_names)
        self.returns = np.zeros((world.num_envs, seats))
        self.seen = np.zeros((world.num_envs, seats), bool)
        self.lengths = np.zeros(world.num_envs, np.int64)
        self.past: list[list[tuple[AgentID, int, float]]] = [[] for _ in range(world.num_envs)]
        self.names = [list(world.seat_names) for _ in range(world.num_envs)]
        self._ended: list[EpisodeStats] = []

    def begin(self, lanes: Ints) -> None:
        self.returns[lanes], self.seen[lanes], self.lengths[lanes] = 0.0, False, 0
        for lane in () if self.world.fixed_seats else lanes.tolist():
            self.past[lane] = []

    def hand_over(self, lane: int, seat: int, policy: int) -> None:
        """A seat was taken by somebody else: put the return of the agent before aside."""
        if self.seen[lane, seat]:
            self.past[lane].append((self.names[lane][seat], policy, float(self.returns[lane, seat])))
        self.returns[lane, seat], self.seen[lane, seat] = 0.0, False
        self.names[lane][seat] = self.world.agent_at(lane, seat)

    def pay(self, frame: Frame, episodes: Sequence[Episode]) -> None:
        self.returns += frame.rewards
        self.lengths += 1
        for lane, agent, reward in frame.late:
            policy = episodes[lane].policies.get(agent)
            if policy is not None:
                self.past[lane].append((agent, self.policy_ids.index(policy), reward))

    def end(self, lanes: Ints, policy_of: Ints, watched: Sequence[Any] = ()) -> None:
        """Episodes of these lanes have ended; ``watched`` are their objects, whose notes are read by ``pop``."""
        if not self.world.fixed_seats:
            for i, lane in enumerate(lanes.tolist()):
                self._ended.append(self._by_name(lane, policy_of[lane]))
                self._ended[-1].remarks = list(watched[i : i + 1])
            return
        episode, seat = np.nonzero(self.seen[lanes] | (self.returns[lanes] != 0))
        returns = self.returns[lanes]
        self._ended.append(
            EpisodeStats(
                rewards=returns.sum(axis=1).astype(np.float32),
                lengths=self.lengths[lanes].copy(),
                agents=self.seat_names,
                agent=seat,
                episode=episode,
                policy=policy_of[lanes][episode, seat],
                returns=returns[episode, seat].astype(np.float32),
                remarks=list(watched),
            )
        )

    def _by_name(self, lane: int, policy_of: Ints) -> EpisodeStats:
        """Seats changed hands in this episode: sum up by agent id and policy."""
        totals: dict[tuple[AgentID, int], float] = {}
        present = [
            (self.names[lane][seat], int(policy_of[seat]), float(self.returns[lane, seat]))
            for seat in np.flatnonzero(self.seen[lane]).tolist()
        ]
        for name, policy, earned in [*self.past[lane], *present]:
            totals[name, policy] = totals.get((name, policy), 0.0) + earned
        names = list(dict.fromkeys(name for name, _ in totals))
        returns = np.array(list(totals.values()), np.float32)
        return EpisodeStats(
            rewards=np.array([sum(totals.values())], np.float32),
            lengths=self.lengths[[lane]].copy(),
            agents=names,
            agent=np.array([names.index(name) for name, _ in totals], np.int64),
            episode=np.zeros(len(totals), np.int64),
            policy=np.array([policy for _, policy in totals], np.int64),
            returns=returns,
        )

    def pop(self) -> EpisodeStats:
        """Statistics of the episodes that ended since the last call."""
        ended, self._ended = EpisodeStats.concat(self._ended), []
        if ended.remarks:
            ended.remarks = [episode.remarks() for episode in ended.remarks]  # type: ignore[attr-defined]
        return ended

    def state_dict(self) -> State:
        return {
            "returns": self.returns.copy(), "seen": self.seen.copy(), "lengths": self.lengths.copy(),
            "past": [[list(entry) for entry in entries] for entries in self.past],
            "names": [list(names) for names in self.names],
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, State]) -> None:
        self.returns[:], self.seen[:], self.lengths[:] = state["returns"], state["seen"], state["lengths"]
        self.names = [list(names) for names in state["names"]]
        self.past = [[(name, int(policy), float(earned)) for name, policy, earned in lane] for lane in state["past"]]
