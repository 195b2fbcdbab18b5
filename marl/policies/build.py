"""From a recipe to a policy."""

from __future__ import annotations

from marl.data.task import Kind
from marl.policies.config import PolicySpec
from marl.policies.policy import Policy
from marl.policies.scripted import build_scripted
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value import ValuePolicy


def build_policy(spec: PolicySpec, kind: Kind) -> Policy:
    """A fresh policy; the same recipe gives the same weights everywhere."""
    if spec.acts == "value":
        return ValuePolicy(kind, spec)
    if spec.acts == "stochastic":
        return StochasticPolicy(kind, spec)
    assert spec.scripted is not None
    return build_scripted(kind, spec.scripted)
