"""Who may talk to the page's server, what it tells browsers, and what it does with requests that nobody should send."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from marl.serve.config import ServerConfig
from marl.serve.refused import Refused
from marl.watch import workers
from marl.watch.app import MOST_SAVED, build_app
from marl.watch.desk import Desk
from marl.watch.jobs import Jobs
from marl.watch.replies import MOST_BODY
from marl.watch.server import WatchServer
from marl.watch.workers import Worker
from tests.watch import tasks
from tests.watch.browser import wait_until, watched
from tests.watch.walk import ODD, Route, client, routes, strange_object

SECRET_TEXT = "what-nobody-may-read"
ESCAPES = (
    "..",
    "../outside",
    "../outside/run",
    "/etc/passwd",
    "link",
    "link/run",
    "run/../../outside",
    "\x00",
    "a" * 5000,
    "~",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchServer]:
    """Over a folder with a link to another one, which looks like a run and holds a secret."""
    place = tmp_path_factory.mktemp("safety")
    results, outside = place / "results", place / "outside" / "run"
    (results / "run").mkdir(parents=True)
    outside.mkdir(parents=True)
    line = {"training_iteration": 1, "episode_reward_mean": 1.0, "note": SECRET_TEXT, SECRET_TEXT: 2.0}
    for name in ("result.json", "status.json", "params.json", "policy.json"):
        (outside / name).write_text(json.dumps(line) + "\n")
    (outside / "params.yaml").write_text(f"env: {SECRET_TEXT}\n")
    (results / "link").symlink_to(outside.parent)
    with watched(results) as found:
        yield found


def all_routes(server: WatchServer) -> list[Route]:
    found = list(routes(build_app(server.desk)))
    assert len(found) >= 20  # otherwise the walk misses some
    return found


# -- who -----------------------------------------------------------------------------------------------------------------


def test_every_route_needs_the_token(server: WatchServer) -> None:
    with client(server, token=False) as stranger:
        for route in all_routes(server):
            for shown in ({}, {"authorization": "Bearer x"}, {"authorization": f"Basic {server.desk.secret}"}):
                answer = stranger.request(route.method, route.at(), headers=shown)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), route


def test_pages_and_names_of_others_are_refused_even_with_the_token(server: WatchServer) -> None:
    with client(server) as friend:
        for route in all_routes(server):
            for shown in ({"origin": "http://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
                answer = friend.request(route.method, route.at(), headers=shown)
                assert answer.status_code == 403, (route, shown)
                assert answer.json()["error"]["code"] in ("forbidden_origin", "forbidden_host")
                assert "access-control-allow-origin" not in answer.headers


def test_the_token_in_an_address_counts_for_nothing(server: WatchServer) -> None:
    with client(server, token=False) as stranger:
        for name in ("token", "access_token", "authorization"):
            assert stranger.get("/api/jobs/1", params={name: server.desk.secret}).status_code == 401


def test_there_is_no_list_of_routes_and_no_socket(server: WatchServer) -> None:
    with client(server) as friend:
        for path in ("/docs", "/openapi.json", "/redoc", "/static/", "/static/js", "/api"):
            assert friend.get(path).status_code == 404, path


class _Elsewhere(BaseHTTPRequestHandler):
    """A stranger's page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


ATTACK = """
const [url, token] = arguments;
const tries = {
  read: () => fetch(`${url}/api/jobs/1`, {headers: {authorization: `Bearer ${token}`}}).then((r) => r.text()),
  write: () => fetch(`${url}/api/saved`, {method: "POST", headers: {"content-type": "application/json",
    authorization: `Bearer ${token}`}, body: "{}"}).then((r) => r.text()),
  plain: () => fetch(`${url}/api/saved`, {method: "POST", body: "{}"}).then((r) => r.text()),
  page: () => fetch(`${url}/`).then((r) => r.text()),
  frame: () => new Promise((resolve) => { const f = document.createElement("iframe"); f.src = url;
    f.onload = () => { try { resolve(f.contentDocument === null ? null : f.contentDocument.title); } catch { resolve(null); } };
    document.body.append(f); }),
  script: () => new Promise((resolve) => { const s = document.createElement("script"); s.src = `${url}/static/js/dom.js`;
    s.type = "module"; s.onload = () => resolve("loaded"); s.onerror = () => resolve(null); document.body.append(s); }),
};
window.found = {};
const all = Object.entries(tries).map(([name, go]) => go().then((got) => { window.found[name] = got; },
  () => { window.found[name] = null; }));
Promise.all(all).then(() => { window.finished = true; });
"""


