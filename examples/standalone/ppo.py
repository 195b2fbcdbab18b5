"""Proximal policy optimisation (Schulman et al., 2017) in one file, on CartPole-v1.

    python examples/standalone/ppo.py [SEED]

Seeds 0, 1 and 2 end at 500, 500 and 500 of 500 in greedy play, after 100,000 steps and about half a minute on one core.

    A_t    = delta_t + gamma lambda A_{t+1},   delta_t = r_t + gamma V(o_{t+1}) - V(o_t)       (Schulman et al., 2016)
    r      = pi(a|o) / pi_old(a|o)
    actor  = -mean min(r A, clip(r, 1 - c, 1 + c) A)
    critic = mean (V(o) - (A + V_old(o)))^2
    loss   = actor + 0.5 critic - c_H mean H(pi)

Read it from the bottom up or the top down: config, networks, advantages, update, collecting, main. `marl show ppo` prints the
same algorithm as marl runs it, for many agents; a test holds the weights of both together.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


@dataclass
class Config:
    total_steps: int = 100_000
    num_envs: int = 8
    steps: int = 128  # per environment and training batch
    epochs: int = 10
    minibatch: int = 256
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    vf_coeff: float = 0.5
    entropy_coeff: float = 0.0
    max_grad_norm: float = 0.5
    lr: float = 5e-4
    hidden: tuple[int, ...] = (64, 64)


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


class Agent(nn.Module):
    """An actor that gives logits of actions, and a critic that gives a value."""

    def __init__(self, obs_size: int, num_actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.actor = mlp(obs_size, hidden, num_actions, last_gain=0.01)
        self.critic = mlp(obs_size, hidden, 1, last_gain=1.0)

    def policy(self, obs: torch.Tensor) -> Categorical:
        return Categorical(logits=self.actor(obs))

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        return self.critic(obs).squeeze(-1)


# -- learning ----------------------------------------------------------------------------------------------------------


def advantages_of(
    rewards: np.ndarray, values: np.ndarray, next_values: np.ndarray, terminated: np.ndarray, truncated: np.ndarray,
    gamma: float, gae_lambda: float,
) -> np.ndarray:  # fmt: skip
    """Generalised advantage estimation over arrays [T, E].

    ``next_values`` are those of the observation that a step led to, *before* any reset. Where an episode was terminated there
    is no future; where it was only truncated (a time limit) the future is worth what the critic says. In both cases the next
    row belongs to another episode.
    """
    advantages = np.zeros_like(rewards)
    later = np.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        goes_on = 1.0 - (terminated[t] | truncated[t])
        future = next_values[t] * (1.0 - terminated[t])
        delta = rewards[t] + gamma * future - values[t]
        later = delta + gamma * gae_lambda * goes_on * later
        advantages[t] = later
    return advantages


def update(
    agent: Agent,
    optimiser: torch.optim.Optimizer,
    batch: dict[str, np.ndarray],
    config: Config,
    rng: np.random.Generator,
) -> float:
    """All gradient steps on one training batch of arrays [T, E, ...]; returns the mean loss."""
    obs, next_obs = torch.as_tensor(batch["obs"]), torch.as_tensor(batch["next_obs"])
    with torch.no_grad():
        values, next_values = agent.value(obs).numpy(), agent.value(next_obs).numpy()
    advantages = advantages_of(
        batch["rewards"], values, next_values, batch["terminated"], batch["truncated"], config.gamma, config.gae_lambda
    )
    returns = advantages + values
    # One row per decision. Advantages are normalised over the whole batch, not per minibatch.
    scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    obs = obs.flatten(0, 1)
    actions, old_logp = torch.as_tensor(batch["actions"]).flatten(), torch.as_tensor(batch["logp"]).flatten()
    scaled, returns = torch.as_tensor(scaled).flatten(), torch.as_tensor(returns).flatten()

    losses = []
    for _ in range(config.epochs):
        order = rng.permutation(len(obs))
        for start in range(0, len(obs), config.minibatch):
            rows = torch.as_tensor(order[start : start + config.minibatch])
            policy = agent.policy(obs[rows])
            ratio = torch.exp(policy.log_prob(actions[rows]) - old_logp[rows])
            gain = ratio * scaled[rows]
            clipped_gain = torch.clamp(ratio, 1 - config.clip, 1 + config.clip) * scaled[rows]
            actor_loss = -torch.minimum(gain, clipped_gain).mean()
            critic_loss = ((agent.value(obs[rows]) - returns[rows]) ** 2).mean()
            loss = actor_loss + config.vf_coeff * critic_loss - config.entropy_coeff * policy.entropy().mean()

            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), config.max_grad_norm)
            optimiser.step()
            losses.append(loss.item())
    return float(np.mean(losses))


# -- playing -----------------------------------------------------------------------------------------------------------


class Runner:
    """Several copies of the environment, and what they show now."""

    def __init__(self, config: Config, seed: int) -> None:
        self.envs = [gymnasium.make("CartPole-v1") for _ in range(config.num_envs)]
        self.obs = [env.reset(seed=seed * 1_000 + i)[0] for i, env in enumerate(self.envs)]
        self.returns = [0.0] * config.num_envs
        self.finished: list[float] = []  # returns of whole episodes

    def collect(self, agent: Agent, steps: int) -> dict[str, np.ndarray]:
        rows = [self._step(agent) for _ in range(steps)]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def _step(self, agent: Agent) -> dict[str, np.ndarray]:
        obs = np.stack(self.obs)
        with torch.no_grad():
            policy = agent.policy(torch.as_tensor(obs))
            actions = policy.sample()
            logp = policy.log_prob(actions)
        row = {name: [] for name in ("next_obs", "rewards", "terminated", "truncated")}
        for i, env in enumerate(self.envs):
            next_obs, reward, terminated, truncated, _ = env.step(int(actions[i]))
            self.returns[i] += float(reward)
            for column, value in zip(row.values(), (next_obs, reward, terminated, truncated), strict=True):
                column.append(value)
            if terminated or truncated:
                self.finished.append(self.returns[i])
                next_obs, self.returns[i] = env.reset()[0], 0.0
            self.obs[i] = next_obs
        return {
            "obs": obs,
            "actions": actions.numpy(),
            "logp": logp.numpy(),
            "next_obs": np.stack(row["next_obs"]),
            "rewards": np.array(row["rewards"], np.float32),
            "terminated": np.array(row["terminated"]),
            "truncated": np.array(row["truncated"]),
        }


def greedy_return(agent: Agent, episodes: int, seed: int) -> float:
    """Mean return of the most likely actions."""
    env, returns = gymnasium.make("CartPole-v1"), []
    for episode in range(episodes):
        obs, over, total = env.reset(seed=10_000 + seed * 1_000 + episode)[0], False, 0.0
        while not over:
            with torch.no_grad():
                action = int(agent.actor(torch.as_tensor(obs)).argmax())
            obs, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def main(seed: int = 0, config: Config | None = None) -> float:
    """Train; returns the mean return of 20 greedy episodes at the end."""
    config = config or Config()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    runner = Runner(config, seed)
    agent = Agent(obs_size=4, num_actions=2, hidden=config.hidden)
    optimiser = torch.optim.Adam(agent.parameters(), lr=config.lr, eps=1e-5)
    per_batch = config.num_envs * config.steps
    for i in range(config.total_steps // per_batch):
        loss = update(agent, optimiser, runner.collect(agent, config.steps), config, rng)
        if (i + 1) % 10 == 0:
            recent = np.mean(runner.finished[-100:])
            print(f"{(i + 1) * per_batch:>7} steps   last 100 episodes {recent:6.1f}   loss {loss:.3f}", flush=True)
    final = greedy_return(agent, 20, seed)
    print(f"seed {seed}: {final:.1f} in 20 greedy episodes")
    return final


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
