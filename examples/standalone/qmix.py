"""QMIX (Rashid et al., 2018) in one file: agents' action values, mixed to the value of the team by a monotonic network.

    python examples/standalone/qmix.py [SEED]

The env: two agents in a small room with two exits. An exit closes behind the agent that takes it, so each has to take one of
its own. The team is paid for everyone who leaves, and sooner is better only because of the discount: QMIX learns slowly
where all values are below 0. Whoever has left is gone.

Seeds 0, 1 and 2 bring both agents out of every room in greedy play after 24,000, 12,000 and 12,000 steps, in 6 to 17 seconds
on one core.

    q_i    = Q(o_i, a_i),   0 where agent i is absent
    Q_tot  = |w2(s)| . elu(|w1(s)| q + b1(s)) + v(s)                weights >= 0: each agent's best action is best for the team
    target = r + gamma Q_tot'(s', max_a Q'(o'_i, a) of every agent)           over legal actions, chosen by Q (double)
    loss   = mean (Q_tot - target)^2

The paper's agents have a memory; these see all that matters and have none. `marl show qmix` prints the same algorithm as marl
runs it; a test holds the weights of both together.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional


@dataclass
class Config:
    total_steps: int = 60_000  # at most: it stops when all leave
    num_envs: int = 8
    learning_starts: int = 1_000
    batch_size: int = 64
    buffer_size: int = 60_000
    gamma: float = 0.9
    target_update_every: int = 100  # updates
    lr: float = 1e-3
    max_grad_norm: float = 10.0
    first_epsilon: float = 1.0
    last_epsilon: float = 0.05
    epsilon_steps: int = 8_000
    hidden: tuple[int, ...] = (64, 64)
    mixing: int = 32  # hidden units of the mixer


# -- the env ---------------------------------------------------------------------------------------------------------


class Exits:
    """``num_envs`` copies of the room at once: arrays [E, A, ...].

    Agents see their place, and where the exits and the others are; walls make moves illegal.
    """

    num_agents, size, limit, num_actions = 2, 4, 12, 5
    exits = np.array([[0, 0], [3, 3]])
    moves = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
    obs_size = 2 + 2 * 3 + 2 * 3
    state_size = 2 * 2 + 2 + 2 + 1

    def __init__(self, num_envs: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.place = np.zeros((num_envs, self.num_agents, 2), np.int64)
        self.inside = np.zeros((num_envs, self.num_agents), bool)
        self.open = np.zeros((num_envs, len(self.exits)), bool)
        self.time = np.zeros(num_envs, np.int64)
        self.reset(np.arange(num_envs))

    def reset(self, copies: np.ndarray) -> None:
        self.place[copies] = self.rng.integers(1, 3, (len(copies), self.num_agents, 2))
        self.inside[copies], self.open[copies], self.time[copies] = True, True, 0

    def view(self) -> dict[str, np.ndarray]:
        """What agents see, their legal actions, who is there, and the state of everything."""
        to_exits = self.exits[None, None] - self.place[:, :, None]
        to_others = self.place[:, None] - self.place[:, :, None]
        shape = (*self.inside.shape, -1)
        is_open = np.broadcast_to(self.open[:, None], to_exits.shape[:3])
        is_inside = np.broadcast_to(self.inside[:, None], to_others.shape[:3])
        parts = [
            self.place / 3, (to_exits / 3 * is_open[..., None]).reshape(shape), is_open,
            (to_others / 3 * is_inside[..., None]).reshape(shape), is_inside,
        ]  # fmt: skip
        there = self.place[:, :, None] + self.moves
        state = [self.place.reshape(len(self.place), -1) / 3, self.open, self.inside, self.time[:, None] / self.limit]
        return {
            "obs": np.concatenate(parts, axis=2).astype(np.float32),
            "legal": ((there >= 0) & (there < self.size)).all(axis=-1),
            "there": self.inside.copy(),
            "state": np.concatenate(state, axis=1).astype(np.float32),
        }

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The team's rewards [E], whether all have left (terminated), and whether time is up (truncated)."""
        before = self.inside.sum(axis=1)
        self.place += np.where(self.inside[..., None], self.moves[actions], 0)
        for agent in range(self.num_agents):  # of several at one exit the first one gets through
            for i, place in enumerate(self.exits):
                through = self.inside[:, agent] & (self.place[:, agent] == place).all(axis=1) & self.open[:, i]
                self.inside[:, agent] &= ~through
                self.open[:, i] &= ~through
        after = self.inside.sum(axis=1)
        self.time += 1
        return (before - after).astype(np.float32), after == 0, (after > 0) & (self.time == self.limit)


# -- networks ----------------------------------------------------------------------------------------------------------


class AgentValues(nn.Module):
    """Action values, shared by all agents; the last inputs tell which agent it is."""

    def __init__(self, num_agents: int, obs_size: int, num_actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.num_agents, inputs = num_agents, obs_size + num_agents
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(inputs, width), nn.Tanh()]
            inputs = width
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, num_actions))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """[N, A, obs_size] to [N, A, num_actions]."""
        names = torch.eye(self.num_agents).expand(len(obs), -1, -1)
        return self.layers(torch.cat([obs, names], dim=2))


