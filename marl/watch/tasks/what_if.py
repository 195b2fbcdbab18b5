"""What if: a branch of an episode to look at, and what another action or policy changes on average."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from marl.errors import ConfigError
from marl.play.branch import trace_branch
from marl.play.playable import Playable
from marl.play.questions import question_of
from marl.play.takeover import Instead
from marl.play.trace import Trace
from marl.play.why import ask_about
from marl.watch.episode_request import EpisodeRequest
from marl.watch.tasks.episode_answer import first_answer, shorter
from marl.watch.tasks.episodes import open_request, source_in, traced_request
from marl.watch.workers import Tell


def branch(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The episode with the other thing done, in the form of an episode (``tasks/episodes.py``)."""
    playable, trace, question = _asked(arguments, tell)
    asked, root = EpisodeRequest.read(arguments["request"]), Path(arguments["root"])
    other = None
    if asked.other is not None:
        other = source_in(asked.other, root, playable.setup.policies)
    tell(0, None, "playing on from there")
    found = trace_branch(playable, trace.tape, question, other=other, scenes=True)
    told = first_answer(asked, found, root)
    # What was left out of a long episode cannot be asked for: the page would get that of the episode as it was.
    return {**told, "left_out": [], "branch": {key: arguments[key] for key in ("step", "agent", "action", "policy")}}


def effect(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The answer of ``marl why`` (docs/why.md)."""
    playable, trace, question = _asked(arguments, tell)

    def progress(done: int, total: int) -> None:
        tell(done, total, "continuations")

    told = ask_about(playable, trace, question, arguments["continuations"], progress).to_json()
    # A saved page goes to others, who need not know the folders of this machine.
    root = Path(arguments["root"]).resolve()
    told["checkpoint"] = os.path.relpath(told["checkpoint"], root)
    for key in ("instead", "policy", "sentence"):
        if told["answer"][key] is not None:
            told["answer"][key] = told["answer"][key].replace(f"{root}{os.sep}", "")
    found: dict[str, Any] = shorter(told)
    return found


def _asked(arguments: dict[str, Any], tell: Tell) -> tuple[Playable, Trace, Instead]:
    """The run, the episode as it was, and the question, checked."""
    root = Path(arguments["root"])
    playable = open_request(arguments["request"], root, frozenset(arguments["allow"]))
    policy = arguments["policy"]
    # The page knows runs by their names in the results; nothing outside of them can be named.
    if policy is not None:
        policy = source_in(policy, root, playable.setup.policies)
    trace = traced_request(arguments, tell)
    question = question_of(playable, trace.tape, arguments["agent"], arguments["step"], arguments["action"], policy)
    if question is None:
        raise ConfigError("nothing was asked: say what the agent does instead, an action or a policy.")
    return playable, trace, question
