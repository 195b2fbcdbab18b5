"""Weights into policies: names and shapes have to fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.errors import CheckpointError
from marl.policies.policy import Policy


def set_weights(policy: Policy, weights: Mapping[str, Any], where: str) -> None:
    """Copy weights into a policy; names and shapes have to fit."""
    # Before shapes are compared: a population has as many members as its weights say.
    policy.fit(weights)
    check_weights(policy, weights, where)
    policy.set_weights(dict(weights))


def check_weights(policy: Policy, weights: Mapping[str, Any], where: str) -> None:
    """Refuse weights of other names or shapes than the policy's own."""
    mine = {key: tuple(tensor.shape) for key, tensor in policy.state_dict().items()}
    theirs = {key: tuple(array.shape) for key, array in weights.items()}
    for key in [*mine, *theirs]:
        if mine.get(key) == theirs.get(key):
            continue
        raise CheckpointError(
            f"{where} does not fit: {key} has shape {theirs.get(key, 'none')}, expected "
            f"{mine.get(key, 'none')}. The model keys (fcnet_hiddens, dueling, ...) and the spaces must be the "
            "same."
        )
