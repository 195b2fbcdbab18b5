"""The hub in one process: an episode, and every step once and in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.serve.by_hand import connected, new_hub, refusal, settled


def run(test: Any) -> Any:
    return asyncio.run(test)


# -- an episode ----------------------------------------------------------------------------------------------------


def test_an_episode_from_hello_to_its_returns() -> None:
    async def play() -> None:
        hub, stage = new_hub()
        stage.version = 7
        client = await connected(hub)
        assert await client.start() == {"episode": "e", "seed": 1, "training": True, "version": 7}
        assert await client.act(0, 0.1) == {"episode": "e", "t": 0, "version": 7, "actions": {"a": 1}}
        assert await client.act(1, 0.2, reward=1.5) == {"episode": "e", "t": 1, "version": 7, "actions": {"a": 0}}
        ended = await client.send("end", 2, {"a": {"obs": [0.5, 0.0], "reward": 2, "truncated": True}})
        assert ended == {"episode": "e", "t": 2, "returns": {"a": 3.5}, "length": 2}
        steps = next(iter(stage.played.values()))
        assert [step.t for step in steps] == [0, 1, 2]
        assert [step.ends for step in steps] == [False, False, True]
        assert steps[1].agents["a"].reward == 1.5
        assert steps[2].agents["a"].truncated
        counters = hub.counters
        assert (counters.accepted, counters.answered, counters.pending, counters.lost) == (2, 2, 0, 0)
        assert (counters.begun, counters.ended, counters.open) == (1, 1, 0)

    run(play())


def test_an_episode_may_end_before_anybody_has_seen_anything() -> None:
    async def play() -> None:
        hub, stage = new_hub()
        client = await connected(hub)
        for name in ("one", "two"):
            await client.start(name)
            assert await client.send("end", 0, episode=name) == {"episode": name, "t": 0, "returns": {}, "length": 0}
        assert all([step.ends for step in steps] == [True] for steps in stage.played.values())

    run(play())


def test_what_a_client_does_itself_is_taken_ahead_of_its_answers() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        seen = {"a": {"obs": [0.1, 0.0]}}
        logs = [
            asyncio.create_task(client.send("log", t, seen, actions={"a": t % 2}, logp={"a": -0.5}, version=4))
            for t in range(3)
        ]
        await settled()
        stage.version = 9
        stage.play()
        assert [await log for log in logs] == [{"episode": "e", "t": t, "version": 9} for t in range(3)]
        steps = next(iter(stage.played.values()))
        assert [step.own["a"].action for step in steps] == [0, 1, 0]
        assert steps[0].own["a"].logp == -0.5
        assert steps[0].own_version == 4
        [running] = (await client.connect_again())["open"]
        assert running["actions"] == [{"a": 0}, {"a": 1}, {"a": 0}]

    run(play())


def test_what_cannot_be_learned_from_is_refused_in_training_alone() -> None:
    async def play() -> None:
        hub, stage = new_hub()
        stage.no_log = "ppo learns from its own actions alone. Use act, or dqn."
        client = await connected(hub)
        await client.start("learned")
        await client.start("played", training=False)
        seen = {"a": {"obs": [0, 0]}}
        refused = await refusal(client.send("log", 0, seen, "learned", actions={"a": 0}))
        assert (refused.code, refused.status) == ("not_learnable", 409)
        await client.send("log", 0, seen, "played", actions={"a": 0})

    run(play())


# -- exactly once --------------------------------------------------------------------------------------------------


def test_a_message_that_is_sent_again_gets_the_same_answer_and_counts_once() -> None:
    async def play() -> None:
        hub, stage = new_hub()
        client = await connected(hub)
        first = await client.start()
        assert await client.start() == first
        zero = await client.act(0, 0.1)
        stage.version = 5
        one = await client.act(1, 0.3, reward=1)
        for _ in range(3):
            assert await client.act(0, 0.1) == zero
            assert await client.act(1, 0.3, reward=1) == one
        end = await client.send("end", 2, {"a": {"reward": 1}})
        assert await client.send("end", 2, {"a": {"reward": 1}}) == end
        assert await client.act(1, 0.3, reward=1) == one
        assert await client.start() == first
        assert end["returns"] == {"a": 2}
        assert len(next(iter(stage.played.values()))) == 3
        assert hub.counters.repeated == 10
        assert hub.counters.accepted == 2

    run(play())


def test_a_message_that_is_sent_again_while_the_first_waits_gets_the_same_answer() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        starts = [asyncio.create_task(client.start()) for _ in range(3)]
        await settled()
        assert len(stage.wanted) == 1
        stage.begin_all()
        assert (await starts[0]) == (await starts[1]) == (await starts[2])
        acts = [asyncio.create_task(client.act(0, 0.1)) for _ in range(4)]
        await settled()
        acts[1].cancel()  # this one's connection was cut
        await settled()
        stage.play()
        answers = await asyncio.gather(*acts, return_exceptions=True)
        assert isinstance(answers.pop(1), asyncio.CancelledError)
        assert all(answer == {"episode": "e", "t": 0, "version": 0, "actions": {"a": 1}} for answer in answers)
        assert hub.counters.accepted == hub.counters.answered == 1

    run(play())


def test_a_step_that_is_sent_again_with_other_content_is_a_conflict() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        client = await connected(hub)
        await client.start()
        await client.act(0, 0.1)
        refused = await refusal(client.act(0, 0.2))
        assert (refused.code, refused.status, refused.expected) == ("conflict", 409, 1)
        assert (await refusal(client.send("end", 0, {"a": {"obs": [0.1, 0.0]}}))).code == "conflict"
        assert (await refusal(client.start(training=False))).code == "conflict"
        assert (await refusal(client.start(parties=2))).code == "conflict"

    run(play())


def test_a_gap_is_refused_with_what_was_expected() -> None:
    async def play() -> None:
        hub, stage = new_hub()
        client = await connected(hub)
        await client.start()
        refused = await refusal(client.act(1))
        assert (refused.code, refused.status, refused.expected) == ("out_of_order", 409, 0)
        await client.act(0)
        assert (await refusal(client.act(2))).expected == 1
        assert (await refusal(client.send("end", 5))).expected == 1
        assert hub.counters.gaps == 3
        assert len(next(iter(stage.played.values()))) == 1

    run(play())


def test_the_next_step_has_to_wait_for_the_action_of_the_one_before() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        assert (await refusal(client.act(0))).code == "out_of_order"
        stage.begin_all()
        await started
        act = asyncio.create_task(client.act(0))
        await settled()
        assert (await refusal(client.act(1))).expected == 0
        assert (await refusal(client.send("end", 1))).expected == 0
        stage.play()
        await act
        assert hub.counters.accepted == 1

    run(play())


def test_a_step_of_long_ago_cannot_be_sent_again_and_says_so() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        client = await connected(hub)
        await client.start()
        for t in range(1_101):
            await client.act(t)
        assert (await client.act(101))["t"] == 101
        assert (await refusal(client.act(50))).code == "too_old"

    run(play())


def test_an_id_that_was_used_does_not_begin_a_second_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.serve.desk.KEPT_EPISODES", 3)

    async def play() -> None:
        hub, stage = new_hub()
        client = await connected(hub)
        for i in range(6):
            await client.start(f"e{i}")
            await client.send("end", 0, episode=f"e{i}")
        assert (await refusal(client.start("e0"))).code == "ended"
        assert (await refusal(client.send("end", 0, episode="e0"))).code == "unknown_episode"
        assert (await client.send("end", 0, episode="e5"))["length"] == 0
        assert len(stage.played) == 6
        assert len(hub.desk.over) == 3
        assert len(hub.desk.sessions.by_id[client.session].episodes) == 3

    run(play())
