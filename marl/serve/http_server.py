"""A server of HTTP that runs beside what the program does: uvicorn in a thread of this process.

``start`` comes back when clients can connect, with the address; ``stop`` when all that was asked has been answered. Signals
stay with the caller. What is served is the app of the class below (``marl serve``: ``server.py``, ``marl watch``).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from marl.errors import ConfigError, UserError
from marl.serve.config import ServerConfig
from marl.serve.health import Health

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_log = logging.getLogger(__name__)

BACKLOG = 1024


class ServerError(UserError):
    """The server could not listen."""


class HttpServer:
    """Listens and answers. ``health`` says how it is; ``failed`` is set when it cannot go on."""

    max_message = 1024 * 1024  # bytes of one message of a WebSocket

    def __init__(self, config: ServerConfig) -> None:
        config.check()
        self.config = config
        self.health = Health()
        self.failed = self.health.failed
        self.closing = ""  # why no new requests are taken
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uvicorn: Any = None
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    def app(self) -> ASGIApp:
        """What is served."""
        raise NotImplementedError

    async def drain(self, reason: str, grace_s: float) -> None:
        """Give what is under way its time, then refuse it with the reason."""
        del grace_s
        self.closing = reason

    # -- start ---------------------------------------------------------------------------------------------------

    def start(self, *, ready: bool = True) -> str:
        """Listen, and return the address. With ``ready=False`` health says ``starting`` until ``health.ok()`` is called."""
        listening = _listen(self.config)
        try:
            self._uvicorn = self._build()
        except BaseException:
            listening.close()
            raise
        self._thread = threading.Thread(target=self._run, args=(listening,), name="marl server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self.failed.is_set():
            raise ServerError(f"the server could not start: {self.health.reason}")
        if ready:
            self.health.ok()
        self.url = self._address(listening)
        return self.url

    def _build(self) -> Any:
        import uvicorn

        from marl.serve.http_protocol import limited_protocol

        config = self.config
        settings = uvicorn.Config(
            self.app(), http=limited_protocol(config.request_timeout_s, config.max_sockets),
            ws="websockets-sansio", ws_max_size=self.max_message, ws_per_message_deflate=False, lifespan="on",
            # Addresses that a proxy claims are believed by nobody here, and versions are nobody's business.
            proxy_headers=False, server_header=False,
            log_config=None, log_level="error", access_log=False, timeout_graceful_shutdown=1, backlog=BACKLOG,
            ssl_certfile=config.tls_cert, ssl_keyfile=config.tls_key,
        )  # fmt: skip
        logging.getLogger("uvicorn.error").addFilter(_not_a_mistake_of_clients)
        try:
            settings.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"tls_cert: {config.tls_cert} and tls_key: {config.tls_key} cannot be used ({error}). Expected a "
                "certificate and its private key, both in PEM, without a password."
            ) from error
        return uvicorn.Server(settings)

    def _run(self, listening: socket.socket) -> None:
        try:
            with asyncio.Runner(loop_factory=self._uvicorn.config.get_loop_factory()) as runner:
                runner.run(self._serve(listening))
        except BaseException as error:  # whoever waits has to hear of it, whatever it is
            _log.error("the server's thread failed", exc_info=error)
            self.health.fail(f"{type(error).__name__}: {error}")
        finally:
            listening.close()
            if not self.closing:
                self.health.fail("the server's thread ended")
            self._ready.set()

    async def _serve(self, listening: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(self._uvicorn.serve(sockets=[listening]))
        while not self._uvicorn.started and not serving.done():
            await asyncio.sleep(0.005)
        if not serving.done():
            self._ready.set()
        await serving

    def _address(self, listening: socket.socket) -> str:
        scheme = "http" if self.config.tls_cert is None else "https"
        host, port = listening.getsockname()[:2]
        if ":" in host:
            host = f"[{host}]"
        return f"{scheme}://{host}:{port}"

    # -- stop ----------------------------------------------------------------------------------------------------

    def stop(self, grace_s: float = 5.0, reason: str = "the server was stopped") -> None:
        """Take nothing new; what is under way has ``grace_s`` seconds, then is refused with the reason. Sockets are told."""
        if self._thread is None or self._loop is None:
            return
        if self._thread.is_alive():
            draining = asyncio.run_coroutine_threadsafe(self.drain(reason, grace_s), self._loop)
            try:
                draining.result(grace_s + 10.0)
            except TimeoutError:  # the loop itself hangs; its thread is a daemon and ends with the program
                self.health.fail("the server did not stop in time")
            self._uvicorn.should_exit = True
            self._thread.join(10.0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _listen(config: ServerConfig) -> socket.socket:
    """A socket at the address, so that what is wrong with it is known before anything else starts."""
    family, number = config.address()
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_REUSEADDR") and not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            # A port that was used a moment ago is free again; on Windows the option would share it with others.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((number, config.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _cannot_listen(config, error) from error
    listening.setblocking(False)
    return listening


def is_in_use(error: ServerError) -> bool:
    """Whether another program has the port."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE


def _cannot_listen(config: ServerConfig, error: OSError) -> ServerError:
    where = f"{config.host}, port {config.port}"
    if error.errno == errno.EADDRINUSE:
        return ServerError(f"{where} is in use by another program. Stop it, or give another port (0: any free one).")
    return ServerError(f"cannot listen on {where}: {error.strerror}. Give another host or port.")


# What uvicorn logs as errors, some with a traceback, although it is a client's doing: a text frame that is not UTF-8, hanging
# up before the answer to a request for a socket, and not reading what is left when the server stops.
CLIENTS_DOING = ("Invalid UTF-8 sequence", "ASGI callable returned without completing handshake", "Cancel ")


def _not_a_mistake_of_clients(record: logging.LogRecord) -> bool:
    was_cancelled = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not was_cancelled and not record.getMessage().startswith(CLIENTS_DOING)
