"""A server on loopback that answers like a language model whose policy is known."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Speak = Callable[[dict[str, Any]], dict[str, Any]]
"""From a request to the choice of its answer."""


def question_of(request: dict[str, Any]) -> str:
    return str(request["messages"][1]["content"])


def letters_of(request: dict[str, Any]) -> list[str]:
    return re.findall(r"^([A-Z]): ", question_of(request), re.MULTILINE)


def chances_of(request: dict[str, Any]) -> list[float]:
    """The known policy: some chances that follow from the question alone."""
    luck = random.Random(sha256(question_of(request).encode()).hexdigest())
    weights = [luck.random() + 0.05 for _ in letters_of(request)]
    return [weight / sum(weights) for weight in weights]


def said(content: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content}}


def drawing(salt: int) -> Speak:
    """Draws from the known policy, by the request's seed and the salt."""

    def speak(request: dict[str, Any]) -> dict[str, Any]:
        luck = random.Random(f"{salt} {request['seed']} {question_of(request)}")
        return said(luck.choices(letters_of(request), chances_of(request))[0])

    return speak


def telling(request: dict[str, Any]) -> dict[str, Any]:
    """Tells the chances themselves."""
    assert request["logprobs"] is True
    top = [
        {"token": letter, "logprob": math.log(chance)}
        for letter, chance in zip(letters_of(request), chances_of(request), strict=True)
    ]
    return {**said("A"), "logprobs": {"content": [{"token": "A", "logprob": 0.0, "top_logprobs": [*top, JUNK]}]}}


JUNK = {"token": "Well", "logprob": -1.0}


class Stub:
    """Where it answers, and what it was asked."""

    def __init__(self, speak: Speak) -> None:
        self.speak, self.requests, self.url = speak, list[dict[str, Any]](), ""
        self.status, self.headers = 200, dict[str, str]()


@contextmanager
def serving(speak: Speak) -> Iterator[Stub]:
    """A stub while the block lasts."""
    stub = Stub(speak)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stub.requests.append(request)
            body = json.dumps({"choices": [stub.speak(request)]}).encode()
            self.send_response(stub.status)
            for name, value in {**stub.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:  # who follows a redirect asks like this
            stub.requests.append({"path": self.path})
            self.send_error(404)

        def log_message(self, *args: Any) -> None:
            """Quietly."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
