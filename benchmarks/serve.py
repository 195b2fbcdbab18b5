"""How many acts ``marl serve`` answers, how fast, and what its share of a bare echo server is.

    python benchmarks/serve.py [--clients 64] [--seconds 8] [--latency 1 32 256] [--replicas 2] [--json FILE]

A policy of two layers of 64 for CartPole, one WebSocket and one open episode per client. Clients are processes of their own,
whose CPU time is not counted. ``per core`` is answered acts per second of CPU time of the server, all its processes together:
it hardly depends on what else the machine does. The echo is uvicorn alone, which sends every message back as it came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

ECHO = """
import contextlib, socket, uvicorn
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": event["text"]})
listening = socket.create_server(("127.0.0.1", 0))
print(f"at http://127.0.0.1:{listening.getsockname()[1]} ", flush=True)
config = uvicorn.Config(app, log_level="error", ws="websockets-sansio", ws_per_message_deflate=False)
with contextlib.suppress(KeyboardInterrupt):  # it is ended by one
    uvicorn.Server(config).run(sockets=[listening])
"""
WARM_UP_S = 1.0  # after the first episode of every client has begun
CLIENTS_PER_PROCESS = 32
STEPS = 500  # of an episode


@dataclass(frozen=True)
class Load:
    """What clients saw between two moments."""

    clients: int
    acts_per_second: float
    per_core: float  # acts per second of CPU time of the server
    cores: float  # that the server was busy with
    p50_ms: float
    p99_ms: float


# -- clients -------------------------------------------------------------------------------------------------------------


async def play(url: str, number: int, clock: Any, ready: Any, times: list[float], echoes: bool) -> None:
    """One client: acts as fast as it is answered, and notes how long each act of the measured time took.

    ``clock`` holds when that time begins and ends; it is set when all clients are ``ready``.
    """
    from websockets.asyncio.client import connect

    async with connect(url, compression=None) as socket:

        async def say(**message: Any) -> dict[str, Any]:
            await socket.send(json.dumps(message))
            answer: dict[str, Any] = json.loads(await socket.recv())
            assert answer["type"] != "error", answer
            return answer

        hello = await say(type="hello", protocol="marl/1")
        session, episodes = hello.get("session", "0" * 32), 0
        while time.time() < clock[1]:
            episode = f"{number}_{episodes}"
            episodes += 1
            await say(type="start", session=session, episode=episode)
            if episodes == 1:
                ready.release()
            for t in range(STEPS):
                report: dict[str, Any] = {"obs": [0.01 * (number % 7), 0.1, 0.02, -0.1]}
                if t:
                    report["reward"] = 1.0
                sent = time.perf_counter()
                await say(type="act", session=session, episode=episode, t=t, agents={"agent_0": report})
                if clock[0] <= time.time() < clock[1]:
                    times.append(time.perf_counter() - sent)
                elif time.time() >= clock[1]:
                    return
            if not echoes:
                await say(type="end", session=session, episode=episode, t=STEPS)


def client_process(url: str, first: int, count: int, clock: Any, ready: Any, echoes: bool, found: Any) -> None:
    async def all_of_them() -> list[float]:
        times: list[float] = []
        await asyncio.gather(*[play(url, first + i, clock, ready, times, echoes) for i in range(count)])
        return times

    found.put(asyncio.run(all_of_them()))


# -- servers -------------------------------------------------------------------------------------------------------------


@contextmanager
def started(command: list[str]) -> Iterator[tuple[str, int]]:
    """The address and the process id of a server that says where it is in its first line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"at (http://\S+)", process.stdout.readline())
        assert found is not None, "the server did not start"
        yield found[1], process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def cpu_seconds(pid: int) -> float:
    """CPU time so far of a process and all below it: those of Ray belong to replicas."""
    total = 0.0
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def measure(url: str, pid: int, clients: int, seconds: float, echoes: bool = False) -> Load:
    """So many clients at once, for so long after all of them are under way."""
    socket = url.replace("http", "ws", 1) + "/v1/session"
    spawn = multiprocessing.get_context("spawn")
    found = spawn.Queue()
    clock, ready = spawn.Array("d", [math.inf, math.inf], lock=False), spawn.Semaphore(0)
    processes = []
    for first in range(0, clients, CLIENTS_PER_PROCESS):
        count = min(CLIENTS_PER_PROCESS, clients - first)
        given = (socket, first, count, clock, ready, echoes, found)
        processes.append(spawn.Process(target=client_process, args=given))
    for process in processes:
        process.start()
    for _ in range(clients):
        ready.acquire()
    time.sleep(WARM_UP_S)
    begin = time.time()
    clock[1] = begin + seconds
    clock[0] = begin
    before = cpu_seconds(pid)
    time.sleep(seconds)
    cpu = cpu_seconds(pid) - before
    times = sorted(one for _ in processes for one in found.get(timeout=120))
    for process in processes:
        process.join()
    assert times, "nobody was answered"
    p50, p99 = times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3
    return Load(clients, len(times) / seconds, len(times) / max(cpu, 1e-9), cpu / seconds, p50, p99)


# -- the table -----------------------------------------------------------------------------------------------------------


def train(folder: Path) -> Path:
    from marl import Trainer

    keys = {"train_batch_size": 256, "model": {"fcnet_hiddens": [64, 64]}, "seed": 0, "evaluation": {"interval": 0}}
    with Trainer("ppo", env="CartPole-v1", config=keys) as trainer:
        trainer.save(folder / "run")
    return folder / "run"


def serve(run: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "marl.cli", "serve", str(run), "--port", "0", "--max-episodes", "2000", *more]


def show(name: str, load: Load) -> None:
    print(
        f"{name:<14}{load.clients:>8}{load.acts_per_second:>10.0f}{load.per_core:>10.0f}{load.cores:>7.2f}"
        f"{load.p50_ms:>9.2f}{load.p99_ms:>9.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--latency", type=int, nargs="*", default=[1, 32, 256])
    parser.add_argument("--replicas", type=int, default=2, help="0: leave Ray Serve out")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    found: dict[str, Load] = {}
    load_before = os.getloadavg()[0]
    print(f"{'':<14}{'clients':>8}{'acts/s':>10}{'per core':>10}{'cores':>7}{'p50 ms':>9}{'p99 ms':>9}")

    def note(name: str, command: list[str], clients: int, echoes: bool = False) -> None:
        with started(command) as (url, pid):
            found[name] = measure(url, pid, clients, given.seconds, echoes)
        show(name, found[name])

    with tempfile.TemporaryDirectory() as folder:
        run = train(Path(folder))
        note("echo", [sys.executable, "-c", ECHO], given.clients, echoes=True)
        note("serve", serve(run), given.clients)
        for clients in given.latency:
            note(f"serve {clients}", serve(run), clients)
        if given.replicas:
            note(f"{given.replicas} replicas", serve(run, "--replicas", str(given.replicas)), given.clients)
    share = found["serve"].per_core / found["echo"].per_core
    print(f"per core: {found['serve'].per_core:.0f} acts (goal: 2000), {share:.0%} of the echo")
    if given.replicas:
        gain = found[f"{given.replicas} replicas"].acts_per_second / found["serve"].acts_per_second
        print(f"{given.replicas} replicas answer {gain:.2f} times as many acts per second as one process")
    print(f"{os.cpu_count()} cores, load {load_before:.1f} before")
    if given.json is not None:
        given.json.write_text(json.dumps({name: asdict(load) for name, load in found.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
