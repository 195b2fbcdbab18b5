"""Who is a player, which players share a population, and which policies a population run has.

For each *side* (a population): learners, which train; an ``answer``, the mixture that the run proposes to play; and for each
learner a mixture of every side that it meets, ``SIDE.against.LEARNER``. All mixtures of a side have the same members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from marl.data.task import AgentID, AgentType, PolicyID
from marl.errors import ConfigError, SpaceMismatchError
from marl.mappers.matchmaking import Matchmaking, Seating
from marl.populations.config import PopulationConfig

SYMMETRIC = "main"


@dataclass(frozen=True)
class Population:
    """One population."""

    name: str
    players: tuple[str, ...]
    kind: int  # of its agents
    learners: tuple[PolicyID, ...]  # the main one first

    @property
    def answer(self) -> PolicyID:
        return f"{self.name}.answer"


@dataclass(frozen=True)
class PopulationLayout:
    """Everything about a population run that follows from the scenario and the env."""

    config: PopulationConfig
    players: Mapping[str, tuple[AgentID, ...]]
    sides: tuple[Population, ...]
    teams: tuple[int, ...]  # per seat: the number of its player

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The seats of each player: a critic or mixer that looks at a group looks at one player's agents."""
        return {
            player: tuple(seat for seat, team in enumerate(self.teams) if team == i)
            for i, player in enumerate(self.players)
        }

    def side_of(self, player: str) -> Population:
        return next(side for side in self.sides if player in side.players)

    @property
    def learners(self) -> dict[PolicyID, Population]:
        return {learner: side for side in self.sides for learner in side.learners}

    @property
    def opponents(self) -> dict[PolicyID, dict[str, PolicyID]]:
        """For each learner: the policy that plays each player which it may meet."""
        return {
            learner: {
                player: crowd_id(self.side_of(player), learner)
                for player in self.players
                if player not in side.players or len(side.players) > 1
            }
            for learner, side in self.learners.items()
        }

    @property
    def mixtures(self) -> dict[PolicyID, Population]:
        """All mixtures and the side whose members they hold."""
        opponents = {
            policy: self.side_of(player) for faced in self.opponents.values() for player, policy in faced.items()
        }
        return {**opponents, **{side.answer: side for side in self.sides}}

    def matchmaking(self) -> Matchmaking:
        learners = {player: self.side_of(player).learners for player in self.players}
        return Matchmaking(self.players, learners, self.opponents, self.config.self_share)

    def answers(self) -> Seating:
        return Seating(self.players, {player: self.side_of(player).answer for player in self.players})


def crowd_id(side: Population, learner: PolicyID) -> PolicyID:
    return f"{side.name}.against.{learner}"


def set_stage(
    config: PopulationConfig, groups: Mapping[str, Sequence[AgentID]], kinds: Sequence[AgentType]
) -> PopulationLayout:
    """Players, sides and policies; refuses what cannot be a population."""
    names = [name for kind in kinds for name in kind.agents]
    players = find_players(config.players, groups, names)
    kind_of = {player: _kind(player, ids, kinds) for player, ids in players.items()}
    if len(players) < 2:
        raise ConfigError(
            f"population: {config.kind} needs two players or more, but the env has only {', '.join(players)}. Split its "
            "agents by population.players or multiagent.groups."
        )
    if config.symmetric and len(set(kind_of.values())) > 1:
        raise SpaceMismatchError(
            "population.symmetric: the players' spaces differ ("
            f"{', '.join(f'{p}: {kinds[k].observation_space}, {kinds[k].action_space}' for p, k in kind_of.items())}), so one "
            "population cannot play them all. Set symmetric: false."
        )
    shares = {SYMMETRIC: tuple(players)} if config.symmetric else {player: (player,) for player in players}
    more = config.make_kind().extra_learners
    sides = tuple(
        Population(name, members, kind_of[members[0]], (name, *(f"{name}.{one}" for one in more)))
        for name, members in shares.items()
    )
    numbers = {player: i for i, player in enumerate(players)}
    teams = tuple(numbers[_owner(name, players)] for name in names)
    return PopulationLayout(config, players, sides, teams)


def find_players(
    given: Mapping[str, Sequence[AgentID]], groups: Mapping[str, Sequence[AgentID]], names: Sequence[AgentID]
) -> dict[str, tuple[AgentID, ...]]:
    """Players and their agents: as ``given``, else every group and every agent outside of them. ``names`` are the seats."""
    players = {name: tuple(ids) for name, ids in (given or groups).items()}
    for name, ids in players.items():
        for agent in ids:
            if not any(_fits(seat, agent) for seat in names):
                known = sorted({seat.split("[")[0] for seat in names})
                raise ConfigError(
                    f"population: player {name!r} has the agent {agent!r}, which the env does not have. Agents: "
                    f"{', '.join(known)}."
                )
    for seat in names:
        owners = [name for name, ids in players.items() if any(_fits(seat, agent) for agent in ids)]
        if len(owners) > 1:
            raise ConfigError(
                f"population: agent {seat!r} belongs to the players {' and '.join(owners)}; one is right."
            )
        if not owners and given:
            raise ConfigError(
                f"population.players: agent {seat!r} belongs to no player. Add it to one of {', '.join(players)}."
            )
        if not owners:
            pattern = seat.split("[")[0]
            name = pattern.rstrip("_*") if "*" in pattern else pattern
            if players.get(name, (pattern,)) != (pattern,):
                raise ConfigError(
                    f"players: {name!r} is the name of a group, and also of the agents {pattern!r}, which are in none. Rename "
                    "the group, or put the agents into one."
                )
            players[name] = (pattern,)
    return players


def _owner(seat: AgentID, players: Mapping[str, Sequence[AgentID]]) -> str:
    return next(name for name, ids in players.items() if any(_fits(seat, agent) for agent in ids))


def _fits(seat: AgentID, agent: AgentID) -> bool:
    """Whether the seat is meant by an agent id or pattern; the seats of ``car_*`` are called ``car_*[3]``."""
    name = seat.split("[")[0]
    return name == agent or fnmatchcase(name, agent)


def _kind(player: str, ids: Sequence[AgentID], kinds: Sequence[AgentType]) -> int:
    found = [k for k, kind in enumerate(kinds) if any(_fits(seat, i) for seat in kind.agents for i in ids)]
    if len(found) > 1:
        raise SpaceMismatchError(
            f"population: the agents of player {player!r} have different spaces ({kinds[found[0]].agents[0]!r} and "
            f"{kinds[found[1]].agents[0]!r}), and one policy cannot play both. Make them players of their own."
        )
    return found[0]
