"""What a measurement of exploitability gives: NashConv with its error, what it is, how it was found and what that cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marl.gametheory.merged.cost import in_words

LONG_S = 1e7  # seconds beyond which only their order of magnitude is told
EXACT, SAMPLED, LOWER = "exact", "sampled chance", "lower bound"


@dataclass(frozen=True)
class Effort:
    """What one measurement costs, known before it is made; 0: not a part of this method."""

    nodes: int = 0  # of a tree
    positions: int = 0  # distinct positions of the env
    information_sets: int = 0  # of all players
    timesteps: int = 0  # env steps of training, at least
    episodes: int = 0  # that are played
    seconds: float = 0.0  # estimated

    def as_json(self) -> dict[str, Any]:
        """Without what this method does not have."""
        return {name: value for name, value in vars(self).items() if value}

    def __str__(self) -> str:
        parts = []
        for name, value in vars(self).items():
            if value and name != "seconds":
                parts.append(
                    f"{in_words(value)} {name.replace('_', ' ').replace('timesteps', 'env steps of training')}"
                )
        if self.seconds:
            told = f"{max(self.seconds, 0.1):.1f}" if self.seconds < LONG_S else f"{self.seconds:.1e}"
            parts.append(f"about {told} s")
        return ", ".join(parts)


@dataclass(frozen=True)
class Exploitability:
    """NashConv with the part of each player. ``bound`` says what the numbers are."""

    nash_conv: float
    stderr: float
    gains: Mapping[str, float]
    errors: Mapping[str, float]
    bound: str  # EXACT, SAMPLED or LOWER
    timesteps: int = 0  # env steps that best responses were trained for
    why: str = ""  # why it is not exact, where that was wished for
    chance: Mapping[str, Any] = field(default_factory=dict)  # how it came into the game: mode, and what was sampled
    method: str = ""  # a name of the registry of methods
    effort: Effort = Effort()
    sharing: tuple[str, ...] = ()  # groups whose exploiter knows all that any of its members sees
    beside: Mapping[str, Exploitability] = field(default_factory=dict)  # what other methods found, by their names

    def as_json(self) -> dict[str, Any]:
        players = max(1, len(self.gains))
        return {
            "nash_conv": self.nash_conv,
            "exploitability": self.nash_conv / players,
            "stderr": self.stderr,
            "exploitability_stderr": self.stderr / players,
            "gains": dict(self.gains),
            "errors": dict(self.errors),
            "bound": self.bound,
            "exact": self.bound == EXACT,
            "chance": dict(self.chance),
            "timesteps": self.timesteps,
            "why": self.why,
            "method": self.method,
            "effort": self.effort.as_json(),
            **({"sharing": list(self.sharing)} if self.sharing else {}),
            **self._others(),
        }

    def _others(self) -> dict[str, Any]:
        """Only where several methods looked, so that other results stay short."""
        told = {}
        for name, found in self.beside.items():
            told[name] = {"nash_conv": found.nash_conv, "stderr": found.stderr, "bound": found.bound}
        if told:
            return {"beside": told}
        return {}
