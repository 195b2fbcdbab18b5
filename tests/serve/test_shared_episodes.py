"""Episodes of several parties: clients in different processes that play agents of one world."""

from __future__ import annotations

import asyncio
from typing import Any

from marl.serve.hub import Hub
from tests.serve.by_hand import BOX, TWO, Client, connected, contract, new_hub, refusal, settled

SPACES = {"observation_space": BOX, "action_space": TWO}


async def two_parties(hub: Hub) -> tuple[Client, Client]:
    one = await connected(hub, agents={"a": SPACES})
    two = await connected(hub, agents={"b": SPACES})
    return one, two


async def begun(hub: Hub) -> tuple[Client, Client]:
    one, two = await two_parties(hub)
    await asyncio.gather(one.start(parties=2), two.start(parties=2))
    return one, two


def test_a_shared_episode_begins_when_all_parties_are_there() -> None:
    async def play() -> None:
        hub, stage = new_hub(contract("a", "b"))
        one, two = await two_parties(hub)
        first = asyncio.create_task(one.start(parties=2))
        await settled()
        assert not first.done()
        assert not stage.playing
        second = await two.start(parties=2)
        assert await first == second
        assert second["seed"] == 1
        assert len(stage.playing) == 1

    asyncio.run(play())


def test_a_step_is_complete_when_all_parties_have_reported_it_and_each_gets_its_own_actions() -> None:
    async def play() -> None:
        hub, stage = new_hub(contract("a", "b"))
        one, two = await begun(hub)
        first = asyncio.create_task(one.act(0, 0.1, "a"))
        again = asyncio.create_task(one.act(0, 0.1, "a"))
        await settled()
        assert not stage.played
        answer = await two.act(0, 0.2, "b")
        assert answer["actions"] == {"b": 0}
        assert (await first)["actions"] == (await again)["actions"] == {"a": 1}
        [steps] = stage.played.values()
        assert steps[0].agents.keys() == {"a", "b"}
        assert hub.counters.accepted == 1
        assert (await one.connect_again())["open"][0]["actions"] == [{"a": 1}]

    asyncio.run(play())


def test_an_agent_of_another_party_is_refused() -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("a", "b"))
        one, two = await begun(hub)
        assert (await refusal(one.act(0, 0.1, "b"))).code == "unknown_agent"
        assert (await refusal(two.act(0, 0.1, "a"))).code == "unknown_agent"

    asyncio.run(play())


def test_a_party_cannot_run_ahead_of_the_others() -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("a", "b"))
        one, two = await begun(hub)
        waiting = asyncio.create_task(one.act(0, 0.1, "a"))
        await settled()
        assert (await refusal(one.act(1, 0.1, "a"))).expected == 0
        await two.act(0, 0.1, "b")
        await waiting

    asyncio.run(play())


def test_all_parties_end_an_episode_or_one_of_them_does() -> None:
    async def play() -> None:
        hub, stage = new_hub(contract("a", "b"))
        one, two = await begun(hub)
        await asyncio.gather(one.act(0, 0.1, "a"), two.act(0, 0.1, "b"))
        waiting = asyncio.create_task(one.act(1, 0.3, "a", reward=2))
        await settled()
        end = await two.send("end", 1, {"b": {"reward": 3}})
        assert end == {"episode": "e", "t": 1, "returns": {"b": 3.0}, "length": 1}
        told = {"episode": "e", "t": 1, "returns": {"a": 2.0}, "length": 1, "ended": True, "actions": {}}
        assert await waiting == told
        assert await one.act(1, 0.3, "a", reward=2) == told
        assert (await refusal(one.send("end", 2))).code == "ended"
        [steps] = stage.played.values()
        assert steps[1].ends
        assert steps[1].agents["a"].reward == 2

    asyncio.run(play())


def test_parties_that_play_the_same_agents_are_refused() -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("a", "b", "car_*", max=3))
        claims: list[tuple[Any, Any]] = [
            ({"a": SPACES}, {"a": SPACES, "b": SPACES}),
            ({"a": SPACES}, None),
            (None, {"a": SPACES}),
            ({"car_*": SPACES}, {"car_1": SPACES}),
            ({"car_1": SPACES}, {"car_*": SPACES}),
        ]
        for i, (mine, theirs) in enumerate(claims):
            one, two = await connected(hub, agents=mine), await connected(hub, agents=theirs)
            waiting = asyncio.create_task(one.start(f"e{i}", parties=2))
            await settled()
            assert (await refusal(two.start(f"e{i}", parties=2))).code == "conflict"
            waiting.cancel()

    asyncio.run(play())


def test_a_third_party_other_values_and_an_id_that_is_over_are_refused() -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("a", "b", "c"))
        one, two = await begun(hub)
        three = await connected(hub, agents={"c": SPACES})
        assert (await refusal(three.start(parties=2))).code == "conflict"
        assert (await refusal(three.start(parties=3))).code == "conflict"
        await three.start()  # its own episode of the same name
        await asyncio.gather(one.send("end", 0), two.send("end", 0))
        four = await connected(hub, agents={"c": SPACES})
        assert (await refusal(four.start(parties=2))).code == "ended"
        assert (await refusal(four.start(parties=1000))).code == "bad_message"

    asyncio.run(play())


def test_a_party_that_never_comes_or_goes_away_ends_the_wait_of_the_others() -> None:
    async def play() -> None:
        now = 0.0
        hub, stage = new_hub(contract("a", "b"), clock=lambda: now, episode_timeout_s=10)
        one, two = await begun(hub)
        alone = asyncio.create_task(one.start("alone", parties=2))
        acting = asyncio.create_task(one.act(0, 0.1, "a"))
        await settled()
        now = 11.0
        hub.sweep()
        assert (await refusal(alone)).code == "ended"
        assert (await refusal(acting)).code == "ended"
        assert (await refusal(two.act(0, 0.1, "b"))).code == "ended"
        [steps] = stage.played.values()
        assert [(step.ends, step.agents) for step in steps] == [(True, {})]
        assert (hub.counters.abandoned, hub.counters.open, hub.counters.lost) == (2, 0, 0)

    asyncio.run(play())


def test_one_party_may_act_itself_while_another_asks() -> None:
    async def play() -> None:
        hub, stage = new_hub(contract("a", "b"))
        one, two = await begun(hub)
        seen = {"a": {"obs": [0.1, 0.0]}}
        logged, asked = await asyncio.gather(one.send("log", 0, seen, actions={"a": 0}), two.act(0, 0.1, "b"))
        assert logged == {"episode": "e", "t": 0, "version": 0}
        assert asked["actions"] == {"b": 1}
        [steps] = stage.played.values()
        assert steps[0].own.keys() == {"a"}

    asyncio.run(play())


def test_one_of_the_parties_sends_the_global_state() -> None:
    async def play() -> None:
        hub, stage = new_hub(contract("a", "b", state_size=1))
        one, two = await begun(hub)
        seen = {"b": {"obs": [0.1, 0.0]}}
        waiting = asyncio.create_task(one.act(0, 0.1, "a"))
        await settled()
        assert (await refusal(two.send("act", 0, seen))).where["key"] == "state"
        await two.send("act", 0, seen, state=[4])
        await waiting
        [steps] = stage.played.values()
        assert steps[0].state.tolist() == [4]

    asyncio.run(play())
