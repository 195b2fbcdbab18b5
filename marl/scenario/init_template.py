"""A commented scenario for an env, to begin with (``marl init``): it runs as it is, and says what every line is for.

Few keys are set; the other keys of the algorithm stand below them, commented out, with their defaults. All sentences are those
of the config classes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel

from marl.algos.presets import Preset
from marl.data.task import AgentType
from marl.policies.build import build_policies
from marl.policies.config import ModelConfig
from marl.rollout.config import EvaluationConfig
from marl.scenario.config import MultiAgentConfig, Scenario
from marl.scenario.load import compose
from marl.scenario.resolve import resolve

WIDTH = 100  # of comments
STEPS = 100_000
SHOWN = ("lr", "gamma", "train_batch_size")  # of the algorithm; the others are comments


def scenario_text(env: str, env_config: Mapping[str, Any], algo: str = "ppo") -> str:
    """The text of a scenario file. Raises a ``UserError`` where env and algorithm do not fit."""
    # Resolved once, so that what is written is known to run, and who plays is known by name.
    keys: dict[str, Any] = {"env": env, "env_config": dict(env_config), "algo": algo}
    setup = resolve(compose(keys, f"marl init {env}"))
    preset, kinds = setup.scenario.preset, setup.task.kinds
    build_policies(setup.policies, kinds)  # refuses spaces that the algorithm cannot play
    parts = [
        [f"# {preset.name} on {env}. Keys and values: marl config, marl config {preset.name}.", *_agents(kinds)],
        _lines(Scenario, {"env": env, "env_config": dict(env_config)}),
        _algorithm(preset),
        ["model:", *_indented(_lines(ModelConfig, {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}))],
        _multiagent(kinds, list(setup.policies)),
        _lines(Scenario, {"num_workers": 0, "num_envs_per_worker": 4}),
        ["evaluation:", *_indented(_lines(EvaluationConfig, {"interval": 5, "episodes": 10}))],
        _lines(Scenario, {"stop": {"timesteps_total": STEPS}}),
        _commented(_lines(Scenario, {"goal": {"evaluation.episode_reward_mean": 100.0}})),
        _lines(Scenario, {"checkpoint_freq": 10, "seed": 0}),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def file_name(env: str) -> str:
    """``pettingzoo:mpe2/simple_spread_v3`` gives ``simple_spread_v3.yaml``."""
    return re.sub(r"\W+", "_", re.split(r"[/:]", env)[-1]).strip("_").lower() + ".yaml"


def _agents(kinds: Sequence[AgentType]) -> list[str]:
    lines = ["# Who plays:"]
    for kind in kinds:
        names = ", ".join(kind.agents[:6])
        if kind.size > 6:
            names += f", ... ({kind.size})"
        told = f"{names}: sees {kind.observation_space}, plays {kind.action_space}"
        lines += _comment(told.replace("\n", " "), "#   ")  # large spaces are printed on several lines
    return lines


def _algorithm(preset: Preset) -> list[str]:
    config = preset.family.config
    defaults = preset.configure()
    shown: dict[str, Any] = {key: getattr(defaults, key) for key in SHOWN}
    rest: dict[str, Any] = {}
    for key in config.model_fields:
        # Keys that make the preset what it is cannot be changed.
        if key not in SHOWN and key not in preset.fixed:
            rest[key] = getattr(defaults, key)
    return [
        "algo:",
        *_indented([*_comment(preset.summary), f"name: {preset.name}", *_lines(config, shown)]),
        *_indented(_commented(_lines(config, rest))),
    ]


def _multiagent(kinds: Sequence[AgentType], policies: Sequence[str]) -> list[str]:
    """Envs of one agent need no word on who plays whom."""
    if sum(kind.size for kind in kinds) == 1:
        return []
    said = f"So far: {', '.join(policies)}, shared by agents with equal spaces. per_agent: one for each."
    lines = _lines(MultiAgentConfig, {"policy_mapping_fn": "per_agent"})
    return [*_comment(said), *_commented(["multiagent:", *_indented(lines)])]


def _lines(config: type[BaseModel], values: Mapping[str, Any]) -> list[str]:
    """Each key below its sentence."""
    found = []
    for key, value in values.items():
        plain = value
        if isinstance(value, BaseModel):
            plain = value.model_dump()
        # YAML ends a text that is nothing but a number or a word with a line of dots.
        text = yaml.safe_dump(plain, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
        found += _comment(config.model_fields[key].description or "")
        found.append(f"{key}: {text}")
    return found


def _comment(text: str, start: str = "# ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent="#   ")


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _commented(lines: Iterable[str]) -> list[str]:
    """Keys that do not count yet; to use one, take the ``# `` away. What is a comment already gets a second sign."""
    return [f"# {line}" for line in lines]
