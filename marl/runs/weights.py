"""Policies that start from the weights of another run's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.task import PolicyID
from marl.errors import CheckpointError, did_you_mean
from marl.policies.loading import set_weights
from marl.policies.policy import Policy
from marl.runs.checkpoint import TO_PLAY, find_checkpoint, read_part


def load_policy(policy: Policy, name: PolicyID, source: str) -> None:
    """Start a policy from a checkpoint of another run: ``PATH`` (same id, or its only policy) or ``PATH#id``."""
    weights, where = _loadable(name, source)
    set_weights(policy, weights, where)


def check_loaded(policies: Mapping[PolicyID, Policy], sources: Mapping[PolicyID, str]) -> None:
    """Layers that loaded policies share can only come from one of them: refuse where the others had different ones."""
    for name, source in sources.items():
        shared = policies[name].shared
        if not shared:
            continue
        wanted, _ = _loadable(name, source)
        for key, array in policies[name].get_weights().items():
            if np.array_equal(array, wanted[key]):
                continue
            raise CheckpointError(
                f"load: policy {name!r} shares the layers {', '.join(shared)} with a policy that was loaded "
                "after it and had different ones there. Load one of them, or give them layers of their own."
            )


def _loadable(name: PolicyID, source: str) -> tuple[Mapping[str, Any], str]:
    """The weights that ``source`` means, and a text that says where they are."""
    # '#' and not ':', which stands in paths of Windows.
    path, _, wanted = source.partition("#")
    folder = find_checkpoint(Path(path).expanduser(), TO_PLAY)
    policies = read_part(folder, "policies")
    if not wanted:
        wanted = name
        # With a single policy there is nothing to choose, whatever it is called.
        if name not in policies and len(policies) == 1:
            wanted = next(iter(policies))
    if wanted not in policies:
        raise CheckpointError(
            f"load: {folder} has no policy {wanted!r}. It has {', '.join(policies)}.{did_you_mean(wanted, policies)} "
            f"Name one: load: {{{name}: {path}#ID}}."
        )
    return policies[wanted], f"load: {folder}, policy {wanted!r}"
