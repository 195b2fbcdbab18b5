"""``python -m tests.serve.faults``: a run in lock-step under 1,000 faults of clients and network and 10 deaths of its server.

Connections are cut before a message is sent and after it was answered, messages are sent twice at once and once more when
they are old, clients and the server are killed with -9. In the end all weights and result lines have to equal those of the
same run in one process, and nothing may be lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from marl.client import PolicyClient, PolicyClientError
from marl.driving import RemoteEnv, contract_of
from marl.envs.registry import make_env
from marl.runs.saved import SavedRun
from tests.serve.runs import external, played_here, same_weights, told

ENV = "CartPole-v1"
KEYS: dict[str, Any] = {
    "algo": {"name": "ppo", "train_batch_size": 128, "sgd_minibatch_size": 64, "num_sgd_iter": 2}, "num_envs_per_worker": 2,
    "evaluation": {"interval": 0}, "seed": 7, "horizon": 40, "checkpoint_freq": 3, "log_sys_usage": False,
}  # fmt: skip
CUT_BEFORE, CUT_AFTER, TWICE, OLD = "cut before", "cut after", "twice", "old"
COUNTED = re.compile(r"^marl_(accepted|answered|repeated|replayed|lost|doubled)(?:_total)? (\S+)", re.MULTILINE)
KINDS = (CUT_BEFORE, CUT_AFTER, TWICE, OLD)


class FaultyClient(PolicyClient):
    """A client whose network fails again and again, drawn from a seed; ``faults`` counts what happened."""

    def __init__(self, url: str, name: str, chance: float, seed: int, log: Path, **options: Any) -> None:
        super().__init__(url, name=name, timeout=20.0, patience=120.0, **options)
        self._chance, self._drawn, self._log = chance, random.Random(seed), log
        self._old: tuple[str, str] | None = None

    def _ask_once(self, kind: str, message: str) -> tuple[int, bytes]:
        fault = None
        if self._drawn.random() < self._chance:
            fault = self._drawn.choice(KINDS)
            with self._log.open("a") as file:
                file.write(f"{fault}\n")
        if fault == CUT_BEFORE:
            raise ConnectionError("cut before the message was sent")
        if fault == TWICE:
            return self._ask_twice(kind, message)
        if fault == OLD and self._old is not None:
            super()._ask_once(*self._old)
        answer = super()._ask_once(kind, message)
        if fault == CUT_AFTER:
            raise ConnectionError("cut before the answer came")
        self._old = (kind, message)
        return answer

    def _ask_twice(self, kind: str, message: str) -> tuple[int, bytes]:
        """The same message at the same time on two connections: both have to get the same answer."""
        answers: list[tuple[int, bytes]] = []

        def ask() -> None:
            answers.append(PolicyClient._ask_once(self, kind, message))

        second = threading.Thread(target=ask)
        second.start()
        ask()
        second.join()
        said = [{key: value for key, value in json.loads(body).items() if key != "id"} for _, body in answers]
        assert said[0] == said[-1], f"two answers to one message: {said}"
        return answers[0]


@contextmanager
def over() -> Iterator[None]:
    """The run may cut an episode off, at its horizon: then the next one begins."""
    try:
        yield
    except PolicyClientError as error:
        if error.code != "ended":
            raise


def play(url: str, name: str, chance: float, seed: int, log: Path) -> None:
    """What a client's process does, until it is killed or the run has ended."""
    env = make_env(ENV)
    agents, state_size = contract_of(env)
    client = FaultyClient(url, name, chance, seed, log, agents=agents, state_size=state_size)
    remote = RemoteEnv(env, client)
    for again in client.hello()["open"]:
        with over():
            remote.rejoin(again)
    while True:
        with over():
            remote.play()


