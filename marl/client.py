"""Asks a marl server for actions and tells it what came of them. One file, standard library only: copy it to your simulator.

    client = PolicyClient("http://127.0.0.1:9900")
    episode = client.start_episode()
    action = client.get_action(episode, observation)
    client.log_returns(episode, reward)
    client.end_episode(episode, observation)

Every message may be sent again without harm, because (session, episode, t) names a step. So the client repeats a message after
any network fault until it is answered. With several agents, observations, actions and rewards are dicts from agents.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import random
import socket
import ssl
import struct
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partialmethod
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
KNOWN = {"address": "http https ws wss", "transport": "auto ws http", "inference_mode": "remote local"}


class PolicyClientError(RuntimeError):
    """What the server refused (``code`` as in docs/wire.md), or ``unreachable``, ``not_marl``, ``misuse`` and ``closed``."""

    def __init__(self, code: str, message: str, retry_after: float | None = None, details: Any = None) -> None:
        super().__init__(message)
        self.code, self.retry_after, self.details = code, retry_after, details or {}


def read_answer(status: int, content: bytes) -> dict[str, Any]:
    """The answer to a message, or the error that it tells; what does not come from a marl server is told as such."""
    answer: Any = None
    with contextlib.suppress(ValueError):  # a page of a proxy, perhaps
        answer = json.loads(content)
    error = answer.get("error") if isinstance(answer, dict) else None
    if status == 200 and isinstance(answer, dict) and error is None:
        return answer
    if isinstance(error, dict):
        raise PolicyClientError(error.get("code", ""), error.get("message", ""), error.get("retry_after"), error)
    pause = FIRST_PAUSE_S if status in (429, 503) else None  # something in front of the server asks us to come again
    raise PolicyClientError("not_marl", f"what answered is no marl server (HTTP status {status}).", pause)


def plain(value: Any) -> Any:
    """Arrays, tuples and numbers of numpy as JSON has them."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def write_message(message: Mapping[str, Any]) -> str:
    try:
        return json.dumps(message, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PolicyClientError("misuse", f"the message cannot be written as JSON: {error}.") from error


class Http:
    """One connection that is kept alive, with a POST per message."""

    def __init__(self, client: PolicyClient) -> None:
        self.path, host = client.place.path.rstrip("/"), client.place.netloc
        self.connection = http.client.HTTPConnection(host, timeout=client.timeout)
        if client.tls is not None:
            self.connection = http.client.HTTPSConnection(host, timeout=client.timeout, context=client.tls)
        self.headers = {"Content-Type": "application/json", **client.headers}
        self.close = self.connection.close

    def ask(self, kind: str, message: str) -> tuple[int, bytes]:
        self.connection.request("POST", f"{self.path}/v1/{kind}", message, self.headers)
        response = self.connection.getresponse()
        return response.status, response.read()


class WebSocket:
    """One socket of RFC 6455, with one question at a time."""

    def __init__(self, client: PolicyClient) -> None:
        host, port = client.place.hostname or "", client.place.port or (80 if client.tls is None else 443)
        self.socket: socket.socket = socket.create_connection((host, port), client.timeout)
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if client.tls is not None:
                self.socket = client.tls.wrap_socket(self.socket, server_hostname=host)
            self.stream = self.socket.makefile("rb")
            self._shake_hands(client.place.path.rstrip("/"), {"Host": client.place.netloc, **client.headers})
        except BaseException:
            self.socket.close()
            raise

    def _shake_hands(self, path: str, headers: Mapping[str, str]) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        lines = "".join(f"{name}: {text}\r\n" for name, text in {**headers, "Sec-WebSocket-Key": key}.items())
        self.socket.sendall(f"GET {path}/v1/session HTTP/1.1\r\n{UPGRADE}{lines}\r\n".encode())
        status = self.stream.readline(65536)
        if not status:
            raise ConnectionError("closed during the handshake")
        answer = http.client.parse_headers(self.stream)
        proof = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
        if b" 101" not in status or answer.get("Sec-WebSocket-Accept") != proof:
            raise PolicyClientError("not_marl", "the server takes no WebSocket here; try transport='http'.")

    def ask(self, kind: str, message: str) -> tuple[int, bytes]:
        self._send(TEXT, f'{{"type": "{kind}", {message[1:]}'.encode())
        return 200, self._receive()

    def _send(self, sort: int, content: bytes) -> None:
        mask, size = os.urandom(4), len(content)
        head = struct.pack("!BBQ", 128 | sort, 255, size)
        if size < 126:
            head = struct.pack("!BB", 128 | sort, 128 | size)
        elif size < 65536:
            head = struct.pack("!BBH", 128 | sort, 254, size)
        # All at once: with whole numbers this takes a fraction of the time of a loop over bytes.
        pattern = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
        masked = int.from_bytes(content, "big") ^ pattern
        self.socket.sendall(head + mask + masked.to_bytes(size, "big"))

    def _receive(self) -> bytes:
        """The next whole message; pings between and inside of messages are answered on the way."""
        whole = b""
        while True:
            last, sort, content = self._frame()
            if sort == PING:
                self._send(PONG, content)
            elif sort == CLOSE:
                code, reason = int.from_bytes(content[:2], "big"), content[2:].decode(errors="replace")
                if code in (1003, 1007, 1008, 1009):  # our message is the reason, and would be again
                    raise PolicyClientError("refused", f"the server closed the connection ({code}): {reason}")
                raise ConnectionError(f"the server closed the connection ({code}): {reason}")
            elif sort != PONG:
                whole += content
                if last:
                    return whole

    def _frame(self) -> tuple[bool, int, bytes]:
        first, second = self._read(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack("!H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._read(8))
        return first >= 128, first & 15, self._read(size)

    def _read(self, size: int) -> bytes:
        content = self.stream.read(size)
        if len(content) < size:
            raise ConnectionError("the connection was cut")
        return content

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._send(CLOSE, struct.pack("!H", 1000))
        self.stream.close()
        self.socket.close()


class Running:
    """An open episode: the number of its next step, who plays, and what agents have earned since the last step."""

    def __init__(self, t: int = 0, alive: Iterable[str] = ()) -> None:
        self.t, self.alive = t, set(alive)
        self.earned: dict[str, dict[str, Any]] = {}

    def earn(self, agent: str, reward: float = 0.0, info: Any = None) -> dict[str, Any]:
        entry = self.earned.setdefault(agent, {"reward": 0.0})
        entry["reward"] += float(reward)
        if info:
            entry["info"] = {**entry.get("info", {}), **plain(info)}
        return entry

    def report(self, seen: Mapping[str, Any], masked: list[str]) -> dict[str, dict[str, Any]]:
        """The agents of the next message. Nothing is forgotten before it has been answered."""
        agents = {agent: dict(earned) for agent, earned in self.earned.items()}
        for agent, observation in seen.items():
            entry = agents.setdefault(agent, {})
            entry["obs"] = plain(observation)
            if any(fnmatchcase(agent, name) for name in masked):
                entry |= {"obs": entry["obs"]["observation"], "action_mask": entry["obs"]["action_mask"]}
        return agents

    def answered(self, agents: Mapping[str, Mapping[str, Any]]) -> None:
        self.t, self.earned = self.t + 1, {}
        self.alive |= {agent for agent, entry in agents.items() if "obs" in entry}
        self.alive -= {agent for agent, entry in agents.items() if entry.get("terminated") or entry.get("truncated")}


class PolicyClient:
    """A session with a server at ``address``, ``http(s)://host:port``. Threads may share it, each with episodes of its own.

    ``name``: started again under the same name, it finds its open episodes (``hello()["open"]``). ``agents``: ids or patterns
    and their spaces, where this client plays only some, or tells a new server whom it plays. ``inference_mode="local"``:
    policies are downloaded, act here, and are renewed every ``update_interval`` seconds (needs marl). ``transport``: ``ws``,
    ``http`` or ``auto``. After ``timeout`` seconds of silence a message is sent again; after ``patience`` it is given up.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        name: str | None = None,
        *,
        inference_mode: str = "remote",
        update_interval: float = 10.0,
        agents: Mapping[str, Any] | None = None,
        state_size: int = 0,
        transport: str = "auto",
        cafile: str | None = None,
        timeout: float = 60.0,
        patience: float = 600.0,
    ) -> None:
        self.place = urlsplit(address if "//" in address else f"http://{address}")
        for (option, known), got in zip(KNOWN.items(), (self.place.scheme, transport, inference_mode), strict=True):
            if got not in known.split():
                raise PolicyClientError("misuse", f"{option}: {got!r}; expected one of {known}.")
        self.tls = ssl.create_default_context(cafile=cafile) if self.place.scheme in ("https", "wss") else None
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.timeout, self.patience, self.transport = timeout, patience, transport
        # Also a client without a name gives one: then a greeting that is sent again does not open a second session.
        self.greeting: dict[str, Any] = {"protocol": "marl/1", "name": name or uuid.uuid4().hex, "mode": inference_mode}
        self.greeting |= {key: value for key, value in (("agents", agents), ("state_size", state_size)) if value}
        self.final: tuple[str, ...] = ()  # refusals after which we do not come again, though the server says when
        self.about: dict[str, Any] = {}
        self.running: dict[str, Running] = {}
        # A thread takes an idle connection for a question, so that nobody waits for the answer to another's.
        self.idle: list[Http | WebSocket] = []
        self.lock, self.closed = threading.Lock(), threading.Event()
        self.local: Any = None
        if inference_mode == "local":  # the one thing for which marl itself has to be installed
            self.local = import_module("marl.serve.local").LocalPolicies(self, update_interval)

    def hello(self) -> dict[str, Any]:
        """What the server said of itself: session, agents, policies, version, limits, and which episodes are open."""
        with self.lock:
            if not self.about:
                self.about = self._until_answered("hello", self.greeting)
                for one in self.about.get("open", []):
                    self.running.setdefault(one["episode"], Running(one["t"], (one["actions"] or [()])[-1]))
            return self.about

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The answer to a message: ``ask("act", episode="e", t=0, agents={"a": {"obs": [0]}})``."""
        return self._until_answered(kind, {"session": self.hello()["session"], **plain(fields)})

    def start(self, episode: str | None = None, **fields: Any) -> dict[str, Any]:
        """Begin an episode; one without an id gets a random one, so that the message can be sent again."""
        episode = episode or uuid.uuid4().hex
        try:
            return self.ask("start", episode=episode, **fields)
        except PolicyClientError as error:
            if error.code != "unknown_session":
                raise
        self.about = {}  # silent for too long, or the server was started anew: nothing of ours is open there
        return self.ask("start", episode=episode, **fields)

    act = partialmethod(ask, "act")
    log = partialmethod(ask, "log")
    end = partialmethod(ask, "end")

    def _until_answered(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        deadline, pause, written = 0.0, 0.0, write_message(message)
        while not self.closed.wait(pause):
            try:
                return read_answer(*self._ask_once(kind, written))
            except PolicyClientError as error:
                if error.retry_after is None or error.code in self.final:
                    raise
                fault = error
            except (OSError, http.client.HTTPException) as error:
                fault = PolicyClientError("unreachable", f"{self.place.netloc} does not answer: {error}.")
            deadline = deadline or time.monotonic() + self.patience
            if time.monotonic() > deadline:
                raise fault
            # Clients that lost the same server should not all come back in the same moment.
            pause = max(
                fault.retry_after or 0, min(LONGEST_PAUSE_S, 2 * pause or FIRST_PAUSE_S) * random.uniform(0.75, 1.0)
            )
        raise PolicyClientError("closed", "this client has been closed.")

    def _ask_once(self, kind: str, message: str) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            answer = connection.ask(kind, message)
        except BaseException:
            connection.close()
            self._drop_idle()
            raise
        self.idle.append(connection)
        return answer

    def _connection(self) -> Http | WebSocket:
        with contextlib.suppress(IndexError):
            return self.idle.pop()
        if self.transport == "http":
            return Http(self)
        try:
            return WebSocket(self)
        except PolicyClientError:
            if self.transport == "ws":
                raise
        self.transport = (
            "http"  # a proxy may let only requests through; if it was the token, the answer to a POST tells
        )
        return Http(self)

    def _drop_idle(self) -> None:  # after a fault of one, the others have most likely gone with the same server
        while self.idle:
            with contextlib.suppress(IndexError, OSError):
                self.idle.pop().close()

    def close(self) -> None:
        """End all connections. Open episodes stay open on the server until it has not heard of them for too long."""
        self.closed.set()
        self._drop_idle()

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        """Begin an episode, which is learned from unless ``training_enabled`` is false; returns its id."""
        episode = str(self.start(episode_id, training=training_enabled)["episode"])
        self.running[episode] = Running()
        return episode

    def get_action(self, episode_id: str, observation: Any, **fields: Any) -> Any:
        """What to do now; of several agents, a dict of observations leads to a dict of actions."""
        seen = self._by_agent(observation)
        if self.local is None:
            actions = self._step("act", episode_id, seen, **fields)["actions"]
        else:
            own = self.local.choose(episode_id, seen, self._running(episode_id).earned)
            self._step("log", episode_id, seen, **own, **fields)
            actions = own["actions"]
        return actions if seen is observation else next(iter(actions.values()))

    def log_action(self, episode_id: str, observation: Any, action: Any, **fields: Any) -> None:
        """Tell of an action that was chosen here, as for learning from what people did."""
        self._step("log", episode_id, self._by_agent(observation), actions=self._by_agent(action), **fields)

    def log_returns(self, episode_id: str, reward: Any, info: Any = None, multiagent_done_dict: Any = None) -> None:
        """Tell what agents earned, and who is done. It travels with the next message; rewards until then add up."""
        running, infos = self._running(episode_id), self._by_agent(info or {})
        for agent, earned in self._by_agent(reward).items():
            running.earn(agent, earned, infos.get(agent))
        for agent, done in (multiagent_done_dict or {}).items():
            if done and agent != "__all__":  # that all are done is said by the end of the episode
                running.earn(agent)["terminated"] = True

    def end_episode(self, episode_id: str, observation: Any = None, truncated: bool = False) -> dict[str, float]:
        """End it with the last observations; returns what each agent earned. ``truncated``: cut off, not over by the rules."""
        running = self._running(episode_id)
        seen = {} if observation is None else self._by_agent(observation)
        for agent in sorted(running.alive):
            running.earn(agent).setdefault("terminated", not truncated)
        returns: dict[str, float] = self._step("end", episode_id, seen)["returns"]
        self.running.pop(episode_id)
        return returns

    def _step(self, kind: str, episode_id: str, seen: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        running = self._running(episode_id)
        masked = [name for name, entry in self.hello()["agents"].items() if entry.get("action_mask")]
        agents = running.report(seen, masked)
        answer = self.ask(kind, episode=episode_id, t=running.t, agents=agents, **fields)
        running.answered(agents)
        return answer

    def _running(self, episode_id: str) -> Running:
        if episode_id not in self.running:
            raise PolicyClientError("misuse", f"episode {episode_id!r} is not open here. Call start_episode() first.")
        return self.running[episode_id]

    def _by_agent(self, value: Any) -> dict[str, Any]:
        """A dict from agents as it is. Where one agent plays alone, what is meant for it, under its name."""
        names = list(self.greeting.get("agents") or self.hello()["agents"])
        alone = len(names) == 1 and "*" not in names[0]
        if isinstance(value, dict) and (not alone or list(value) == names):
            return value
        if alone:
            return {names[0]: value}
        raise PolicyClientError("misuse", f"expected a dict from agents ({', '.join(names)}); got {value!r}.")
