"""Where each key of a scenario stands, for keys that were put into another section, and what sort of value it takes."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError

from marl.algos.config import OptimizerConfig
from marl.algos.family import ALGOS
from marl.policies.config import ExplorationConfig, ModelConfig
from marl.populations.config import PopulationConfig
from marl.populations.exploit_config import ExploitabilityConfig
from marl.rollout.config import EvaluationConfig
from marl.scenario.config import MultiAgentConfig, Scenario

TOP = ""
# Result fields that people write where keys stand; the others `marl explain` knows.
RESULT_FIELDS = ("timesteps_total", "training_iteration", "episodes_total", "time_total_s", "episode_reward_mean")
# The classes behind the sections, the ones meant most often first. `algo` has those of all families.
SECTIONS: dict[str, Any] = {
    TOP: Scenario,
    "model": ModelConfig,
    "multiagent": MultiAgentConfig,
    "exploration_config": ExplorationConfig,
    "evaluation": EvaluationConfig,
    "exploitability": ExploitabilityConfig,
    "population": PopulationConfig,
    "algo.optimizer": OptimizerConfig,
}


def homes_of(key: str) -> list[str]:
    """The sections that have a key of this name; ``TOP`` is the scenario itself."""
    homes = [section for section, keys in SECTIONS.items() if key in keys.model_fields]
    if any(key in ALGOS[name].family.config.model_fields for name in ALGOS):
        homes.insert(0, "algo")
    if key in RESULT_FIELDS:
        homes.append("stop")
    return homes


def misplaced(error: ValidationError, section: str = TOP) -> dict[str, str]:
    """For each unknown key that another section has: where it belongs. ``section``: the one that was being read."""
    hints = {}
    for problem in error.errors():
        if problem["type"] != "extra_forbidden":
            continue
        *above, key = (str(part) for part in problem["loc"])
        here = ".".join([section, *above]).strip(".")
        homes = [home for home in homes_of(key) if home != here]
        if homes:
            hints[key] = _advice(key, *homes)
    return hints


def _advice(key: str, home: str, *others: str) -> str:
    if home == TOP:
        return f"{key} belongs to the scenario itself, in no section: `{key}: ...` without indentation"
    outer, _, inner = home.partition(".")
    written = f"{inner}: {{{key}: ...}}" if inner else f"{key}: ..."
    also = "".join(f", or under {other}" for other in others if other != TOP)
    return f"{key} belongs under {home}: `{outer}: {{{written}}}`{also}"


def takes_list(section: str, key: str) -> tuple[bool, bool]:
    """Whether a key can hold a list, and whether it can hold a text as well; nobody's key can hold neither."""
    for annotation in _annotations(section, key):
        choices = {get_origin(choice) or choice for choice in _choices(annotation)}
        return list in choices, str in choices
    return False, False


def _annotations(section: str, key: str) -> Iterator[Any]:
    """The types of a key; several algorithms may have it, of one type."""
    classes = [SECTIONS[section]] if section in SECTIONS else []
    if section == "algo":
        classes = [ALGOS[name].family.config for name in ALGOS]
    for keys in classes:
        if key in keys.model_fields:
            yield keys.model_fields[key].annotation


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, UnionType):
        return get_args(annotation)
    return (annotation,)
