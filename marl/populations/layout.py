"""Who is a player, which players share a population, and which policies a population run has.

For each population (a *side* of the game): learners, which train; an ``answer``, the mixture that the run proposes to play;
and for each learner a mixture of every population that it meets, ``POPULATION.against.LEARNER``. All mixtures of a population
have the same members.
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
        players = list(self.players)
        seats: dict[str, list[int]] = {player: [] for player in players}
        for seat, team in enumerate(self.teams):
            seats[players[team]].append(seat)
        return {player: tuple(own) for player, own in seats.items()}

    def side_of(self, player: str) -> Population:
        for population in self.sides:
            if player in population.players:
                return population
        raise LookupError(player)  # every player has a side: `set_stage` sees to it

    @property
    def learners(self) -> dict[PolicyID, Population]:
        """All learners and the population that they join."""
        found: dict[PolicyID, Population] = {}
        for population in self.sides:
            found |= dict.fromkeys(population.learners, population)
        return found

    @property
    def opponents(self) -> dict[PolicyID, dict[str, PolicyID]]:
        """For each learner: the policy that plays each player which it may meet."""
        found: dict[PolicyID, dict[str, PolicyID]] = {}
        for learner, own in self.learners.items():
            faced: dict[str, PolicyID] = {}
            for player in self.players:
                # Where one population plays several players, its learners meet their own kind.
                is_itself = own.players == (player,)
                if not is_itself:
                    faced[player] = mixture_id(self.side_of(player), learner)
            found[learner] = faced
        return found

    @property
    def mixtures(self) -> dict[PolicyID, Population]:
        """All mixtures and the population whose members they hold."""
        found: dict[PolicyID, Population] = {}
        for faced in self.opponents.values():
            for player, policy in faced.items():
                found[policy] = self.side_of(player)
        for population in self.sides:
            found[population.answer] = population
        return found

    def matchmaking(self) -> Matchmaking:
        learners = {player: self.side_of(player).learners for player in self.players}
        return Matchmaking(self.players, learners, self.opponents, self.config.self_share)

    def answers(self) -> Seating:
        policies = {player: self.side_of(player).answer for player in self.players}
        return Seating(self.players, policies)


def mixture_id(population: Population, learner: PolicyID) -> PolicyID:
    return f"{population.name}.against.{learner}"


def set_stage(
    config: PopulationConfig, groups: Mapping[str, Sequence[AgentID]], kinds: Sequence[AgentType]
) -> PopulationLayout:
    """Players, populations and policies; refuses what cannot be a population."""
    seats: list[AgentID] = []
    for kind in kinds:
        seats += kind.agents
    players = find_players(config.players, groups, seats)
    kind_of = {player: _kind(player, ids, kinds) for player, ids in players.items()}
    if len(players) < 2:
        raise ConfigError(
            f"population: {config.kind} needs two players or more, but the env has only {', '.join(players)}. Split its "
            "agents by population.players or multiagent.groups."
        )
    sides: list[Population] = []
    if config.symmetric:
        _check_alike(kind_of, kinds)
        sides.append(_population(config, SYMMETRIC, tuple(players), kind_of))
    else:
        for player in players:
            sides.append(_population(config, player, (player,), kind_of))
    order = list(players)
    teams = [order.index(_owners(seat, players)[0]) for seat in seats]
    return PopulationLayout(config, players, tuple(sides), tuple(teams))


def _check_alike(kind_of: Mapping[str, int], kinds: Sequence[AgentType]) -> None:
    """One population plays all players, so their agents have to be of one kind."""
    if len(set(kind_of.values())) == 1:
        return
    spaces = []
    for player, kind in kind_of.items():
        spaces.append(f"{player}: {kinds[kind].observation_space}, {kinds[kind].action_space}")
    raise SpaceMismatchError(
        f"population.symmetric: the players' spaces differ ({', '.join(spaces)}), so one "
        "population cannot play them all. Set symmetric: false."
    )


def _population(
    config: PopulationConfig, name: str, players: tuple[str, ...], kind_of: Mapping[str, int]
) -> Population:
    exploiters = [f"{name}.{extra}" for extra in config.make_kind().extra_learners]
    return Population(name, players, kind_of[players[0]], (name, *exploiters))


def find_players(
    given: Mapping[str, Sequence[AgentID]], groups: Mapping[str, Sequence[AgentID]], names: Sequence[AgentID]
) -> dict[str, tuple[AgentID, ...]]:
    """Players and their agents: as ``given``, else every group and every agent outside of them. ``names`` are the seats."""
    named = given or groups
    players = {name: tuple(ids) for name, ids in named.items()}
    _check_agents_exist(players, names)
    for seat in names:
        owners = _owners(seat, players)
        if len(owners) > 1:
            raise ConfigError(
                f"population: agent {seat!r} belongs to the players {' and '.join(owners)}; one is right."
            )
        if owners:
            continue
        if given:
            raise ConfigError(
                f"population.players: agent {seat!r} belongs to no player. Add it to one of {', '.join(players)}."
            )
        _add_player(players, seat)
    return players


def _check_agents_exist(players: Mapping[str, Sequence[AgentID]], seats: Sequence[AgentID]) -> None:
    for name, ids in players.items():
        for agent in ids:
            if any(_fits(seat, agent) for seat in seats):
                continue
            known = sorted({seat.split("[")[0] for seat in seats})
            raise ConfigError(
                f"population: player {name!r} has the agent {agent!r}, which the env does not have. Agents: "
                f"{', '.join(known)}."
            )


def _add_player(players: dict[str, tuple[AgentID, ...]], seat: AgentID) -> None:
    """An agent outside of all groups is a player of its own; agents that come and go, ``car_*``, are one together."""
    pattern = seat.split("[")[0]
    name = pattern
    if "*" in pattern:
        name = pattern.rstrip("_*")
    if players.get(name, (pattern,)) != (pattern,):
        raise ConfigError(
            f"players: {name!r} is the name of a group, and also of the agents {pattern!r}, which are in none. Rename "
            "the group, or put the agents into one."
        )
    players[name] = (pattern,)


def _owners(seat: AgentID, players: Mapping[str, Sequence[AgentID]]) -> list[str]:
    """Players whose agents or patterns mean this seat; one of them, where everything is right."""
    found = []
    for name, ids in players.items():
        matching = [agent for agent in ids if _fits(seat, agent)]
        if matching:
            found.append(name)
    return found


def _fits(seat: AgentID, agent: AgentID) -> bool:
    """Whether the seat is meant by an agent id or pattern; the seats of ``car_*`` are called ``car_*[3]``."""
    return fnmatchcase(seat.split("[")[0], agent)


def _kind(player: str, ids: Sequence[AgentID], kinds: Sequence[AgentType]) -> int:
    """The number of the kind of a player's agents."""
    found = []
    for number, kind in enumerate(kinds):
        for seat in kind.agents:
            if _owners(seat, {player: ids}):
                found.append(number)
                break
    if len(found) > 1:
        raise SpaceMismatchError(
            f"population: the agents of player {player!r} have different spaces ({kinds[found[0]].agents[0]!r} and "
            f"{kinds[found[1]].agents[0]!r}), and one policy cannot play both. Make them players of their own."
        )
    return found[0]
