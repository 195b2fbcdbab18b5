"""How far a run's play is from equilibrium.

    NashConv = sum over players of (what a best response earns - what the player earns)

``exact`` computes it on the game's tree, from the policies read as tables; where reset seeds had to stand for chance, with an
error (``gametheory/tree/sampled.py``). ``best_response`` trains an opponent for every
player against all others, who stay as they are, and plays both ways. What a trained opponent earns more is a lower bound of
what a perfect one would: 0 then means that nothing was found, not that there is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from marl.algos.together import in_stack
from marl.data.episode import Episode
from marl.data.task import AgentID, PolicyID
from marl.errors import ChanceError, ConfigError, UserError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.sampled import gains_with_errors
from marl.gametheory.tree.size import walks_in
from marl.gametheory.tree.tree import Tree
from marl.mappers.matchmaking import Seating
from marl.policies.config import PolicySpec
from marl.policies.mixture import Mixture, weights_as_mixture
from marl.policies.policy import Policy
from marl.populations.exploit_config import ExploitabilityConfig
from marl.populations.matches import Job, Players, play_all
from marl.populations.members import Member
from marl.rollout.pool import WorkerPool
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.scenario.population import players_of
from marl.scenario.resolve import Setup, resolve

CHALLENGER = "best_response"
EXACT, SAMPLED, LOWER = "exact", "sampled chance", "lower bound"
# Keys of the run in which a best response is trained that are not those of the run itself.
UNLIKE_THE_RUN: Mapping[str, Any] = {
    "population": None,
    "exploitability": {"interval": 0},
    "load": {},
    "input": None,
    "output": None,
    "output_format": "npz",  # json would ask for an output
    "callbacks": None,  # they are about the run's own play
    "loggers": [],
    "goal": {},
    "stop": {},
    "evaluation": {"interval": 0},
    "num_cpus_per_worker": 0,  # the run's own workers hold the CPUs, and rest meanwhile
    "num_gpus_per_worker": 0,
    "pool": "auto",
    "collection": "auto",
    "num_learners": 1,
    "stacked": False,  # also best responses by algorithms that do not stack; the others learn as the run does, see below
}

Progress = Callable[[int, int], None]  # env steps of training: done, and in all


@dataclass(frozen=True)
class Exploitability:
    """NashConv with the part of each player. ``bound`` says what the numbers are."""

    nash_conv: float
    stderr: float
    gains: Mapping[str, float]
    errors: Mapping[str, float]
    bound: str  # EXACT, SAMPLED or LOWER
    timesteps: int = 0  # env steps that best responses were trained for
    why: str = ""  # why it is not exact, where that was wished for
    chance: Mapping[str, Any] = field(default_factory=dict)  # how it came into the tree: mode, and what was sampled

    def as_json(self) -> dict[str, Any]:
        players = max(1, len(self.gains))
        return {
            "nash_conv": self.nash_conv,
            "exploitability": self.nash_conv / players,
            "stderr": self.stderr,
            "exploitability_stderr": self.stderr / players,
            "gains": dict(self.gains),
            "errors": dict(self.errors),
            "bound": self.bound,
            "exact": self.bound == EXACT,
            "chance": dict(self.chance),
            "timesteps": self.timesteps,
            "why": self.why,
        }


class Examiner:
    """Measures the policies of one run again and again. Mistakes show when it is built, before anything is trained."""

    def __init__(self, setup: Setup, config: ExploitabilityConfig) -> None:
        self.setup, self.config = setup, config
        self.players: Players = players_of(setup.scenario, setup.stage, setup.task)
        self.seating = _seating(setup)
        self.why_trained = ""  # why NashConv is not exact, where exact numbers were wished for
        self.tree = self._tree()
        if self.tree is None:
            self.challenges = {player: self._challenge(player) for player in self.players}

    def _tree(self) -> Tree | None:
        """The game's tree, or None where best responses have to be trained."""
        config, scenario = self.config, self.setup.scenario
        if config.method == "best_response":
            return None
        try:
            self._check_has_tree()
            if config.method == "auto":
                self._check_size()
            return build_tree(
                scenario.env, scenario.env_config, chance_samples=config.chance_samples, max_nodes=config.max_nodes
            )
        except ChanceError:  # a mistake to mend, whatever the method: the env says something wrong about itself
            raise
        except UserError as error:
            if config.method == "exact":
                raise ConfigError(
                    f"exploitability.method exact: {error} Use best_response, which gives a lower bound."
                ) from error
            self.why_trained = str(error)
            return None

    def _check_has_tree(self) -> None:
        """Whether what is played is the game that a tree of the env would hold."""
        scenario = self.setup.scenario
        for player, agents in self.players.items():
            if len(agents) > 1 or "*" in agents[0]:
                raise ConfigError(
                    f"player {player!r} is a group of agents, and the players of a tree are single agents."
                )
        if scenario.wrappers or scenario.multiagent.joint:
            raise ConfigError("the tree of a wrapped env is not built.")
        if scenario.horizon is not None:
            raise ConfigError(f"horizon: {scenario.horizon} cuts episodes off, which the tree does not know.")

    def _check_size(self) -> None:
        """Whether the tree is worth growing: an env that is replayed takes minutes to reach ``max_nodes``."""
        walks = walks_in(self.setup.scenario.env, self.setup.scenario.env_config, self.setup.scenario.seed)
        if not walks.discrete:
            raise ConfigError("some actions are not a choice among a few, so there is no finite tree.")
        if walks.nodes > self.config.max_nodes:
            raise ConfigError(
                f"the tree has {walks.size} nodes, estimated from random play, more than max_nodes "
                f"({self.config.max_nodes:,})."
            )

    def measure(
        self,
        policies: Mapping[PolicyID, Policy],
        workers: WorkerPool,
        number: int = 0,
        progress: Progress | None = None,
    ) -> Exploitability:
        """NashConv of these policies. ``number`` tells measurements of a run apart: each plays episodes of its own.

        ``progress`` is called with the env steps that best responses have been trained for, and how many there will be.
        """
        if self.tree is not None:
            return self._exactly(self.tree, policies)
        return self._by_best_responses(policies, workers, number, progress)

    def _exactly(self, tree: Tree, policies: Mapping[PolicyID, Policy]) -> Exploitability:
        table = strategy_of(tree, {agent: policies[self.seating[agent]] for agent in tree.players})
        found = gains_with_errors(tree, table)
        parts = dict(zip(tree.players, found.gains.tolist(), strict=True))
        errors = dict(zip(tree.players, found.errors.tolist(), strict=True))
        bound = EXACT if tree.sample is None else SAMPLED
        return Exploitability(
            nash_conv=found.nash_conv,
            stderr=found.total_error,
            gains=parts,
            errors=errors,
            bound=bound,
            chance=tree.chance_json(),
        )

    # -- trained best responses ------------------------------------------------------------------------------------

    def _challenge(self, player: str) -> Setup:
        """The same env in which only ``player`` learns; everybody else is frozen."""
        scenario, algo = self.setup.scenario, self.config.best_response_algo
        if self.config.best_response_workers and scenario.custom_resources_per_worker:
            raise ConfigError(
                "exploitability: the run's own workers hold its custom_resources_per_worker, so Ray workers of a best "
                "response would wait for them for ever. Train it in this process: best_response_workers: 0, or `marl exploit "
                "--workers 0`."
            )
        keys = {**describe(scenario), **UNLIKE_THE_RUN}
        keys["num_workers"] = self.config.best_response_workers
        keys["multiagent"] = self._casting(player)
        if algo is not None and algo.lower() != scenario.preset.name:
            keys |= {"algo": {"name": algo}, "exploration_config": None}
        try:
            bare = resolve(compose(keys, "exploitability"))
        except UserError as error:
            raise ConfigError(f"exploitability: no best response of {player!r} can be trained: {error}") from error
        specs = dict(bare.policies)
        for agent in self._others(player):
            specs[_frozen(agent)] = self._frozen_spec(agent)
        rollout = replace(bare.rollout, policies=specs, seed=scenario.seed, teams=self._teams())
        return replace(bare, rollout=rollout)

    def _casting(self, player: str) -> dict[str, Any]:
        """The section ``multiagent`` in which the challenger plays ``player``, and frozen policies everybody else."""
        mapping: dict[str, Any] = {_pattern(agent): CHALLENGER for agent in self.players[player]}
        policies: dict[str, Any] = {}
        for agent in self._others(player):
            mapping[_pattern(agent)] = _frozen(agent)
            # Stands in for the run's policy, whose recipe comes later.
            policies[_frozen(agent)] = {"scripted": "random"}
        policies[CHALLENGER] = {}
        given = self.setup.scenario.multiagent
        groups = {}
        for name, members in given.groups.items():
            # Teams of others would ask for learners that are not there.
            if name == player or name in given.joint:
                groups[name] = members
        return {"joint": given.joint, "groups": groups, "policies": policies, "policy_mapping_fn": mapping}

    def _frozen_spec(self, agent: AgentID) -> PolicySpec:
        spec = self.setup.policies[self.seating[agent]]
        if spec.population is not None or spec.scripted is not None:
            return spec
        # A mixture of one plays its strategy also while others explore.
        return replace(spec, population=_frozen(agent))

    def _others(self, player: str) -> list[AgentID]:
        """The seats that somebody else plays."""
        return [seat for seat in self.setup.task.seat_names if self._owner(seat) != player]

    def _owner(self, seat: AgentID) -> str:
        own_names = {player: player for player in self.players}
        return Seating(self.players, own_names).candidates(_pattern(seat))[0]

    def _teams(self) -> tuple[int, ...]:
        names = list(self.players)
        return tuple(names.index(self._owner(seat)) for seat in self.setup.task.seat_names)

    def _by_best_responses(
        self,
        policies: Mapping[PolicyID, Policy],
        workers: WorkerPool,
        number: int,
        progress: Progress | None,
    ) -> Exploitability:
        usual = {_pattern(seat): self.seating[seat] for seat in self.setup.task.seat_names}
        members: dict[str, Member] = {}
        for name in set(usual.values()):
            members[name] = Member(name, self.setup.policies[name], policies[name].get_weights())
        rng = np.random.default_rng([self.setup.scenario.seed, 0x6578, number])
        seeds = tuple(rng.integers(0, 2**31 - 1, self.config.best_response_episodes).tolist())
        jobs = [Job(tuple(usual.items()), seeds)]
        trained = 0
        for player in self.players:
            weights, steps = self._train(player, policies, progress, trained)
            trained += steps
            name = f"{CHALLENGER} {player}"
            members[name] = Member(name, self.challenges[player].policies[CHALLENGER], weights)
            seating = dict(usual)
            for seat in self.setup.task.seat_names:
                if self._owner(seat) == player:
                    seating[_pattern(seat)] = name
            jobs.append(Job(tuple(seating.items()), seeds))
        as_usual, *responses = play_all(workers, members, jobs, self.players)
        parts = {}
        errors = {}
        total = np.zeros(len(seeds))
        for place, player in enumerate(self.players):
            more = responses[place][:, place] - as_usual[:, place]
            parts[player] = max(0.0, float(more.mean()))  # what was trained too little loses; nobody has to use it
            errors[player] = float(more.std(ddof=1) / len(more) ** 0.5)
            total += more
        # Of the sum, not the sum of errors: gains of one seed share its episode without best responses.
        error = float(total.std(ddof=1) / len(total) ** 0.5)
        return Exploitability(
            nash_conv=sum(parts.values()),
            stderr=error,
            gains=parts,
            errors=errors,
            bound=LOWER,
            timesteps=trained,
            why=self.why_trained,
        )

    def _train(
        self, player: str, policies: Mapping[PolicyID, Policy], progress: Progress | None, before: int
    ) -> tuple[dict[str, Any], int]:
        """Weights of a best response to the others as they are now, and the env steps that it took."""
        from marl.training.trainer import Trainer  # which itself measures

        setup = self.challenges[player]
        frozen = {}
        for agent in self._others(player):
            policy, name = policies[self.seating[agent]], _frozen(agent)
            frozen[name] = policy.get_weights()
            if setup.policies[name].population is not None and not isinstance(policy, Mixture):
                frozen[name] = weights_as_mixture(policy)
        needed = self.config.best_response_timesteps
        with Trainer(setup=setup) as trainer, in_stack(self.setup.scenario.stacked):
            trainer.set_weights(frozen)
            while trainer.timesteps_total < needed:
                trainer.train()
                if progress is not None:
                    progress(before + trainer.timesteps_total, needed * len(self.players))
            return trainer.get_policy(CHALLENGER).get_weights(), trainer.timesteps_total


def _frozen(agent: AgentID) -> PolicyID:
    """The policy of an agent that stays as it is while a best response is trained."""
    return f"frozen {agent}"


def _pattern(agent: AgentID) -> AgentID:
    """``car_*`` for the seat ``car_*[3]``."""
    return agent.split("[")[0]


def _seating(setup: Setup) -> dict[AgentID, PolicyID]:
    """Who plays whom: the answers of a population, else the mapping of the run."""
    mapper = setup.proposed_mapper
    found = {}
    for seat in setup.task.seat_names:
        agent = _pattern(seat).replace("*", "0")
        policies = mapper.candidates(agent)
        if not mapper.fixed and len(policies) > 1:
            asked = {mapper(agent, Episode(probe, probe)) for probe in range(16)}
            if len(asked) > 1:
                raise ConfigError(
                    f"exploitability: agent {agent!r} is played by {', '.join(sorted(asked))}, drawn anew in each episode, so "
                    "it has no single strategy to measure. Use a fixed policy_mapping_fn, or `population:`."
                )
            policies = list(asked)
        found[seat] = policies[0]
    return found
