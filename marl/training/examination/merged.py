"""Exactly, by the game's distinct positions (``gametheory/merged``): histories with the same future are taken together.

A group of agents is one player here, whose members tell each other all that they see (``gametheory/merged/teams.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from marl.data.task import AgentID
from marl.errors import ConfigError
from marl.gametheory.merged.cost import total
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.kernel import expected_values
from marl.gametheory.merged.sampled import gain_errors, spans_of
from marl.gametheory.merged.teams import TeamGame, with_team
from marl.gametheory.tree.tree import Reals
from marl.policies.build import build_policies
from marl.policies.mixture import Mixture
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value import ValuePolicy
from marl.populations.exploit_config import ExploitabilityConfig
from marl.training.examination.figures import EXACT, SAMPLED, Effort, Exploitability
from marl.training.examination.game import Asked, ExaminedGame
from marl.training.examination.method import Method
from marl.training.examination.positions import positions_for


class EndlessMemoryError(ConfigError):
    """Histories cannot be merged, because a policy tells them all apart."""


class ByPositions(Method):
    """Any number of players, general sum; what it costs is known before the first measurement."""

    name: ClassVar[str] = "merged"
    told: ClassVar[str] = "best responses are computed on merged positions"

    def __init__(self, game: ExaminedGame, config: ExploitabilityConfig) -> None:
        self.game, self.limit = game, config.max_seconds
        policies = game.by_seat(build_policies(game.setup.policies, game.setup.task.kinds))
        check_groups(game, policies)
        if config.method == "auto":
            check_memories(policies)
        self.merged = MergedGame(positions_for(game.env, game.setup.scenario.env_config, config))
        self.teams = self._team_games()
        # What cannot be read as tables shows now, not after the first iterations.
        if self.teams:
            self.merged.tables(policies)
        else:
            self.merged.cost(policies, 0)
        self.effort = self._effort()
        if self.effort.seconds > config.max_seconds:
            raise ConfigError(
                f"an exact measurement takes {self.effort}, more than max_seconds ({config.max_seconds:g})."
            )

    def _team_games(self) -> dict[str, TeamGame]:
        """The game of each player that is a group."""
        found = {}
        for player in self.game.players:
            seats = self._seats(player)
            if len(seats) > 1:
                found[player] = with_team(self.merged.positions, seats, player)
        return found

    def _effort(self) -> Effort:
        """As if everybody played every legal action: other policies cost no more."""
        even = [views.legal / views.legal.sum(axis=1, keepdims=True) for views in self.merged.positions.views]
        costs = []
        for seat, name in enumerate(self.game.seats):
            if self.game.owner(name) not in self.teams:
                costs.append(self.merged.cost(even, seat))
        for team in self.teams.values():
            costs.append(team.cost(even))
        cost = total(costs)
        return Effort(positions=cost.positions, information_sets=cost.information_sets, seconds=round(cost.seconds, 6))

    def measure(self, asked: Asked) -> Exploitability:
        positions, policies = self.merged.positions, self.game.by_seat(asked.policies)
        owners = [self.game.owner(name) for name in self.game.seats]
        if self.teams:
            owners = list(self.game.players)
            gains, errors, error = self._gains_of_teams(policies)
        else:
            found = self.merged.measure(policies, limit=self.limit)
            gains, errors, error = found.gains, found.errors, found.total_error
        return Exploitability(
            nash_conv=float(gains.sum()),
            stderr=error,
            gains=dict(zip(owners, gains.tolist(), strict=True)),
            errors=dict(zip(owners, errors.tolist(), strict=True)),
            bound=EXACT if positions.sample is None else SAMPLED,
            chance=positions.chance_json(),
            sharing=tuple(self.teams),
        )

    def _gains_of_teams(self, policies: Mapping[AgentID, Policy]) -> tuple[Reals, Reals, float]:
        """What each player could gain, with standard errors, and that of the sum."""
        positions, tables = self.merged.positions, self.merged.tables(policies)
        gains = self._gains_at(tables, positions.start_probability)
        at = partial(self._gains_at, tables)
        return gains, *gain_errors(positions, gains, at, self._spans, self.effort.seconds)

    def _spans(self) -> Reals:
        """How far apart payoffs of each player can be; of a group, those of its members together."""
        spans = spans_of(self.merged.positions)
        return np.array([float(spans[self._seats(player)].sum()) for player in self.game.players])

    def _gains_at(self, tables: Sequence[Reals], shares: Reals) -> Reals:
        """The gains with these shares of the starts."""
        game = MergedGame(replace(self.merged.positions, start_probability=shares))
        values = expected_values(game.positions, tables)
        gains = []
        for player in self.game.players:
            seats = self._seats(player)
            if player in self.teams:
                team = self.teams[player]
                shared = replace(team, positions=replace(team.positions, start_probability=shares))
                best = shared.best_value(tables)  # a team that shares what it sees
            else:
                best = game.best_value(tables, seats[0])
            gains.append(best - float(values[seats].sum()))
        return np.array(gains)

    def _seats(self, player: str) -> list[int]:
        return [seat for seat, name in enumerate(self.game.seats) if self.game.owner(name) == player]


def check_groups(game: ExaminedGame, policies: Mapping[AgentID, Policy]) -> None:
    for seat, policy in policies.items():
        if game.has_groups and isinstance(policy, Mixture):
            raise ConfigError(
                f"{seat} is played by a mixture, which draws one member for a whole group, and groups of mixtures are not "
                "merged."
            )


def check_memories(policies: Mapping[AgentID, Policy]) -> None:
    """Refuse what is known not to merge, before anything is looked through."""
    for seat, given in policies.items():
        policy = given.member(0) if isinstance(given, Mixture) else given
        if isinstance(policy, StochasticPolicy | ValuePolicy) and policy.carry_size:
            raise EndlessMemoryError(
                f"the policy of {seat} has a memory (lstm, gru or attention) that keeps all histories apart, so they cannot "
                "be taken together."
            )
