"""Adds intrinsic rewards to what a learner learns from.

    for every round:   observe its new decisions;   r += coeff * bonus(outcome) / scale;   learn from the new decisions

A bonus stands in the row in which the outcome of its decision was seen, like a reward that the env paid in that step: it is
folded, discounted, summed over a team and remembered in replays as rewards are. What results report, and what memories are
shown as the last reward, is the env's alone (``MultiAgentBatch.paid``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from marl.algos.intrinsic.kind import INTRINSIC, IntrinsicReward, IntrinsicSpec
from marl.algos.intrinsic.scale import ReturnScale
from marl.algos.schedule import scheduled
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Bools, Floats, PolicyID
from marl.errors import ConfigError, UserError, let_through

if TYPE_CHECKING:
    from marl.algos.learner import LearnerSpec

T = TypeVar("T")
STREAM = 40  # of random numbers, next to those of policies and critics


class Bonuses:
    """The intrinsic rewards of all policies of one learner that have one."""

    def __init__(self, curious: Mapping[PolicyID, PolicyBonus]) -> None:
        self.curious = dict(curious)

    @staticmethod
    def of(spec: LearnerSpec) -> Bonuses:
        """By the key ``intrinsic`` of each policy."""
        curious = {}
        for number, name in enumerate(spec.policies):
            if spec.configs[name].intrinsic is not None:
                curious[name] = PolicyBonus(name, spec, seed=spec.seed + 101 * number)
        return Bonuses(curious)

    def add_to(
        self, batch: MultiAgentBatch, trained: Collection[PolicyID], timesteps: Mapping[PolicyID, int]
    ) -> MultiAgentBatch:
        """The batch with the bonuses of the policies that learn; the batch itself where there are none."""
        learning = [bonus for name, bonus in self.curious.items() if name in trained]
        if not learning:
            return batch
        rewards = batch.rewards.copy()
        for bonus in learning:
            rewards += bonus.of(batch, timesteps[bonus.name])
        return batch.with_rewards(rewards)

    def add_stats(self, metrics: Mapping[PolicyID, dict[str, float]]) -> None:
        """Tell of the rounds since the last update, in the numbers of those policies that were updated now."""
        for name, bonus in self.curious.items():
            if name in metrics:
                metrics[name].update(bonus.pop_stats())

    def state_dict(self) -> dict[str, Any]:
        return {name: bonus.state_dict() for name, bonus in self.curious.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """A policy that had none when the state was taken begins anew."""
        for name, bonus in self.curious.items():
            if name in state:
                bonus.load_state_dict(state[name])


class PolicyBonus:
    """One policy: its kind of intrinsic reward, and the scale of it."""

    def __init__(self, name: PolicyID, spec: LearnerSpec, seed: int) -> None:
        policy, config = spec.policies[name], spec.configs[name]
        assert config.intrinsic is not None
        self.name, self.config = name, config.intrinsic
        self.number = list(spec.everybody).index(name)  # in a batch
        self.kind_number = spec.task.kinds.index(policy.kind)
        made_of = IntrinsicSpec(self.config, policy.kind, spec.models[name], policy.device, seed)
        self.kind: IntrinsicReward = self._asked("__init__", lambda: INTRINSIC[self.config.kind](made_of))
        self.scale = ReturnScale(config.gamma, spec.task.num_seats)
        self.total, self.count = 0.0, 0  # of the bonuses since the last update
        self.stats: dict[str, float] = {}

    def of(self, batch: MultiAgentBatch, timesteps: int) -> Floats:
        """``[T, E, A]``: bonuses of this policy's decisions, times ``coeff``, in the rows of their outcomes."""
        mine = self._complete(batch)
        new = batch.decisions(mine & batch.active, self.kind_number)
        self._asked("observe", lambda: self.kind.observe(new))
        shown = batch.decisions(mine, self.kind_number)
        bonuses = np.zeros_like(batch.rewards)
        done = shown["row"] + shown["elapsed"] - 1
        bonuses[done, shown["lane"], shown["seat"]] = self._valued(shown)
        if self.kind.rescaled:
            outcomes = np.zeros_like(batch.active)
            outcomes[done, shown["lane"], shown["seat"]] = True
            # Rows of the context were counted when they were new.
            later = slice(batch.context, None)
            self.scale.observe(bonuses[later], outcomes[later], batch.first_lane)
            bonuses /= np.float32(self.scale.deviation)
        bonuses *= np.float32(scheduled(self.config.coeff_schedule, self.config.coeff, timesteps))
        self._note(bonuses, new)
        if len(new):
            self.stats = self._asked("learn", lambda: self.kind.learn(new))
        return bonuses

    def _complete(self, batch: MultiAgentBatch) -> Bools:
        """All decisions whose outcome the grid shows. Those of the context, which were learned from before, may stand in the
        sums of others who decide more slowly."""
        complete: Bools = (batch.elapsed > 0) & (batch.policy_index == self.number)
        return complete

    def _valued(self, rows: SampleBatch) -> Floats:
        """What the kind says of them, if these are numbers to learn from."""
        if not len(rows):
            return np.zeros(0, np.float32)
        found = np.asarray(self._asked("bonus", lambda: self.kind.bonus(rows)))
        if found.shape != (len(rows),) or not np.isfinite(found).all():
            raise ConfigError(
                f"intrinsic reward {self.config.kind!r} of policy {self.name!r} gave an array of shape {found.shape} for "
                f"{len(rows)} decisions, or numbers that are not finite; expected one finite number for each decision."
            )
        return found.astype(np.float32)

    def _asked(self, what: str, ask: Callable[[], T]) -> T:
        """A kind may be the user's own code: what goes wrong in it is told by its name."""
        try:
            return ask()
        except UserError:
            raise
        except BaseException as error:
            let_through(error)
            raise ConfigError(
                f"intrinsic reward {self.config.kind!r} of policy {self.name!r} failed in {what}: {type(error).__name__}: "
                f"{error}"
            ) from error

    def _note(self, bonuses: Floats, new: SampleBatch) -> None:
        done = new["row"] + new["elapsed"] - 1
        self.total += float(bonuses[done, new["lane"], new["seat"]].sum())
        self.count += len(new)

    def pop_stats(self) -> dict[str, float]:
        """The mean bonus of a decision since the last time, with its coefficient, and what the kind tells."""
        mean = self.total / max(self.count, 1)
        self.total, self.count = 0.0, 0
        return {"intrinsic_reward_mean": mean, **self.stats}

    def state_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind.state_dict(),
            "scale": self.scale.state_dict(),
            "total": self.total,
            "count": self.count,
            "stats": dict(self.stats),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.kind.load_state_dict(state["kind"])
        self.scale.load_state_dict(state["scale"])
        self.total, self.count = float(state["total"]), int(state["count"])
        self.stats = dict(state["stats"])
