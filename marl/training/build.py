"""What a trainer is built from: checks that need the whole scenario, the device, the worker pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from marl.callbacks.callbacks import make_hooks
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.policies.policy import Policy
from marl.rollout.pool import InProcessPool, WorkerPool
from marl.runs.result import check_field
from marl.scenario.config import Scenario
from marl.scenario.resolve import Setup
from marl.training.extensions.curriculum import check_stages


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
