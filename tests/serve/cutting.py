"""A network between client and server that cuts connections: before a message arrives, or before its answer does."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def cutting(url: str, every: int = 0, lose: Iterable[bytes] = ()) -> Iterator[tuple[str, Callable[[], int]]]:
    """The address of the network, and a function that returns how often it has cut.

    About one in ``every`` pieces is lost, and of pieces that contain one of the texts of ``lose`` the first.
    """
    place = urlsplit(url)
    target = (place.hostname or "", place.port or 80)
    listening = socket.create_server(("127.0.0.1", 0))
    # Drawn: cuts at regular places may always hit the same kind of message.
    draws = random.Random(0)
    done: list[bytes] = []

    texts = list(lose)

    def is_lost(piece: bytes) -> bool:
        for text in texts:
            if text in piece:
                texts.remove(text)
                return True
        return every > 0 and draws.random() < 1 / every

    def carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                if is_lost(piece):
                    done.append(piece)
                    break
                sink.sendall(piece)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(target)
                for end in (client, server):  # or small pieces wait for each other
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", lambda: len(done)
    finally:
        listening.close()
