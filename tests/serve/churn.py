"""``python -m tests.serve.churn --seconds 3600``: clients come, play an episode and go; the server's memory stays as it is."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time

from tests.serve.instant import act, ask
from tests.serve.server_process import ServerProcess, growth

STEPS = 5
MOST_GROWTH = 8.0  # MiB; a leak of 1 kB per session would be 30 of them in an hour


class Churn(ServerProcess):
    def __init__(self) -> None:
        super().__init__()
        self.sessions = 0
        self.refused = 0
        self.memories: list[float] = []

    def run(self, sessions: int, seconds: float = 0.0) -> list[str]:
        end = time.monotonic() + seconds
        while self.sessions < sessions or time.monotonic() < end:
            self.come_and_go()
            if self.sessions % 10 == 0:
                self.memories.append(self.memory())
        deadline = time.monotonic() + 30
        while self.metrics()["marl_sessions"] and time.monotonic() < deadline:
            time.sleep(0.2)
        left = {
            name: self.metrics()[name] for name in ("marl_sessions", "marl_sockets", "marl_waiting", "marl_pending")
        }
        wrong = [f"{name} is {count}" for name, count in left.items() if count]
        return wrong + self.stop()

    def tell(self) -> None:
        while True:
            time.sleep(60)
            print(f"{self.sessions} sessions, {self.memories[-1]:.1f} MiB", flush=True)

    def come_and_go(self) -> None:
        """Every third client does not end its episode, every fifth not even waits for its last answer."""
        self.sessions += 1
        with self.connect() as ws:
            hello = ask(ws, type="hello", protocol="marl/1")
            if "error" in hello:  # all places are taken until the silent ones have left
                assert hello["error"]["code"] == "too_many", hello
                self.refused += 1
                time.sleep(0.05)
                return
            session = hello["session"]
            ask(ws, type="start", session=session, episode="e")
            for t in range(STEPS):
                assert ask(ws, **act(session, "e", t))["actions"] == {"a": 1}
            if self.sessions % 5 == 0:
                ws.send(json.dumps(act(session, "e", STEPS)))
            elif self.sessions % 3:
                ask(ws, type="end", session=session, episode="e", t=STEPS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    churn = Churn()
    if options.seconds:
        threading.Thread(target=churn.tell, daemon=True).start()
    wrong = churn.run(options.sessions, options.seconds)
    grown = growth(churn.memories)
    print(f"{churn.sessions} sessions, {churn.refused} of them refused because all places were taken;")
    print(f"memory {churn.memories[0]:.1f} -> {churn.memories[-1]:.1f} MiB, growth {grown:.1f}")
    for one in wrong:
        print(f"WRONG: {one}")
    return int(bool(wrong) or grown > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
