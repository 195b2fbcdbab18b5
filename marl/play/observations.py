"""One observation as an env gives it, as the row that policies see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AgentType, Array, Bools
from marl.envs.adapters.envelopes import MASKS, unpacked
from marl.envs.base import ENV_STATE, Obs
from marl.envs.vector.encoding import Reader, outline
from marl.envs.vector.layout import MASK
from marl.errors import EnvError, SpaceMismatchError
from marl.policies.policy import Policy


def read_one(kind: AgentType, given: Obs, agent: AgentID | None, info: Mapping[str, Any]) -> tuple[Array, Bools]:
    """Observation and legal-action mask as rows."""
    obs, legal, mask = given, np.ones((1, kind.legal_width), bool), info.get(MASK)
    reader = Reader(kind, kind.observation_space)
    try:
        if is_envelope(kind, given):
            obs, given_mask = unpacked(given, kind.observation_space)
            mask = mask if given_mask is None else given_mask
        if kind.masked and mask is not None:
            legal[0] = reader.legal(str(agent), mask, lambda: "compute_action")
        row = reader.row(str(agent), obs, lambda: "compute_action")
    except (EnvError, KeyError) as error:
        parts = f"the parts {', '.join(map(repr, given))}" if isinstance(given, Mapping) else outline(given)
        raise SpaceMismatchError(
            f"compute_action got an observation with {parts}; the policy plays {kind.observation_space}. Give an observation "
            "of this space."
        ) from error
    return row.astype(kind.obs_dtype).reshape(1, kind.obs_width), legal


def is_envelope(kind: AgentType, given: Obs) -> bool:
    """Whether the observation proper lies inside of ``given``, beside a mask or the state of the env."""
    # An observation that is a dict itself looks like an envelope; what only an envelope has tells them apart.
    space = kind.observation_space
    if not isinstance(given, Mapping):
        return False
    if not isinstance(space, spaces.Dict):
        return True
    beside = given.keys() - space.spaces.keys()
    if ENV_STATE in beside:
        return True
    return kind.masked and not beside.isdisjoint(MASKS)


def seats_shown(policy: Policy) -> int:
    """How many agents the policy tells apart; 0: it is not shown which one it plays."""
    return int(getattr(getattr(policy, "features", None), "seats", 0))
