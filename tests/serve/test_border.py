"""Whatever comes over the network, the server answers, keeps its memory and serves honest clients as before."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.serve.border import Border
from tests.serve.churn import MOST_GROWTH, Churn
from tests.serve.instant import act, ask, greeted, instant_hub, serving, socket_of
from tests.serve.server_process import growth
from tests.serve.strange import Strange
from tests.serve.test_server import raw, read_all


@pytest.mark.slow
def test_two_thousand_strange_frames_leave_no_traceback_and_an_honest_client_undisturbed() -> None:
    report = Border(seed=7).run(2000)
    assert report.wrong == []
    assert report.frames >= 2000
    assert report.honest >= 40
    assert growth(report.memory) < MOST_GROWTH
    # The fuzz is worth something: it got past the first checks, and was refused for many reasons.
    taken = {"hello", "start", "act", "log", "end"}
    assert taken <= set(report.codes)
    assert len(set(report.codes) - taken) >= 8
    assert {"200", "400", "401", "403", "404", "405", "415"} <= set(report.statuses)


@pytest.mark.slow
def test_sessions_that_come_and_go_leave_nothing_behind() -> None:
    churn = Churn()
    assert churn.run(sessions=120) == []
    assert growth(churn.memories) < MOST_GROWTH


def test_the_fuzz_is_the_same_for_the_same_seed() -> None:
    one, other = Strange(random.Random(3)), Strange(random.Random(3))
    assert [one.frame() for _ in range(50)] == [other.frame() for _ in range(50)]


def refused(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["type"] == "error"
    return dict(answer["error"])


BAD_STEPS: dict[str, tuple[dict[str, Any], str]] = {
    "NaN": ({"agents": {"a": {"obs": [0.0, float("nan"), 0.0, 0.0]}}}, "obs"),
    "an infinity": ({"agents": {"a": {"obs": [0.0, 0.0, float("inf"), 0.0]}}}, "obs"),
    "a number beyond the space": ({"agents": {"a": {"obs": [0.0, 11.0, 0.0, 0.0]}}}, "obs"),
    "an unknown agent": ({"agents": {"stranger": {"obs": [0.0] * 4}}}, ""),
}


@pytest.mark.parametrize(("more", "key"), BAD_STEPS.values(), ids=BAD_STEPS.keys())
def test_a_bad_value_is_refused_with_its_agent_step_and_key_and_may_be_corrected(
    more: dict[str, Any], key: str
) -> None:
    with serving() as server, socket_of(server) as ws:
        session = greeted(ws)
        ask(ws, type="start", session=session, episode="e")
        told = refused(ask(ws, **{**act(session, "e", 0), **more}))
        assert told["agent"] in ("a", "stranger", "'stranger'")
        assert told["t"] == 0
        assert key in told.get("key", "")
        assert ask(ws, **act(session, "e", 0))["actions"] == {"a": 1}


def test_other_peoples_sessions_are_as_unknown_as_those_that_do_not_exist() -> None:
    with serving() as server, socket_of(server) as mine, socket_of(server) as theirs:
        session, other = greeted(mine), greeted(theirs)
        ask(theirs, type="start", session=other, episode="e")
        guessed = refused(ask(mine, type="act", session="0" * 32, episode="e", t=0, agents={}))
        near = refused(ask(mine, type="act", session=other[:-1] + "x", episode="e", t=0, agents={}))
        assert guessed == near
        # Nor does a session of one's own open another one's episodes.
        told = refused(ask(mine, **act(session, "e", 0)))
        assert told["code"] == "unknown_episode"


def test_a_shape_with_a_text_in_it_is_not_multiplied() -> None:
    # "x" times 2**33 would be 8 GiB of x.
    space = {"type": "Box", "low": 0, "high": 1, "shape": ["x", 2**33], "dtype": "float32"}
    with serving() as server, socket_of(server) as ws:
        agents = {"a": {"observation_space": space, "action_space": {"type": "MultiBinary", "n": ["x", 2**33]}}}
        assert refused(ask(ws, type="hello", protocol="marl/1", agents=agents))["agent"]
        assert greeted(ws)


def test_too_many_sessions_are_told_when_to_come_again() -> None:
    with serving(instant_hub(max_sessions=1)) as server, socket_of(server) as ws:
        greeted(ws)
        told = refused(ask(ws, type="hello", protocol="marl/1"))
        assert (told["code"], told["retry_after"] > 0) == ("too_many", True)


def test_a_session_that_sends_too_fast_is_told_when_to_go_on() -> None:
    with serving(instant_hub(max_rate=5.0)) as server, socket_of(server) as ws:
        session = greeted(ws)
        answers = [ask(ws, type="start", session=session, episode="e") for _ in range(20)]
        late = [refused(one) for one in answers if one["type"] == "error"]
        assert late
        assert {one["code"] for one in late} == {"too_many"}
        assert all(0 < one["retry_after"] <= 1 for one in late)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"\x00" * 100,
        b"GET\r\n\r\n",
        b"POST /v1/act HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_in_json_and_hung_up_on(sent: bytes) -> None:
    with serving() as server, raw(server) as connection:
        connection.sendall(sent)
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "bad_request"


def test_a_bad_handshake_of_a_websocket_is_answered_in_json() -> None:
    with serving() as server, raw(server) as connection:
        connection.sendall(
            b"GET /v1/session HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
        )
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert "Sec-WebSocket-Key" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
