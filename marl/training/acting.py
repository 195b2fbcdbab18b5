"""One decision for one observation, outside of any rollout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gymnasium import spaces

from marl.data.actions import decoder
from marl.data.task import AgentID, Array, Bools, Floats, Kind
from marl.envs.base import ENV_STATE, Action, Obs
from marl.envs.lifting.layout import MASK, pattern_of
from marl.envs.lifting.reader import Reader, outline
from marl.errors import ConfigError, EnvError, SpaceMismatchError
from marl.policies.policy import Inputs, Policy
from marl.rollout.config import RolloutConfig
from marl.rollout.player import to_env


def act_once(
    policy: Policy,
    obs: Obs,
    agent: AgentID | None,
    explore: bool,
    rng: np.random.Generator,
    config: RolloutConfig,
    state: Floats | None = None,
    prev_reward: float = 0.0,
) -> tuple[Action, Floats, float]:
    """The action as the world takes it, the state to hand in with the next observation, and the action's log probability.

    ``obs`` may be an envelope with ``action_mask`` beside ``observation`` or ``obs``. ``state`` is what the call before gave
    (None: a new episode) and ``prev_reward`` what was paid since; both mean something to recurrent policies alone.
    """
    kind = policy.kind
    row, legal = _read(kind, obs, agent)
    inputs = Inputs(row, legal, np.array([_seat(policy, agent)]))
    decision = policy.act(inputs, _carry(policy, state, prev_reward), rng, explore=explore)
    actions = decision.actions
    stored = actions if policy.world_units else to_env(actions, kind.columns, config)
    return decoder(kind.action_space)(stored[0].tolist()), decision.carry[0].copy(), float(decision.logp[0])


def _carry(policy: Policy, state: Floats | None, prev_reward: float) -> Floats:
    carry = np.zeros((1, policy.carry_size), np.float32)
    if state is not None:
        given = np.asarray(state, np.float32).reshape(-1)
        if len(given) != policy.carry_size:
            raise ConfigError(
                f"compute_action got a state of {len(given)} numbers; this policy remembers {policy.carry_size}. Hand in the "
                "state that the call before gave (full_fetch=True)."
            )
        carry[0] = given
        if policy.remembers_reward:
            carry[0, -1] += prev_reward
    return carry


def _read(kind: Kind, given: Obs, agent: AgentID | None) -> tuple[Array, Bools]:
    """Observation and legal-action mask as rows."""
    obs, legal = given, np.ones((1, kind.legal_width), bool)
    reader = Reader(kind, kind.observation_space)
    try:
        if _is_envelope(kind, given):
            obs = given["observation"] if "observation" in given else given["obs"]
            if kind.masked and MASK in given:
                legal[0] = reader.legal(str(agent), given[MASK], lambda: "compute_action")
        row = reader.row(str(agent), obs, lambda: "compute_action")
    except (EnvError, KeyError) as error:
        parts = f"the parts {', '.join(map(repr, given))}" if isinstance(given, Mapping) else outline(given)
        raise SpaceMismatchError(
            f"compute_action got an observation with {parts}; the policy plays {kind.observation_space}. Give an observation "
            "of this space."
        ) from error
    return row.astype(kind.obs_dtype).reshape(1, kind.obs_width), legal


def _is_envelope(kind: Kind, given: Obs) -> bool:
    """Whether the observation proper lies inside of ``given``, beside a mask or the state of the world."""
    space = kind.observation_space
    if not isinstance(given, Mapping) or not isinstance(space, spaces.Dict):
        return isinstance(given, Mapping)
    return (kind.masked and MASK in given) or (ENV_STATE in given and ENV_STATE not in space.spaces)


def _seat(policy: Policy, agent: AgentID | None) -> int:
    """The seat of the agent within its kind; only policies that are shown it need it."""
    shown = getattr(getattr(policy, "features", None), "seats", 0)
    if agent is None:
        if shown:
            raise ConfigError(
                "this policy is shown which agent it plays (agent_id). Say it: agent= one of "
                f"{', '.join(policy.kind.agents)}."
            )
        return 0
    seats = [name for name in policy.kind.agents if name == agent or pattern_of(agent, [name.split("[")[0]])]
    if not seats:
        raise ConfigError(f"agent {agent!r} is not played by this policy. Its agents: {', '.join(policy.kind.agents)}.")
    return policy.kind.agents.index(seats[0])
