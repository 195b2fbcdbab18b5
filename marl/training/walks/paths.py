"""Single courses of many games: ESCHER's way, in which values of histories tell what other actions would have earned.

The looking agent plays all legal actions alike, whatever the iteration: a fixed policy, under which every decision is seen
equally often for ever, so that regrets need no weights. Between two of its decisions

    rewards = sum_k gamma^k r_k,    discount = gamma ** elapsed (0 where no decision follows)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marl.algos.deep_cfr.networks import all_legal
from marl.data.task import AgentType, Bools, Floats, Ints
from marl.envs.batched import BatchedEnv
from marl.gametheory.tree.env_walker import Sight, sight_of
from marl.gametheory.tree.tree import Reals
from marl.policies.networks import one_hot_sizes
from marl.policies.policy import Inputs
from marl.training.walks.cast import NOBODY, Cast, Rows, WalkJob, as_columns, drawn


@dataclass
class Moment:
    """One step of all games."""

    asked: Ints  # games in which the looking agent decided
    inputs: Inputs  # what it saw there
    chances: Floats  # [len(asked), actions] what it would play
    taken: Ints  # [len(asked)] what it did
    history: Floats  # [games, width] what everybody saw
    rewards: Reals  # [games] what it was paid


def follow(env: BatchedEnv, job: WalkJob, cast: Cast, horizon: int | None) -> None:
    """One course per seed, to its end; decisions of the looking agent with what came of them."""
    ids = np.arange(env.num_envs)
    sight, histories = sight_of(env.reset(ids, job.seeds)), Histories(cast.kinds, env.lifted)
    going = np.ones(env.num_envs, bool)
    moments: list[Moment] = []
    while going.any():
        actions = cast.others_act(sight, job.seat, going)
        moment = _decide(cast, sight, job.seat, going, histories.seen(sight))
        actions[moment.asked, job.seat] = moment.taken
        sight = sight_of(env.step(cast.columns(actions)))
        cast.games.env_steps += int(going.sum())
        moment.rewards = np.where(going, sight.rewards[:, job.seat], 0.0)
        moments.append(moment)
        over = sight.over | (horizon is not None and len(moments) >= horizon)
        going &= ~over
        if going.any():
            sight = _begun_again(env, sight, job)
    cast.games.regrets += _fold(moments, job.gamma)


def play(env: BatchedEnv, job: WalkJob, cast: Cast, horizon: int | None) -> None:
    """Games in which nobody looks for regrets: all play what they play now, for the average policies alone."""
    sight, going, steps = sight_of(env.reset(np.arange(env.num_envs), job.seeds)), np.ones(env.num_envs, bool), 0
    while going.any():
        sight = sight_of(env.step(cast.columns(cast.others_act(sight, NOBODY, going))))
        cast.games.env_steps += int(going.sum())
        steps += 1
        going &= ~(sight.over | (horizon is not None and steps >= horizon))
        if going.any():
            sight = _begun_again(env, sight, job)


def _begun_again(env: BatchedEnv, sight: Sight, job: WalkJob) -> Sight:
    """Games that are over play on beside the others, but nobody looks. They too have to be told actions that are legal."""
    ended = np.flatnonzero(sight.over)
    if ended.size:
        begun = sight_of(env.reset(ended, job.seeds[ended]))
        for mine, new in zip((*sight.legal, sight.present), (*begun.legal, begun.present), strict=True):
            mine[ended] = new[ended]
    return sight


def _decide(cast: Cast, sight: Sight, seat: int, going: Bools, history: Floats) -> Moment:
    asked = np.flatnonzero(sight.present[:, seat] & going)
    inputs, options = cast.inputs(sight, seat, asked), cast.options(seat)
    if not asked.size:
        nothing = np.zeros((0, options), np.float32)
        return Moment(asked, inputs, nothing, asked, history, np.zeros(0))
    chances = cast.strategy(inputs, seat).astype(np.float32)
    taken = drawn(all_legal(inputs.legal, options).astype(np.float64), cast.rng)
    cast.games.decisions += asked.size
    return Moment(asked, inputs, chances, taken, history, np.zeros(0))


def _fold(moments: Sequence[Moment], gamma: float) -> list[Rows]:
    """Rewards up to the next decision, and what was seen there, from the ends to the beginning."""
    rows: list[Rows] = []
    games = len(moments[0].history)
    rewards, discount = np.zeros(games), np.zeros(games)
    new_history = np.zeros_like(moments[0].history)
    new_chances = np.zeros((games, moments[0].chances.shape[1]), np.float32)
    for moment in reversed(moments):
        rewards = moment.rewards + gamma * rewards
        discount = gamma * discount
        at = moment.asked
        if not at.size:
            continue
        rows.append({
            **as_columns(moment.inputs), "actions": moment.taken, "chances": moment.chances, "history": moment.history[at],
            "rewards": rewards[at].astype(np.float32), "discount": discount[at].astype(np.float32),
            "new_history": new_history[at], "new_chances": new_chances[at],
        })  # fmt: skip
        rewards[at], discount[at] = 0.0, 1.0
        new_history[at], new_chances[at] = moment.history[at], moment.chances
    return rows


class Histories:
    """What all agents see at a moment, side by side as numbers. Of an agent that is not asked, a dict env shows nothing: there
    the last that it saw stands."""

    def __init__(self, kinds: Sequence[AgentType], keep_last: bool) -> None:
        self.kinds, self.keep_last = kinds, keep_last
        self.last: list[Floats] = []

    def seen(self, sight: Sight) -> Floats:
        shown = [_numbers(kind, column) for kind, column in zip(self.kinds, sight.obs, strict=True)]
        if self.keep_last and self.last:
            for k, kind in enumerate(self.kinds):
                absent = ~sight.present[:, kind.seats]
                shown[k][absent] = self.last[k][absent]
        self.last = shown
        flat = [column.reshape(len(column), -1) for column in shown]
        return np.concatenate(flat, axis=1)


def _numbers(kind: AgentType, obs: NDArray[np.generic]) -> Floats:
    """Observations ``[n, A_k, width]`` as numbers; choices as one-hot."""
    sizes = one_hot_sizes(kind.observation_space)
    if not sizes:
        return obs.astype(np.float32)
    parts = [np.eye(size, dtype=np.float32)[obs[:, :, i].astype(np.int64)] for i, size in enumerate(sizes)]
    return np.concatenate(parts, axis=2)
