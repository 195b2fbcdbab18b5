"""External sampling (Lanctot et al., 2009), many games at once: Deep CFR's way to regrets.

Where the looking agent decides, a position becomes as many as there are legal actions; where others decide, each draws one.
All games are stepped together, level by level, as rows of states of the env. Back from the ends:

    v(u) = r + gamma v(next),    v = sum_u sigma(u) v(u),    regret(u) = v(u) - v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marl.algos.deep_cfr.networks import all_legal
from marl.data.task import Ints
from marl.errors import ConfigError
from marl.gametheory.tree.env_walker import OneCopy, Sight, Stage, Start, States, joined, sight_of
from marl.gametheory.tree.tree import Reals
from marl.policies.policy import Inputs
from marl.training.walks.cast import Cast, Rows, WalkJob, as_columns


@dataclass
class Level:
    """Positions at one step of all games, and the positions that followed from them."""

    asked: Ints  # of the positions, those in which the looking agent decided
    inputs: Inputs  # what it saw there
    chances: NDArray[np.float64]  # [n, actions] of the looking agent; 0 where it was not asked
    parent: Ints  # [m] of each position that followed
    taken: Ints  # [m] the looking agent's action that led there; -1 where it was not asked
    rewards: Reals  # [m] what it was paid
    on: Ints  # of these, those in which the game goes on: the positions of the next level


def traverse(stage: Stage, job: WalkJob, cast: Cast, horizon: int | None) -> None:
    """Every legal action of one agent, one drawn action of the others; regrets of all its decisions."""
    states, sight = starts(stage, job.seeds)
    levels: list[Level] = []
    while len(sight.over):
        level, actions = _branch(cast, sight, job.seat)
        if len(level.parent) > job.max_branches * len(job.seeds):
            raise too_large(job.max_branches)
        states, sight = stage.step(stage.take(states, level.parent), cast.columns(actions))
        cast.games.env_steps += len(level.parent)
        cut = horizon is not None and len(levels) + 1 >= horizon
        level.rewards, level.on = sight.rewards[:, job.seat], np.flatnonzero(~sight.over & (not cut))
        states, sight = stage.take(states, level.on), _some(sight, level.on)
        levels.append(level)
    cast.games.regrets += _fold(levels, job.gamma)


def starts(stage: Stage, seeds: Ints) -> tuple[States, Sight]:
    """One position per seed."""
    if isinstance(stage, OneCopy):
        begun = [stage.start(Start(seed)) for seed in seeds.tolist()]
        states = [state for found, _ in begun for state in found]
        return states, joined([sight for _, sight in begun])
    env = stage.make(len(seeds))  # type: ignore[attr-defined]
    sight = sight_of(env.reset(np.arange(len(seeds)), seeds))
    return env.get_state(), sight


def _branch(cast: Cast, sight: Sight, seat: int) -> tuple[Level, Ints]:
    """Who follows from whom, and the joint actions ``[m, seats]`` that lead there."""
    count, options = len(sight.over), cast.options(seat)
    others = cast.others_act(sight, seat, np.ones(count, bool))
    asked = np.flatnonzero(sight.present[:, seat])
    inputs = cast.inputs(sight, seat, asked)
    chances, open_to = np.zeros((count, options)), np.zeros((count, options), bool)
    open_to[:, 0] = True  # where the agent is not asked one position follows
    if asked.size:
        chances[asked] = cast.strategy(inputs, seat)
        open_to[asked] = all_legal(inputs.legal, options)
        cast.games.decisions += asked.size
    parent, taken = np.nonzero(open_to)
    actions = others[parent]  # others draw once per position, before the branches part
    actions[:, seat] = taken
    taken = np.where(sight.present[parent, seat], taken, -1)
    return Level(asked, inputs, chances, parent, taken, np.zeros(0), np.zeros(0, np.int64)), actions


def _fold(levels: Sequence[Level], gamma: float) -> list[Rows]:
    """Values from the ends to the beginning, and regrets of all decisions on the way."""
    rows: list[Rows] = []
    value: Reals = np.zeros(0)
    for level in reversed(levels):
        after = level.rewards.astype(np.float64)
        after[level.on] += gamma * value
        chosen = level.taken >= 0
        weight = np.where(chosen, level.chances[level.parent, level.taken], 1.0)
        value = np.asarray(np.bincount(level.parent, weight * after, len(level.chances)), np.float64)
        each = np.zeros_like(level.chances)
        each[level.parent[chosen], level.taken[chosen]] = after[chosen]
        regrets = (each - value[:, None])[level.asked]
        regrets[~all_legal(level.inputs.legal, each.shape[1])] = 0.0
        if level.asked.size:
            rows.append({**as_columns(level.inputs), "target": regrets.astype(np.float32)})
    return rows


def branches(stage: Stage, cast: Cast, seat: int, seeds: Ints, horizon: int | None) -> float:
    """Ends of one traversal, on average, estimated from single courses (Knuth, 1975): the product of choices on the way."""
    states, sight = starts(stage, seeds)
    leaves, steps, game = np.ones(len(seeds)), 0, np.arange(len(seeds))
    while len(sight.over):
        actions = cast.others_act(sight, seat, np.ones(len(sight.over), bool))
        asked = np.flatnonzero(sight.present[:, seat])
        if asked.size:
            allowed = all_legal(cast.inputs(sight, seat, asked).legal, cast.options(seat)).astype(np.float64)
            leaves[game[asked]] *= allowed.sum(axis=1)
            actions[asked, seat] = (allowed * cast.rng.random(allowed.shape)).argmax(axis=1)
        states, sight = stage.step(states, cast.columns(actions))
        steps += 1
        on = np.flatnonzero(~sight.over & (horizon is None or steps < horizon) & (leaves[game] < HOPELESS))
        states, sight, game = stage.take(states, on), _some(sight, on), game[on]
    return float(leaves.mean())


HOPELESS = 1e12
"""So many ends that nobody has to know how many more there are."""


def _some(sight: Sight, rows: Ints) -> Sight:
    """Some of the positions."""
    return Sight(
        [column[rows] for column in sight.obs], [column[rows] for column in sight.legal], sight.present[rows],
        sight.rewards[rows], sight.over[rows],
    )  # fmt: skip


def too_large(most: int) -> ConfigError:
    return ConfigError(
        f"deep_cfr plays every action of an agent, and one traversal of this env is spread over more than max_branches "
        f"({most:,}) positions. Use escher, which plays one action at a time, or set a larger max_branches."
    )
