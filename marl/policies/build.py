"""From recipes to policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from marl.data.task import AgentType, Array, PolicyID
from marl.errors import ConfigError, SpaceMismatchError, did_you_mean
from marl.policies.config import PolicySpec
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.mixture import Mixture
from marl.policies.mlp import MLP
from marl.policies.nfsp import NfspPolicy
from marl.policies.policy import Policy
from marl.policies.scripted import build_scripted
from marl.policies.size import check_size
from marl.policies.squashed import SquashedPolicy
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value import ValuePolicy
from marl.policies.value_table import TABLE, ValueTable

ACTS: dict[str, Callable[[AgentType, PolicySpec], Policy]] = {
    "value": ValuePolicy,
    "stochastic": StochasticPolicy,
    "deterministic": DeterministicPolicy,
    "squashed": SquashedPolicy,
    "nfsp": NfspPolicy,
    TABLE: ValueTable,
}
"""How an algorithm's policies act."""
DRAWING = ("stochastic", "squashed")  # whose best guess is not to be taken for their play


def build_policy(spec: PolicySpec, kind: AgentType) -> Policy:
    """A fresh policy; the same recipe gives the same weights everywhere."""
    if spec.scripted is not None:
        return build_scripted(kind, spec.scripted)
    check_size(spec, kind)
    if spec.population is not None:
        member = replace(spec, population=None)
        return Mixture(kind, lambda: build_policy(member, kind), spec.acts in DRAWING)
    return ACTS[spec.acts](kind, spec)


def build_policies(specs: Mapping[PolicyID, PolicySpec], kinds: Sequence[AgentType]) -> dict[PolicyID, Policy]:
    """Fresh policies. Encoders of one name are the same tensors: the first policy that has it gives them."""
    policies = {name: build_policy(spec, kinds[spec.kind]) for name, spec in specs.items()}
    _share_members(policies, specs)
    donors: dict[str, PolicyID] = {}
    for name, policy in policies.items():
        layers = specs[name].model.shared.get("encoder")
        if layers is None or not isinstance(policy, ValuePolicy | StochasticPolicy):
            continue
        depth = len(specs[name].model.fcnet_hiddens)
        if not depth:
            raise ConfigError(
                f"policy {name!r} shares the encoder {layers!r}, but fcnet_hiddens is empty, so it has none. Give it "
                "layers, or drop shared."
            )
        donor = policies[donors.setdefault(layers, name)]
        assert isinstance(donor, ValuePolicy | StochasticPolicy)
        _check_fit(layers, (name, policy), (donors[layers], donor), specs)
        if donor is not policy:
            _mlp(policy).share(_mlp(donor), depth)
        policy.shared = {layers: _mlp(donor).first(depth)}
    return policies


def _share_members(policies: Mapping[PolicyID, Policy], specs: Mapping[PolicyID, PolicySpec]) -> None:
    """Mixtures of one population have the same members."""
    first: dict[str, Mixture] = {}
    for name, policy in policies.items():
        population = specs[name].population
        if population is None or not isinstance(policy, Mixture):
            continue
        policy.share(first.setdefault(population, policy))


def _mlp(policy: Networked) -> MLP:
    network = policy.network
    if not isinstance(network, MLP):
        raise ConfigError(
            "shared: {encoder: NAME} shares the layers of fcnet_hiddens, but a custom model replaces them."
        )
    return network


Networked = ValuePolicy | StochasticPolicy


def _check_fit(
    layers: str,
    mine: tuple[PolicyID, Networked],
    theirs: tuple[PolicyID, Networked],
    specs: Mapping[PolicyID, PolicySpec],
) -> None:
    """Equal layers need equal inputs, widths and activations."""
    (name, policy), (other, donor) = mine, theirs
    a, b = specs[name].model, specs[other].model
    inputs, given = (_mlp(each).weights[0].shape[1] for each in (policy, donor))  # behind vision nets
    same = (a.fcnet_hiddens, a.fcnet_activation) == (b.fcnet_hiddens, b.fcnet_activation)
    if policy.features.size == donor.features.size and inputs == given and same:
        return
    raise SpaceMismatchError(
        f"policies {other!r} and {name!r} share the encoder {layers!r}, but their layers differ: "
        f"{donor.features.size} features, {given} inputs, {b.fcnet_hiddens} {b.fcnet_activation} and "
        f"{policy.features.size} features, {inputs} inputs, {a.fcnet_hiddens} {a.fcnet_activation}. "
        "Make them equal, or give the encoders two names."
    )


def weights_of(policies: Mapping[PolicyID, Policy]) -> dict[PolicyID, dict[str, Array]]:
    """Weights of several policies as numpy arrays; what they share is one and the same array."""
    copies: dict[int, Array] = {}
    found: dict[PolicyID, dict[str, Array]] = {}
    for policy_id, policy in policies.items():
        tensors = policy.state_dict(keep_vars=True)  # the parameters themselves, so that identity tells what is shared
        for tensor in tensors.values():
            if id(tensor) not in copies:
                copies[id(tensor)] = tensor.detach().cpu().numpy().copy()
        found[policy_id] = {name: copies[id(tensor)] for name, tensor in tensors.items()}
    return found


def same_weights(a: Mapping[PolicyID, Mapping[str, Array]], b: Mapping[PolicyID, Mapping[str, Array]]) -> bool:
    """Whether all arrays of all policies are equal."""
    if a.keys() != b.keys():
        return False
    for policy, arrays in a.items():
        for name, array in arrays.items():
            if not np.array_equal(array, b[policy][name]):
                return False
    return True


def find_policy(policies: Mapping[PolicyID, Policy], policy_id: PolicyID) -> Policy:
    """A policy by its id; where there is only one, the default id finds it."""
    if policy_id in policies:
        return policies[policy_id]
    if policy_id == "default_policy" and len(policies) == 1:
        return next(iter(policies.values()))
    known = ", ".join(policies)
    raise ConfigError(f"no policy {policy_id!r}. Policies: {known}.{did_you_mean(policy_id, policies)}")
