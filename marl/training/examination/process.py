"""Measuring in a process of its own: weights are handed over, training goes on, the answer comes later.

How much time that may take is a share of the run's (``Budget``).
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # functions and classes of a user's script, as Ray sends them

from marl.data.task import Array, PolicyID
from marl.errors import ConfigError, ExamProcessError
from marl.scenario.resolve import Setup
from marl.training.examination.child import receive, send

LAST_WORDS = 2_000  # characters of what a process said that died
END_S = 5.0
Weights = Mapping[PolicyID, Mapping[str, Array]]


class ExamProcess:
    """One process with an examiner. It is ready, or has refused, when this object is built."""

    def __init__(self, setup: Setup) -> None:
        try:
            message = cloudpickle.dumps(setup)
        except Exception as error:  # whatever a user's object raises when it is taken apart
            raise ConfigError(
                f"exploitability.process own: this run cannot be sent to another process ({error}). Use process: run."
            ) from error
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        self._process = _started(self._words)
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._send(message)
        try:
            ready = self._answer(None)
        except Exception:
            self.close()
            raise
        assert ready is not None
        self.note: str = ready["note"]
        self.expected_s: float = ready["seconds"]

    def ask(self, weights: Weights, number: int) -> None:
        """Hand these weights over; ``answer`` gives what comes of it."""
        self._send(pickle.dumps((weights, number), protocol=pickle.HIGHEST_PROTOCOL))

    def answer(self, wait_s: float | None = 0.0) -> dict[str, Any] | None:
        """What was measured, if it is there within this time; None: for as long as it takes."""
        return self._answer(wait_s)

    def hold(self) -> None:
        """Let it stand still, where the system can do that."""
        if hasattr(signal, "SIGSTOP") and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        if hasattr(signal, "SIGCONT") and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the process; what it was measuring is dropped."""
        self._process.kill()
        self._process.wait(END_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                _shut(pipe)
        self._words.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while True:
            try:
                message = receive(self._process.stdout)  # type: ignore[arg-type]
            except (OSError, ValueError):  # closed while reading
                message = None
            self._answers.put(message)
            if message is None:
                return

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, message)  # type: ignore[arg-type]
        except OSError:
            raise self._lost() from None

    def _answer(self, wait_s: float | None) -> dict[str, Any] | None:
        try:
            message = self._answers.get(timeout=wait_s) if wait_s != 0 else self._answers.get_nowait()
        except queue.Empty:
            return None
        if message is None:
            raise self._lost()
        kind, content = pickle.loads(message)  # from the process that this one started
        if kind == "refused":
            raise content["error"]
        if kind == "failed":
            raise ExamProcessError(f"measuring exploitability failed in its own process:\n{content['text']}")
        return dict(content)

    def _lost(self) -> ExamProcessError:
        code = self._process.wait(END_S)
        self._words.seek(0)
        said = self._words.read().decode(errors="replace")[-LAST_WORDS:].strip()
        return ExamProcessError(
            f"the process that measures exploitability has ended (exit code {code}). {said or 'It said nothing.'}"
        )


def _started(words: Any) -> subprocess.Popen[bytes]:
    # Modules beside the user's script are found there as here.
    path = os.pathsep.join(place for place in sys.path if place)
    return subprocess.Popen(
        [sys.executable, "-m", "marl.training.examination.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=words,
        env={**os.environ, "PYTHONPATH": path},
        # A group of its own: if the run is killed while this process is held up, the system wakes and ends it.
        process_group=0 if hasattr(os, "setpgid") else None,
    )


def _shut(pipe: Any) -> None:
    with suppress(OSError):  # something was still to be written to a process that has ended
        pipe.close()


class Budget:
    """How much time measuring may take: a share of the time since the run began.

    A measurement begins only if it is expected to stay within the share. One that takes longer than expected is held up, and
    goes on when the share has grown.
    """

    def __init__(self, share: float, expected_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.share, self.expected_s, self._clock = share, expected_s, clock
        self.spent_s = 0.0  # on those that have ended
        self._run_began = clock()
        self._began: float | None = None  # the one that is open
        self._held_s = 0.0  # of it
        self._held_since: float | None = None

    @property
    def _allowed_s(self) -> float:
        return self.share * (self._clock() - self._run_began)

    def allows_one(self) -> bool:
        """Whether one more measurement, as long as the longest so far, stays within the share."""
        return self.spent_s + self.expected_s <= self._allowed_s

    def begin(self) -> None:
        self._began, self._held_s, self._held_since = self._clock(), 0.0, None

    def is_overdrawn(self) -> bool:
        """Whether the open one has taken the share to its end."""
        if self._began is None:
            return False
        now = self._held_since or self._clock()
        return self.spent_s + now - self._began - self._held_s > self._allowed_s

    def hold(self) -> None:
        """The open one stands still from now on."""
        if self._held_since is None:
            self._held_since = self._clock()

    def go_on(self) -> None:
        if self._held_since is not None:
            self._held_s += self._clock() - self._held_since
            self._held_since = None

    @contextmanager
    def spending(self) -> Iterator[None]:
        """What takes time for measurements and is none."""
        began = self._clock()
        try:
            yield
        finally:
            self.spent_s += self._clock() - began

    def lose(self) -> None:
        """The open one, if any, will never end: the time that it took is spent, and the next one may take as long."""
        if self._began is not None:
            self.end(self._clock() - self._began)

    def end(self, seconds: float) -> float:
        """The open one has ended so long after it began; what it took without the time in which it was held up."""
        self.go_on()
        took = max(0.0, seconds - self._held_s)
        self.spent_s += took
        self.expected_s = max(self.expected_s, took)
        self._began = None
        return took
