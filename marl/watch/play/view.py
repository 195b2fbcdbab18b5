"""A game as one person gets it: the own seats, who else is there, and when it is over everything."""

from __future__ import annotations

import time
from typing import Any

from marl.watch.play.rooms import Room, undo_to
from marl.watch.play.words import HUMAN, is_guest, is_person


def shown_to(room: Room, person: str) -> dict[str, Any]:
    """All that this person may know. Asking is also what tells the others that the person is here."""
    room.seen[person] = time.monotonic()
    mine = room.seats_of(person)
    told = room.told
    _, why_not = undo_to(room, person)
    withdraws = bool(room.pending.keys() & mine)
    goes_on = not room.over and not room.ended
    views: dict[str, Any] = {}
    for agent in mine:
        if agent in told.get("views", {}):
            views[agent] = _view(room, agent)
    shown: dict[str, Any] = {
        "game": room.id,
        "round": room.round,
        "title": {"env": room.title["env"], "variant": room.title.get("variant"), "run": None},
        "guest": is_guest(person),
        "mine": mine,
        "seats": _seats(room, person),
        "turn": told.get("turn", 0),
        "over": room.over,
        "ended": room.ended,
        "views": views,
        "undo": goes_on and (withdraws or not why_not),
        "why_no_undo": "" if withdraws else why_not,
        "hints": room.hints.get(person, 0),
        "undos": room.undos.get(person, 0),
        "scores": room.scores.to_json(you=room.labels.get(person, person)),
    }
    if room.over:
        shown["revealed"] = {
            **told["revealed"], "recording": told.get("recording"), "not_kept": told.get("not_kept", ""),
        }  # fmt: skip
        shown["used"] = {"hints": sum(room.hints.values()), "undos": sum(room.undos.values())}
    if person == HUMAN:
        shown["title"] = room.title  # with the run, which guests do not need to know
    return shown


def _view(room: Room, agent: str) -> dict[str, Any]:
    view = dict(room.told["views"][agent])
    view["chosen"] = room.pending.get(agent)
    return view


def _seats(room: Room, person: str) -> list[dict[str, Any]]:
    """Who sits where. Of other people it is told that they are awaited or have chosen, never what."""
    waiting = room.told.get("waiting", [])
    found = []
    for agent, word in room.seats.items():
        human = is_person(word)
        found.append(
            {
                "agent": agent,
                "who": "you" if word == person else room.called(agent),
                "person": human,
                "here": room.is_here(word) if human else None,
                "asked": agent in waiting and agent not in room.pending,
            }
        )
    return found
