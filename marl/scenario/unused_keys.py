"""Keys of collecting that would be ignored by the way in which a run gets its experience are refused."""

from __future__ import annotations

from collections.abc import Mapping

from marl.algos.plan import Role
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.scenario.config import Scenario


def check_collecting(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> None:
    """``clip_rewards`` and ``explore`` are about what workers collect step by step."""
    given = scenario.changed("clip_rewards", "explore")
    if not given:
        return
    if scenario.input is not None:
        why = "the run learns from recordings (input), whose actions and rewards are what they are"
    elif any(role.preset.family.name == "es" for role in roles.values()):
        why = "es compares the returns of whole episodes and explores by moving weights"
    else:
        return
    raise ConfigError(f"{' and '.join(given)} would be ignored: {why}. Drop {'it' if len(given) == 1 else 'them'}.")
