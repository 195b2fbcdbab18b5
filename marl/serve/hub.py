"""Where messages of clients meet whoever plays: sessions, episodes, order, and exactly once.

The network calls ``answer`` on its event loop. The player (``Stage``) gets whole, checked steps and answers them from any
thread. (session, episode, t) names a step: sent again it gets the answer of the first time and is counted once; a gap is
refused with what was expected. With a journal all of this outlives the process.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from marl.envs.external.contract import Contract
from marl.envs.external.steps import Answer, Step
from marl.serve.counters import Counters
from marl.serve.delivery import Delivery
from marl.serve.fit import check_fit, contract_json, new_contract
from marl.serve.limits import Limits
from marl.serve.messages import (
    HELLO_KEYS,
    KINDS,
    PROTOCOL,
    START_KEYS,
    Report,
    check_keys,
    fingerprint,
    flag,
    text,
    whole,
)  # fmt: skip
from marl.serve.open_episode import OpenEpisode, Party, StepRecord, Waiter
from marl.serve.refused import Refused, bad_message, out_of_order, shortly, too_many
from marl.serve.sessions import Session, Sessions
from marl.serve.step_reader import StepReader

__all__ = ["Counters", "Hub", "Limits", "OpenEpisode", "Refused", "Stage"]

KEPT_EPISODES = 4_096  # that are over, whose last messages may be sent again
MOST_PARTIES = 64


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


class Hub:
    """Sessions and episodes of one server."""

    def __init__(
        self, stage: Stage, limits: Limits, journal: None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stage, self.limits, self.clock = stage, limits, clock
        self.journal = journal
        self.counters = Counters()
        self.sessions = Sessions(limits)
        self.episodes: dict[str, OpenEpisode] = {}  # open ones, by id
        self._over: OrderedDict[str, OpenEpisode] = OrderedDict()
        self._shared: dict[str, OpenEpisode] = {}  # by name: those of several parties
        self._lock = threading.RLock()
        self._delivery = Delivery()
        self._reader: StepReader | None = None
        self._closed: Refused | None = None

    # -- the network's side ----------------------------------------------------------------------------------------

    async def answer(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one message, as soon as there is one; raises ``Refused``."""
        try:
            with self._lock:
                answer = self._dispatch(kind, message)
            if isinstance(answer, dict):
                return answer
            return await self._delivery.wait(answer)
        except Refused as refused:
            self.counters.refused[refused.code] += 1
            if refused.code == "out_of_order":
                self.counters.gaps += 1
            raise

    def _dispatch(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any] | Waiter:
        if self._closed is not None:
            raise self._closed
        if not isinstance(message, dict):
            raise bad_message(f"the message is {shortly(message)}; expected an object.")
        if kind == "hello":
            return self._hello(message)
        if kind == "start":
            return self._start(message)
        if kind in KINDS:
            return self._step(kind, message)
        raise bad_message(f"the type {shortly(kind)} is unknown. Known: {', '.join(KINDS)}.", key="type")

    # -- hello -----------------------------------------------------------------------------------------------------

    def _hello(self, message: Mapping[str, Any]) -> dict[str, Any]:
        check_keys("hello", message, HELLO_KEYS)
        if message.get("protocol") != PROTOCOL:
            raise Refused(
                "protocol",
                f"protocol is {shortly(message.get('protocol'))}; this server speaks {PROTOCOL}.",
                where={"key": "protocol"},
                expected=PROTOCOL,
            )
        if message.get("mode", "remote") not in ("remote", "local"):
            raise bad_message(f"mode is {shortly(message['mode'])}; expected remote or local.", key="mode")
        if self.stage.contract is None:
            self.stage.agree(new_contract(message, self.limits.max_depth))
        agents = check_fit(self.contract, message, self.limits.max_depth)
        session = self._session_for(message, agents)
        session.mode = message.get("mode", session.mode)
        return self._welcome(session)

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

    def _session_for(self, message: Mapping[str, Any], agents: frozenset[str]) -> Session:
        """The session that a client goes on with, or a new one."""
        now, name = self.clock(), None
        if message.get("name") is not None:
            name = text("hello", message, "name")
        session = self.sessions.named(name)
        if message.get("session") is not None:
            session = self.sessions.find(message["session"], now)
        if session is None:
            session = self.sessions.add(name, now)
            session.agents = agents
            self.counters.sessions = len(self.sessions)
        session.touched = now
        if agents and agents != session.agents:
            if session.open_episodes():
                raise Refused("conflict", "this session has open episodes with other agents. End them first.", 409)
            session.agents = agents
        return session

    def _welcome(self, session: Session) -> dict[str, Any]:
        return {
            "session": session.id,
            "protocol": PROTOCOL,
            "policies": self.stage.policies(),
            "agents": contract_json(self.contract),
            "state_size": self.contract.state_size,
            "version": self.stage.version,
            "lock_step": self.stage.lock_step,
            "training": self.stage.training,
            "limits": self.limits.model_dump(),
            "open": [self._running(session, episode) for episode in session.open_episodes()],
        }

    def _running(self, session: Session, episode: OpenEpisode) -> dict[str, Any]:
        """What a client that was killed needs to replay its simulator up to the step that is to come."""
        party = episode.members[session.id]
        actions = None
        if episode.history is not None:
            actions = [self._own_part(episode, party, step) for step in episode.history]
        known = len(episode.history) if episode.history is not None else party.next_t
        return {
            "episode": episode.name,
            "begun": episode.bound,
            "t": known,
            "seed": episode.seed,
            "training": episode.training,
            "actions": actions,
        }

    def _own_part(self, episode: OpenEpisode, party: Party, actions: Mapping[str, Any]) -> dict[str, Any]:
        if episode.parties == 1:
            return dict(actions)
        return {agent: action for agent, action in actions.items() if party.plays(self.contract, agent)}

    # -- start -----------------------------------------------------------------------------------------------------

    def _start(self, message: Mapping[str, Any]) -> dict[str, Any] | Waiter:
        check_keys("start", message, START_KEYS)
        session = self.sessions.find(message.get("session"), self.clock())
        name = secrets.token_hex(16)
        if message.get("episode") is not None:
            name = text("start", message, "episode")
        training = flag(message.get("training"), True, key="training") and self.stage.training
        parties = 1
        if message.get("parties") is not None:
            parties = whole("start", message, "parties", 1, MOST_PARTIES)
        episode = session.episodes.get(name)
        if episode is not None:
            return self._start_again(episode, training, parties)
        self._check_room()
        episode = self._join(session, name, training, parties)
        episode.touched = self.clock()
        session.episodes[name] = episode
        if episode.full:
            self.stage.begin(episode)
        return self._wait_for_start(episode)

    def _start_again(self, episode: OpenEpisode, training: bool, parties: int) -> dict[str, Any] | Waiter:
        if (episode.training, episode.parties) != (training, parties):
            raise Refused("conflict", f"episode {episode.name!r} was started with other values before.", 409)
        if episode.over and not episode.bound:
            raise Refused("ended", f"episode {episode.name!r} is over: {episode.over}.", 410)
        self.counters.repeated += 1
        return self._wait_for_start(episode)

    def _wait_for_start(self, episode: OpenEpisode) -> dict[str, Any] | Waiter:
        if episode.bound:
            return self._started(episode)
        waiter = self._delivery.waiter()
        episode.start_waiters.append(waiter)
        return waiter

    def _started(self, episode: OpenEpisode) -> dict[str, Any]:
        return {
            "episode": episode.name,
            "seed": episode.seed,
            "training": episode.training,
            "version": episode.version,
        }

    def _join(self, session: Session, name: str, training: bool, parties: int) -> OpenEpisode:
        """The episode of this name, with the session among its parties."""
        episode = self._shared.get(name) if parties > 1 else None
        if episode is None:
            if len(self.episodes) >= self.limits.max_episodes:
                raise too_many(f"there are {len(self.episodes)} open episodes already.", retry_after=1.0)
            id = name if parties > 1 else f"{session.id}/{name}"
            episode = OpenEpisode(id, name, training, parties, self.contract)
            self.episodes[id] = episode
            self.counters.open = len(self.episodes)
            if parties > 1:
                self._shared[name] = episode
        elif (episode.training, episode.parties) != (training, parties) or episode.full or episode.over:
            raise Refused(
                "conflict",
                f"the shared episode {name!r} has its parties already, or other values. Choose another id.",
                409,
            )
        self._check_apart(session, episode)
        episode.members[session.id] = Party(session.id, session.agents)
        return episode

    def _check_apart(self, session: Session, episode: OpenEpisode) -> None:
        """Parties of an episode play different agents."""
        if episode.parties == 1:
            return
        mine = Party(session.id, session.agents)
        for other in episode.members.values():
            theirs = any(mine.plays(self.contract, agent) for agent in other.agents)
            ours = any(other.plays(self.contract, agent) for agent in mine.agents)
            if theirs or ours or not mine.agents:
                raise Refused(
                    "conflict",
                    f"two parties of {episode.name!r} play the same agents. Say in hello which agents each of them plays.",
                    409,
                )

    def _check_room(self) -> None:
        if self._delivery.waiting >= self.limits.max_pending:
            raise too_many(f"{self._delivery.waiting} messages wait for their answer.", retry_after=0.1)

    # -- act, log, end ---------------------------------------------------------------------------------------------

    def _step(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any] | Waiter:
        now = self.clock()
        session = self.sessions.find(message.get("session"), now)
        name = message.get("episode")
        episode = session.episodes.get(name) if isinstance(name, str) else None
        if episode is None:
            raise Refused(
                "unknown_episode", "this session has no such episode. Start it first.", 404, where={"key": "episode"}
            )
        party = episode.members[session.id]
        t = whole(kind, message, "t", 0)
        episode.touched = now
        if t < party.next_t:
            return self._step_again(kind, message, episode, party, t)
        self._check_turn(kind, episode, party, t)
        self._check_room()
        report = self.reader.read(kind, t, message)
        self._check_report(report, episode, party)
        return self._accept(report, fingerprint(kind, message), episode, party)

    def _check_turn(self, kind: str, episode: OpenEpisode, party: Party, t: int) -> None:
        if episode.over:
            raise Refused("ended", f"episode {episode.name!r} is over: {episode.over}.", 410, where={"t": t})
        if not episode.bound:
            raise out_of_order(f"start of {episode.name!r} has not been answered yet.", 0, t=t)
        if t > party.next_t:
            raise out_of_order(f"{kind} has t = {t}; expected {party.next_t}.", party.next_t, t=t)
        before = episode.records.get(t - 1)
        if before is None or before.answered:
            return
        # What a client did itself may be sent ahead; an action that was asked for has to be known first.
        if episode.parties > 1 or before.sent[party.session].kind == "act":
            raise out_of_order(f"t = {t - 1} has not been answered yet.", t - 1, t=t)

    def _check_report(self, report: Report, episode: OpenEpisode, party: Party) -> None:
        t = report.t
        for agent in report.agents:
            if episode.parties > 1 and not party.plays(self.contract, agent):
                raise Refused("unknown_agent", f"agent {agent!r} is another party's.", where={"agent": agent, "t": t})
        if report.kind == "log" and episode.training and self.stage.no_log:
            raise Refused("not_learnable", self.stage.no_log, 409, where={"t": t})
        record = episode.records.get(t)
        others = len(record.sent) if record is not None else 0
        completes = others + 1 == episode.parties
        episode.lives.check(report, completes)
        has_state = report.state is not None or (record is not None and record.state is not None)
        if self.contract.state_size and completes and not has_state and report.kind != "end":
            raise Refused(
                "space",
                f"{report.kind} has no state at t = {t}; expected {self.contract.state_size} numbers.",
                where={"t": t, "key": "state"},
            )

    def _accept(self, report: Report, mark: bytes, episode: OpenEpisode, party: Party) -> dict[str, Any] | Waiter:
        """From here on the message counts."""
        record = episode.record(report.t)
        record.add(party.session, report, mark)
        party.next_t = report.t + 1
        episode.lives.apply(report)
        if len(record.sent) == episode.parties:
            self._complete(episode, record)
        if record.answered:
            return self._told(episode, party, record)
        return self._wait_for_step(party, record)

    def _complete(self, episode: OpenEpisode, record: StepRecord) -> None:
        episode.complete(record)
        if record.ends:
            record.answered = True
            for waiter, session in record.waiters:
                self._delivery.send(waiter, self._told(episode, episode.members[session], record))
            record.waiters.clear()
            self._finish(episode, "its client ended it")
            self.counters.ended += 1
        else:
            self.counters.accepted += 1
            self.counters.pending += 1
        self.stage.arrived(episode)

    def _step_again(
        self, kind: str, message: Mapping[str, Any], episode: OpenEpisode, party: Party, t: int
    ) -> dict[str, Any] | Waiter:
        record = episode.records.get(t)
        if record is None:
            raise Refused(
                "too_old", f"t = {t} is too long ago to be sent again; expected {party.next_t}.", 409, where={"t": t}
            )
        if record.sent[party.session].mark != fingerprint(kind, message):
            raise Refused(
                "conflict", f"t = {t} was sent before with other content; expected {party.next_t}.", 409, where={"t": t}
            )
        self.counters.repeated += 1
        if record.answered:
            return self._told(episode, party, record)
        return self._wait_for_step(party, record)

    def _wait_for_step(self, party: Party, record: StepRecord) -> Waiter:
        waiter = self._delivery.waiter()
        record.waiters.append((waiter, party.session))
        return waiter

    def _told(self, episode: OpenEpisode, party: Party, record: StepRecord) -> dict[str, Any]:
        """The answer to a step, the same each time."""
        told: dict[str, Any] = {"episode": episode.name, "t": record.t}
        if record.ends:
            told["returns"] = self._own_part(episode, party, episode.lives.returns)
            told["length"] = episode.length
            if record.sent[party.session].kind != "end":  # another party has ended it
                told["ended"], told["actions"], told["version"] = True, {}, record.version
            return told
        told["version"] = record.version
        if record.sent[party.session].kind == "act":
            told["actions"] = self._own_part(episode, party, record.actions)
            if record.details:
                told["details"] = self._own_part(episode, party, record.details)
        return told

    # -- the player's side, from any thread ------------------------------------------------------------------------

    def began(self, episode: OpenEpisode, seed: int | None, slot: str) -> None:
        """A place was found for the episode: its clients may go on."""
        with self._lock:
            episode.seed, episode.slot, episode.version, episode.bound = seed, slot, self.stage.version, True
            self.counters.begun += 1
            for waiter in episode.start_waiters:
                self._delivery.send(waiter, self._started(episode))
            episode.start_waiters.clear()
        episode.begun.set_result(seed)

    def answered(self, episode: OpenEpisode, step: Step, answer: Answer) -> None:
        """What agents do in this step."""
        with self._lock:
            record = episode.records[step.t]
            actions = self.reader.actions(
                {**answer.actions, **{a: own.action for a, own in record.own.items()}}, record.asked
            )
            episode.note_answer(record, actions, answer.version, dict(answer.details))
            self.counters.answered += 1
            self.counters.pending -= 1
            for waiter, session in record.waiters:
                self._delivery.send(waiter, self._told(episode, episode.members[session], record))
            record.waiters.clear()
        step.answer.set_result(answer)

    def _finish(self, episode: OpenEpisode, why: str) -> None:
        episode.end(why)
        self.episodes.pop(episode.id, None)
        self.counters.open = len(self.episodes)
        self._over[episode.id] = episode
        while len(self._over) > KEPT_EPISODES:
            _, oldest = self._over.popitem(last=False)
            self._forget(oldest)

    def _forget(self, episode: OpenEpisode) -> None:
        if episode.parties > 1:
            self._shared.pop(episode.name, None)
        for id in episode.members:
            session = self.sessions.by_id.get(id)
            if session is not None:
                session.episodes.pop(episode.name, None)

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Everything that waits is refused, and all that comes from now on: the server stops."""
        self._stop(Refused("closing", f"the server stops: {reason}. Come again later.", 503, retry_after=1.0))

    def fail(self, error: BaseException) -> None:
        """Whoever played has failed: nobody is left waiting for it."""
        told = f"{type(error).__name__}: {error}"
        self._stop(Refused("failed", f"the server cannot play any more ({told}). See its log.", 500))

    def failed(self, episode: OpenEpisode, error: BaseException) -> None:
        """This one episode cannot be played on: its clients are told, and all others go on."""
        with self._lock:
            if episode.over:
                return
            self._refuse_waiters(
                episode, Refused("failed", f"episode {episode.name!r} cannot be played on: {error}", 500)
            )
            waiting = len(episode.pending())
            self.counters.pending -= waiting
            self.counters.dropped += waiting
            self.counters.abandoned += 1
            self._finish(episode, "it could not be played on")

    def _stop(self, refused: Refused) -> None:
        with self._lock:
            if self._closed is not None:
                return
            self._closed = refused
            for episode in self.episodes.values():
                self._refuse_waiters(episode, refused)

    def _refuse_waiters(self, episode: OpenEpisode, refused: Refused) -> None:
        waiters = [*episode.start_waiters]
        for record in episode.records.values():
            waiters += [waiter for waiter, _ in record.waiters]
            record.waiters.clear()
        episode.start_waiters.clear()
        for waiter in waiters:
            self._delivery.send(waiter, refused)

    def sweep(self) -> None:
        """Episodes and sessions that have been silent for too long end."""
        with self._lock:
            now = self.clock()
            for session in self.sessions.silent(now):
                self.sessions.forget(session)
            self.counters.sessions = len(self.sessions)
