"""What the view ``play`` asks for: which games there are, opening one, and playing it, also with an invitation alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request

from marl.serve.refused import Refused, shortly
from marl.serve.tokens import bearer
from marl.watch.desk import Desk
from marl.watch.play.choices import choices
from marl.watch.play.rooms import OPEN_S, TASKS, Room, Rooms
from marl.watch.play.view import shown_to
from marl.watch.play.words import GUEST, HUMAN, MEMBER, PLACE, PLAIN, POLICY, is_guest
from marl.watch.replies import Answer, body_of

MOST_SEATS = 64
LARGEST_SEED = 2**31


def add(api: APIRouter, desk: Desk) -> None:
    """Routes for whoever has the token of the session."""
    rooms = rooms_of(desk)

    @api.get("/play/choices")
    async def chosen_from() -> Any:
        return Answer(await asyncio.to_thread(choices, desk.root))

    @api.post("/play/look")
    async def look(request: Request) -> Any:
        """The seats of a run or an env, before a game is opened."""
        deal, _ = _game_of(await body_of(request), desk)
        return Answer(await asyncio.wait_for(desk.play.call(f"{TASKS}:look", deal), OPEN_S))

    @api.post("/play/games")
    async def open_game(request: Request) -> Any:
        body = await body_of(request)
        deal, title = _game_of(body, desk)
        deal["seats"], labels = _seats_of(body.get("seats"), desk)
        deal["explore"] = _flag(body, "explore")
        deal["open_picture"] = _flag(body, "open_picture")
        room = await rooms.open(deal, title, labels, _seed_of(body))
        seats = [{"agent": agent, "who": labels.get(word, word)} for agent, word in room.seats.items()]
        invitations = {guest: secret for guest, (secret, _) in room.tokens.items()}
        return Answer({"game": room.id, "seats": seats, "invite": invitations})

    @api.get("/play/games")
    async def games() -> Any:
        found = []
        for room in rooms.rooms.values():
            found.append({"game": room.id, "title": room.title, "over": room.over, "ended": bool(room.ended)})
        return Answer({"games": found})

    @api.get("/play/games/{game}/invitations")
    async def invitations(game: str) -> Any:
        """By guest; apart from the game itself, which may be saved as a file and given away."""
        return Answer({guest: secret for guest, (secret, _) in rooms.get(game).tokens.items()})

    @api.delete("/play/games/{game}")
    async def close(game: str) -> Any:
        await rooms.close(rooms.get(game))
        return Answer({})


def add_table(table: APIRouter, desk: Desk) -> None:
    """Routes of one game, below ``/api/play/games/{game}``: all that an invitation opens."""
    rooms = rooms_of(desk)
    seat = Depends(_person(desk))

    @table.get("")
    async def game(game: str, person: str = seat) -> Any:
        return Answer(shown_to(rooms.get(game), person))

    @table.post("/move")
    async def move(game: str, request: Request, person: str = seat) -> Any:
        body, room = await body_of(request), rooms.get(game)
        await rooms.move(room, person, _agent(body, room, person), body.get("action"), body.get("turn"))
        return Answer(shown_to(room, person))

    @table.post("/undo")
    async def undo(game: str, request: Request, person: str = seat) -> Any:
        await body_of(request)
        room = rooms.get(game)
        await rooms.undo(room, person)
        return Answer(shown_to(room, person))

    @table.post("/hint")
    async def hint(game: str, request: Request, person: str = seat) -> Any:
        body, room = await body_of(request), rooms.get(game)
        return Answer(await rooms.hint(room, person, _agent(body, room, person)))

    @table.post("/again")
    async def again(game: str, request: Request, person: str = seat) -> Any:
        body, room = await body_of(request), rooms.get(game)
        await rooms.again(room, _flag(body, "swap"))
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
        room = rooms_of(desk).rooms.get(game)
        guest = None if room is None else room.person_with(shown)
        if guest is None:
            raise Refused("unauthorized", "this invitation is for another game, or its game was closed.", 401)
        return guest

    return found


# -- reading requests --------------------------------------------------------------------------------------------------


def _game_of(body: Mapping[str, Any], desk: Desk) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is played: a run at a checkpoint, or an env alone; and what it is called."""
    run, env, checkpoint = body.get("run"), body.get("env"), body.get("checkpoint")
    deal: dict[str, Any] = {"allow": sorted(desk.allow)}
    if isinstance(run, str) and run and env is None:
        deal["folder"] = str(_checkpoint(desk, run, checkpoint))
        return deal, {"run": run, "checkpoint": checkpoint, "name": Path(run).name, "env": ""}
    if not isinstance(env, str) or not env or run is not None:
        raise Refused("bad_message", "expected either run (a run of the results) or env (the name of an env).", 400)
    config = body.get("env_config") or {}
    if not isinstance(config, dict):
        raise Refused("bad_message", f"env_config: expected a map, got {shortly(config)}.", 400)
    deal |= {"env": env, "env_config": config}
    return deal, {"run": None, "checkpoint": None, "name": env, "env": env, "env_config": config}


