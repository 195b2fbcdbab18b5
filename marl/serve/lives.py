"""Who lives in an episode, what everybody earned, and which reports cannot be."""

from __future__ import annotations

from collections.abc import Iterable

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
        new = [agent for agent, told in report.agents.items() if told.obs is not None and agent not in self.seated]
        if new and self._contract.max_agents:
            self._check_seats(report.t, new)
        if completes and report.kind != "end" and self.empty + 1 >= LONGEST_EMPTY and not self._alive_after(report):
            raise Refused(
                "nobody_alive",
                f"nobody has been alive for {LONGEST_EMPTY} steps at t = {report.t}. End the episode.",
                where={"t": report.t},
            )

    def _check_seats(self, t: int, new: Iterable[AgentID]) -> None:
        taken: dict[str, int] = {}
        for agent in (*self.seated, *new):
            name = self._contract.name_of(agent) or agent
            taken[name] = taken.get(name, 0) + 1
            most = self._contract.max_agents.get(name)
            if most is not None and taken[name] > most:
                raise Refused(
                    "too_many_agents",
                    f"agent {agent!r} appeared at t = {t} while all {most} seats of {name!r} were taken. An agent that ends "
                    f"in the same step still counts. Raise max of {name!r}.",
                    where={"agent": agent, "t": t},
                    expected=most,
                )

    def _alive_after(self, report: Report) -> bool:
        ended = {agent for agent, told in report.agents.items() if told.terminated or told.truncated}
        return bool(report.asked) or bool(self.alive - ended)

    def apply(self, report: Report) -> None:
        for agent, told in report.agents.items():
            self.returns[agent] = self.returns.get(agent, 0.0) + told.reward
            if told.obs is not None:
                self.alive.add(agent)
                self.seated.add(agent)
            if told.terminated or told.truncated:
                self.alive.discard(agent)

    def finish_step(self, t: int) -> None:
        """All parties have reported: seats of those who ended are free in the next step."""
        self.seated = set(self.alive)
        if self.alive:
            self.empty = 0
        elif t > 0:  # as the env counts: a reset is no step
            self.empty += 1
