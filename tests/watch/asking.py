"""Asking a server of ``marl watch`` without a browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from marl.watch.server import WatchServer

PATIENCE_S = 90.0  # processes that import torch on a busy machine


@contextmanager
def client_of(server: WatchServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.desk.secret}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=30.0) as client:
        yield client


def done(client: httpx.Client, path: str, body: Any) -> dict[str, Any]:
    """Begin a piece of work and wait for its end: ``{"state": "done", "result": ...}``, or what failed."""
    begun = client.post(path, json=body)
    assert begun.status_code == 200, begun.text
    return ended(client, begun.json()["job"])


def ended(client: httpx.Client, job: int) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        told: dict[str, Any] = client.get(f"/api/jobs/{job}").json()
        if told["state"] in ("done", "failed"):
            return told
        time.sleep(0.05)
    raise AssertionError(f"job {job} does not end")
