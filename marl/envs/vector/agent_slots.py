"""Who sits where in one copy of a dict env."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marl.data.task import AgentID
from marl.envs.batched import State
from marl.envs.vector.layout import pattern_of
from marl.errors import EnvError, did_you_mean


class Seating:
    """Agent ids to seats.

    Agents that are known in advance keep their seat for ever. Where ids are not known (``max_agents``), a new id takes the
    seat of its pattern that has been free for the longest time; the seat of an agent that ended is free again after the
    next step, when its last observation has been stored.
    """

    def __init__(self, seat_names: Sequence[AgentID], max_agents: Mapping[str, int], fixed: bool) -> None:
        self.seat_names, self.max_agents, self.fixed = tuple(seat_names), max_agents, fixed
        self.names = list(seat_names)  # who sits, or sat last, on each seat
        self.seat_of: dict[AgentID, int] = {}
        self.free: dict[str, list[int]] = {}
        self.leaving: list[AgentID] = []
        if fixed:
            self.seat_of = {agent: seat for seat, agent in enumerate(seat_names)}
        else:
            self.clear()

    def clear(self) -> None:
        """A new episode begins; not for agents that keep their seats."""
        self.leaving, self.seat_of = [], {}
        self.free = {pattern: [] for pattern in self.max_agents}
        for seat, name in enumerate(self.seat_names):
            self.free[_pattern(name)].append(seat)

    def check_known(self, agent: AgentID, where: str) -> str:
        """The pattern of an agent; an agent that the env never named is an error."""
        if self.fixed:
            known, listed = list(self.seat_of), "possible_agents"
        else:
            known, listed = list(self.max_agents), "the patterns of max_agents"
            pattern = pattern_of(agent, known)
            if pattern is not None:
                return pattern
        raise EnvError(
            f"{where}: agent {agent!r} is not in {listed} ({', '.join(map(str, known))}).{did_you_mean(agent, known)} Add "
            "it there."
        )

    def take(self, agent: AgentID, where: str) -> int:
        """A seat for an agent that has none."""
        pattern = self.check_known(agent, where)
        if not self.free[pattern]:
            raise EnvError(
                f"{where}: agent {agent!r} appeared while all {self.max_agents[pattern]} seats of {pattern!r} were taken. An "
                f"agent that ends in the same step still counts. Raise max_agents[{pattern!r}]."
            )
        seat = self.free[pattern].pop(0)
        self.seat_of[agent] = seat
        self.names[seat] = agent
        return seat

    def release(self) -> None:
        """Free the seats of agents that ended in the step before."""
        for agent in self.leaving:
            seat = self.seat_of.pop(agent)
            self.free[_pattern(self.seat_names[seat])].append(seat)
        self.leaving = []

    def get_state(self) -> State:
        return {
            "names": list(self.names),
            "seat_of": [[agent, seat] for agent, seat in self.seat_of.items()],
            "free": {pattern: list(seats) for pattern, seats in self.free.items()},
            "leaving": list(self.leaving),
        }

    def set_state(self, state: State) -> None:
        self.names = list(state["names"])
        self.seat_of = dict(map(tuple, state["seat_of"]))
        self.free = {pattern: list(seats) for pattern, seats in state["free"].items()}
        self.leaving = list(state["leaving"])


def _pattern(seat_name: str) -> str:
    """``car_*`` of the seat ``car_*[3]``."""
    return seat_name.split("[")[0]
