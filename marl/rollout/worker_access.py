"""What users ask a worker for in ``foreach_worker``: its envs, its policies, and what these make of observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import nn

from marl.data.task import PolicyID
from marl.envs.batched import BatchedEnv
from marl.policies.build import find_policy
from marl.policies.filters import MeanStdFilter
from marl.policies.networks import Body
from marl.policies.policy import Policy
from marl.rollout.config import RolloutSpec
from marl.rollout.env_runner import EnvRunner
from marl.rollout.rollout_buffer import RolloutBuffer

T = TypeVar("T")


class WorkerAccess(ABC):
    """The half of ``RolloutWorker`` that shows what it has; the other half plays."""

    spec: RolloutSpec
    index: int
    policy_map: Mapping[PolicyID, Policy]
    buffer: RolloutBuffer

    @property
    @abstractmethod
    def runner(self) -> EnvRunner:
        """The running episodes; started when first needed."""

    @property
    def world(self) -> BatchedEnv:
        """The old name of ``env``, for one release."""
        return self.env

    @property
    def player(self) -> EnvRunner:
        """The old name of ``runner``, for one release."""
        return self.runner

    @property
    def grid(self) -> RolloutBuffer:
        """The old name of ``buffer``, for one release."""
        return self.buffer

    @property
    def env(self) -> BatchedEnv:
        return self.runner.env

    @property
    def has_env(self) -> bool:
        """The driver's worker beside Ray actors only holds policies, unless it was asked to have an env as well."""
        if self.index > 0:
            return True
        config = self.spec.config
        return config.num_workers == 0 or config.create_env_on_driver

    def get_policy(self, policy_id: PolicyID = "default_policy") -> Policy:
        """A policy of this worker by its id; where there is only one, the default id finds it."""
        return find_policy(self.policy_map, policy_id)

    @property
    def preprocessors(self) -> dict[PolicyID, nn.Module]:
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

    def foreach_env(self, fn: Callable[[Any], T]) -> list[T]:
        """Call ``fn`` with each copy of the env."""
        return [fn(self.env.sub_env(env_id)) for env_id in range(self.env.num_envs)]
