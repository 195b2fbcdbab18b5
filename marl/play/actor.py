"""One decision for one observation, outside of any rollout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from marl.data.action_units import ActionUnits, Units, from_env, to_env
from marl.data.actions import action_encoder, decoder
from marl.data.agent_ids import text_id
from marl.data.episode import Episode
from marl.data.task import AgentID, Array, Floats, PolicyID
from marl.envs.base import Action, Obs
from marl.envs.vector.layout import pattern_of
from marl.errors import ConfigError, SpaceMismatchError
from marl.mappers.mapper import Mapper, check_known
from marl.play.batch import act_for_all
from marl.play.observations import read_one, seats_shown
from marl.policies.mixture import Mixture
from marl.policies.networks import Body, encode_actions
from marl.policies.policy import Inputs, Policy


def act_once(
    policy: Policy,
    obs: Obs,
    agent: AgentID | None,
    explore: bool,
    rng: np.random.Generator,
    config: Units,
    state: Array | Sequence[float] | None = None,
    prev_reward: float = 0.0,
    prev_action: Action | None = None,
    info: Mapping[str, Any] | None = None,
) -> tuple[Action, Floats, float]:
    """The action as the env takes it, the state to hand in with the next observation, and the action's log probability.

    ``obs`` may be an envelope with ``action_mask`` beside ``observation`` or ``obs``; the mask may also come in ``info``.
    ``state`` is what the call before gave (None or ``[]``: a new episode), ``prev_reward`` what was paid since.
    ``prev_action`` is what was really done, where that is not what the call before gave. All three mean something to
    policies with a memory.
    """
    kind = policy.kind
    row, legal = read_one(kind, obs, agent, info or {})
    inputs = Inputs(row, legal, np.array([_seat(policy, agent)]))
    carry = _carry(policy, state, prev_reward)
    if prev_action is not None:
        _remember_action(policy, carry, prev_action, config)
    decision = policy.act(inputs, carry, rng, explore=explore)
    actions = decision.actions
    # Scripted policies speak in the units of the env, networks in those of training.
    stored = actions if policy.env_units else to_env(actions, kind.columns, config)
    return decoder(kind.action_space)(stored[0].tolist()), decision.carry[0].copy(), float(decision.logp[0])


def _carry(policy: Policy, state: Array | Sequence[float] | None, prev_reward: float) -> Floats:
    carry = np.zeros((1, policy.carry_size), np.float32)
    if state is not None and len(state):
        given = np.asarray(state, np.float32).reshape(-1)
        if len(given) != policy.carry_size:
            raise ConfigError(
                f"compute_action got a state of {len(given)} numbers; this policy remembers {policy.carry_size}. Hand in the "
                "state that the call before gave (full_fetch=True)."
            )
        carry[0] = given
        # Paid after the call that the state comes from, so it could not be in there yet.
        if policy.remembers_reward:
            carry[0, -1] += prev_reward
    return carry


def _remember_action(policy: Policy, carry: Floats, action: Action, config: Units) -> None:
    """Put the action into the carry, where the policy looks at its last one (``lstm_use_prev_action``)."""
    kind = policy.kind
    try:
        stored = action_encoder(kind.action_space)(action)
    except (ValueError, TypeError, KeyError, IndexError):
        stored = np.zeros(0)
    if not stored.size or not kind.columns.contains(stored):
        raise SpaceMismatchError(
            f"compute_action got prev_action {action!r}, which is none of {kind.action_space}. Give the action as the env "
            "was given it."
        )
    # A mixture keeps the number of the member that plays in front of the member's own carry.
    inner, before = (policy.member(0), 1) if isinstance(policy, Mixture) else (policy, 0)
    body = getattr(inner, "model", None)
    if isinstance(body, Body) and body.prev_action:
        first = before + body.memory_size
        table = torch.from_numpy(np.asarray(from_env(stored, kind.columns, config))[None])
        carry[0, first : first + body.prev_action] = encode_actions(kind.columns, table)[0].numpy()


def _seat(policy: Policy, agent: AgentID | None) -> int:
    """The seat of the agent within its kind; only policies that are shown it need it."""
    if agent is None:
        if seats_shown(policy):
            raise ConfigError(
                "this policy is shown which agent it plays (agent_id). Say it: agent= one of "
                f"{', '.join(policy.kind.agents)}."
            )
        return 0
    agent = text_id(agent)
    seats = [name for name in policy.kind.agents if name == agent or pattern_of(agent, [name.split("[")[0]])]
    if not seats:
        raise ConfigError(f"agent {agent!r} is not played by this policy. Its agents: {', '.join(policy.kind.agents)}.")
    return policy.kind.agents.index(seats[0])


@dataclass
class Actor:
    """A policy to ask for one decision at a time, away from any rollout."""

    policy: Policy
    config: Units = field(default_factory=ActionUnits)
    """Says in which units the policy speaks (``normalize_actions``, ``clip_actions``)."""
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def compute_action(
        self,
        obs: Obs,
        state: Array | Sequence[float] | None = None,
        prev_action: Action | None = None,
        prev_reward: float | None = None,
        info: Mapping[str, Any] | None = None,
        full_fetch: bool = False,
        *,
        agent: AgentID | None = None,
        explore: bool = False,
    ) -> Action | tuple[Action, Floats, dict[str, float]]:
        """What the policy does for one observation as the env gives it; see ``Trainer.compute_action``."""
        action, after, logp = act_once(
            self.policy, obs, agent, explore, self.rng, self.config, state, prev_reward or 0.0, prev_action, info
        )
        return (action, after, {"action_logp": logp}) if full_fetch else action

    def compute_actions(
        self,
        obs: Mapping[AgentID, Obs],
        *,
        explore: bool = False,
        state: Mapping[AgentID, Floats] | None = None,
        prev_action: Mapping[AgentID, Action] | None = None,
        prev_reward: Mapping[AgentID, float] | None = None,
        info: Mapping[AgentID, Mapping[str, Any]] | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """The same for several agents at once: dicts by agent in, dicts by agent out."""
        actors = dict.fromkeys(obs, self)
        return ask_all(actors, obs, explore, state, prev_action, prev_reward, info, full_fetch)

    def compute_actions_batch(
        self,
        obs: Any,
        *,
        masks: Any = None,
        state: Any = None,
        agent_index: Any = None,
        prev_reward: Any = None,
        explore: bool = False,
    ) -> Any:
        """Actions for ``N`` observations at once, in the env's units; with a memory ``(actions, state)``.

        ``obs`` is an array ``[N, ...]``, a dict or tuple of arrays where the space is one, or a list of observations as the
        env gives them. ``masks`` ``[N, options]`` are the legal actions, ``state`` ``[N, size]`` is what the call before gave
        (zeros: a new episode) and ``prev_reward`` ``[N]`` what was paid since. ``agent_index`` ``[N]`` says which of
        ``policy.kind.agents`` is played, where the policy is shown it. The answer has the form of ``obs``: arrays
        ``[N, ...]``, in a dict or tuple where the action space is one.
        """
        actions, after = act_for_all(
            self.policy, obs, masks, state, agent_index, prev_reward, explore, self.rng, self.config
        )
        return (actions, after) if self.policy.carry_size else actions


def ask_all(
    actors: Mapping[AgentID, Actor],
    obs: Mapping[AgentID, Obs],
    explore: bool,
    state: Mapping[AgentID, Floats] | None,
    prev_action: Mapping[AgentID, Action] | None,
    prev_reward: Mapping[AgentID, float] | None,
    info: Mapping[AgentID, Mapping[str, Any]] | None,
    full_fetch: bool,
) -> dict[AgentID, Action] | tuple[dict[AgentID, Action], dict[AgentID, Floats], dict[AgentID, dict[str, float]]]:
    """Every agent's decision by its actor; with ``full_fetch`` dicts of actions, states and extras."""
    actions, states, extras = {}, {}, {}
    for agent, seen in obs.items():
        actions[agent], states[agent], extras[agent] = actors[agent].compute_action(
            seen,
            agent=agent,
            explore=explore,
            state=(state or {}).get(agent),
            prev_action=(prev_action or {}).get(agent),
            prev_reward=(prev_reward or {}).get(agent, 0.0),
            info=(info or {}).get(agent),
            full_fetch=True,
        )
    return (actions, states, extras) if full_fetch else actions


def policies_of(
    agents: Iterable[AgentID], mapper: Mapper, known: Sequence[PolicyID], episode: Episode | None
) -> dict[AgentID, PolicyID]:
    """Who plays whom. Where a mapper draws, the same ``episode`` gives the same answer again."""
    asked = episode if episode is not None else Episode(0, 0)
    # Kept in the episode: where a mapper draws, an agent that is asked for twice must meet the same policy.
    for agent in agents:
        if agent not in asked.policies:
            policy = mapper(agent, asked)
            check_known(mapper, agent, policy, known)
            asked.policies[agent] = policy
    return {agent: asked.policies[agent] for agent in agents}
