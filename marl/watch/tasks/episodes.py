"""Episodes for the page: played now from a checkpoint or done again from a recording, with all that policies thought."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marl.errors import EnvError
from marl.offline.view import open_recording
from marl.play.as_recorded import recorded_tape
from marl.play.episode import Tape, Which, play_episode
from marl.play.playable import Playable
from marl.play.trace import Trace, traced
from marl.scenario.routing import candidates, example_agent
from marl.watch.episode_request import EpisodeRequest, inside
from marl.watch.replies import as_json
from marl.watch.tasks.episode_answer import first_answer, part_of
from marl.watch.tasks.opened import Cache, open_request, place_of, source_in, stamp, which
from marl.watch.workers import Tell

__all__ = ["about", "open_request", "part", "recorded", "source_in", "trace", "traced_request", "which"]

MOST_TRACES = 4
_traces: Cache[Trace] = Cache(MOST_TRACES)


def trace(arguments: dict[str, Any], tell: Tell) -> bytes:
    """An episode with its scenes, as JSON. What is too large to send at once is left out, see ``part``."""
    found = traced_request(arguments, tell)
    tell(2, 3, "writing it down")
    asked = EpisodeRequest.read(arguments["request"])
    return as_json(first_answer(asked, found, Path(arguments["root"])))


def part(arguments: dict[str, Any], tell: Tell) -> bytes:
    """What was left out of some steps of an episode: observations and scenes."""
    first, last = int(arguments["first"]), int(arguments["last"])
    return as_json(part_of(traced_request(arguments, tell), first, last))


def traced_request(arguments: dict[str, Any], tell: Tell) -> Trace:
    """The trace of ``arguments["request"]``; the last few are kept."""
    request, root, allow = arguments["request"], Path(arguments["root"]), frozenset(arguments["allow"])
    asked = EpisodeRequest.read(request)
    named = [place_of(asked, root)]
    for source in (*asked.policies.values(), *filter(None, [asked.other, asked.recording])):
        named.append(root / source.partition("#")[0])
    key = (repr(sorted(asked.to_json().items())), tuple(map(stamp, named)), allow)

    def make() -> Trace:
        tell(0, 3, "opening the run")
        playable = open_request(request, root, allow)
        other = None
        if asked.other is not None:
            other = source_in(asked.other, root, playable.setup.policies)
        tell(1, 3, "playing the episode")
        if asked.recording is not None and asked.seed is None:
            tape = recorded_tape(playable, inside(root, asked.recording), asked.episode)
        else:
            tape = _played(playable, which(request, root))
        return traced(playable, tape, other)

    return _traces.get(key, make)


def _played(playable: Playable, episode: Which) -> Tape:
    try:
        return play_episode(playable, episode, scenes=True)
    except EnvError:
        # Some envs cannot be built to be drawn where there is no screen; what they show is still there to be read.
        return play_episode(playable, episode)


def about(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Who is in a run: its policies, and the agents that each may play."""
    del tell
    playable = open_request(arguments["request"], Path(arguments["root"]), arguments["allow"])
    setup = playable.setup
    agents: dict[str, list[str]] = {name: [] for name in setup.policies}
    for seat in setup.task.seat_names:
        for name in candidates(setup.proposed_mapper, example_agent(seat)):
            agents[name].append(seat)
    return {
        "env": setup.scenario.env,
        "checkpoint": playable.folder.name,
        "critics": playable.keeps_learners,
        "agents": list(setup.task.seat_names),
        "policies": [{"policy": name, "agents": there} for name, there in agents.items()],
    }


def recorded(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The episodes of a recording in brief."""
    del tell
    recording = open_recording(inside(Path(arguments["root"]), arguments["recording"]))
    return recording.as_json()
