"""The tree of any small env.

From every position all joint actions are played. Agents that move at once are asked one after the other, and the later
one's information set does not hold what the earlier one did. Every agent is a player; what it was paid on the way is added
up at the end. Chance comes in one of these ways (``chance.py``):

* ``exact``: the env lists what chance can do with its probabilities (``chance_outcomes()`` of a dict env, a native
  ``DealtEnv``); the root is the chance move over it. Games of OpenSpiel tell theirs where it comes up (``openspiel.py``).
* ``sampled``: reset seeds are played through until nothing new comes up. The game that is solved then is the sampled one, and
  every number read from it has an error (``sampled.py``), also where all seeds play alike: rare chance may not have been seen.
* ``none``: the env says that nothing is random (one outcome of probability 1; ``deterministic`` of a native env).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import AgentType
from marl.envs.adapters.openspiel import OpenSpielEnv
from marl.envs.batched import BatchedEnv
from marl.envs.registry import EnvCreator, make_batched_env
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError
from marl.gametheory.tree.below import TreeGrowth
from marl.gametheory.tree.chance import grow_all
from marl.gametheory.tree.openspiel import MAX_NODES, tree_from_openspiel
from marl.gametheory.tree.tree import Tree


def build_tree(
    env: str | EnvCreator,
    env_config: Mapping[str, Any] | None = None,
    *,
    chance_samples: int | None = None,
    max_nodes: int = MAX_NODES,
    action_names: Sequence[str] = (),
) -> Tree:
    """The tree of an env: its name (or class, or function) and its ``env_config``.

    ``chance_samples`` reset seeds 0, 1, ... stand for chance; without it chance is as the env lists it, or as many seeds as
    it takes. ``action_names`` name the actions 0, 1, ... in exports and tables.
    """
    config = dict(env_config or {})

    def make(env_ids: int) -> BatchedEnv:
        return make_batched_env(env, env_ids, config, with_state=False)

    batched_env = make(1)
    check_players(batched_env.name, batched_env.kinds, batched_env.fixed_seats, chance_samples)
    labels = [_labels(kind, action_names) for kind in batched_env.kinds for _ in kind.agents]
    inner = batched_env.envs[0] if isinstance(batched_env, DictVector) else None
    # OpenSpiel's states tell their chance moves with probabilities, which no reset seed does.
    if chance_samples is None and isinstance(inner, OpenSpielEnv):
        return tree_from_openspiel(inner.game, max_nodes=max_nodes, labels=labels if action_names else None)
    growth = TreeGrowth(batched_env.name, tuple(batched_env.seat_names), max_nodes)
    growth.add(np.array([-1]), np.zeros(1, np.int64))
    chance, sample = grow_all(growth, make, batched_env, chance_samples)
    return growth.finish(chance, batched_env.kinds, labels, sample)


def check_players(name: str, kinds: Sequence[AgentType], fixed_seats: bool, chance_samples: int | None) -> None:
    """Refuse envs whose players or actions cannot be listed."""
    if chance_samples is not None and chance_samples < 1:
        raise ConfigError(
            f"chance_samples is {chance_samples}; expected the number of reset seeds to play, at least 1."
        )
    if not fixed_seats:
        raise ConfigError(
            f"env {name!r}: agents come and go under new names, so there is no fixed list of players. Trees need an env "
            "with possible_agents."
        )
    for kind in kinds:
        if kind.columns.numbers or kind.action_shape:
            raise ConfigError(
                f"env {name!r}: agents {kind.agents[0]!r}, ... have the actions {kind.action_space}. A tree needs Discrete "
                "actions: wrap the env so that each joint choice is one number."
            )


def _labels(kind: AgentType, names: Sequence[str]) -> list[str]:
    count = kind.columns.options
    if names and len(names) < count:
        raise ConfigError(
            f"action_names has {len(names)} name(s), {', '.join(map(repr, names))}, and {kind.agents[0]!r} has {count} "
            "actions; expected a name for every action. Leave action_names out to number them."
        )
    # More names than actions are fine: players of one game may have different numbers of actions.
    return [*names[:count]] or [*map(str, range(count))]
