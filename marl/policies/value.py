"""Plays by learned action values: the best one, and while it explores others, by an epsilon, by their values, or because its
layers are noisy (noisy.py).

With ``num_atoms`` above 1 the network gives, for every action, how likely each of so many returns is (C51, Bellemare et al.,
2017). The returns, from ``v_min`` to ``v_max``, are the policy's ``support``; an action's value is the mean.

With ``units`` the network counts in a ``unit`` that its learner sets by the size of the rewards: values are what the layers
give times it, so that all who read values see them as rewards are paid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from marl.data.plain_rows import PlainRows
from marl.data.task import AgentType, Array, Bools, Floats, Ints
from marl.errors import ConfigError, SpaceMismatchError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.distributions import ILLEGAL, race
from marl.policies.exploration import ParameterNoise, boltzmann, over_values, rows_by_lot
from marl.policies.memories import remembers_by
from marl.policies.mlp import MLP, Tape, first_rows
from marl.policies.network_policy import NetworkPolicy
from marl.policies.networks import Body, seeded
from marl.policies.noisy import NoisyMLP, make_noisy, noise_for_all, noise_for_each, noise_of_outcomes
from marl.policies.policy import Decision, Inputs, Insight

NetworkInputs: TypeAlias = tuple[Tensor, ...]
"""Features, or observations and seats."""


class ValuePolicy(NetworkPolicy):
    """Plays the action of the highest value. ``dueling``: value of the state plus centred advantages."""

    differs_by_worker = True

    def __init__(self, kind: AgentType, spec: PolicySpec) -> None:
        super().__init__(kind)
        if not isinstance(kind.action_space, spaces.Discrete):
            raise SpaceMismatchError(
                f"action values need Discrete actions, but agents {kind.agents[0]!r}, ... have {kind.action_space}. "
                "Use ppo, mappo or a2c for them, or sac, td3 or ddpg for a Box."
            )
        self.num_actions = int(kind.action_space.n)
        self.dueling = bool(spec.options.get("dueling"))
        self.num_atoms = int(spec.options.get("num_atoms", 1))
        outputs = (self.num_actions + int(self.dueling)) * self.num_atoms
        self.set_model(Body(kind, spec.model, outputs, seeded(spec.seed), agent_id=spec.agent_id))
        self.unit: Tensor | None  # None: the network counts in rewards
        self.register_buffer("unit", torch.ones(()) if spec.options.get("units") else None)
        self.noisy_layers: tuple[NoisyMLP, ...] = ()
        if spec.options.get("noisy"):
            self.noisy_layers = make_noisy(self.model, float(spec.options["sigma0"]))
            if not self.noisy_layers:
                raise ConfigError(
                    f"noisy is true, but custom model {spec.model.custom_model!r} of agents {kind.agents[0]!r}, ... replaces "
                    "the layers that would be noisy. Drop custom_model, or use dqn with noisy: false."
                )
        self.exploration = over_values(
            spec.exploration or ExplorationConfig(type="EpsilonGreedy"), float(spec.options.get("temperature", 0.0))
        )
        if isinstance(self.exploration, ParameterNoise):
            self.use_noisy_weights()
        if self.num_atoms > 1:
            self.support: Tensor
            atoms = torch.linspace(spec.options["v_min"], spec.options["v_max"], self.num_atoms)
            self.register_buffer("support", atoms, persistent=False)  # follows from the config
            if self.carry_size:
                raise ConfigError(
                    f"num_atoms is {self.num_atoms}, but the model of agents {kind.agents[0]!r}, ... has a memory. "
                    f"Distributions of values are learned from single decisions: drop num_atoms or {remembers_by(spec.model)}."
                )

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        with torch.inference_mode():
            out, memory = self._outputs_to_play(inputs, carry, rng, explore)
            values = self._values(out).cpu().numpy()
        if inputs.legal.shape[1]:
            values = np.where(inputs.legal, values, np.float32(ILLEGAL))
        if explore and self.exploration.temperature:
            actions, logp = self._drawn(values, inputs.legal, rng)
        else:
            actions, logp = self._best(values, inputs.legal, rng, explore)
        if memory is not None:
            taken = torch.from_numpy(actions).to(memory.device)
            carry = self.model.carried(memory, taken, torch.zeros(len(taken), device=memory.device)).cpu().numpy()
        return Decision(actions, logp, carry)

    def _best(self, values: Floats, legal: Bools, rng: np.random.Generator, explore: bool) -> tuple[Ints, Floats]:
        """The best actions, and with the chance epsilon others; and how likely they were."""
        best: Ints = values.argmax(axis=1)
        epsilon = self.exploration.chance_of_random() if explore else 0.0
        if epsilon <= 0.0:
            return best, np.zeros(len(best), np.float32)
        allowed = self._choices(legal, len(best))
        random = rng.random(len(best), np.float32) < epsilon
        actions = np.where(random, race(allowed, rng), best)
        logp = np.log(epsilon / allowed.sum(axis=1) + (1 - epsilon) * (actions == best)).astype(np.float32)
        return actions, logp

    def _drawn(self, values: Floats, legal: Bools, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Actions drawn by their values, and how likely they were."""
        chances = self._mixed_chances(values, legal)
        actions = race(chances, rng)
        logp: Floats = np.log(chances[np.arange(len(actions)), actions])
        return actions, logp

    def chances(self, values: Floats, legal: Bools, *, explore: bool) -> Floats | None:
        """Of the actions ``[N, num_actions]`` by their values; None where noise on weights decides: none can be told."""
        if explore and self._plays_noisy_weights:
            return None
        best = np.where(self._choices(legal, len(values)) > 0, values, np.float32(ILLEGAL))
        if explore:
            return self._mixed_chances(best, legal)
        return self._one_hot(best)

    def _mixed_chances(self, values: Floats, legal: Bools) -> Floats:
        """Of exploring play; ``values`` of illegal actions are very low."""
        epsilon = np.float32(self.exploration.chance_of_random())
        allowed = self._choices(legal, len(values))
        even = allowed / allowed.sum(axis=1, keepdims=True)
        temperature = self.exploration.temperature
        by_values = boltzmann(values, temperature) if temperature else self._one_hot(values)
        mixed: Floats = epsilon * even + (1 - epsilon) * by_values
        return mixed

    def _one_hot(self, values: Floats) -> Floats:
        """Certain of the highest value."""
        found: Floats = np.eye(self.num_actions, dtype=np.float32)[values.argmax(axis=1)]
        return found

    def tells_logp(self, explore: bool) -> bool:
        # A perturbed network plays then, and nobody knows how likely its choice was.
        return not (explore and self._plays_noisy_weights)

    @property
    def _plays_noisy_weights(self) -> bool:
        return bool(self.noisy_layers) or isinstance(self.exploration, ParameterNoise)

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """Action values without noise on weights; chances only where it explores, as greedy play takes the highest value."""
        with torch.inference_mode():
            values = self._values(self.outputs(inputs, carry)).cpu().numpy()
        best = np.where(self._choices(inputs.legal, len(values)) > 0, values, np.float32(ILLEGAL))
        chances: Floats | None = None
        if explore:
            chances = self.chances(values, inputs.legal, explore=True)
        return Insight(chances, q_values=values, value=best.max(axis=1))

    def _outputs_to_play(
        self, inputs: Inputs, carry: Floats, rng: np.random.Generator, explore: bool
    ) -> tuple[Tensor, Tensor | None]:
        """What the network gives, with noise on its weights where it explores by that."""
        noise = self.exploration
        if explore and isinstance(noise, ParameterNoise):
            return self._noisy_outputs(noise, inputs, carry, rng)
        if explore and self.noisy_layers:
            with noise_for_each(self.noisy_layers, rng, len(inputs)):
                return self._outputs(inputs, carry)
        return self._outputs(inputs, carry)

    def _outputs(self, inputs: Inputs, carry: Floats) -> tuple[Tensor, Tensor | None]:
        """What the network gives, and its memory afterwards if it has one."""
        obs, index, _ = self.tensors(inputs, self.model.device)
        if not self.carry_size:
            return self.model(obs, index), None
        return self.model.step(obs, index, torch.from_numpy(carry).to(self.model.device))

    def _noisy_outputs(
        self, noise: ParameterNoise, inputs: Inputs, carry: Floats, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """The same where every episode is played by weights with noise of its own."""
        outs, memories, places = [], [], []
        for lot, rows in rows_by_lot(inputs.episode_uniform, len(inputs), rng):
            with noise.perturbed(self.model, lot):
                out, memory = self._outputs(
                    Inputs(inputs.obs[rows], inputs.legal[rows], inputs.agent_index[rows]), carry[rows]
                )
            outs.append(out)
            places.append(rows)
            if memory is not None:
                memories.append(memory)
        back = torch.from_numpy(np.argsort(np.concatenate(places)))
        return torch.cat(outs)[back], torch.cat(memories)[back] if memories else None

    def distance(self, plain: Tensor, noisy: Tensor) -> float:
        """Mean divergence of the softmax of values from that of noisy ones."""
        before, after = self._values(plain).log_softmax(1), self._values(noisy).log_softmax(1)
        return float((before.exp() * (before - after)).sum(1).mean())

    def furthest(self, distance: float) -> float:
        """How far epsilon-greedy play with such an epsilon is from greedy play."""
        return -math.log(1.0 - distance + distance / self.num_actions)

    def values(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        """``[N, num_actions]``."""
        return self._values(self.model(obs, agent_index))

    def log_chances(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        """Logarithms of how likely each return of the support is, ``[N, num_actions, num_atoms]``."""
        return self._scores(self.model(obs, agent_index)).log_softmax(-1)

    def step(self, obs: Tensor, agent_index: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``[N, num_actions]`` and the memory after them."""
        out, memory = self.model.step(obs, agent_index, carry)
        return self._values(out), memory

    def q_values(self, batch: PlainRows) -> Tensor:
        """Action values ``[N, num_actions]`` of a batch of this policy or of ``{"obs": observations}``, without gradient."""
        with torch.no_grad():
            return self._values(self.model.from_batch(batch))

    def q_value_distributions(self, batch: PlainRows) -> Tensor:
        """How likely each return of ``support`` is, ``[N, num_actions, num_atoms]``, without gradient.

        A network of plain values has one atom, the value itself, which is certain.
        """
        with torch.no_grad():
            scores = self._scores(self.model.from_batch(batch))
            if self.num_atoms == 1:
                return torch.ones_like(scores).unsqueeze(-1)
            return scores.log_softmax(-1).exp()

    def state_value(self, batch: PlainRows) -> Tensor:
        """The value of the state itself ``[N, 1]``: of a dueling network its own output, else the highest action value."""
        with torch.no_grad():
            out = self.model.from_batch(batch)
        plain = self.dueling and self.num_atoms == 1
        return self._in_rewards(out[:, :1]) if plain else self._values(out).max(1, keepdim=True).values

    # -- learning: the two verbs -----------------------------------------------------------------------------------

    def inputs(self, obs: Tensor, agent_index: Tensor) -> NetworkInputs:
        """What ``run`` takes: the features of these rows, or the rows themselves where features have to be learned too."""
        if not self.model.plain:
            return obs, agent_index
        with torch.no_grad():
            return (self.model.encode(obs, agent_index),)

    def run(self, inputs: NetworkInputs, taped: int) -> tuple[Tensor, Tape | Tensor]:
        """Scores of all rows without gradient, and what ``pull`` needs to go back through the first ``taped`` of them.

        Scores are action values ``[N, num_actions]``, or with atoms ``[N, num_actions, num_atoms]``, whose softmax says how
        likely each return is. Rows behind those that are taped are outcomes: noisy layers have other noise for them.
        """
        if not self.noisy_layers or not 0 < taped < len(inputs[0]):
            return self._run(inputs, taped)
        with noise_of_outcomes(self.noisy_layers):
            later, _ = self._run(tuple(column[taped:] for column in inputs), 0)
        now, tape = self._run(tuple(column[:taped] for column in inputs), taped)
        return torch.cat([now, later]), tape

    def _run(self, inputs: NetworkInputs, taped: int) -> tuple[Tensor, Tape | Tensor]:
        network = self.model.network
        if len(inputs) == 1:
            assert isinstance(network, MLP)
            out, tape = network.run(inputs[0])
            return self._scores(out), first_rows(tape, taped)
        obs, agent_index = inputs
        if taped == len(obs):  # a custom model need not know what to say of no rows
            out, traced = self.model.run(obs, agent_index)
            return self._scores(out), traced
        with torch.no_grad():  # autograd would walk back through these rows as well
            untaped = self.model(obs[taped:], agent_index[taped:])
        if not taped:
            return self._scores(untaped), []
        first, traced = self.model.run(obs[:taped], agent_index[:taped])
        return self._scores(torch.cat([first, untaped])), traced

    def pull(self, tape: Tape | Tensor, slopes: Tensor) -> None:
        """Add d loss / d parameter to the gradients; ``slopes`` are d loss / d scores."""
        slopes = self._in_rewards(slopes)  # a product with one number: its slope is the same product
        if self.dueling:
            # The state gets all slopes, an advantage its own less their mean.
            centring = _centring(self.num_actions, slopes.dtype, slopes.device)
            slopes = torch.mm(slopes, centring) if self.num_atoms == 1 else torch.matmul(centring.t(), slopes)
        self.model.pull(tape, slopes.flatten(1))

    @property
    def score_shape(self) -> tuple[int, ...]:
        """Of one row."""
        return (self.num_actions,) if self.num_atoms == 1 else (self.num_actions, self.num_atoms)

    def means(self, scores: Tensor) -> Tensor:
        """Action values ``[..., num_actions]`` by scores."""
        if self.num_atoms == 1:
            return scores
        return (scores.log_softmax(-1).exp() * self.support).sum(-1)

    def _values(self, out: Tensor) -> Tensor:
        return self.means(self._scores(out))

    def _scores(self, out: Tensor) -> Tensor:
        """Of what the network gives. State and advantages are added atom by atom, before the softmax."""
        if self.num_atoms > 1:
            out = out.view(len(out), -1, self.num_atoms)
        if not self.dueling:
            return self._in_rewards(out)
        centring = _centring(self.num_actions, out.dtype, out.device)
        return self._in_rewards(torch.mm(centring, out.t()).t()) if self.num_atoms == 1 else torch.matmul(centring, out)

    def _in_rewards(self, out: Tensor) -> Tensor:
        return out if self.unit is None else out * self.unit

    # -- the unit of the network -----------------------------------------------------------------------------------

    @property
    def counts_in_a_unit(self) -> bool:
        """Whether a learner has set one: a policy that was built just now counts in rewards."""
        return self.unit is not None and float(self.unit) != 1.0

    @torch.no_grad()
    def set_unit(self, unit: float, *, keep_values: bool) -> None:
        """Count in this unit from now on. ``keep_values``: the last layer is divided by what the unit is multiplied by, so
        that no value changes (PopArt, van Hasselt et al., 2016); layers of a custom model are not known and stay."""
        assert self.unit is not None
        if keep_values:
            shrinks = float(self.unit) / unit
            for parameter in self.model.last_layer():
                parameter.mul_(shrinks)
        self.unit.fill_(unit)

    def set_weights(self, weights: dict[str, Array]) -> None:
        if self.unit is not None and "unit" not in weights:  # of a policy that counted in rewards
            weights = {**weights, "unit": np.ones((), np.float32)}
        super().set_weights(weights)

    def _choices(self, legal: Bools, rows: int) -> Floats:
        return legal.astype(np.float32) if legal.shape[1] else np.ones((rows, self.num_actions), np.float32)


@contextmanager
def noise_drawn(policies: Iterable[ValuePolicy], rng: np.random.Generator) -> Iterator[None]:
    """While it lasts, noisy layers of these policies have one noise for all rows; of others nothing changes."""
    layers = [part for policy in policies for part in policy.noisy_layers]
    with noise_for_all(layers, rng):
        yield


@cache
def _centring(actions: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``score = state + advantage - mean advantage`` as a matrix ``[actions, 1 + actions]``: one product, and its transpose is
    the way back."""
    with torch.inference_mode(False):  # asked for first by a policy that acts, it is for learning as well
        state = torch.ones(actions, 1, dtype=dtype, device=device)
        return torch.cat([state, torch.eye(actions, dtype=dtype, device=device) - 1 / actions], dim=1)
