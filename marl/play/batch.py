"""Many decisions at once, for observations that do not have to come from one env or episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from marl.data.action_units import Units, to_env
from marl.data.space_batches import actions_of, rows_of
from marl.data.task import AgentType, Array, Bools, Floats, Ints
from marl.envs.adapters.envelopes import unpacked
from marl.envs.vector.encoding import can_act
from marl.errors import ConfigError, SpaceMismatchError
from marl.play.observations import is_envelope, read_one, seats_shown
from marl.policies.policy import Inputs, Policy


def act_for_all(
    policy: Policy,
    obs: Any,
    masks: Any,
    state: Any,
    agent_index: Any,
    prev_reward: Any,
    explore: bool,
    rng: np.random.Generator,
    units: Units,
) -> tuple[Any, Floats]:
    """Actions as the env takes them, and what the policy remembers of each row: see ``Actor.compute_actions_batch``."""
    kind = policy.kind
    rows, legal = _read(kind, obs, masks)
    carry = _carry(policy, len(rows), state, prev_reward)
    inputs = Inputs(rows, legal, _seats(policy, len(rows), agent_index))
    decision = policy.act(inputs, carry, rng, explore=explore)
    # Scripted policies speak in the units of the env, networks in those of training.
    stored = decision.actions if policy.env_units else to_env(decision.actions, kind.columns, units)
    return actions_of(kind.action_space, stored), decision.carry.copy()


def _read(kind: AgentType, obs: Any, masks: Any) -> tuple[Array, Bools]:
    """Observations and legal actions as rows; a list holds whole observations, anything else is arrays of them."""
    if isinstance(obs, list):
        rows, legal = _one_by_one(kind, obs)
    else:
        if is_envelope(kind, obs):
            obs, inside = unpacked(obs, kind.observation_space)
            masks = inside if masks is None else masks
        rows = rows_of(kind.observation_space, obs)
        legal = np.ones((len(rows), kind.legal_width), bool)
    if masks is not None:
        legal = _masks(kind, len(rows), masks)
    if kind.masked:
        _check_each_can_act(kind, legal)
    return rows, legal


def _one_by_one(kind: AgentType, obs: list[Any]) -> tuple[Array, Bools]:
    """Observations as the env gave them: each may have its mask beside it."""
    rows = np.zeros((len(obs), kind.obs_width), kind.obs_dtype)
    legal = np.ones((len(obs), kind.legal_width), bool)
    for i, one in enumerate(obs):
        row, mask = read_one(kind, one, None, {})
        rows[i], legal[i] = row[0], mask[0]
    return rows, legal


def _check_each_can_act(kind: AgentType, legal: Bools) -> None:
    stuck = np.flatnonzero(~can_act(kind, legal))
    if len(stuck):
        raise ConfigError(f"row {stuck[0]} of masks allows no action. Leave rows out whose agents cannot act.")


def _masks(kind: AgentType, count: int, masks: Any) -> Bools:
    if not kind.masked:
        raise ConfigError(
            "compute_actions_batch got masks, but all actions of this policy are always legal. Drop them."
        )
    given = _array("masks", masks)
    # Masks may have the shape of their action space; what counts is one entry per option.
    if given.ndim == 0 or len(given) != count or given.size != count * kind.legal_width:
        raise SpaceMismatchError(
            f"masks have shape {given.shape}, expected ({count}, {kind.legal_width}): for each observation one entry per "
            f"option of {kind.action_space}."
        )
    return given.reshape(count, kind.legal_width).astype(bool)


def _carry(policy: Policy, count: int, state: Any, prev_reward: Any) -> Floats:
    """What is remembered, with the rewards since: these could not be in there yet. No state: new episodes."""
    if state is None:
        return np.zeros((count, policy.carry_size), np.float32)
    given = _array("state", state)
    if given.shape != (count, policy.carry_size):
        raise ConfigError(
            f"state has shape {given.shape}, expected ({count}, {policy.carry_size}): what the call before gave for each "
            "observation, zeros where an episode begins."
        )
    carry = given.astype(np.float32)
    if policy.remembers_reward and prev_reward is not None:
        carry[:, -1] += np.broadcast_to(_array("prev_reward", prev_reward), (count,))
    return carry


def _seats(policy: Policy, count: int, agent_index: Any) -> Ints:
    """Numbers of the agents within their kind; only policies that are shown them need them."""
    names = policy.kind.agents
    if agent_index is None:
        if seats_shown(policy):
            raise ConfigError(
                "this policy is shown which agent it plays (agent_id). Give agent_index, for each observation the number of "
                f"its agent in {', '.join(names)}, from 0."
            )
        return np.zeros(count, np.int64)
    given = _array("agent_index", agent_index)
    if given.shape not in ((), (count,)) or given.dtype.kind not in "iu":
        raise ConfigError(f"agent_index is {agent_index!r}; expected a number, or {count} of them.")
    seats = np.broadcast_to(given, (count,)).astype(np.int64)
    wrong = seats[(seats < 0) | (seats >= len(names))]
    if len(wrong):
        raise ConfigError(
            f"agent_index holds {wrong[0]}, but agents are numbered 0..{len(names) - 1}: {', '.join(names)}."
        )
    return seats


def _array(name: str, given: Any) -> Array:
    try:
        found = np.asarray(given)
    except ValueError:
        found = np.zeros((), object)
    if found.dtype.kind not in "biuf":
        raise ConfigError(f"{name} has the type {type(given).__name__} of {found.dtype}; expected an array of numbers.")
    return found
