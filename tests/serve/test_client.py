"""``marl.PolicyClient``: the five calls, and a message that is repeated until it is answered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from websockets.sync.server import ServerConnection, serve

import marl.client
from marl.client import PolicyClient, PolicyClientError
from marl.envs.external.contract import Contract, ExternalAgent
from marl.serve.hub import Hub, Limits
from marl.serve.journal import Journal
from tests.serve.cutting import cutting
from tests.serve.drawn import DrawingStage, drawing_server
from tests.serve.instant import BOX, OBS, TWO, InstantStage, instant_hub, serving
from tests.serve.waiting import wait_until

TRANSPORTS = pytest.mark.parametrize("transport", ["ws", "http"])


def one_agent(**more: Any) -> Contract:
    return Contract({"agent_0": ExternalAgent(observation_space=BOX, action_space=TWO, **more)})


def learning(contract: Contract) -> tuple[DrawingStage, Hub]:
    stage, hub = drawing_server(contract)
    stage.training = True
    return stage, hub


# -- the five calls ----------------------------------------------------------------------------------------------------


@TRANSPORTS
def test_one_agent_needs_no_names(transport: str) -> None:
    stage, hub = learning(one_agent())
    with serving(hub) as server:
        client = PolicyClient(server.url, transport=transport)
        episode = client.start_episode()
        assert client.get_action(episode, np.array(OBS, np.float32)) in (0, 1)
        client.log_returns(episode, 1.0, info={"speed": np.float64(2.5)})
        client.log_returns(episode, np.float32(0.5), info={"late": True})
        client.log_action(episode, OBS, 1)
        client.log_returns(episode, 2)
        assert client.end_episode(episode, OBS) == {"agent_0": 3.5}
        client.close()
    first, second, last = [step.agents["agent_0"] for step in stage.seen]
    assert (first.reward, first.info) == (0.0, {})
    assert (second.reward, second.info) == (1.5, {"speed": 2.5, "late": True})
    assert stage.seen[1].own["agent_0"].action == 1
    assert (last.reward, last.terminated, last.truncated, last.obs.tolist()) == (2.0, True, False, OBS)


def test_an_episode_that_is_cut_off_is_not_over() -> None:
    stage, hub = learning(one_agent())
    with serving(hub) as server:
        client = PolicyClient(server.url)
        episode = client.start_episode("mine", training_enabled=False)
        client.get_action(episode, OBS)
        client.end_episode(episode, OBS, truncated=True)
        client.close()
    assert episode == "mine"
    assert (stage.seen[1].ends, stage.seen[1].agents["agent_0"].terminated) == (True, False)


def test_start_may_be_followed_by_the_end() -> None:
    _, hub = learning(one_agent())
    with serving(hub) as server:
        client = PolicyClient(server.url)
        assert client.end_episode(client.start_episode()) == {}
        client.close()


def test_several_agents_are_dicts_and_leave_when_they_are_done() -> None:
    stage, hub = drawing_server(instant_hub().stage.contract)
    with serving(hub) as server:
        client = PolicyClient(server.url)
        episode = client.start_episode()
        assert client.get_action(episode, {"a": OBS, "car_1": OBS}).keys() == {"a", "car_1"}
        client.log_returns(
            episode, {"a": 1.0}, info={"a": {"x": 1}}, multiagent_done_dict={"car_1": True, "__all__": False}
        )
        assert client.get_action(episode, {"a": OBS}).keys() == {"a"}
        client.log_returns(episode, {"a": 1.0, "car_1": 5.0})
        assert client.end_episode(episode, {"a": OBS}) == {"a": 2.0, "car_1": 5.0}
        with pytest.raises(PolicyClientError, match="expected a dict from agents"):
            client.get_action(client.start_episode(), OBS)
        client.close()
    assert stage.seen[1].agents["car_1"].terminated
    assert not stage.seen[2].agents["car_1"].terminated  # it was gone already, and is only paid


def test_a_mask_stands_beside_the_observation() -> None:
    stage, hub = drawing_server(one_agent(action_mask=True))
    with serving(hub) as server:
        client = PolicyClient(server.url)
        episode = client.start_episode()
        seen = {"observation": OBS, "action_mask": np.array([0, 1], np.int8)}
        assert client.get_action(episode, seen) == 1
        client.close()
    assert stage.seen[0].agents["agent_0"].obs["action_mask"].tolist() == [0, 1]


def test_a_client_that_is_started_again_goes_on_with_the_step_that_is_next() -> None:
    _, hub = drawing_server(one_agent())
    with serving(hub) as server:
        first = PolicyClient(server.url, name="robot")
        episode = first.start_episode()
        first.get_action(episode, OBS)
        first.close()
        again = PolicyClient(server.url, name="robot")
        (opened,) = again.hello()["open"]
        assert (opened["episode"], opened["t"], len(opened["actions"])) == (episode, 1, 1)
        again.get_action(episode, OBS)
        assert again.end_episode(episode, OBS) == {"agent_0": 0.0}
        again.close()


def test_messages_can_be_sent_as_they_are() -> None:
    with serving() as server:
        client = PolicyClient(server.url)
        assert client.start("e", training=False)["seed"] == 7
        assert client.act(episode="e", t=0, agents={"a": {"obs": OBS}})["actions"] == {"a": 1}
        assert client.log(episode="e", t=1, agents={"a": {"obs": OBS, "reward": 2}}, actions={"a": 0})["t"] == 1
        assert client.end(episode="e", t=2, agents={})["returns"] == {"a": 2.0}
        client.close()


# -- faults ------------------------------------------------------------------------------------------------------------


@TRANSPORTS
def test_cut_connections_lose_nothing_and_double_nothing(transport: str) -> None:
    stage, hub = drawing_server(one_agent())
    with serving(hub) as server, cutting(server.url, every=7) as (url, cuts):
        client = PolicyClient(url, transport=transport, patience=60)
        for _ in range(4):
            episode = client.start_episode()
            for t in range(10):
                client.get_action(episode, OBS)
                client.log_returns(episode, float(t))
            assert client.end_episode(episode, OBS) == {"agent_0": 45.0}
        client.close()
    assert cuts() > 5
    assert hub.counters.repeated > 0
    assert len(stage.seen) == 4 * 11
    assert (hub.counters.begun, hub.counters.ended, hub.counters.sessions) == (4, 4, 1)


@TRANSPORTS
def test_lost_answers_to_hello_and_start_open_no_second_session_or_episode(transport: str) -> None:
    _, hub = drawing_server(one_agent())
    with serving(hub) as server, cutting(server.url, lose=[b'"policies"', b'"seed"']) as (url, cuts):
        client = PolicyClient(url, transport=transport, patience=60)
        client.end_episode(client.start_episode())
        client.close()
    assert cuts() == 2
    assert (hub.counters.sessions, hub.counters.begun) == (1, 1)


def test_a_server_that_asks_for_patience_gets_it() -> None:
    hub = instant_hub(max_rate=40.0)
    with serving(hub) as server:
        client = PolicyClient(server.url)
        client.start("e")
        for t in range(60):
            client.act(episode="e", t=t, agents={"a": {"obs": OBS}})
        client.close()
    assert hub.counters.refused["too_many"] > 0
    assert hub.counters.answered == 60


@TRANSPORTS
def test_a_server_that_comes_back_is_found_again(transport: str, tmp_path: Path) -> None:
    with serving(journaled(tmp_path)) as server:
        port = int(server.url.rpartition(":")[2])
        client = PolicyClient(server.url, transport=transport)
        client.start("e")
        client.act(episode="e", t=0, agents={"a": {"obs": OBS}})
    waiting = threading.Thread(target=client.act, kwargs={"episode": "e", "t": 1, "agents": {"a": {"obs": OBS}}})
    waiting.start()
    hub = journaled(tmp_path)
    with serving(hub, port=port):
        waiting.join(60)
        assert (hub.counters.answered, hub.counters.replayed) == (2, 1)
        assert client.end(episode="e", t=2, agents={})["length"] == 2
        client.close()


def journaled(folder: Path) -> Hub:
    """A hub that knows all that was said to the one before it."""
    stage = InstantStage()
    stage.hub = Hub(stage, Limits(), Journal(folder))
    stage.hub.recover()
    return stage.hub


def test_a_server_that_does_not_know_the_session_any_more_is_greeted_again_at_the_next_start() -> None:
    now, stage = [0.0], InstantStage()
    hub = stage.hub = Hub(stage, Limits(), clock=lambda: now[0])
    with serving(hub) as server:
        client = PolicyClient(server.url)
        client.start("e")
        client.end(episode="e", t=0, agents={})
        now[0] = 2 * hub.limits.session_timeout_s
        hub.sweep()
        with pytest.raises(PolicyClientError) as refused:
            client.act(episode="e", t=0, agents={})
        assert refused.value.code == "unknown_session"
        assert client.start("f")["episode"] == "f"
        client.close()


def test_threads_do_not_wait_for_each_others_answers() -> None:
    stage = InstantStage()
    stage.held = True
    hub = instant_hub(stage)
    with serving(hub) as server:
        client = PolicyClient(server.url)
        answers: list[Any] = []

        def play(name: str) -> None:
            client.start(name)
            answers.append(client.act(episode=name, t=0, agents={"a": {"obs": OBS}}))

        threads = [threading.Thread(target=play, args=(f"e{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(stage.waiting) == 4)  # of one after another, only the first would come
        stage.release()
        for thread in threads:
            thread.join(60)
        client.close()
    assert sorted(answer["episode"] for answer in answers) == ["e0", "e1", "e2", "e3"]


class OnlyPosts(BaseHTTPRequestHandler):
    """Something in front of the server that knows no WebSocket."""

    protocol_version = "HTTP/1.1"
    target = ""

    def do_GET(self) -> None:
        self.send_error(400, "no upgrades here")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with urlopen(Request(self.target + self.path, body, {"Content-Type": "application/json"})) as answer:
            content = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def only_posts(target: str) -> Iterator[str]:
    handler = type("Handler", (OnlyPosts,), {"target": target})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


def test_where_no_websocket_gets_through_requests_are_sent() -> None:
    with serving() as server, only_posts(server.url) as url:
        client = PolicyClient(url)
        assert client.start("e")["seed"] == 7
        assert client.transport == "http"
        client.close()
        with pytest.raises(PolicyClientError, match="takes no WebSocket"):
            PolicyClient(url, transport="ws").hello()


def test_pings_fragments_and_long_messages_are_understood() -> None:
    long = "x" * 70_000
    got: list[dict[str, Any]] = []

    def talk(socket: ServerConnection) -> None:
        for message in socket:
            got.append(json.loads(message))
            socket.ping("are you there")
            answer = json.dumps({"type": "hello", "session": "s", "agents": {}, "open": [], "long": long})
            socket.send([answer[:10], answer[10:300], answer[300:]])  # three frames of one message

    with serve(talk, "127.0.0.1", 0, compression=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = PolicyClient(f"ws://127.0.0.1:{server.socket.getsockname()[1]}", name=long, transport="ws")
        assert client.hello()["long"] == long
        client.about = {}
        assert client.hello()["long"] == long  # nothing of the pings is left in the way
        client.close()
        server.shutdown()
    assert [message["name"] for message in got] == [long, long]


# -- refusals ----------------------------------------------------------------------------------------------------------


@TRANSPORTS
def test_a_refusal_has_its_code_its_words_and_where_it_was(transport: str) -> None:
    with serving() as server:
        client = PolicyClient(server.url, transport=transport)
        client.start("e")
        with pytest.raises(PolicyClientError, match="finite numbers") as refused:
            client.act(episode="e", t=0, agents={"a": {"obs": [1, 2, 3]}})
        assert (refused.value.code, refused.value.details["agent"], refused.value.details["key"]) == (
            "space",
            "a",
            "obs",
        )
        with pytest.raises(PolicyClientError, match="JSON") as refused:
            client.act(episode="e", t=0, agents={"a": {"obs": [1, 2, 3, float("nan")]}})
        assert refused.value.code == "misuse"
        with pytest.raises(PolicyClientError) as refused:
            client.act(episode="e", t=3, agents={})
        assert (refused.value.code, refused.value.details["expected"]) == ("out_of_order", 0)
        assert client.act(episode="e", t=0, agents={"a": {"obs": OBS}})["actions"] == {"a": 1}  # nothing was counted
        client.close()


@TRANSPORTS
def test_a_wrong_token_is_told_and_a_right_one_lets_in(transport: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 32)
    (tmp_path / "token").chmod(0o600)
    with serving(token_file=tmp_path / "token") as server:
        with pytest.raises(PolicyClientError) as refused:
            PolicyClient(server.url, token="wrong", transport=transport if transport == "http" else "auto").hello()
        assert refused.value.code == "unauthorized"
        client = PolicyClient(server.url, "t" * 32, transport=transport)
        assert client.hello()["protocol"] == "marl/1"
        client.close()


def test_what_is_no_marl_server_is_called_so() -> None:
    class Page(OnlyPosts):
        def do_POST(self) -> None:
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(PolicyClientError, match="no marl server"):
            PolicyClient(f"http://127.0.0.1:{other.server_address[1]}").hello()
        other.shutdown()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"address": "ftp://here"}, "address"),
        ({"address": "127.0.0.1:1", "transport": "mail"}, "transport"),
        ({"address": "127.0.0.1:1", "inference_mode": "lokal"}, "inference_mode"),
    ],
)
def test_a_mistyped_option_is_told_before_anything_is_sent(given: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyClientError, match=told):
        PolicyClient(**given)


def test_a_closed_client_waits_for_nobody() -> None:
    client = PolicyClient("http://127.0.0.1:9")
    client.close()
    with pytest.raises(PolicyClientError, match="has been closed"):
        client.hello()


# -- one file ----------------------------------------------------------------------------------------------------------

ALONE = """
import sys
assert not any("site-packages" in place for place in sys.path)
from marl_client import PolicyClient
client = PolicyClient(sys.argv[1])
episode = client.start_episode()
assert client.get_action(episode, [0.5, 0.5, 0.5, 0.5]) in (0, 1)
client.log_returns(episode, 1.0)
print(client.end_episode(episode, [0.5, 0.5, 0.5, 0.5]))
client.close()
assert not any(name.partition(".")[0] in ("numpy", "marl") for name in sys.modules)
"""


def test_the_file_alone_plays_where_nothing_else_is_installed(tmp_path: Path) -> None:
    (tmp_path / "marl_client.py").write_bytes(Path(marl.client.__file__).read_bytes())
    (tmp_path / "play.py").write_text(ALONE)
    _, hub = drawing_server(one_agent())
    with serving(hub) as server:
        # Without site-packages and without the environment's PYTHONPATH: only what Python brings.
        done = subprocess.run(
            [sys.executable, "-S", "-E", str(tmp_path / "play.py"), server.url],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stdout.strip()) == (0, "{'agent_0': 1.0}"), done.stderr


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@TRANSPORTS
def test_a_certificate_that_is_trusted_by_hand_lets_talk_and_an_unknown_one_does_not(
    transport: str, tmp_path: Path
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    named = ["-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *named], check=True, capture_output=True)
    with serving(tls_cert=cert, tls_key=key) as server:
        assert server.url.startswith("https://")
        client = PolicyClient(server.url, transport=transport, cafile=str(cert))
        assert client.start("e")["seed"] == 7
        client.close()
        with pytest.raises(PolicyClientError, match="does not answer"):
            PolicyClient(server.url, transport=transport, patience=0.0).hello()
