"""The hub in one process: sessions, order, exactly once, what is refused, limits, and ends of all kinds."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from marl.envs.external.steps import Answer
from marl.serve.hub import Refused
from tests.serve.by_hand import BOX, TWO, HandStage, agent, connected, contract, new_hub, refusal, settled


def run(test: Any) -> Any:
    return asyncio.run(test)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


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
