"""Multi-agent PPO (Yu et al., 2022) in one file: one actor for all agents, and a critic that sees what all of them see.

    python examples/standalone/mappo.py [SEED]

The env: three agents in a small room with three exits. An exit closes behind the agent that takes it, so each has to take
one of its own. Agents are paid for leaving and pay for every step; whoever has left is gone while the others go on.

Seeds 0, 1 and 2 bring 3.00, 2.96 and 3.00 of 3 agents out in greedy play, after 40,960 steps and 10 seconds on one core.

    x_i    = (o_1, ..., o_n, one-hot i),   o_j = 0 where agent j is absent
    A_t    = delta_t + gamma lambda A_{t+1},   delta_t = r_t + gamma V(x_{t+1}) - V(x_t)
    r      = pi(a|o) / pi_old(a|o)
    actor  = -mean min(r A, clip(r, 1 - c, 1 + c) A)
    critic = mean (V(x) - (A + V_old(x)))^2
    loss   = actor + 0.5 critic - c_H mean H(pi)                  all means over decisions: absent agents have none

`marl show mappo` prints the same algorithm as marl runs it; a test holds the weights of both together.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


@dataclass
class Config:
    total_steps: int = 40_960
    num_envs: int = 32
    steps: int = 32  # per environment and training batch
    epochs: int = 5
    minibatch: int = 512
    gamma: float = 0.98
    gae_lambda: float = 0.95
    clip: float = 0.2
    vf_coeff: float = 0.5
    entropy_coeff: float = 0.01
    max_grad_norm: float = 0.5
    lr: float = 1e-3
    hidden: tuple[int, ...] = (64, 64)


# -- the env ---------------------------------------------------------------------------------------------------------


class Exits:
    """``num_envs`` copies of the room at once: arrays [E, A, ...].

    Agents see their place, and where the exits and the others are; walls make moves illegal.
    """

    num_agents, size, limit, num_actions = 3, 5, 16, 5
    exits = np.array([[0, 0], [0, 4], [4, 4]])
    moves = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
    obs_size = 2 + 3 * 3 + 3 * 3

    def __init__(self, num_envs: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.place = np.zeros((num_envs, self.num_agents, 2), np.int64)
        self.inside = np.zeros((num_envs, self.num_agents), bool)
        self.open = np.zeros((num_envs, len(self.exits)), bool)
        self.time = np.zeros(num_envs, np.int64)
        self.reset(np.arange(num_envs))

    def reset(self, copies: np.ndarray) -> None:
        self.place[copies] = self.rng.integers(1, 4, (len(copies), self.num_agents, 2))
        self.inside[copies], self.open[copies], self.time[copies] = True, True, 0

    def view(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What agents see, their legal actions, and who is there."""
        to_exits = self.exits[None, None] - self.place[:, :, None]
        to_others = self.place[:, None] - self.place[:, :, None]
        shape = (*self.inside.shape, -1)
        is_open = np.broadcast_to(self.open[:, None], to_exits.shape[:3])
        is_inside = np.broadcast_to(self.inside[:, None], to_others.shape[:3])
        parts = [
            self.place / 4, (to_exits / 4 * is_open[..., None]).reshape(shape), is_open,
            (to_others / 4 * is_inside[..., None]).reshape(shape), is_inside,
        ]  # fmt: skip
        there = self.place[:, :, None] + self.moves
        legal = ((there >= 0) & (there < self.size)).all(axis=-1)
        return np.concatenate(parts, axis=2).astype(np.float32), legal, self.inside.copy()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, who has left (terminated), and who is cut off by the time limit (truncated)."""
        self.place += np.where(self.inside[..., None], self.moves[actions], 0)
        left = np.zeros_like(self.inside)
        for agent in range(self.num_agents):  # of several at one exit the first one gets through
            for i, place in enumerate(self.exits):
                through = self.inside[:, agent] & (self.place[:, agent] == place).all(axis=1) & self.open[:, i]
                left[:, agent] |= through
                self.open[:, i] &= ~through
        rewards = np.where(self.inside, left - 0.05, 0.0).astype(np.float32)
        self.inside &= ~left
        self.time += 1
        return rewards, left, self.inside & (self.time == self.limit)[:, None]


# -- networks ----------------------------------------------------------------------------------------------------------


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int, last_gain: float) -> nn.Sequential:
    """Tanh layers. Orthogonal weights; a small last layer lets the actor begin with equal chances."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.Tanh()]
        nn.init.orthogonal_(layers[-2].weight, 2**0.5)
        inputs = width
    layers.append(nn.Linear(inputs, outputs))
    nn.init.orthogonal_(layers[-1].weight, last_gain)
    for layer in layers[::2]:
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Team(nn.Module):
    """Shared by all agents; the last inputs of both networks tell which agent it is."""

    def __init__(self, num_agents: int, obs_size: int, num_actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.num_agents = num_agents
        self.actor = mlp(obs_size + num_agents, hidden, num_actions, last_gain=0.01)
        self.critic = mlp(num_agents * obs_size + num_agents, hidden, 1, last_gain=1.0)

    def policy(self, obs: torch.Tensor, legal: torch.Tensor) -> Categorical:
        """[..., A, obs_size] to distributions over legal actions."""
        logits = self.actor(torch.cat([obs, self._names(obs)], dim=-1))
        return Categorical(logits=logits.masked_fill(~legal, -1e9))

    def value(self, obs: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """[..., A, obs_size] and who is there [..., A] to a value per agent [..., A]."""
        joint = (obs * there.unsqueeze(-1)).flatten(-2)
        joint = joint.unsqueeze(-2).expand(*obs.shape[:-1], -1)
        return self.critic(torch.cat([joint, self._names(obs)], dim=-1)).squeeze(-1)

    def _names(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.eye(self.num_agents).expand(*obs.shape[:-1], -1)


# -- learning ----------------------------------------------------------------------------------------------------------


def advantages_of(
    batch: dict[str, np.ndarray], values: np.ndarray, next_values: np.ndarray, config: Config
) -> np.ndarray:
    """Generalised advantage estimation over arrays [T, E, A], for each agent by itself.

    A truncated agent's future is worth what the critic says, a terminated one has none; behind both begins another life.
    """
    advantages = np.zeros_like(values)
    later = np.zeros_like(values[0])
    for t in reversed(range(len(values))):
        goes_on = 1.0 - (batch["terminated"][t] | batch["truncated"][t])
        future = next_values[t] * (1.0 - batch["terminated"][t])
        delta = batch["rewards"][t] + config.gamma * future - values[t]
        later = (delta + config.gamma * config.gae_lambda * goes_on * later) * batch["there"][t]
        advantages[t] = later
    return advantages


def update(
    team: Team, optimiser: torch.optim.Optimizer, batch: dict[str, np.ndarray], config: Config, rng: np.random.Generator
) -> float:
    """All gradient steps on one training batch of arrays [T, E, A, ...]; returns the mean loss.

    ``there`` and ``next_there`` say who was there before a step and after it; who was truncated still counts after it.
    """
    data = {name: torch.as_tensor(column) for name, column in batch.items()}
    with torch.no_grad():
        values = team.value(data["obs"], data["there"]).numpy()
        next_values = team.value(data["next_obs"], data["next_there"]).numpy()
    advantages = advantages_of(batch, values, next_values, config)
    returns = torch.as_tensor(advantages + values)
    decided = batch["there"]
    mean, deviation = advantages[decided].mean(), advantages[decided].std()
    scaled = torch.as_tensor((advantages - mean) / (deviation + 1e-8))

    losses = []
    decisions = np.argwhere(decided)  # one row (t, e, a) per decision
    for _ in range(config.epochs):
        order = rng.permutation(len(decisions))
        for start in range(0, len(order), config.minibatch):
            t, e, a = torch.as_tensor(decisions[order[start : start + config.minibatch]]).T
            # The networks look at whole moments [N, A, ...], of which each row keeps its own agent.
            here = torch.arange(len(t)), a
            policy = team.policy(data["obs"][t, e], data["legal"][t, e])
            logp = policy.log_prob(data["actions"][t, e])[here]
            value = team.value(data["obs"][t, e], data["there"][t, e])[here]
            ratio = torch.exp(logp - data["logp"][t, e, a])
            gain = ratio * scaled[t, e, a]
            clipped_gain = torch.clamp(ratio, 1 - config.clip, 1 + config.clip) * scaled[t, e, a]
            actor_loss = -torch.minimum(gain, clipped_gain).mean()
            critic_loss = ((value - returns[t, e, a]) ** 2).mean()
            loss = actor_loss + config.vf_coeff * critic_loss - config.entropy_coeff * policy.entropy()[here].mean()

            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(team.parameters(), config.max_grad_norm)
            optimiser.step()
            losses.append(loss.item())
    return float(np.mean(losses))


# -- playing -----------------------------------------------------------------------------------------------------------


def collect(env: Exits, team: Team, steps: int) -> dict[str, np.ndarray]:
    """``steps`` of every copy, stacked to [T, E, A, ...]."""
    rows = []
    obs, legal, there = env.view()
    for _ in range(steps):
        with torch.no_grad():
            policy = team.policy(torch.as_tensor(obs), torch.as_tensor(legal))
            actions = policy.sample()
            logp = policy.log_prob(actions)
        row = {"obs": obs, "legal": legal, "there": there, "actions": actions.numpy(), "logp": logp.numpy()}
        rewards, terminated, truncated = env.step(actions.numpy())
        next_obs, _, next_there = env.view()
        row |= {"rewards": rewards, "terminated": terminated, "truncated": truncated}
        rows.append(row | {"next_obs": next_obs, "next_there": next_there})
        over = ~next_there.any(axis=1) | truncated.any(axis=1)
        env.reset(np.flatnonzero(over))
        obs, legal, there = env.view()
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def play_greedily(team: Team, seed: int, copies: int = 200) -> tuple[float, float]:
    """Means over one episode of each copy: how many agents have left in time, and the sum of all rewards."""
    env, rewards = Exits(copies, 10_000 + seed), 0.0
    for _ in range(env.limit):
        obs, legal, _ = env.view()
        with torch.no_grad():
            actions = team.policy(torch.as_tensor(obs), torch.as_tensor(legal)).probs.argmax(dim=-1).numpy()
        rewards += float(env.step(actions)[0].sum()) / copies
    return float((~env.inside).sum(axis=1).mean()), rewards


def main(seed: int = 0, config: Config | None = None) -> float:
    """Train; returns how many of the three agents leave in time when they play greedily."""
    config = config or Config()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = Exits(config.num_envs, seed)
    team = Team(env.num_agents, env.obs_size, env.num_actions, config.hidden)
    optimiser = torch.optim.Adam(team.parameters(), lr=config.lr, eps=1e-5)
    per_batch = config.num_envs * config.steps
    for i in range(config.total_steps // per_batch):
        loss = update(team, optimiser, collect(env, team, config.steps), config, rng)
        if (i + 1) % 20 == 0:
            left, _ = play_greedily(team, seed)
            print(f"{(i + 1) * per_batch:>7} steps   {left:.2f} of 3 agents leave   loss {loss:.3f}", flush=True)
    left, reward = play_greedily(team, seed)
    print(f"seed {seed}: {left:.2f} of 3 agents leave, reward {reward:.2f}")
    return left


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
