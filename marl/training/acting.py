"""One decision for one observation, outside of any rollout."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from marl.data.actions import decoder
from marl.data.task import AgentID
from marl.envs.base import Action, Obs
from marl.envs.lifting.layout import MASK, encoder, pattern_of
from marl.errors import ConfigError, SpaceMismatchError
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
) -> Action:
    """The action as the world takes it. ``obs`` may be an envelope with ``action_mask`` beside ``observation`` or ``obs``."""
    kind = policy.kind
    legal = np.ones((1, kind.legal_width), bool)
    if isinstance(obs, dict) and not isinstance(kind.observation_space, spaces.Dict):
        if kind.masked and MASK in obs:
            legal[0] = obs[MASK]
        obs = obs["observation"] if "observation" in obs else obs["obs"]
    try:
        row = np.asarray(encoder(kind.observation_space)(obs), kind.obs_dtype).reshape(1, kind.obs_width)
    except (ValueError, TypeError) as error:
        raise SpaceMismatchError(
            f"compute_action got an observation of shape {np.shape(obs)}; the policy plays {kind.observation_space}."
        ) from error
    inputs = Inputs(row, legal, np.array([_seat(policy, agent)]))
    decision = policy.act(inputs, np.zeros((1, policy.carry_size), np.float32), rng, explore=explore)
    actions = decision.actions
    stored = actions if policy.world_units else to_env(actions, kind.columns, config)
    return decoder(kind.action_space)(stored[0].tolist())


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
