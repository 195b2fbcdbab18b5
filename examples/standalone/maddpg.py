"""MADDPG (Lowe et al., 2017) in one file: an actor for each agent, and critics that know what everybody sees and does.

    python examples/standalone/maddpg.py [SEED]

The env: two agents and two landmarks on a plane. Both agents are paid the less, the farther each landmark is from the agent
that is nearest to it, so they have to share the landmarks out between them. They choose their velocity.

Seeds 0, 1 and 2 begin with a distance of 0.76, 0.78 and 0.76 between a landmark and the agent nearest to it, and end with
0.20, 0.25 and 0.14, after 40,000 steps and about 50 seconds on one core. The landmarks lie in a square of width 2.

    x        = (o_1, u_1, ..., o_n, u_n)                                            u_j = mu_j(o_j), tanh: -1..1
    target   = r_i + gamma Q_i'(x'),   u'_j = mu_j'(o'_j) for everybody             ' = slow copies
    critic_i = mean (Q_i(x) - target)^2
    actor_i  = -mean Q_i(x with u_i = mu_i(o_i)) + c mean (output before tanh)^2
    slow     = slow + tau (fast - slow)

`marl show maddpg` prints the same algorithm as marl runs it; a test holds the weights of both together.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    total_steps: int = 40_000
    num_envs: int = 8
    learning_starts: int = 1_000
    batch_size: int = 128
    buffer_size: int = 40_000
    gamma: float = 0.95
    tau: float = 0.01
    lr: float = 1e-3
    max_grad_norm: float = 10.0
    actor_reg: float = 1e-3
    noise: float = 0.3  # standard deviation while exploring
    hidden: tuple[int, ...] = (64, 64)


# -- the env ---------------------------------------------------------------------------------------------------------


class Spread:
    """``num_envs`` copies of the plane at once: arrays [E, A, ...]. Episodes end by the clock alone, all at the same time."""

    num_agents, limit, obs_size, action_size = 2, 25, 8, 2

    def __init__(self, num_envs: int, seed: int) -> None:
        self.rng, self.num_envs = np.random.default_rng(seed), num_envs
        self.reset()

    def reset(self) -> None:
        shape = (self.num_envs, self.num_agents, 2)
        self.place, self.landmarks, self.time = self.rng.uniform(-1, 1, shape), self.rng.uniform(-1, 1, shape), 0

    def view(self) -> np.ndarray:
        """Each agent's place, and where landmarks and the other agent are from there."""
        to_landmarks = self.landmarks[:, None] - self.place[:, :, None]
        to_other = self.place[:, ::-1] - self.place
        parts = [self.place, to_landmarks.reshape(self.num_envs, self.num_agents, -1), to_other]
        return np.concatenate(parts, axis=2).astype(np.float32)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, bool]:
        """Rewards [E, A], and whether time is up (truncated)."""
        self.place = np.clip(self.place + 0.15 * actions, -1.5, 1.5)
        distances = np.linalg.norm(self.landmarks[:, :, None] - self.place[:, None], axis=3)
        uncovered = distances.min(axis=2).sum(axis=1)
        self.time += 1
        return np.repeat(-uncovered[:, None], self.num_agents, axis=1).astype(np.float32), self.time == self.limit


# -- networks ----------------------------------------------------------------------------------------------------------


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int, last_gain: float) -> nn.Sequential:
    """Tanh layers. Orthogonal weights; a small last layer lets actions begin in the middle, where tanh is steep."""
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


