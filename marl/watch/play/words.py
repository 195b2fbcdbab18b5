"""Words for who plays a seat, known to the server and to the process in which games are played."""

from __future__ import annotations

HUMAN = "human"  # whoever opened the game
GUEST = "guest"  # somebody with an invitation; numbered, where there are several
POLICY = "policy"  # as in the run
MEMBER = "member:"  # in front of MIXTURE/NUMBER
PLACE = "path:"  # in front of a folder of the results, found by the server: other paths are not followed
PLAIN = ("random", "first")  # sources that are no paths


def is_person(word: str) -> bool:
    return word == HUMAN or is_guest(word)


def is_guest(word: str) -> bool:
    name, _, number = word.partition(" ")
    return name == GUEST and (number.isdecimal() or not number)
