"""Who meets whom in a population: in each episode one player is played by a learner, the others by their populations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from marl.data.episode import Episode
from marl.data.task import AgentID, PolicyID
from marl.errors import UnknownPolicyError
from marl.mappers.mapper import Mapper

# 2**64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4): neighbouring seeds end far apart.
MIX = 0x9E3779B97F4A7C15
FULL = 2**64
SHARES = 0x1000000  # the low 24 bits decide on self-play, the high ones who learns, so neither depends on the other


class Matchmaking(Mapper):
    """``learners[player]`` are the policies that may learn in this seat, ``opponents[learner][player]`` who faces them there.

    The learning player and its policy follow from the episode's seed, so all agents of an episode agree. In ``self_share``
    of the episodes every player is played by its first learner.
    """

    name = "population"
    fixed = False

    def __init__(
        self,
        players: Mapping[str, Sequence[AgentID]],
        learners: Mapping[str, Sequence[PolicyID]],
        opponents: Mapping[PolicyID, Mapping[str, PolicyID]],
        self_share: float = 0.0,
    ) -> None:
        self.players, self.opponents, self.self_share = players, opponents, self_share
        self.learners = learners
        self.stars: list[tuple[str, PolicyID]] = []
        for player, policies in learners.items():
            self.stars += [(player, policy) for policy in policies]
        self._player_of: dict[AgentID, str] = {}

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        player = self.player_of(agent)
        # Hashed, not drawn: agents ask one by one, and the first to ask must not use up what the others need.
        mixed = (episode.seed + 1) * MIX ^ (episode.seed >> 7)
        number = mixed % FULL * MIX % FULL
        if number % SHARES < self.self_share * SHARES:
            return self.learners[player][0]
        place = (number >> 32) % len(self.stars)
        star, learner = self.stars[place]
        if player == star:
            return learner
        return self.opponents[learner][player]

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        player = self.player_of(agent)
        found = dict.fromkeys(self.learners[player])
        for opponents in self.opponents.values():
            if player in opponents:  # a learner is not its own opponent
                found[opponents[player]] = None
        return list(found)

    def player_of(self, agent: AgentID) -> str:
        """The player that an agent belongs to; remembered, as it is asked for in every episode."""
        if agent in self._player_of:
            return self._player_of[agent]
        for player, patterns in self.players.items():
            for pattern in patterns:
                if fnmatchcase(agent, pattern):
                    self._player_of[agent] = player
                    return player
        raise UnknownPolicyError(
            f"agent {agent!r} belongs to no player of the population ({', '.join(self.players)}). Add it to one under "
            "population.players."
        )


class Seating(Mapper):
    """Each player is played by one policy."""

    name = "population"

    def __init__(self, players: Mapping[str, Sequence[AgentID]], policies: Mapping[str, PolicyID]) -> None:
        self.policies = policies
        self._match = Matchmaking(players, {}, {})  # knows which agents are whose

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        del episode
        return self.candidates(agent)[0]

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        player = self._match.player_of(agent)
        return [self.policies[player]]
