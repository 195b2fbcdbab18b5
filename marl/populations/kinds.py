"""The kinds of populations: one small class each, which says whom a learner meets and what the run proposes to play.

A kind of your own is a class derived from ``PopulationKind`` (or from one of those below) and registered::

    class Oldest(marl.PopulationKind):
        description = "the first snapshots"

        def opponents(self, round_end, learner, foe, answer):
            return np.eye(round_end.size(foe))[0]

    marl.register_population("oldest", Oldest)

Then ``population: {kind: oldest}`` finds it, if the module is named under ``imports:`` (in full: docs/extending.md). After
every round ``PopulationTrainer._choose`` (``loop.py``) asks the kind; everything else about a population is the same for all
kinds. A *kind of agents* is another thing: agents with equal spaces (``data/task.py:AgentType``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.registry import Registry

if TYPE_CHECKING:  # the config knows the kinds, and the game theory is loaded when there is a population
    from marl.gametheory.game import Profile, Strategy
    from marl.gametheory.payoffs import PayoffTensor
    from marl.populations.config import PopulationConfig
    from marl.populations.layout import Population, PopulationLayout
    from marl.populations.lineage import Lineage


@dataclass(frozen=True, eq=False)
class RoundEnd:
    """What is known when a round has ended, and by which a kind chooses the mixtures of the next one."""

    config: PopulationConfig
    layout: PopulationLayout
    members: Mapping[str, Sequence[Lineage]]  # of each population, the oldest first
    payoffs: PayoffTensor | None  # who earned what against whom, where the kind needs it
    standing: Mapping[PolicyID, int] = field(default_factory=dict)  # learners to the members that follow them
    settled: frozenset[PolicyID] = frozenset()  # of these learners, those whose member becomes fixed now

    def size(self, population: Population) -> int:
        return len(self.members[population.name])

    def place(self, player: str) -> int:
        """The number of a player, in payoffs and in the answer."""
        return list(self.layout.players).index(player)

    def newest(self, population: Population) -> int:
        """The newest snapshot of the population's main learner."""
        # Exploiters join as well, but it is the main learner that they are to beat.
        mains = (population.learners[0], "first weights")
        members = self.members[population.name]
        numbers = [number for number, one in enumerate(members) if one.learner in mains]
        return numbers[-1]

    def snapshots_of(self, learner: PolicyID) -> list[int]:
        """The members that came from this learner, the newest last."""
        population = self.layout.learners[learner]
        members = self.members[population.name]
        return [number for number, one in enumerate(members) if one.learner == learner]

    def even(self) -> Profile:
        """All members alike, per player."""
        mixtures = []
        for player in self.layout.players:
            size = self.size(self.layout.side_of(player))
            mixtures.append(np.full(size, 1 / size))
        return tuple(mixtures)


