"""What the parts of a hub share: who plays, the limits, the sessions and episodes, and where all of it is written down."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from marl.envs.external.contract import Contract
from marl.serve.counters import Counters
from marl.serve.delivery import Delivery
from marl.serve.journal import Journal
from marl.serve.limits import Limits
from marl.serve.open_episode import OpenEpisode, Party, StepRecord
from marl.serve.refused import Refused, too_many
from marl.serve.sessions import Session, Sessions
from marl.serve.step_reader import StepReader

KEPT_EPISODES = 1_024  # that are over, whose last messages may be sent again
KEPT_NAMES = 20_000  # of episodes that are over and may not be started again


class Stage(Protocol):
    """Whoever plays the episodes of a hub. Called from the network's thread; must return at once."""

    contract: Contract | None  # None: the first client says it
    version: int = 0  # of the weights that act now
    training: bool = False  # whether a run learns here
    lock_step: bool = False
    no_log: str = ""  # why what clients did themselves cannot be learned from; empty: it can

    def agree(self, contract: Contract) -> None:
        """The first client has said who plays."""
        self.contract = contract

    def policies(self) -> list[dict[str, Any]]:
        """For hello: policy, algo, agents, observation_space, action_space, recurrent."""
        ...

    def begin(self, episode: OpenEpisode) -> None:
        """All parties want to play this episode; the stage calls ``hub.began`` when it has a place for it."""
        ...

    def arrived(self, episode: OpenEpisode) -> None:
        """A step was put into ``episode.inbox``."""
        ...


@runtime_checkable
class Choosy(Protocol):
    """A stage that learns, and cannot use everything that clients might do."""

    no_play: str  # why episodes that are only played are refused; empty: they are not

    own_needs: tuple[str, ...]  # what clients have to say of their own actions: logp, version
    own_why: str  # who needs them


@dataclass
class Desk:
    """One per hub. Everything here is touched under the hub's lock alone."""

    stage: Stage
    limits: Limits
    clock: Callable[[], float]
    journal: Journal | None = None
    counters: Counters = field(default_factory=Counters)
    delivery: Delivery = field(default_factory=Delivery)
    episodes: dict[str, OpenEpisode] = field(default_factory=dict)  # open ones, by id
    over: OrderedDict[str, OpenEpisode] = field(default_factory=OrderedDict)
    shared: dict[str, OpenEpisode] = field(default_factory=dict)  # by name: open ones of several parties
    over_names: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)  # session, name
    bindings: dict[str, deque[OpenEpisode]] = field(
        default_factory=dict
    )  # slot: what it plays, and then has to play again

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.limits)
        self.half_done = (
            False  # whether an error now would leave a message that counts without all that follows from it
        )
        self._reader: StepReader | None = None

    @property
    def contract(self) -> Contract:
        contract = self.stage.contract
        if contract is None:
            raise Refused("contract", "this server does not know its agents yet. Say them in hello.", 409)
        return contract

    @property
    def reader(self) -> StepReader:
        if self._reader is None:
            self._reader = StepReader(self.contract, self.limits.max_depth)
        return self._reader

    def write(self, line: Mapping[str, Any]) -> None:
        """Into the journal, if there is one: before anything that the line tells is done."""
        if self.journal is not None:
            self.journal.append(line)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """A message counts from here on: all of what follows from it happens, or nobody can go on."""
        self.half_done = True
        yield
        self.half_done = False

    def check_room(self, steps: int = 0) -> None:
        """``steps``: those that wait for the player, whose clients need not be there any more."""
        waiting = max(self.delivery.waiting, steps)
        if waiting >= self.limits.max_pending:
            raise too_many(f"{waiting} messages wait for their answer.", retry_after=0.1)

    # -- episodes --------------------------------------------------------------------------------------------------

    def join(self, session: Session, name: str, training: bool, parties: int) -> OpenEpisode:
        """The episode of this name, with the session among its parties; a new one where it is the first."""
        episode = None
        if parties > 1:
            episode = self.shared.get(name)
        if episode is None:
            # Names of shared episodes are everybody's, those of others belong to their session.
            owner = session.id if parties == 1 else "shared"
            episode = OpenEpisode(f"{owner}/{name}", name, training, parties, self.contract)
            self.episodes[episode.id] = episode
            if parties > 1:
                self.shared[name] = episode
        episode.members[session.id] = Party(session.id, session.agents)
        episode.touched = self.clock()
        session.episodes[name] = episode
        self.counters.open = len(self.episodes)
        return episode

    def unbegun(self) -> list[OpenEpisode]:
        """Those that all parties want to play and nobody has taken yet."""
        waiting = []
        for episode in self.episodes.values():
            if episode.full and not episode.bound:
                waiting.append(episode)
        return waiting

    def finish(self, episode: OpenEpisode, why: str) -> None:
        """The episode is over; its last answers are kept for those who ask again."""
        episode.end(why)
        self.episodes.pop(episode.id, None)
        if episode.parties > 1:
            self.shared.pop(episode.name, None)
        self.counters.open = len(self.episodes)
        self.over[episode.id] = episode
        while len(self.over) > KEPT_EPISODES:
            _, oldest = self.over.popitem(last=False)
            self._forget(oldest)

    def leave(self, episode: OpenEpisode, record: StepRecord, why: str) -> None:
        """The player ends the episode at a step that waits for an answer: this is the answer."""
        record.answered = record.ends = True
        self.counters.answered += 1
        self.counters.pending -= 1
        self.counters.ended += 1
        self.finish(episode, why)

    def abandon(self, episode: OpenEpisode, why: str) -> None:
        """The clients are gone: whoever plays it is told that it is over."""
        if episode.bound:
            unanswered = episode.abandon()
            self.counters.pending -= unanswered
            self.counters.dropped += unanswered
        self.finish(episode, why)
        self.counters.abandoned += 1

    def bind(self, episode: OpenEpisode) -> None:
        """A slot plays one episode after the other, so those that it had before are done."""
        assert episode.slot is not None
        self.bindings[episode.slot] = deque([episode])
        self.counters.begun += 1

    def _forget(self, episode: OpenEpisode) -> None:
        """Only the name is kept: a start that comes late must not begin it a second time."""
        slot = episode.slot or ""
        is_last_of_slot = self.bindings.get(slot) == deque([episode])
        if is_last_of_slot and episode.consumed:
            del self.bindings[slot]
        for id in episode.members:
            self.over_names[id, episode.name] = None
            session = self.sessions.by_id.get(id)
            if session is not None:
                session.episodes.pop(episode.name, None)
        while len(self.over_names) > KEPT_NAMES:
            self.over_names.popitem(last=False)
