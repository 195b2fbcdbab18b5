"""A server listens where it was told, lets in whom it should, and stops without leaving anybody waiting."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from marl.errors import ConfigError, UserError
from marl.serve.config import ServerConfig
from marl.serve.server import Server, ServerError
from tests.serve.instant import InstantStage, act, ask, greeted, instant_hub, serving, socket_of
from tests.serve.strange import masked, upgrade


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def client(server: Server, **options: Any) -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False, **{"timeout": 60, **options})


# -- where it listens ----------------------------------------------------------------------------------------------


def listening(pid: int) -> list[str]:
    found = psutil.Process(pid).net_connections(kind="inet")
    return [connection.laddr.ip for connection in found if connection.status == psutil.CONN_LISTEN]


def test_nothing_listens_beyond_loopback_unless_asked() -> None:
    before = listening(os.getpid())
    with serving():
        now = listening(os.getpid())
        for address in before:
            now.remove(address)
        assert now == ["127.0.0.1"]
    assert listening(os.getpid()) == before


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_host_that_others_can_reach_is_refused_without_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="give token_file") as told:
        Server(instant_hub(), ServerConfig(host=host, port=0))
    assert told.value.exit_code == 2


def test_a_host_that_others_can_reach_asks_everybody_for_the_token(tmp_path: Path) -> None:
    with serving(host="0.0.0.0", token_file=tmp_path / "token") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert (
            httpx.post(f"{url}/v1/hello", json={"protocol": "marl/1"}, trust_env=False, timeout=60).status_code == 401
        )


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with serving() as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(ServerError, match=f"port {port} is in use by another program") as told:
            Server(instant_hub(), ServerConfig(port=port)).start()
    assert isinstance(told.value, UserError)
    assert told.value.exit_code == 2
    assert "\n" not in str(told.value)


def test_an_unknown_host_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="cannot be found"):
        Server(instant_hub(), ServerConfig(host="no such host.invalid"))


@pytest.mark.parametrize("origin", ["example.org", "ftp://example.org", "https://example.org/page", "https://"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="no origin"):
        ServerConfig(origins=(origin,))


def test_the_keys_of_a_server_are_all_described() -> None:
    for key, field in ServerConfig.model_fields.items():
        assert field.description, key


# -- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return {"tls_key": key, "tls_cert": cert}


def test_with_a_certificate_the_server_speaks_https_and_wss(certificate: dict[str, Path]) -> None:
    with serving(**certificate) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate["tls_cert"]))
        with client(server, verify=trusted) as web:
            assert web.get("/v1/healthz").json() == {"status": "ok"}
        # This client reads in a thread of its own, and Python's sockets may lose what is written while a ticket of TLS 1.3
        # is read. A server cannot see that, and clients of one thread do not meet it.
        trusted.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket_of(server, ssl=trusted) as ws:
            assert greeted(ws)


def test_a_certificate_without_its_key_is_refused(certificate: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="needs tls_key"):
        ServerConfig(tls_cert=certificate["tls_cert"])


def test_files_that_are_no_certificate_are_one_sentence(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing")
    for path in (wrong, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match="certificate and its private key"):
            Server(instant_hub(), ServerConfig(port=0, tls_cert=path, tls_key=path)).start()


# -- stop ----------------------------------------------------------------------------------------------------------


def held_episode(stage: InstantStage, ws: Any) -> str:
    """A session whose step 0 waits for its answer."""
    session = greeted(ws)
    ask(ws, type="start", session=session, episode="e")
    stage.held = True
    ws.send(json.dumps(act(session, "e", 0, id=1)))
    until(lambda: bool(stage.waiting))
    return session


def test_what_is_under_way_is_answered_before_the_server_stops() -> None:
    stage = InstantStage()
    with serving(instant_hub(stage)) as server, socket_of(server) as ws:
        session = held_episode(stage, ws)
        stopping = threading.Thread(target=server.stop, args=(20.0, "time for bed"))
        stopping.start()
        until(lambda: bool(server.front.closing))
        ws.send(json.dumps(act(session, "e", 1, id=2)))
        late = json.loads(ws.recv())
        assert (late["id"], late["error"]["code"], late["error"]["retry_after"]) == (2, "closing", 1.0)
        stage.release()
        assert json.loads(ws.recv())["actions"] == {"a": 1}
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "time for bed")
        stopping.join(20)
        assert not stopping.is_alive()


def test_what_cannot_be_answered_in_time_is_refused_with_the_reason() -> None:
    stage = InstantStage()
    with serving(instant_hub(stage)) as server, socket_of(server) as ws:
        held_episode(stage, ws)
        posted: list[httpx.Response] = []

        def post() -> None:
            with client(server, timeout=30) as web:
                session = web.post("/v1/hello", json={"protocol": "marl/1"}).json()["session"]
                web.post("/v1/start", json={"session": session, "episode": "p"})
                message = act(session, "p", 0)
                del message["type"]
                posted.append(web.post("/v1/act", json=message))

        posting = threading.Thread(target=post)
        posting.start()
        until(lambda: len(stage.waiting) == 2)
        server.stop(0.0, "no time")
        told = json.loads(ws.recv())
        assert (told["type"], told["id"], told["error"]["code"]) == ("error", 1, "closing")
        posting.join(20)
        assert (posted[0].status_code, posted[0].json()["error"]["code"]) == (503, "closing")
        assert posted[0].headers["retry-after"] == "1"


def test_after_a_stop_the_port_is_free_and_no_thread_is_left() -> None:
    with serving() as server:
        port = int(server.url.rpartition(":")[2])
    with serving(port=port):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "marl server"]
    server.stop()  # once more is no mistake


def test_a_stage_that_fails_is_told_to_those_who_wait_and_by_health() -> None:
    stage = InstantStage()
    with serving(instant_hub(stage)) as server, socket_of(server) as ws:
        held_episode(stage, ws)
        server.fail(RuntimeError("out of cards"))
        assert json.loads(ws.recv())["error"]["code"] == "failed"
        assert server.failed.is_set()
        with client(server) as web:
            told = web.get("/v1/healthz")
        assert (told.status_code, told.json()["status"]) == (503, "failed")
        assert "out of cards" in told.json()["reason"]


def test_health_says_starting_until_policies_are_there() -> None:
    server = Server(instant_hub(), ServerConfig(port=0))
    server.start(ready=False)
    try:
        with client(server) as web:
            assert (web.get("/v1/healthz").status_code, web.get("/v1/healthz").json()) == (503, {"status": "starting"})
            server.health.ok()
            assert web.get("/v1/healthz").json() == {"status": "ok"}
    finally:
        server.stop(0)


def test_signals_stay_with_the_program() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with serving() as server:
            os.kill(os.getpid(), signal.SIGTERM)
            until(lambda: bool(heard))
            with client(server) as web:
                assert web.get("/v1/healthz").status_code == 200
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


# -- who may talk to it --------------------------------------------------------------------------------------------


def test_without_the_token_nothing_but_health_and_documents_is_given(tmp_path: Path) -> None:
    with serving(token_file=tmp_path / "token") as server, client(server) as web:
        assert web.get("/v1/healthz").status_code == 200
        assert web.get("/docs").status_code == 200
        for path in ("/v1/metrics", "/v1/policies", "/v1/policies/all/weights"):
            for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {server.token}"}):
                answer = web.get(path, headers=wrong)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
        for kind in ("hello", "start", "act", "log", "end"):
            assert web.post(f"/v1/{kind}", json={"protocol": "marl/1"}).status_code == 401
        right = {"authorization": f"Bearer {server.token}"}
        assert web.get("/v1/metrics", headers=right).status_code == 200
        assert web.post("/v1/hello", json={"protocol": "marl/1"}, headers=right).status_code == 200
        assert web.post("/v1/hello", json={"protocol": "marl/1", "token": server.token}).status_code == 200
        assert server.token is not None
        assert server.token not in web.get("/v1/metrics", headers=right).text


def test_strangers_cannot_make_the_server_read_a_body(tmp_path: Path) -> None:
    with serving(token_file=tmp_path / "token") as server, client(server) as web:
        answer = web.post("/v1/act", content=b"{" * 100, headers={"content-type": "application/json"})
        assert answer.status_code == 401


def test_a_right_and_a_wrong_token_are_each_compared_once(tmp_path: Path) -> None:
    with serving(token_file=tmp_path / "token") as server, client(server) as web:
        counts = []
        for shown in (server.token, "wrong", "x" * 43):
            before = server.front.token.compared
            web.get("/v1/policies", headers={"authorization": f"Bearer {shown}"})
            counts.append(server.front.token.compared - before)
        assert counts == [1, 1, 1]


def test_a_socket_shows_the_token_in_its_header_or_in_hello(tmp_path: Path) -> None:
    with serving(token_file=tmp_path / "token") as server:
        with socket_of(server, additional_headers={"authorization": f"Bearer {server.token}"}) as ws:
            assert greeted(ws)
        with socket_of(server) as ws:
            assert greeted(ws, token=server.token)
            assert greeted(ws)  # the socket is known by now
        with pytest.raises(InvalidStatus) as told, socket_of(server, additional_headers={"authorization": "Bearer x"}):
            pass
        assert told.value.response.status_code == 401
        assert json.loads(told.value.response.body or b"")["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    "first", [{"type": "hello", "protocol": "marl/1", "token": "wrong"}, {"type": "start", "session": "x"}]
)
def test_a_socket_without_the_token_is_closed(tmp_path: Path, first: dict[str, Any]) -> None:
    with serving(token_file=tmp_path / "token") as server, socket_of(server) as ws:
        assert ask(ws, **first)["error"]["code"] == "unauthorized"
        with pytest.raises(ConnectionClosed):
            ws.recv()
        assert server.hub.counters.sessions == 0


def test_the_token_in_another_message_than_hello_does_not_count(tmp_path: Path) -> None:
    with serving(token_file=tmp_path / "token") as server, socket_of(server) as ws:
        assert ask(ws, type="start", session="x", token=server.token)["error"]["code"] == "unauthorized"


def test_pages_of_strangers_may_not_use_the_server_and_allowed_ones_may() -> None:
    with serving(origins=("https://game.example.org",)) as server, client(server) as web:
        hello = {"protocol": "marl/1"}
        for origin in (
            "https://evil.example.org",
            "null",
            "http://127.0.0.1:1",
            "http://[",
            "https://game.example.org.evil.org",
        ):
            answer = web.post("/v1/hello", json=hello, headers={"origin": origin})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden_origin")
            with pytest.raises(InvalidStatus) as told, socket_of(server, additional_headers={"origin": origin}):
                pass
            assert told.value.response.status_code == 403
        assert web.post("/v1/hello", json=hello, headers={"origin": server.url}).status_code == 200
        answer = web.post("/v1/hello", json=hello, headers={"origin": "https://game.example.org"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://game.example.org")
        asked = {"origin": "https://game.example.org", "access-control-request-method": "POST"}
        answer = web.options("/v1/hello", headers=asked)
        assert (answer.status_code, "authorization" in answer.headers["access-control-allow-headers"]) == (204, True)


def test_a_strangers_name_that_leads_to_this_machine_is_refused() -> None:
    with serving() as server, client(server) as web:
        for host in ("evil.example.org", "evil.example.org:9900", "127.0.0.1.evil.org", "[", ""):
            answer = web.get("/v1/healthz", headers={"host": host})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden_host")
        for host in ("localhost", "127.0.0.1:80", "[::1]:9900", "LOCALHOST:1"):
            assert web.get("/v1/healthz", headers={"host": host}).status_code == 200


# -- slow, large and many ------------------------------------------------------------------------------------------


def raw(server: Server) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def read_all(connection: socket.socket) -> bytes:
    """Until the other side hangs up."""
    found = b""
    while True:
        try:
            chunk = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not chunk:
            return found
        found += chunk


HEAD = b"POST /v1/hello HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SLOW = {
    "says nothing": b"",
    "half a line": b"GET /v1/hea",
    "half of the headers": HEAD,
    "half of the body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "a chunked body that never ends": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW.keys())
def test_a_request_that_does_not_arrive_is_hung_up_on(sent: bytes) -> None:
    with serving(request_timeout_s=0.3) as server, raw(server) as connection:
        connection.sendall(sent)
        answer = read_all(connection)
        assert b"408" in answer.partition(b"\r\n")[0]
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_slow"
        with client(server) as web:
            assert web.get("/v1/healthz").status_code == 200


def test_a_body_that_dribbles_in_after_the_answer_is_hung_up_on() -> None:
    with serving(request_timeout_s=0.3) as server, raw(server) as connection:
        connection.sendall(b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
        assert b"200 OK" in read_all(connection)


def test_a_socket_without_a_message_is_closed() -> None:
    with serving(request_timeout_s=0.3) as server, socket_of(server) as ws:
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(timeout=20)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


def test_a_client_that_takes_its_time_between_messages_stays() -> None:
    with serving(request_timeout_s=0.3) as server, socket_of(server) as ws:
        greeted(ws)
        time.sleep(0.6)
        assert greeted(ws)


def test_endless_headers_are_refused() -> None:
    with serving() as server, raw(server) as connection:
        connection.sendall(HEAD)
        with pytest.raises(OSError):  # noqa: PT011 - whichever way the system says that nobody listens
            for _ in range(2000):
                connection.sendall(b"X-Y: " + b"z" * 4096 + b"\r\n")


def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    hub = instant_hub(max_body=1000)
    with serving(hub) as server:
        with raw(server) as connection:
            connection.sendall(HEAD + b"Content-Length: 1000000000\r\n\r\n")
            assert b"413" in read_all(connection).partition(b"\r\n")[0]
        with raw(server) as connection:  # of unknown length
            connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"100\r\n" + b"x" * 256 + b"\r\n")
            connection.sendall((b"100\r\n" + b"x" * 256 + b"\r\n") * 4)
            assert b"413" in read_all(connection).partition(b"\r\n")[0]
        with socket_of(server) as ws:
            ws.send("x" * 1001)
            with pytest.raises(ConnectionClosed) as closed:
                ws.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009


def test_one_connection_too_many_is_refused_and_the_others_live() -> None:
    with serving(max_sockets=2) as server, socket_of(server) as ws, raw(server):
        with raw(server) as third:
            answer = read_all(third)
        assert b"503" in answer.partition(b"\r\n")[0]
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_many"
        assert greeted(ws)


def test_a_client_that_only_sends_is_not_read_any_further() -> None:
    stage = InstantStage()
    with serving(instant_hub(stage), max_unanswered=2) as server, socket_of(server) as ws:
        session = greeted(ws)
        for name in ("e0", "e1", "e2"):
            ask(ws, type="start", session=session, episode=name)
        stage.held = True
        for number in range(3):
            ws.send(json.dumps(act(session, f"e{number}", 0, id=number)))
        until(lambda: len(stage.waiting) == 2)
        time.sleep(0.2)
        assert len(stage.waiting) == 2
        stage.release()
        assert sorted(json.loads(ws.recv())["id"] for _ in range(3)) == [0, 1, 2]


def test_a_client_that_does_not_read_its_answers_is_not_read_either(caplog: pytest.LogCaptureFixture) -> None:
    with serving(max_unanswered=8) as server:
        with socket_of(server) as ws:
            session = greeted(ws)
        with raw(server) as connection:
            connection.sendall(upgrade(server.url.removeprefix("http://"), ""))
            until(lambda: bool(server.front.sockets))
            (client_of_it,) = server.front.sockets
            # Its answers are 20 times as long as the message: they fill what the system keeps for a reader, and more.
            frame = masked(0x81, json.dumps({"type": "hello", "protocol": "marl/1", "session": session}).encode())
            connection.settimeout(0.5)
            with suppress(TimeoutError):
                for _ in range(100):
                    connection.sendall(frame * 200)
            read = [-1, 0]
            while read[-1] != read[-2]:  # until no more is read
                time.sleep(0.5)
                read.append(server.front.measures.latency["hello"].count)
            assert read[-1] < 20_000
            assert len(client_of_it._tasks) <= 8
            server.stop(0.1)  # does not wait for it either
            assert caplog.records == []
            assert not server.failed.is_set()
            assert not [thread for thread in threading.enumerate() if thread.name == "marl server"]


# -- without the packages ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_its_packages_a_server_is_one_sentence() -> None:
    program = (
        "import sys\n"
        "for name in ('fastapi', 'uvicorn', 'msgpack', 'greenlet'): sys.modules[name] = None\n"
        "from marl.errors import UserError\n"
        "from marl.serve.server import Server\n"
        "try: Server(None)\n"
        "except UserError as error: print(error.exit_code, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 ")
    assert 'pip install "marl[serve]"' in done.stdout
