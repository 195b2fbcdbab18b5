"""Policies that do not learn: random, fixed, or a rule given as a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.actions import action_encoder
from marl.data.rules import is_batched
from marl.data.task import AgentType, Array, Floats
from marl.errors import ConfigError
from marl.policies.config import ScriptedConfig
from marl.policies.distributions import race
from marl.policies.policy import Decision, Inputs, Insight, Policy
from marl.registry import load_object
from marl.trust import Sort

RULES = ("marl.envs.games.particles.scripted_prey:flee",)
"""Rules that come with marl."""
NESTED = (spaces.Tuple, spaces.Dict)
SCRIPTED = Sort("scripted policy", (Policy,), creators=True, rooms=("marl.policies",), ours=RULES)


class RandomPolicy(Policy):
    """Uniform over the legal actions, or over the box; normal where the box has no bounds, half of that where it has one."""

    env_units = True

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        rows, columns = len(inputs), self.kind.columns
        actions = self._numbers(rows, rng).astype(columns.dtype)
        legal = inputs.legal if inputs.legal.shape[1] else np.ones((rows, columns.options))
        logp = np.zeros(rows, np.float32)
        for column, options in columns.options_of(legal.astype(np.float32)):
            actions[:, column] = race(options, rng)
            logp -= np.log(options.sum(axis=1))
        return Decision(actions.reshape(rows, *self.kind.action_shape), logp, carry)

    def tells_logp(self, explore: bool) -> bool:
        del explore
        return not self.kind.columns.numbers  # of coordinates no density is told

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """Even chances of the legal options."""
        del carry, explore
        columns = self.kind.columns
        if not columns.choices:
            return Insight()
        legal = inputs.legal if inputs.legal.shape[1] else np.ones((len(inputs), columns.options))
        chances = []
        for _, options in columns.options_of(legal.astype(np.float32)):
            chances.append(options / options.sum(axis=1, keepdims=True))
        return Insight(np.concatenate(chances, axis=1))

    def _numbers(self, rows: int, rng: np.random.Generator) -> Array:
        """Uniform within the bounds of a Box; choices are overwritten."""
        columns = self.kind.columns
        if not columns.numbers:
            return np.zeros((rows, len(columns)))
        bounded, shape = columns.bounded, (rows, len(columns))
        low, high = columns.bounds
        edge = 0.499 * np.array(columns.whole)  # rounding then gives the outermost whole numbers their full share
        uniform = rng.uniform(np.where(bounded, low - edge, 0), np.where(bounded, high + edge, 1), shape)
        free = rng.standard_normal(shape)
        one_sided = np.where(
            np.isfinite(low), low + np.abs(free), np.where(np.isfinite(high), high - np.abs(free), free)
        )
        drawn = np.where(bounded, uniform, one_sided)
        return np.where(columns.whole, np.rint(drawn), drawn)


class FixedPolicy(Policy):
    """Always the same action."""

    env_units = True

    def __init__(self, kind: AgentType, action: Any) -> None:
        super().__init__(kind)
        starts = np.array(kind.columns.starts).reshape(kind.action_shape)
        try:
            self.action = np.broadcast_to(np.asarray(action), kind.action_shape).astype(kind.action_dtype) - starts
        except (ValueError, TypeError):
            self.action = None
        if self.action is None or not kind.columns.contains(self.action):
            raise ConfigError(
                f"scripted fixed: action {action!r} does not fit the action space {kind.action_space} of agents "
                f"{kind.agents[0]!r}, ... Give `action: ` a member of it."
            )

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del rng, explore
        actions = np.broadcast_to(self.action, (len(inputs), *self.kind.action_shape)).copy()
        _check_legal("fixed", self.kind, actions, inputs)
        return Decision(actions, np.zeros(len(inputs), np.float32), carry)


class RulePolicy(Policy):
    """A function from one agent's observation to its action: ``(obs)``, ``(obs, rng)`` or ``(obs, rng, legal)``.

    Observation and action are as the env has them; ``legal`` is the agent's action mask (width 0: everything is legal). A
    function marked by ``marl.data.rules.batched_rule`` gets those of many agents in one call.
    """

    env_units = True

    def __init__(self, kind: AgentType, rule: Callable[..., Any]) -> None:
        super().__init__(kind)
        self.rule = rule
        self.name = getattr(rule, "__name__", "rule")
        self.takes = min(3, len(inspect.signature(rule).parameters))
        self.encode = action_encoder(kind.action_space)
        self.batched = is_batched(rule)
        nested = [space for space in (kind.observation_space, kind.action_space) if isinstance(space, NESTED)]
        if self.batched and nested:
            raise ConfigError(
                f"scripted policy {self.name!r} is a batched rule, but the env has a {type(nested[0]).__name__} space, whose "
                "members cannot be laid into one array. Take off batched_rule, so that it is asked agent by agent."
            )

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        actions = self._at_once(inputs, rng) if self.batched else self._one_by_one(inputs, rng)
        _check_legal(self.name, self.kind, actions, inputs)
        return Decision(actions, np.zeros(len(inputs), np.float32), carry)

    def _one_by_one(self, inputs: Inputs, rng: np.random.Generator) -> Array:
        rows = [as_shown(self.kind, obs) for obs in inputs.obs]
        given = [(obs, rng, legal)[: self.takes] for obs, legal in zip(rows, inputs.legal, strict=True)]
        return np.stack([self._checked(self.rule(*arguments)) for arguments in given])

    def _at_once(self, inputs: Inputs, rng: np.random.Generator) -> Array:
        kind, columns = self.kind, self.kind.columns
        given = (all_as_shown(kind, inputs.obs), rng, inputs.legal)[: self.takes]
        chosen, expected = np.asarray(self.rule(*given)), (len(inputs), *kind.action_shape)
        if chosen.shape != expected:
            raise ConfigError(
                f"the batched rule {self.name!r} returned an array of shape {chosen.shape} for {len(inputs)} agents; expected "
                f"{expected}, an action per row."
            )
        if columns.numbers or _whole(chosen):
            starts = np.array(columns.starts).reshape(kind.action_shape)
            actions: Array = (chosen - starts).astype(kind.action_dtype)
            if columns.contains(actions):
                return actions
        bad = next(row for row in chosen if not self._fits(row))
        raise ConfigError(f"scripted policy {self.name!r} returned {bad!r}, which is not in {kind.action_space}.")

    def _fits(self, chosen: Array) -> bool:
        try:
            self._checked(chosen)
        except ConfigError:
            return False
        return True

    def _checked(self, chosen: object) -> Array:
        columns = self.kind.columns
        try:
            if columns.numbers or _whole(chosen):
                action = self.encode(chosen)
                if columns.contains(action):
                    return action
        except (ValueError, TypeError, KeyError):
            pass  # not of the space's form at all: the message below says so
        raise ConfigError(
            f"scripted policy {self.name!r} returned {chosen!r}, which is not in {self.kind.action_space}."
        )


def as_shown(kind: AgentType, obs: Array) -> Any:
    """A stored observation as the env gave it."""
    space = kind.observation_space
    if isinstance(space, spaces.Discrete):
        return int(obs[0]) + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return obs.reshape(space.shape) + space.start
    if isinstance(space, spaces.Tuple | spaces.Dict):
        return spaces.unflatten(space, obs)
    return obs.reshape(space.shape) if space.shape is not None else obs


def all_as_shown(kind: AgentType, obs: Array) -> Array:
    """Stored observations ``[rows, ...]`` as the env gave them, in one array; not of nested spaces."""
    space = kind.observation_space
    if isinstance(space, spaces.Discrete):
        return np.asarray(obs[:, 0].astype(np.int64) + int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(obs.reshape(len(obs), *space.shape) + space.start)
    return obs.reshape(len(obs), *space.shape) if space.shape is not None else obs


def _whole(chosen: Any) -> bool:
    """Whether an action of choices holds no fractions, which storing it would cut off."""
    if isinstance(chosen, Mapping):
        return all(map(_whole, chosen.values()))
    if isinstance(chosen, tuple | list):
        return all(map(_whole, chosen))
    numbers = np.asarray(chosen, np.float64)
    return bool((numbers == np.floor(numbers)).all())


def _check_legal(name: str, kind: AgentType, actions: Array, inputs: Inputs) -> None:
    if not inputs.legal.shape[1]:
        return
    rows, table = np.arange(len(actions)), actions.reshape(len(actions), -1)
    for column, legal in kind.columns.options_of(inputs.legal):
        forbidden = ~legal[rows, table[:, column].astype(np.int64)]
        if forbidden.any():
            row = int(forbidden.argmax())
            raise ConfigError(
                f"scripted policy {name!r} plays {int(table[row, column])}, which the action mask forbids there (legal: "
                f"{np.flatnonzero(legal[row]).tolist()}). A rule may take the mask: (obs, rng, legal)."
            )


def _language_model(kind: AgentType, config: ScriptedConfig) -> Policy:
    # It reads texts of envs, which stand beside policies and not below them: found by name when somebody wants it.
    build = import_module("marl.gametheory.language.player").language_model
    policy: Policy = build(kind, config)
    return policy


SCRIPTS: dict[str, Callable[[AgentType, ScriptedConfig], Policy]] = {
    "random": lambda kind, _: RandomPolicy(kind),
    "fixed": lambda kind, config: FixedPolicy(kind, config.action),
    "language_model": _language_model,
}
"""Scripted policies that come with marl, by name."""


def build_scripted(kind: AgentType, config: ScriptedConfig) -> Policy:
    """The policy behind ``scripted:``."""
    found: object = config.name
    if isinstance(found, str) and found in SCRIPTS:
        return SCRIPTS[found](kind, config)
    if isinstance(found, str):
        if ":" not in found:
            raise ConfigError(
                f"unknown scripted policy {found!r}. Expected {', '.join(SCRIPTS)}, or package.module:name of a function "
                "(obs, rng) -> action or of a Policy class."
            )
        found = load_object(found, SCRIPTED)
    if isinstance(found, type) and issubclass(found, Policy):
        return found(kind)
    if not callable(found):
        raise ConfigError(
            f"scripted policy {config.name!r} is a {type(found).__name__}; expected a function or Policy class."
        )
    return RulePolicy(kind, found)
