"""The games that are open: who holds which seat, whose move is awaited, what was scored, and when a game is closed.

A room lives in the server and knows all that a game can be played again from. Playing happens in a process of its own: when
an env ends that process, the game that was being played ends with a sentence, and the others go on in the next process.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marl.serve.refused import Refused
from marl.serve.tokens import Token
from marl.watch.play.scores import Scores
from marl.watch.play.words import HUMAN, is_guest, is_person
from marl.watch.workers import Worker

TASKS = "marl.watch.tasks.play"
MOST_ROOMS = 16
IDLE_S = 3600.0  # a game that nobody has looked at for so long is closed
HERE_S = 6.0  # who has asked within so many seconds is here
STEP_S, OPEN_S = 60.0, 300.0  # seconds that a move and the opening of a run may take
LARGEST_SEED = 2**31
GOES_ON = ("illegal_move", "not_asked", "no_hint", "cannot_undo")
"""Refusals that change nothing; after anything else nobody knows the state of the env, and the game cannot go on."""


@dataclass
class Room:
    """One game after another between the same people and policies."""

    id: str
    deal: dict[str, Any]  # all that a game is dealt from; ``seats`` are words by agent
    title: dict[str, Any]  # what it is called: run, env, checkpoint
    labels: dict[str, str]  # words as people read them
    tokens: dict[str, tuple[str, Token]] = field(
        default_factory=dict
    )  # by guest: the secret, and what it is compared by
    seed: int = 0
    fixed_seed: bool = False  # whoever opened the game chose it
    round: int = 0
    moves: list[dict[str, Any]] = field(default_factory=list)
    pending: dict[str, Any] = field(default_factory=dict)  # chosen by people while others still think
    told: dict[str, Any] = field(default_factory=dict)
    ended: str = ""  # why it cannot go on
    hints: dict[str, int] = field(default_factory=dict)  # by person, in this round
    undos: dict[str, int] = field(default_factory=dict)
    scores: Scores = field(default_factory=Scores)
    seen: dict[str, float] = field(default_factory=dict)  # by person: when it last asked
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def seats(self) -> Mapping[str, str]:
        seats: Mapping[str, str] = self.deal["seats"]
        return seats

    @property
    def over(self) -> bool:
        return bool(self.told.get("over"))

    def person_with(self, secret: object) -> str | None:
        """The guest whose token this is. All are compared, so that time tells nothing."""
        found = None
        for person, (_, token) in self.tokens.items():
            if token.fits(secret):
                found = person
        return found

    def seats_of(self, person: str) -> list[str]:
        """The agents that a person plays."""
        found = []
        for agent, word in self.seats.items():
            if word == person:
                found.append(agent)
        return found

    def called(self, agent: str) -> str:
        """Who plays an agent, as people read it."""
        word = self.seats[agent]
        return self.labels.get(word, word)

    def invitations(self) -> dict[str, str]:
        """By guest: the secret of the link."""
        found: dict[str, str] = {}
        for guest, (secret, _) in self.tokens.items():
            found[guest] = secret
        return found

    def is_here(self, person: str) -> bool:
        return time.monotonic() - self.seen.get(person, -HERE_S) < HERE_S

    @property
    def last_seen(self) -> float:
        return max(self.seen.values(), default=0.0)

    def new_round(self) -> None:
        """Forget the game before, not the scores."""
        self.moves, self.pending, self.told, self.ended = [], {}, {}, ""
        self.hints, self.undos = {}, {}
        if not self.fixed_seed or self.round:
            self.seed = secrets.randbelow(LARGEST_SEED)

    def swap(self) -> None:
        """Everybody moves on to the next seat."""
        agents, words = list(self.seats), list(self.seats.values())
        self.deal = {**self.deal, "seats": dict(zip(agents, [words[-1], *words[:-1]], strict=True))}


class Rooms:
    """All open games, and the process that they are played in."""

    def __init__(self, root: Path, worker: Worker) -> None:
        self.root, self.worker = root, worker
        self.rooms: dict[str, Room] = {}
        self._turn = asyncio.Lock()
        self.step_s = STEP_S

    async def look(self, deal: dict[str, Any]) -> Any:
        """The seats of a game, before it is opened."""
        return await self._call("look", deal, OPEN_S)

    def get(self, name: str) -> Room:
        room = self.rooms.get(name)
        if room is None:
            raise Refused(
                "not_found", "there is no such game (any more): games are closed when nobody looks at them.", 404
            )
        return room

    # -- opening and closing ---------------------------------------------------------------------------------------

    async def open(self, deal: dict[str, Any], title: dict[str, Any], labels: dict[str, str], seed: int | None) -> Room:
        """Deal the first game; a mistake in who plays is told before there is a room."""
        await self._sweep()
        if len(self.rooms) >= MOST_ROOMS:
            raise Refused("too_many", f"{MOST_ROOMS} games are open; close one of them first.", 429)
        room = Room(secrets.token_urlsafe(9), deal, title, labels, seed=seed or 0, fixed_seed=seed is not None)
        for word in deal["seats"].values():
            if is_guest(word):
                secret = secrets.token_urlsafe(24)
                room.tokens[word] = (secret, Token(secret))
        room.seen[HUMAN] = time.monotonic()
        self.rooms[room.id] = room
        try:
            room.new_round()
            await self._deal(room, OPEN_S)
        except BaseException:
            del self.rooms[room.id]
            raise
        return room

    async def close(self, room: Room) -> None:
        self.rooms.pop(room.id, None)
        # A process that has died has forgotten it.
        with suppress(Refused):
            await self._call("forget", {"game": room.id}, self.step_s)

    async def _sweep(self) -> None:
        now = time.monotonic()
        for room in list(self.rooms.values()):
            if now - room.last_seen > IDLE_S:
                await self.close(room)

    async def again(self, room: Room, swap: bool) -> None:
        """The next game between the same people; refused while one is under way."""
        async with room.lock:
            if not room.over and not room.ended:
                raise Refused("not_over", "the game is not over yet.", 409)
            before = room.deal
            if swap:
                room.swap()
            room.round += 1
            room.new_round()
            try:
                await self._deal(room, OPEN_S)
            except Refused as refused:
                room.deal = before
                room.ended = str(refused)
                raise

    async def _deal(self, room: Room, limit: float) -> None:
        room.told = await self._call("deal", self._arguments(room), limit)
        folder = room.told.pop("folder")
        if room.deal.get("folder") is not None:
            # The same checkpoint to the end, also while the run goes on training.
            room.deal["folder"] = folder
        room.title["env"], room.title["variant"] = room.told.pop("env"), room.told.pop("variant")
        if room.over:
            self._book(room)

    # -- playing ---------------------------------------------------------------------------------------------------

    async def move(self, room: Room, person: str, agent: str, action: Any, turn: Any) -> None:
        """Take a move. The game goes on when all people who are asked have chosen."""
        async with room.lock:
            self._check_playing(room)
            self._check_seat(room, person, agent)
            waiting = room.told["waiting"]
            if turn != room.told["turn"]:
                raise Refused("out_of_order", "the game has gone on meanwhile; look at it again.", 409)
            if agent not in waiting:
                raise Refused("not_asked", f"it is not {agent!r} who is asked now, but {', '.join(waiting)}.", 409)
            decision = {**room.pending, agent: action}
            if len(decision) < len(waiting):
                await self._work(room, "check", agent=agent, action=action)
                room.pending = decision
                return
            told = await self._work(room, "play", decision=decision)
            room.moves.append(decision)
            room.pending, room.told = {}, told
            if room.over:
                self._book(room)

    async def undo(self, room: Room, person: str) -> None:
        """Back to the last decision of this person; only while no other person has decided since."""
        async with room.lock:
            self._check_playing(room)
            mine = room.seats_of(person)
            chosen = room.pending.keys() & mine
            if chosen:  # the others still think, so nothing has happened yet
                for agent in chosen:
                    del room.pending[agent]
                return
            keep, why = undo_to(room, person)
            if why:
                raise Refused("cannot_undo", why, 409)
            told = await self._work(room, "undo", keep=keep)
            room.moves, room.told, room.pending = room.moves[:keep], told, {}
            room.undos[person] = room.undos.get(person, 0) + 1

    async def hint(self, room: Room, person: str, agent: str) -> dict[str, Any]:
        """What the run's policy would do on this person's seat; how often it was asked is part of the result."""
        async with room.lock:
            self._check_playing(room)
            self._check_seat(room, person, agent)
            found: dict[str, Any] = await self._work(room, "hint", agent=agent)
            room.hints[person] = room.hints.get(person, 0) + 1
            return found

    def _check_playing(self, room: Room) -> None:
        if room.ended:
            raise Refused("ended", room.ended, 409)
        if room.over:
            raise Refused("over", "the game is over, and counted. Play again.", 409)

    def _check_seat(self, room: Room, person: str, agent: str) -> None:
        if agent not in room.seats_of(person):
            raise Refused("not_your_seat", f"you do not sit on the seat of {agent!r}.", 403)

    async def _work(self, room: Room, task: str, **more: Any) -> Any:
        """Something in the process that plays. What leaves the env in an unknown state ends the game, and nothing else."""
        try:
            return await self._call(task, {**self._arguments(room), **more}, self.step_s)
        except Refused as refused:
            if refused.code not in GOES_ON:
                room.ended = f"The game has ended: {refused}"
                room.pending = {}
                raise Refused("ended", room.ended, 409) from refused
            raise

    async def _call(self, task: str, arguments: dict[str, Any], limit: float) -> Any:
        # One game at a time, so that a process that hangs is known to hang with this one.
        async with self._turn:
            work = asyncio.ensure_future(self.worker.call(f"{TASKS}:{task}", arguments))
            try:
                return await asyncio.wait_for(asyncio.shield(work), limit)
            except TimeoutError:
                self.worker.stop()
                await asyncio.gather(work, return_exceptions=True)
                raise Refused("worker_died", f"the env did not answer within {limit:g} seconds.", 500) from None

    def _arguments(self, room: Room) -> dict[str, Any]:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        return {
            "game": room.id,
            "deal": room.deal,
            "seed": room.seed,
            "moves": list(room.moves),
            "mark": room.told.get("mark", ""),
            "root": str(self.root),
            "name": f"{stamp}_{room.id}_{room.round}",
            "about": self._about(room),
        }

    def _about(self, room: Room) -> dict[str, Any]:
        """What ``play.json`` beside a recording says."""
        return {
            **room.title,
            "seats": who_sits(room),
            "people": people_in(room),
            "explore": room.deal["explore"],
            "hints": sum(room.hints.values()),
            "undos": sum(room.undos.values()),
        }

    def _book(self, room: Room) -> None:
        returns = room.told["revealed"]["returns"]
        room.scores.add(who_sits(room), returns)


def who_sits(room: Room) -> dict[str, str]:
    """By agent, as people read it."""
    found: dict[str, str] = {}
    for agent in room.seats:
        found[agent] = room.called(agent)
    return found


def people_in(room: Room) -> list[str]:
    """The agents that people play."""
    found = []
    for agent, word in room.seats.items():
        if is_person(word):
            found.append(agent)
    return found


def undo_to(room: Room, person: str) -> tuple[int, str]:
    """How many decisions stay when this person takes the last one back, or why that cannot be."""
    mine = set(room.seats_of(person))
    others = set(people_in(room)) - mine
    for number in range(len(room.moves) - 1, -1, -1):
        decided = set(room.moves[number])
        if decided & others:
            return 0, "somebody else has decided since your last move, so it cannot be taken back."
        if decided & mine:
            return number, ""
    return 0, "you have not decided anything yet."
