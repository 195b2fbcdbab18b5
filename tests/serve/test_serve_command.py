"""``marl serve``: what it says, how it ends, and what it refuses before anything listens."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from marl.envs.registry import make_env
from marl.serve.command import Figures, ServeOptions, live_line, run_server
from marl.serve.metrics import LATENCIES
from tests.command import marl
from tests.serve.players import Driven, PostClient, Refusal, SocketClient, trained

SMALL: dict[str, Any] = {"model": {"fcnet_hiddens": [16]}, "train_batch_size": 64}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("served") / "run", "ppo", "CartPole-v1", **SMALL)


@contextmanager
def command(*words: str) -> Iterator[tuple[str, list[str], subprocess.Popen[str]]]:
    """A running ``marl serve``: its address and what it said until it could be tried."""
    process = subprocess.Popen(
        [sys.executable, "-m", "marl.cli", "serve", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line.rstrip())
            if line.startswith("try: "):
                break
        found = re.search(r"at (http://\S+)", "\n".join(said))
        assert found is not None, said
        yield found[1], said, process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_it_says_where_it_is_who_plays_and_how_to_try_it_and_ends_with_0(run: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    with command(str(run), "--port", "0", "--token-file", str(token)) as (url, said, process):
        assert "policy default_policy (ppo) plays agent_0" in said
        assert "agent agent_0: Box[4] -> Discrete(2)" in said
        assert f"token: {token}" in said
        assert token.stat().st_mode & 0o777 == 0o600
        tried = subprocess.run(["sh", "-c", said[-1].removeprefix("try: ")], capture_output=True, text=True, timeout=30)
        assert '"session"' in tried.stdout, tried
        one = Driven(SocketClient(url, token=token.read_text().strip()), make_env("CartPole-v1"))
        one.step()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0, rest
        assert "stopped: all that was asked has been answered." in rest


def test_bad_input_is_one_sentence_and_2(run: Path, tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = str(taken.getsockname()[1])
    cases = {
        "does not exist": [str(tmp_path / "nothing")],
        "is in use by another program": [str(run), "--port", port],
        "can be reached by other machines": [str(run), "--host", "0.0.0.0"],
        "max_body": [str(run), "--max-body", "0"],
        "cannot be used": [str(run), "--port", "0", "--tls-cert", __file__, "--tls-key", __file__],
        "tls_key": [str(run), "--tls-cert", __file__],
        "there is no policy and no agent of this name": [str(run), "--policy", "nobody=random"],
        "do not go together": [str(run), "--replicas", "2", "--journal", str(tmp_path)],
    }
    for told, words in cases.items():
        answer = marl("serve", *words)
        assert answer.code == 2, (told, answer)
        assert told in answer.err, (told, answer.err)
        assert "Traceback" not in answer.err
    taken.close()


def test_help_has_an_example() -> None:
    answer = marl("serve", "--help")
    assert "marl serve ~/marl_results/cartpole --port 9900" in " ".join(answer.out.split())


def test_the_live_line_tells_of_the_time_since_the_last_look() -> None:
    empty = (0,) * (len(LATENCIES) + 1)
    before = Figures(3, 100, empty, LATENCIES)
    recent = list(empty)
    recent[LATENCIES.index(0.002)], recent[LATENCIES.index(0.01)] = 60, 40
    now = Figures(5, 200, tuple(recent), LATENCIES)
    assert live_line(before, now, 2.0) == "5 open episodes, 50 acts per second, half of them within 2 ms"
    assert live_line(now, now, 1.0) == "5 open episodes, 0 acts per second, no acts now"


def listening(pid: int) -> set[str]:
    """The addresses on which a process and all those below it listen."""
    found = set()
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    found.add(connection.laddr.ip)
    assert found
    return found


def lose_a_replica(url: str, pid: int) -> None:
    """Kill one by its number: its sessions are told, the others play on, and another one takes its place."""
    played = {}
    while len(played) < 2:
        client = PostClient(url)
        played[client.session.partition(".")[0]] = Driven(client, make_env("CartPole-v1"))
    for one in played.values():
        one.step()
    replicas = [child for child in psutil.Process(pid).children(recursive=True) if "ServeReplica" in child.name()]
    assert len(replicas) == 2
    replicas[0].kill()
    told: dict[str, Any] = {}
    while not told:  # which of the two it was shows in who is refused
        for home, one in played.items():
            try:
                one.step()
            except Refusal as refusal:
                told[home] = refusal.told["code"]
    [(lost, code)] = told.items()
    assert code in ("unreachable", "unknown_session")
    [other] = [one for home, one in played.items() if home != lost]
    other.step()
    homes = set()
    while lost not in homes:
        other.step()
        with suppress(Refusal):
            homes.add(PostClient(url).session.partition(".")[0])
    with pytest.raises(Refusal) as gone:
        played[lost].step()
    assert gone.value.told["code"] == "unknown_session"


@pytest.mark.slow
@pytest.mark.ray
def test_replicas_answer_behind_one_address_and_sessions_stay_where_they_are(run: Path) -> None:
    with command(str(run), "--port", "0", "--replicas", "2", "--seed", "0") as (url, _, process):
        clients = [SocketClient(url), PostClient(url), SocketClient(url), PostClient(url)]
        homes = {client.session.partition(".")[0] for client in clients}
        assert homes == {"0", "1"}
        played = [Driven(client, make_env("CartPole-v1")) for client in clients]
        for _ in range(5):
            for one in played:
                one.step()
        # A session is found again from anywhere: by its id, and by its name.
        elsewhere = PostClient(url, session=clients[0].session)
        assert [one["episode"] for one in elsewhere.hello["open"]] == [played[0].name]
        assert SocketClient(url, name="robot").session == PostClient(url, name="robot").session
        for one in played:
            assert one.end()["length"] == 5
        assert listening(process.pid) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        lose_a_replica(url, process.pid)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
        assert process.returncode == 0, rest
        assert "Traceback" not in rest


def test_without_a_terminal_only_lines_are_printed(run: Path) -> None:
    text, begun = StringIO(), threading.Event()

    class Noted(Console):
        """Ctrl-C comes once, when the server says that it can be tried."""

        def print(self, *objects: Any, **keys: Any) -> None:
            super().print(*objects, **keys)
            if "try: " in text.getvalue() and not begun.is_set():
                begun.set()
                signal.raise_signal(signal.SIGINT)

    run_server(ServeOptions(str(run), {"port": 0}), Noted(file=text, soft_wrap=True))
    lines = text.getvalue().splitlines()
    assert lines[-1] == "stopped: all that was asked has been answered."
    assert shlex.split(lines[-2].removeprefix("try: "))[0] == "curl"
