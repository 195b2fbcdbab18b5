"""What passes between the network and whoever plays: steps of episodes that clients reported, and their answers.

A ``Step`` has been checked against the spaces before it is made, and is counted once: a message that is sent again gets the
answer of the first one and never becomes a second ``Step``.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from marl.data.task import AgentID, Array
from marl.envs.base import Action, Info, Obs


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What a client says of one agent in one step. ``obs`` is None where it only was paid or has ended."""

    obs: Obs = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Info = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnAction:
    """What a client did by itself for an agent, and how probable that was, if it knows."""

    action: Action
    logp: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What agents do, as their env takes it, and the version of the weights that chose it."""

    actions: Mapping[AgentID, Action]
    version: int = 0
    details: Mapping[AgentID, Mapping[str, Any]] = field(
        default_factory=dict
    )  # probabilities, value, state: on request


@dataclass(slots=True)
class Step:
    """Step ``t`` of an episode: what agents see now, and what the actions of step ``t - 1`` brought them."""

    t: int
    agents: dict[AgentID, AgentReport]
    ends: bool = False  # the episode is over; agents that did not end by themselves are cut off
    state: Array | None = None  # the global state, for centralised training
    own: dict[AgentID, OwnAction] | None = None  # message log: what was done already
    own_version: int | None = None  # of the weights with which the client chose it itself
    wanted: frozenset[str] = frozenset()  # which details the answer should have
    answer: Future[Answer] = field(default_factory=Future)


class Episode(Protocol):
    """A running episode as its player sees it."""

    id: str
    training: bool  # whether it is learned from


class Line(Protocol):
    """The player's end of the connection: verbs that wait until a client has said something.

    How they wait is the line's own matter: a thread sleeps, a greenlet lets others play meanwhile. A client that is gone for
    too long ends its episode: ``next_step`` then gives a step that ``ends`` without agents.
    """

    def next_episode(self, seed: int) -> Episode:
        """The next episode that a client wants to play here; its client is told the seed."""
        ...

    def next_step(self, episode: Episode, t: int) -> Step:
        """Step ``t`` of the episode."""
        ...

    def answer(self, episode: Episode, step: Step, actions: Mapping[AgentID, Action]) -> None:
        """Tell the client what its agents do in this step."""
        ...

    def leave(self, episode: Episode, step: Step) -> None:
        """The player ends the episode by itself: tell its client instead of an answer to this step."""
        ...

    def rejoin(self, episode_id: str, t: int) -> tuple[Episode, Step] | None:
        """An episode in whose step ``t`` a state was taken, and this step; None where it cannot be found any more."""
        ...
