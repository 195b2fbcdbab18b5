"""Random games of every kind that positions can hold, measured on their trees and on merged positions.

Two or three players, chance at the start and later, simultaneous moves, general sum, rewards on the way, masks, and policies
of the view alone, with a finite memory, with a whole memory, and mixtures. States transpose: several histories meet in one.

``python -m tests.gametheory.random_games --games 1000`` measures so many and prints the largest difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from marl.data.task import AgentType, Array, Floats, Ints
from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.positions import Positions, positions_of
from marl.gametheory.tree import chance
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import policies_of, strategy_of
from marl.gametheory.tree.response import best_response, expected_values
from marl.gametheory.tree.tree import Reals, Tree
from marl.policies.mixture import Mixture
from marl.policies.policy import Decision, Inputs, Policy

from .trees import random_strategy

ACTIONS, SEEN = 3, 3


class Node(NamedTuple):
    """One state at one level."""

    legal: dict[str, list[int]]  # of those who are asked
    seen: dict[str, int]
    after: dict[tuple[int, ...], tuple[list[int], list[dict[str, float]]]]  # by joint action, each by course of chance


class RandomGame(MultiAgentEnv):
    """A game drawn from ``seed``: levels of a few states each, every edge to some state of the next level."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        rng = np.random.default_rng([11, int((config or {}).get("seed", 0))])
        self.possible_agents = tuple(f"player_{i}" for i in range(rng.integers(2, 4)))
        self.depth = int(rng.integers(2, 6 - len(self.possible_agents) + 1))
        self.courses = int(rng.integers(1, 4))
        self.chances = rng.dirichlet(np.ones(self.courses)).tolist()
        # Chance shows in one level, and is forgotten after it: then positions of different courses merge.
        self.shows_at = int(rng.integers(0, self.depth))
        self.widths = [2, *rng.integers(2, 4, self.depth - 1).tolist(), 1]
        self.first = rng.integers(0, 2, self.courses).tolist()
        self.nodes = [[self._node(rng, level) for _ in range(self.widths[level])] for level in range(self.depth)]
        self.level = self.state_number = self.course = 0
        see = spaces.Dict({"observation": spaces.Discrete(SEEN), "action_mask": spaces.MultiBinary(ACTIONS)})
        self.see, self.do = see, spaces.Discrete(ACTIONS)

    def _node(self, rng: np.random.Generator, level: int) -> Node:
        asked = [agent for agent in self.possible_agents if rng.random() < 0.55]
        asked = asked or [str(rng.choice(self.possible_agents))]
        legal, seen = {}, {}
        for agent in asked:
            count = int(rng.integers(1, ACTIONS + 1))
            legal[agent] = sorted(rng.choice(ACTIONS, count, replace=False).tolist())
            seen[agent] = int(rng.integers(SEEN))
        after = {}
        for actions in product(*legal.values()):
            targets = rng.integers(0, self.widths[level + 1], self.courses).tolist()
            paid = []
            for _ in range(self.courses):
                amounts = np.round(rng.normal(size=len(self.possible_agents)), 2).tolist()
                paid.append(dict(zip(self.possible_agents, amounts, strict=True)))
            after[actions] = (targets, paid)
        return Node(legal, seen, after)

    def observation_space(self, agent: str) -> Any:
        return self.see

    def action_space(self, agent: str) -> Any:
        return self.do

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return list(enumerate(self.chances))

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        drawn = int(np.random.default_rng(seed).choice(self.courses, p=self.chances))
        self.course = int((options or {}).get("chance", drawn))
        self.level, self.state_number = 0, self.first[self.course]
        return self._seen(), {}

    def _seen(self) -> dict[str, Any]:
        node = self.nodes[self.level][self.state_number]
        found = {}
        for agent, actions in node.legal.items():
            mask = np.zeros(ACTIONS, np.int8)
            mask[actions] = 1
            found[agent] = {"observation": node.seen[agent], "action_mask": mask}
        return found

    def step(self, actions: dict[str, Any]) -> StepResult:
        node = self.nodes[self.level][self.state_number]
        chosen = tuple(int(actions[agent]) for agent in node.legal)
        targets, paid = node.after[chosen]
        # Before chance shows, all its courses go the same way.
        course = self.course if self.level == self.shows_at else 0
        self.state_number, rewards = targets[course], paid[course]
        self.level += 1
        if self.level > self.shows_at:
            self.course = 0
        if self.level == self.depth:
            return StepResult({}, rewards, {ALL: True}, {ALL: False}, {})
        return StepResult(self._seen(), rewards, {ALL: False}, {ALL: False}, {})

    def get_state(self) -> Any:
        return [self.level, self.state_number, self.course]

    def set_state(self, state: Any) -> None:
        self.level, self.state_number, self.course = state


# -- policies ------------------------------------------------------------------------------------------------------


