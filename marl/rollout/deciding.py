"""Asks the policies what to do: one forward pass per policy over all agents that it decides for now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marl.data.action_units import from_env
from marl.data.clock import Clock
from marl.data.task import Array, Bools, Floats, Ints, PolicyID
from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.vector.checks import EnvCheck
from marl.errors import PolicyError, UserError, let_through
from marl.policies.policy import NO_LOTS, Inputs, Policy
from marl.rollout.cells import MarkedCells, Seating, all_of, any_of
from marl.rollout.config import RolloutConfig
from marl.rollout.turns import Stacks, Turn


@dataclass(slots=True)
class Actions:
    """What all agents do in one step. Cells of absent agents mean nothing."""

    actions: list[Array]  # per kind [E, A_k, *action_shape]
    logp: Floats  # [E, A]
    carry: list[Floats]  # per kind [E, A_k, carry_size], before the decision


class Deciding:
    """The half of ``EnvRunner`` that decides; the other half, which plays, has the arrays."""

    env: BatchedEnv
    config: RolloutConfig
    policies: Sequence[Policy]
    policy_ids: Sequence[PolicyID]
    policy_of: Ints
    view: StepOutput
    carry: list[Floats]
    drawn: Mapping[PolicyID, Array]
    episode_uniform: Array
    t: Ints
    clock: Clock
    check: EnvCheck
    seating: Seating
    stacks: Stacks
    _column: list[Ints]
    _policies_of_kind: list[list[int]]
    _has_memory: bool
    _where_in: Callable[[int], str]

    def decide(self, rng: np.random.Generator, *, explore: bool) -> Actions:
        """One forward pass per policy over all agents that it decides for now."""
        present = self.view.present
        choices = Actions([], np.zeros(present.shape, np.float32), self.carry)
        if self._has_memory:
            choices.carry = [column.copy() for column in self.carry]
        if self.drawn:
            self._draw_for_new_episodes()
        kinds = self.env.kinds
        whole = self.seating.whole_columns(self.policy_of, kinds) if all_of(present) else []
        for k, kind in enumerate(kinds):
            actions = np.zeros((len(present), kind.size, *kind.action_shape), kind.action_dtype)
            choices.actions.append(actions)
            logp = choices.logp[:, kind.seats]
            turns = self.stacks.turns(k, whole[k]) if whole else []
            for turn in turns or self._turns_asked(k, present):
                decided, chances = self._take(k, turn, rng, explore)
                turn.cells.put(actions, decided)
                turn.cells.put(logp, chances)
        return choices

    def _turns_asked(self, k: int, present: Bools) -> Iterator[Turn]:
        """Policies that are asked now, and the seats of kind ``k`` for which they are."""
        seats = self.env.kinds[k].seats
        for index in self._policies_of_kind[k]:
            mine = present[:, seats] & (self.policy_of[:, seats] == index)
            if any_of(mine):
                yield Turn(index, MarkedCells(mine))

    def _take(self, k: int, turn: Turn, rng: np.random.Generator, explore: bool) -> tuple[Array, Floats]:
        """Actions of one turn, as they are stored, and their log probabilities."""
        if turn.stack is None:
            return self._act(k, turn.policy, turn.cells, rng, explore)
        cells, view = turn.cells, self.view
        inputs = Inputs(cells.rows(view.obs[k]), cells.rows(view.legal[k]), cells.rows(self._column[k]))
        self.clock.lap("raw_obs_processing")
        try:
            decided = turn.stack.act(inputs, rng, explore=explore)
        except BaseException as error:
            raise self._policy_failure(error, turn.policy, len(inputs)) from error
        self.clock.lap("inference")
        return decided

    def _act(
        self, k: int, index: int, cells: MarkedCells, rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Floats]:
        """Actions of one policy for its seats of kind ``k``, as they are stored, and their log probabilities."""
        policy, kind, view = self.policies[index], self.env.kinds[k], self.view
        uniform = NO_LOTS
        if policy.draws_lots:
            uniform = cells.rows(self.drawn[self.policy_ids[index]][:, kind.seats])
        inputs = Inputs(cells.rows(view.obs[k]), cells.rows(view.legal[k]), cells.rows(self._column[k]), uniform)
        carry = cells.rows(self.carry[k][:, :, : policy.carry_size])
        self.clock.lap("raw_obs_processing")
        try:
            decision = policy.act(inputs, carry, rng, explore=explore)
        except UserError:
            raise
        except BaseException as error:
            raise self._policy_failure(error, index, len(inputs)) from error
        self.clock.lap("inference")
        if policy.carry_size:
            cells.put(self.carry[k][:, :, : policy.carry_size], decision.carry)
        if policy.env_units:
            return from_env(decision.actions, kind.columns, self.config), decision.logp
        return decision.actions, decision.logp

    def _policy_failure(self, error: BaseException, index: int, observations: int) -> PolicyError:
        let_through(error)
        self.check.look_at_numbers(self.view, self._where_in)  # a NaN in the observations explains it better
        return PolicyError(
            f"policy {self.policy_ids[index]!r} failed to act on {observations} observation(s) of {self.env.name!r}: "
            f"{type(error).__name__}: {error}. Check that observations lie in their space, "
            "and the policy's own code if it is yours."
        )

    def _draw_for_new_episodes(self) -> None:
        """Episodes begin: what their lots mean is settled now for all agents, whatever weights are sent meanwhile."""
        first = np.flatnonzero(self.t == 0)
        if first.size:
            for name, drawn in self.drawn.items():
                drawn[first] = self.policies[self.policy_ids.index(name)].draw(self.episode_uniform[first])
