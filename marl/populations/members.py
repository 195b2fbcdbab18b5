"""Members of a population: frozen policies that travel to workers and are known by what they are, not by where they lie.

A member is a recipe and its weights. Its key is a hash of both, so that two names for the same policy are one member, and
matches that were played once are found again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marl.config import Config
from marl.data.task import AgentType, Array, Floats
from marl.errors import SpaceMismatchError
from marl.policies.build import build_policy
from marl.policies.config import PolicySpec, ScriptedConfig
from marl.policies.policy import Decision, Inputs, Policy

KEY_DIGITS = 16
BEST_GUESS = ("value", "deterministic", "nfsp", "table")  # ways of acting whose exploration is not part of the strategy


@dataclass(frozen=True, eq=False)
class Member:
    """A frozen policy. ``spec.kind`` is the kind of agents that it plays in the env of its matches."""

    name: str
    spec: PolicySpec
    weights: Mapping[str, Array] = field(default_factory=dict)  # of Policy.get_weights; scripted policies have none

    @classmethod
    def scripted(cls, name: str, kind: int, action: int | None = None) -> Member:
        """A built-in policy without weights: ``random``, or ``fixed`` with its action."""
        return cls(name, PolicySpec("scripted", kind, scripted=ScriptedConfig(name=name, action=action)))

    @cached_property
    def key(self) -> str:
        """A hash of the recipe and of every weight; the seed of first weights and the name do not count."""
        recipe = {entry.name: getattr(self.spec, entry.name) for entry in fields(self.spec)}
        del recipe["seed"]
        digest = hashlib.sha256(json.dumps(recipe, sort_keys=True, default=self._plain).encode())
        for name in sorted(self.weights):
            array = np.ascontiguousarray(self.weights[name])
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:KEY_DIGITS]

    def _plain(self, value: Any) -> Any:
        """What JSON does not know. A function that cannot be found again by name counts by the member's name."""
        if isinstance(value, Config):
            return value.model_dump()
        if isinstance(value, Mapping):
            return dict(value)
        name = getattr(value, "__qualname__", None)
        if name is None:
            return str(value)
        found = f"{value.__module__}:{name}"
        if "<" in name:  # <lambda>, <locals>: another function may have the same name
            found += f" of {self.name}"
        return found

    @property
    def draws_actions(self) -> bool:
        """Whether its strategy is a distribution; if not, exploring would play something else than the strategy."""
        return self.spec.acts not in BEST_GUESS


def build(member: Member, kinds: Sequence[AgentType]) -> Policy:
    """The policy; its weights have to fit the agents that it is to play."""
    kind = kinds[member.spec.kind]
    policy = build_policy(member.spec, kind)
    weights = {name: np.asarray(array) for name, array in member.weights.items()}
    policy.fit(weights)
    # Compared here rather than by torch, whose message names neither the policy nor the agent.
    mine = {name: tuple(tensor.shape) for name, tensor in policy.state_dict().items()}
    theirs = {name: array.shape for name, array in weights.items()}
    if mine != theirs:
        wrong = next(name for name in [*mine, *theirs] if mine.get(name) != theirs.get(name))
        raise SpaceMismatchError(
            f"policy {member.name!r} cannot play {kind.agents[0]!r} ({kind.observation_space}, {kind.action_space}): its "
            f"{wrong} has shape {theirs.get(wrong, 'none')}, expected {mine.get(wrong, 'none')}. Let it play the env that "
            "it was trained on."
        )
    policy.set_weights(weights)
    return policy


class Played(Policy):
    """A member at play: it explores, or not, as it was told once, whatever the others do."""

    def __init__(self, policy: Policy, explore: bool) -> None:
        super().__init__(policy.kind)
        self.policy, self.explores = policy, explore
        self.env_units, self.carry_size = policy.env_units, policy.carry_size
        self.remembers_reward = policy.remembers_reward
        self.draws_lots = policy.draws_lots

    def draw(self, episode_uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.policy.draw(episode_uniform)

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        return self.policy.act(inputs, carry, rng, explore=self.explores)
