"""A trace as the page gets it: with pictures and spaces, and no more at once than a browser takes in a moment.

Observations and pictures of long episodes are most of their bytes and are looked at one step at a time. Beyond a size they
are left out of the first answer, and the page asks for those that it shows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AnySpace, Array, Task
from marl.play.trace import Trace, plain
from marl.watch.episode_request import EpisodeRequest
from marl.watch.replies import as_json

DIGITS = 7  # as many as the numbers of networks have
MOST_NUMBERS = 400_000  # of all observations together in the first answer
MOST_SCENE_BYTES = 8_000_000
MOST_PART_BYTES = 4_000_000  # of one further answer
MOST_WRONG = 200  # decisions in the list of where values were most wrong
MOST_BOUNDS = 64  # coordinates of a Box whose bounds are told one by one


def first_answer(asked: EpisodeRequest, trace: Trace, root: Path) -> dict[str, Any]:
    """The answer to a request for an episode."""
    left_out = []
    if _numbers_in_observations(trace) > MOST_NUMBERS:
        left_out.append("observations")
        trace = _without_observations(trace)
    told = trace.to_json()
    # A saved page goes to others, who need not know the folders of this machine.
    told["checkpoint"] = os.path.relpath(told["checkpoint"], root.resolve())
    told["most_wrong"] = told["most_wrong"][:MOST_WRONG]
    if asked.seed is None:
        told["seed"] = None
    scenes: Sequence[Any] = trace.tape.scenes
    if len(as_json(scenes)) > MOST_SCENE_BYTES:
        left_out.append("scenes")
        scenes = []
    task = trace.tape.batch.task
    return {
        "request": asked.to_json(),
        "trace": shorter(told),
        "scenes": scenes,
        "left_out": left_out,
        **_spaces_of_agents(trace, task),
    }


def part_of(trace: Trace, first: int, last: int) -> dict[str, Any]:
    """Observations and scenes of the steps ``first`` to ``last``; fewer steps where these would be too many bytes."""
    steps: list[Any] = []
    scenes: list[Any] = []
    size = 0
    for step in range(first, min(last, len(trace) - 1) + 1):
        seen = {}
        for agent, one in trace.steps[step].items():
            if one.asked:
                seen[agent] = shorter(plain(one.observation))
        # The scene before the step and the one after it are both looked at.
        shown = trace.tape.scenes[step : step + 2]
        size += len(as_json(seen)) + len(as_json(shown))
        # One step is always sent, however large it is: else nobody could ever look at it.
        if steps and size > MOST_PART_BYTES:
            break
        steps.append({"step": step, "observations": seen})
        scenes.append(shown)
    return {"steps": steps, "scenes": scenes}


def _without_observations(trace: Trace) -> Trace:
    # Before they become lists: that would take most of the time.
    steps = []
    for agents in trace.steps:
        steps.append({agent: replace(one, observation=None) for agent, one in agents.items()})
    return replace(trace, steps=tuple(steps))


def _numbers_in_observations(trace: Trace) -> int:
    batch = trace.tape.batch
    total = 0
    for kind in batch.task.kinds:
        total += int(batch.present[:, :, kind.seats].sum()) * kind.obs_width
    return total


def shorter(value: Any) -> Any:
    """The same with numbers of ``DIGITS`` digits: half of the bytes, and nothing that anybody could see."""
    # By the exact type: a third of the time for what happens a million times.
    kind = type(value)
    if kind is float:
        return float(f"{value:.{DIGITS}g}")
    if kind is list:
        return list(map(shorter, value))
    if kind is dict:
        return dict(zip(value, map(shorter, value.values()), strict=True))
    return value


# -- spaces ------------------------------------------------------------------------------------------------------------


def _spaces_of_agents(trace: Trace, task: Task) -> dict[str, Any]:
    """By agents: those that come and go sit on seats of other names."""
    told = [(space_as_json(kind.action_space), space_as_json(kind.observation_space)) for kind in task.kinds]
    acting: dict[str, Any] = {}
    seeing: dict[str, Any] = {}
    tape = trace.tape
    for step, names in enumerate(tape.asked):
        for seat in np.flatnonzero(tape.batch.present[step, 0]).tolist():
            if names[seat] not in acting:
                acting[names[seat]], seeing[names[seat]] = told[task.kind_of(seat)]
    return {"spaces": acting, "observation_spaces": seeing}


def space_as_json(space: AnySpace) -> dict[str, Any]:
    """What a page has to know of a space; of kinds that it does not know the text."""
    told: dict[str, Any] = {"type": type(space).__name__, "text": str(space)}
    match space:
        case spaces.Discrete():
            told["n"] = int(space.n)
            told["start"] = int(space.start)
        case spaces.MultiDiscrete():
            told["shape"] = list(space.shape)
            told["nvec"] = space.nvec.tolist()
        case spaces.Box():
            told["shape"] = list(space.shape)
            told["low"] = _bound(space.low)
            told["high"] = _bound(space.high)
        case spaces.MultiBinary():
            told["shape"] = list(space.shape)
        case spaces.Dict():
            told["spaces"] = {key: space_as_json(one) for key, one in space.spaces.items()}
        case spaces.Tuple():
            told["spaces"] = list(map(space_as_json, space.spaces))
    return told


def _bound(bound: Array) -> Any:
    """One number where it is that of all coordinates; nothing where there are too many different ones."""
    numbers = np.unique(bound)
    if numbers.size == 1:
        return float(numbers[0])
    if bound.size > MOST_BOUNDS:
        return None
    return bound.tolist()
