"""An env of VMAS played with less around the game itself; the numbers are those of its ``step`` and ``reset_at``.

Left out is what nobody reads here: infos, copies of observations that are copied into the arrays of a frame anyway, checks of
actions that were just clipped, generators that the scenario does not draw from. Copies that end together are set back to zero
together and then start one by one, each with its seed. All this knows VMAS's inside, so it is only used with the versions that
`marl.envs.adapters.vmas_physics` names; the tests play every scenario both ways.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from marl.data.task import AgentType, Array, Floats
from marl.envs.adapters.vmas_physics import hasten, is_proven

DRAWS_FROM_NUMPY = ("het_mass",)
"""Scenarios that draw from numpy's global generator; the others only from torch's, none from Python's."""

Deed = Callable[[Array], torch.Tensor | None]
"""From one agent's actions ``[E, ...]`` to its ``action.u``, or None if VMAS has to look at them."""


def can_shorten(env: Any) -> bool:
    return is_proven() and env.device.type == "cpu" and not env.grad_enabled


class Shortcuts:
    """Plays ``env``, a ``vmas`` environment."""

    def __init__(self, env: Any, scenario: str) -> None:
        self.env = env
        self.all_generators = scenario in DRAWS_FROM_NUMPY
        hasten(env.world)
        self.deeds = [deed_of(env, agent) for agent in env.agents]

    @contextmanager
    def luck(self, states: list[Any]) -> Iterator[None]:
        """Draw from generators in these states within the block; afterwards ``states`` holds how they were left."""
        before = _states(self.all_generators)
        _set(states, self.all_generators)
        try:
            yield
        finally:
            states[: len(before)] = _states(self.all_generators)
            _set(before, self.all_generators)

    def _move(self, actions: Sequence[Array]) -> None:
        env = self.env
        for agent, deed, action in zip(env.agents, self.deeds, actions, strict=True):
            force = deed(action)
            if force is None:
                env._set_action(torch.as_tensor(action).reshape(env.num_envs, -1), agent)
            else:
                agent.action._u = force
        for agent in env.world.agents:
            env.scenario.env_process_action(agent)
        env.scenario.pre_step()
        env.world.step()
        env.scenario.post_step()
        env.steps += 1

    def play(self, actions: Sequence[Array], seats: Sequence[int]) -> Floats:
        """One step of the game by the actions of each agent; the rewards ``[E, seats]``."""
        self._move(actions)
        paid = np.empty((self.env.num_envs, len(seats)), np.float32)
        column = {number: seat for seat, number in enumerate(seats)}
        for number, agent in enumerate(self.env.agents):
            # Copied one by one: a scenario may return the same tensor for every agent and change it in between.
            paid[:, column[number]] = self.env.scenario.reward(agent).reshape(-1).numpy()
        return paid

    def observations(self, agents: Sequence[Sequence[int]], kinds: Sequence[AgentType]) -> list[Array]:
        """New arrays ``[E, agents of a kind, width]``; ``agents`` are VMAS's numbers of each kind's agents."""
        columns: list[Array] = [np.empty((self.env.num_envs, kind.size, kind.obs_width), np.float32) for kind in kinds]
        place = {
            number: (column, i) for column, row in zip(columns, agents, strict=True) for i, number in enumerate(row)
        }
        for number, agent in enumerate(self.env.agents):
            column, i = place[number]
            column[:, i] = flat(self.env.scenario.observation(agent), self.env.num_envs).numpy()
        return columns

    def restart(self, env_ids: Sequence[int], seeds: Sequence[int]) -> None:
        """A new episode in some copies, each from its own seed."""
        env = self.env
        env.world.reset(torch.tensor(env_ids))
        for env_id, seed in zip(env_ids, seeds, strict=True):
            torch.default_generator.manual_seed(
                seed
            )  # `torch.manual_seed` also looks for other devices: 20 times as slow
            if self.all_generators:
                np.random.seed(seed)  # noqa: NPY002 - VMAS draws from the global one
                random.seed(seed)
            env.scenario.reset_world_at(env_id)
        env.steps[torch.tensor(env_ids)] = 0


def flat(seen: Any, num_envs: int) -> torch.Tensor:
    """One agent's observations of all copies, ``[E, obs_width]``; the parts of a dict one after the other."""
    if isinstance(seen, dict):
        return torch.cat([flat(part, num_envs) for part in seen.values()], dim=1)
    rows: torch.Tensor = seen.reshape(num_envs, -1).float()
    return rows


def _states(everything: bool) -> list[Any]:
    states: list[Any] = [torch.random.get_rng_state()]
    if everything:
        states += [np.random.get_state(), random.getstate()]  # noqa: NPY002
    return states


def _set(states: list[Any], everything: bool) -> None:
    torch.random.set_rng_state(states[0])
    if everything:
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])


def deed_of(env: Any, agent: Any) -> Deed:
    """How one agent's actions become forces."""
    speaks = env.world.dim_c > 0 and not agent.silent
    noisy = not isinstance(agent.action.u_noise, int | float) or agent.action.u_noise > 0
    if speaks or noisy or env.multidiscrete_actions:
        return lambda _actions: None
    if env.continuous_actions:
        return _continuous(env, agent)
    return _discrete(env, agent)


def _continuous(env: Any, agent: Any) -> Deed:
    most = agent.action.u_range_tensor.numpy()
    factor = agent.action.u_multiplier_tensor.numpy()
    clips = env.clamp_action

    def deed(actions: Array) -> torch.Tensor | None:
        usual = actions.dtype == np.float32 and math.isfinite(actions.sum())
        if not usual:
            return None
        clipped = np.clip(actions, -most, most)
        if not clips and not np.array_equal(clipped, actions):
            return None  # VMAS refuses them in its own words
        return torch.from_numpy(np.multiply(clipped, factor, out=np.empty(clipped.shape, np.float32)))

    return deed


def _discrete(env: Any, agent: Any) -> Deed:
    """A table of the forces of all actions, asked from VMAS itself."""
    before, rows = agent.action._u, []
    count = math.prod(agent.discrete_action_nvec)
    for first in range(0, count, env.num_envs):
        asked = torch.arange(first, first + env.num_envs).clamp_(max=count - 1)
        env._set_action(asked.unsqueeze(-1), agent)
        rows.append(agent.action.u.clone())
    agent.action._u = before
    table = torch.cat(rows)[:count].numpy()

    def deed(actions: Array) -> torch.Tensor | None:
        chosen = actions.reshape(-1)
        if chosen.min() < 0 or chosen.max() >= count:
            return None
        return torch.from_numpy(table[chosen])

    return deed
