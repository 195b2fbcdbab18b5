"""Who plays in walks, and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from marl.algos.deep_cfr.networks import RegretNetwork
from marl.data.task import AgentType, Array, Bools, Ints, PolicyID
from marl.gametheory.tree.env_walker import Sight
from marl.policies.policy import Inputs, Policy

Rows = dict[str, Array]
"""Columns of decisions."""
NOBODY = -1  # the seat that looks for regrets where nobody does


@dataclass(frozen=True)
class WalkJob:
    """Games with these seeds in which the agent on ``seat`` looks for regrets."""

    seat: int
    seeds: Ints
    way: str  # of ``WALKS``
    gamma: float
    max_branches: int


@dataclass
class WalkedGames:
    """What a job brought: decisions of the agent that looked for regrets, and those of others by policy."""

    regrets: list[Rows] = field(default_factory=list)
    strategies: dict[PolicyID, list[Rows]] = field(default_factory=dict)
    env_steps: int = 0
    decisions: int = 0


class Cast:
    """Who plays on which seat, and how: by regret matching, or as a scripted policy does."""

    def __init__(
        self, policies: Mapping[PolicyID, Policy], networks: Mapping[PolicyID, RegretNetwork], seating: Sequence[PolicyID],
        kinds: Sequence[AgentType], rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.policies, self.networks, self.seating, self.kinds, self.rng = policies, networks, seating, kinds, rng
        self.games = WalkedGames()
        self.place: list[tuple[int, int]] = []  # of each seat: its kind, and which of that kind's agents
        for k, kind in enumerate(kinds):
            self.place += [(k, i) for i in range(kind.size)]

    def options(self, seat: int) -> int:
        """How many actions the agent on this seat has."""
        return self.kinds[self.place[seat][0]].columns.options

    def inputs(self, sight: Sight, seat: int, rows: Ints) -> Inputs:
        """What the agent on this seat sees in some of the positions."""
        k, i = self.place[seat]
        return Inputs(sight.obs[k][rows, i], sight.legal[k][rows, i], np.full(len(rows), i))

    def strategy(self, inputs: Inputs, seat: int) -> NDArray[np.float64]:
        return self.networks[self.seating[seat]].strategy(inputs)

    def others_act(self, sight: Sight, looking: int, going: Bools) -> Ints:
        """Actions ``[n, seats]`` of all who are asked but the one who looks for regrets; their strategies are kept.

        In games that nobody looks at any more (not ``going``) everybody does the first thing that is legal.
        """
        actions = self._first_legal(sight)
        for seat, name in enumerate(self.seating):
            rows = np.flatnonzero(sight.present[:, seat] & going)
            if seat == looking or not rows.size:
                continue
            inputs = self.inputs(sight, seat, rows)
            self.games.decisions += rows.size
            if name in self.networks:
                actions[rows, seat] = self._draw(inputs, seat)
            else:
                nothing = np.zeros((rows.size, 0), np.float32)
                actions[rows, seat] = self.policies[name].act(inputs, nothing, self.rng, explore=True).actions
        return actions

    def _first_legal(self, sight: Sight) -> Ints:
        """``[n, seats]``: what no env refuses."""
        actions = np.zeros(sight.present.shape, np.int64)
        for kind, legal in zip(self.kinds, sight.legal, strict=True):
            if legal.shape[2]:
                actions[:, kind.seats] = legal.argmax(axis=2)
        return actions

    def _draw(self, inputs: Inputs, seat: int) -> Ints:
        """Actions by regret matching; the chances are kept for the average policy."""
        chances = self.strategy(inputs, seat)
        kept = {**as_columns(inputs), "target": chances.astype(np.float32)}
        self.games.strategies.setdefault(self.seating[seat], []).append(kept)
        return drawn(chances, self.rng)

    def columns(self, actions: Ints) -> list[Array]:
        """Actions per kind of agents, as an env takes them."""
        return [actions[:, kind.seats] for kind in self.kinds]


def as_columns(inputs: Inputs) -> Rows:
    return {"obs": inputs.obs, "agent_index": inputs.agent_index, "legal": inputs.legal}


def drawn(chances: NDArray[np.float64], rng: np.random.Generator) -> Ints:
    """One action per row."""
    below = np.cumsum(chances, axis=1)
    lot = rng.random(len(chances))[:, None] * below[:, -1:]
    return np.asarray((below <= lot).sum(axis=1), np.int64)
