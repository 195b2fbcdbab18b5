"""Policies judged by recorded episodes: what they would earn in the place of those who played then.

Judged are all policies that learn, together: the ratio of a step is the product over all of their agents that decided in it.
Agents of others (scripted policies) play as they were recorded. A policy's value is what its agents earn together, as
``policy_reward_mean``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from marl.data.task import AgentType, Array, Bools, Floats, Ints, PolicyID
from marl.errors import ConfigError, DataError
from marl.offline.described_steps import describe_steps
from marl.offline.estimators import Doubles, LoggedEpisodes, estimate, interval
from marl.offline.trajectories import TOLD, Trajectories
from marl.policies.policy import Inputs, Policy
from marl.policies.strategy import Strategy, strategy_of

SLICE = 4_096  # decisions that a policy is asked about at once
Block: TypeAlias = dict[str, Any]


class Decisions(NamedTuple):
    """Decisions of one policy's agents in the recordings: where they stand, and what the policy makes of them."""

    kind: AgentType
    rows: Ints  # [N] env steps
    seats: Ints  # [N]
    strategy: Strategy


class Judge:
    """Recorded episodes, and who plays each seat of them: ``playing`` ``[n, A]`` are places in ``policies``."""

    def __init__(
        self, data: Trajectories, policies: Mapping[PolicyID, Policy], judged: Sequence[PolicyID], playing: Ints
    ) -> None:
        self.data, self.policies = data, policies
        self.playing = np.repeat(playing, data.lengths, axis=0)  # [S, A]
        places = {name: place for place, name in enumerate(policies)}
        # Of a policy whose agents never came to decide there is nothing to tell.
        deciding = set(np.unique(self.playing[data.columns["present"]]).tolist())
        self.judged = {name: places[name] for name in judged if places[name] in deciding}
        if not self.judged:
            raise DataError(f"the recordings hold no decision of a policy that is judged: {', '.join(judged)}.")
        for name in self.judged:
            self._check(name)

    def _check(self, name: PolicyID) -> None:
        """Refuse what cannot be judged, before anything is learned."""
        if self.policies[name].carry_size:
            raise ConfigError(
                f"policy {name!r} has a memory, and what it would have remembered of recorded episodes is not in them. Judge "
                "policies without one, or let it play: evaluation, marl rollout."
            )
        cells = self._cells(name)
        silent = np.argwhere(cells & ~self.data.columns[TOLD])
        if len(silent):
            step, seat = silent[0].tolist()
            raise DataError(
                f"{len(silent)} of {int(cells.sum())} decisions of policy {name!r} cannot be weighed, the first one in step "
                f"{step} by agent {self.data.task.seat_names[seat]!r}: the recordings do not say how likely they were. Record "
                "by policies that draw their actions (`output:` with explore, marl rollout --explore --save DIR), with the "
                "same normalize_actions, or give write_trajectories a column logp."
            )
        logp = self.data.columns["action_logp"][cells]
        if not np.isfinite(logp).all():
            raise DataError(f"the recordings' column action_logp holds NaN or infinity for policy {name!r}.")

    def _cells(self, name: PolicyID) -> Bools:
        """``[S, A]``: where the policy would decide."""
        cells: Bools = self.data.columns["present"] & (self.playing == self.judged[name])
        return cells

    def measure(self, estimators: Sequence[str], gamma: float, greedy: bool = False) -> dict[PolicyID, Block]:
        """By policy: its value by each estimator, and how much these can tell."""
        decisions = {name: self._decisions(name, greedy) for name in self.judged}
        log_ratios = self._log_ratios(decisions)

        def describe() -> tuple[Doubles, Doubles]:
            return describe_steps(self.data, list(decisions.values()))

        found: dict[PolicyID, Block] = {}
        for name in self.judged:
            episodes = LoggedEpisodes(self.data.lengths, log_ratios, self._rewards(name), gamma, describe)
            block: Block = {"recorded": interval(episodes.summed(episodes.discounts * episodes.rewards))._asdict()}
            for estimator in estimators:
                block[estimator] = estimate(estimator, episodes)._asdict()
            block |= {"episodes": len(episodes), "effective_episodes": episodes.effective}
            found[name] = block
        return found

    def _rewards(self, name: PolicyID) -> Doubles:
        """``[S]``: what the policy's agents are paid in each step, also those that have ended."""
        mine = self.playing == self.judged[name]
        paid = np.where(mine, self.data.columns["rewards"], 0.0)
        return np.asarray(paid.sum(axis=1), np.float64)

    def _log_ratios(self, decisions: Mapping[PolicyID, Decisions]) -> Doubles:
        """``[S]``: of all judged agents together."""
        total = np.zeros(self.data.env_steps)
        for made in decisions.values():
            behaviour = self.data.columns["action_logp"][made.rows, made.seats].astype(np.float64)
            np.add.at(total, made.rows, made.strategy.logp - behaviour)
        return total

    def _decisions(self, name: PolicyID, greedy: bool) -> Decisions:
        policy = self.policies[name]
        rows, seats = np.nonzero(self._cells(name))
        k = self.data.task.kinds.index(policy.kind)
        kind = self.data.task.kinds[k]
        parts = []
        for first in range(0, len(rows), SLICE):
            chosen = slice(first, first + SLICE)
            parts.append(self._asked(name, k, rows[chosen], seats[chosen] - kind.first_seat, greedy))
        joined = Strategy(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        return Decisions(kind, rows, seats, joined)

    def _asked(self, name: PolicyID, k: int, rows: Ints, columns: Ints, greedy: bool) -> Strategy:
        """What the policy makes of some decisions."""
        policy = self.policies[name]
        inputs = Inputs(self._column("obs", k, rows, columns), self._column("legal", k, rows, columns), columns)
        none: Floats = np.zeros((len(rows), 0), np.float32)
        found = strategy_of(policy, inputs, none, self._column("actions", k, rows, columns), greedy)
        if found is None:
            raise ConfigError(
                f"policy {name!r} cannot say how likely an action of {policy.kind.action_space} is: its coordinates are not "
                "drawn from a distribution, or it is a mixture. Judge it by letting it play: evaluation, marl rollout."
            )
        return found

    def _column(self, name: str, k: int, rows: Ints, columns: Ints) -> Array:
        return np.ascontiguousarray(self.data.columns[f"{name}.{k}"][rows, columns])
