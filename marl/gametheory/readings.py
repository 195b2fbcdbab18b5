"""How policies play, as probabilities: read from what they are, without drawing a single action.

A network without memory is asked once for all that a player can see. One with a memory is stepped: its reading holds the
memory after the decision, and ``carried`` makes from it the carry after an action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from marl.data.batch import SampleBatch
from marl.data.task import AgentType, Array, Floats, Ints
from marl.errors import ConfigError, PolicyError, SpaceMismatchError
from marl.policies.distributions import Categorical
from marl.policies.policy import Inputs, Policy
from marl.policies.scripted import FixedPolicy, RandomPolicy
from marl.policies.stochastic import Chances, StochasticPolicy
from marl.policies.value import ValuePolicy
from marl.policies.value_table import ValueTable

ROUNDING = 1e-4
"""How far from 1 the sum of probabilities may be; those of networks are added up in float32."""


@runtime_checkable
class HasProbabilities(Protocol):
    """A policy that tells how likely it plays each action ``[N, n]``."""

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array: ...


@runtime_checkable
class HasDistribution(Protocol):
    """A policy that gives the distributions behind rows of a batch, and plays them whether it explores or not."""

    def action_distribution(self, batch: SampleBatch) -> Chances: ...


@runtime_checkable
class HasCarried(Protocol):
    """A policy that tells what it remembers after actions that are given to it."""

    def carried(self, inputs: Inputs, carry: Floats, actions: Ints) -> Floats: ...


class Reading(NamedTuple):
    """Chances of the actions ``[N, n]``, and the memory after the decision where there is one."""

    chances: Array
    memory: Tensor


def check_fits(game: str, player: str, kind: AgentType, policy: Policy) -> None:
    """Refuse a policy that cannot play for this player, or cannot be read."""
    given = policy.kind
    if (given.obs_width, given.columns.sizes) != (kind.obs_width, kind.columns.sizes):
        raise SpaceMismatchError(
            f"game {game!r}: {player} has {kind.obs_width} numbers to see and the actions "
            f"{kind.action_space}, but its policy was made for {given.obs_width} and {given.action_space}."
        )
    if policy.remembers_reward:
        raise PolicyError(
            f"the policy of {player} looks at its last reward, which information sets of the tree do not hold. "
            "Train it without lstm_use_prev_reward or attention_use_n_prev_rewards to measure it exactly."
        )


def check_given(game: str, players: Sequence[str], policies: Mapping[str, Policy]) -> None:
    """Refuse where a player has no policy."""
    missing = [name for name in players if name not in policies]
    if missing:
        raise ConfigError(
            f"game {game!r}: no policy was given for {', '.join(missing)}; expected one for each of "
            f"{', '.join(players)}. The same one may play several."
        )


def read(player: str, policy: Policy, inputs: Inputs, carry: Floats, explore: bool | None) -> Reading:
    """How the policy plays; refuses one that can be asked for actions only."""
    reading = _reading(policy, inputs, carry, explore)
    if reading is None:
        raise PolicyError(
            f"the policy of {player} is a {type(policy).__name__}, which can be asked for an action but not for "
            "its probabilities. Give it a method probabilities(inputs, carry) -> [N, actions]."
        )
    if isinstance(policy, HasProbabilities):
        _check_probabilities(player, policy, inputs, reading.chances)
    return reading


def _check_probabilities(player: str, policy: Policy, inputs: Inputs, chances: Array) -> None:
    """What a policy tells of itself may be logits or values, which would be read as chances without a word."""
    expected = (len(inputs), policy.kind.columns.options)
    if chances.shape != expected:
        raise PolicyError(
            f"probabilities() of the policy of {player} returned an array of shape {chances.shape} for {len(inputs)} "
            f"observations; expected {expected}, a row per observation and a column per action."
        )
    with np.errstate(invalid="ignore"):
        good = np.isfinite(chances).all(axis=1) & (chances >= -ROUNDING).all(axis=1)
        good &= np.abs(chances.sum(axis=1) - 1.0) <= ROUNDING
    if not good.all():
        row = int((~good).argmax())
        raise PolicyError(
            f"probabilities() of the policy of {player} returned {np.round(chances[row], 6).tolist()} for observation {row} "
            f"of {len(chances)}; expected numbers of 0 or more with the sum 1. Logits become probabilities by a softmax."
        )


def _reading(policy: Policy, inputs: Inputs, carry: Floats, explore: bool | None) -> Reading | None:
    """How the policy plays, or None where it cannot be told."""
    nothing = torch.zeros(len(inputs), 0)
    if isinstance(policy, HasProbabilities):
        return Reading(np.asarray(policy.probabilities(inputs, carry), np.float64), nothing)
    if isinstance(policy, RandomPolicy):
        return Reading(_even(inputs, policy.kind.columns.options), nothing)
    if isinstance(policy, FixedPolicy):
        played = policy.act(inputs, carry, np.random.default_rng(0), explore=False).actions
        return Reading(np.eye(policy.kind.columns.options)[played], nothing)
    if isinstance(policy, StochasticPolicy) and isinstance(policy.distribution, Categorical):
        return _reading_of_logits(policy, inputs, carry, explore)
    if isinstance(policy, ValuePolicy | ValueTable):
        return _reading_of_values(policy, inputs, carry, bool(explore))
    if isinstance(policy, HasDistribution) and not policy.carry_size:
        rows = {"obs": inputs.obs, "agent_index": inputs.agent_index, "legal": inputs.legal}
        found = policy.action_distribution(SampleBatch(rows))
        if isinstance(found.family, Categorical):
            return Reading(found.params.double().softmax(1).cpu().numpy(), nothing)
    return None


def _reading_of_logits(policy: StochasticPolicy, inputs: Inputs, carry: Floats, explore: bool | None) -> Reading:
    with torch.inference_mode():
        obs, index, legal = policy.tensors(inputs, policy.device)
        past = torch.from_numpy(carry).to(policy.device)
        # In double, so that chances sum to 1 as precisely as the tree computes with them.
        chances = policy.params(obs, index, legal, past).double().softmax(1).cpu().numpy()
        memory = torch.zeros(len(inputs), 0)
        if policy.carry_size:
            memory = policy.model.step(obs, index, past)[1]
    if explore is not None and not explore:
        chances = np.eye(chances.shape[1])[chances.argmax(1)]
    return Reading(chances, memory)


def _reading_of_values(
    policy: ValuePolicy | ValueTable, inputs: Inputs, carry: Floats, explore: bool
) -> Reading | None:
    """The best legal action or, where it explores, how likely each of them is; None where noise on weights decides."""
    if isinstance(policy, ValueTable):
        return Reading(policy.chances(inputs, explore=explore), torch.zeros(len(inputs), 0))
    with torch.inference_mode():
        obs, index, _ = policy.tensors(inputs, policy.device)
        values, memory = policy.step(obs, index, torch.from_numpy(carry).to(policy.device))
    chances = policy.chances(values.cpu().numpy(), inputs.legal, explore=explore)
    if chances is None:
        return None
    exact = chances.astype(np.float64)  # the tree computes with chances that sum to 1 more precisely than float32 does
    return Reading(exact / exact.sum(axis=1, keepdims=True), memory)


def _even(inputs: Inputs, actions: int) -> Array:
    """The same chance for every legal action."""
    allowed = inputs.legal if inputs.legal.shape[1] else np.ones((len(inputs), actions), bool)
    return np.asarray(allowed / allowed.sum(axis=1, keepdims=True))


def carried(policy: Policy, inputs: Inputs, carry: Floats, memory: Tensor, rows: Ints, actions: Ints) -> Floats:
    """The carry after rows of a level did these actions."""
    if isinstance(policy, StochasticPolicy | ValuePolicy):
        with torch.inference_mode():
            taken = torch.from_numpy(np.ascontiguousarray(actions)).to(memory.device)
            unpaid = torch.zeros(len(rows), device=memory.device)
            after: Floats = policy.model.carried(memory[torch.from_numpy(rows)], taken, unpaid).cpu().numpy()
            return after
    if isinstance(policy, HasCarried):
        seen = Inputs(inputs.obs[rows], inputs.legal[rows], inputs.agent_index[rows])
        return policy.carried(seen, carry[rows], actions)
    raise PolicyError(
        f"a {type(policy).__name__} has a memory, but cannot be told which action it took. Give it a method carried(inputs, "
        "carry, actions) -> [N, carry_size], or carry_size 0, or measure it by trained best responses."
    )