class PopulationKind:
    """The base of all kinds: everybody meets the answer, which is the meta-solver's mixture.

    The class attributes say what a kind needs; ``answer`` and ``opponents`` are asked after every round.
    """

    description: ClassVar[str] = ""
    """Whom a learner meets, in a few words: for the help, the reference and messages."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Keys of ``population:`` that only some kinds take, and this one does: meta_solver, alpha, window, ..."""
    fresh: ClassVar[bool] = False
    """Whether ``restart: auto`` means that learners begin each round with new weights."""
    standing: ClassVar[bool] = False
    """Whether a learner is a member while it learns: one that follows it, and becomes fixed after ``member_rounds``."""
    extra_learners: ClassVar[tuple[str, ...]] = ()
    """Names of learners beside the main one. They join when they win (``win_share``) or after ``exploiter_rounds``, and begin
    anew then."""

    def __init__(self, config: PopulationConfig) -> None:
        self.config = config

    @property
    def needs_payoffs(self) -> bool:
        """Whether members have to meet each other after every round."""
        return False

    def check(self) -> None:
        """Raise a ``ValueError`` for keys that do not fit this kind; called before anything is built."""

    def advance(self, round_end: RoundEnd) -> None:
        """A round has ended; called before ``answer`` and ``opponents``, for kinds that remember something."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers over a restart; empty for kinds that follow from the members and payoffs alone."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        del state

    def answer(self, round_end: RoundEnd) -> Profile:
        """What the run proposes to play: for each player the chances of all members of its population."""
        if round_end.payoffs is None:
            return round_end.even()
        from marl.populations.solvers import meta_strategy

        return meta_strategy(self.config, round_end.payoffs)

    def opponents(self, round_end: RoundEnd, learner: PolicyID, foe: Population, answer: Profile) -> Strategy:
        """With which chance the learner meets each member of ``foe`` in the next round."""
        del learner
        return answer[round_end.place(foe.players[0])]


class SelfPlay(PopulationKind):
    """The learner chases its own newest snapshots, as in AlphaZero."""

    description = "the newest snapshots"
    keys = ("window",)

    def answer(self, round_end: RoundEnd) -> Profile:
        newest = []
        for player in round_end.layout.players:
            size = round_end.size(round_end.layout.side_of(player))
            newest.append(np.eye(size)[-1])
        return tuple(newest)

    def opponents(self, round_end: RoundEnd, learner: PolicyID, foe: Population, answer: Profile) -> Strategy:
        del learner, answer
        newest = np.zeros(round_end.size(foe))
        newest[-self.config.window :] = 1.0
        chances: Strategy = newest / newest.sum()
        return chances


class Fictitious(PopulationKind):
    """Fictitious play with snapshots as best responses (Brown, 1951)."""

    description = "all snapshots alike"


class Prioritised(PopulationKind):
    """Prioritised fictitious self-play (Vinyals et al., 2019)."""

    description = "snapshots that it does not beat yet"
    keys: ClassVar[tuple[str, ...]] = ("meta_solver", "alpha", "weighting", "power")

    @property
    def needs_payoffs(self) -> bool:
        return True

    def opponents(self, round_end: RoundEnd, learner: PolicyID, foe: Population, answer: Profile) -> Strategy:
        from marl.populations.solvers import facing, priorities, shares

        del answer
        payoffs, own = round_end.payoffs, round_end.snapshots_of(learner)
        assert payoffs is not None
        if not own:  # nothing is known of it yet
            return np.full(round_end.size(foe), 1 / round_end.size(foe))
        me = round_end.place(round_end.layout.learners[learner].players[0])
        # The last player of a symmetric population is not the first, so nobody is asked what it earns against itself.
        other = round_end.place(foe.players[-1])
        earned = facing(payoffs, me, own[-1], other)
        return priorities(self.config, shares(payoffs, me, earned))


class League(Prioritised):
    """The league of AlphaStar (Vinyals et al., 2019): exploiters look for the weak points of the others."""

    description = "prioritised, with exploiters of the main agents and of the league"
    keys: ClassVar[tuple[str, ...]] = (*Prioritised.keys, "win_share", "exploiter_rounds")
    extra_learners = ("main_exploiter", "league_exploiter")

    def opponents(self, round_end: RoundEnd, learner: PolicyID, foe: Population, answer: Profile) -> Strategy:
        if learner.endswith("main_exploiter"):
            target: Strategy = np.eye(round_end.size(foe))[round_end.newest(foe)]
            return target
        return super().opponents(round_end, learner, foe, answer)


class Psro(PopulationKind):
    """Policy-space response oracles (Lanctot et al., 2017): the learner answers the answer."""

    description = "the meta-solver's mixture, to which each learner becomes a best response"
    keys = ("meta_solver", "alpha")
    fresh = True

    @property
    def needs_payoffs(self) -> bool:
        return self.config.meta_solver != "uniform"  # which looks at no payoff

    def check(self) -> None:
        if self.config.self_share:
            raise ValueError("psro responds to the mixture alone; drop self_share")


OWN = " One of your own is registered by marl.register_population in a module under imports."
POPULATIONS: Registry[type[PopulationKind]] = Registry("population kind", OWN)
POPULATIONS.register("self_play", SelfPlay)
POPULATIONS.register("fictitious", Fictitious)
POPULATIONS.register("prioritised", Prioritised)
POPULATIONS.register("league", League)
POPULATIONS.register("psro", Psro)


def register_population(name: str, kind: type[PopulationKind]) -> None:
    """Let ``population: {kind: name}`` find this class, which is derived from ``marl.PopulationKind``."""
    if not (isinstance(kind, type) and issubclass(kind, PopulationKind)):
        raise ConfigError(f"population kind {name!r} is {kind!r}; expected a class derived from marl.PopulationKind.")
    special = special_keys()
    for key in kind.keys:
        if key not in special:
            raise ConfigError(
                f"population kind {name!r}: keys has {key!r}; expected keys that only some kinds take: {', '.join(special)}."
            )
    POPULATIONS.add(name, kind)


def special_keys() -> list[str]:
    """Keys of ``population:`` that only some kinds take."""
    from marl.populations.config import SHARED_KEYS, PopulationConfig  # which knows the kinds

    return [key for key in PopulationConfig.model_fields if key not in SHARED_KEYS]


def kinds_in_words() -> str:
    """Every kind with whom a learner meets in it."""
    sentences = ["Against whom a learner plays."]
    for name in POPULATIONS.names:
        kind = POPULATIONS[name]
        sentences.append(f"{name}: {kind.description or kind.__name__}.")
    return " ".join(sentences)
