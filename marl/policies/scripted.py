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
        _check_legal("fixed", actions, inputs)
        return Decision(actions, np.zeros(len(inputs), np.float32), carry)


class RulePolicy(Policy):
    """A function from one agent's observation to its action: ``(obs)``, ``(obs, rng)`` or ``(obs, rng, legal)``.

    Observation and action are as the world has them; ``legal`` is the agent's action mask (width 0: everything is legal).
    """

    world_units = True

    def __init__(self, kind: Kind, rule: Callable[..., Any]) -> None:
        super().__init__(kind)
        self.rule = rule
        self.name = getattr(rule, "__name__", "rule")
        self.takes = min(3, len(inspect.signature(rule).parameters))
        self.start = getattr(kind.action_space, "start", 0)

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        rows = [self._as_shown(obs) for obs in inputs.obs]
        given = [(obs, rng, legal)[: self.takes] for obs, legal in zip(rows, inputs.legal, strict=True)]
        actions = np.stack([self._checked(self.rule(*arguments)) for arguments in given])
        _check_legal(self.name, actions, inputs)
        return Decision(actions, np.zeros(len(inputs), np.float32), carry)

    def _as_shown(self, obs: Array) -> Any:
        space = self.kind.observation_space
        if isinstance(space, spaces.Discrete):
            return int(obs[0]) + int(space.start)
        return obs.reshape(space.shape) if space.shape is not None else obs

    def _checked(self, chosen: object) -> Array:
        kind = self.kind
        try:
            action = (np.asarray(chosen) - self.start).reshape(kind.action_shape).astype(kind.action_dtype)
        except (ValueError, TypeError):
            action = None
        if action is None or not _contains(kind, action):
            raise ConfigError(
                f"scripted policy {self.name!r} returned {chosen!r}, which is not in {kind.action_space}."
            )
        return action


def _check_legal(name: str, actions: Array, inputs: Inputs) -> None:
    if inputs.legal.shape[1] and not inputs.legal[np.arange(len(actions)), actions].all():
        row = int(np.flatnonzero(~inputs.legal[np.arange(len(actions)), actions])[0])
        raise ConfigError(
            f"scripted policy {name!r} plays {int(actions[row])}, which the action mask forbids there (legal: "
            f"{np.flatnonzero(inputs.legal[row]).tolist()}). A rule may take the mask: (obs, rng, legal)."
        )


def build_scripted(kind: Kind, config: ScriptedConfig) -> Policy:
    """The policy behind ``scripted:``."""
    if config.action is not None and config.name != "fixed":
        raise ConfigError(f"scripted: `action` means nothing to {config.name!r}; only fixed has it.")
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
    assert isinstance(space, spaces.Box)
    inside = (action >= space.low.reshape(-1)) & (action <= space.high.reshape(-1))
    return bool(np.isfinite(action).all() and inside.all())
