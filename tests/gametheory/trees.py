"""Slow and simple counterparts of what trees compute, and small envs to make them from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.gametheory.tree.tree import CHANCE, TERMINAL, Behaviour, Reals, Tree


def play_through(tree: Tree, strategy: Behaviour, node: int = 0) -> Reals:
    """What everybody earns, by walking the whole tree."""
    if tree.player[node] == TERMINAL:
        return tree.payoffs[node]
    total = np.zeros(tree.num_players)
    for branch in range(tree.num_children[node]):
        child = tree.first_child[node] + branch
        if tree.player[node] == CHANCE:
            chance = tree.probability[child]
        else:
            chance = strategy[tree.sets.first_choice[tree.infoset[node]] + branch]
        total = total + chance * play_through(tree, strategy, child)
    return total


def pure_strategies(tree: Tree, player: int) -> Iterator[Behaviour]:
    """Every pure strategy of one player, as its part of a strategy."""
    sets = tree.sets
    mine = range(*tree.infosets(player).indices(len(sets)))
    offset = tree.choices(player).start
    for picks in product(*(range(sets.num_actions[i]) for i in mine)):
        part = np.zeros(tree.choices(player).stop - offset)
        part[[sets.first_choice[i] - offset + a for i, a in zip(mine, picks, strict=True)]] = 1.0
        yield part


def best_by_enumeration(tree: Tree, strategy: Behaviour, player: int) -> float:
    """The best that any pure strategy earns."""
    return max(
        float(play_through(tree, tree.joined({player: part}, strategy))[player])
        for part in pure_strategies(tree, player)
    )


def random_strategy(tree: Tree, seed: int) -> Behaviour:
    weights = np.random.default_rng(seed).exponential(size=tree.num_choices)
    return np.asarray(weights / np.add.reduceat(weights, tree.sets.first_choice)[tree.sets.owner])


class Guess(MultiAgentEnv):
    """A coin falls by the seed. ``seer`` sees it and says 0 or 1, which pays it 0.5 if true; ``hearer`` hears that and guesses
    the coin for 1 each."""

    possible_agents = ("seer", "hearer")

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.fair = (config or {}).get("coin")
        self.coin = self.said = 0

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.coin, self.said = (seed or 0) % 4 // 3 if self.fair is None else self.fair, -1
        return {"seer": self.coin}, {"seer": {}}

    def step(self, actions: dict[str, Any]) -> StepResult:
        if self.said < 0:
            self.said = int(actions["seer"])
            return StepResult({"hearer": self.said}, {"seer": 0.5 * (self.said == self.coin)}, {}, {}, {})
        paid = float(actions["hearer"] == self.coin)
        last = {"seer": self.coin, "hearer": self.said}
        return StepResult(last, {"seer": paid, "hearer": paid}, {ALL: True}, {ALL: False}, {})
