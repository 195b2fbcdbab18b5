"""Learning curves of the runs behind the checkpoints, read from ``result.json`` in their directories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from marl.analysis.report.content import Block, Section, Words, meaning, number, picture
from marl.analysis.report.figures import Line, draw_curves
from marl.analysis.report.names import ReportParticipant
from marl.inputs import parse_json, read_text
from marl.runs.result import look_up

FIELDS: dict[str, tuple[str, ...]] = {
    "reward in training": ("episode_reward_mean",),
    "reward in evaluation": ("evaluation", "episode_reward_mean"),
}
NASH_CONV = ("exploitability", "nash_conv")


@dataclass(frozen=True)
class RunCurves:
    """Points (env steps, value) by field."""

    run: str
    rewards: dict[str, Line]
    nash_conv: Line
    bound: str  # what the NashConv is
    checkpoints: list[float]  # env steps at which the entrants were saved

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "rewards": self.rewards,
            "nash_conv": self.nash_conv,
            "bound": self.bound,
            "checkpoints": self.checkpoints,
        }


def run_curves(who: Sequence[ReportParticipant]) -> tuple[list[RunCurves], list[str]]:
    """One entry per run that has results, and notes on checkpoints without a run."""
    found, notes = [], []
    runs: dict[Path, list[int]] = {}
    for one in who:
        if one.run is not None:
            iterations = runs.setdefault(one.run, [])
            if one.iteration is not None:
                iterations.append(one.iteration)
        elif one.folder is not None:
            notes.append(f"{one.name} does not lie in a run directory, so its training is not known.")
    for run, iterations in runs.items():
        results = read_results(run / "result.json")
        if results:
            found.append(_curves(run.name, results, iterations))
        else:
            notes.append(f"{run.name} has no readable result.json.")
    # Several checkpoints of one run would say the same.
    return found, list(dict.fromkeys(notes))


def read_results(file: Path) -> list[dict[str, Any]]:
    """One dict per iteration; lines that are not results are passed over, as a run may be writing right now."""
    try:
        lines = read_text(file).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        try:
            result = parse_json(line)
        except ValueError:  # also of numbers that are too long, and of what is nested too deeply
            continue
        if isinstance(result, dict) and look_up(result, "timesteps_total") is not None:
            found.append(result)
    return found


def _curves(run: str, results: Sequence[Mapping[str, Any]], iterations: Sequence[int]) -> RunCurves:
    rewards = {name: _line(results, keys) for name, keys in FIELDS.items()}
    trained = _policy_lines(results, ("policy_reward_mean",), "")
    if len(trained) > 1:  # the curve of a single policy is that of the whole reward once more
        rewards |= trained
    rewards |= _policy_lines(results, ("evaluation", "policy_reward_mean"), " in evaluation")
    bound = ""
    steps: dict[Any, float] = {}
    for result in results:
        steps[result.get("training_iteration")] = float(result["timesteps_total"])
        measured = look_into(result, ("exploitability", "bound"))
        if isinstance(measured, str):
            bound = measured
    saved = {steps[iteration] for iteration in iterations if iteration in steps}
    drawn = {name: line for name, line in rewards.items() if line}
    return RunCurves(run, drawn, _line(results, NASH_CONV), bound, sorted(saved))


def _policy_lines(results: Sequence[Mapping[str, Any]], keys: Sequence[str], title: str) -> dict[str, Line]:
    """A line for each policy that a section of the results ever names, in the order in which they appear.

    ``title`` follows the policy's name.
    """
    names: dict[str, None] = {}
    for result in results:
        section = look_into(result, keys)
        if isinstance(section, Mapping):
            names |= dict.fromkeys(map(str, section))
    return {f"{name}{title}": _line(results, (*keys, name)) for name in names}


def look_into(tree: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """What stands in nested sections; None where one of them is missing."""
    value: Any = tree
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _line(results: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Line:
    found: Line = []
    for result in results:
        value = look_into(result, keys)
        # Not isinstance, to which true is an int. NaN (no episode has ended) cannot be drawn.
        if type(value) in (int, float) and not math.isnan(value):
            found.append((float(result["timesteps_total"]), float(value)))
    return found


def curves_section(found: Sequence[RunCurves], notes: Sequence[str]) -> Section:
    blocks: list[Block] = []
    for run in found:
        if not run.rewards and not run.nash_conv:
            blocks.append(Words(f"{run.run}: no finished episodes in its results."))
            continue
        last = ", ".join(f"{name} {number(line[-1][1])}" for name, line in run.rewards.items())
        if run.nash_conv:
            last += f", NashConv {number(run.nash_conv[-1][1])} ({run.bound or 'as measured'})"
        blocks.append(
            picture(partial(draw_curves, run.rewards, run.nash_conv, run.checkpoints), f"{run.run}: {last}", run.run)
        )
        blocks.append(Words(f"{run.run}, at the end: {last.strip(', ')}."))
    blocks += [Words(note) for note in notes]
    blocks.append(
        meaning(
            "How rewards changed while the runs trained; dotted lines mark the checkpoints of this report. In "
            "self-play of a zero-sum game the sum of rewards is always 0 and says nothing about progress: look at the payoffs "
            "between checkpoints, at evaluations against a fixed opponent, and at NashConv, which should go down."
        )
    )
    return Section("curves", "Learning curves", blocks)
