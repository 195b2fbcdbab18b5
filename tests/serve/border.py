"""``python -m tests.serve.border 100000``: a server in a process of its own under frames that no honest client sends.

``--seconds 3600`` goes on for so long instead. All the while an honest client plays an episode beside it, whose answers have to be
right. Exit code 1 where anything was wrong: a traceback, an error of the server's own, a lost answer, memory that grows.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.serve.instant import act, ask
from tests.serve.server_process import ServerProcess, growth
from tests.serve.strange import Strange

BATCH = 25  # frames of one socket
PATIENCE = 300.0  # seconds: a server that hangs, not a machine that is busy


@dataclass
class Report:
    frames: int = 0
    answers: int = 0
    unanswered: int = 0  # starts that wait for other parties
    closed: int = 0  # sockets that the server closed
    codes: dict[str, int] = field(default_factory=dict)  # of answers on sockets
    statuses: dict[str, int] = field(default_factory=dict)  # of answers to requests
    honest: int = 0  # right answers of the honest client
    memory: list[float] = field(default_factory=list)  # MiB of the server, over time
    wrong: list[str] = field(default_factory=list)


class Border(ServerProcess):
    """Sends strange frames to a server in a process of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.strange = Strange(self.rng)
        self.report = Report()
        self.honest = self.connect()
        self.session = ask(self.honest, type="hello", protocol="marl/1")["session"]
        ask(self.honest, type="start", session=self.session, episode="honest")

    def run(self, frames: int, seconds: float = 0.0) -> Report:
        end = time.monotonic() + seconds
        while self.report.frames < frames or time.monotonic() < end:
            self.frames_on_a_socket()
            for _ in range(3):
                self.talk(self.strange.request(self.host, self.token))
            for _ in range(2):
                self.talk(self.strange.noise(self.host, self.token), patience=0.02)
            self.play_honestly()
            self.report.memory.append(self.memory())
        self.finish()
        return self.report

    # -- strange ones --------------------------------------------------------------------------------------------

    def frames_on_a_socket(self) -> None:
        """A batch of frames; each has to be answered, whatever it was."""
        with self.connect() as ws:
            greeting = ask(ws, type="hello", protocol="marl/1", name=f"fuzz {self.rng.randrange(20)}")
            self.strange.session = greeting.get("session", self.strange.session)
            self.strange.episode = f"episode {self.report.frames}"
            ask(ws, type="start", session=self.strange.session, episode=self.strange.episode)
            self.strange.t = 0
            sent = []
            for number in range(BATCH):
                self.strange.t = number // 6  # some of them are taken, so that later ones are in their turn
                sent.append(self.strange.frame())
            with suppress(ConnectionClosed):  # by the server, for a frame that is too large: the rest is not read
                for frame in sent:
                    ws.send(frame)
                    self.report.frames += 1
                ws.send('{"type": "hello", "protocol": "marl/1", "id": "fence"}')
            self._count_answers(ws, sent)

    def _count_answers(self, ws: ClientConnection, sent: list[str | bytes]) -> None:
        answers = 0
        try:
            while True:
                answer = _read(ws.recv(timeout=PATIENCE))
                if answer.get("id") == "fence":
                    break
                answers += 1
                self._look_at(answer)
        except ConnectionClosed:
            self.report.closed += 1
            return
        missing = len(sent) - answers
        waiting = sum(b"parties" in _bytes(frame) for frame in sent)
        if missing > waiting:
            self.report.wrong.append(f"{missing} of {len(sent)} frames were not answered, of which {waiting} may wait")
        self.report.answers += answers
        self.report.unanswered += missing

    def _look_at(self, answer: dict[str, Any]) -> None:
        code = answer["error"]["code"] if answer.get("type") == "error" else str(answer.get("type"))
        self.report.codes[code] = self.report.codes.get(code, 0) + 1
        if code == "internal":
            self.report.wrong.append(f"the server made a mistake: {answer}")

    def talk(self, sent: bytes, patience: float = PATIENCE) -> None:
        """Send bytes and read whatever comes back; after so many seconds hang up on a server that waits for more."""
        self.report.frames += 1
        host, _, port = self.host.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=PATIENCE) as connection,
            suppress(ConnectionError, TimeoutError),
        ):
            connection.sendall(sent)
            connection.settimeout(patience)
            answer = connection.recv(65536)
            status = answer.partition(b"\r\n")[0]
            self.report.statuses[status[9:12].decode("latin-1")] = (
                self.report.statuses.get(status[9:12].decode("latin-1"), 0) + 1
            )
            if not status.startswith(b"HTTP/1.1 ") or b" 500 " in status:
                self.report.wrong.append(f"{sent[:300]!r} was answered by {answer[:300]!r}")

    # -- the honest one ------------------------------------------------------------------------------------------

    def play_honestly(self) -> None:
        t = self.report.honest
        told = ask(self.honest, **act(self.session, "honest", t, id=t))
        if (told.get("id"), told.get("t"), told.get("actions")) != (t, t, {"a": 1}):
            self.report.wrong.append(f"the honest client got {told}")
        self.report.honest += 1

    def finish(self) -> None:
        self.honest.close()
        self.report.wrong += self.stop()


def _read(frame: str | bytes) -> dict[str, Any]:
    found: dict[str, Any] = (
        json.loads(frame) if isinstance(frame, str) else msgpack.unpackb(frame, unicode_errors="surrogatepass")
    )
    return found


def _bytes(frame: str | bytes) -> bytes:
    return frame.encode("utf-8", "surrogatepass") if isinstance(frame, str) else frame


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frames", nargs="?", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("websockets").setLevel(
        logging.CRITICAL
    )  # the client's side, which is cut off in the middle of frames
    border = Border(options.seed)
    stop = threading.Event()
    if options.seconds:
        threading.Thread(target=_tell, args=(border, stop), daemon=True).start()
    report = border.run(options.frames, options.seconds)
    stop.set()
    print(
        f"{report.frames} frames and requests, {report.answers} answers, {report.closed} sockets closed by the server,"
    )
    print(
        f"{report.honest} honest answers; memory {report.memory[0]:.1f} -> {report.memory[-1]:.1f} MiB, growth {growth(report.memory):.1f}"
    )
    print(json.dumps(report.codes, sort_keys=True))
    print(json.dumps(report.statuses, sort_keys=True))
    for one in report.wrong[:20]:
        print(f"WRONG: {one}")
    return int(bool(report.wrong) or growth(report.memory) > 8.0)


def _tell(border: Border, stop: threading.Event) -> None:
    while not stop.wait(60):
        print(
            f"{border.report.frames} frames, {border.report.memory[-1]:.1f} MiB, {len(border.report.wrong)} wrong",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
