"""How episodes and servers end: limits, silence, failures, and what clients are told of them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from marl.envs.external.steps import Answer
from marl.serve.hub import Refused
from tests.serve.by_hand import HandStage, agent, connected, contract, new_hub, refusal, settled


def run(test: Any) -> Any:
    return asyncio.run(test)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


# -- limits and ends -----------------------------------------------------------------------------------------------


def test_too_much_is_refused_with_the_time_to_come_again() -> None:
    async def play() -> None:
        clock = Clock()
        hub, stage = new_hub(at_once=False, clock=clock, max_sessions=2, max_episodes=3, max_pending=2, max_rate=10)
        client = await connected(hub)
        await connected(hub)
        many = await refusal(connected(hub))
        assert (many.code, many.status) == ("too_many", 429)
        assert many.to_json()["error"]["retry_after"] > 0
        starts = [asyncio.create_task(client.start(name)) for name in ("e", "f")]
        await settled()
        pending = await refusal(client.start("g"))
        assert "wait for their answer" in str(pending)
        stage.begin_all()
        await asyncio.gather(*starts)
        third = asyncio.create_task(client.start("g"))
        await settled()
        assert "open episodes" in str(await refusal(client.start("h")))
        stage.begin_all()
        await third
        for _ in range(5):
            await refusal(client.act(9))
        rate = await refusal(client.act(0))
        assert rate.status == 429
        clock.now += rate.retry_after
        waiting = asyncio.create_task(client.act(0))
        await settled()
        stage.play()
        await waiting
        assert hub.counters.refused["too_many"] == 4

    run(play())


def test_a_silent_episode_ends_and_its_player_is_told() -> None:
    async def play() -> None:
        clock = Clock()
        hub, stage = new_hub(clock=clock, episode_timeout_s=10, session_timeout_s=100)
        client = await connected(hub)
        await client.start()
        await client.act(0)
        clock.now = 9
        hub.sweep()
        assert hub.counters.open == 1
        clock.now = 11
        hub.sweep()
        assert (hub.counters.open, hub.counters.abandoned) == (0, 1)
        steps = next(iter(stage.played.values()))
        assert [step.ends for step in steps] == [False, True]
        assert steps[1].agents == {}
        refused = await refusal(client.act(1))
        assert (refused.code, refused.status) == ("ended", 410)
        assert "silent" in str(refused)
        clock.now = 112
        hub.sweep()
        assert hub.counters.sessions == 0
        assert (await refusal(client.act(1))).code == "unknown_session"

    run(play())


def test_an_episode_that_waits_for_its_player_is_not_silent() -> None:
    async def play() -> None:
        clock = Clock()
        hub, stage = new_hub(at_once=False, clock=clock, episode_timeout_s=10)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        clock.now = 50
        hub.sweep()
        stage.begin_all()
        await started
        act = asyncio.create_task(client.act(0))
        await settled()
        clock.now = 100
        hub.sweep()
        stage.play()
        assert (await act)["t"] == 0
        hub.sweep()
        assert hub.counters.abandoned == 0

    run(play())


def test_a_server_that_stops_answers_everybody_who_waits() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        waiting = [asyncio.create_task(client.act(0)), asyncio.create_task(client.start("f"))]
        await settled()
        hub.close("it was told to")
        for task in waiting:
            refused = await refusal(task)
            assert (refused.code, refused.status) == ("closing", 503)
        assert (await refusal(connected(hub))).code == "closing"

    run(play())


def test_a_player_that_dies_leaves_nobody_waiting() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        waiting = asyncio.create_task(client.act(0))
        await settled()
        dying = threading.Thread(target=hub.fail, args=(ZeroDivisionError("in the net"),))
        dying.start()
        refused = await asyncio.wait_for(refusal(waiting), 5)
        dying.join()
        assert (refused.code, refused.status) == ("failed", 500)
        assert "ZeroDivisionError: in the net" in str(refused)
        assert (await refusal(client.act(0))).code == "failed"

    run(play())


class BrokenStage(HandStage):
    def arrived(self, episode: Any) -> None:
        raise ZeroDivisionError("in the stage")


def test_a_stage_that_fails_in_the_networks_thread_is_told_to_all() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        stage = BrokenStage(contract(), at_once=True)
        hub.desk.stage, stage.hub = stage, hub
        client = await connected(hub)
        await client.start()
        assert (await refusal(client.act(0))).code == "failed"
        assert (await refusal(client.start("f"))).code == "failed"

    run(play())


def test_answers_from_another_thread_reach_all_who_wait() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        starts = [asyncio.create_task(client.start(f"e{i}")) for i in range(20)]
        await settled()
        stage.begin_all()
        await asyncio.gather(*starts)
        for t in range(10):
            acts = [asyncio.create_task(client.act(t, 0.1, episode=f"e{i}")) for i in range(20)]
            await settled()
            thread = threading.Thread(target=stage.play)
            thread.start()
            answers = await asyncio.wait_for(asyncio.gather(*acts), 10)
            thread.join()
            assert [answer["t"] for answer in answers] == [t] * 20
        assert hub.counters.lost == 0
        assert hub.desk.delivery.waiting == 0

    run(play())


def test_details_come_on_request_as_plain_values() -> None:
    async def play() -> None:
        import numpy as np

        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        waiting = asyncio.create_task(client.send("act", 0, {"a": {"obs": [0, 0]}}, want=["probabilities"]))
        await settled()
        step = stage.playing[0].take(0)
        assert step.wanted == {"probabilities"}
        details = {"a": {"probabilities": np.array([0.25, 0.75]), "value": np.float32(1.5)}}
        hub.answered(stage.playing[0], step, Answer({"a": 1}, 2, details))
        assert (await waiting)["details"] == {"a": {"probabilities": [0.25, 0.75], "value": 1.5}}

    run(play())


def test_a_refusal_is_told_with_all_that_a_program_needs() -> None:
    told = Refused("too_many", "come later.", 429, retry_after=0.25, where={"t": 3}, expected=2).to_json()
    assert told == {"error": {"code": "too_many", "message": "come later.", "retry_after": 0.25, "t": 3, "expected": 2}}


def test_agents_of_the_contract_are_told_in_hello() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        welcome = await (await connected(hub)).connect()
        assert welcome["agents"] == {"a": agent().model_dump(exclude_none=True)}
        assert welcome["limits"]["max_episodes"] == 256
        assert welcome["training"] is True

    run(play())


def test_an_episode_that_cannot_be_played_on_is_given_up_and_others_go_on() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        starts = [asyncio.create_task(client.start(name)) for name in ("e", "f")]
        await settled()
        stage.begin_all()
        await asyncio.gather(*starts)
        acts = [asyncio.create_task(client.act(0, episode=name)) for name in ("e", "f")]
        await settled()
        broken = stage.playing.pop(0)
        hub.failed(broken, ValueError("no such move"))
        hub.failed(broken, ValueError("again"))
        stage.play()
        assert (await refusal(acts[0])).code == "episode_failed"
        assert (await acts[1])["t"] == 0
        again = await refusal(client.act(0))
        assert (again.code, "no such move" in str(again)) == ("ended", True)
        counters = hub.counters
        assert (counters.accepted, counters.answered, counters.dropped, counters.pending) == (2, 1, 1, 0)
        assert (counters.lost, counters.abandoned, counters.open) == (0, 1, 1)

    run(play())


def test_an_episode_that_its_player_leaves_is_told_to_its_client_as_ended() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        waiting = asyncio.create_task(client.act(0))
        await settled()
        [episode] = stage.playing
        hub.left(episode, episode.take(0), "it was long enough")
        told = {"episode": "e", "t": 0, "returns": {"a": 0.0}, "length": 0, "ended": True, "actions": {}}
        assert await waiting == told
        assert await client.act(0) == told
        assert "long enough" in str(await refusal(client.act(1)))
        assert (hub.counters.ended, hub.counters.open, hub.counters.lost) == (1, 0, 0)

    run(play())