@pytest.mark.slow
def test_a_page_of_another_origin_gets_nothing_even_if_it_knew_the_token(browser: Any, server: WatchServer) -> None:
    elsewhere = ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    try:
        browser.get(f"http://localhost:{elsewhere.server_port}/")
        browser.execute_script(ATTACK, server.url, server.desk.secret)
        wait_until(browser, "window.finished", "the attack has ended")
        found = browser.execute_script("return window.found")
    finally:
        elsewhere.shutdown()
        elsewhere.server_close()
    assert found == {"read": None, "write": None, "plain": None, "page": None, "frame": None, "script": None}


# -- what browsers are told ----------------------------------------------------------------------------------------------


def test_all_answers_say_how_little_may_be_done_with_them(server: WatchServer) -> None:
    with client(server) as friend:
        answers = [friend.request(route.method, route.at()) for route in all_routes(server)]
        answers += [friend.get(path) for path in ("/", "/static/js/dom.js", "/static/icon.svg", "/nothing")]
        answers += [friend.get("/", headers={"host": "evil.example"}), friend.put("/"), friend.get("/api/jobs/x")]
        answers += [httpx.get(f"{server.url}/api/jobs/1", trust_env=False)]
    for answer in answers:
        told = answer.headers
        assert told["x-content-type-options"] == "nosniff", answer.url
        assert told["cache-control"] == "no-store", answer.url
        assert told["referrer-policy"] == "no-referrer"
        assert told["cross-origin-resource-policy"] == "same-origin"
        assert told["x-frame-options"] == "DENY"
        policies = told.get_list("content-security-policy")
        assert len(policies) == 1, answer.url
        assert "default-src 'none'" in policies[0]
        assert "frame-ancestors 'none'" in policies[0]
        assert "server" not in told