class Mixer(nn.Module):
    """The team's value, rising with that of every agent; the state decides how."""

    def __init__(self, num_agents: int, state_size: int, mixing: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(state_size, num_agents * mixing)
        self.b1 = nn.Linear(state_size, mixing)
        self.w2 = nn.Linear(state_size, mixing)
        self.v = nn.Sequential(nn.Linear(state_size, mixing), nn.ReLU(), nn.Linear(mixing, 1))

    def forward(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """[N, A] and [N, state_size] to [N]."""
        w1 = self.w1(state).abs().reshape(*values.shape, -1)
        hidden = functional.elu((values.unsqueeze(2) * w1).sum(dim=1) + self.b1(state))
        return (hidden * self.w2(state).abs()).sum(dim=1) + self.v(state).squeeze(1)


class Team(nn.Module):
    """Both of them; the target is a copy of it."""

    def __init__(self, env: type[Exits], config: Config) -> None:
        super().__init__()
        self.agents = AgentValues(env.num_agents, env.obs_size, env.num_actions, config.hidden)
        self.mixer = Mixer(env.num_agents, env.state_size, config.mixing)


# -- learning ----------------------------------------------------------------------------------------------------------


class Replay:
    """The newest transitions of the team; the oldest one is overwritten first."""

    def __init__(self, size: int) -> None:
        self.size, self.added = size, 0
        self.columns: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return min(self.added, self.size)

    def add(self, **transition: np.ndarray) -> None:
        for name, item in transition.items():
            if name not in self.columns:
                self.columns[name] = np.zeros((self.size, *item.shape), item.dtype)
            self.columns[name][self.added % self.size] = item
        self.added += 1

    def sample(self, count: int, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        rows = rng.integers(0, len(self), count)
        return {name: torch.as_tensor(column[rows]) for name, column in self.columns.items()}


def update(
    team: Team,
    target: Team,
    optimiser: torch.optim.Optimizer,
    batch: dict[str, torch.Tensor],
    config: Config,
    number: int,
) -> float:
    """Gradient step ``number`` (from 1 on), and a new copy of the networks where it is time; returns the loss.

    ``terminated`` says that nothing comes after the transition for anybody; agents that are truncated are still there in
    ``next_there``, because their future has a value.
    """
    chosen = team.agents(batch["obs"]).gather(2, batch["actions"].unsqueeze(2)).squeeze(2)
    total = team.mixer(chosen * batch["there"], batch["state"])
    with torch.no_grad():
        online = team.agents(batch["next_obs"]).masked_fill(~batch["next_legal"], -1e9)
        best = online.argmax(dim=2, keepdim=True)
        future = target.agents(batch["next_obs"]).gather(2, best).squeeze(2)
        next_total = target.mixer(future * batch["next_there"], batch["next_state"])
        wanted = batch["rewards"] + config.gamma * next_total * (1.0 - batch["terminated"].float())
    loss = ((total - wanted) ** 2).mean()

    optimiser.zero_grad()
    loss.backward()
    # Agents and mixer are clipped apart: a steep mixer does not slow the agents down.
    nn.utils.clip_grad_norm_(team.agents.parameters(), config.max_grad_norm)
    nn.utils.clip_grad_norm_(team.mixer.parameters(), config.max_grad_norm)
    optimiser.step()
    if number % config.target_update_every == 0:
        target.load_state_dict(team.state_dict())
    return loss.item()


# -- playing -----------------------------------------------------------------------------------------------------------


def act(team: Team, view: dict[str, np.ndarray], epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """The best legal action of each agent; with the chance ``epsilon`` any legal one."""
    with torch.no_grad():
        values = team.agents(torch.as_tensor(view["obs"])).numpy()
    best = np.where(view["legal"], values, -np.inf).argmax(axis=2)
    drawn = np.where(view["legal"], rng.random(values.shape), -np.inf).argmax(axis=2)
    return np.where(rng.random(best.shape) < epsilon, drawn, best)


def step_all(env: Exits, team: Team, replay: Replay, epsilon: float, rng: np.random.Generator) -> None:
    """One step of every copy into the replay."""
    view = env.view()
    actions = act(team, view, epsilon, rng)
    rewards, terminated, truncated = env.step(actions)
    after = {f"next_{name}": column for name, column in env.view().items()}
    columns = {**view, "actions": actions, "rewards": rewards, "terminated": terminated, **after}
    for e in range(len(rewards)):
        replay.add(**{name: column[e] for name, column in columns.items()})
    env.reset(np.flatnonzero(terminated | truncated))


def play_greedily(team: Team, seed: int, copies: int = 200) -> float:
    """How many agents have left in time: mean over one episode of each copy."""
    env, rng = Exits(copies, 10_000 + seed), np.random.default_rng(seed)
    for _ in range(env.limit):
        env.step(act(team, env.view(), 0.0, rng))
    return float((~env.inside).sum(axis=1).mean())


def main(seed: int = 0, config: Config | None = None) -> float:
    """Train; returns how many of the two agents leave in time when they play greedily."""
    config = config or Config()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env, team = Exits(config.num_envs, seed), Team(Exits, config)
    target = copy.deepcopy(team)
    optimiser = torch.optim.Adam(team.parameters(), lr=config.lr, eps=1e-5)
    replay, updates, loss = Replay(config.buffer_size), 0, 0.0
    for step in range(config.num_envs, config.total_steps + 1, config.num_envs):
        share = min(1.0, step / config.epsilon_steps)
        epsilon = config.first_epsilon + share * (config.last_epsilon - config.first_epsilon)
        step_all(env, team, replay, epsilon, rng)
        if step >= config.learning_starts:
            updates += 1
            loss = update(team, target, optimiser, replay.sample(config.batch_size, rng), config, updates)
        if step % 2_000 == 0 or step + config.num_envs > config.total_steps:
            left = play_greedily(team, seed)
            print(f"{step:>7} steps   {left:.2f} of 2 agents leave   loss {loss:.3f}", flush=True)
            if left >= 1.99:
                break
    print(f"seed {seed}: {left:.2f} of 2 agents leave after {step} steps")
    return left


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
