"""Messages over sockets and by POST, and what else a server tells."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import msgpack
import numpy as np
import pytest

from marl.serve.metrics import Histogram
from marl.serve.schema import ANSWERS, MESSAGES, Refusal
from marl.serve.server import Server
from tests.serve.instant import OBS, InstantStage, act, ask, greeted, instant_hub, serving, socket_of
from tests.serve.test_server import until


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """One server for all tests that change nothing about it."""
    with serving() as server:
        yield server


@pytest.fixture
def web(shared: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared.url, trust_env=False, timeout=60) as client:
        yield client


def packed_obs() -> dict[str, Any]:
    return {"__nd__": True, "dtype": "float32", "shape": [4], "data": np.array(OBS, np.float32).tobytes()}


# -- sockets -------------------------------------------------------------------------------------------------------


def test_an_episode_over_a_socket_from_hello_to_end(shared: Server) -> None:
    with socket_of(shared) as ws:
        session = greeted(ws)
        assert ask(ws, type="start", session=session, episode="e")["seed"] == 7
        for t in range(3):
            told = ask(ws, **act(session, "e", t, id=f"step {t}"))
            assert told == {"type": "act", "id": f"step {t}", "episode": "e", "t": t, "actions": {"a": 1}, "version": 3}
        told = ask(ws, type="end", session=session, episode="e", t=3, agents={"a": {"reward": 0.5, "terminated": True}})
        assert told == {"type": "end", "episode": "e", "t": 3, "returns": {"a": 2.5}, "length": 3}


def test_a_binary_frame_is_msgpack_and_answered_in_kind(shared: Server) -> None:
    with socket_of(shared) as ws:
        ws.send(msgpack.packb({"type": "hello", "protocol": "marl/1", "id": 1}))
        session = msgpack.unpackb(ws.recv())["session"]
        ws.send(msgpack.packb({"type": "start", "session": session, "episode": "e"}))
        ws.recv()
        message = act(session, "e", 0)
        message["agents"]["a"]["obs"] = packed_obs()
        ws.send(msgpack.packb(message))
        assert msgpack.unpackb(ws.recv())["actions"] == {"a": 1}
        assert ask(ws, **act(session, "e", 1))["t"] == 1  # the same socket may speak JSON as well


def test_answers_of_different_episodes_come_as_they_are_ready() -> None:
    stage = InstantStage()
    with serving(instant_hub(stage)) as server, socket_of(server) as ws:
        session = greeted(ws)
        for name in ("slow", "fast"):
            ask(ws, type="start", session=session, episode=name)
        stage.held = True
        ws.send(json.dumps(act(session, "slow", 0, id="slow")))
        until(lambda: bool(stage.waiting))
        stage.held = False
        assert ask(ws, **act(session, "fast", 0, id="fast"))["id"] == "fast"
        stage.release()
        assert json.loads(ws.recv())["id"] == "slow"


def test_steps_that_are_sent_without_waiting_reach_the_hub_in_their_order(shared: Server) -> None:
    with socket_of(shared) as ws:
        session = greeted(ws)
        ask(ws, type="start", session=session, episode="e")
        for t in range(200):
            message = act(session, "e", t, id=t, actions={"a": 0})
            ws.send(json.dumps({**message, "type": "log"}))
        told = [json.loads(ws.recv()) for _ in range(200)]
        assert [one["type"] for one in told] == ["log"] * 200
        assert sorted(one["id"] for one in told) == list(range(200))


def test_a_socket_that_breaks_loses_nothing() -> None:
    stage = InstantStage()
    with serving(instant_hub(stage)) as server:
        with socket_of(server) as ws:
            session = greeted(ws)
            ask(ws, type="start", session=session, episode="e")
            stage.held = True
            ws.send(json.dumps(act(session, "e", 0)))
            until(lambda: bool(stage.waiting))
            ws.socket.close()
        until(lambda: not server.front.sockets)
        stage.release()
        with socket_of(server) as ws:
            again = ask(ws, type="hello", protocol="marl/1", session=session)
            assert [one["episode"] for one in again["open"]] == ["e"]
            assert ask(ws, **act(session, "e", 0))["actions"] == {"a": 1}
            assert ask(ws, **act(session, "e", 1))["actions"] == {"a": 1}
        counted = server.hub.counters
        assert (counted.accepted, counted.answered, counted.repeated, counted.lost, counted.doubled) == (2, 2, 1, 0, 0)
        until(lambda: server.front.measures.waiting == 0)


def test_nobody_is_kept_waiting_for_a_client_that_has_hung_up() -> None:
    stage = InstantStage()
    with serving(instant_hub(stage)) as server:
        with socket_of(server) as ws:
            session = greeted(ws)
            ask(ws, type="start", session=session, episode="e")
            stage.held = True
            ws.send(json.dumps(act(session, "e", 0)))
            until(lambda: server.front.measures.waiting == 1)
        until(lambda: server.front.measures.waiting == 0)
        message = act(session, "e", 0)
        del message["type"]
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/act", json=message, timeout=0.3, trust_env=False)
        until(lambda: server.front.measures.waiting == 0)
        stage.release()
        answer = httpx.post(f"{server.url}/v1/act", json=message, trust_env=False, timeout=60).json()
        assert answer["actions"] == {"a": 1}
        assert server.hub.counters.accepted == 1


def test_a_message_that_is_sent_right_before_hanging_up_counts() -> None:
    with serving() as server:
        with socket_of(server) as ws:
            session = greeted(ws)
            ask(ws, type="start", session=session, episode="e")
            ws.send(json.dumps(act(session, "e", 0)))
            ws.send(json.dumps({"type": "end", "session": session, "episode": "e", "t": 1}))
        until(lambda: server.hub.counters.ended == 1)


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        "[]",
        '{"type": "act"',
        '{"type": "nothing"}',
        '{"type": ["act"]}',
        '{"type": "hello", "id": {}}',
        '{"id": 1e99}',
        b"\xc1",
        b"",
    ],
)
def test_a_frame_that_is_no_message_is_answered_and_the_socket_goes_on(shared: Server, frame: str | bytes) -> None:
    with socket_of(shared) as ws:
        ws.send(frame)
        answer = ws.recv()
        told = json.loads(answer) if isinstance(answer, str) else msgpack.unpackb(answer)
        assert (told["type"], told["error"]["code"]) == ("error", "bad_message")
        assert greeted(ws)


def test_an_error_names_the_message_that_it_is_about(shared: Server) -> None:
    with socket_of(shared) as ws:
        told = ask(ws, type="start", session="0" * 32, id=17)
        assert (told["type"], told["id"], told["error"]["code"]) == ("error", 17, "unknown_session")


# -- POST ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("media_type", ["application/json", "application/msgpack"])
def test_the_same_messages_can_be_posted(web: httpx.Client, media_type: str) -> None:
    encode = json.dumps if media_type == "application/json" else msgpack.packb
    decode = json.loads if media_type == "application/json" else msgpack.unpackb

    def post(kind: str, **message: Any) -> dict[str, Any]:
        answer = web.post(f"/v1/{kind}", content=encode(message), headers={"content-type": media_type})
        assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
        return dict(decode(answer.content))

    session = post("hello", protocol="marl/1")["session"]
    assert post("start", session=session, episode="p")["episode"] == "p"
    message = act(session, "p", 0)
    del message["type"]
    assert post("act", **message) == {"episode": "p", "t": 0, "actions": {"a": 1}, "version": 3}
    assert post("end", session=session, episode="p", t=1)["length"] == 1


ERRORS = [
    ("GET", "/nothing", {}, 404, "not_found"),
    ("GET", "/v1/hello", {}, 405, "method_not_allowed"),
    ("DELETE", "/v1/act", {}, 405, "method_not_allowed"),
    ("POST", "/v1/hello", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "bad_message"),
    ("POST", "/v1/hello", {"content": b"{}"}, 415, "bad_message"),
    ("POST", "/v1/hello", {"content": b"{", "headers": {"content-type": "application/json"}}, 400, "bad_message"),
    ("POST", "/v1/hello", {"json": {"protocol": "marl/0"}}, 400, "protocol"),
    ("POST", "/v1/start", {"json": {"session": "x"}}, 404, "unknown_session"),
    ("POST", "/v1/session", {"json": {}}, 404, "not_found"),
    ("GET", "/v1/policies/all/weights?newer_than=x", {}, 400, "bad_message"),
]


@pytest.mark.parametrize(("method", "path", "more", "status", "code"), ERRORS)
def test_every_error_has_the_same_form(
    web: httpx.Client, method: str, path: str, more: dict[str, Any], status: int, code: str
) -> None:
    answer = web.request(method, path, **more)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    Refusal.model_validate(answer.json())


class ShyStage(InstantStage):
    """Has a mistake in what it tells."""

    def policies(self) -> list[dict[str, Any]]:
        raise KeyError("secret of the house")


class BrokenStage(InstantStage):
    """Has a mistake in how it plays."""

    def begin(self, episode: object) -> None:
        raise ZeroDivisionError("no cards")


def test_a_mistake_of_ours_is_logged_and_told_without_its_inside_and_the_server_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        serving(instant_hub(ShyStage())) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as web,
    ):
        with caplog.at_level(logging.ERROR):
            answer = web.get("/v1/policies")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        assert "secret" not in answer.text
        assert "Traceback" in caplog.text
        assert "secret of the house" in caplog.text
        assert web.get("/v1/healthz").status_code == 200
        assert "marl_failures_total 1" in web.get("/v1/metrics").text


def test_when_nobody_can_play_any_more_everybody_is_told_and_the_log_has_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        serving(instant_hub(BrokenStage())) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as web,
    ):
        with socket_of(server) as ws, caplog.at_level(logging.ERROR):
            session = greeted(ws)
            told = ask(ws, type="start", session=session, episode="e", id=5)
            assert (told["error"]["code"], told["id"]) == ("failed", 5)
            assert ask(ws, type="hello", protocol="marl/1")["error"]["code"] == "failed"
        assert caplog.text.count("Traceback") == 1
        assert "no cards" in caplog.text
        health = web.get("/v1/healthz")
        assert (health.status_code, health.json()["status"]) == (503, "failed")
        assert server.failed.is_set()


# -- weights -------------------------------------------------------------------------------------------------------


class ExportingStage(InstantStage):
    exported = 0

    def export(self, name: str) -> tuple[int, bytes] | None:
        self.exported += 1
        return (self.version, b"PK zip") if name == "team/all" else None


def test_weights_are_given_when_they_are_newer() -> None:
    stage = ExportingStage()
    with serving(instant_hub(stage)) as server, httpx.Client(base_url=server.url, trust_env=False, timeout=60) as web:
        assert web.get("/v1/policies").json()["weights"] is True
        path = "/v1/policies/team/all/weights"
        first = web.get(path)
        assert (first.status_code, first.content, first.headers["etag"]) == (200, b"PK zip", '"3"')
        assert first.headers["content-type"] == "application/zip"
        assert web.get(path, params={"newer_than": 2}).status_code == 200
        assert stage.exported == 2
        assert web.get(path, params={"newer_than": 3}).status_code == 204
        assert web.get(path, headers={"if-none-match": '"3"'}).status_code == 304
        assert stage.exported == 2  # nothing is packed for those who have it
        stage.version = 4
        assert web.get(path, params={"newer_than": 3}).headers["etag"] == '"4"'
        assert web.get("/v1/policies/other/weights").status_code == 404


# -- metrics -------------------------------------------------------------------------------------------------------


class MeasuringStage(InstantStage):
    def measures(self) -> dict[str, float | Histogram]:
        batches = Histogram((1, 2, 4))
        for size in (1, 1, 2, 3, 9):
            batches.add(size)
        return {"batch_size": batches, "stale_steps_dropped": 5}


LINE = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+-]+$')


def test_metrics_are_what_prometheus_reads() -> None:
    with (
        serving(instant_hub(MeasuringStage())) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as web,
    ):
        with socket_of(server) as ws:
            session = greeted(ws)
            ask(ws, type="start", session=session, episode="e")
            for t in (0, 0, 1):
                ask(ws, **act(session, "e", t))
            ask(ws, **act(session, "e", 9))
            answer = web.get("/v1/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = answer.text.splitlines()
        for line in lines:
            assert line.startswith("# ") or LINE.match(line), line
        introduced = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(introduced) == len(set(introduced))
        expected = {
            "marl_accepted_total 2", "marl_repeated_total 1", "marl_gaps_total 1", "marl_open 1", "marl_sessions 1",
            "marl_lost_total 0", "marl_doubled_total 0", "marl_weights_version 3", "marl_up 1", "marl_sockets 1",
            'marl_refused_total{code="out_of_order"} 1', 'marl_answer_seconds_count{message="act"} 4',
            "marl_stale_steps_dropped 5",
            'marl_batch_size_bucket{le="1"} 2', 'marl_batch_size_bucket{le="2"} 3', 'marl_batch_size_bucket{le="4"} 4',
            'marl_batch_size_bucket{le="+Inf"} 5', "marl_batch_size_sum 16", "marl_batch_size_count 5",
        }  # fmt: skip
        assert expected <= set(lines)


# -- documents -----------------------------------------------------------------------------------------------------


def test_every_key_of_every_message_is_described(web: httpx.Client) -> None:
    described = web.get("/openapi.json").json()
    schemas = described["components"]["schemas"]
    for kind in MESSAGES:
        route = described["paths"][f"/v1/{kind}"]["post"]
        asked = route["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert asked in schemas
    for name, schema in schemas.items():
        for key, field in schema["properties"].items():
            assert field.get("description"), f"{name}.{key}"
    told = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert told <= set(schemas)


def test_messages_of_a_real_session_are_as_described(shared: Server) -> None:
    with socket_of(shared) as ws:

        def exchange(kind: str, **message: Any) -> dict[str, Any]:
            MESSAGES[kind].model_validate(message)
            answer = ask(ws, type=kind, **message)
            del answer["type"]
            ANSWERS[kind].model_validate(answer)
            return answer

        session = exchange("hello", protocol="marl/1", mode="remote")["session"]
        exchange("start", session=session, episode="e", training=False, parties=1)
        one = {"session": session, "episode": "e"}
        exchange("act", **one, t=0, agents={"a": {"obs": OBS, "info": {"x": 1}}}, want=["value"])
        exchange(
            "log", **one, t=1, agents={"a": {"obs": OBS, "reward": 1.0}}, actions={"a": 0}, logp={"a": -0.5}, version=3
        )
        exchange("hello", protocol="marl/1", session=session)
        exchange("end", **one, t=2, agents={"a": {"obs": OBS, "truncated": True}})


class Sources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe")
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_of_documents_is_complete_and_loads_nothing(web: httpx.Client) -> None:
    answer = web.get("/docs")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    sources = Sources()
    sources.feed(answer.text)
    assert all(one.startswith("#") or one == "/openapi.json" for one in sources.found)
    described = web.get("/openapi.json").json()
    for path in described["paths"]:
        assert path in answer.text
    for name in described["components"]["schemas"]:
        assert f'id="{name}"' in answer.text