def test_errors_of_the_library_have_our_form(server: WatchServer) -> None:
    with client(server) as friend:
        for answer, status, code in (
            (friend.get("/api/jobs/x"), 422, "bad_message"),
            (friend.get("/api/jobs/" + "9" * 5000), 422, "bad_message"),
            (friend.get("/api/nothing"), 404, "not_found"),
            (friend.put("/api/jobs/1"), 405, "wrong_method"),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
            assert len(answer.json()["error"]["message"]) < 400


# -- names of files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ESCAPES, "\ud800", "link/run/result.json", "run/" * 2000])
def test_only_what_is_in_the_folder_can_be_named(server: WatchServer, name: str) -> None:
    with pytest.raises(Refused) as refused:
        server.desk.inside(name)
    assert refused.value.status == 404
    assert len(str(refused.value)) < 300


def test_a_name_that_is_no_text_is_refused(server: WatchServer) -> None:
    for name in (None, 1, [], {}):
        with pytest.raises(Refused):
            server.desk.inside(name)  # type: ignore[arg-type]


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(Refused):
        Desk(tmp_path, ServerConfig(port=0), "x" * 43).inside("a")


@pytest.mark.slow
def test_no_route_reads_what_is_outside_of_the_folder(server: WatchServer) -> None:
    with client(server) as friend:
        for route in all_routes(server):
            for name in ESCAPES:
                for answer in _asked(friend, route, name):
                    assert answer.status_code < 500, (route, name, answer.text)
                    assert SECRET_TEXT not in _with_its_job(friend, answer), (route, name)


def _asked(friend: httpx.Client, route: Route, name: str) -> Iterator[httpx.Response]:
    """The same name in every place that a route has for one."""
    quoted = "".join(f"%{byte:02x}" for byte in name.encode())
    yield friend.request(route.method, route.at(quoted))
    if route.words:
        yield friend.request(route.method, route.at(), params=dict.fromkeys(route.words, name))
    if route.method == "POST":
        for word in ("run", "recording", "path", "checkpoint", "name", "report"):
            yield friend.post(route.at(), json={word: name})
            yield friend.post(route.at(), json={"request": {word: name}, "run": "run", word: name})


def _with_its_job(friend: httpx.Client, answer: httpx.Response) -> str:
    """The answer, and what the work that it began gives."""
    text = answer.text
    try:
        number = answer.json().get("job")
    except (ValueError, AttributeError):
        return text
    while isinstance(number, int):
        told = friend.get(f"/api/jobs/{number}")
        text += told.text
        if told.status_code != 200 or told.json()["state"] in ("done", "failed"):
            break
    return text


# -- bodies --------------------------------------------------------------------------------------------------------------


def test_bodies_that_are_too_large_too_deep_or_no_objects_are_refused(server: WatchServer) -> None:
    typed = {"content-type": "application/json"}
    bodies = {
        b'{"a":' * 5000 + b"1" + b"}" * 5000: 400,
        b'{"a":' + b"[" * 101 + b"]" * 101 + b"}": 400,
        b"[]": 400, b"": 400, b"\xff": 400, b'{"a": NaN}': 400, b'{"a": Infinity}': 400, b'{"a": ' + b"9" * 5000 + b"}": 400,
    }  # fmt: skip
    reading = [route for route in all_routes(server) if route.method == "POST"]
    with client(server) as friend:
        for body, status in bodies.items():
            answer = friend.post("/api/saved", content=body, headers=typed)
            assert answer.status_code == status, (body[:40], answer.text)
        assert friend.post("/api/saved", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
        for route in reading:
            most = MOST_SAVED if route.path == "/api/saved" else MOST_BODY
            large = friend.post(route.at(), content=b'{"a":"' + b"a" * most + b'"}', headers=typed)
            assert large.status_code in (404, 413), (route, large.text[:200])


def strange_requests(server: WatchServer, n: int, seed: int) -> Iterator[tuple[Route, str, httpx.Response]]:
    """So many requests to every route, with values of all kinds under all words, and what came of them."""
    chance = random.Random(seed)
    known = ("run", "link", "two_step_game", "kuhn_poker", "tictactoe", "default_policy", "player_0", "random")
    folders = (path for path in server.desk.root.rglob("*") if path.is_dir() and not path.is_symlink())
    names = (*known, *(str(path.relative_to(server.desk.root)) for path in folders))
    with client(server) as friend:
        for route in all_routes(server):
            for _ in range(n):
                place = "".join(f"%{byte:02x}" for byte in str(chance.choice(ODD)).encode("utf-8", "replace"))
                words = {word: str(chance.choice((*ODD, *names))).encode("utf-8", "replace") for word in route.words}
                body = strange_object(chance, names)
                path = route.at(chance.choice((place, "1", "run")))
                answer = friend.request(
                    route.method,
                    path,
                    params=words,
                    content=json.dumps(body),
                    headers={"content-type": "application/json"},
                )
                yield route, f"{path} {words} {body}", answer


@pytest.mark.slow
def test_strange_requests_are_never_a_mistake_of_the_server(server: WatchServer) -> None:
    for route, asked, answer in strange_requests(server, 12, seed=0):
        assert answer.status_code < 500, (route, asked, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error"}, (route, asked)
            assert answer.json()["error"]["message"]
        with client(server) as friend:
            worked = _with_its_job(friend, answer)
        assert '"code":"internal"' not in worked, (route, asked, worked)


# -- work ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def work_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "work", tasks.work)


@pytest.mark.slow
@pytest.mark.usefixtures("work_of_tests")
def test_work_that_waits_can_be_given_up_without_ending_the_work_before_it(tmp_path: Path) -> None:
    async def story() -> Any:
        jobs, worker = Jobs(), Worker("test")
        file = tmp_path / "file"
        first = jobs.start(worker, "tests.watch.tasks:until_there", {"file": str(file)})
        while jobs.get(first)["state"] == "waiting":
            await asyncio.sleep(0.01)
        waiting = [jobs.start(worker, "tests.watch.tasks:forever", {}) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert {jobs.get(number)["state"] for number in waiting} == {"waiting"}
        # The server's other threads are not taken by those who wait.
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 10) == "free"
        for number in waiting:
            jobs.stop(number)
        file.touch()
        while (told := jobs.get(first))["state"] == "running":
            await asyncio.sleep(0.01)
        worker.close()
        return told

    assert asyncio.run(story())["result"] == "done"


@pytest.mark.slow
@pytest.mark.usefixtures("work_of_tests")
def test_work_that_is_broken_off_ends_and_the_next_begins_anew(tmp_path: Path) -> None:
    async def story() -> Any:
        jobs, worker = Jobs(), Worker("test")
        first = jobs.start(worker, "tests.watch.tasks:forever", {})
        while not jobs.get(first)["text"]:
            await asyncio.sleep(0.01)
        jobs.stop(first)
        (tmp_path / "file").touch()
        second = jobs.start(worker, "tests.watch.tasks:until_there", {"file": str(tmp_path / "file")})
        while (told := jobs.get(second))["state"] in ("waiting", "running"):
            await asyncio.sleep(0.01)
        worker.close()
        return told

    assert asyncio.run(story())["result"] == "done"
