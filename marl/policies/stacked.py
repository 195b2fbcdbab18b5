"""Several policies whose networks have one shape act in one batched call.

A forward pass over a few rows costs its calls and hardly any arithmetic: twenty policies would cost twenty times as much as
one. Their weights are copied side by side, ``[K, out, in]``, so they have to be copied anew when a policy has learned.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from marl.data.task import Array, Floats
from marl.policies.distributions import Categorical, DiagGaussian
from marl.policies.mlp import MLP, Layer, run_layers
from marl.policies.policy import Inputs, Policy
from marl.policies.stochastic import StochasticPolicy, forbid

# Rows of one policy after the other draw from one generator what the policies would draw one by one. Choices of several
# columns draw column by column, so theirs would come in another order.
DRAWN_ROW_BY_ROW = (Categorical, DiagGaussian)


def shape_of(policy: Policy) -> Hashable | None:
    """Policies with equal answers may be stacked; None: this one has to act by itself."""
    if type(policy) is not StochasticPolicy or not _only_layers(policy):
        return None
    network = policy.model.network
    assert isinstance(network, MLP)
    layers = [tuple(layer.weight.shape) for layer in network.layers]
    distribution = policy.distribution
    return (*layers, network.activations, policy.model.features.seats, policy.shares_value, type(distribution))


def _only_layers(policy: StochasticPolicy) -> bool:
    """Whether it is fully connected layers and a distribution: no memory, no noise, nothing with numbers of its own."""
    model = policy.model
    more = [
        policy.carry_size > 0,
        policy.draws_lots,
        policy.starts_randomly,
        policy.noise_sets_std,
        policy.log_std is not None,
        type(policy.distribution) not in DRAWN_ROW_BY_ROW,
        not model.plain,
        model.filter is not None,
        model.features.custom is not None,
        model.device.type != "cpu",
    ]
    return not any(more)


class StackedPolicies:
    """``K`` policies of one shape. ``copy_weights`` makes them act with what they have learned."""

    def __init__(self, policies: Sequence[StochasticPolicy]) -> None:
        self.policies = list(policies)
        self.copy_weights()

    def copy_weights(self) -> None:
        networks = [policy.model.network for policy in self.policies]
        self.layers: list[Layer] = []
        with torch.no_grad():
            for same in zip(*[network.layers for network in networks if isinstance(network, MLP)], strict=True):
                weight = torch.stack([layer.weight for layer in same])
                bias = torch.stack([layer.bias for layer in same])
                self.layers.append(Layer(weight, bias, same[0].activation))

    def act(self, inputs: Inputs, rng: np.random.Generator, *, explore: bool) -> tuple[Array, Floats]:
        """Actions and log probabilities of equally many rows for each policy, one policy after the other."""
        first, rows = self.policies[0], len(inputs)
        with torch.inference_mode():
            x = first.model.encode(torch.from_numpy(inputs.obs), torch.from_numpy(inputs.agent_index))
            out, _ = run_layers(self.layers, x.view(len(self.policies), -1, x.shape[1]))
            if first.shares_value:
                out = out[:, :, :-1]
            # [options, K * N] in memory: drawing works by columns.
            params = out.permute(2, 0, 1).reshape(-1, rows).t()
            params = forbid(params, torch.from_numpy(inputs.legal))
        return first.distribution.sample(params.numpy(), rng, explore)
