"""What policies with a memory do on average where they see the same: their projection on views.

    pi_i(a | v) = mean of pi_i(a | history)     over the times that player i saw v in played episodes

A best response to projections is found exactly, although the memories themselves do not merge. It need not be the best one
against the policies as they are, but what it earns against *them* is earned: a lower bound of their exploitability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marl.data.task import AgentType, Array, Bools, Floats, Ints
from marl.envs.batched import BatchedEnv, StepOutput
from marl.gametheory.merged.positions import Positions, Views
from marl.gametheory.tree.tree import Reals
from marl.policies.policy import Inputs, Policy

LANES = 256  # episodes that are played at a time


@dataclass(frozen=True, eq=False)
class Projection:
    """Per player its mean chances ``[V, actions]``, and how often it was asked at each view ``[V]``."""

    tables: tuple[Reals, ...]
    visits: tuple[Ints, ...]


@dataclass(frozen=True)
class Player:
    """Who plays a seat, and whether it draws its actions; if not, it plays its best guess."""

    policy: Policy
    explore: bool


def project(
    positions: Positions,
    make: Callable[[int], BatchedEnv],
    players: Mapping[str, Player],
    episodes: int,
    seed: int,
) -> Projection:
    """Play so many episodes of the env that ``make`` makes. Views that nobody saw are played evenly."""
    notes = [_Notes(views) for views in positions.views]
    seated = [players[name] for name in positions.players]
    rng = np.random.default_rng([seed, 0x70726A])
    env = make(min(LANES, episodes))
    env_ids = np.arange(env.num_envs)
    # Whole batches: stopping at the first so many ends would count short episodes too often.
    for _ in range(-(-episodes // env.num_envs)):
        frame = env.reset(env_ids, rng.integers(0, 2**31 - 1, len(env_ids)))
        _play(env, frame, seated, notes, rng)
    env.close()
    return Projection(tuple(note.table() for note in notes), tuple(note.visits for note in notes))


def _play(
    env: BatchedEnv, frame: StepOutput, seated: Sequence[Player], notes: Sequence[_Notes], rng: np.random.Generator
) -> None:
    """One episode per lane; lanes whose episode has ended play another one, which is not noted."""
    running = np.ones(env.num_envs, bool)
    carries = [np.zeros((env.num_envs, player.policy.carry_size), np.float32) for player in seated]
    while running.any():
        actions = [np.zeros((env.num_envs, kind.size, *kind.action_shape), kind.action_dtype) for kind in env.kinds]
        for seat, player in enumerate(seated):
            number, kind = _kind_of(env.kinds, seat)
            lanes = np.flatnonzero(frame.present[:, seat])
            place = seat - kind.first_seat
            inputs = Inputs(
                frame.obs[number][lanes, place], frame.legal[number][lanes, place], np.full(len(lanes), place)
            )
            if lanes.size:
                decided, thought = _decide(player, inputs, carries[seat], lanes, rng)
                actions[number][lanes, place] = decided
                notes[seat].add(inputs, thought, running[lanes])
        frame = env.step(actions)
        _pay(seated, carries, frame)
        over = np.flatnonzero(frame.over)
        running[over] = False
        if over.size and running.any():
            frame = env.reset(over, rng.integers(0, 2**31 - 1, len(over)))


def _decide(
    player: Player, inputs: Inputs, carry: Floats, lanes: Ints, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The actions of one seat in some lanes, and how likely it thought each of them; its memory goes on."""
    before = carry[lanes]
    thought: Array | None = player.policy.insight(inputs, before, explore=player.explore).probabilities
    decided = player.policy.act(inputs, before, rng, explore=player.explore)
    if player.policy.carry_size:
        carry[lanes] = decided.carry
    if thought is None or not player.explore:  # what it did tells as much, with more noise
        thought = np.eye(player.policy.kind.columns.options)[decided.actions]
    return decided.actions, thought


def _pay(seated: Sequence[Player], carries: Sequence[Floats], frame: StepOutput) -> None:
    for seat, player in enumerate(seated):
        if player.policy.remembers_reward:
            carries[seat][:, -1] += frame.rewards[:, seat]


def _kind_of(kinds: Sequence[AgentType], seat: int) -> tuple[int, AgentType]:
    for number, kind in enumerate(kinds):
        if kind.seats.start <= seat < kind.seats.stop:
            return number, kind
    raise AssertionError(f"no kind of agents has the seat {seat}")


class _Notes:
    """Sums of one player's chances, by view."""

    def __init__(self, views: Views) -> None:
        self.views, self.options = views, views.legal.shape[1]
        self.total = np.zeros(views.legal.shape)
        self.visits = np.zeros(len(views.obs), np.int64)
        self.number = {key: number for number, key in enumerate(_keys(views.obs, views.legal))}

    def add(self, inputs: Inputs, chances: Array, counts: Bools) -> None:
        """Those of these decisions that count."""
        legal = inputs.legal
        if not legal.shape[1]:
            legal = np.ones((len(inputs), self.options), bool)
        found = np.array([self.number.get(key, -1) for key in _keys(inputs.obs, legal)], np.int64)
        known = counts & (found >= 0)  # where chance was sampled, play may meet what the sample did not hold
        np.add.at(self.total, found[known], np.asarray(chances, np.float64)[known])
        np.add.at(self.visits, found[known], 1)

    def table(self) -> Reals:
        legal = self.views.legal
        even = legal / legal.sum(axis=1, keepdims=True)
        chances = np.where(legal, self.total, 0.0)
        sums = chances.sum(axis=1, keepdims=True)
        return np.asarray(np.where(sums > 0, chances / np.where(sums > 0, sums, 1.0), even))


def _keys(obs: Array, legal: Bools) -> list[bytes]:
    """What a view is found by; equal numbers give equal bytes (-0.0 becomes 0.0)."""
    rows = np.ascontiguousarray(np.asarray(obs) + np.zeros((), np.asarray(obs).dtype))
    masks = np.ascontiguousarray(legal)
    return [row.tobytes() + mask.tobytes() for row, mask in zip(rows, masks, strict=True)]
