"""A stage that a test plays by hand, and messages of a client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from marl.envs.external.contract import Contract, ExternalAgent
from marl.envs.external.steps import Answer, Step
from marl.serve.hub import Hub, Journal, Limits, OpenEpisode, Refused, Stage

BOX = {"type": "Box", "low": -5, "high": 5, "shape": [2], "dtype": "float32"}
TWO = {"type": "Discrete", "n": 2, "start": 0}


def agent(**keys: Any) -> ExternalAgent:
    return ExternalAgent(**{"observation_space": BOX, "action_space": TWO, **keys})


def contract(*names: str, state_size: int = 0, **keys: Any) -> Contract:
    return Contract({name: agent(**keys) for name in names or ("a",)}, state_size)


class HandStage(Stage):
    """Keeps what it is given; ``play`` answers all steps that have arrived, each by the sum of what is seen."""

    def __init__(self, given: Contract | None = None, at_once: bool = False, training: bool = True) -> None:
        self.contract = given
        self.at_once, self.training = at_once, training
        self.version = 0
        self.hub: Hub | None = None
        self.wanted: list[OpenEpisode] = []  # begun by clients, not yet by us
        self.playing: list[OpenEpisode] = []
        self.next_t: dict[str, int] = {}
        self.played: dict[str, list[Step]] = {}  # by episode's id, in the order in which they were taken

    def policies(self) -> list[dict[str, Any]]:
        return [{"policy": "by_hand", "algo": "none", "agents": [], "recurrent": False}]

    def begin(self, episode: OpenEpisode) -> None:
        self.wanted.append(episode)
        if self.at_once:
            self.begin_all()

    def arrived(self, episode: OpenEpisode) -> None:
        if self.at_once:
            self.play()

    def begin_all(self) -> None:
        while self.wanted:
            episode = self.wanted.pop(0)
            self.playing.append(episode)
            assert self.hub is not None
            self.hub.began(episode, len(self.playing), f"slot {len(self.playing)}")

    def play(self) -> None:
        for episode in list(self.playing):
            while self.play_one(episode):
                pass

    def play_one(self, episode: OpenEpisode) -> bool:
        t = self.next_t.get(episode.id, 0)
        step = episode.take(t)
        if step is None:
            return False
        assert step.t == t
        self.next_t[episode.id] = t + 1
        self.played.setdefault(episode.id, []).append(step)
        if step.ends:
            self.playing.remove(episode)
            return False
        assert self.hub is not None
        self.hub.answered(episode, step, Answer(chosen(step), self.version))
        return True


def chosen(step: Step) -> dict[str, int]:
    """An action that shows which observation it answers."""
    actions = {}
    for name, report in step.agents.items():
        asked = report.obs is not None and not (report.terminated or report.truncated)
        if asked:
            seen = report.obs["observation"] if isinstance(report.obs, dict) else report.obs
            actions[name] = round(float(seen.sum()) * 10) % 2
    return actions


def new_hub(
    given: Contract | None = None,
    *,
    at_once: bool = True,
    journal: Journal | None = None,
    training: bool = True,
    clock: Any = None,
    **limits: Any,
) -> tuple[Hub, HandStage]:
    stage = HandStage(given if given is not None else contract(), at_once, training)
    more = {} if clock is None else {"clock": clock}
    hub = stage.hub = Hub(stage, Limits(**limits), journal, **more)
    return hub, stage


class Client:
    """One session: sends messages and remembers nothing but its id."""

    def __init__(self, hub: Hub, **hello: Any) -> None:
        self.hub = hub
        self.hello = {"protocol": "marl/1", **hello}
        self.session = ""

    async def connect(self) -> dict[str, Any]:
        welcome = await self.hub.answer("hello", self.hello)
        self.session = welcome["session"]
        return welcome

    async def connect_again(self) -> dict[str, Any]:
        return await self.hub.answer("hello", {"protocol": "marl/1", "session": self.session})

    async def start(self, episode: str | None = "e", **keys: Any) -> dict[str, Any]:
        return await self.hub.answer("start", {"session": self.session, "episode": episode, **keys})

    async def send(
        self, kind: str, t: int, agents: Mapping[str, Any] | None = None, episode: str = "e", **keys: Any
    ) -> Any:
        message = {"session": self.session, "episode": episode, "t": t, **keys}
        if agents is not None:
            message["agents"] = agents
        return await self.hub.answer(kind, message)

    async def act(
        self, t: int, seen: float = 0.0, name: str = "a", episode: str = "e", **report: Any
    ) -> dict[str, Any]:
        return await self.send("act", t, {name: {"obs": [seen, 0.0], **report}}, episode)


async def connected(hub: Hub, **hello: Any) -> Client:
    client = Client(hub, **hello)
    await client.connect()
    return client


async def refusal(waiting: Any) -> Refused:
    """What a message is refused with."""
    try:
        got = await waiting
    except Refused as refused:
        return refused
    raise AssertionError(f"it was answered: {got}")


async def settled() -> None:
    """Everything that can happen now has happened."""
    for _ in range(5):
        await asyncio.sleep(0)
