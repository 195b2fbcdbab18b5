"""Errors of temporal differences, worked out decision by decision from the grid itself, without views, replay or rows.

A *cell* is (row, copy, seat). Every decision of these grids lasts one step, so its outcome stands in its own row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from marl.algos.maddpg.actor_critic import DeterministicActorCritic as Deterministic
from marl.algos.sac.actor_critic import SoftActorCritic as Soft
from marl.data.batch import MultiAgentBatch
from marl.policies.value import ValuePolicy
from marl.testing.sign_env import Signs

GAMMA = 0.9
Cell = tuple[int, int, int]


class Stateless(Signs):
    """The same env without a global state, so that mixers see the members' observations."""

    def __init__(self, num_envs: int, env_config: Any) -> None:
        super().__init__(num_envs, env_config)
        self.state_size = 0

    def _view(self) -> Any:
        obs, legal, present, state = super()._view()
        return obs, legal, present, state[:, :0]


def with_absences(batch: MultiAgentBatch) -> MultiAgentBatch:
    """In the first two copies agent_1 ends with the second of four moves; what its columns say from then on is noise."""
    rng = np.random.default_rng(0)
    late = np.ix_([2, 3], [0, 1], [1])
    for column in (batch.present, batch.active, batch.alive, batch.terminateds, batch.new_present, batch.new_alive):
        column[late] = False
    batch.rewards[late] = 0.0
    batch.terminateds[1, :2, 1] = True
    batch.new_present[1, :2, 1] = batch.new_alive[1, :2, 1] = False
    for column in (batch.obs[0][2:4, :2, 1], batch.new_obs[0][1:4, :2, 1]):
        column[:] = rng.normal(size=column.shape)
    return batch


def cells(batch: MultiAgentBatch) -> Iterator[Cell]:
    for t, e, a in np.argwhere(batch.active):
        yield int(t), int(e), int(a)


def best(values: Any, legal: Any) -> int:
    allowed = range(len(values)) if not len(legal) else np.flatnonzero(legal)
    return int(max(allowed, key=lambda action: values[action]))


def one_hot(index: int, size: int) -> list[float]:
    return [1.0 if i == index else 0.0 for i in range(size)]


# -- action values -------------------------------------------------------------------------------------------------


class ActionValues:
    """``before`` and ``after`` are the values ``[actions]`` of an agent at a decision and at its outcome."""

    def __init__(self, network: ValuePolicy, batch: MultiAgentBatch) -> None:
        self.before: dict[Cell, Any] = {}
        self.after: dict[Cell, Any] = {}
        with torch.no_grad():
            for a in range(2):
                for e in range(batch.t.shape[1]):
                    self._along(network, batch, e, a)

    def _along(self, network: ValuePolicy, batch: MultiAgentBatch, e: int, a: int) -> None:
        """One agent of one copy through time; its memory is empty where an episode begins."""
        seat = torch.tensor([a])
        memory = torch.zeros(1, network.carry_size)
        for t in range(len(batch.t)):
            now, later = (torch.from_numpy(part[0][t, e, a][None]) for part in (batch.obs, batch.new_obs))
            if batch.t[t, e] == 0:
                memory = torch.zeros(1, network.carry_size)
            if not network.carry_size:
                here, there = network.values(now, seat), network.values(later, seat)
            else:
                here, moved = network.step(now, seat, memory)
                action = torch.tensor([int(batch.actions[0][t, e, a])])
                memory = network.model.carried(moved, action, torch.zeros(1))
                there, _ = network.step(later, seat, memory)
            self.before[t, e, a], self.after[t, e, a] = here[0].numpy(), there[0].numpy()


def next_value(
    online: ActionValues, target: ActionValues, batch: MultiAgentBatch, cell: Cell, double: bool, temperature: float
) -> float:
    t, e, a = cell
    choosing, legal = (online if double else target).after[cell], batch.new_legal[0][t, e, a]
    if temperature:
        return soft(choosing, target.after[cell], legal, temperature)
    return float(target.after[cell][best(choosing, legal)])


