"""From the threads that play to the network's event loop: answers, and those who wait for them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from marl.serve.open_episode import Waiter
from marl.serve.refused import Refused


class Delivery:
    """Brings answers of any thread to their waiters; many answers at once wake the loop up once."""

    def __init__(self) -> None:
        self._outbox: deque[tuple[Waiter, dict[str, Any] | Refused]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False
        self._lock = threading.Lock()
        self._asleep = False
        self.waiting = 0  # requests that wait now, those that were sent again included

    @contextmanager
    def to_threads(self) -> Iterator[None]:
        """Whoever asks in this block, under the hub's lock, is a thread of this process that will sleep."""
        self._asleep = True
        try:
            yield
        finally:
            self._asleep = False

    def waiter(self) -> Waiter:
        """A new place in the queue, on the running loop."""
        if self._asleep:
            return Future()
        self._loop = asyncio.get_running_loop()
        return self._loop.create_future()

    async def wait(self, waiter: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        self.waiting += 1
        try:
            return await waiter
        finally:
            self.waiting -= 1

    def send(self, waiter: Waiter, answer: dict[str, Any] | Refused) -> None:
        if isinstance(waiter, Future):
            _fill(waiter, answer)
            return
        self._outbox.append((waiter, answer))
        with self._lock:
            if self._woken or self._loop is None:
                return
            self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            self._woken = False

    def _deliver(self) -> None:
        with self._lock:
            self._woken = False
        while self._outbox:
            waiter, answer = self._outbox.popleft()
            if not waiter.done():  # else its client hung up; it may send the message again
                _fill(waiter, answer)


def _fill(waiter: Waiter, answer: dict[str, Any] | Refused) -> None:
    if isinstance(answer, Refused):
        waiter.set_exception(answer)
    else:
        waiter.set_result(answer)
