"""The result of the games at one table, by seat and by who sat there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EVEN = 1e-6  # returns that differ by less are equal


@dataclass
class Score:
    """One seat with one player on it."""

    games: int = 0
    wins: int = 0
    draws: int = 0
    losses: int = 0
    total: float = 0.0


@dataclass
class Scores:
    """All finished games. Who has earned most has won; where the best are several, they have drawn."""

    rows: dict[tuple[str, str], Score] = field(default_factory=dict)
    sums: list[float] = field(default_factory=list)  # of all returns of each game
    alike: bool = True  # whether all agents have earned the same in every game

    def add(self, who: Mapping[str, str], returns: Mapping[str, float]) -> None:
        """Count a finished game."""
        if not returns:
            return
        best = max(returns.values())
        winners = []
        for agent, earned in returns.items():
            if best - earned < EVEN:
                winners.append(agent)
        self.sums.append(sum(returns.values()))
        self.alike = self.alike and len(winners) == len(returns)
        for agent, earned in returns.items():
            if agent not in who:
                continue  # came by itself, as cars do: nobody gave it a seat at this table
            row = self.rows.setdefault((agent, who[agent]), Score())
            row.games += 1
            row.total += earned
            if agent not in winners:
                row.losses += 1
            elif len(winners) > 1:
                row.draws += 1
            else:
                row.wins += 1

    @property
    def competitive(self) -> bool:
        """Whether winning means anything: what one gains others lose, in all games so far."""
        agents = dict(self.rows.keys())
        if len(agents) < 2:
            return False
        highest, lowest = max(self.sums), min(self.sums)
        zero_sum = max(highest, -lowest) < EVEN
        # One game alone does not tell whether its sum is that of all games.
        constant = len(self.sums) > 1 and highest - lowest < EVEN
        return zero_sum or (constant and not self.alike)

    def to_json(self, you: str = "") -> dict[str, Any]:
        """``you`` is what whoever asks is called in here."""
        rows = []
        for (agent, name), row in self.rows.items():
            who = "you" if name == you else name
            rows.append({"agent": agent, "who": who, "mean": row.total / row.games, **vars(row)})
        return {"competitive": self.competitive, "rows": rows}
