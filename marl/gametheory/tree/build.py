"""The tree of any small world.

From every position all joint actions are played. Agents that move at once are asked one after the other, and the later
one's information set does not hold what the earlier one did. Every agent is a player; what it was paid on the way is added
up at the end. Chance comes in one of two ways:

* ``exact``: the world lists its deals with their probabilities (``DealtEnv``); the root is the chance move over them.
* ``sampled``: everything random in an episode follows from its seed, so a seed is one course of chance. ``chance_samples``
  seeds are played through, equal ones count together, and the root draws among them with these counts. The game that
  is solved then is the sampled one, not the world itself. Where all seeds play alike there is no chance: ``none``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import Array, Bools, Ints, Kind
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.registry import EnvCreator, make_world
from marl.errors import ConfigError
from marl.gametheory.tree.growth import Asked, Growth
from marl.gametheory.tree.stages import MakeWorld, ManyLanes, Sight, Stage, States, stage_for
from marl.gametheory.tree.tree import ChanceMode, Reals, Tree

MAX_NODES = 2_000_000
CHANCE_SAMPLES = 8


def build_tree(
    env: str | EnvCreator,
    env_config: Mapping[str, Any] | None = None,
    *,
    chance_samples: int = CHANCE_SAMPLES,
    max_nodes: int = MAX_NODES,
    action_names: Sequence[str] = (),
) -> Tree:
    """The tree of a world: its name (or class, or function) and its ``env_config``.

    ``chance_samples`` is the number of reset seeds 0, 1, ... to play through where the world does not list its deals.
    ``action_names`` name the actions 0, 1, ... in exports and tables.
    """
    config = dict(env_config or {})

    def make(lanes: int) -> Any:
        return make_world(env, lanes, config, with_state=False)

    world = make(1)
    _check(world.name, world.kinds, world.fixed_seats, chance_samples)
    labels = [_labels(kind, action_names) for kind in world.kinds for _ in kind.agents]
    growth = Growth(world.name, tuple(world.seat_names), max_nodes)
    growth.add(np.array([-1]), np.zeros(1, np.int64))
    chance = (
        _grow_deals(growth, make, world) if isinstance(world, DealtEnv) else _grow_seeds(growth, make, chance_samples)
    )
    return growth.finish(chance, world.kinds, labels)


def _check(name: str, kinds: Sequence[Kind], fixed_seats: bool, chance_samples: int) -> None:
    if chance_samples < 1:
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


# -- chance --------------------------------------------------------------------------------------------------------


def _grow_deals(growth: Growth, make: MakeWorld, world: DealtEnv) -> ChanceMode:
    stage = ManyLanes(make)
    deals = np.flatnonzero(world.deal_probabilities > 0)
    probability = world.deal_probabilities[deals]
    states, sight = stage.deals(deals)
    roots = growth.add(np.zeros(len(deals), np.int64), np.arange(len(deals)), probability / probability.sum())
    _grow(growth, stage, roots, states, sight)
    return "exact" if len(deals) > 1 else "none"


def _grow_seeds(growth: Growth, make: MakeWorld, samples: int) -> ChanceMode:
    stage, found = stage_for(make), dict[bytes, int]()
    counts: list[int] = []
    for seed in range(samples):
        mark = growth.mark()
        root = growth.add(np.zeros(1, np.int64), np.array([len(counts)]))
        _grow(growth, stage, root, *stage.start(seed))
        play = growth.signature(mark)
        if play in found:
            counts[found[play]] += 1
            growth.forget(mark)
        else:
            found[play] = len(counts)
            counts.append(1)
    for chunk, parent in enumerate(growth.parent):
        if parent[0] == 0:
            growth.probability[chunk][:] = counts[int(growth.branch[chunk][0])] / samples
    return "none" if len(counts) == 1 and samples > 1 else "sampled"


# -- one world step after the other --------------------------------------------------------------------------------


def _grow(growth: Growth, stage: Stage, nodes: Ints, states: States, sight: Sight) -> None:
    """Everything below these nodes."""
    last = np.full(sight.present.shape, -1, np.int64)  # [n, P] each player's last choice
    paid = np.zeros(sight.present.shape)
    while len(nodes):
        rows, nodes, last, actions = _ask_everybody(growth, stage.kinds, nodes, last, sight)
        columns = [actions[:, kind.seats] for kind in stage.kinds]
        states, sight = stage.step(stage.take(states, rows), columns)
        paid = paid[rows] + sight.rewards
        nodes, last, paid, states, sight = _end(growth, stage, nodes, last, paid, states, sight)


def _ask_everybody(
    growth: Growth, kinds: Sequence[Kind], nodes: Ints, last: Array, sight: Sight
) -> tuple[Ints, Ints, Array, Array]:
    """Decisions of all who are present, one after the other: the positions, nodes and joint actions that follow."""
    rows = np.arange(len(nodes))
    actions = np.zeros(last.shape, np.int64)
    for kind, shown, legal in zip(kinds, sight.obs, sight.legal, strict=True):
        for i in range(kind.size):
            seat = kind.first_seat + i
            asked = sight.present[rows, seat]
            at = np.flatnonzero(asked)
            if not at.size:
                continue
            where = rows[at]
            allowed = legal[where, i] if kind.masked else np.ones((at.size, kind.columns.options), bool)
            offer = growth.decide(Asked(nodes[at], seat, last[at, seat], shown[where, i], allowed))
            index = np.concatenate([np.flatnonzero(~asked), at[offer.rows]])
            waiting = index.size - offer.rows.size
            rows, nodes, last, actions = rows[index], nodes[index], last[index], actions[index]
            nodes[waiting:], last[waiting:, seat], actions[waiting:, seat] = offer.nodes, offer.choice, offer.action
    return rows, nodes, last, actions


def _end(
    growth: Growth, stage: Stage, nodes: Ints, last: Array, paid: Reals, states: States, sight: Sight
) -> tuple[Ints, Array, Reals, States, Sight]:
    """Close the nodes where the episode is over; what goes on."""
    over: Bools = sight.over
    growth.end(nodes[over], paid[over])
    on = np.flatnonzero(~over)
    rest = Sight(
        [column[on] for column in sight.obs], [column[on] for column in sight.legal], sight.present[on],
        sight.rewards[on], sight.over[on],
    )  # fmt: skip
    return nodes[on], last[on], paid[on], stage.take(states, on), rest
