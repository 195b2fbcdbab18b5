"""Groups are teams: named, ordered sets of agents that a mixer or a shared critic looks at together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marl.data.task import AgentID, AgentType, GroupID
from marl.envs.vector.layout import pattern_of
from marl.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class AgentGroups:
    """Group names to members; a member is an agent id or a pattern such as ``car_*``."""

    members: Mapping[GroupID, Sequence[AgentID]]

    def seats(self, kinds: Sequence[AgentType]) -> dict[GroupID, tuple[int, ...]]:
        """The seats of each group, in the order of its members. No agent may be in two groups."""
        names: list[AgentID] = []
        for kind in kinds:
            names.extend(kind.agents)
        found: dict[GroupID, tuple[int, ...]] = {}
        for group, members in self.members.items():
            found[group] = self._seats_of(group, members, names)
        taken: dict[int, GroupID] = {}
        for group, seats in found.items():
            for seat in seats:
                # A mixer adds up values group by group: an agent in two groups would be counted twice.
                if seat in taken:
                    raise ConfigError(
                        f"agent {names[seat]!r} is in the groups {taken[seat]!r} and {group!r}; an agent belongs to "
                        "one group at most. Take it out of one."
                    )
                taken[seat] = group
        return found

    def _seats_of(self, group: GroupID, members: Sequence[AgentID], names: Sequence[AgentID]) -> tuple[int, ...]:
        seats: list[int] = []
        # The seats of car_* are called car_*[0], car_*[1], ...
        patterns = [name.split("[")[0] for name in names]
        for member in members:
            matching: list[int] = []
            for seat, name in enumerate(names):
                named = member in (name, patterns[seat])
                if (named or pattern_of(name, [member])) and seat not in seats:  # patterns may overlap
                    matching.append(seat)
            if not matching:
                known = sorted(set(patterns))
                raise ConfigError(
                    f"group {group!r} names {member!r}, but the env has no such agent. Agents: {', '.join(known)}."
                    f"{did_you_mean(member, known)}"
                )
            seats += matching
        return tuple(seats)

    def group_of(self, agent: AgentID) -> GroupID | None:
        """The group that an agent id belongs to."""
        for group, members in self.members.items():
            if pattern_of(agent, members):
                return group
        return None
