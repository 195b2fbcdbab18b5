"""Messages, frames and requests that no honest client sends, drawn from a seed."""

from __future__ import annotations

import copy
import json
import random
import struct
from typing import Any

import msgpack

KINDS = ("hello", "start", "act", "log", "end")
OBS = [0.5, -0.25, 0.0, 1.0]

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"),
    float("-inf"), "", "a", "x" * 300, "\x00", "\ud800", "ünï", "__class__", "../../etc/passwd", "car_1", "car_*", "*", "__all__",
    [], [[]], [None], [OBS], [1, 2, 3], [float("nan")] * 4, ["1", "2", "3", "4"], [True] * 4, OBS, {}, {"": {}}, {"a": {}},
    {"type": "Box"}, {"type": "Discrete", "n": 2**40}, {"type": "Box", "low": 0, "high": 1, "shape": [2**30, 2**30], "dtype": "float64"},
    {"type": "Tuple", "spaces": [{"type": "Tuple", "spaces": []}]}, {"__nd__": True}, {"__nd__": True, "dtype": "O", "shape": [4], "data": "x"},
    {"__nd__": True, "dtype": "float32", "shape": [2**40], "data": "x"}, {"obs": OBS, "reward": float("nan")}, {"obs": OBS, "terminated": 1},
]  # fmt: skip
NAMES = [
    "a",
    "b",
    "car_1",
    "car_",
    "obs",
    "t",
    "session",
    "episode",
    "agents",
    "token",
    "type",
    "id",
    "reward",
    "__nd__",
    "data",
    "\ud800",
    "",
]