def _checkpoint(desk: Desk, run: str, checkpoint: Any) -> Path:
    if checkpoint is None:
        return desk.inside(run)
    if not isinstance(checkpoint, str):
        raise Refused("bad_message", f"checkpoint: expected a name, got {shortly(checkpoint)}.", 400)
    for place in (f"{run}/checkpoints/{checkpoint}", f"{run}/{checkpoint}"):
        if (desk.root / place).exists():
            return desk.inside(place)
    return desk.inside(f"{run}/checkpoints/{checkpoint}")


def _seats_of(given: Any, desk: Desk) -> tuple[dict[str, str], dict[str, str]]:
    """Words by agent, with paths that lead into the results alone, and what people read instead of them."""
    if not isinstance(given, dict) or not 0 < len(given) <= MOST_SEATS:
        raise Refused("bad_message", f"seats: expected a map of 1 to {MOST_SEATS} agents to who plays them.", 400)
    words: dict[str, str] = {}
    labels = {HUMAN: "host", POLICY: "the run's policy", "random": "random", "first": "first legal move"}
    guests = 0
    for agent, word in given.items():
        if not isinstance(word, str) or not word:
            raise Refused("bad_message", f"seats: {agent!r} is given to {shortly(word)}; expected a text.", 400)
        if is_guest(word):
            guests += 1
            word = f"{GUEST} {guests}"
        elif word not in (HUMAN, POLICY, *PLAIN) and not word.startswith(MEMBER):
            label, word = word, _source(word, desk)
            labels[word] = label
        words[agent] = word
    for word in words.values():
        if word.startswith(MEMBER):
            labels[word] = f"member {word.removeprefix(MEMBER)}"
    return words, labels


def _source(word: str, desk: Desk) -> str:
    """A run, checkpoint or export of the results by its path in them; a name of a policy or of a rule stays as it is."""
    path, hash_, policy = word.partition("#")
    if not (desk.root / path).exists():
        return word
    return f"{PLACE}{desk.inside(path)}{hash_}{policy}"


def _seed_of(body: Mapping[str, Any]) -> int | None:
    seed = body.get("seed")
    if seed is None:
        return None
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < LARGEST_SEED:
        raise Refused("bad_message", f"seed: expected a whole number from 0 on, got {shortly(seed)}.", 400)
    return seed


def _flag(body: Mapping[str, Any], key: str) -> bool:
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise Refused("bad_message", f"{key}: expected true or false, got {shortly(value)}.", 400)
    return value


def _agent(body: Mapping[str, Any], room: Room, person: str) -> str:
    """The seat that is meant; who has only one need not say it."""
    mine = room.seats_of(person)
    agent = body.get("agent", mine[0] if len(mine) == 1 else None)
    if not isinstance(agent, str):
        raise Refused("bad_message", f"agent: say which of your seats is meant: {', '.join(mine)}.", 400)
    return agent
