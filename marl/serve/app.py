"""The routes of a server: the five messages, health, metrics, weights and what the messages look like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, runtime_checkable

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from marl.serve.docs_page import docs_page
from marl.serve.frames import FORMATS, JSON, Format
from marl.serve.front import Front
from marl.serve.guard import Guard
from marl.serve.messages import KINDS, PROTOCOL
from marl.serve.metrics import metrics_text
from marl.serve.refused import Refused, bad_message, shortly
from marl.serve.schema import ABOUT, WEIGHTS, WEIGHTS_PARAMETERS, describe, request_body, responses
from marl.serve.sockets import ClientSocket
from marl.serve.tokens import bearer

SOCKET_PATH = "/v1/session"
CODES = {404: "not_found", 405: "method_not_allowed", 422: "bad_message"}


@runtime_checkable
class Exporting(Protocol):
    """A stage whose policies can be taken away, for clients that act by themselves."""

    def export(self, name: str) -> tuple[int, bytes] | None:
        """The version of the weights and a zip of policy.json and safetensors; None where there is no such policy.

        Called in a thread of its own, one call at a time.
        """
        ...


def build_app(front: Front) -> ASGIApp:
    """The whole app, with everything that keeps strangers out."""
    app = FastAPI(
        title="marl serve", version=PROTOCOL, description=ABOUT, lifespan=_sweeping(front),
        docs_url=None, redoc_url=None, openapi_url=None,
    )  # fmt: skip
    _add_messages(app, front)
    _add_state(app, front)
    _add_weights(app, front)
    _add_documents(app)
    _add_refusals(app, front)
    return Guard(app, front, SOCKET_PATH)


def _sweeping(front: Front) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(front.sweep_for_ever())
        yield
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping

    return lifespan


# -- messages ------------------------------------------------------------------------------------------------------


def _add_messages(app: FastAPI, front: Front) -> None:
    for kind in KINDS:
        app.add_api_route(
            f"/v1/{kind}", _poster(front, kind), methods=["POST"], summary=f"Send the message {kind}.", name=kind,
            responses=responses(kind), openapi_extra=request_body(kind),
        )  # fmt: skip

    @app.websocket(SOCKET_PATH)
    async def session(socket: WebSocket) -> None:
        client = ClientSocket(front, socket)
        front.sockets.add(client)
        try:
            await client.run()
        except Refused as refused:
            await socket.send_denial_response(_refusal(front, refused))
        finally:
            front.sockets.discard(client)


def _poster(front: Front, kind: str) -> Any:
    async def post(request: Request) -> Response:
        form = _format_of(request)
        in_hello = kind == "hello" and "authorization" not in request.headers
        try:
            if not in_hello:  # strangers cannot make the server read anything
                front.check_token(_shown(request))
            message = form.decode(await _read(request, front.hub.limits.max_body), front.hub.limits.max_depth)
            shown = message.pop("token", None)
            if in_hello:
                front.check_token(shown)
            answer = form.encode(await _while_there(request, front.answer(kind, message)))
        except Refused as refused:
            return _refusal(front, refused, form)
        except ClientDisconnect:  # nobody is there to be told
            return Response(status_code=400)
        return Response(answer, media_type=form.media_type)

    return post


def _format_of(request: Request) -> Format:
    """What the body is written in; the answer will be as well."""
    said = request.headers.get("content-type", "")
    found = FORMATS.get(said.partition(";")[0].strip().lower())
    if found is None:
        raise Refused(
            "bad_message", f"the content-type is {shortly(said)}; expected one of {', '.join(FORMATS)}.", 415
        )  # fmt: skip
    return found


async def _read(request: Request, most: int) -> bytes:
    """The body, no more of it than is allowed: what is longer is not read to its end."""
    too_large = Refused("too_large", f"the message has more than {most} bytes, which is max_body.", 413)
    claimed = request.headers.get("content-length", "0")
    if not (claimed.isascii() and claimed.isdigit()) or int(claimed[:20]) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)


async def _while_there(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """The answer, or the end of waiting for it when the client has hung up: it would be one more who waits at every try."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    """Comes back when the client has hung up. The body has been read, so nothing else is to come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _shown(request: Request) -> str | None:
    return bearer(request.headers.get("authorization"))


