"""How exploitable a language model is in a game that it was never trained for: ``marl exploit FILE.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from marl.config import Config, explain
from marl.errors import ConfigError
from marl.gametheory.language.interval import AskedExploitability, exploit_language_model
from marl.policies.language_config import LanguageModelConfig
from marl.scenario.load import read_yaml


class AskedConfig(Config):
    """Who is asked, and in which game. The model plays all seats."""

    env: str = Field(description="The env, as behind `env:` in a scenario.")
    env_config: dict[str, Any] = Field({}, description="Its keys.")
    language_model: LanguageModelConfig = Field(LanguageModelConfig(), description="The language model that is asked.")


def asked_exploitability(path: Path) -> AskedExploitability:
    """NashConv of the language model that a file names, by asking it about every information set."""
    keys = read_yaml(path)
    if "algo" in keys and "language_model" not in keys:
        raise ConfigError(
            f"{path} is a scenario. What is measured is a run, a checkpoint, or a file that names a language model: train "
            f"first (marl run {path}), and then give the run's folder."
        )
    try:
        config = AskedConfig(**keys)
    except ValidationError as error:
        known = {*AskedConfig.model_fields, *LanguageModelConfig.model_fields}
        raise explain(error, str(path), sorted(known)) from None
    ignored = config.language_model.model_fields_set & {"env", "env_config"}
    if ignored:
        raise ConfigError(
            f"{path}: language_model has {' and '.join(sorted(ignored))}, but the game stands beside it: set env and "
            "env_config of the file itself."
        )
    return exploit_language_model(config.env, config.env_config, config.language_model)


def told_asked(found: AskedExploitability) -> list[str]:
    """Lines for a terminal."""
    sure = f"95 % interval {found.low:.6g} to {found.high:.6g}" if found.high > found.low else "its own chances: exact"
    lines = [f"NashConv ~ {found.nash_conv:.6g} ({sure})"]
    for player, gain in found.gains.items():
        lines.append(f"  {player} could gain {gain:.6g}")
    lines.append(f"{found.information_sets:,} information sets, {found.answers:,} answers counted")
    if found.fallbacks:
        lines.append(f"{found.fallbacks:,} questions had no legal answer after all tries; the fallback counts there")
    return lines
