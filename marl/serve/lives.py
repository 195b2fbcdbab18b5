"""Who lives in an episode, what everybody earned, and which reports cannot be."""

from __future__ import annotations

from collections import Counter

from marl.data.task import AgentID
from marl.envs.external.contract import Contract
from marl.envs.vector.vector_env import LONGEST_EMPTY
from marl.serve.messages import Report
from marl.serve.refused import Refused


class Lives:
    """Agents come, end and may come back; an agent that ends keeps its seat until the next step."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self.alive: set[AgentID] = set()
        self.seated: set[AgentID] = set()
        self.returns: dict[AgentID, float] = {}
        self.empty = 0  # steps since anybody lived

    def check(self, report: Report, completes: bool) -> None:
        """Refuses what the env behind would fail at: more agents than seats, and a world in which nobody lives any more."""
        if self._contract.max_agents:
            self._check_seats(report)
        goes_on = completes and report.kind != "end"
        empty_after = self.empty + 1
        if goes_on and empty_after >= LONGEST_EMPTY:
            self._check_somebody_lives(report)

    def _check_seats(self, report: Report) -> None:
        taken = Counter(map(self._contract.name_of, self.seated))
        for agent in report.seen - self.seated:
            name = self._contract.name_of(agent) or agent
            taken[name] += 1
            most = self._contract.max_agents.get(name, 1)
            if taken[name] > most:
                raise Refused(
                    "too_many_agents",
                    f"agent {agent!r} appeared at t = {report.t} while all {most} seats of {name!r} were taken. An agent that "
                    f"ends in the same step still counts. Raise max of {name!r}.",
                    where={"agent": agent, "t": report.t},
                    expected=most,
                )

    def _check_somebody_lives(self, report: Report) -> None:
        left = (self.alive | report.seen) - report.ended
        if not left:
            raise Refused(
                "nobody_alive",
                f"nobody has been alive for {LONGEST_EMPTY} steps at t = {report.t}. End the episode.",
                where={"t": report.t},
            )

    def apply(self, report: Report) -> None:
        for agent, told in report.agents.items():
            self.returns[agent] = self.returns.get(agent, 0.0) + told.reward
        self.alive |= report.seen
        self.seated |= report.seen
        self.alive -= report.ended

    def finish_step(self, t: int) -> None:
        """All parties have reported: seats of those who ended are free in the next step."""
        self.seated = set(self.alive)
        if self.alive:
            self.empty = 0
        elif t > 0:  # as the env counts: a reset is no step
            self.empty += 1
