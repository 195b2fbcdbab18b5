"""The payoff table of a growing population: only pairings that have not met yet are played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.populations.layout import PopulationLayout
from marl.populations.matches import Job, Returns, play_all
from marl.populations.members import Member
from marl.populations.payoff_estimates import over_seatings, seatings, standard_error
from marl.rollout.pool import WorkerPool

MOST_PAIRINGS = 20_000  # new ones of one round

Pairing = tuple[int, ...]
"""The number of the member that plays each player."""


class PayoffTable:
    """Means and standard errors of every pairing, by players in the order of the layout."""

    def __init__(self, layout: PopulationLayout, matches: int, seed: int) -> None:
        self.layout = layout
        self.matches = matches
        self.seed = seed
        self.played: dict[Pairing, Returns] = {}
        # All pairings play the same episodes: whoever is dealt better cards by luck, all are.
        drawn = np.random.default_rng([seed, 0x706179]).integers(0, 2**31 - 1, matches)
        self.seeds = tuple(drawn.tolist())

    def grow(self, pool: WorkerPool, members: Mapping[str, Sequence[Member]]) -> int:
        """Play what has not met yet; ``members`` are those of each population. Returns the number of episodes."""
        numbers = []
        for player in self.layout.players:
            population = self.layout.side_of(player)
            numbers.append(range(len(members[population.name])))
        # Counted before they are listed: with many players there may be more than memory holds.
        missing = prod(map(len, numbers)) - len(self.played)
        if missing > MOST_PAIRINGS:
            raise ConfigError(
                f"population: {missing:,} new pairings of {len(numbers)} players would have to "
                f"be played (limit {MOST_PAIRINGS:,}). Use longer rounds (round_timesteps), or psro with meta_solver: uniform."
            )
        new = [pairing for pairing in product(*numbers) if pairing not in self.played]
        earned = dict(zip(new, self._returns(pool, members, new), strict=True))
        for pairing in new:
            returns = earned[pairing]
            if self.layout.config.symmetric:  # new pairings come with all their ways to be seated
                returns = over_seatings(earned, pairing)
            self.played[pairing] = _summary(returns)
        return len(new) * self.matches

    def forget(self, population: str, number: int) -> None:
        """A member has changed: what it played does not count any more."""
        places = []
        for place, player in enumerate(self.layout.players):
            if self.layout.side_of(player).name == population:
                places.append(place)
        for pairing in list(self.played):
            if any(pairing[place] == number for place in places):
                del self.played[pairing]

    def play(
        self, pool: WorkerPool, members: Mapping[str, Sequence[Member]], pairings: Sequence[Pairing]
    ) -> list[Returns]:
        """Means and standard errors ``[2, players]`` of each pairing, as it is seated."""
        return [_summary(returns) for returns in self._returns(pool, members, pairings)]

    def _returns(
        self, pool: WorkerPool, members: Mapping[str, Sequence[Member]], pairings: Sequence[Pairing]
    ) -> list[Returns]:
        players = list(self.layout.players)
        known: dict[str, Member] = {}
        jobs = []
        for pairing in pairings:
            seating = []
            for player, number in zip(players, pairing, strict=True):
                population = self.layout.side_of(player).name
                known[f"{population}/{number}"] = members[population][number]
                seating += [(agent, f"{population}/{number}") for agent in self.layout.players[player]]
            jobs.append(Job(tuple(seating), self.seeds))
        return play_all(pool, known, jobs, self.layout.players)

    def tensor(self, names: Mapping[str, Sequence[str]]) -> PayoffTensor:
        """All pairings; those of a symmetric population are averaged over the seats."""
        layout, players = self.layout, tuple(self.layout.players)
        labels = tuple(tuple(names[layout.side_of(player).name]) for player in players)
        shape = tuple(map(len, labels))
        mean = np.full((len(players), *shape), np.nan)
        error, count = mean.copy(), np.zeros(shape, np.int64)
        for pairing, (means, errors) in self.played.items():
            place: Any = (slice(None), *pairing)
            mean[place], error[place] = means, errors
            count[pairing] = self.matches
            if layout.config.symmetric:
                count[pairing] *= len(seatings(pairing))
        return PayoffTensor(
            mean=mean,
            stderr=error,
            count=count,
            names=labels,
            players=players,
            symmetric=layout.config.symmetric,
        )

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        pairings = sorted(self.played)
        played = [self.played[pairing] for pairing in pairings]
        # Shaped by hand, because an empty list has no columns.
        rows, players = len(pairings), len(self.layout.players)
        return {
            "pairings": np.array(pairings, np.int64).reshape(rows, players),
            "played": np.array(played).reshape(rows, 2, players),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pairings = map(tuple, np.asarray(state["pairings"]).tolist())
        self.played = dict(zip(pairings, np.asarray(state["played"]), strict=True))


def _summary(returns: Returns) -> Returns:
    """Means and their standard errors ``[2, players]``."""
    return np.stack([returns.mean(axis=0), standard_error(returns)])
