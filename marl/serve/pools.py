"""Which pool a run has whose env is played by clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.data.space_json import space_to_json
from marl.data.task import PolicyID
from marl.envs.external.contract import Contract
from marl.policies.policy import Policy
from marl.rollout.pool import WorkerPool
from marl.scenario.resolve import Setup
from marl.serve.free_running import FreeRunningPool
from marl.serve.free_stage import FreeStage
from marl.serve.hub import Stage
from marl.serve.lock_step import LockStepPool
from marl.serve.own_actions import own_actions
from marl.serve.service import Service
from marl.serve.thread_line import WaitingStage


def make_client_pool(setup: Setup, policies: Mapping[PolicyID, Policy]) -> WorkerPool:
    """In lock-step, or with clients that play on while learners learn."""
    told, own = described(setup, policies), own_actions(setup, policies)
    if setup.scenario.external_keys.lock_step:
        contract = Contract.of(setup.rollout.env_config)
        assert contract is not None
        waiting = WaitingStage(contract, told, own.in_lock_step())
        return LockStepPool(setup.rollout, policies, waiting, _service(setup, waiting))
    free = FreeStage(setup, policies, told, own)
    return FreeRunningPool(setup, policies, free, _service(setup, free))


def _service(setup: Setup, stage: Stage) -> Service:
    """A new one, or the one that has heard the first client."""
    service: Service | None = setup.server
    if service is None:
        return Service(setup.scenario.external_keys, stage)
    service.hand_over(stage)
    return service


def described(setup: Setup, policies: Mapping[PolicyID, Policy]) -> list[dict[str, Any]]:
    """What clients are told of the policies of a run."""
    found = []
    for name, policy in policies.items():
        kind = policy.kind
        role = setup.roles.get(name)
        about = {
            "policy": name,
            "algo": role.preset.name if role is not None else None,
            "observation_space": space_to_json(kind.observation_space),
            "action_space": space_to_json(kind.action_space),
            "recurrent": policy.carry_size > 0,
        }
        found.append(about)
    return found