class Strange:
    """``session`` and ``episode`` are real ones, so that messages get past the first checks."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.session = "0" * 32
        self.others = ["f" * 32, "", "x", "0" * 31]
        self.episode = "e"
        self.t = 0

    # -- messages ------------------------------------------------------------------------------------------------

    def message(self) -> dict[str, Any]:
        """A message that is nearly right."""
        kind = self.rng.choice(KINDS)
        message = copy.deepcopy(self._right(kind))
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            self._spoil(message)
        return message

    def _right(self, kind: str) -> dict[str, Any]:
        rng = self.rng
        session = self.session if rng.random() < 0.9 else rng.choice(self.others)
        t = rng.choice((self.t, self.t, self.t, self.t + 1, 0, rng.randrange(10)))
        episode = rng.choice((self.episode,) * 8 + (f"e{rng.randrange(5)}", "other"))
        common: dict[str, Any] = {"type": kind, "session": session, "id": rng.randrange(1000)}
        if kind == "hello":
            return {
                **common,
                "protocol": "marl/1",
                "agents": {"a": {"observation_space": VALUES[-7], "action_space": VALUES[-8]}},
            }
        if kind == "start":
            return {**common, "episode": episode, "training": True, "parties": 1}
        report: dict[str, Any] = {"obs": list(OBS)}
        if t:
            report["reward"] = 1.0
        common.update(episode=episode, t=t, agents={"a": report, "car_1": copy.deepcopy(report)})
        if kind == "log":
            common.update(actions={"a": 1, "car_1": 0}, logp={"a": -0.5})
        return common

    def _spoil(self, message: dict[str, Any]) -> None:
        """Change something somewhere in it."""
        rng = self.rng
        places: list[tuple[Any, Any]] = []
        _collect(message, places)
        inside, key = rng.choice(places)
        change = rng.random()
        if change < 0.6:
            inside[key] = copy.deepcopy(rng.choice(VALUES))
        elif change < 0.8:
            del inside[key]
        elif isinstance(inside, dict):
            inside[rng.choice(NAMES)] = copy.deepcopy(rng.choice(VALUES))
        else:
            inside.append(copy.deepcopy(rng.choice(VALUES)))
        if not message:
            message["type"] = "act"

    # -- frames --------------------------------------------------------------------------------------------------

    def frame(self) -> str | bytes:
        """What goes into one WebSocket frame."""
        drawn = self.rng.random()
        if drawn < 0.55:
            return self._json(self.message())
        if drawn < 0.75:
            return self._packed(self.message())
        if drawn < 0.82:
            return self._cut(self._json(self.message()))
        if drawn < 0.88:
            return self._flipped(self._packed(self.message()))
        if drawn < 0.92:
            return self.rng.randbytes(self.rng.randrange(200))
        if drawn < 0.96:
            return self._deep()
        return "".join(chr(self.rng.randrange(32, 0x2FF)) for _ in range(self.rng.randrange(100)))

    def _json(self, message: dict[str, Any]) -> str:
        return json.dumps(message)  # with NaN and Infinity, which are no JSON and which Python reads

    def _packed(self, message: dict[str, Any]) -> bytes:
        try:
            packed: bytes = msgpack.packb(message, unicode_errors="surrogatepass")
        except (OverflowError, ValueError):  # numbers that msgpack does not have
            packed = msgpack.packb({"type": "act", "x": msgpack.ExtType(self.rng.randrange(127), b"x" * 8)})
        return packed

    def _cut(self, text: str) -> str:
        return text[: self.rng.randrange(len(text))] + self.rng.choice(("", "}", "]", '"', "\x00", "\\"))

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.rng.randrange(1, 4)):
            changed[self.rng.randrange(len(changed))] = self.rng.randrange(256)
        return bytes(changed)

    def _deep(self) -> str | bytes:
        depth = self.rng.choice((15, 16, 17, 18, 100, 1000, 20_000))
        opened, closed = self.rng.choice((("[", "]"), ('{"a":', "}"), ('{"info":[', "]}")))
        if self.rng.random() < 0.3:
            return b"\x91" * depth
        return f'{{"type": "act", "agents": {opened * depth}1{closed * depth}}}'

    # -- bytes instead of HTTP -----------------------------------------------------------------------------------

    def request(self, host: str, token: str) -> bytes:
        """A POST with a body that is nearly right, in headers that are nearly right."""
        rng = self.rng
        message = self.message()
        kind = str(message.get("type")) if str(message.get("type")) in KINDS else "act"
        if rng.random() < 0.3:
            strange = ("nothing", "session", "healthz", "../act", "%00", "policies/x/weights?newer_than=%ff")
            kind = rng.choice((*KINDS, *strange))
        method = rng.choice(("POST",) * 12 + ("GET", "PUT", "OPTIONS", "HEAD", "DELETE", "BREW", "CONNECT"))
        if rng.random() < 0.9:
            message.pop("type", None)
        body = self._json(message).encode()
        media_type = rng.choice(
            ("application/json",) * 12
            + ("application/msgpack", "application/msgpack", "text/plain", "application/json; charset=\x01", "")
        )
        if media_type == "application/msgpack":
            body = self._flipped(self._packed(message))
        length = rng.choice((str(len(body)),) * 30 + ("-1", "99999999999999999999", "abc"))
        shown = rng.choice(
            (f"Bearer {token}",) * 20
            + ("Bearer wrong", "Bearer", "", "Basic eDp5", f"Bearer {token}x", "Bearer \xff\xfe")
        )
        name = rng.choice((host,) * 30 + ("evil.example.org", "[", "", "localhost"))
        headers = [
            f"Host: {name}",
            f"Content-Type: {media_type}",
            f"Content-Length: {length}",
            f"Authorization: {shown}",
        ]
        if rng.random() < 0.1:
            headers.append(
                "Origin: " + rng.choice(("https://evil.example.org", "null", f"http://{host}", "\xff", "http://["))
            )
        if rng.random() < 0.05:
            headers.append("Host: other")
        if rng.random() < 0.05:
            headers.append("Transfer-Encoding: chunked")
        if rng.random() < 0.03:
            headers.extend(f"X-{number}: y" for number in range(200))
        head = f"{method} /v1/{kind} HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\nConnection: close\r\n\r\n"
        return head.encode("latin-1") + body

    def noise(self, host: str, token: str) -> bytes:
        """Bytes that are no HTTP, half of it, or too much of it."""
        rng, drawn = self.rng, self.rng.random()
        if drawn < 0.3:
            return rng.randbytes(rng.randrange(1, 500))
        if drawn < 0.5:
            request = self.request(host, token)
            return request[: rng.randrange(1, len(request))]
        if drawn < 0.6:
            return b"".join(self.request(host, token) for _ in range(3))  # the first says that it is the last
        if drawn < 0.7:
            return b"GET /v1/healthz HTTP/1.1\r\n" + b"X: " + b"y" * rng.choice((100, 10_000, 60_000)) + b"\r\n\r\n"
        if drawn < 0.8:
            path = rng.choice(("/v1/session", "/v1/session%ff", "/\xff", "*", "http://[/"))
            key = rng.choice(("dGhlIHNhbXBsZSBub25jZQ==", "x", ""))
            version = rng.choice(("13", "8", ""))
            return (
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: {version}\r\n\r\n"
            ).encode("latin-1")
        return upgrade(host, token) + self.broken_frames()

    def broken_frames(self) -> bytes:
        """WebSocket frames that break the protocol: unmasked, reserved, half, endless, not UTF-8."""
        rng = self.rng
        payload = self._json(self.message()).encode()
        kinds = [
            b"\x81" + bytes([len(payload) % 126]) + payload[: len(payload) % 126],  # not masked
            masked(0x81, b"\xff\xfe\xfd"),  # no UTF-8
            masked(0xF1, payload),  # reserved bits
            masked(0x83, payload),  # an unknown kind
            masked(0x81, payload)[: rng.randrange(1, 12)],  # half
            b"\x82\xff" + struct.pack("!Q", 2**62) + b"\x00" * 4,  # four exabytes
            b"\x82\xff" + struct.pack("!Q", 2**63) + b"\x00" * 4,
            masked(0x89, b"x" * 200),  # a ping that is too long
            masked(0x88, b"\x00"),  # a close with half a code
            masked(0x88, struct.pack("!H", 999) + b"\xff"),
            masked(0x80, payload),  # goes on with nothing
            masked(0x01, payload) + masked(0x01, payload),  # two beginnings
            masked(0x01, b'{"type":') + masked(0x80, b'"act"}'),  # two halves of a message, which is right
        ]
        return b"".join(rng.choice(kinds) for _ in range(rng.randrange(1, 4)))


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    """All places of a message at which something stands."""
    keys: Any = ()
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        places.append((value, key))
        _collect(value[key], places)


def masked(first: int, payload: bytes) -> bytes:
    """A frame of a client; its mask is zero, so that the payload stays readable."""
    if len(payload) < 126:
        return bytes([first, 0x80 | len(payload)]) + b"\x00" * 4 + payload
    return bytes([first, 0xFE]) + struct.pack("!H", len(payload)) + b"\x00" * 4 + payload


def upgrade(host: str, token: str) -> bytes:
    return (
        f"GET /v1/session HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nAuthorization: Bearer {token}\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
