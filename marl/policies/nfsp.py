"""Neural fictitious self-play (Heinrich & Silver, 2016): a best response and the average of all best responses so far.

    while learning, for a whole episode:  sigma = eta * best response + (1 - eta) * average
    the strategy that is learned:         the average, which is drawn from and has no greedy version

Which of the two plays an episode follows from the *lot* of the team, a number from 0 to 1: below ``anticipatory`` (eta) it
is the best response. The recorded log probability tells which one played: exactly 0 for the best response, and below 0 for
the average policy, even where that is certain of its action.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from marl.data.batch import SampleBatch
from marl.data.task import AgentType, Array, Bools, Floats, Ints
from marl.errors import ConfigError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.distributions import Categorical
from marl.policies.memories import remembers_by
from marl.policies.networks import Body, Features, seeded
from marl.policies.policy import Decision, Inputs, Insight, Policy
from marl.policies.stochastic import Chances, forbid
from marl.policies.value import ValuePolicy

ANTICIPATORY = 0.1  # share of the episodes that the best response plays, unless the algorithm says otherwise
HIGHEST_LOGP = np.float32(-1e-6)  # of the average policy: 0 is what the best response is known by
EXPLORATION = ExplorationConfig(
    type="EpsilonGreedy", initial_epsilon=0.06, final_epsilon=0.001, epsilon_timesteps=200_000
)
"""Of the best response, where the scenario says nothing. It is imitated with its random actions, so these are few."""


class NfspPolicy(Policy):
    """``best`` answers to what the others do; ``average`` is the strategy. With ``explore`` one of them plays each episode,
    without it the average policy plays always."""

    draws_lots = True
    differs_by_worker = True

    def __init__(self, kind: AgentType, spec: PolicySpec) -> None:
        super().__init__(kind)
        self.best = ValuePolicy(kind, replace(spec, exploration=spec.exploration or EXPLORATION))
        if self.best.carry_size:
            raise ConfigError(
                f"the policy of agents {kind.agents[0]!r}, ... has a memory, but nfsp imitates single decisions. Drop "
                f"{remembers_by(spec.model)}, or use dqn or ppo."
            )
        self.distribution = Categorical(self.best.num_actions)
        self.average = Body(
            kind, spec.model, self.best.num_actions, seeded(spec.seed, 1), agent_id=spec.agent_id, last_gain=0.01
        )
        self.anticipatory = float(spec.options.get("anticipatory", ANTICIPATORY))
        self.keeps_statistics = self.best.keeps_statistics

    @property
    def features(self) -> Features:
        return self.average.features

    # -- acting ----------------------------------------------------------------------------------------------------

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        responds = self.responds(inputs, rng) if explore else np.zeros(len(inputs), bool)
        actions, logp = np.zeros(len(inputs), np.int64), np.zeros(len(inputs), np.float32)
        if responds.any():
            actions[responds] = self.best.act(_rows(inputs, responds), carry[responds], rng, explore=True).actions
        if not responds.all():
            draws = ~responds
            actions[draws], logp[draws] = self._draw(_rows(inputs, draws), rng)
        return Decision(actions, logp, carry)

    def responds(self, inputs: Inputs, rng: np.random.Generator) -> Bools:
        """Whom the best response plays. Outside of an episode, where nobody drew lots, every decision draws one."""
        episode_uniform = inputs.episode_uniform if len(inputs.episode_uniform) else rng.random(len(inputs))
        found: Bools = episode_uniform < self.anticipatory
        return found

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """Chances of the average policy, or of the best response where it plays; action values of the best response."""
        with torch.inference_mode():
            params = self.logits(*self.tensors(inputs, self.average.device)).cpu().numpy()
        # The best response explores whenever it plays, so its chances are those of exploring.
        response = self.best.insight(inputs, carry, explore=True)
        chances = self.distribution.probabilities(params)
        if explore and len(inputs.episode_uniform):
            responds = (inputs.episode_uniform < self.anticipatory)[:, None]
            if response.probabilities is not None and chances is not None:
                chances = np.where(responds, response.probabilities, chances)
        return Insight(chances, q_values=response.q_values)

    def _draw(self, inputs: Inputs, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Actions of the average policy, and their log probabilities."""
        with torch.inference_mode():
            params = self.logits(*self.tensors(inputs, self.average.device)).cpu().numpy()
        actions, logp = self.distribution.sample(params, rng, explore=True)
        return actions, np.minimum(logp, HIGHEST_LOGP)

    # -- learning --------------------------------------------------------------------------------------------------

    def logits(self, obs: Tensor, agent_index: Tensor, legal: Tensor) -> Tensor:
        """Of the average policy ``[N, num_actions]``; illegal actions get no chance."""
        return forbid(self.average(obs, agent_index), legal)

    def action_distribution(self, batch: SampleBatch) -> Chances:
        """What the average policy does with a batch of this policy, without gradient."""
        with torch.no_grad():
            obs, index, legal = (self.tensor(batch[column]) for column in ("obs", "agent_index", "legal"))
            return Chances(self.distribution, self.logits(obs, index, legal))

    def observe(self, obs: Array, agent_index: Ints) -> None:
        self.best.observe(obs, agent_index)
        self.average.observe(obs, agent_index)

    def anneal(self, timesteps: int) -> None:
        self.best.anneal(timesteps)

    def place(self, index: int, total: int) -> None:
        self.best.place(index, total)


def _rows(inputs: Inputs, chosen: Bools) -> Inputs:
    if chosen.all():
        return inputs
    return Inputs(inputs.obs[chosen], inputs.legal[chosen], inputs.agent_index[chosen])
