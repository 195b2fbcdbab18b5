"""Who meets whom in a population: in each episode one player is played by a learner, the others by their populations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from marl.data.episode import Episode
from marl.data.task import AgentID, PolicyID
from marl.errors import UnknownPolicyError
from marl.mappers.mapper import Mapper

MIX = 0x9E3779B97F4A7C15
FULL = 2**64


class Matchmaking(Mapper):
    """``learners[player]`` are the policies that may learn in this seat, ``crowds[learner][player]`` who faces them there.

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
        self.stars = [(player, policy) for player, policies in learners.items() for policy in policies]
        self._player_of: dict[AgentID, str] = {}

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        player = self.player_of(agent)
        number = ((episode.seed + 1) * MIX ^ (episode.seed >> 7)) % FULL * MIX % FULL
        if (number & 0xFFFFFF) < self.self_share * 0x1000000:
            return self.learners[player][0]
        star, learner = self.stars[(number >> 32) % len(self.stars)]
        return learner if player == star else self.opponents[learner][player]

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        player = self.player_of(agent)
        foes = [crowd[player] for crowd in self.opponents.values() if player in crowd]
        return list(dict.fromkeys([*self.learners[player], *foes]))

    def player_of(self, agent: AgentID) -> str:
        found = self._player_of.get(agent)
        if found is None:
            found = next((p for p, ids in self.players.items() if any(fnmatchcase(agent, i) for i in ids)), None)
            if found is None:
                raise UnknownPolicyError(
                    f"agent {agent!r} belongs to no player of the population ({', '.join(self.players)}). Add it to one under "
                    "population.players."
                )
            self._player_of[agent] = found
        return found


class Seating(Mapper):
    """Each player is played by one policy."""

    name = "population"

    def __init__(self, players: Mapping[str, Sequence[AgentID]], policies: Mapping[str, PolicyID]) -> None:
        self._match = Matchmaking(players, {player: [policy] for player, policy in policies.items()}, {})

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        del episode
        return self.candidates(agent)[0]

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        return self._match.learners[self._match.player_of(agent)]
