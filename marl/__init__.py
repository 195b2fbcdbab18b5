"""Multi-agent-first reinforcement learning with game theory.

The ten names that most programs need:

    marl.Trainer("qmix", env="two_step_game", config={...})   one run: train(), evaluate(), save(), compute_action()
    marl.load_scenario("scenarios/two_step_game.yaml")         the same from a file: Trainer(scenario=...)
    marl.MultiAgentEnv                                         an env of your own, in dicts
    marl.register_env("mine", MyEnv)                           its name in scenarios
    marl.check_env(MyEnv)                                      whether it keeps the contract
    marl.register_pettingzoo("mine", module)                   any PettingZoo env by one line
    marl.Callbacks                                             your code at the turning points of a run
    marl.load_policy("exported/default_policy")                a trained policy that acts, without the run
    marl.tune.run(...)                                         a search over keys
    marl.games                                                 equilibria, exploitability, cross-play, rankings, reports

Names are loaded when they are first used: ``import marl`` itself imports neither torch nor ray.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_WHERE = {
    "Trainer": "marl.training.trainer",
    "MultiAgentEnv": "marl.envs.base",
    "StepResult": "marl.envs.base",
    "EnvContext": "marl.envs.base",
    "ENV_STATE": "marl.envs.base",
    "EnvWrapper": "marl.envs.wrapper",
    "ExternalEnv": "marl.envs.external.program",
    "ExternalMultiAgentEnv": "marl.envs.external.program",
    "PolicyServer": "marl.envs.external.program",
    "BatchedEnv": "marl.envs.batched",
    "NativeEnv": "marl.envs.batched",
    "StepOutput": "marl.envs.batched",
    "AgentGroups": "marl.envs.groups",
    "register_env": "marl.envs.registry",
    "make_env": "marl.envs.registry",
    "register_pettingzoo": "marl.envs.registry",
    "make_multi_agent": "marl.envs.adapters.copies",
    "register_wrapper": "marl.envs.wrappers",
    "to_pettingzoo": "marl.envs.adapters.export",
    "HierarchicalEnv": "marl.envs.hierarchy.env",
    "Goals": "marl.envs.hierarchy.goals",
    "check_env": "marl.envs.check",
    "check_learner": "marl.testing.check_learner",
    "Policy": "marl.policies.policy",
    "Inputs": "marl.policies.policy",
    "Decision": "marl.policies.policy",
    "AgentType": "marl.data.task",
    "number_seats": "marl.data.task",
    "Callbacks": "marl.callbacks.callbacks",
    "RunningEpisode": "marl.callbacks.running_episode",
    "SampleBatch": "marl.data.batch",
    "MultiAgentBatch": "marl.data.batch",
    "Learner": "marl.algos.learner",
    "Model": "marl.policies.custom",
    "Preprocessor": "marl.policies.custom",
    "Distribution": "marl.policies.distributions",
    "Loss": "marl.algos.custom_loss",
    "register_model": "marl.policies.custom",
    "register_preprocessor": "marl.policies.custom",
    "register_action_dist": "marl.policies.custom",
    "register_loss": "marl.algos.custom_loss",
    "register_algorithm": "marl.algos.custom_algorithm",
    "IntrinsicReward": "marl.algos.intrinsic.kind",
    "register_intrinsic": "marl.algos.intrinsic.kind",
    "PopulationKind": "marl.populations.kinds",
    "register_population": "marl.populations.kinds",
    "register_meta_solver": "marl.populations.meta_solvers",
    "register_env_family": "marl.envs.families",
    "register_ranking": "marl.gametheory.rank.methods",
    "register_logger": "marl.runs.loggers",
    "Preset": "marl.algos.family",
    "RolloutWorker": "marl.rollout.worker",
    "write_trajectories": "marl.offline.write",
    "register_estimator": "marl.offline.estimators",
    "estimate_checkpoint": "marl.play.estimate",
    "load_policy": "marl.play.export",
    "push_to_hub": "marl.sharing.remote",
    "pull_from_hub": "marl.sharing.remote",
    "PolicyClient": "marl.client",
    "PolicyClientError": "marl.client",
    "drive": "marl.driving",
    "load_scenario": "marl.scenario.load",
    "pretty_print": "marl.runs.result",
}

_RENAMED = {"Frame": "StepOutput", "Kind": "AgentType"}  # old names, for one release
_ROOMS = ("tune", "games")  # rooms that are used as `marl.NAME.x`

if TYPE_CHECKING:
    from marl.algos.custom_algorithm import register_algorithm
    from marl.algos.custom_loss import Loss, register_loss
    from marl.algos.family import Preset
    from marl.algos.intrinsic.kind import IntrinsicReward, register_intrinsic
    from marl.algos.learner import Learner
    from marl.callbacks.callbacks import Callbacks
    from marl.callbacks.running_episode import RunningEpisode
    from marl.client import PolicyClient, PolicyClientError
    from marl.data.batch import MultiAgentBatch, SampleBatch
    from marl.data.task import AgentType, number_seats
    from marl.driving import drive
    from marl.envs.adapters.copies import make_multi_agent
    from marl.envs.adapters.export import to_pettingzoo
    from marl.envs.base import ENV_STATE, EnvContext, MultiAgentEnv, StepResult
    from marl.envs.batched import BatchedEnv, NativeEnv, StepOutput
    from marl.envs.check import check_env
    from marl.envs.external.program import ExternalEnv, ExternalMultiAgentEnv, PolicyServer
    from marl.envs.families import register_env_family
    from marl.envs.groups import AgentGroups
    from marl.envs.hierarchy.env import HierarchicalEnv
    from marl.envs.hierarchy.goals import Goals
    from marl.envs.registry import make_env, register_env, register_pettingzoo
    from marl.envs.wrapper import EnvWrapper
    from marl.envs.wrappers import register_wrapper
    from marl.gametheory.rank.methods import register_ranking
    from marl.offline.estimators import register_estimator
    from marl.offline.write import write_trajectories
    from marl.play.estimate import estimate_checkpoint
    from marl.play.export import load_policy
    from marl.policies.custom import Model, Preprocessor, register_action_dist, register_model, register_preprocessor
    from marl.policies.distributions import Distribution
    from marl.policies.policy import Decision, Inputs, Policy
    from marl.populations.kinds import PopulationKind, register_population
    from marl.populations.meta_solvers import register_meta_solver
    from marl.rollout.worker import RolloutWorker
    from marl.runs.loggers import register_logger
    from marl.runs.result import pretty_print
    from marl.scenario.load import load_scenario
    from marl.sharing.remote import pull_from_hub, push_to_hub
    from marl.testing.check_learner import check_learner
    from marl.training.trainer import Trainer

__all__ = [
    "ENV_STATE",
    "AgentGroups",
    "AgentType",
    "BatchedEnv",
    "Callbacks",
    "Decision",
    "Distribution",
    "EnvContext",
    "EnvWrapper",
    "ExternalEnv",
    "ExternalMultiAgentEnv",
    "Goals",
    "HierarchicalEnv",
    "Inputs",
    "IntrinsicReward",
    "Learner",
    "Loss",
    "Model",
    "MultiAgentBatch",
    "MultiAgentEnv",
    "NativeEnv",
    "Policy",
    "PolicyClient",
    "PolicyClientError",
    "PolicyServer",
    "PopulationKind",
    "Preprocessor",
    "Preset",
    "RolloutWorker",
    "RunningEpisode",
    "SampleBatch",
    "StepOutput",
    "StepResult",
    "Trainer",
    "check_env",
    "check_learner",
    "drive",
    "estimate_checkpoint",
    "load_policy",
    "load_scenario",
    "make_env",
    "make_multi_agent",
    "number_seats",
    "pretty_print",
    "pull_from_hub",
    "push_to_hub",
    "register_action_dist",
    "register_algorithm",
    "register_env",
    "register_env_family",
    "register_estimator",
    "register_intrinsic",
    "register_logger",
    "register_loss",
    "register_meta_solver",
    "register_model",
    "register_pettingzoo",
    "register_population",
    "register_preprocessor",
    "register_ranking",
    "register_wrapper",
    "to_pettingzoo",
    "write_trajectories",
]


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _RENAMED:
        warnings.warn(f"marl.{name} is called marl.{_RENAMED[name]} now.", DeprecationWarning, stacklevel=2)
        return __getattr__(_RENAMED[name])
    if name in _ROOMS:
        return import_module(f"marl.{name}")
    raise AttributeError(f"module 'marl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
