"""Policies that do not learn: random, fixed, or a rule given as a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import Array, Floats, Kind
from marl.errors import ConfigError
from marl.policies.config import ScriptedConfig
from marl.policies.distributions import race
from marl.policies.policy import Decision, Inputs, Policy
from marl.registry import load_object


class RandomPolicy(Policy):
    """Uniform over the legal actions, or over the box; standard normal where the box has no bounds."""

    world_units = True

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        rows, space = len(inputs), self.kind.action_space
        actions: Array
        if isinstance(space, spaces.Discrete):
            weights = inputs.legal if inputs.legal.shape[1] else np.ones((rows, int(space.n)))
            actions = race(weights.astype(np.float32), rng)
        elif isinstance(space, spaces.MultiDiscrete):
            actions = rng.integers(0, space.nvec.reshape(-1), (rows, *self.kind.action_shape))
        else:
            actions = self._in_the_box(rows, rng)
        return Decision(actions, np.zeros(rows, np.float32), carry)

    def _in_the_box(self, rows: int, rng: np.random.Generator) -> Floats:
        space = self.kind.action_space
        assert isinstance(space, spaces.Box)
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        bounded = np.isfinite(low) & np.isfinite(high)
        uniform = rng.uniform(np.where(bounded, low, 0), np.where(bounded, high, 1), (rows, len(low)))
        return np.where(bounded, uniform, rng.standard_normal((rows, len(low)))).astype(np.float32)


class FixedPolicy(Policy):
    """Always the same action."""

    world_units = True

    def __init__(self, kind: Kind, action: Any) -> None:
        super().__init__(kind)
        start = getattr(kind.action_space, "start", 0)
        try:
            self.action = np.broadcast_to(np.asarray(action), kind.action_shape).astype(kind.action_dtype) - start
        except (ValueError, TypeError):
            self.action = None
        if self.action is None or not _contains(kind, self.action):
            raise ConfigError(
                f"scripted fixed: action {action!r} does not fit the action space {kind.action_space} of agents "
                f"{kind.agents[0]!r}, ... Give `action: ` a member of it."
            )

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del rng, explore
        actions = np.broadcast_to(self.action, (len(inputs), *self.kind.action_shape)).copy()
        return Decision(actions, np.zeros(len(inputs), np.float32), carry)


class RulePolicy(Policy):
    """A function ``(obs)`` or ``(obs, rng)`` from one agent's observation to its action."""

    world_units = True

    def __init__(self, kind: Kind, rule: Callable[..., Any]) -> None:
        super().__init__(kind)
        self.rule = rule
        self.takes_rng = len(inspect.signature(rule).parameters) > 1
        self.start = getattr(kind.action_space, "start", 0)

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        shape = self.kind.observation_space.shape
        rows = [obs.reshape(shape) if shape else obs[0] for obs in inputs.obs] if shape is not None else inputs.obs
        chosen = [self.rule(obs, rng) if self.takes_rng else self.rule(obs) for obs in rows]
        actions = (np.asarray(chosen) - self.start).reshape(len(inputs), *self.kind.action_shape)
        return Decision(actions.astype(self.kind.action_dtype), np.zeros(len(inputs), np.float32), carry)


def build_scripted(kind: Kind, config: ScriptedConfig) -> Policy:
    """The policy behind ``scripted:``."""
    if config.name == "random":
        return RandomPolicy(kind)
    if config.name == "fixed":
        return FixedPolicy(kind, config.action)
    found: object = config.name
    if isinstance(found, str):
        if ":" not in found:
            raise ConfigError(
                f"unknown scripted policy {found!r}. Expected random, fixed, or package.module:name of a function "
                "(obs, rng) -> action or of a Policy class."
            )
        found = load_object(found, "scripted policy")
    if isinstance(found, type) and issubclass(found, Policy):
        return found(kind)
    if not callable(found):
        raise ConfigError(
            f"scripted policy {config.name!r} is a {type(found).__name__}; expected a function or Policy class."
        )
    return RulePolicy(kind, found)


def _contains(kind: Kind, action: Array) -> bool:
    space = kind.action_space
    if isinstance(space, spaces.Discrete):
        return bool(0 <= action < space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return bool(((action >= 0) & (action < space.nvec.reshape(-1))).all())
    return bool(np.isfinite(action).all())
