"""Policies written as RLlib's guides write them: ``(None, observation_space, action_space, {...})``.

Our policies take their spaces from the env, so the tuple becomes its dict of keys. What it says about the spaces is held
against the env when the scenario meets it; what differs there is a mistake that nobody should have to find by himself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gymnasium import spaces

from marl.data.task import AgentType, PolicyID
from marl.errors import ConfigError

FORM = "(None, observation_space, action_space, {...})"


class GivenSpaces(NamedTuple):
    """What a tuple says about a policy's spaces; None: nothing."""

    observation: object
    action: object


def unpack(policies: Mapping[PolicyID, Any]) -> tuple[dict[PolicyID, Any], dict[PolicyID, GivenSpaces]]:
    """Policies with a dict of keys instead of a tuple, and the spaces of those that were tuples."""
    keys: dict[PolicyID, Any] = {}
    given: dict[PolicyID, GivenSpaces] = {}
    for name, entry in policies.items():
        if isinstance(entry, tuple):
            keys[name], given[name] = _unpacked(name, entry)
        else:
            keys[name] = entry
    return keys, given


def _unpacked(name: PolicyID, entry: tuple[Any, ...]) -> tuple[dict[str, Any], GivenSpaces]:
    own: Any = None
    if len(entry) == 4:
        own = entry[3] or {}  # RLlib's guides also write None there
    if not isinstance(own, Mapping):
        raise ValueError(f"{name} is {entry!r}; expected {FORM}, or the dict alone: {{'{name}': {{'gamma': 0.99}}}}")
    keys = dict(own)
    policy_class, observation, action, _ = entry
    if policy_class is not None:
        called = getattr(policy_class, "__name__", policy_class)
        with_algo = {**keys, "algo": "ppo"}
        raise ValueError(
            f"{name} names the class {called!r}; a policy is chosen by its algorithm: "
            f"{{'{name}': {with_algo}}}, or 'custom_model' for a network of your own"
        )
    for space in (observation, action):
        if space is not None and not isinstance(space, spaces.Space):
            raise ValueError(f"{name} has {space!r} where a space of gymnasium or None is expected: {FORM}")
    return keys, GivenSpaces(observation, action)


def check_spaces(name: PolicyID, given: GivenSpaces | None, kind: AgentType) -> None:
    """Refuse a tuple that says something else than the env."""
    if given is None:
        return
    wrong = []
    if given.observation is not None and not _shows(given.observation, kind):
        wrong.append(f"observation space {given.observation}, but the env has {kind.observation_space}")
    if given.action is not None and given.action != kind.action_space:
        wrong.append(f"action space {given.action}, but the env has {kind.action_space}")
    if wrong:
        raise ConfigError(
            f"policies.{name} has the {' and the '.join(wrong)} for {kind.agents[0]!r}. Spaces come from the env: write None "
            "for both, or the dict of keys instead of the tuple."
        )


def _shows(space: object, kind: AgentType) -> bool:
    """Whether it is the space of the observations, or the Dict with a mask or a state around it."""
    if space == kind.observation_space:
        return True
    return isinstance(space, spaces.Dict) and kind.observation_space in space.spaces.values()