class HashedPolicy(Policy):
    """Plays what a hash of its view, its last actions and its salt says; some actions never."""

    def __init__(self, kind: AgentType, salt: int, remembers: int) -> None:
        super().__init__(kind)
        self.carry_size = remembers
        self.salt: torch.Tensor
        self.register_buffer("salt", torch.tensor(salt))

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array:
        options = self.kind.columns.options
        legal = inputs.legal if inputs.legal.shape[1] else np.ones((len(inputs), options), bool)
        found = np.zeros(legal.shape)
        for i in range(len(inputs)):
            known = [int(self.salt), int(inputs.agent_index[i]), *inputs.obs[i].astype(int), *carry[i].astype(int)]
            weights = np.random.default_rng(known).exponential(size=options)
            weights = np.where(weights > 0.4, weights, 0.0) * legal[i]
            if not weights.any():
                weights = legal[i].astype(float)
            found[i] = weights / weights.sum()
        return found

    def carried(self, inputs: Inputs, carry: Floats, actions: Ints) -> Floats:
        """The last actions, newest first; 0 stands for none."""
        del inputs
        together = np.concatenate([actions[:, None] + 1, carry], axis=1)
        return together[:, : self.carry_size].astype(np.float32)

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        chances = self.probabilities(inputs, carry)
        actions = np.array([rng.choice(len(row), p=row) for row in chances])
        return Decision(actions, np.zeros(len(actions), np.float32), self.carried(inputs, carry, actions))


def mixture(kind: AgentType, salt: int, remembers: int, chances: Reals) -> Mixture:
    """Of hashed policies."""
    found = Mixture(kind, lambda: HashedPolicy(kind, salt, remembers), draws_actions=True)
    for number in range(1, len(chances)):
        found.add({"salt": np.array(salt + number)})
    found.set_chances(chances)
    return found


def random_policies(tree: Tree, seed: int) -> dict[str, Policy]:
    """A policy of a random sort for each player."""
    rng = np.random.default_rng([13, seed])
    recalling = policies_of(tree, random_strategy(tree, seed))
    found: dict[str, Policy] = {}
    for player, name in enumerate(tree.players):
        kind, salt, sort = tree.kind_of(player), int(rng.integers(1 << 30)), int(rng.integers(5))
        if sort == 0:
            found[name] = recalling[name]  # a table that remembers where views do not tell the past
        elif sort <= 2:
            found[name] = HashedPolicy(kind, salt, remembers=int(rng.integers(0, 3)))
        else:
            chances = np.append(rng.dirichlet(np.ones(sort - 1)), 0.0)  # one member is never drawn
            found[name] = mixture(kind, salt, int(rng.integers(0, 2)), chances)
    return found


# -- measuring -----------------------------------------------------------------------------------------------------


@contextmanager
def few_seeds() -> Iterator[None]:
    """What these games list is true by construction, so few seeds are compared with it: most of the time would go there."""
    before = chance.CHECKED_SEEDS, chance.CHECKED_ALIKE
    chance.CHECKED_SEEDS = chance.CHECKED_ALIKE = 2
    try:
        yield
    finally:
        chance.CHECKED_SEEDS, chance.CHECKED_ALIKE = before


class Compared(NamedTuple):
    """One game, measured twice."""

    tree: Tree
    positions: Positions
    difference: float  # the largest, of values, best responses and NashConv
    played: float  # how far a merged best response, played as a policy, is from what it is said to earn


def compare(seed: int) -> Compared:
    """A random game with random policies."""
    with few_seeds():
        tree, positions = build_tree(RandomGame, {"seed": seed}), positions_of(RandomGame, {"seed": seed})
    policies = random_policies(tree, seed)
    strategy = strategy_of(tree, policies)
    values = expected_values(tree, strategy)
    best = np.array([best_response(tree, strategy, player)[0] for player in range(tree.num_players)])
    game = MergedGame(positions)
    measured = game.measure(policies)
    apart = [measured.values - values, measured.best - best, measured.nash_conv - (best - values).sum()]
    played = []
    for player, name in enumerate(tree.players):
        earned, response = game.best_response(policies, player)
        against = strategy_of(tree, {**policies, name: response})
        played.append(expected_values(tree, against)[player] - earned)
    difference = max(float(np.abs(part).max()) for part in apart)
    return Compared(tree, positions, difference, float(np.abs(played).max()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first game")
    options = parser.parse_args()
    began, difference, played, nodes, merged = time.process_time(), 0.0, 0.0, 0, 0
    for seed in range(options.first, options.first + options.games):
        found = compare(seed)
        difference, played = max(difference, found.difference), max(played, found.played)
        nodes, merged = nodes + len(found.tree), merged + len(found.positions)
    seconds = time.process_time() - began
    print(f"{options.games} games: {nodes:,} nodes of trees, {merged:,} positions, {seconds:.0f} CPU s")
    print(f"largest difference {difference:.2e}, of played best responses {played:.2e}")


if __name__ == "__main__":
    main()
