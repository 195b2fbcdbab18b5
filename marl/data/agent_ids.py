"""Ids of agents are texts, on disk and everywhere else; RLlib's envs call their agents 0, 1, 2."""

from __future__ import annotations

import re

import numpy as np

from marl.data.task import AgentID

_NUMBERED = re.compile(r"agent_(\d+)", re.ASCII)


def text_id(agent: object) -> AgentID:
    """An agent's id as everybody knows it: a number 3 is ``agent_3``; texts stay as they are."""
    is_number = isinstance(agent, int | np.integer) and not isinstance(agent, bool)
    return f"agent_{agent}" if is_number else agent  # type: ignore[return-value]  # others are refused later, by name


class NumberedAgent(str):
    """The text ``agent_3`` that also answers as the number 3, for functions that were written for an env with such ids.

    Only users' mapping functions are given it: ``"a" if agent_id == 0 else "b"`` would otherwise send everybody to ``b``
    without a word.
    """

    __slots__ = ("number",)
    number: int

    def __eq__(self, other: object) -> bool:
        return self.number == other if isinstance(other, int) else str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__  # as a key it is the text

    def __int__(self) -> int:
        return self.number

    def __index__(self) -> int:
        return self.number

    def __mod__(self, other: object) -> str:
        return self.number % other if isinstance(other, int) else str.__mod__(self, other)  # type: ignore[return-value]

    def __lt__(self, other: str | int) -> bool:
        return self.number < other if isinstance(other, int) else str.__lt__(self, other)

    def __ge__(self, other: str | int) -> bool:
        return not self < other

    def __gt__(self, other: str | int) -> bool:
        return self.number > other if isinstance(other, int) else str.__gt__(self, other)

    def __le__(self, other: str | int) -> bool:
        return not self > other


def as_number_too(agent: AgentID) -> AgentID:
    """``agent_3`` as a ``NumberedAgent``; other ids as they are."""
    found = _NUMBERED.fullmatch(agent)
    if found is None:
        return agent
    numbered = NumberedAgent(agent)
    numbered.number = int(found[1])
    return numbered
