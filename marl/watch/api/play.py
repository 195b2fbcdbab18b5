"""What the view ``play`` asks for: which games there are, opening one, and playing it, also with an invitation alone."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Depends, Request

from marl.serve.refused import Refused
from marl.serve.tokens import bearer
from marl.watch.desk import Desk
from marl.watch.play.choices import choices
from marl.watch.play.requests import Again, Move, NewGame, SeatAsked, WhichGame, game_of, read, seats_of
from marl.watch.play.rooms import Room, Rooms
from marl.watch.play.view import shown_to
from marl.watch.play.words import HUMAN
from marl.watch.replies import Answer, body_of


def add(api: APIRouter, desk: Desk) -> None:
    """Routes for whoever has the token of the session."""
    rooms = rooms_of(desk)

    @api.get("/play/choices")
    async def chosen_from() -> Any:
        return Answer(await asyncio.to_thread(choices, desk.root))

    @api.post("/play/look")
    async def look(request: Request) -> Any:
        """The seats of a run or an env, before a game is opened."""
        asked = read(WhichGame, await body_of(request))
        deal, _ = game_of(asked, desk)
        return Answer(await rooms.look(deal))

    @api.post("/play/games")
    async def open_game(request: Request) -> Any:
        asked = read(NewGame, await body_of(request))
        deal, title = game_of(asked, desk)
        seats, labels = seats_of(asked.seats, desk)
        deal |= {"seats": seats, "explore": asked.explore, "open_picture": asked.open_picture}
        room = await rooms.open(deal, title, labels, asked.seed)
        # Words may hold paths of this machine, so seats are told as people read them.
        told = [{"agent": agent, "who": room.called(agent)} for agent in room.seats]
        return Answer({"game": room.id, "seats": told, "invite": room.invitations()})

    @api.get("/play/games")
    async def games() -> Any:
        found = []
        for room in rooms.rooms.values():
            told = {"game": room.id, "title": room.title, "over": room.over, "ended": bool(room.ended)}
            found.append(told)
        return Answer({"games": found})

    @api.get("/play/games/{game}/invitations")
    async def invitations(game: str) -> Any:
        """By guest; apart from the game itself, which may be saved as a file and given away."""
        return Answer(rooms.get(game).invitations())

    @api.delete("/play/games/{game}")
    async def close(game: str) -> Any:
        await rooms.close(rooms.get(game))
        return Answer({})


def add_table(table: APIRouter, desk: Desk) -> None:
    """Routes of one game, below ``/api/play/games/{game}``: all that an invitation opens."""
    rooms = rooms_of(desk)
    # Every route here has it: it is what keeps everybody else out.
    seat = Depends(_person(desk))

    @table.get("")
    async def game(game: str, person: str = seat) -> Any:
        return Answer(shown_to(rooms.get(game), person))

    @table.post("/move")
    async def move(game: str, request: Request, person: str = seat) -> Any:
        asked = read(Move, await body_of(request))
        room = rooms.get(game)
        agent = _agent(asked.agent, room, person)
        await rooms.move(room, person, agent, asked.action, asked.turn)
        return Answer(shown_to(room, person))

    @table.post("/undo")
    async def undo(game: str, request: Request, person: str = seat) -> Any:
        await body_of(request)
        room = rooms.get(game)
        await rooms.undo(room, person)
        return Answer(shown_to(room, person))

    @table.post("/hint")
    async def hint(game: str, request: Request, person: str = seat) -> Any:
        asked = read(SeatAsked, await body_of(request))
        room = rooms.get(game)
        agent = _agent(asked.agent, room, person)
        return Answer(await rooms.hint(room, person, agent))

    @table.post("/again")
    async def again(game: str, request: Request, person: str = seat) -> Any:
        asked = read(Again, await body_of(request))
        room = rooms.get(game)
        await rooms.again(room, asked.swap)
        return Answer(shown_to(room, person))


def rooms_of(desk: Desk) -> Rooms:
    """The games of this session, made once."""
    if desk.rooms is None:
        desk.rooms = Rooms(desk.root, desk.play)
    found: Rooms = desk.rooms
    return found


def _person(desk: Desk) -> Any:
    """Who asks: whoever has the token of the session, or the guest of this very game."""

    async def found(game: str, request: Request) -> str:
        shown = bearer(request.headers.get("authorization"))
        if desk.token.fits(shown):
            return HUMAN
        # A game that is not there is told in the same words: guests need not know which games there are.
        room = rooms_of(desk).rooms.get(game)
        guest = None
        if room is not None:
            guest = room.person_with(shown)
        if guest is None:
            raise Refused("unauthorized", "this invitation is for another game, or its game was closed.", 401)
        return guest

    return found


def _agent(named: str | None, room: Room, person: str) -> str:
    """The seat that is meant; who has only one need not say it."""
    if named is not None:
        return named
    mine = room.seats_of(person)
    if len(mine) != 1:
        raise Refused("bad_message", f"agent: say which of your seats is meant: {', '.join(mine)}.", 400)
    return mine[0]
