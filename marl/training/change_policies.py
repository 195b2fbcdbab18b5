"""Policies that come and go while a run trains: snapshots as opponents, new members of a league, another mapping.

What stays keeps everything: weights, the state of its learner, its replay. Running episodes are broken off, because who plays
in them was decided by the mapping before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marl.algos.learner import Learner
from marl.callbacks.callbacks import Hooks
from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.errors import ConfigError, did_you_mean
from marl.policies.policy import Policy
from marl.scenario.config import MultiAgentConfig, Scenario
from marl.scenario.resolve import Setup
from marl.training.build import build_run_policies, policy_chooser, prepare
from marl.training.extensions.callbacks import BatchListener
from marl.training.learners import Learners, make_learners
from marl.training.policy_access import PolicyAccess
from marl.trust import as_built

if TYPE_CHECKING:
    from marl.populations.loop import PopulationTrainer
    from marl.training.extensions.chosen import Extensions
    from marl.training.iteration_result import Learned
    from marl.training.store import Store

_as_built = as_built(lambda trainer: trainer.setup.rollout.trust)


@dataclass(frozen=True)
class PolicyChange:
    """What shall be different: all policies with their keys, who plays whom, and who learns (None: as before)."""

    policies: Mapping[PolicyID, Mapping[str, Any]]
    mapping: Any = None
    trained: Collection[PolicyID] | None = None
    weights_from: Mapping[PolicyID, PolicyID] | None = None  # new policies that begin as copies of others


class ChangingPolicies(PolicyAccess):
    """The part of ``Trainer`` by which policies come and go."""

    scenario: Scenario
    learners: Sequence[Learner]
    choose_trained: Callable[..., bool] | None
    extensions: Extensions
    hooks: Hooks
    population: PopulationTrainer | None
    recent: EpisodeStats
    unmeasured: Learned | None
    policies_changed: bool
    store: Store

    @_as_built
    def add_policy(
        self,
        policy_id: PolicyID,
        keys: Mapping[str, Any] | None = None,
        *,
        like: PolicyID | None = None,
        policy_mapping_fn: Any = None,
        policies_to_train: Collection[PolicyID] | None = None,
    ) -> Policy:
        """One more policy from now on, also from ``on_train_result``; ``like`` another: a copy of its keys and weights.

        The mapping has to send it somebody; running episodes are broken off. Policies are new objects afterwards.
        """
        change = added(self, policy_id, keys, like, policy_mapping_fn, policies_to_train)
        change_policies(self, change)
        return self.get_policy(policy_id)

    @_as_built
    def remove_policy(
        self,
        policy_id: PolicyID,
        *,
        policy_mapping_fn: Any = None,
        policies_to_train: Collection[PolicyID] | None = None,
    ) -> None:
        """Go on without a policy; the mapping must not send anybody to it any more."""
        change_policies(self, without(self, policy_id, policy_mapping_fn, policies_to_train))

    @_as_built
    def set_policy_mapping(self, policy_mapping_fn: Any) -> None:
        """Send agents to policies in another way from now on: anything that ``policy_mapping_fn`` takes."""
        change_policies(self, remapped(self, policy_mapping_fn))

    def adopt(
        self,
        setup: Setup,
        policies: dict[PolicyID, Policy],
        learning: Learners,
        choose_trained: Callable[..., bool] | None,
        places: Sequence[int],
    ) -> None:
        """Go on with these; ``places`` says which number each old policy has now."""
        self.setup, self.scenario, self.policies = setup, setup.scenario, policies
        self.learning, self.learners = learning, learning.members
        self.choose_trained = choose_trained
        self.recent = self.recent.renumbered(places)
        if self.unmeasured is not None:
            self.unmeasured.shown = self.unmeasured.shown.renumbered(places)
        self.policies_changed = True
        self.extensions.policies_changed(setup)
        self.store.policies_changed()


def added(
    trainer: ChangingPolicies,
    name: PolicyID,
    keys: Mapping[str, Any] | None,
    like: PolicyID | None,
    mapping: Any,
    trained: Any,
) -> PolicyChange:
    """One more policy; ``like`` another one: with its keys, unless others are given, and its weights."""
    there = _keys_of(trainer)
    if name in there:
        raise ConfigError(f"there is a policy {name!r} already. Choose another name, or remove_policy({name!r}) first.")
    own = dict(keys or {})
    weights_from = {}
    if like is not None:
        if like not in there:
            raise ConfigError(
                f"no policy {like!r} to be like.{did_you_mean(like, there)} Policies: {', '.join(there)}."
            )
        own = {**there[like], **own}
        weights_from[name] = like
    return PolicyChange({**there, name: own}, mapping, trained, weights_from)


def without(trainer: ChangingPolicies, name: PolicyID, mapping: Any, trained: Any) -> PolicyChange:
    """One policy less."""
    there = _keys_of(trainer)
    if name not in there:
        raise ConfigError(f"no policy {name!r} to remove.{did_you_mean(name, there)} Policies: {', '.join(there)}.")
    left = dict(there)
    del left[name]
    if not left:
        raise ConfigError(f"{name!r} is the only policy. Add another one before it is removed.")
    return PolicyChange(left, mapping, trained)


def remapped(trainer: ChangingPolicies, mapping: Any) -> PolicyChange:
    """The same policies, sent to other agents."""
    return PolicyChange(_keys_of(trainer), mapping)


def change_policies(trainer: ChangingPolicies, change: PolicyChange) -> int:
    """Make the change; returns how many running episodes are broken off. What is refused is refused before anything moves."""
    _refuse(trainer)
    scenario = _scenario_of(trainer, change)
    setup = prepare(scenario)
    _check_same_task(trainer.setup, setup)
    kept = _learners_kept(trainer, setup)
    trained = _trained(trainer, setup, change)
    policies = _policies_of(trainer, setup, change.weights_from or {})
    return _put_to_use(trainer, setup, policies, kept, trained)


def _keys_of(trainer: ChangingPolicies) -> dict[PolicyID, dict[str, Any]]:
    """All policies with their keys, also those that the scenario did not have to name."""
    given = trainer.scenario.multiagent.policies
    return {name: dict(given.get(name, {})) for name in trainer.policies}


def _refuse(trainer: ChangingPolicies) -> None:
    scenario, setup = trainer.scenario, trainer.setup
    families = {role.preset.family.name for role in setup.roles.values()}
    reasons = {
        "a population has its own members, which come and go by themselves": trainer.population is not None,
        "num_learners is more than 1": scenario.num_learners > 1,
        "workers do not wait for each other (collection: async)": setup.asynchronous,
        "the run learns from, or writes, recordings of its policies": bool(scenario.input or scenario.output),
        "es plays perturbed policies of its own": "es" in families,
        "regrets are remembered for each of its policies": "deep_cfr" in families,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ConfigError(f"policies of this run cannot be changed while it trains: {reason}.")


def _scenario_of(trainer: ChangingPolicies, change: PolicyChange) -> Scenario:
    before = trainer.scenario.multiagent
    updates: dict[str, Any] = {"policies": {}}
    for name, keys in change.policies.items():
        updates["policies"][name] = dict(keys)
    if change.mapping is not None:
        updates["policy_mapping_fn"] = change.mapping
    if change.trained is not None:
        updates["policies_to_train"] = list(change.trained)
    elif isinstance(before.policies_to_train, list):
        updates["policies_to_train"] = [name for name in before.policies_to_train if name in change.policies]
    section = MultiAgentConfig.model_validate({**dict(before), **updates})
    return trainer.scenario.model_copy(update={"multiagent": section})


def _check_same_task(before: Setup, after: Setup) -> None:
    """Envs stay as they are, so what they show has to be enough."""
    if before.task.state_size != after.task.state_size or before.task.groups != after.task.groups:
        raise ConfigError(
            "the changed policies look at the env in another way (its state, or other groups), which a running env does not "
            "show. Give the algorithm that needs it a policy from the start, or name groups in multiagent.groups."
        )


def _learners_kept(trainer: ChangingPolicies, setup: Setup) -> dict[frozenset[PolicyID], Learner]:
    """Old learners by the policies that they train; refused where a policy would have to move to another one."""
    kept: dict[frozenset[PolicyID], Learner] = {}
    before: dict[PolicyID, frozenset[PolicyID]] = {}  # with whom each policy shares its learner, itself included
    for learner in trainer.learners:
        names = frozenset(learner.policies)
        kept[names] = learner
        before |= dict.fromkeys(names, names)
    for plan in setup.plans:
        together = frozenset(plan.policies)
        for name in together:
            if before.get(name, together) != together:
                raise _would_move(name, together, plan.why or plan.algo)
    return kept


def _would_move(name: PolicyID, together: frozenset[PolicyID], why: str) -> ConfigError:
    others = ", ".join(sorted(together - {name})) or "nobody"
    return ConfigError(
        f"policy {name!r} would share a learner with {others} then ({why}), and what it has learned cannot be taken apart or "
        "joined. Give the other policies another group, or critic_sees: own."
    )


def _trained(trainer: ChangingPolicies, setup: Setup, change: PolicyChange) -> list[PolicyID]:
    """Who learns from now on: as asked, else who did, and new policies unless the scenario lists who learns."""
    if change.trained is not None:
        return list(change.trained)
    everybody = trainer.scenario.multiagent.policies_to_train is None
    found = []
    for name in setup.roles:
        is_new = name not in trainer.policies
        if name in trainer.policies_to_train or (is_new and everybody):
            found.append(name)
    return found


def _policies_of(
    trainer: ChangingPolicies, setup: Setup, weights_from: Mapping[PolicyID, PolicyID]
) -> dict[PolicyID, Policy]:
    """New objects with the weights of the old ones: layers that are shared have to be joined anew."""
    policies = build_run_policies(setup, fresh=False)
    for name, policy in policies.items():
        source = weights_from.get(name, name)
        if source in trainer.policies:
            policy.set_weights(trainer.policies[source].get_weights())
    return policies


def _put_to_use(
    trainer: ChangingPolicies,
    setup: Setup,
    policies: dict[PolicyID, Policy],
    kept: Mapping[frozenset[PolicyID], Learner],
    trained: Collection[PolicyID],
) -> int:
    learning = make_learners(setup, policies)
    for learner in learning.members:
        before = kept.get(frozenset(learner.policies))
        if before is not None:
            # Copies: the old learner's tensors must not be those of the new one.
            learner.load_state_dict(deepcopy(before.state_dict()))
            learner.load_replay_state(deepcopy(before.replay_state()))
    learning.train_only(trained, setup.roles)
    if "on_learn_on_batch" in trainer.hooks:
        learning.listen(BatchListener(trainer.hooks, policies))
    numbers = {name: number for number, name in enumerate(policies)}
    places = [numbers.get(name, -1) for name in trainer.policies]
    cut = trainer.workers.change_policies(setup.rollout, policies)
    trainer.adopt(setup, policies, learning, policy_chooser(setup.scenario), places)
    return cut