def soft(choosing: Any, valuing: Any, legal: Any, temperature: float) -> float:
    """What drawing by ``exp(choosing / temperature)`` is worth, and the temperature times the entropy of it."""
    allowed = [int(u) for u in (range(len(choosing)) if not len(legal) else np.flatnonzero(legal))]
    highest = max(float(choosing[u]) for u in allowed)
    odds = {u: math.exp((float(choosing[u]) - highest) / temperature) for u in allowed}
    value = 0.0
    for u, odd in odds.items():
        chance = odd / sum(odds.values())
        if chance > 0:
            value += chance * (float(valuing[u]) - temperature * math.log(chance))
    return value


def single_errors(
    online: ActionValues, target: ActionValues, batch: MultiAgentBatch, double: bool, temperature: float = 0.0
) -> list[float]:
    """dqn and softq: each agent by itself."""
    errors = []
    for cell in cells(batch):
        t, e, a = cell
        later = 0.0 if batch.terminateds[cell] else next_value(online, target, batch, cell, double, temperature)
        chosen = float(online.before[cell][int(batch.actions[0][t, e, a])])
        errors.append(abs(chosen - (float(batch.rewards[cell]) + GAMMA * later)))
    return errors


def team_errors(
    online: ActionValues, target: ActionValues, batch: MultiAgentBatch, double: bool, mixers: tuple[Any, Any],
    temperature: float = 0.0,
) -> list[float]:  # fmt: skip
    """vdn and qmix: who is absent counts as zero, before and after."""
    errors = []
    for t, e in np.argwhere(batch.present.any(axis=2)):
        chosen, later = [], []
        for a in range(2):
            played = online.before[t, e, a][int(batch.actions[0][t, e, a])]
            chosen.append(float(played) if batch.present[t, e, a] else 0.0)
            goes_on = batch.new_present[t, e, a]
            later.append(next_value(online, target, batch, (t, e, a), double, temperature) if goes_on else 0.0)
        value = mixers[1](later, state_of(batch, t, e, "new_")) if batch.new_present[t, e].any() else 0.0
        wanted = float(batch.rewards[t, e].sum()) + GAMMA * value
        errors.append(abs(mixers[0](chosen, state_of(batch, t, e, "")) - wanted))
    return errors


def state_of(batch: MultiAgentBatch, t: int, e: int, when: str) -> list[float]:
    """The env's state, or the observations of those who are there side by side."""
    if batch.task.state_size:
        return [float(x) for x in getattr(batch, f"{when}state")[t, e]]
    obs, present = getattr(batch, f"{when}obs")[0][t, e], getattr(batch, f"{when}present")[t, e]
    return [float(x) if present[a] else 0.0 for a in range(2) for x in obs[a]]


def summed(values: list[float], state: list[float]) -> float:
    return sum(values)


class Monotonic:
    """QMIX's formula in numpy, with the weights of a mixer."""

    def __init__(self, mixer: torch.nn.Module) -> None:
        self.weights = {name: tensor.double().numpy().copy() for name, tensor in mixer.state_dict().items()}

    def _layer(self, name: str, x: Any) -> Any:
        if f"{name}.0.weight" in self.weights:  # with hidden units in between
            return self._layer(f"{name}.2", np.maximum(self._layer(f"{name}.0", x), 0))
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def __call__(self, values: list[float], state: list[float]) -> float:
        s, unit = self._filtered(np.array(state)), float(self.weights["unit"])
        w1 = np.abs(self._layer("w1", s)).reshape(len(values), -1)
        x = np.array(values) / unit @ w1 + self._layer("b1", s)
        hidden = np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)
        offset = self._layer("v", np.maximum(self._layer("v_hidden", s), 0))[0]
        return unit * float(hidden @ np.abs(self._layer("w2", s)) + offset)

    def _filtered(self, state: Any) -> Any:
        count, mean, squares = (self.weights[f"filter.{name}"] for name in ("count", "mean", "squares"))
        return np.clip((state - mean) / np.maximum(np.sqrt(squares / count), 1e-4), -10, 10)


# -- critics of actions --------------------------------------------------------------------------------------------


