"""A stage that answers at once, and a server in front of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from marl.envs.external.contract import Contract, ExternalAgent
from marl.envs.external.steps import Answer
from marl.serve.config import ServerConfig
from marl.serve.hub import Hub, Limits, OpenEpisode
from marl.serve.server import Server

BOX = {"type": "Box", "low": -10.0, "high": 10.0, "shape": [4], "dtype": "float32"}
TWO = {"type": "Discrete", "n": 2, "start": 0}
OBS = [0.5, -0.25, 0.0, 1.0]


def small_contract() -> Contract:
    agent = ExternalAgent(observation_space=BOX, action_space=TWO)
    cars = ExternalAgent(observation_space=BOX, action_space=TWO, max=3)
    return Contract({"a": agent, "car_*": cars})


PATIENCE_S = 60.0  # tests share a machine with others, and none of them is about time


class InstantStage:
    """Every agent that is asked does 1, as soon as it is asked; ``held`` keeps answers back."""

    version = 3
    training = False
    lock_step = False
    no_log = ""
    own_needs: tuple[str, ...] = ()
    own_why = ""

    def __init__(self) -> None:
        self.contract: Contract | None = small_contract()
        self.hub: Hub | None = None
        self.held = False
        self.waiting: list[OpenEpisode] = []

    def agree(self, contract: Contract) -> None:
        self.contract = contract

    def policies(self) -> list[dict[str, Any]]:
        return [
            {
                "policy": "all",
                "algo": "ppo",
                "agents": [],
                "observation_space": BOX,
                "action_space": TWO,
                "recurrent": False,
            }
        ]

    def begin(self, episode: OpenEpisode) -> None:
        assert self.hub is not None
        self.hub.began(episode, 7, "slot_0")

    def arrived(self, episode: OpenEpisode) -> None:
        if self.held:
            self.waiting.append(episode)
        else:
            self.play(episode)

    def play(self, episode: OpenEpisode) -> None:
        assert self.hub is not None
        while episode.inbox:
            step = episode.inbox.popleft()
            if not step.ends:
                asked = [agent for agent, report in step.agents.items() if report.obs is not None]
                self.hub.answered(episode, step, Answer(dict.fromkeys(asked, 1), self.version))

    def release(self) -> None:
        self.held = False
        while self.waiting:
            self.play(self.waiting.pop(0))


def instant_hub(stage: InstantStage | None = None, **limits: Any) -> Hub:
    stage = stage or InstantStage()
    hub = Hub(stage, Limits(**limits))
    stage.hub = hub
    return hub


@contextmanager
def serving(hub: Hub | None = None, **config: Any) -> Iterator[Server]:
    server = Server(hub or instant_hub(), ServerConfig(**{"port": 0, **config}))
    server.start()
    try:
        yield server
    finally:
        server.stop(0.2)


@contextmanager
def socket_of(server: Server, **options: Any) -> Iterator[ClientConnection]:
    url = server.url.replace("http", "ws", 1) + "/v1/session"
    with connect(url, compression=None, proxy=None, **{"open_timeout": PATIENCE_S, **options}) as socket:
        yield socket


def ask(socket: ClientConnection, **message: Any) -> dict[str, Any]:
    socket.send(json.dumps(message))
    answer: dict[str, Any] = json.loads(socket.recv())
    return answer


def greeted(socket: ClientConnection, **more: Any) -> str:
    return str(ask(socket, type="hello", protocol="marl/1", **more)["session"])


def act(session: str, episode: str, t: int, **more: Any) -> dict[str, Any]:
    report: dict[str, Any] = {"obs": OBS}
    if t > 0:
        report["reward"] = 1.0
    return {"type": "act", "session": session, "episode": episode, "t": t, "agents": {"a": report}, **more}
