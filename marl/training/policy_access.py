"""What users ask a trainer for besides training: policies, weights, single actions, exports, values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from marl.data.batch import MultiAgentBatch
from marl.data.episode import Episode
from marl.data.plain_rows import PlainRows, as_grid
from marl.data.task import AgentID, Array, PolicyID
from marl.envs.base import Action, Obs
from marl.errors import ConfigError
from marl.play.actor import Actor, ask_all, policies_of
from marl.play.export import read_weights_for
from marl.play.write_export import SAFETENSORS, export_policies
from marl.policies.build import find_policy, weights_of
from marl.policies.policy import Policy
from marl.rollout.pool import WorkerPool
from marl.scenario.resolve import Setup
from marl.training.learners import Learners
from marl.training.notebook_display import trainer_as_html


class PolicyAccess:
    """The half of ``Trainer`` that is about its policies as they are now."""

    setup: Setup
    policies: dict[PolicyID, Policy]
    learning: Learners
    workers: WorkerPool

    @property
    def policies_to_train(self) -> frozenset[PolicyID]:
        return self.learning.trained

    def set_policies_to_train(self, policies: Collection[PolicyID]) -> None:
        """Train only these from now on; the others stay as they are, bit for bit."""
        self.learning.train_only(policies, self.setup.roles)

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        return trainer_as_html(self)  # type: ignore[arg-type]  # this is the half of a trainer that users talk to

    def get_policy(self, policy_id: PolicyID = "default_policy") -> Policy:
        """A policy by its id; where there is only one, the default id finds it."""
        return find_policy(self.policies, policy_id)

    def get_weights(self, policies: Sequence[PolicyID] | None = None) -> dict[PolicyID, dict[str, Array]]:
        chosen = {name: self.get_policy(name) for name in policies or self.policies}
        return weights_of(chosen)

    def set_weights(self, weights: Mapping[PolicyID, dict[str, Array]]) -> None:
        """Change policies and bring them to the workers."""
        for name, arrays in weights.items():
            self.get_policy(name).set_weights(arrays)
        self.workers.sync_weights()

    def compute_action(
        self,
        obs: Obs,
        state: Array | Sequence[float] | None = None,
        prev_action: Action | None = None,
        prev_reward: float | None = None,
        info: Mapping[str, Any] | None = None,
        policy_id: PolicyID = "default_policy",
        full_fetch: bool = False,
        *,
        agent: AgentID | None = None,
        explore: bool = False,
    ) -> Action | tuple[Action, Array, dict[str, float]]:
        """What the policy does for one observation as the env gives it.

        A recurrent policy also takes the ``state`` that the call before gave, the reward since, and what was really done
        since, if that is not what the call before gave. ``info`` may hold an ``action_mask``. With ``full_fetch`` the answer
        is (action, state, {"action_logp": ...}). Preprocessors and filters are applied; filters do not learn from it.
        """
        actor = self._actor(policy_id)
        return actor.compute_action(
            obs, state, prev_action, prev_reward, info, full_fetch, agent=agent, explore=explore
        )

    def compute_actions(
        self,
        obs: Mapping[AgentID, Obs],
        *,
        policy_id: PolicyID | None = None,
        episode: Episode | None = None,
        explore: bool = False,
        state: Mapping[AgentID, Array] | None = None,
        prev_action: Mapping[AgentID, Action] | None = None,
        prev_reward: Mapping[AgentID, float] | None = None,
        info: Mapping[AgentID, Mapping[str, Any]] | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """The same for several agents: dicts by agent in and out; with ``full_fetch`` three of them.

        ``policy_mapping_fn`` says who decides, unless ``policy_id`` does; where it draws, the same ``episode`` keeps the draw.
        """
        if policy_id:
            names = dict.fromkeys(obs, policy_id)
        else:
            names = policies_of(obs, self.setup.proposed_mapper, list(self.policies), episode)
        actors = {agent: self._actor(name) for agent, name in names.items()}
        return ask_all(actors, obs, explore, state, prev_action, prev_reward, info, full_fetch)

    def _actor(self, policy_id: PolicyID) -> Actor:
        return Actor(self.get_policy(policy_id), self.setup.rollout.config)

    def export_model(
        self, path: Path | str, policies: Sequence[PolicyID] | None = None, format: str = SAFETENSORS
    ) -> list[Path]:
        """Write policies (all, or these), each into a folder of its name: ``safetensors`` for ``marl.load_policy``, or
        ``onnx`` for onnxruntime, without marl."""
        return export_policies(Path(path), self.setup, self.get_weights(), policies, format)

    def import_model(self, path: Path | str, policies: Sequence[PolicyID] | None = None) -> list[PolicyID]:
        """Take weights from ``export_model`` (all that are there and here, or these); returns the policies that changed."""
        weights = read_weights_for(self.policies, Path(path), policies)
        self.set_weights(weights)
        self.learning.align()  # learners on other processes have the weights as they were
        return list(weights)

    def value_function(self, policy_id: PolicyID, batch: MultiAgentBatch | PlainRows) -> Array:
        """The critic's values of the policy's decisions in a batch, in the order of ``batch.for_policy(policy_id)``.

        ``{"obs": observations}`` gives the values of single observations, where the critic sees no more than them.
        """
        if not isinstance(batch, MultiAgentBatch):
            batch = self._as_grid(policy_id, batch)
        for learner in self.learning.members:
            if policy_id in learner.policies:
                return learner.value_function(policy_id, batch)
        raise ConfigError(f"policy {policy_id!r} does not learn, so it has no critic.")

    def _as_grid(self, policy_id: PolicyID, given: PlainRows) -> MultiAgentBatch:
        role = self.setup.roles.get(policy_id)
        sees = getattr(role.config, "critic_sees", "own") if role is not None else "own"
        alone = sum(kind.size for kind in self.setup.task.kinds) == 1
        if sees != "own" and not alone:
            raise ConfigError(
                f"the critic of policy {policy_id!r} sees more than one observation (critic_sees: {sees}). Give a batch of "
                "whole steps: trainer.workers.collect(1).batch."
            )
        return as_grid(given, self.setup.task, list(self.policies), policy_id, self.setup.policies[policy_id].kind)
