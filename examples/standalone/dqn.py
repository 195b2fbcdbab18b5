"""Deep Q-learning in one file, on CartPole-v1: double (van Hasselt et al., 2016) and dueling (Wang et al., 2016) DQN.

    python examples/standalone/dqn.py [SEED]

Seeds 0, 1 and 2 reach 250, 238 and 296 in greedy play after 5,000, 2,500 and 5,000 steps, in 3 to 7 seconds on one core.
It stops there (195 is enough), because DQN on CartPole forgets again what it knew: seed 0 falls to 130 if it goes on.

    Q(o, a) = V(o) + A(o, a) - mean_a A(o, a)                                                          (dueling)
    best    = argmax_a Q(o', a)                                                                        (double)
    target  = r + gamma Q'(o', best)        where Q' is a copy of Q that is renewed now and then
    loss    = mean (Q(o, a) - target)^2

`marl show dqn` prints the same algorithm as marl runs it, for many agents; a test holds the weights of both together.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    total_steps: int = 60_000  # at most: it stops where ``enough`` is reached
    enough: float = 195.0  # mean return of 20 greedy episodes
    learning_starts: int = 1_000
    steps_per_update: int = 2
    batch_size: int = 64
    buffer_size: int = 60_000
    gamma: float = 0.99
    target_update_every: int = 100  # updates
    lr: float = 1e-3
    max_grad_norm: float = 10.0
    first_epsilon: float = 1.0
    last_epsilon: float = 0.02
    epsilon_steps: int = 10_000
    hidden: tuple[int, ...] = (64, 64)


# -- the network -------------------------------------------------------------------------------------------------------


class QNetwork(nn.Module):
    """Action values. The last layer gives the value of the state and, behind it, one advantage per action."""

    def __init__(self, obs_size: int, num_actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(obs_size, width), nn.Tanh()]
            obs_size = width
        self.layers = nn.Sequential(*layers, nn.Linear(obs_size, 1 + num_actions))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        out = self.layers(obs)
        state, advantages = out[:, :1], out[:, 1:]
        # Without the mean, V and A could drift against each other and leave Q as it is.
        return state + advantages - advantages.mean(dim=1, keepdim=True)


# -- learning ----------------------------------------------------------------------------------------------------------


class Replay:
    """The newest transitions; the oldest one is overwritten first."""

    def __init__(self, size: int) -> None:
        self.size, self.added = size, 0
        self.columns: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return min(self.added, self.size)

    def add(self, **transition: object) -> None:
        for name, value in transition.items():
            item = np.asarray(value)
            if name not in self.columns:
                self.columns[name] = np.zeros((self.size, *item.shape), item.dtype)
            self.columns[name][self.added % self.size] = item
        self.added += 1

    def sample(self, count: int, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        rows = rng.integers(0, len(self), count)
        return {name: torch.as_tensor(column[rows]) for name, column in self.columns.items()}


def update(
    online: QNetwork, target: QNetwork, optimiser: torch.optim.Optimizer, batch: dict[str, torch.Tensor], config: Config,
    number: int,
) -> float:  # fmt: skip
    """Gradient step ``number`` (from 1 on), and a new copy of the network where it is time; returns the loss.

    ``terminated`` says that nothing comes after ``next_obs``. A time limit is no such end: the target looks past it.
    """
    chosen = online(batch["obs"]).gather(1, batch["actions"].unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        # The online network chooses and the copy values: an action that one of them overrates by luck is rarely overrated
        # by both.
        best = online(batch["next_obs"]).argmax(dim=1, keepdim=True)
        future = target(batch["next_obs"]).gather(1, best).squeeze(1)
        wanted = batch["rewards"] + config.gamma * future * (1.0 - batch["terminated"].float())
    loss = ((chosen - wanted) ** 2).mean()

    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), config.max_grad_norm)
    optimiser.step()
    if number % config.target_update_every == 0:
        target.load_state_dict(online.state_dict())
    return loss.item()


# -- playing -----------------------------------------------------------------------------------------------------------


def act(online: QNetwork, obs: np.ndarray, epsilon: float, rng: np.random.Generator) -> int:
    if rng.random() < epsilon:
        return int(rng.integers(0, 2))
    with torch.no_grad():
        return int(online(torch.as_tensor(obs).unsqueeze(0)).argmax())


def epsilon_at(step: int, config: Config) -> float:
    """Falls in a straight line."""
    share = min(1.0, step / config.epsilon_steps)
    return config.first_epsilon + share * (config.last_epsilon - config.first_epsilon)


def greedy_return(online: QNetwork, episodes: int, seed: int) -> float:
    env, rng, returns = gymnasium.make("CartPole-v1"), np.random.default_rng(seed), []
    for episode in range(episodes):
        obs, over, total = env.reset(seed=10_000 + seed * 1_000 + episode)[0], False, 0.0
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(online, obs, 0.0, rng))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def main(seed: int = 0, config: Config | None = None) -> float:
    """Train; returns the mean return of the last 20 greedy episodes."""
    config = config or Config()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = gymnasium.make("CartPole-v1")
    online = QNetwork(obs_size=4, num_actions=2, hidden=config.hidden)
    target = copy.deepcopy(online)
    optimiser = torch.optim.Adam(online.parameters(), lr=config.lr, eps=1e-5)
    replay = Replay(config.buffer_size)
    returns, total, updates, loss = [], 0.0, 0, 0.0
    obs, _ = env.reset(seed=seed)
    for step in range(1, config.total_steps + 1):
        action = act(online, obs, epsilon_at(step, config), rng)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(
            obs=obs,
            actions=np.int64(action),
            rewards=np.float32(reward),
            next_obs=next_obs,
            terminated=bool(terminated),
        )
        total, obs = total + float(reward), next_obs
        if terminated or truncated:
            returns.append(total)
            (obs, _), total = env.reset(), 0.0
        if step >= config.learning_starts and step % config.steps_per_update == 0:
            updates += 1
            loss = update(online, target, optimiser, replay.sample(config.batch_size, rng), config, updates)
        if step % 2_500 == 0 or step == config.total_steps:
            greedy = greedy_return(online, 20, seed)
            recent = np.mean(returns[-20:])
            print(f"{step:>7} steps   last 20 {recent:6.1f}   greedy {greedy:6.1f}   loss {loss:.3f}", flush=True)
            if greedy >= config.enough:
                break
    print(f"seed {seed}: {greedy:.1f} in 20 greedy episodes after {step} steps")
    return greedy


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
