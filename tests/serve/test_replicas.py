"""Between the process that talks to clients and the replicas that play: where messages go, and what happens when one dies."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from marl.errors import UserError
from marl.serve import replicas
from marl.serve.hub import Refused
from marl.serve.limits import Limits
from marl.serve.replica import SECRET_BYTES, Replica
from marl.serve.replicas import Reception, RoutingHub
from tests.serve.by_hand import refusal
from tests.serve.instant import BOX, TWO, InstantStage, act, instant_hub, small_contract

SPACES = {"observation_space": BOX, "action_space": TWO}


class OwnReplica(Replica):
    """Without Ray and without policies: every agent does 1."""

    def __init__(self) -> None:
        self.hub = instant_hub(InstantStage())
        self.trouble = ""
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._door = None
        self._tasks = set()
        self._met: list[asyncio.StreamWriter] = []

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._met.append(writer)
        await super()._meet(reader, writer)

    def die(self) -> None:
        """As the end of a process looks from outside."""
        assert self._door is not None
        self._door.close()
        for writer in self._met:
            writer.transport.abort()


class Handle:
    """What Ray Serve gives: calls to whichever replica is there."""

    def __init__(self, replica: OwnReplica | None) -> None:
        self.replica = replica
        self.listen, self.figures = SimpleNamespace(remote=self._listen), SimpleNamespace(remote=self._figures)

    async def _listen(self) -> tuple[int, bytes]:
        while self.replica is None:  # as Ray Serve does while it starts another one
            await asyncio.sleep(0.01)
        return await self.replica.listen()

    async def _figures(self) -> dict[str, Any]:
        assert self.replica is not None
        return await self.replica.figures()


def with_replicas(test: Callable[[RoutingHub, list[Handle]], Awaitable[None]], count: int = 3) -> None:
    async def run() -> None:
        served: Any = SimpleNamespace(contract=small_contract(), described=lambda: [], policies={})
        hub = RoutingHub(Reception(served), Limits(), count)
        handles = [Handle(OwnReplica()) for _ in range(count)]
        hub.connect(handles)
        await test(hub, handles)
        for handle in handles:
            if handle.replica is not None and handle.replica._door is not None:
                handle.replica.die()

    asyncio.run(run())


async def hello(hub: RoutingHub, **more: Any) -> str:
    return str((await hub.answer("hello", {"protocol": "marl/1", **more}))["session"])


def home(session: str) -> str:
    return session.partition(".")[0]


def test_parties_with_names_meet_wherever_their_names_would_lead() -> None:
    async def play(hub: RoutingHub, _: list[Handle]) -> None:
        for number in range(6):
            one = await hello(hub, name=f"left {number}", agents={"a": SPACES})
            two = await hello(hub, name=f"right {number}", agents={"car_1": SPACES})
            shared = {"episode": f"e {number}", "parties": 2}
            starts = [hub.answer("start", {"session": session, **shared}) for session in (one, two)]
            first, second = await asyncio.gather(*starts)
            assert first == second
            # By its name alone a client finds the same session again.
            assert await hello(hub, name=f"left {number}") == one

    with_replicas(play)


def test_a_session_that_could_not_meet_its_partners_is_told_so_at_once() -> None:
    async def play(hub: RoutingHub, _: list[Handle]) -> None:
        sessions = [await hello(hub) for _ in range(3)]
        assert {home(session) for session in sessions} == {"0", "1", "2"}
        for session in sessions:
            if home(session) != "0":
                told = await refusal(hub.answer("start", {"session": session, "episode": "e", "parties": 2}))
                assert (told.code, told.status) == ("conflict", 409)
                assert "which agents it plays" in str(told)
                await hub.answer("start", {"session": session, "episode": "e", "parties": 1})

    with_replicas(play)


def test_the_death_of_a_replica_is_told_to_those_who_wait_and_the_others_play_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicas, "OPENING_S", 0.05)

    async def play(hub: RoutingHub, handles: list[Handle]) -> None:
        sessions = {home(session): session for session in [await hello(hub) for _ in range(3)]}
        for session in sessions.values():
            await hub.answer("start", {"session": session, "episode": "e"})
        dying = handles[1].replica
        assert dying is not None
        dying.hub.stage.held = True
        asked = asyncio.ensure_future(hub.answer("act", wire(sessions["1"], 0)))
        while not dying.hub.counters.pending:
            await asyncio.sleep(0)
        dying.die()
        handles[1].replica = None
        waiting = await refusal(asked)
        # While there is no other one, nobody hangs; when there is, it does not know the session.
        meanwhile = await refusal(hub.answer("act", wire(sessions["1"], 0)))
        for told in (waiting, meanwhile):
            assert (told.code, told.status, told.retry_after) == ("unreachable", 503, 1.0)
        assert (await hub.answer("act", wire(sessions["2"], 0)))["actions"] == {"a": 1}
        handles[1].replica = OwnReplica()
        assert (await refusal(hub.answer("act", wire(sessions["1"], 0)))).code == "unknown_session"

    with_replicas(play)


def wire(session: str, t: int) -> dict[str, Any]:
    message = act(session, "e", t)
    del message["type"]
    return message


def test_a_replica_that_cannot_play_does_not_end_the_server() -> None:
    async def play(hub: RoutingHub, handles: list[Handle]) -> None:
        sessions = {home(session): session for session in [await hello(hub) for _ in range(3)]}
        broken = handles[2].replica
        assert broken is not None
        broken.hub.fail(UserError("its loop ended"))
        told = await refusal(hub.answer("start", {"session": sessions["2"], "episode": "e"}))
        # `failed` would make the server's health fail.
        assert (told.code, told.status, told.retry_after) == ("unreachable", 503, 1.0)
        await hub.answer("start", {"session": sessions["1"], "episode": "e"})

    with_replicas(play)


def test_an_answer_that_cannot_be_passed_on_is_told_as_a_mistake() -> None:
    async def play(hub: RoutingHub, handles: list[Handle]) -> None:
        for handle in handles:
            assert handle.replica is not None
            handle.replica.hub.stage.version = 2**70
        with pytest.raises(Refused) as refused:
            await hello(hub)
        assert refused.value.code == "internal"

    with_replicas(play)
