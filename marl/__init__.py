"""Multi-agent-first reinforcement learning with game theory.

Names are loaded when they are first used: ``import marl`` itself imports neither torch nor ray.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_WHERE = {
    "Trainer": "marl.training.trainer",
    "MultiAgentEnv": "marl.envs.base",
    "StepResult": "marl.envs.base",
    "EnvContext": "marl.envs.base",
    "ENV_STATE": "marl.envs.base",
    "BatchedEnv": "marl.envs.batched",
    "NativeEnv": "marl.envs.batched",
    "Frame": "marl.envs.batched",
    "AgentGroups": "marl.envs.groups",
    "register_env": "marl.envs.registry",
    "make_env": "marl.envs.registry",
    "register_pettingzoo": "marl.envs.registry",
    "make_multi_agent": "marl.envs.foreign.copies",
    "register_wrapper": "marl.envs.wrappers",
    "to_pettingzoo": "marl.envs.foreign.export",
    "HierarchicalEnv": "marl.envs.hierarchy.world",
    "Goals": "marl.envs.hierarchy.goals",
    "check_env": "marl.envs.check",
    "check_learner": "marl.training.check_learner",
    "Policy": "marl.policies.policy",
    "Inputs": "marl.policies.policy",
    "Decision": "marl.policies.policy",
    "Kind": "marl.data.task",
    "number_seats": "marl.data.task",
    "Callbacks": "marl.data.callbacks",
    "RunningEpisode": "marl.data.running",
    "SampleBatch": "marl.data.batch",
    "MultiAgentBatch": "marl.data.batch",
    "Learner": "marl.algos.learner",
    "Model": "marl.policies.custom",
    "Preprocessor": "marl.policies.custom",
    "Distribution": "marl.policies.distributions",
    "Loss": "marl.algos.custom",
    "register_model": "marl.policies.custom",
    "register_preprocessor": "marl.policies.custom",
    "register_action_dist": "marl.policies.custom",
    "register_loss": "marl.algos.custom",
    "register_algorithm": "marl.algos.own",
    "Preset": "marl.algos.family",
    "RolloutWorker": "marl.rollout.worker",
    "write_trajectories": "marl.training.own_data",
    "load_policy": "marl.training.export",
    "load_scenario": "marl.scenario.load",
    "pretty_print": "marl.training.result",
}

_ROOMS = ("tune",)  # rooms that are used as `marl.NAME.x`

if TYPE_CHECKING:
    from marl.algos.custom import Loss, register_loss
    from marl.algos.family import Preset
    from marl.algos.learner import Learner
    from marl.algos.own import register_algorithm
    from marl.data.batch import MultiAgentBatch, SampleBatch
    from marl.data.callbacks import Callbacks
    from marl.data.running import RunningEpisode
    from marl.data.task import Kind, number_seats
    from marl.envs.base import ENV_STATE, EnvContext, MultiAgentEnv, StepResult
    from marl.envs.batched import BatchedEnv, Frame, NativeEnv
    from marl.envs.check import check_env
    from marl.envs.foreign.copies import make_multi_agent
    from marl.envs.foreign.export import to_pettingzoo
    from marl.envs.groups import AgentGroups
    from marl.envs.hierarchy.goals import Goals
    from marl.envs.hierarchy.world import HierarchicalEnv
    from marl.envs.registry import make_env, register_env, register_pettingzoo
    from marl.envs.wrappers import register_wrapper
    from marl.policies.custom import Model, Preprocessor, register_action_dist, register_model, register_preprocessor
    from marl.policies.distributions import Distribution
    from marl.policies.policy import Decision, Inputs, Policy
    from marl.rollout.worker import RolloutWorker
    from marl.scenario.load import load_scenario
    from marl.training.check_learner import check_learner
    from marl.training.export import load_policy
    from marl.training.own_data import write_trajectories
    from marl.training.result import pretty_print
    from marl.training.trainer import Trainer

__all__ = [
    "ENV_STATE",
    "AgentGroups",
    "BatchedEnv",
    "Callbacks",
    "Decision",
    "Distribution",
    "EnvContext",
    "Frame",
    "Goals",
    "HierarchicalEnv",
    "Inputs",
    "Kind",
    "Learner",
    "Loss",
    "Model",
    "MultiAgentBatch",
    "MultiAgentEnv",
    "NativeEnv",
    "Policy",
    "Preprocessor",
    "Preset",
    "RolloutWorker",
    "RunningEpisode",
    "SampleBatch",
    "StepResult",
    "Trainer",
    "check_env",
    "check_learner",
    "load_policy",
    "load_scenario",
    "make_env",
    "make_multi_agent",
    "number_seats",
    "pretty_print",
    "register_action_dist",
    "register_algorithm",
    "register_env",
    "register_loss",
    "register_model",
    "register_pettingzoo",
    "register_preprocessor",
    "register_wrapper",
    "to_pettingzoo",
    "write_trajectories",
]


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _ROOMS:
        return import_module(f"marl.{name}")
    raise AttributeError(f"module 'marl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
