"""What a trainer is built from: checks that need the whole scenario, the device, the worker pool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from marl.callbacks.callbacks import make_hooks
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.policies.build import build_policies
from marl.policies.policy import Policy
from marl.registry import load_object
from marl.rollout.pool import InProcessPool, WorkerPool
from marl.runs.loggers import find_logger
from marl.runs.result import check_field
from marl.runs.weights import check_loaded, load_policy
from marl.scenario.config import Scenario
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve
from marl.training.extensions.curriculum import check_stages
from marl.training.learners import Learners, make_learners
from marl.training.memory_estimate import check_memory
from marl.training.sources import Source, choose_source
from marl.trust import Sort

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


def prepare(scenario: Scenario, setup: Setup | None) -> Setup:
    """The scenario resolved against its env; what can be refused before anything is built is refused here."""
    torch.set_num_threads(scenario.torch_threads)
    setup = setup or resolve(scenario)
    for name in scenario.loggers:
        find_logger(name)
    check_fields(scenario, list(setup.policies))
    check_memory(setup)
    return setup


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
        source = choose_source(setup, workers, learning.members)
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
        if field.startswith("evaluation.") and not scenario.evaluation.interval:
            raise ConfigError(f"goal: {field} needs evaluations, but evaluation.interval is 0. Set it to 1 or more.")
    for field in scenario.stop:
        if field != "goal":
            check_field(field, policies, "stop")
    exam = scenario.exploitability
    idle = exam.changed(*(key for key in type(exam).model_fields if key != "interval"))
    if idle and not exam.interval:
        raise ConfigError(
            f"exploitability.{idle[0]} is given, but exploitability.interval is 0, so nothing is measured. "
            "Set interval to 1 or more, or drop the section and measure the run afterwards by `marl exploit`."
        )
    for field in (*scenario.goal, *scenario.stop):
        if field.startswith("exploitability.") and not scenario.exploitability.interval:
            raise ConfigError(f"{field} needs measurements, but exploitability.interval is 0. Set it to 1 or more.")
        if field.startswith("population.") and scenario.population is None:
            raise ConfigError(f"{field} needs a population, but the scenario has none. Add `population:`.")
    if scenario.stop.get("goal") and not scenario.goal:
        raise ConfigError("stop: {goal: true} needs a goal, for instance goal: {evaluation.episode_reward_mean: 8.0}.")
    if scenario.on_ray:
        make_hooks(scenario.callbacks)  # what is wrong with it shows before Ray starts
    check_field(f"evaluation.{scenario.evaluation.metric}", policies, "evaluation.metric")
    check_stages(scenario, policies)


def make_pool(setup: Setup, policies: Mapping[PolicyID, Policy]) -> WorkerPool:
    """Workers in this process, or on Ray actors that wait for each other or do not."""
    config = setup.rollout.config
    if not config.on_ray:
        return InProcessPool(setup.rollout, policies)
    if config.num_workers == 0:
        raise ConfigError("pool: ray needs num_workers of at least 1.")
    from marl.rollout.async_pool import AsyncRayPool
    from marl.rollout.ray_pool import RayPool

    return (AsyncRayPool if setup.asynchronous else RayPool)(setup.rollout, policies)


def choose_device(scenario: Scenario) -> torch.device:
    """Where the learners compute."""
    there = torch.cuda.is_available()
    if scenario.device == "cuda" and not there:
        raise ConfigError("device: cuda, but torch finds no GPU here. Use device: cpu, or auto.")
    if scenario.num_gpus > 0 and (scenario.device == "cpu" or not there):
        raise ConfigError(
            f"num_gpus is {scenario.num_gpus:g}, but the learners run on "
            f"{'the CPU (device: cpu)' if there else 'a machine without a GPU'}. Set num_gpus: 0, or device: auto on "
            "a machine with a GPU."
        )
    return torch.device("cuda" if scenario.device != "cpu" and there else "cpu")
