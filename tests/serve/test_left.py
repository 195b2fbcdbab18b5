"""An episode that the player ends by itself, at a horizon: its client is told once, and is told the same after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from marl.serve.hub import Hub, Journal, Limits
from tests.serve.instant import OBS, InstantStage


class HoldingStage(InstantStage):
    """Keeps every step, for the test to answer."""

    def arrived(self, episode: Any) -> None:
        self.waiting.append(episode)


def hub_on(folder: Path) -> tuple[Hub, HoldingStage]:
    stage = HoldingStage()
    hub = Hub(stage, Limits(), Journal(folder))
    stage.hub = hub
    hub.recover()
    return hub, stage


async def left(folder: Path) -> tuple[dict[str, Any], dict[str, Any], Hub]:
    hub, stage = hub_on(folder)
    session = (await hub.answer("hello", {"protocol": "marl/1", "name": "me"}))["session"]
    await hub.answer("start", {"session": session, "episode": "e"})
    message = {"session": session, "episode": "e", "t": 0, "agents": {"a": {"obs": OBS}}}
    asked = asyncio.ensure_future(hub.answer("act", message))
    while not stage.waiting:
        await asyncio.sleep(0.001)
    episode = stage.waiting[0]
    step = episode.take(0)
    hub.left(episode, step, "the run has cut it off")
    return await asked, message, hub


def test_a_client_is_told_that_its_episode_was_ended_and_nothing_is_lost(tmp_path: Path) -> None:
    answer, _, hub = asyncio.run(left(tmp_path))
    assert answer["ended"] is True
    assert answer["actions"] == {}
    assert (hub.counters.lost, hub.counters.pending, hub.counters.open) == (0, 0, 0)


def test_after_a_restart_it_is_still_over_and_the_same_answer_is_given(tmp_path: Path) -> None:
    answer, message, before = asyncio.run(left(tmp_path))
    before.journal.close()

    async def again() -> tuple[Any, dict[str, Any]]:
        hub, _ = hub_on(tmp_path)
        welcome = await hub.answer("hello", {"protocol": "marl/1", "name": "me"})
        return welcome["open"], await hub.answer("act", message)

    opened, repeated = asyncio.run(again())
    assert opened == []
    assert repeated == answer
