"""A server in a process of its own, whose memory and log can be looked at."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import psutil
from websockets.sync.client import ClientConnection, connect

from tests.serve.instant import instant_hub, serving

LIMITS = {"max_body": 65536, "max_sessions": 100, "session_timeout_s": 1.0, "episode_timeout_s": 2.0}
AT_ZERO = ("marl_failures_total", "marl_lost_total", "marl_doubled_total")


class ServerProcess:
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        token_file, self.log = Path(self.folder.name) / "token", Path(self.folder.name) / "log"
        command = [sys.executable, "-m", "tests.serve.server_process", str(token_file)]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.host = self.url.removeprefix("http://")
        self.token = token_file.read_text().strip()
        self.headers = {"authorization": f"Bearer {self.token}"}

    def connect(self) -> ClientConnection:
        url = self.url.replace("http", "ws", 1) + "/v1/session"
        # No pings: a machine that is busy with other tests is no server that hangs.
        return connect(
            url,
            compression=None,
            proxy=None,
            additional_headers=self.headers,
            max_size=2**24,
            ping_interval=None,
            open_timeout=60,
        )

    def memory(self) -> float:
        """MiB."""
        return float(psutil.Process(self.process.pid).memory_info().rss / 2**20)

    def metrics(self) -> dict[str, float]:
        text = httpx.get(f"{self.url}/v1/metrics", headers=self.headers, trust_env=False, timeout=60).text
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def stop(self) -> list[str]:
        """What was wrong with it: errors of its own, its health, its log, how it ended."""
        wrong = []
        try:
            counted = self.metrics()
            wrong += [f"{name} is {counted[name]}" for name in AT_ZERO if counted[name]]
            if httpx.get(f"{self.url}/v1/healthz", trust_env=False, timeout=60).json() != {"status": "ok"}:
                wrong.append("health is not ok")
        finally:
            self.process.communicate("", timeout=60)
        if self.process.returncode != 0:
            wrong.append(f"the server ended with {self.process.returncode}")
        logged = self.log.read_text()
        if logged:
            wrong.append(f"the server's log has {logged[:3000]}")
        self.folder.cleanup()
        return wrong


def growth(memory: list[float]) -> float:
    """MiB from the second quarter, when caches are full, to the last: the least of each, because what was just freed is not
    always given back at once."""
    quarter = max(1, len(memory) // 4)
    return min(memory[-quarter:]) - min(memory[quarter : 2 * quarter])


def main() -> None:
    """Says the address, and stops when nobody holds its standard input any more."""
    with serving(instant_hub(**LIMITS), token_file=Path(sys.argv[1]), request_timeout_s=2.0) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