class Agent:
    """One agent's networks, their slow copies, its optimisers and its replay."""

    def __init__(self, number: int, num_agents: int, obs_size: int, action_size: int, config: Config) -> None:
        self.number, self.num_agents = number, num_agents
        inputs = num_agents * (obs_size + action_size) + num_agents
        self.actor = mlp(obs_size, config.hidden, action_size, last_gain=0.01)
        self.critic = mlp(inputs, config.hidden, 1, last_gain=1.0)
        self.slow_actor, self.slow_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=config.lr, eps=1e-5)
        self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), lr=config.lr, eps=1e-5)
        self.replay = Replay(config.buffer_size)

    def q(self, critic: nn.Module, obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """[N, A, ...] of everybody to [N]. The last inputs say whose value it is, so that agents could share a critic."""
        joint = torch.cat([obs, actions], dim=2).flatten(1)
        name = torch.eye(self.num_agents)[self.number].expand(len(obs), -1)
        return critic(torch.cat([joint, name], dim=1)).squeeze(1)


# -- learning ----------------------------------------------------------------------------------------------------------


class Replay:
    """The newest joint transitions; the oldest one is overwritten first."""

    def __init__(self, size: int) -> None:
        self.size, self.added = size, 0
        self.columns: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return min(self.added, self.size)

    def add(self, **transition: np.ndarray) -> None:
        for name, value in transition.items():
            item = np.asarray(value)
            if name not in self.columns:
                self.columns[name] = np.zeros((self.size, *item.shape), item.dtype)
            self.columns[name][self.added % self.size] = item
        self.added += 1

    def sample(self, count: int, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        rows = rng.integers(0, len(self), count)
        return {name: torch.as_tensor(column[rows]) for name, column in self.columns.items()}


def update(agent: Agent, agents: list[Agent], batch: dict[str, torch.Tensor], config: Config) -> tuple[float, float]:
    """One step of an agent's critic, of its actor and of their slow copies; returns the losses of the first two.

    ``rewards`` and ``terminated`` are the agent's own. As in the authors' code each agent's copies move with its own
    update; the paper's listing moves them after everybody's.
    """
    with torch.no_grad():
        next_actions = [other.slow_actor(batch["next_obs"][:, j]).tanh() for j, other in enumerate(agents)]
        future = agent.q(agent.slow_critic, batch["next_obs"], torch.stack(next_actions, dim=1))
        wanted = batch["rewards"] + config.gamma * future * (1.0 - batch["terminated"].float())
    critic_loss = ((agent.q(agent.critic, batch["obs"], batch["actions"]) - wanted) ** 2).mean()
    step(agent.critic_optimiser, critic_loss, agent.critic, config)

    # The others' actions are those of the replay; only the own one is free to move.
    out = agent.actor(batch["obs"][:, agent.number])
    actions = torch.stack(
        [out.tanh() if j == agent.number else batch["actions"][:, j] for j in range(len(agents))], dim=1
    )
    actor_loss = config.actor_reg * (out**2).mean() - agent.q(agent.critic, batch["obs"], actions).mean()
    step(agent.actor_optimiser, actor_loss, agent.actor, config)

    with torch.no_grad():
        for slow, fast in ((agent.slow_actor, agent.actor), (agent.slow_critic, agent.critic)):
            for mine, theirs in zip(slow.parameters(), fast.parameters(), strict=True):
                mine += config.tau * (theirs - mine)
    return critic_loss.item(), actor_loss.item()


def step(optimiser: torch.optim.Optimizer, loss: torch.Tensor, network: nn.Module, config: Config) -> None:
    """Down the gradient of one network; what the loss leaves in others is cleared before they are stepped."""
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), config.max_grad_norm)
    optimiser.step()


# -- playing -----------------------------------------------------------------------------------------------------------


def act(agents: list[Agent], obs: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    with torch.no_grad():
        actions = [agent.actor(torch.as_tensor(obs[:, i])).tanh().numpy() for i, agent in enumerate(agents)]
    stacked = np.stack(actions, axis=1)
    return np.clip(stacked + noise * rng.standard_normal(stacked.shape, np.float32), -1, 1)


def step_all(env: Spread, agents: list[Agent], noise: float, rng: np.random.Generator) -> None:
    """One step of every copy into the replays."""
    obs = env.view()
    actions = act(agents, obs, noise, rng)
    rewards, truncated = env.step(actions)
    next_obs = env.view()
    for e in range(env.num_envs):
        for i, agent in enumerate(agents):
            agent.replay.add(
                obs=obs[e], actions=actions[e], rewards=rewards[e, i], next_obs=next_obs[e], terminated=np.bool_(False)
            )
    if truncated:
        env.reset()


def play_greedily(agents: list[Agent], seed: int, copies: int = 200) -> float:
    """Mean distance that is left between landmarks and the agents nearest to them at the end of an episode."""
    env, rng = Spread(copies, 10_000 + seed), np.random.default_rng(seed)
    for _ in range(env.limit):
        rewards, _ = env.step(act(agents, env.view(), 0.0, rng))
    return -float(rewards.mean()) / env.num_agents


def main(seed: int = 0, config: Config | None = None) -> float:
    """Train; returns the mean distance between a landmark and its agent when they play greedily."""
    config = config or Config()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = Spread(config.num_envs, seed)
    agents = [Agent(i, env.num_agents, env.obs_size, env.action_size, config) for i in range(env.num_agents)]
    print(f"before: {play_greedily(agents, seed):.3f} from each landmark to the nearest agent")
    for number in range(config.num_envs, config.total_steps + 1, config.num_envs):
        step_all(env, agents, config.noise, rng)
        if number < config.learning_starts:
            continue
        for agent in agents:
            losses = update(agent, agents, agent.replay.sample(config.batch_size, rng), config)
        if number % 8_000 == 0:
            left = play_greedily(agents, seed)
            print(f"{number:>7} steps   distance {left:.3f}   losses {losses[0]:.4f} {losses[1]:.3f}", flush=True)
    left = play_greedily(agents, seed)
    print(f"seed {seed}: {left:.3f} from each landmark to the nearest agent")
    return left


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
