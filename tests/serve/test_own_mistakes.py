"""A mistake of the server's own with one message is the trouble of that message alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from marl.serve.step_reader import StepReader
from tests.serve.by_hand import HandStage, connected, contract, new_hub, refusal, settled
from tests.serve.instant import act, ask, greeted, instant_hub, serving, socket_of


def run(test: Any) -> Any:
    return asyncio.run(test)


def test_an_error_before_a_message_counts_refuses_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        hub, _ = new_hub()
        one, other = await connected(hub), await connected(hub)
        await one.start("e")
        await other.start("f")
        with monkeypatch.context() as broken:
            broken.setattr(StepReader, "read", _fails)
            told = await refusal(one.act(0))
        assert (told.code, told.status) == ("internal", 500)
        assert "secret" not in str(told)
        assert hub.counters.accepted == 0
        # It may be sent again, and nobody else has noticed.
        assert (await one.act(0))["t"] == 0
        assert (await other.act(0, episode="f"))["t"] == 0

    run(play())


def _fails(*_: Any) -> None:
    raise ZeroDivisionError("secret of the server")


def test_the_network_tells_of_it_and_health_stays_ok(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub = instant_hub()
    with serving(hub) as server, socket_of(server) as ws:
        session = greeted(ws)
        ask(ws, type="start", session=session, episode="e")
        with monkeypatch.context() as broken:
            broken.setattr(StepReader, "read", _fails)
            told = ask(ws, **act(session, "e", 0))["error"]
        assert told["code"] == "internal"
        assert "secret" not in told["message"]
        assert ask(ws, **act(session, "e", 0))["actions"] == {"a": 1}
        assert (server.health.status, server.front.measures.failures) == ("ok", 1)
    assert "secret of the server" in caplog.text


class NoPlaceStage(HandStage):
    def begin(self, episode: Any) -> None:
        raise ZeroDivisionError("in the stage")


def test_an_error_after_a_message_counts_is_told_to_all() -> None:
    async def play() -> None:
        hub, _ = new_hub()
        stage = NoPlaceStage(contract(), at_once=True)
        hub.desk.stage, stage.hub = stage, hub
        client = await connected(hub)
        assert (await refusal(client.start())).code == "failed"
        assert (await refusal(connected(hub))).code == "failed"

    run(play())


# -- what may be asked for -------------------------------------------------------------------------------------------


BOX = {"type": "Box", "low": -1.0, "high": 1.0, "shape": [2], "dtype": "float32"}
TWO = {"type": "Discrete", "n": 2, "start": 0}


def told(seen: Any = BOX, done: Any = TWO, **keys: Any) -> dict[str, Any]:
    return {"observation_space": seen, "action_space": done, **keys}


LARGE = {**BOX, "shape": [3_000, 3_000]}
FIRST_WORDS: dict[str, dict[str, Any]] = {
    "very many agents": {f"a{i}": told() for i in range(2_000)},
    "very many seats": {"car_*": told(max=10**9)},
    "many large spaces": {f"a{i}": told(LARGE) for i in range(20)},
    "many seats of a large space": {"car_*": told(LARGE, max=100)},
    "very many choices": {"a": told(done={"type": "Discrete", "n": 10**12, "start": 0})},
    "very many choices in a list": {"a": told(done={"type": "MultiDiscrete", "nvec": [2**40] * 9, "start": [0] * 9})},
    "a text in a shape": {"a": told({**BOX, "shape": ["x", 2**33]})},
    "a list in a shape": {"a": told({**BOX, "shape": [2**33, [1]]})},
    "texts as numbers": {"a": told({**BOX, "dtype": "S2000000000"})},
    "several seats of one id": {"a": told(max=2)},
    "an id that is a bracket": {"a[0]": told()},
    "an id of two patterns": {"a*b*": told()},
    "an id that means everybody": {"__all__": told()},
    "an id that fits a pattern": {"car_*": told(max=3), "car_1": told()},
}


@pytest.mark.parametrize("agents", FIRST_WORDS.values(), ids=FIRST_WORDS.keys())
def test_a_first_client_cannot_ask_for_what_nobody_could_build(agents: dict[str, Any]) -> None:
    async def play() -> None:
        hub, stage = new_hub()
        stage.contract = None
        refused = await refusal(connected(hub, agents=agents))
        assert (refused.code, refused.status) == ("contract", 409)
        assert len(str(refused)) < 2_000
        assert stage.contract is None
        await connected(hub, agents={"a": told()})

    run(play())


def test_names_and_patterns_may_stand_side_by_side() -> None:
    async def play() -> None:
        hub, stage = new_hub()
        stage.contract = None
        client = await connected(hub, agents={"boss": told(), "car_*": told(max=2)})
        await client.start()
        seen = {"boss": {"obs": [0.1, 0.0]}, "car_7": {"obs": [0.2, 0.0]}}
        assert (await client.send("act", 0, seen))["actions"].keys() == {"boss", "car_7"}
        more = {**seen, "car_8": {"obs": [0, 0]}, "car_9": {"obs": [0, 0]}}
        assert (await refusal(client.send("act", 1, more))).code == "too_many_agents"

    run(play())


# -- who hangs up and comes again ------------------------------------------------------------------------------------


def test_those_who_hang_up_and_ask_again_leave_nothing_behind() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False)
        client = await connected(hub)
        for _ in range(20):
            await hang_up(client.start())
        [episode] = hub.desk.episodes.values()
        assert len(episode.start_waiters) <= 1
        stage.begin_all()
        for _ in range(20):
            await hang_up(client.act(0))
        assert len(episode.records[0].waiters) <= 1
        stage.play()
        assert (await client.act(0))["t"] == 0

    run(play())


async def hang_up(work: Any) -> None:
    asking = asyncio.ensure_future(work)
    await settled()
    asking.cancel()
    await asyncio.wait([asking])


def test_what_is_sent_ahead_counts_against_the_limit_though_its_client_hangs_up() -> None:
    async def play() -> None:
        hub, stage = new_hub(at_once=False, max_pending=5)
        client = await connected(hub)
        starting = asyncio.ensure_future(client.start())
        await settled()
        stage.begin_all()
        await starting
        for t in range(5):
            await hang_up(client.send("log", t, {"a": {"obs": [0.1, 0.0]}}, actions={"a": 0}))
        refused = await refusal(client.send("log", 5, {"a": {"obs": [0.1, 0.0]}}, actions={"a": 0}))
        assert refused.code == "too_many"
        stage.play()
        stage.at_once = True
        assert (await client.send("log", 5, {"a": {"obs": [0.1, 0.0]}}, actions={"a": 0}))["t"] == 5

    run(play())
