"""One loop for self-play, fictitious play, prioritised play, leagues and the kinds of PSRO.

A round lasts ``round_timesteps`` env steps, in which learners train against mixtures of snapshots. At its end

1. the learners' snapshots join the population (an exploiter's only when it wins, or after ``exploiter_rounds``);
2. members that have not met yet play each other, where the kind of population needs a payoff table;
3. the table, or the age of members, gives the mixtures of the next round, and the *answer*: the mixture that the run proposes;
4. learners that begin anew get new weights.

Kinds with *standing* members (``pipelines.py``) have learners that are members while they learn: step 1 then replaces the
weights of the member that follows a learner, which becomes fixed after ``member_rounds``.

The kinds differ in step 3 alone: whom a learner meets, and what the answer is. Each is a class of ``kinds.py``.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np

from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.failures import call_own
from marl.gametheory.game import Profile, Strategy
from marl.gametheory.payoffs import PayoffTensor
from marl.policies.build import build_policy
from marl.policies.config import PolicySpec
from marl.policies.mixture import Mixture
from marl.policies.policy import Policy
from marl.populations.kinds import RoundEnd
from marl.populations.layout import Population, PopulationLayout
from marl.populations.lineage import Lineage, lineage_graph
from marl.populations.members import Member
from marl.populations.payoffs import PayoffTable
from marl.populations.solvers import shares, without_rounding
from marl.rollout.pool import WorkerPool


class PopulationTrainer:
    """The members of all populations, who meets whom, and what is known of it. Its members live in the mixtures' weights."""

    def __init__(
        self,
        layout: PopulationLayout,
        policies: Mapping[PolicyID, Policy],
        specs: Mapping[PolicyID, PolicySpec],
        seed: int,
    ) -> None:
        self.layout = layout
        self.config = layout.config
        self.policies = policies
        self.specs = specs
        self.seed = seed
        self.kind = self.config.make_kind()
        self.round = 0
        self.steps_at_round = 0
        self.table = PayoffTable(layout, self.config.matches, seed)
        self.ages = dict.fromkeys(layout.learners, 0)
        self.standing: dict[PolicyID, int] = {}  # learners to the numbers of the members that follow them
        self.parents: dict[PolicyID, str | None] = dict.fromkeys(layout.learners)
        self.members: dict[str, list[Lineage]] = {}
        self.numbers: dict[str, Any] = {}  # of the last round, for results
        for population in layout.sides:
            first = Lineage(f"{population.name}_0", population.name, learner="first weights", round=0, timesteps=0)
            self.members[population.name] = [first]
            # A mixture cannot be empty, so the main learner's first weights are its first member.
            if not self.config.begins_fresh:
                self.parents[population.learners[0]] = first.name

    # -- rounds ----------------------------------------------------------------------------------------------------

    def due(self, timesteps: int) -> bool:
        return timesteps - self.steps_at_round >= self.config.round_timesteps

    def end_round(self, pool: WorkerPool, timesteps: int) -> list[PolicyID]:
        """Steps 1 to 3; returns the learners that have to begin anew."""
        self.round += 1
        self.steps_at_round = timesteps
        # All are judged before any joins: whoever comes later must not meet those who join now.
        joining = [learner for learner in self.layout.learners if self._joins(learner, pool)]
        for learner in joining:
            self._bring(learner, timesteps)
        payoffs = None
        if self.config.needs_payoffs:
            self.table.grow(pool, self._members())
            payoffs = self.tensor()
        for learner in self.layout.learners:
            self.ages[learner] += 1
        settled = self._settled()
        self._choose(payoffs, self.numbers.get("meta_strategy"), settled)
        if self.kind.standing:
            joining = sorted(settled)
        return self._begun_anew(joining)

    def _begun_anew(self, joined: Sequence[PolicyID]) -> list[PolicyID]:
        """Of the learners that have joined, or whose member became fixed, those that get new weights."""
        fresh: list[PolicyID] = []
        for learner in joined:
            # An exploiter that has joined looks for another weak point, whatever the main learners do.
            is_exploiter = learner not in self._mains and not self.kind.standing
            if learner in self.standing:  # its next member is another one, with rounds of its own
                del self.standing[learner]
                self.ages[learner] = 0
            if is_exploiter or self.config.begins_fresh:
                fresh.append(learner)
                self.ages[learner] = 0
                self.parents[learner] = None
        return fresh

    def new_weights(self, learner: PolicyID) -> Policy:
        """A policy that begins anew; each round has its own first weights."""
        spec = self.specs[learner]
        seed = zlib.crc32(f"{self.seed}/{learner}/round {self.round}".encode())
        return build_policy(replace(spec, seed=seed), self.policies[learner].kind)

    @property
    def _mains(self) -> set[PolicyID]:
        return {population.learners[0] for population in self.layout.sides}

    def _joins(self, learner: PolicyID, pool: WorkerPool) -> bool:
        """Main learners join after every round; exploiters when they have won, or have tried long enough."""
        if learner in self._mains or self.kind.standing:
            return True
        rounds = self.ages[learner] + 1
        if rounds >= self.config.exploiter_rounds:  # asked first, because a match costs time
            return True
        return self._earned_share(learner, pool) >= self.config.win_share

    def _earned_share(self, learner: PolicyID, pool: WorkerPool) -> float:
        """What an exploiter earns against those whom it meets, as a share of the payoff range known so far."""
        population = self.layout.learners[learner]
        if not self.table.played:
            return 0.0
        trial = PayoffTable(self.layout, self.config.matches, self.seed + self.round)
        members = self._members()
        number = len(members[population.name])
        members[population.name].append(Member("trial", self.specs[learner], self.policies[learner].get_weights()))
        payoffs, found = self.tensor(), []
        players = list(self.layout.players)
        for player in population.players:
            place = players.index(player)
            met = self._met(learner, place, number)
            chances = np.array([chance for _, chance in met])
            played = trial.play(pool, members, [pairing for pairing, _ in met])
            mean = np.array([means[place] for means, _ in played])
            error = np.array([errors[place] for _, errors in played])
            # A win has to be larger than its standard error.
            surely = (chances @ mean - np.sqrt(chances**2 @ error**2)) / chances.sum()
            found.append(float(shares(payoffs, place, np.array([surely]))[0]))
        return float(np.mean(found))

    def _met(self, learner: PolicyID, place: int, number: int) -> list[tuple[tuple[int, ...], float]]:
        """The likeliest pairings that the learner, as member ``number`` of player ``place``, meets."""
        round_end = self._round_end()
        # Of players who are not the one that is looked at, the newest snapshots play.
        usual = [round_end.newest(self.layout.side_of(player)) for player in self.layout.players]
        usual[place] = number
        found: list[tuple[tuple[int, ...], float]] = []
        for other, player in enumerate(self.layout.players):
            if other == place:
                continue
            chances = self.mixture(self.layout.opponents[learner][player]).chances.cpu().numpy()
            for member in np.flatnonzero(chances > 1e-3):
                pairing = usual.copy()
                pairing[other] = int(member)
                found.append((tuple(pairing), float(chances[member])))
        return found

    def _settled(self) -> frozenset[PolicyID]:
        """Learners whose standing member becomes fixed: of each population the oldest, once it has had its rounds."""
        found: set[PolicyID] = set()
        for population in self.layout.sides:
            standing = [learner for learner in population.learners if learner in self.standing]
            if not standing:
                continue
            oldest = min(standing, key=lambda learner: self.standing[learner])
            if self.ages[oldest] >= self.config.member_rounds:
                found.add(oldest)
        return frozenset(found)

    def _bring(self, learner: PolicyID, timesteps: int) -> None:
        """A learner's weights become a member, or replace those of the member that stands for it."""
        population, number = self.layout.learners[learner], self.standing.get(learner)
        if number is None:
            self._add(learner, timesteps)
            if self.kind.standing:
                self.standing[learner] = self.size(population) - 1
            return
        self.mixture(population.answer).replace(number, self.policies[learner].get_weights())
        self.table.forget(population.name, number)
        lineage = self.members[population.name][number]
        lineage.round, lineage.timesteps = self.round, timesteps
        lineage.against |= self._met_by(learner)

    def _met_by(self, learner: PolicyID) -> dict[str, float]:
        """Whom the learner has met in the round that ends, and how likely."""
        against: dict[str, float] = {}
        for player, opponent in self.layout.opponents[learner].items():
            members = self.members[self.layout.side_of(player).name]
            # Not strict: of learners that join in the same round, the first are members already, without a chance so far.
            for one, chance in zip(members, self.mixture(opponent).chances, strict=False):
                if chance > 1e-6:
                    against[one.name] = float(chance)
        return against

    def _add(self, learner: PolicyID, timesteps: int) -> None:
        population = self.layout.learners[learner]
        number = self.mixture(population.answer).add(self.policies[learner].get_weights())
        name = f"{population.name}_{number}"
        lineage = Lineage(
            name=name,
            side=population.name,
            learner=learner,
            round=self.round,
            timesteps=timesteps,
            parent=self.parents[learner],
            against=self._met_by(learner),
        )
        self.members[population.name].append(lineage)
        self.parents[learner] = name

    # -- who meets whom --------------------------------------------------------------------------------------------

    def _choose(
        self, payoffs: PayoffTensor | None, before: Mapping[str, list[float]] | None, settled: frozenset[PolicyID]
    ) -> None:
        """Mixtures and answers of the next round, as the kind decides."""
        round_end = self._round_end(payoffs, settled)
        call_own(f"{self._name}.advance", self.kind.advance, round_end)
        answer = self._answer(round_end)
        for player, strategy in zip(self.layout.players, answer, strict=True):
            self.mixture(self.layout.side_of(player).answer).set_chances(strategy)
        for learner in self.layout.learners:
            for player, opponent in self.layout.opponents[learner].items():
                foe = self.layout.side_of(player)
                met = call_own(f"{self._name}.opponents", self.kind.opponents, round_end, learner, foe, answer)
                self.mixture(opponent).set_chances(self._checked(met, foe, "opponents"))
        self.numbers = self._numbers(payoffs, answer, before)

    def _round_end(self, payoffs: PayoffTensor | None = None, settled: frozenset[PolicyID] = frozenset()) -> RoundEnd:
        return RoundEnd(self.config, self.layout, self.members, payoffs, dict(self.standing), settled)

    def _answer(self, round_end: RoundEnd) -> Profile:
        """What the run proposes to play, per player."""
        answer = tuple(call_own(f"{self._name}.answer", self.kind.answer, round_end))
        if len(answer) != len(self.layout.players):
            raise ConfigError(
                f"{self._name}: answer has {len(answer)} mixtures; expected one for each of the players "
                f"{', '.join(self.layout.players)}."
            )
        checked = []
        for player, mixture in zip(self.layout.players, answer, strict=True):
            checked.append(self._checked(mixture, self.layout.side_of(player), "answer"))
        return tuple(checked)

    def _checked(self, chances: Any, population: Population, asked: str) -> Strategy:
        """Chances as numbers; they may come from a kind or a meta-solver of the user's own."""
        found: Strategy = np.asarray(chances, np.float64)
        size = self.size(population)
        # Written so that NaN, which compares as false, is refused as well.
        fits = found.shape == (size,) and found.min() >= -1e-9 and abs(found.sum() - 1) <= 1e-6
        if not fits:
            solver = ""
            if self.config.needs_payoffs:
                solver = f" with meta_solver {self.config.meta_solver!r}"
            raise ConfigError(
                f"{self._name}{solver}: {asked} says {found} for the population {population.name!r}; expected {size} chances "
                "that add up to 1, one per member."
            )
        return found

    @property
    def _name(self) -> str:
        return f"population kind {self.config.kind!r}"

    # -- what there is ---------------------------------------------------------------------------------------------

    def mixture(self, policy: PolicyID) -> Mixture:
        found = self.policies[policy]
        assert isinstance(found, Mixture)
        return found

    def size(self, population: Population) -> int:
        return len(self.mixture(population.answer))

    def _members(self) -> dict[str, list[Member]]:
        """The members of each population, with their weights, as they travel to matches."""
        found: dict[str, list[Member]] = {}
        for population in self.layout.sides:
            spec, mixture = self.specs[population.learners[0]], self.mixture(population.answer)
            found[population.name] = []
            for number in range(len(mixture)):
                member = Member(f"{population.name}_{number}", spec, mixture.weights_of_member(number))
                found[population.name].append(member)
        return found

    def tensor(self) -> PayoffTensor:
        """Who earned what against whom."""
        names = {}
        for population, members in self.members.items():
            names[population] = [one.name for one in members]
        return self.table.tensor(names)

    def as_json(self) -> dict[str, Any]:
        """Members, lineage and payoffs, for readers of a run directory."""
        found: dict[str, Any] = {
            "kind": self.config.kind,
            **self.numbers,
            "lineage": nx.node_link_data(self.lineage, edges="edges"),
        }
        if self.config.needs_payoffs:
            found["payoffs"] = self.tensor().as_json()
        return found

    @property
    def lineage(self) -> nx.MultiDiGraph:
        everybody: dict[str, Lineage] = {}
        for members in self.members.values():
            everybody |= {one.name: one for one in members}
        return lineage_graph(everybody)

    def _numbers(
        self, payoffs: PayoffTensor | None, answer: Profile, before: Mapping[str, list[float]] | None
    ) -> dict[str, Any]:
        """Numbers of the result's ``population`` block."""
        by_player = dict(zip(self.layout.players, answer, strict=True))
        numbers: dict[str, Any] = {
            "round": self.round,
            "members": {population.name: self.size(population) for population in self.layout.sides},
            "meta_strategy": {player: strategy.tolist() for player, strategy in by_player.items()},
        }
        if payoffs is None:
            return numbers
        game = without_rounding(payoffs.game)
        numbers["empirical_nash_conv"] = max(0.0, game.nash_conv(answer))
        numbers["values"] = dict(zip(self.layout.players, game.values(answer).tolist(), strict=True))
        if before is not None:
            padded = []
            for player, strategy in by_player.items():
                old = np.array(before[player])
                padded.append(np.pad(old, (0, len(strategy) - len(old))))
            # What the best new member earns more than the mixture that it was trained against.
            numbers["gain_of_round"] = float(game.gains(tuple(padded)).sum())
        return numbers

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        members = {}
        for population, lineages in self.members.items():
            members[population] = [one.as_json() for one in lineages]
        return {
            "round": self.round,
            "steps_at_round": self.steps_at_round,
            "ages": self.ages,
            "parents": self.parents,
            "members": members,
            "table": self.table.state_dict(),
            "numbers": self.numbers,
            **({"standing": dict(self.standing), "kind": self.kind.state_dict()} if self.kind.standing else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.round = state["round"]
        self.steps_at_round = state["steps_at_round"]
        self.ages = dict(state["ages"])
        self.parents = dict(state["parents"])
        # The weights of members are not here: they are part of the mixtures, which are policies of the run.
        self.members = {}
        for population, members in state["members"].items():
            self.members[population] = [Lineage(**one) for one in members]
        self.table.load_state_dict(state["table"])
        self.numbers = dict(state["numbers"])
        if self.kind.standing:
            self.standing = dict(state["standing"])
            self.kind.load_state_dict(state["kind"])
