"""A small world that writes down what happened in it, and the textbook's algorithms on what it wrote: one value at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import MultiAgentEnv, StepResult

STATES, ACTIONS, LIMIT = 5, 3, 9
OFTEN, SELDOM = "often", "seldom"


class Choice(NamedTuple):
    """A decision and what came of it."""

    state: int
    action: int
    rewards: list[float]  # of the env steps until it was asked again
    later: int
    end: str  # "", "terminated" or "truncated"


class Logged(MultiAgentEnv):
    """Two agents wander at random and are paid at random. One is asked in every step, the other in some; episodes are terminated,
    or truncated after a while."""

    possible_agents = (OFTEN, SELDOM)
    told: ClassVar[dict[AgentID, list[Choice]]] = {OFTEN: [], SELDOM: []}

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        self.rng = np.random.default_rng(0)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return spaces.Discrete(STATES)

    def action_space(self, agent: AgentID) -> AnySpace:
        return spaces.Discrete(ACTIONS)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        self.rng, self.clock = np.random.default_rng(seed), 0
        self.open: dict[AgentID, tuple[int, int, list[float]]] = {}
        self.states = dict.fromkeys(self.possible_agents, 0)
        return dict(self.states), {}

    def step(self, actions: dict[AgentID, Any]) -> StepResult:
        for agent, action in actions.items():
            self.open[agent] = (self.states[agent], int(action), [])
        self.clock += 1
        drawn = self.rng.random(4)
        terminated = bool(drawn[0] < 0.15)
        truncated = not terminated and self.clock == LIMIT
        asked = [OFTEN, SELDOM] if drawn[1] < 0.4 or terminated or truncated else [OFTEN]
        rewards: dict[AgentID, float] = {}
        for agent, luck in zip(self.possible_agents, drawn[2:], strict=True):
            state, action, paid = self.open[agent]
            rewards[agent] = float(np.float32(luck + action - state))
            paid.append(rewards[agent])
        end = "terminated" if terminated else "truncated" if truncated else ""
        for agent in asked:
            state, action, paid = self.open[agent]
            self.states[agent] = int(self.rng.integers(STATES))
            self.told[agent].append(Choice(state, action, paid, self.states[agent], end))
        obs = {agent: self.states[agent] for agent in asked}
        return StepResult(obs, rewards, {"__all__": terminated}, {"__all__": truncated}, {})


def folded(rewards: Sequence[float], gamma: float) -> float:
    return sum(gamma**k * reward for k, reward in enumerate(rewards))


def by_hand(choices: Sequence[Choice], rule: str, lr: float, gamma: float, epsilon: float) -> Array:
    """Q-learning and Sarsa as the book writes them."""
    q = np.zeros((STATES, ACTIONS))
    for choice, after in zip(choices, [*choices[1:], None], strict=True):
        if after is None and not choice.end and rule == "sarsa":
            break  # its next action has not been played
        best = q[choice.later].max()
        if rule == "sarsa" and not choice.end:
            assert after is not None
            value = q[choice.later, after.action]
        elif rule == "sarsa":  # cut off: the mean over epsilon-greedy play
            greedy = q[choice.later] == best
            value = (1 - epsilon) * best + epsilon * q[choice.later].mean()
            assert greedy.any()
        else:
            value = best
        if choice.end == "terminated":
            value = 0.0
        target = folded(choice.rewards, gamma) + gamma ** len(choice.rewards) * value
        q[choice.state, choice.action] += lr * (target - q[choice.state, choice.action])
    return q


def episodes(choices: Sequence[Choice]) -> Iterator[list[Choice]]:
    """Whole ones."""
    running: list[Choice] = []
    for choice in choices:
        running.append(choice)
        if choice.end:
            yield running
            running = []


def mean_returns(choices: Sequence[Choice], gamma: float, first_visit: bool) -> Array:
    """Monte Carlo as the book writes it: the mean of all returns that followed a state and action."""
    found: dict[tuple[int, int], list[float]] = {}
    for episode in episodes(choices):
        seen: set[tuple[int, int]] = set()
        for i, choice in enumerate(episode):
            cell = (choice.state, choice.action)
            rest = [reward for later in episode[i:] for reward in later.rewards]
            if not (first_visit and cell in seen):
                found.setdefault(cell, []).append(folded(rest, gamma))
            seen.add(cell)
    q = np.zeros((STATES, ACTIONS))
    for cell, returns in found.items():
        q[cell] = np.mean(returns)
    return q