def deterministic_errors(pupil: Deterministic, batch: MultiAgentBatch) -> list[float]:
    """ddpg, td3, maddpg: the mean over the critics."""
    everybody = pupil.config.critic_sees == "all"
    errors = []
    for t, e, a in cells(batch):
        seen = range(2) if everybody else [a]
        done = [_encoded(batch.actions[0][t, e, other], batch) for other in range(2)]
        later = [_greedy(pupil, batch, t, e, other) for other in range(2)]
        now = _view(pupil, batch.obs[0][t, e], done, batch.present[t, e], seen, a)
        then = _view(pupil, batch.new_obs[0][t, e], later, batch.new_present[t, e], seen, a)
        with torch.no_grad():
            q = [float(network(now)) for network in pupil.critics.networks]
            next_q = min(float(network(then)) for network in pupil.target_critics.networks)
        wanted = float(batch.rewards[t, e, a]) + (0.0 if batch.terminateds[t, e, a] else GAMMA * next_q)
        errors.append(float(np.mean([abs(value - wanted) for value in q])))
    return errors


def _encoded(action: Any, batch: MultiAgentBatch) -> list[float]:
    options = batch.task.kinds[0].columns.options
    return one_hot(int(action), options) if options else [float(x) for x in action]


def _greedy(pupil: Deterministic, batch: MultiAgentBatch, t: int, e: int, a: int) -> list[float]:
    """What the target actor does at the outcome."""
    with torch.no_grad():
        out = pupil.target_actor(torch.from_numpy(batch.new_obs[0][t, e, a][None]), torch.tensor([a]))[0].numpy()
    if batch.task.kinds[0].columns.options:
        return one_hot(best(out, batch.new_legal[0][t, e, a]), len(out))
    return [math.tanh(x) for x in out]


def _view(pupil: Any, obs: Any, actions: list[list[float]], present: Any, seen: Any, own: int) -> torch.Tensor:
    """Observation and action of everybody who is seen, zeros for the absent, then the own seat where it is shown."""
    parts: list[float] = []
    for a in seen:
        both = [*(float(x) for x in obs[a]), *actions[a]]
        parts += both if present[a] else [0.0] * len(both)
    return torch.tensor([parts + one_hot(own, pupil.view.seats)], dtype=torch.float32)


def soft_errors(pupil: Soft, batch: MultiAgentBatch) -> list[float]:
    """sac that sees its own agent alone; the mean over both critics. Drawn actions are those of zero noise."""
    alpha, errors = float(pupil.alpha), []
    for cell in cells(batch):
        t, e, a = cell
        with torch.no_grad():
            later = 0.0 if batch.terminateds[cell] else _soft_value(pupil, batch, cell, alpha)
            q = _critics(pupil, pupil.critics, batch.obs[0][t, e], batch.actions[0][t, e, a], batch, a)
        wanted = float(batch.rewards[cell]) + GAMMA * later
        errors.append(float(np.mean([abs(value - wanted) for value in q])))
    return errors


def _critics(pupil: Soft, critics: Any, obs: Any, action: Any, batch: MultiAgentBatch, a: int) -> list[float]:
    """Values of one action by both critics."""
    options = batch.task.kinds[0].columns.options
    encoded = [0.0] * options if options else [float(x) for x in action]
    shown = _view(pupil, obs, [encoded] * 2, [True] * 2, [a], a)
    return [float(network(shown)[0, int(action) if options else 0]) for network in critics.nets]


def _soft_value(pupil: Soft, batch: MultiAgentBatch, cell: Cell, alpha: float) -> float:
    t, e, a = cell
    obs, everything = batch.new_obs[0][t, e], torch.ones(1, 0, dtype=torch.bool)
    params = pupil.actor(torch.from_numpy(obs[a][None]), torch.tensor([a]), everything)[0].double().numpy()
    if not batch.task.kinds[0].columns.options:
        means, log_stds = np.split(params, 2)
        squeezed = np.tanh(means)
        logp = -(log_stds + 0.5 * math.log(2 * math.pi) + np.log(1 - squeezed**2)).sum()
        return min(_critics(pupil, pupil.target_critics, obs, squeezed, batch, a)) - alpha * float(logp)
    legal = np.flatnonzero(batch.new_legal[0][t, e, a]) if batch.new_legal[0].shape[-1] else range(len(params))
    chances = {action: math.exp(params[action]) for action in legal}
    total, value = sum(chances.values()), 0.0
    for action, weight in chances.items():
        p = weight / total
        value += p * (min(_critics(pupil, pupil.target_critics, obs, action, batch, a)) - alpha * math.log(p))
    return value
