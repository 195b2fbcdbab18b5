"""What decides. A policy acts; it never learns by itself and is the only thing that travels to rollout workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from marl.data.task import AgentType, Array, Bools, Floats, Ints
from marl.errors import PolicyError

NO_LOTS: NDArray[np.float64] = np.zeros(0)


@dataclass(slots=True)
class Inputs:
    """What ``N`` deciding agents see. Columns that a model does not use may have width 0."""

    obs: Array  # [N, obs_width] as the env gave it
    legal: Bools  # [N, legal_width]; width 0: everything is legal
    agent_index: Ints  # [N] seat within the kind of agents
    episode_uniform: NDArray[np.float64] = field(default_factory=NO_LOTS.copy)  # [N] of Policy.draw, if it draws lots

    def __len__(self) -> int:
        return len(self.obs)


@dataclass(slots=True)
class Decision:
    """What ``N`` agents do."""

    actions: Array  # [N, *action_shape]
    logp: Floats  # [N] log probability under the behaviour that chose; 0 for deterministic choices
    carry: Floats  # [N, carry_size] memory for the next decision


@dataclass(slots=True)
class Insight:
    """What a policy thinks of ``N`` decisions before it makes them; None: it has no such thing."""

    probabilities: Floats | None = None  # [N, options]: chance of each option, all choices side by side
    mean: Floats | None = None  # [N, numbers]: the greedy coordinates, in the units of ``Decision.actions``
    std: Floats | None = None  # [N, numbers]: their standard deviation when they are drawn
    q_values: Floats | None = None  # [N, num_actions]
    value: Floats | None = None  # [N]: what is expected from here on
    member: Ints | None = None  # [N]: the member of a mixture that plays


class Policy(nn.Module, ABC):
    """Acts for agents of one kind. What it needs while acting is a parameter or a buffer, so it travels with the weights."""

    env_units: bool = False
    """Whether Box actions are given as the env takes them (scripted policies) instead of normalised to -1..1."""
    carry_size: int = 0
    """Numbers that the policy remembers per agent between two decisions of an episode."""
    keeps_statistics: bool = False
    """Whether ``observe`` does anything."""
    anneals: bool = True
    """Whether ``anneal`` does anything."""
    differs_by_worker: bool = False
    """Whether ``place`` does anything."""
    remembers_reward: bool = False
    """Whether the last of these numbers is what the agent was paid since its last decision; the env runner adds it up."""
    draws_lots: bool = False
    """Whether it decides something once per episode by the lot of its team (``Inputs.episode_uniform``)."""

    def __init__(self, kind: AgentType) -> None:
        super().__init__()
        self.kind = kind
        self.shared: dict[str, tuple[nn.Parameter, ...]] = {}  # name to parameters that other policies have as well
        self._anchor: tuple[nn.Parameter, ...] | None = None

    @abstractmethod
    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        """Choose for all rows at once. Without ``explore`` the choice is the policy's best guess."""

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """What it thinks of these decisions, for people to look at; it neither draws nor remembers anything."""
        del inputs, carry, explore
        return Insight()

    def tells_logp(self, explore: bool) -> bool:
        """Whether ``Decision.logp`` is how likely its behaviour was to choose so, with or without ``explore``."""
        del explore
        return False

    def log_density(self, inputs: Inputs, carry: Floats, actions: Array) -> Floats | None:
        """``log pi(a|o)`` of actions with coordinates, in the units of ``Decision.actions``; None: it has no density."""
        del inputs, carry, actions
        return None

    def recarried(self, inputs: Inputs, before: Floats, after: Floats, actions: Array) -> Floats:
        """The carry ``after`` a decision that began with the carry ``before``, had these actions been taken instead."""
        del inputs, before, actions
        return after

    def draw(self, episode_uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """What lots from 0 to 1 mean to the policy. Asked when episodes begin; holds for all their agents to the end."""
        return episode_uniform

    def observe(self, obs: Array, agent_index: Ints) -> None:
        """Let running statistics learn from raw observations. Called by the learner alone, after its update."""

    def place(self, index: int, total: int) -> None:
        """Act for worker ``index`` of ``total`` from now on; for exploration that differs from worker to worker."""

    def anneal(self, timesteps: int) -> None:
        """Move exploration to its value after so many env steps. Called by the learner alone."""

    def get_weights(self) -> dict[str, Array]:
        """Parameters and buffers as numpy arrays (copies)."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}

    def own_parameters(self) -> list[nn.Parameter]:
        """Parameters that no other policy has."""
        elsewhere: set[int] = set()
        for parameters in self.shared.values():
            elsewhere.update(map(id, parameters))
        own = []
        for parameter in self.parameters():
            if id(parameter) not in elsewhere:  # by identity: == compares numbers
                own.append(parameter)
        return own

    def fit(self, weights: Mapping[str, Array]) -> None:
        """Take the shape of these weights; only populations, which grow, have anything to do."""

    def set_weights(self, weights: dict[str, Array]) -> None:
        try:
            self.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
        except RuntimeError as error:  # torch names what is missing, too much, or of another shape
            raise PolicyError(
                f"weights do not fit: {' '.join(str(error).split())}. Give weights of a policy with the same model and "
                "spaces, as get_weights() returns them."
            ) from error

    @property
    def device(self) -> torch.device:
        """Where the parameters are. Asked several times per step, so the walk over all modules is done once."""
        if self._anchor is None:
            self._anchor = tuple(self.parameters())[:1]  # a tuple: nn.Module does not look inside
        return self._anchor[0].device if self._anchor else torch.device("cpu")

    def tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    @staticmethod
    def tensors(inputs: Inputs, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Observations, seats and legal actions."""
        obs = torch.from_numpy(inputs.obs).to(device)
        index = torch.from_numpy(inputs.agent_index).to(device)
        return obs, index, torch.from_numpy(inputs.legal).to(device)
