"""Where each key of a scenario stands, for keys that were put into another section, and what sort of value it takes."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError

from marl.algos.config import OptimizerConfig
from marl.algos.family import ALGOS
from marl.algos.intrinsic.config import IntrinsicConfig
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
    "algo.intrinsic": IntrinsicConfig,
}


def homes_of(key: str) -> list[str]:
    """The sections that have a key of this name; ``TOP`` is the scenario itself."""
    homes: list[str] = []
    # Of the keys that a section and an algorithm share, most are meant for the algorithm.
    if _annotations("algo", key):
        homes.append("algo")
    for section in SECTIONS:
        if _annotations(section, key):
            homes.append(section)
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
        homes = homes_of(key)
        if here in homes:
            homes.remove(here)
        if homes:
            hints[key] = _advice(key, *homes)
    return hints


def _advice(key: str, home: str, *others: str) -> str:
    if home == TOP:
        return f"{key} belongs to the scenario itself, in no section: `{key}: ...` without indentation"
    outer, _, inner = home.partition(".")
    written = f"{key}: ..."
    if inner:
        written = f"{inner}: {{{written}}}"
    advice = f"{key} belongs under {home}: `{outer}: {{{written}}}`"
    for other in others:
        if other != TOP:
            advice += f", or under {other}"
    return advice


def takes_list(section: str, key: str) -> tuple[bool, bool]:
    """Whether a key can hold a list, and whether it can hold a text as well; nobody's key can hold neither."""
    annotations = _annotations(section, key)
    if not annotations:
        return False, False
    annotation = annotations[0]
    choices: tuple[Any, ...] = (annotation,)
    if get_origin(annotation) in (Union, UnionType):
        choices = get_args(annotation)
    # list[int] has the origin list; a bare str has none.
    types = {get_origin(choice) or choice for choice in choices}
    return list in types, str in types


def _annotations(section: str, key: str) -> list[Any]:
    """The types of a key; several algorithms may have it, of one type. Empty: the section does not have it."""
    classes: list[Any] = []
    if section == "algo":
        classes = [ALGOS[name].family.config for name in ALGOS]
    elif section in SECTIONS:
        classes = [SECTIONS[section]]
    found: list[Any] = []
    for keys in classes:
        if key in keys.model_fields:
            found.append(keys.model_fields[key].annotation)
    return found
