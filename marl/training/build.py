"""What a trainer is built from: checks that need the whole scenario, the device, the worker pool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from marl.algos.presets import ALGOS
from marl.callbacks.callbacks import make_hooks
from marl.data.task import PolicyID
from marl.envs.external.contract import EXTERNAL
from marl.errors import ConfigError
from marl.memory import keep_freed_memory
from marl.policies.build import build_policies
from marl.policies.policy import Policy
from marl.registry import load_object
from marl.rollout.overlap import OverlapPool
from marl.rollout.pool import InProcessPool, WorkerPool
from marl.runs.loggers import check_loggers
from marl.runs.result import check_field
from marl.runs.weights import check_loaded, load_policy
from marl.scenario.config import Scenario
from marl.scenario.external import waits_for_agents
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve
from marl.scenario.unused_keys import check_measured
from marl.training.extensions.curriculum import check_stages
from marl.training.learners import Learners, make_learners
from marl.training.memory_estimate import check_memory
from marl.training.sources import Source, choose_source
from marl.trust import Sort

if TYPE_CHECKING:
    from marl.rollout.ray_pool import RayPool

CHOICE = Sort("policies_to_train", creators=True)


def scenario_of(algo: str | None, env: str | Callable[..., Any] | None, config: Mapping[str, Any] | None) -> Scenario:
    """The scenario that ``Trainer(algo, env, config)`` means."""
    keys = dict(config or {})
    if env is not None:
        keys["env"] = env
    if algo is not None:
        given = keys.get("algo")
        keys["algo"] = {**(given if isinstance(given, Mapping) else {}), "name": algo}
    return compose(keys)


def prepare(given: Scenario | Setup) -> Setup:
    """The scenario resolved against its env; what can be refused before anything is built is refused here."""
    keep_freed_memory()
    if isinstance(given, Setup):
        setup = given
        torch.set_num_threads(given.scenario.torch_threads)
    else:
        torch.set_num_threads(given.torch_threads)
        setup = resolve_run(given)
    scenario = setup.scenario
    check_loggers(scenario.loggers)
    check_fields(scenario, list(setup.policies))
    check_memory(setup)
    if scenario.stacked:
        check_stacks(setup)
    return setup


def check_stacks(setup: Setup) -> None:
    """Refuse to stack what has nothing to do together."""
    for name, role in setup.roles.items():
        if role.preset.family.learner_class().stacks:
            continue
        stacking = [algo for algo in ALGOS if ALGOS[algo].family.learner_class().stacks]
        raise ConfigError(
            f"policy {name!r} learns by {role.preset.name}, whose updates cannot be stacked, so a stack would gain nothing. "
            f"Algorithms that stack: {', '.join(stacking)}. Train its seeds one after the other, without --stacked."
        )


def resolve_run(scenario: Scenario) -> Setup:
    """Everything resolved; of an external env without agents in its ``env_config`` the first client says who they are."""
    if not waits_for_agents(scenario):
        return resolve(scenario)
    from marl.serve.first_client import resolve_with_first_client

    return resolve_with_first_client(scenario)


def build_run_policies(setup: Setup, fresh: bool) -> dict[PolicyID, Policy]:
    """The policies of a run on its device; a fresh run follows ``load``, a restored one has its own weights."""
    scenario, device = setup.scenario, choose_device(setup.scenario)
    policies = build_policies(setup.policies, setup.task.kinds)
    for policy in policies.values():
        policy.to(device)
    if fresh:
        for name, path in scenario.load.items():
            load_policy(policies[name], name, path)
        check_loaded(policies, scenario.load)
    return policies


@dataclass
class RunParts:
    """What plays and what learns in a run."""

    policies: dict[PolicyID, Policy]
    learning: Learners
    workers: WorkerPool
    source: Source
    choose_trained: Callable[..., bool] | None  # asked with every batch which policies learn from it


def build_parts(setup: Setup, fresh: bool) -> RunParts:
    """Policies, learners, workers and the source of experience; whoever fails here leaves no process behind."""
    policies = build_run_policies(setup, fresh)
    learning = make_learners(setup, policies)
    with ExitStack() as undo:
        undo.callback(learning.stop)
        choose_trained = policy_chooser(setup.scenario)
        wanted = setup.scenario.multiagent.policies_to_train
        if choose_trained is None and isinstance(wanted, Collection):
            learning.train_only(wanted, setup.roles)
        for name in learning.trained & set(setup.scenario.load):  # a loaded policy that learns explores anew
            policies[name].anneal(0)
        workers = make_pool(setup, policies)
        source = choose_source(setup, workers, learning.members, policies)
        undo.pop_all()
    return RunParts(policies, learning, workers, source, choose_trained)


def policy_chooser(scenario: Scenario) -> Callable[..., bool] | None:
    """The function behind ``policies_to_train``, where it is one: asked with every batch."""
    wanted = scenario.multiagent.policies_to_train
    found = load_object(wanted, CHOICE) if isinstance(wanted, str) else wanted
    if isinstance(wanted, str) and not callable(found):
        raise ConfigError(f"policies_to_train {wanted!r} is a {type(found).__name__}; expected a function.")
    return found if callable(found) else None


def check_fields(scenario: Scenario, policies: Sequence[PolicyID]) -> None:
    """Goal, stop condition and metric must name numbers that results will have."""
    for field in scenario.goal:
        check_field(field, policies, "goal")
        check_measured(scenario, field, "goal")
    for field in scenario.stop:
        _check_stop(scenario, field, policies)
    if scenario.on_ray:
        make_hooks(scenario.callbacks)  # what is wrong with it shows before Ray starts
    check_field(f"evaluation.{scenario.evaluation.metric}", policies, "evaluation.metric")
    check_stages(scenario, policies)


def _check_stop(scenario: Scenario, field: str, policies: Sequence[PolicyID]) -> None:
    if field == "goal":
        if scenario.stop["goal"] and not scenario.goal:
            raise ConfigError(
                "stop: {goal: true} needs a goal, for instance goal: {evaluation.episode_reward_mean: 8.0}."
            )
        return
    check_field(field, policies, "stop")
    # A budget may stand beside a stop by evaluations, which are often switched off for a short try.
    if field.partition(".")[0] not in ("evaluation", "best_evaluation"):
        check_measured(scenario, field, "stop")


def make_pool(setup: Setup, policies: Mapping[PolicyID, Policy]) -> WorkerPool:
    """Workers in this process or on Ray actors, as ``collection`` says; clients, where they play the env."""
    config = setup.rollout.config
    if setup.rollout.env == EXTERNAL:
        from marl.serve.pools import make_client_pool

        return make_client_pool(setup, policies)
    if not config.on_ray:
        return (OverlapPool if config.collection == "overlap" else InProcessPool)(setup.rollout, policies)
    return _ray_pool_class(setup)(setup.rollout, policies)


def _ray_pool_class(setup: Setup) -> type[RayPool]:
    from marl.rollout.async_pool import AsyncRayPool
    from marl.rollout.ray_overlap import OverlapRayPool
    from marl.rollout.ray_pool import RayPool

    if setup.rollout.config.collection == "overlap":
        return OverlapRayPool
    return AsyncRayPool if setup.asynchronous else RayPool


def choose_device(scenario: Scenario) -> torch.device:
    """Where the learners compute."""
    there = torch.cuda.is_available()
    if scenario.device == "cuda" and not there:
        raise ConfigError("device: cuda, but torch finds no GPU here. Use device: cpu, or auto.")
    if scenario.num_gpus > 0 and not there:
        raise ConfigError(
            f"num_gpus is {scenario.num_gpus:g}, but the learners run on a machine without a GPU. Set num_gpus: 0, or use a "
            "machine with a GPU."
        )
    on_gpu = there and scenario.device != "cpu"
    return torch.device("cuda" if on_gpu else "cpu")
