"""What browsers are told with every answer, also with refusals: how little they may do with it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The page itself has a policy of its own; everything else is no document, and nothing in it runs or is shown in a frame.
SAFE = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_SAFE = {name.encode(): value.encode() for name, value in SAFE.items()}


class SafeHeaders:
    """Wraps the app; headers that an answer has already stay as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"].endswith("response.start"):
                given = dict(message["headers"])
                added = [(name, value) for name, value in _SAFE.items() if name not in given]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self.app(scope, receive, send_safely)
