"""Kinds whose learners are members while they still learn: P2SRO and anytime PSRO.

A learner of these kinds has a *standing* member, which follows it from round to round and becomes fixed after
``member_rounds``; then the learner begins anew, and its next round brings a new standing member. Lower numbers are older, so
the numbers of standing members are the levels of a pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from marl.data.task import PolicyID
from marl.populations.kinds import POPULATIONS as POPULATIONS
from marl.populations.kinds import PopulationKind, RoundEnd

if TYPE_CHECKING:
    from marl.gametheory.game import Payoffs, Profile, Strategy
    from marl.populations.config import PopulationConfig
    from marl.populations.layout import Population

INERTIA = 0.25
"""What a mixture weighs against new regrets when a phase begins, as a share of the payoff range."""


class Pipeline(PopulationKind):
    """P2SRO (McAleer et al., 2020): several best responses at once, each to the members and learners below it.

    The lowest learner answers to fixed members alone, as in PSRO. Those above do not wait for it: they answer to mixtures in
    which it already takes part, and have a head start when their turn comes.
    """

    description = "the meta-solver's mixture of fixed members and of learners below it, several levels at once"
    keys: ClassVar[tuple[str, ...]] = ("meta_solver", "alpha", "member_rounds")
    fresh = True
    standing = True
    extra_learners = ("second",)

    @property
    def needs_payoffs(self) -> bool:
        return self.config.meta_solver != "uniform"

    def check(self) -> None:
        _refuse_self_play(self.config)

    def opponents(self, round_end: RoundEnd, learner: PolicyID, foe: Population, answer: Profile) -> Strategy:
        """The solver's mixture of all members below the learner's own level."""
        del answer
        sizes = {side.name: round_end.size(side) for side in round_end.layout.sides}
        # A learner that begins anew has no level yet: it comes above everybody.
        level = max(sizes.values())
        if learner in round_end.standing and learner not in round_end.settled:
            level = round_end.standing[learner]
        below = [min(level, sizes[round_end.layout.side_of(player).name]) for player in round_end.layout.players]
        place = round_end.place(foe.players[0])
        chances = np.full(below[place], 1 / below[place])
        if round_end.payoffs is not None:
            from marl.populations.solvers import among, meta_strategy

            chances = meta_strategy(self.config, among(round_end.payoffs, below))[place]
        return np.pad(chances, (0, sizes[foe.name] - len(chances)))


class Anytime(PopulationKind):
    """Anytime PSRO (McAleer et al., 2022): mixtures of fixed members that minimise their regret against best responses.

    While a learner becomes a best response to the other side's mixture, that mixture moves by regret matching against what the
    learner has become so far. The mean over a phase is therefore about the least exploitable mixture of the fixed members,
    and one more member can only help; PSRO's equilibrium of the payoff table may become worse before it becomes better.
    """

    description = "a mixture of fixed members that minimises its regret against the learners, while these learn"
    keys: ClassVar[tuple[str, ...]] = ("member_rounds",)
    fresh = True
    standing = True

    def __init__(self, config: PopulationConfig) -> None:
        super().__init__(config)
        self.regrets: dict[str, Payoffs] = {}  # of each player's fixed members
        self.total: dict[str, Payoffs] = {}  # sum of the mixtures that were played in this phase
        self.rounds = 0  # of this phase

    @property
    def needs_payoffs(self) -> bool:
        return True

    def check(self) -> None:
        _refuse_self_play(self.config)

    def advance(self, round_end: RoundEnd) -> None:
        """One step of regret matching against the standing members, and a new phase where they became fixed."""
        for player in round_end.layout.players:
            size = round_end.size(round_end.layout.side_of(player))
            if player not in self.regrets:
                self.regrets[player] = np.array([1.0])
            fixed = len(self.regrets[player])
            played = self.mixture(player)
            earned = _against_learners(round_end, player)[:fixed]
            self.total[player] = self.total.get(player, np.zeros(fixed)) + played
            # Regret matching plus: what was regretted long ago is forgotten where it turned out wrong.
            self.regrets[player] = np.maximum(self.regrets[player] + earned - played @ earned, 0.0)
            if round_end.settled:
                mean = self.total.pop(player) / (self.rounds + 1)
                # The next phase begins where this one ended, and the new member has to earn its place.
                self.regrets[player] = np.pad(mean, (0, size - fixed)) * INERTIA * _spread(round_end, player)
        self.rounds = 0 if round_end.settled else self.rounds + 1

    def mixture(self, player: str) -> Strategy:
        """What the player's fixed members play at present."""
        regrets = self.regrets[player]
        if not regrets.sum() > 0:
            return np.full(len(regrets), 1 / len(regrets))
        found: Strategy = regrets / regrets.sum()
        return found

    def answer(self, round_end: RoundEnd) -> Profile:
        """The mean over the phase; at its beginning, where it comes from."""
        found = []
        for player in round_end.layout.players:
            mean = self.mixture(player)
            if self.rounds:
                mean = self.total[player] / self.rounds
            found.append(self._padded(mean, round_end, round_end.layout.side_of(player)))
        return tuple(found)

    def opponents(self, round_end: RoundEnd, learner: PolicyID, foe: Population, answer: Profile) -> Strategy:
        del learner, answer
        return self._padded(self.mixture(foe.players[0]), round_end, foe)

    def _padded(self, mixture: Strategy, round_end: RoundEnd, side: Population) -> Strategy:
        """Nobody meets members that still stand for learners."""
        return np.pad(mixture, (0, round_end.size(side) - len(mixture)))

    def state_dict(self) -> dict[str, Any]:
        return {"regrets": dict(self.regrets), "total": dict(self.total), "rounds": self.rounds}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.regrets = {player: np.asarray(numbers) for player, numbers in state["regrets"].items()}
        self.total = {player: np.asarray(numbers) for player, numbers in state["total"].items()}
        self.rounds = int(state["rounds"])


def _against_learners(round_end: RoundEnd, player: str) -> Payoffs:
    """What each member of the player earns against the standing members of all others."""
    assert round_end.payoffs is not None
    table = round_end.payoffs.mean[round_end.place(player)]
    place: list[Any] = []
    for other in round_end.layout.players:
        learner = round_end.layout.side_of(other).learners[0]
        place.append(slice(None) if other == player else round_end.standing[learner])
    return np.asarray(table[tuple(place)], np.float64)


def _spread(round_end: RoundEnd, player: str) -> float:
    """The player's payoff range; 1 where nothing differs yet."""
    assert round_end.payoffs is not None
    return float(np.ptp(round_end.payoffs.mean[round_end.place(player)])) or 1.0


def _refuse_self_play(config: PopulationConfig) -> None:
    if config.self_share:
        raise ValueError(f"{config.kind} responds to mixtures alone; drop self_share")


POPULATIONS.register("p2sro", Pipeline)
POPULATIONS.register("anytime_psro", Anytime)
