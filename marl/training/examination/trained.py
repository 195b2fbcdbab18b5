"""From below: for every player an opponent is trained against all others, who stay as they are, and both ways are played.

What a trained opponent earns more is a lower bound of what a perfect one would: 0 then means that nothing was found, not
that there is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from marl.algos.together import in_stack
from marl.data.task import AgentID, PolicyID
from marl.errors import ConfigError, UserError
from marl.policies.config import PolicySpec
from marl.policies.mixture import Mixture, weights_as_mixture
from marl.populations.exploit_config import ExploitabilityConfig
from marl.populations.members import Member
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve
from marl.training.examination.figures import Effort, Exploitability
from marl.training.examination.game import Asked, ExaminedGame, pattern_of_seat
from marl.training.examination.method import Method

CHALLENGER = "best_response"
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


class ByTraining(Method):
    """``challenges`` are the runs in which the best responses are trained, by player."""

    name: ClassVar[str] = "trained"
    told: ClassVar[str] = "best responses are trained"

    def __init__(self, game: ExaminedGame, config: ExploitabilityConfig) -> None:
        self.game, self.config = game, config
        self.challenges = {player: self._challenge(player) for player in game.players}
        self.effort = Effort(
            timesteps=config.best_response_timesteps * len(game.players),
            episodes=config.best_response_episodes * (1 + len(game.players)),
        )

    def _challenge(self, player: str) -> Setup:
        """The same env in which only ``player`` learns; everybody else is frozen."""
        scenario, algo = self.game.setup.scenario, self.config.best_response_algo
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
        for agent in self.game.others(player):
            specs[_frozen(agent)] = self._frozen_spec(agent)
        rollout = replace(bare.rollout, policies=specs, seed=scenario.seed, teams=self.game.teams())
        return replace(bare, rollout=rollout)

    def _casting(self, player: str) -> dict[str, Any]:
        """The section ``multiagent`` in which the challenger plays ``player``, and frozen policies everybody else."""
        mapping: dict[str, Any] = {pattern_of_seat(agent): CHALLENGER for agent in self.game.players[player]}
        policies: dict[str, Any] = {}
        for agent in self.game.others(player):
            mapping[pattern_of_seat(agent)] = _frozen(agent)
            # Stands in for the run's policy, whose recipe comes later.
            policies[_frozen(agent)] = {"scripted": "random"}
        policies[CHALLENGER] = {}
        given = self.game.setup.scenario.multiagent
        groups = {}
        for name, members in given.groups.items():
            # Teams of others would ask for learners that are not there.
            if name == player or name in given.joint:
                groups[name] = members
        return {"joint": given.joint, "groups": groups, "policies": policies, "policy_mapping_fn": mapping}

    def _frozen_spec(self, agent: AgentID) -> PolicySpec:
        spec = self.game.setup.policies[self.game.seating[agent]]
        if spec.population is not None or spec.scripted is not None:
            return spec
        # A mixture of one plays its strategy also while others explore.
        return replace(spec, population=_frozen(agent))

    def measure(self, asked: Asked) -> Exploitability:
        replies: dict[str, Member] = {}
        trained = 0
        for player in self.game.players:
            weights, steps = self._train(player, asked, trained)
            trained += steps
            spec = self.challenges[player].policies[CHALLENGER]
            replies[player] = Member(f"{CHALLENGER} {player}", spec, weights)
        found = self.game.play_replies(asked, replies, self.config.best_response_episodes)
        return replace(found, timesteps=trained)

    def _train(self, player: str, asked: Asked, before: int) -> tuple[dict[str, Any], int]:
        """Weights of a best response to the others as they are now, and the env steps that it took."""
        from marl.training.trainer import Trainer  # which itself measures

        setup, game = self.challenges[player], self.game
        frozen = {}
        for agent in game.others(player):
            policy, name = asked.policies[game.seating[agent]], _frozen(agent)
            frozen[name] = policy.get_weights()
            if setup.policies[name].population is not None and not isinstance(policy, Mixture):
                frozen[name] = weights_as_mixture(policy)
        needed = self.config.best_response_timesteps
        with Trainer(setup=setup) as trainer, in_stack(game.setup.scenario.stacked):
            trainer.set_weights(frozen)
            while trainer.timesteps_total < needed:
                trainer.train()
                if asked.progress is not None:
                    asked.progress(before + trainer.timesteps_total, needed * len(game.players))
            return trainer.get_policy(CHALLENGER).get_weights(), trainer.timesteps_total


def _frozen(agent: AgentID) -> PolicyID:
    """The policy of an agent that stays as it is while a best response is trained."""
    return f"frozen {agent}"
