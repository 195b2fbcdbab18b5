"""What the checker found, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from marl.data.task import AgentType
from marl.envs.check.chance_exam import Chance
from marl.envs.check.dict_play import Clock
from marl.envs.check.findings import Problem
from marl.envs.check.traces import Trace

DECISION_MS = 0.05  # of acting and learning by PPO, per decision, on one core; see docs/performance.md


@dataclass
class Report:
    """A summary of the env under random play, and its problems."""

    env: str
    api: str = "dicts"
    problems: list[Problem] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    kinds: Sequence[AgentType] = ()
    max_agents: dict[str, int] = field(default_factory=dict)
    state_size: int = 0
    episodes: Sequence[Trace] = ()
    clock: Clock = field(default_factory=Clock)
    chance: Chance | None = None  # None: not looked at, because something else is wrong

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severe]

    @property
    def passed(self) -> bool:
        return not self.errors

    def as_json(self) -> dict[str, Any]:
        whole = [trace for trace in self.episodes if trace.over]
        steps = sum(max(trace.length, 0) for trace in self.episodes)
        return {
            "env": self.env,
            "passed": self.passed,
            "problems": [_problem(problem) for problem in self.problems],
            "notes": self.notes,
            "world": {  # an old name, which readers of the JSON know
                "api": self.api,
                "kinds": [_kind(kind) for kind in self.kinds],
                "max_agents": self.max_agents,
                "state_size": self.state_size,
            },
            "chance": None if self.chance is None else {"says": str(self.chance), **asdict(self.chance)},
            "random_play": {
                "steps": steps,
                "episodes": len(whole),
                "episode_len": _spread([trace.length for trace in whole]),
                "episode_reward": _spread([sum(trace.returns.values()) for trace in whole]),
                "decisions_per_step": sum(trace.decisions for trace in self.episodes) / max(steps, 1),
            },
            "speed": self._speed(),
        }

    def _speed(self) -> dict[str, float]:
        steps = sum(trace.length for trace in self.episodes)
        decisions = sum(trace.decisions for trace in self.episodes)
        step_ms = 1e3 * _median(self.clock.steps)
        training_ms = step_ms + DECISION_MS * decisions / max(steps, 1)
        speed = {
            "reset_ms": 1e3 * _median(self.clock.resets),
            "step_ms": step_ms,
            "steps_per_second": 0.0,
            "share_of_training": 0.0,
        }
        if step_ms:
            speed["steps_per_second"] = 1e3 / step_ms
        if training_ms:
            speed["share_of_training"] = step_ms / training_ms
        return speed

    def print(self, console: Console) -> None:
        """A few lines: the env, how random play went, one line per problem, the verdict."""
        for title, text in self._lines():
            console.print(f"[bold]{title:<9}[/bold] {escape(text)}", highlight=False)
        for problem in self.problems:
            colour, level = ("red", "error") if problem.severe else ("yellow", "warning")
            often = f" ({problem.times} times)" if problem.times > 1 else ""
            said = escape(f"[{problem.code}] {problem.text}{often}")
            console.print(
                f"[{colour}]{level:<9}[/{colour}] {said} [dim]{escape(problem.remedy)}[/dim]", highlight=False
            )
        errors = len(self.errors)
        warnings = len(self.problems) - errors
        verdict = "no problems found"
        if self.problems:
            verdict = f"{errors} error(s), {warnings} warning(s)"
        console.print(f"{escape(self.env)}: {verdict}", highlight=False)

    def _lines(self) -> list[tuple[str, str]]:
        lines = [("env", f"{self.env} ({self.api}), global state: {self.state_size or 'none'}")]
        for kind in self.kinds:
            names = ", ".join(map(str, kind.agents[:3]))
            if kind.size > 3:
                names += f", ... ({kind.size} in all)"
            text = f"{names}: sees {kind.observation_space}, does {kind.action_space}"
            if kind.masked:
                text += ", with action masks"
            lines.append(("agents", text))
        play = self.as_json()["random_play"]
        if play["episodes"]:
            length, reward = play["episode_len"], play["episode_reward"]
            lines.append(
                (
                    "episodes",
                    f"{play['episodes']} whole ones under random play: {length['mean']:.1f} steps ({length['min']:g} to "
                    f"{length['max']:g}), reward {reward['mean']:.3g} ({reward['min']:.3g} to {reward['max']:.3g})",
                )
            )
        else:
            lines.append(("episodes", f"none ended in {play['steps']} steps of random play"))
        speed = self._speed()
        if speed["step_ms"]:
            lines.append(
                (
                    "speed",
                    f"reset {speed['reset_ms']:.3g} ms, step {speed['step_ms']:.3g} ms: {speed['steps_per_second']:,.0f} "
                    f"steps per second, roughly {speed['share_of_training']:.0%} of the time of training by PPO on one core",
                )
            )
        if self.chance is not None:
            lines.append(("chance", str(self.chance)))
        return lines + [("note", f"{name}: {text}") for name, text in self.notes.items()]


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "code": problem.code,
        "level": "error" if problem.severe else "warning",
        "text": problem.text,
        "remedy": problem.remedy,
        "times": problem.times,
    }


def _kind(kind: AgentType) -> dict[str, Any]:
    return {
        "name": kind.name,
        "agents": [str(agent) for agent in kind.agents],
        "observation_space": str(kind.observation_space),
        "action_space": str(kind.action_space),
        "masked": kind.masked,
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {"mean": float(np.mean(values)), "min": float(min(values)), "max": float(max(values))}


def _median(values: Sequence[float]) -> float:
    if not values:
        return 0.0
    return float(np.median(values))
