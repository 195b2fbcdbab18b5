"""How large a game's tree is, from random walks (Knuth, 1975).

A walk that met ``b_1, b_2, ...`` choices stands for ``1 + b_1 + b_1 b_2 + ...`` nodes, and the mean over walks is an unbiased
estimate of the tree below one course of chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.data.task import AgentType, Array, Floats
from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.registry import EnvCreator, make_batched_env
from marl.envs.vector.env_errors import close_all
from marl.gametheory.game import Payoffs
from marl.policies.policy import Inputs, Policy
from marl.policies.scripted import RandomPolicy

WALKS = 16
LONGEST = 1_000  # env steps of a walk at most


@dataclass(frozen=True)
class Walks:
    """What some random walks saw."""

    most_at_once: int  # agents that were asked in the same step
    lengths: Sequence[int]  # env steps of the walks
    nodes: float  # of the tree, estimated; walks that are cut off count as far as they went
    discrete: bool  # whether all actions are a choice among a few

    @property
    def size(self) -> str:
        """The estimate in words."""
        return f"about {float(f'{self.nodes:.2g}'):,.0f}" if self.nodes < 1e9 else "billions of"


def walks_in(env: str | EnvCreator, env_config: Mapping[str, Any] | None = None, seed: int = 0) -> Walks:
    """Random walks in an env given as in a scenario."""
    batched_env = make_batched_env(env, WALKS, dict(env_config or {}), with_state=False)
    try:
        return walk(batched_env, None, seed)
    finally:
        close_all([batched_env], batched_env.name)


def walk(batched_env: BatchedEnv, horizon: int | None, seed: int) -> Walks:
    """One walk per lane, each until its episode ends or ``horizon`` env steps are walked."""
    env_ids, rng = np.arange(batched_env.num_envs), np.random.default_rng(seed)
    policies = [RandomPolicy(kind) for kind in batched_env.kinds]
    frame = batched_env.reset(env_ids, seed + env_ids)
    walking, lengths = np.ones(len(env_ids), bool), np.zeros(len(env_ids), np.int64)
    at_once, width, nodes = 0, np.ones(len(env_ids)), np.ones(len(env_ids))
    for _ in range(min(horizon or LONGEST, LONGEST)):
        at_once = max(at_once, int(frame.present[walking].sum(axis=1).max(initial=0)))
        for seat_choices in _choices(batched_env.kinds, frame):
            with np.errstate(over="ignore"):
                width = width * seat_choices  # agents that move at once are asked one after the other
                nodes = nodes + np.where(walking & (seat_choices > 1), width, 0.0)
        frame = batched_env.step(_actions(batched_env.kinds, frame, policies, rng))
        lengths += walking
        over = np.flatnonzero(frame.over)
        walking[over] = False
        if not walking.any():
            break
        if over.size:
            frame = batched_env.reset(over, seed + len(env_ids) + over)
    discrete = all(_is_choice(kind) for kind in batched_env.kinds)
    return Walks(at_once, lengths.tolist(), float(nodes.mean()), discrete)


def _choices(kinds: Sequence[AgentType], frame: StepOutput) -> list[Payoffs]:
    """Per seat: how many actions each lane's agent has; 1 where it is not asked, infinitely many in a box."""
    found = []
    for k, kind in enumerate(kinds):
        for i in range(kind.size):
            legal = (
                frame.legal[k][:, i].sum(axis=1) if kind.masked else np.full(len(frame.present), kind.columns.options)
            )
            count = legal.astype(np.float64) if _is_choice(kind) else np.full(len(frame.present), np.inf)
            found.append(np.where(frame.present[:, kind.first_seat + i], count, 1.0))
    return found


def _is_choice(kind: AgentType) -> bool:
    return not kind.columns.numbers and not kind.action_shape


def _actions(
    kinds: Sequence[AgentType], frame: StepOutput, policies: Sequence[Policy], rng: np.random.Generator
) -> list[Array]:
    """Random legal actions of those who are asked."""
    actions: list[Array] = []
    for k, (kind, policy) in enumerate(zip(kinds, policies, strict=True)):
        column = np.zeros((len(frame.present), kind.size, *kind.action_shape), kind.action_dtype)
        env_ids, seats = np.nonzero(frame.present[:, kind.seats])
        if env_ids.size:
            inputs = Inputs(frame.obs[k][env_ids, seats], frame.legal[k][env_ids, seats], seats)
            nothing: Floats = np.zeros((env_ids.size, 0), np.float32)
            column[env_ids, seats] = policy.act(inputs, nothing, rng, explore=True).actions
        actions.append(column)
    return actions
