"""What the hub refuses: sessions, contracts, agents and values that do not fit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from marl.envs.external.steps import Answer
from tests.serve.by_hand import BOX, TWO, connected, contract, new_hub, refusal, settled


def run(test: Any) -> Any:
    return asyncio.run(test)


# -- sessions ------------------------------------------------------------------------------------------------------


def test_the_session_of_another_looks_like_none() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        mine, other = await connected(hub), await connected(hub)
        assert mine.session != other.session
        assert len(mine.session) == 32
        await mine.start()
        assert (await refusal(other.act(0))).code == "unknown_episode"
        await other.start()  # the same name is another episode
        for bad in ("0" * 32, "", None, 3, [mine.session], {"a": 1}):
            refused = await refusal(hub.answer("act", {"session": bad, "episode": "e", "t": 0, "agents": {}}))
            assert (refused.code, refused.status) == ("unknown_session", 404)
        assert (
            await refusal(hub.answer("hello", {"protocol": "marl/1", "session": "0" * 32}))
        ).code == "unknown_session"

    run(play())


def test_a_client_that_was_killed_finds_its_session_and_its_episodes_again() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        client = await connected(hub, name="robot 3")
        await client.start()
        await client.start("over")
        await client.send("end", 0, episode="over")
        for t in range(4):
            await client.act(t, t / 10)
        welcome = await (again := await connected(hub, name="robot 3")).connect()
        assert again.session == client.session
        [running] = welcome["open"]
        assert running["episode"] == "e"
        assert (running["t"], running["seed"], running["begun"]) == (4, 1, True)
        assert running["actions"] == [{"a": 0}, {"a": 1}, {"a": 0}, {"a": 1}]
        assert (await again.act(4))["t"] == 4
        by_id = await connected(hub, session=client.session)
        assert by_id.session == client.session

    run(play())


def test_a_contract_is_what_the_first_client_says_where_the_server_has_none() -> None:
    async def play() -> None:
        hub, stage = new_hub()
        stage.contract = None
        assert (await refusal(connected(hub))).code == "contract"
        huge = {"type": "Box", "low": 0, "high": 1, "shape": [10_000_000_000], "dtype": "float32"}
        said = {"a": {"observation_space": huge, "action_space": TWO}}
        assert (await refusal(connected(hub, agents=said))).where["key"] == "observation_space"
        said = {"a": {"observation_space": BOX, "action_space": {"type": "Discrete"}}}
        assert (await refusal(connected(hub, agents=said))).where == {"agent": "a", "key": "action_space"}
        said = {"a": {"observation_space": BOX, "action_space": TWO}}
        client = await connected(hub, agents=said, state_size=2)
        assert stage.contract.state_size == 2
        assert (await client.connect())["agents"]["a"]["observation_space"] == BOX

    run(play())


@pytest.mark.parametrize(
    ("hello", "where"),
    [
        ({"agents": {"z": {}}}, {"agent": "z"}),
        (
            {"agents": {"a": {"action_space": {"type": "Discrete", "n": 3, "start": 0}}}},
            {"agent": "a", "key": "action_space"},
        ),
        ({"agents": {"a": {"observation_space": {**BOX, "high": 6}}}}, {"agent": "a", "key": "observation_space"}),
        (
            {"agents": {"a": {"observation_space": {**BOX, "shape": [10**12]}}}},
            {"agent": "a", "key": "observation_space"},
        ),
        ({"agents": {"a": {"observation_space": 3}}}, {"agent": "a", "key": "observation_space"}),
        ({"agents": {"a": {"action_mask": True}}}, {"agent": "a", "key": "action_mask"}),
        ({"agents": {"a": {"max": 3}}}, {"agent": "a", "key": "max"}),
        ({"state_size": 3}, {"key": "state_size"}),
    ],
)
def test_spaces_that_do_not_fit_are_refused_by_name(hello: dict[str, Any], where: dict[str, Any]) -> None:
    async def play() -> None:
        hub, _ = new_hub()
        refused = await refusal(connected(hub, **hello))
        assert (refused.code, refused.status) == ("contract", 409)
        assert refused.where == where
        assert refused.expected is not None
        assert len(hub.desk.sessions) == 0

    run(play())


def test_a_client_may_play_a_part_of_the_agents_and_only_these() -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("a", "b"))
        client = await connected(hub, agents={"a": {"observation_space": BOX, "action_space": TWO}})
        await client.start()
        assert (await refusal(client.act(0, name="b"))).where == {"agent": "b", "t": 0}
        assert (await client.act(0))["actions"] == {"a": 0}
        spelled = {**BOX, "low": -5.0, "high": [5.0, 5.0]}  # the same space in other words
        await connected(hub, agents={"b": {"observation_space": spelled}})

    run(play())


@pytest.mark.parametrize("hello", [{"protocol": "marl/2"}, {"protocol": None}, {"mode": "both"}, {"mode": []}, {"name": 3}, {"nmae": "x"}, {"agents": []}, {"agents": {"a": 3}}, {"agents": {"a": {"obs": 1}}}, {"name": "x" * 300}])  # fmt: skip
def test_a_hello_that_is_none_is_refused(hello: dict[str, Any]) -> None:
    async def play() -> None:
        hub, _ = new_hub()
        refused = await refusal(connected(hub, **hello))
        assert refused.status == 400
        assert refused.to_json()["error"]["code"] in ("bad_message", "protocol")

    run(play())


# -- what agents may do --------------------------------------------------------------------------------------------


def test_agents_come_leave_and_come_back_and_actions_are_for_those_who_are_asked() -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("a", "b"))
        client = await connected(hub)
        await client.start()
        seen = {"obs": [0.1, 0.0]}
        assert (await client.send("act", 0, {"a": seen}))["actions"] == {"a": 1}
        assert (await client.send("act", 1, {"a": {"reward": 1}, "b": seen}))["actions"] == {"b": 1}
        last = {**seen, "terminated": True, "reward": -1}
        assert (await client.send("act", 2, {"a": last, "b": seen}))["actions"] == {"b": 1}
        assert (await client.send("act", 3, {"a": seen}))["actions"] == {"a": 1}
        ended = await client.send("end", 4, {"b": {"reward": 0.5}})
        assert ended["returns"] == {"a": 0.0, "b": 0.5}

    run(play())


def test_more_agents_than_seats_are_refused_and_a_seat_is_free_one_step_after_its_end() -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("car_*", max=2))
        client = await connected(hub)
        await client.start()
        seen = {"obs": [0.1, 0.0]}
        await client.send("act", 0, {"car_1": seen, "car_2": seen})
        swap = {"car_1": {"terminated": True}, "car_2": seen, "car_3": seen}
        refused = await refusal(client.send("act", 1, swap))
        assert (refused.code, refused.where) == ("too_many_agents", {"agent": "car_3", "t": 1})
        await client.send("act", 1, {"car_1": {"terminated": True}, "car_2": seen})
        assert (await client.send("act", 2, {"car_2": seen, "car_3": seen}))["actions"] == {"car_2": 1, "car_3": 1}
        for bad in ("car_", "car_*", "bus_1", "__all__"):
            assert (await refusal(client.send("act", 3, {bad: seen}))).code == "unknown_agent"

    run(play())


def test_a_world_in_which_nobody_lives_is_refused_before_the_env_behind_it_fails() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        client = await connected(hub)
        await client.start()
        await client.act(0)
        await client.send("act", 1, {"a": {"terminated": True}})
        for t in range(2, 1000):
            await client.send("act", t, {})
        assert (await refusal(client.send("act", 1000, {}))).code == "nobody_alive"
        assert (await client.act(1000))["actions"] == {"a": 0}  # somebody came back

    run(play())


@pytest.mark.parametrize(
    ("report", "key"),
    [
        ({"obs": [0, float("nan")]}, "obs[1]"),
        ({"obs": [0, 9]}, "obs[1]"),
        ({"obs": [0]}, "obs"),
        ({"obs": [0, 0], "reward": float("inf")}, "reward"),
        ({"obs": [0, 0], "reward": 1e39}, "reward"),
        ({"obs": [0, 0], "reward": "1"}, "reward"),
        ({"obs": [0, 0], "reward": True}, "reward"),
        ({"obs": [0, 0], "terminated": 1}, "terminated"),
        ({"obs": [0, 0], "truncated": "no"}, "truncated"),
        ({"obs": [0, 0], "info": []}, "info"),
        ({"obs": [0, 0], "info": {"action_mask": [1, 1]}}, "info"),
        ({"obs": [0, 0], "info": {"x": float("nan")}}, "info"),
        ({"obs": [0, 0], "info": {"x": b"bytes"}}, "info"),
        ({"obs": [0, 0], "action_mask": [1, 1]}, "action_mask"),
        ({"obs": [0, 0], "observation": 1}, "'observation'"),
    ],
)
def test_a_bad_value_is_refused_by_agent_t_and_key_and_counts_nothing(report: dict[str, Any], key: str) -> None:
    async def play() -> None:
        hub, stage = new_hub()
        client = await connected(hub)
        await client.start()
        await client.act(0)
        refused = await refusal(client.send("act", 1, {"a": report}))
        assert refused.where == {"agent": "a", "t": 1, "key": key}
        assert refused.status == 400
        assert len(next(iter(stage.played.values()))) == 1
        assert (await client.act(1))["t"] == 1

    run(play())


def test_rewards_and_flags_of_the_first_step_are_refused() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        client = await connected(hub)
        await client.start()
        for early in ({"reward": 1}, {"terminated": True}, {"truncated": True}):
            assert (await refusal(client.act(0, **early))).where == {"agent": "a", "t": 0}
        await client.act(0, reward=0, terminated=False)

    run(play())


def deep(levels: int) -> Any:
    return [] if levels == 0 else [deep(levels - 1)]


@pytest.mark.parametrize(
    "message",
    [
        {"agents": None},
        {"agents": []},
        {"agents": {"a": []}},
        {"agents": {"a": {}, "b": {}}},
        {"agents": {3: {}}},
        {"agents": {"a": {"info": {"x": deep(20)}}}},
        {"t": -1}, {"t": True}, {"t": 1.0}, {"t": "1"}, {"t": None}, {"t": 10**30},
        {"episode": None}, {"episode": ["e"]},
        {"state": [1.0]}, {"want": "value"}, {"want": ["everything"]}, {"want": [["value"]]}, {"actions": {"a": 1}}, {"extra": 1},
    ],
)  # fmt: skip
def test_a_message_that_is_none_is_refused(message: dict[str, Any]) -> None:
    async def play() -> None:
        hub, _ = new_hub()
        client = await connected(hub)
        await client.start()
        good = {"session": client.session, "episode": "e", "t": 0, "agents": {"a": {"obs": [0, 0]}}}
        refused = await refusal(hub.answer("act", {**good, **message}))
        assert refused.status in (400, 404, 409)
        assert (await hub.answer("act", good))["actions"] == {"a": 0}

    run(play())


def test_what_is_no_message_at_all_is_refused() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        for kind, message in (("act", []), ("act", None), ("dance", {}), (None, {}), ([], {})):
            assert (await refusal(hub.answer(kind, message))).code == "bad_message"

    run(play())


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"actions": {}},
        {"actions": {"a": 1, "b": 1}},
        {"actions": {"a": 2}},
        {"actions": {"a": True}},
        {"actions": {"a": 1}, "logp": {"b": 0.0}},
        {"actions": {"a": 1}, "logp": {"a": float("nan")}},
        {"actions": {"a": 1}, "logp": 0.5},
        {"actions": {"a": 1}, "version": -1},
    ],
)
def test_a_log_has_actions_for_exactly_those_who_are_asked(keys: dict[str, Any]) -> None:
    async def play() -> None:
        hub, _ = new_hub(contract("a", "b"))
        client = await connected(hub)
        await client.start()
        seen = {"a": {"obs": [0, 0]}}
        assert (await refusal(client.send("log", 0, seen, **keys))).status == 400
        await client.send("log", 0, seen, actions={"a": 1})

    run(play())


def test_masks_stand_beside_the_observation_and_allow_something() -> None:
    async def play() -> None:
        given = contract("a", action_mask=True, action_space={"type": "Discrete", "n": 3, "start": 4})
        hub, stage = new_hub(given, at_once=False)
        client = await connected(hub)
        started = asyncio.create_task(client.start())
        await settled()
        stage.begin_all()
        await started
        for bad in (None, [0, 0, 0], [1, 1], [1, 1, 2], "111"):
            assert (await refusal(client.act(0, action_mask=bad))).where["key"].startswith("action_mask")
        seen = {"a": {"obs": [0, 0], "action_mask": [True, 0, 1]}}
        refused = await refusal(client.send("log", 0, seen, actions={"a": 5}))
        assert refused.where["key"] == "actions"
        waiting = asyncio.create_task(client.send("log", 0, seen, actions={"a": 6}))
        await settled()
        step = stage.playing[0].take(0)
        assert step.agents["a"].obs["action_mask"].tolist() == [1, 0, 1]
        assert step.agents["a"].obs["observation"].tolist() == [0, 0]
        hub.answered(stage.playing[0], step, Answer({}))
        await waiting
        await client.send("end", 1, {"a": {"obs": [0, 0], "terminated": True}})  # an agent that ended needs no mask
        assert given.observation_space("a").contains(stage.playing[0].take(1).agents["a"].obs)

    run(play())


def test_the_global_state_comes_with_every_step() -> None:
    async def play() -> None:
        hub, stage = new_hub(contract("a", state_size=3))
        client = await connected(hub)
        await client.start()
        seen = {"a": {"obs": [0, 0]}}
        for bad in (None, [1, 2], [1, 2, float("nan")], [1, 2, 1e39], "abc"):
            assert (await refusal(client.send("act", 0, seen, state=bad))).where["key"].startswith("state")
        await client.send("act", 0, seen, state=[1, 2, 3.5])
        assert next(iter(stage.played.values()))[0].state.tolist() == [1, 2, 3.5]

    run(play())