# -- health and metrics --------------------------------------------------------------------------------------------


def _add_state(app: FastAPI, front: Front) -> None:
    @app.get("/v1/healthz", summary="Whether the server can be used: starting, ok or failed.")
    async def healthz(request: Request) -> Response:
        health = front.health
        told: dict[str, str] = {"status": health.status}
        # Probes have no token; the reason may name files, and is for those who have it.
        if health.reason and front.token.fits(_shown(request)):
            told["reason"] = health.reason
        return JSONResponse(told, 200 if health.status == "ok" else 503)

    @app.get("/v1/metrics", summary="Counters and histograms as the text that Prometheus reads.")
    async def metrics(request: Request) -> Response:
        front.check_token(_shown(request))
        text = metrics_text(front.measures, front.hub, front.health.status, len(front.sockets))
        return Response(str(text), media_type=text.media_type)


# -- weights -------------------------------------------------------------------------------------------------------


def _add_weights(app: FastAPI, front: Front) -> None:
    one_at_a_time = asyncio.Lock()

    @app.get("/v1/policies", summary="The policies, and the version of their weights.")
    async def policies(request: Request) -> Response:
        front.check_token(_shown(request))
        stage = front.hub.stage
        told = {"version": stage.version, "policies": stage.policies(), "weights": isinstance(stage, Exporting)}
        return Response(JSON.encode(told), media_type=JSON.media_type)

    @app.get("/v1/policies/{name:path}/weights", summary=WEIGHTS, openapi_extra=WEIGHTS_PARAMETERS)
    async def weights(request: Request) -> Response:
        front.check_token(_shown(request))
        name, stage = request.path_params["name"], front.hub.stage
        if stage.version <= _newer_than(request):
            return Response(status_code=204)
        if request.headers.get("if-none-match") == _etag(stage.version):
            return Response(status_code=304, headers={"etag": _etag(stage.version)})
        if not isinstance(stage, Exporting):
            raise Refused("not_found", "this server does not give its policies away.", 404)
        # Packing takes a while: not on the thread that answers everybody, and not for everybody at once.
        async with one_at_a_time:
            found = await asyncio.to_thread(stage.export, name)
        if found is None:
            raise Refused("not_found", f"there is no policy {shortly(name)}; /v1/policies lists them.", 404)
        version, content = found
        return Response(content, media_type="application/zip", headers={"etag": _etag(version)})


def _etag(version: int) -> str:
    return f'"{version}"'


def _newer_than(request: Request) -> int:
    said = request.query_params.get("newer_than", "-1")
    try:
        return int(said[:20])
    except ValueError:
        raise bad_message(f"newer_than is {shortly(said)}; expected the number of a version.") from None


# -- documents and refusals ----------------------------------------------------------------------------------------


def _add_documents(app: FastAPI) -> None:
    described = describe(app)  # routes do not change any more
    page = docs_page(described)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(described)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        # FastAPI's own page loads a program from a server of strangers; this one is text.
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
        return HTMLResponse(page, headers={"content-security-policy": policy})


def _add_refusals(app: FastAPI, front: Front) -> None:
    """Every error has the same form, also those of the libraries."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return _refusal(front, error)

    async def of_the_library(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = CODES.get(error.status_code, "bad_request")
        said = f"{error.detail}: /docs lists what there is."
        answer = _refusal(front, Refused(code, said, error.status_code))
        answer.headers.update(error.headers or {})
        return answer

    async def of_our_own(_: Request, error: Exception) -> Response:
        return _refusal(front, front.failure(error))

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, of_the_library)
    app.add_exception_handler(Exception, of_our_own)


def _refusal(front: Front, refused: Refused, form: Format = JSON) -> Response:
    answer = Response(form.encode(front.told(refused)), refused.status, media_type=form.media_type)
    if refused.retry_after is not None:
        answer.headers["retry-after"] = str(max(1, round(refused.retry_after)))
    if refused.status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    if refused.status == 413:  # the rest of the body is still on its way, and nobody will read it
        answer.headers["connection"] = "close"
    return answer