class Ordeal:
    """A server, two clients, and somebody who kills them."""

    def __init__(self, folder: Path, iterations: int, chance: float) -> None:
        self.folder, self.chance, self.log = folder, chance, folder / "faults.txt"
        self.log.touch()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        keys = external(ENV, KEYS, port=port)
        scenario = {**keys, "env": "external", "stop": {"training_iteration": iterations}, "name": "ordeal"}
        (folder / "ordeal.yaml").write_text(yaml.safe_dump(scenario))
        self.iterations, self.drawn = iterations, random.Random(1)
        self.server: subprocess.Popen[str] | None = None
        self.clients: dict[str, subprocess.Popen[str]] = {}
        self.killed = {"server": 0, "client": 0}
        self.counted: dict[str, int] = {}  # the largest value that any server told

    @property
    def directory(self) -> Path | None:
        found = list((self.folder / "results").glob("*/*/result.json"))
        return found[0].parent if found else None

    def start_server(self) -> None:
        run = [sys.executable, "-m", "marl.run"]
        there = self.directory
        words = [str(self.folder / "ordeal.yaml"), "--local-dir", str(self.folder / "results")]
        if there is not None:
            words = ["--resume", str(there)]
        with (self.folder / "server.txt").open("a") as out:
            self.server = subprocess.Popen([*run, *words], stdout=out, stderr=out, text=True)

    def start_client(self, name: str) -> None:
        words = ["client", self.url, name, str(self.chance), str(self.drawn.randrange(2**31)), str(self.log)]
        with (self.folder / f"{name}.txt").open("a") as out:
            self.clients[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.serve.faults", *words], stdout=out, stderr=out
            )

    def kill_server(self) -> None:
        assert self.server is not None
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        self.killed["server"] += 1
        self.start_server()

    def kill_client(self) -> None:
        name = self.drawn.choice(list(self.clients))
        self.clients[name].send_signal(signal.SIGKILL)
        self.clients[name].wait()
        self.killed["client"] += 1
        self.start_client(name)

    @property
    def lines(self) -> list[dict[str, Any]]:
        there = self.directory
        if there is None:
            return []
        return [json.loads(line) for line in (there / "result.json").read_text().splitlines()]

    def go(self, server_kills: int, client_kills: int, patience_s: float) -> None:
        """Kills are spread over the iterations of the run."""
        self.start_server()
        for name in ("first", "second"):
            self.start_client(name)
        deadline, done = time.monotonic() + patience_s, 0
        total = server_kills + client_kills
        order = ["server"] * server_kills + ["client"] * client_kills
        self.drawn.shuffle(order)
        try:
            while self.server is not None and self.server.poll() is None:
                assert time.monotonic() < deadline, self.told()
                due = done < total and len(self.lines) * (total + 1) >= (done + 1) * self.iterations
                if due:
                    time.sleep(self.drawn.random())  # anywhere in an iteration
                    if self.server.poll() is None:
                        getattr(self, f"kill_{order[done]}")()
                    done += 1
                self.look_at_counters()
                time.sleep(0.02)
        finally:
            self.end()
        assert self.server is not None
        assert self.server.returncode == 0, self.told()

    def look_at_counters(self) -> None:
        """What the server itself counts; while it is dead there is nobody to ask."""
        with suppress(OSError), urlopen(f"{self.url}/v1/metrics", timeout=2.0) as response:
            for name, value in COUNTED.findall(response.read().decode()):
                self.counted[name] = max(self.counted.get(name, 0), int(float(value)))

    def told(self) -> str:
        return (self.folder / "server.txt").read_text()[-3000:]

    def end(self) -> None:
        for process in [self.server, *self.clients.values()]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def judge(self) -> dict[str, Any]:
        """What happened, after all of it has been compared with the run in one process."""
        lines, here = played_here(ENV, {**KEYS, "stop": {"training_iteration": self.iterations}}, self.iterations)
        assert self.directory is not None
        saved = SavedRun.open(self.directory).weights
        weights = {f"{policy}/{name}": array for policy, arrays in saved.items() for name, array in arrays.items()}
        assert same_weights(weights, here), "the weights differ"
        kept = [told(json.loads(json.dumps(line))) for line in self.lines]
        expected = [told(json.loads(json.dumps({**line, "config": {}}, default=str))) for line in lines]
        assert kept == expected, "result lines differ"
        assert (self.counted["lost"], self.counted["doubled"]) == (0, 0), self.counted
        faults = self.log.read_text().split("\n")
        counted = {kind: faults.count(kind) for kind in KINDS}
        everything = sum(counted.values()) + sum(self.killed.values())
        return {"faults": counted, "killed": self.killed, "all": everything, "counters": self.counted}


def main(words: Sequence[str]) -> int:
    if words and words[0] == "client":
        url, name, chance, seed, log = words[1:]
        play(url, name, float(chance), int(seed), Path(log))
        return 0
    parser = argparse.ArgumentParser("python -m tests.serve.faults")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--chance", type=float, default=0.3, help="Of a fault, per message.")
    parser.add_argument("--server-kills", type=int, default=10)
    parser.add_argument("--client-kills", type=int, default=10)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        ordeal = Ordeal(Path(folder), given.iterations, given.chance)
        ordeal.go(given.server_kills, given.client_kills, patience_s=1800.0)
        print(json.dumps(ordeal.judge()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
