"""The routes of ``marl watch``: the page's files for everybody on this machine, ``/api`` for those with the token.

The routes of one game of ``play`` are open to its guests as well, and check who asks by themselves.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp

from marl.errors import UserError
from marl.page.assets import MEDIA, files, served_page
from marl.page.standalone import standalone
from marl.serve.guard import Guard
from marl.serve.refused import Refused, internal, shortly
from marl.serve.tokens import bearer
from marl.watch.api import episodes, explain, games, play, runs, tree, what_if
from marl.watch.desk import Desk
from marl.watch.lost_files import refusal_of
from marl.watch.replies import Answer, body_of
from marl.watch.safe_headers import SafeHeaders

MOST_SAVED = 64 * 1024 * 1024  # bytes of answers in a saved view
MOST_TOLD = 3  # words of one address that are told to be wrong


def build_app(desk: Desk) -> ASGIApp:
    """The whole app, with everything that keeps strangers out."""
    app = FastAPI(title="marl watch", docs_url=None, redoc_url=None, openapi_url=None)
    api = APIRouter(prefix="/api", dependencies=[Depends(_with_token(desk))], default_response_class=Answer)
    _add_page(app)
    _add_work(api, desk)
    _add_views(api, desk)
    # A game is also open to those whom somebody has invited to it, and to them nothing else is.
    table = APIRouter(prefix="/api/play/games/{game}", default_response_class=Answer)
    play.add_table(table, desk)
    app.include_router(api)
    app.include_router(table)
    _add_refusals(app)
    # Curves and traces are numbers in text: a tenth of their size on the way.
    app.add_middleware(GZipMiddleware, minimum_size=2048, compresslevel=5)
    return SafeHeaders(Guard(app, desk))


def _with_token(desk: Desk) -> Any:
    async def check(request: Request) -> None:
        desk.check_token(bearer(request.headers.get("authorization")))

    return check


def _add_views(api: APIRouter, desk: Desk) -> None:
    """Each view has its own module with ``add(api, desk)``."""
    for view in (runs, episodes, what_if, play, games, tree, explain):
        view.add(api, desk)


# -- the page ----------------------------------------------------------------------------------------------------------


def _add_page(app: FastAPI) -> None:
    text, policy = served_page()

    @app.get("/")
    async def page() -> Response:
        return HTMLResponse(text, headers={"content-security-policy": policy})

    @app.get("/static/{name:path}")
    async def static(name: str) -> Response:
        content = files().get(name)  # of a list, so no path leads anywhere else
        if content is None:
            raise Refused("not_found", f"the page has no file {shortly(name)}.", 404)
        media = MEDIA[name[name.rindex(".") :]]
        return Response(content, media_type=media)


# -- what all views use ------------------------------------------------------------------------------------------------


def _add_work(api: APIRouter, desk: Desk) -> None:
    @api.get("/jobs/{number}")
    async def job(number: int) -> Any:
        return Answer(desk.jobs.get(number))

    @api.delete("/jobs/{number}")
    async def stop(number: int) -> Any:
        desk.jobs.stop(number)
        return Answer({})

    @api.post("/saved")
    async def saved(request: Request) -> Response:
        """The view that is shown, as one file."""
        body = await body_of(request, MOST_SAVED)
        view, title, answers = body.get("view"), body.get("title"), body.get("answers")
        if not (isinstance(view, str) and isinstance(title, str) and isinstance(answers, dict)):
            raise Refused("bad_message", "expected {view: text, title: text, answers: map}.", 400)
        return HTMLResponse(standalone(view, answers, title))


def _add_refusals(app: FastAPI) -> None:
    """Every error has the same form, also those of the libraries."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return Answer(error.to_json(), error.status)

    async def of_the_library(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = "wrong_method" if error.status_code == 405 else "not_found"
        where = f"{request.method} {shortly(request.url.path)}"
        return Answer(Refused(code, f"{where}: {error.detail}.").to_json(), error.status_code)

    async def wrong_words(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return Answer(Refused("bad_message", _what_is_wrong(error)).to_json(), 422)

    async def mistake_of_a_user(_: Request, error: Exception) -> Response:
        return Answer(Refused(type(error).__name__, str(error)).to_json(), 400)

    async def lost_file(_: Request, error: Exception) -> Response:
        assert isinstance(error, OSError)
        refused = refusal_of(error)
        return Answer(refused.to_json(), refused.status)

    async def mistake_of_ours(_: Request, error: Exception) -> Response:
        return Answer(internal(error).to_json(), 500)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(UserError, mistake_of_a_user)
    app.add_exception_handler(OSError, lost_file)
    app.add_exception_handler(Exception, mistake_of_ours)
    app.add_exception_handler(HTTPException, of_the_library)
    app.add_exception_handler(RequestValidationError, wrong_words)


def _what_is_wrong(error: RequestValidationError) -> str:
    """The first words of an address that do not fit, without what was sent: it may be as long as its sender likes."""
    found = []
    for one in error.errors()[:MOST_TOLD]:
        place = " ".join(str(word) for word in one["loc"])
        found.append(f"{shortly(place)}: {one['msg']}")
    return "; ".join(found) + "."
