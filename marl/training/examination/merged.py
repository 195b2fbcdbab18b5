"""Exactly, by the game's distinct positions (``gametheory/merged``): histories with the same future are taken together.

A group of agents is one player here, whose members tell each other all that they see (``gametheory/merged/teams.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from marl.data.task import AgentID
from marl.errors import ConfigError
from marl.gametheory.merged.cost import total
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.kernel import expected_values
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
        self.merged = MergedGame(positions_for(game.setup.scenario, config))
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
            seats = [seat for seat, name in enumerate(self.game.seats) if self.game.owner(name) == player]
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
        positions = self.merged.positions
        gains = self._gains(self.game.by_seat(asked.policies))
        return Exploitability(
            nash_conv=sum(gains.values()),
            stderr=0.0,
            gains=gains,
            errors=dict.fromkeys(gains, 0.0),
            bound=EXACT if positions.sample is None else SAMPLED,
            chance=positions.chance_json(),
        )

    def _gains(self, policies: Mapping[AgentID, Policy]) -> dict[str, float]:
        if not self.teams:
            measured = self.merged.measure(policies, limit=self.limit)
            owners = map(self.game.owner, self.game.seats)
            return dict(zip(owners, measured.gains.tolist(), strict=True))
        tables = self.merged.tables(policies)
        values = expected_values(self.merged.positions, tables)
        gains = {}
        for player in self.game.players:
            seats = [seat for seat, name in enumerate(self.game.seats) if self.game.owner(name) == player]
            gains[player] = self._best(player, seats, tables) - float(values[seats].sum())
        return gains

    def _best(self, player: str, seats: Sequence[int], tables: Sequence[Reals]) -> float:
        """What a single agent, or a team that shares what it sees, can earn against the others."""
        if player in self.teams:
            return self.teams[player].best_value(tables)
        return self.merged.best_value(tables, seats[0])


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
