"""The tree of any small world.

From every position all joint actions are played. Agents that move at once are asked one after the other, and the later
one's information set does not hold what the earlier one did. Every agent is a player; what it was paid on the way is added
up at the end. Chance comes in one of these ways (``chance.py``):

* ``exact``: the world lists what chance can do with its probabilities (``chance_outcomes()`` of a dict world, a native
  ``DealtEnv``); the root is the chance move over it. Games of OpenSpiel tell theirs where it comes up (``openspiel.py``).
* ``sampled``: reset seeds are played through until nothing new comes up. The game that is solved then is the sampled one, and
  every number read from it has an error (``sampled.py``), also where all seeds play alike: rare chance may not have been seen.
* ``none``: the world says that nothing is random (one outcome of probability 1; ``deterministic`` of a native world).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import Kind
from marl.envs.batched import BatchedEnv, NativeEnv
from marl.envs.chance import listed_chance
from marl.envs.adapters.openspiel import OpenSpielWorld
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.vector.vector_env import DictVector
from marl.envs.registry import EnvCreator, make_world
from marl.errors import ConfigError
from marl.gametheory.tree.chance import Grown, grow_certain, grow_deals, grow_listed, grow_seeds
from marl.gametheory.tree.builder import Growth
from marl.gametheory.tree.openspiel import MAX_NODES, tree_from_openspiel
from marl.gametheory.tree.env_walker import MakeWorld
from marl.gametheory.tree.tree import Tree


def build_tree(
    env: str | EnvCreator,
    env_config: Mapping[str, Any] | None = None,
    *,
    chance_samples: int | None = None,
    max_nodes: int = MAX_NODES,
    action_names: Sequence[str] = (),
) -> Tree:
    """The tree of a world: its name (or class, or function) and its ``env_config``.

    ``chance_samples`` reset seeds 0, 1, ... stand for chance; without it chance is as the world lists it, or as many seeds as
    it takes. ``action_names`` name the actions 0, 1, ... in exports and tables.
    """
    config = dict(env_config or {})

    def make(lanes: int) -> BatchedEnv:
        return make_world(env, lanes, config, with_state=False)

    world = make(1)
    _check(world.name, world.kinds, world.fixed_seats, chance_samples)
    labels = [_labels(kind, action_names) for kind in world.kinds for _ in kind.agents]
    if chance_samples is None and isinstance(world, DictVector) and isinstance(world.envs[0], OpenSpielWorld):
        return tree_from_openspiel(world.envs[0].game, max_nodes=max_nodes, labels=labels if action_names else None)
    growth = Growth(world.name, tuple(world.seat_names), max_nodes)
    growth.add(np.array([-1]), np.zeros(1, np.int64))
    chance, sample = _grow(growth, make, world, chance_samples)
    return growth.finish(chance, world.kinds, labels, sample)


def _grow(growth: Growth, make: MakeWorld, world: BatchedEnv, chance_samples: int | None) -> Grown:
    """Chance as the world lists it, unless seeds are asked for."""
    if chance_samples is not None:
        return grow_seeds(growth, make, world, chance_samples)
    if isinstance(world, DealtEnv):
        return grow_deals(growth, make, world)
    if isinstance(world, NativeEnv) and world.deterministic:
        return grow_certain(growth, make, world)
    listed = listed_chance(world.envs[0], world.name) if isinstance(world, DictVector) else None
    return grow_seeds(growth, make, world, None) if listed is None else grow_listed(growth, make, world, listed)


def _check(name: str, kinds: Sequence[Kind], fixed_seats: bool, chance_samples: int | None) -> None:
    if chance_samples is not None and chance_samples < 1:
        raise ConfigError(
            f"chance_samples is {chance_samples}; expected the number of reset seeds to play, at least 1."
        )
    if not fixed_seats:
        raise ConfigError(
            f"env {name!r}: agents come and go under new names, so there is no fixed list of players. Trees need a world "
            "with possible_agents."
        )
    for kind in kinds:
        if kind.columns.numbers or kind.action_shape:
            raise ConfigError(
                f"env {name!r}: agents {kind.agents[0]!r}, ... have the actions {kind.action_space}. A tree needs Discrete "
                "actions: wrap the world so that each joint choice is one number."
            )


def _labels(kind: Kind, names: Sequence[str]) -> list[str]:
    count = kind.columns.options
    if names and len(names) < count:
        raise ConfigError(
            f"action_names has {len(names)} name(s), {', '.join(map(repr, names))}, and {kind.agents[0]!r} has {count} "
            "actions; expected a name for every action. Leave action_names out to number them."
        )
    return [*names[:count]] or [*map(str, range(count))]
