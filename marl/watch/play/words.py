"""Words for who plays a seat, known to the server and to the process in which games are played."""

from __future__ import annotations

import re

HUMAN = "human"  # whoever opened the game
GUEST = "guest"  # somebody with an invitation; numbered, where there are several
POLICY = "policy"  # as in the run
MEMBER = "member:"  # in front of MIXTURE/NUMBER
PLACE = "path:"  # in front of a folder of the results, found by the server: other paths are not followed
PLAIN = ("random", "first")  # sources that are no paths


_GUEST = re.compile(rf"{GUEST}( \d+)?", re.ASCII)


def is_person(word: str) -> bool:
    return word == HUMAN or is_guest(word)


def is_guest(word: str) -> bool:
    return _GUEST.fullmatch(word) is not None
