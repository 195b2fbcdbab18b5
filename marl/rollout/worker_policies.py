"""What users ask a worker about the policies that act in it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from marl.data.task import Array, PolicyID
from marl.policies.build import find_policy, weights_of
from marl.policies.filters import MeanStdFilter
from marl.policies.networks import Body
from marl.policies.policy import Policy

Weights = Mapping[PolicyID, dict[str, Array]]


class WorkerPolicies:
    """The half of ``RolloutWorker`` that is about its policies."""

    policy_map: Mapping[PolicyID, Policy]
    version: int  # of the weights

    def get_policy(self, policy_id: PolicyID = "default_policy") -> Policy:
        """A policy of this worker by its id; where there is only one, the default id finds it."""
        return find_policy(self.policy_map, policy_id)

    @property
    def preprocessors(self) -> dict[PolicyID, torch.nn.Module]:
        """From stored observations to numbers, by policy; scripted policies take them as they are and have none."""
        return {name: body.features for name, body in self._bodies().items()}

    @property
    def filters(self) -> dict[PolicyID, MeanStdFilter | None]:
        """The running statistics of observations, by policy; None: its observations are not filtered."""
        return {name: body.filter for name, body in self._bodies().items()}

    def _bodies(self) -> dict[PolicyID, Body]:
        """The network of every policy that has one; the first of several."""
        found: dict[PolicyID, Body] = {}
        for name, policy in self.policy_map.items():
            for module in policy.modules():
                if isinstance(module, Body):
                    found[name] = module
                    break
        return found

    def set_weights(self, weights: Weights, version: int = 0) -> None:
        self.version = version
        for name, arrays in weights.items():
            self.policy_map[name].set_weights(arrays)

    def get_weights(self) -> dict[PolicyID, dict[str, Array]]:
        return weights_of(self.policy_map)
