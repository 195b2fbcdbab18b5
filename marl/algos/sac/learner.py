"""Soft actor-critic (Haarnoja et al., 2018): a decision earns what the env pays plus ``alpha`` per nat of entropy.

    V(o')            = E_u'[min_i Q'_i(o', u') - alpha * log pi(u' | o'_own)]
    target           = sum r + gamma ** elapsed * V(o')
    loss of critics  = sum_i 1/2 (Q_i(o, u) - target)^2
    loss of actor    = -V(o), with Q_i instead of Q'_i
    loss of alpha    = alpha * (H(pi) - target entropy)

``o`` and ``u`` are the agent's own observation and action, its group's, or everybody's (``critic_sees``).

Details that matter for results: two critics, of which the smaller value counts in both targets and actor; the critics'
targets follow by ``tau`` per update; critics step first, then the actor, then the temperature; Discrete actions need no
drawing, because the expectation over them is summed up (Christodoulou, 2019), over legal actions alone; what the other
agents do is drawn from their present policies both in the target and in the actor's loss (Iqbal and Sha, 2019), so that
nobody adapts to how the others played long ago; a truncated decision bootstraps; with ``n_step`` the entropy in between is
not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from marl.algos.config import LearnerConfig
from marl.algos.custom_loss import with_custom
from marl.algos.joint_view import ActionFn, columns_of_loss, greedy_decider, joint_rows
from marl.algos.learner import Learner, LearnerSpec, Metrics, mean_metrics
from marl.algos.qmix.losses import td_target
from marl.algos.reading import Reading
from marl.algos.sac.actor_critic import ActorCritic
from marl.algos.sac.config import SacConfig
from marl.algos.sac.losses import critic_loss, temperature_loss
from marl.algos.sac.values import Moment, noise_for, nothing
from marl.algos.update_ratio import in_turns
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, PolicyID
from marl.errors import TrainingError

Numbers = dict[str, Tensor]


class SacLearner(Learner):
    """Each policy has critics, a temperature and a replay of its own; policies learn together by seeing each other."""

    shares_minibatches = True

    def __init__(self, brief: LearnerSpec) -> None:
        super().__init__(brief.policies, brief.seed)
        self.pupils = {name: ActorCritic(name, brief) for name in brief.policies}
        self.deciders: dict[int, ActionFn] = {
            index: greedy_decider(policy, self.rng, explore=True)
            for index, policy in enumerate(brief.everybody.values())
        }
        self.counters |= {"num_target_updates": 0, "last_target_update_ts": 0}

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.sac.reading import reading  # knows this class itself

        assert isinstance(config, SacConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, brief: LearnerSpec) -> SacLearner:
        return cls(brief)

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        self._count_steps(batch.env_steps)
        pupils = [self.pupils[name] for name in sorted(self.trained)]
        self.clock.start()
        fresh = [pupil.remember(batch) for pupil in pupils]
        self.clock.lap("load")
        due: dict[PolicyID, int] = {}
        numbers: dict[PolicyID, list[Numbers]] = {}
        for pupil in pupils:
            due[pupil.name] = pupil.updates_due(batch.env_steps, self.timesteps[pupil.name])
            numbers[pupil.name] = []
        for name in in_turns(due):
            numbers[name].append(self._update(self.pupils[name]))
        for pupil, rows in zip(pupils, fresh, strict=True):
            seen = pupil.view.own(rows, "")
            pupil.policy.observe(seen.obs, seen.agent_index)
        self._anneal()
        return {name: self._summary(name, found) for name, found in numbers.items() if found}

    def _update(self, pupil: ActorCritic) -> Numbers:
        """One gradient step of the critics, the actor and the temperature, on the same rows."""
        rows = pupil.sample(self.rng)
        self._show(pupil.name, lambda: pupil.view.shown(rows))
        count, share = len(rows), self.crew.share(len(rows))
        before, after = (self._moment(pupil, rows, when).part(share) for when in ("", "new_"))
        lr, weight = pupil.step_sizes(self.timesteps[pupil.name]), self.crew.weight(count)
        critics, errors = self._improve_critics(pupil, after, lr["critic"], weight)
        gathered = self.crew.gather(errors, count).cpu().numpy()
        pupil.replay.update_priorities(rows["place"], gathered)
        if pupil.config.full_td_error:
            self.td_errors[pupil.name] = gathered
        actor, entropy = self._improve_actor(pupil, before, lr["actor"], weight)
        temperature = self._improve_temperature(pupil, before, entropy, lr["alpha"], weight)
        pupil.follower.move(pupil.config.tau)
        self._count_target_update(pupil.name)
        self.counters["num_updates"] += 1
        self.counters["num_steps_trained"] += count
        self.counters["num_agent_steps_trained"] += count
        return {**critics, **actor, **temperature}

    def _moment(self, pupil: ActorCritic, rows: SampleBatch, when: Literal["", "new_"]) -> Moment:
        """All random numbers are drawn here, for all rows, whoever of a crew needs them."""
        view = pupil.view
        alone = pupil.config.critic_sees == "own"
        others = nothing(view, len(rows)) if alone else view.decided(rows, when, self.deciders)
        return Moment(rows, when, others, view.tensor(noise_for(pupil.soft, len(rows), self.rng)))

    def _improve_critics(self, pupil: ActorCritic, after: Moment, lr: float, weight: float) -> tuple[Numbers, Tensor]:
        rows, tensor = after.rows, pupil.view.tensor
        with torch.no_grad():
            value, _ = pupil.soft(pupil.targets, after, pupil.alpha)
            elapsed, terminated = tensor(rows["elapsed"]), tensor(rows["terminateds"])
            target = td_target(tensor(rows["rewards"]), value, elapsed, terminated, pupil.config.gamma)
        chosen = pupil.soft.chosen(pupil.critics, rows)
        loss = critic_loss(chosen, target, tensor(rows["weights"])) * weight
        self._check_finite(pupil, "critic", loss)
        optimiser = pupil.optimisers["critic"]
        optimiser.zero()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = optimiser.step(pupil.config.grad_clip, lr, self.crew)
        chosen = chosen.detach()
        errors = (chosen - target).abs().mean(0)
        return {
            "critic_loss": loss.detach(), "critic_grad_norm": norm * weight, "mean_q": chosen.mean() * weight,
            "mean_td_error": errors.mean() * weight,
        }, errors  # fmt: skip

    def _improve_actor(self, pupil: ActorCritic, before: Moment, lr: float, weight: float) -> tuple[Numbers, Tensor]:
        value, entropy = pupil.soft(pupil.critics, before, pupil.alpha)
        loss = -value.mean() * weight
        actor_loss = loss.detach()
        if pupil.custom_loss is not None:
            loss = with_custom(pupil.custom_loss, -value.mean(), columns_of_loss(pupil.view, before.rows)) * weight
        self._check_finite(pupil, "actor", loss)
        optimiser = pupil.optimisers["actor"]
        optimiser.zero()
        loss.backward(inputs=pupil.actor_parameters)  # type: ignore[no-untyped-call]  # the critics are only asked
        norm = optimiser.step(pupil.config.grad_clip, lr, self.crew)
        entropy = entropy.detach()
        return {
            "actor_loss": actor_loss, "grad_norm": norm * weight, "entropy": entropy.mean() * weight,
            "cur_lr": torch.tensor(lr * weight),
        }, entropy  # fmt: skip

    def _improve_temperature(
        self, pupil: ActorCritic, before: Moment, entropy: Tensor, lr: float, weight: float
    ) -> Numbers:
        wanted = pupil.soft.target_entropy(before.rows, pupil.config)
        if lr > 0:
            optimiser = pupil.optimisers["alpha"]
            optimiser.zero()
            loss = temperature_loss(pupil.log_alpha, entropy, wanted) * weight
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step(None, lr, self.crew)
        return {"alpha": pupil.alpha * weight, "target_entropy": wanted.mean() * weight}

    def _summary(self, name: str, rows: list[Numbers]) -> dict[str, float]:
        custom = self.pupils[name].custom_loss
        return mean_metrics(self.crew.sum_metrics(rows)) | (custom.stats() if custom is not None else {})

    def _check_finite(self, pupil: ActorCritic, part: str, loss: Tensor) -> None:
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the {part} loss of policy {pupil.name!r} became {float(loss.detach())} after "
                f"{self.counters['num_updates']} updates. Usual remedies: a smaller lr, a grad_clip, and a look at the "
                "env's rewards and observations."
            )

    @torch.no_grad()
    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        """What the more careful of the two critics expects of the decisions as they were made."""
        pupil = self.pupils[policy]
        rows = joint_rows(batch, policy, pupil.view.sight, pupil.config.gamma)
        values: Array = pupil.soft.chosen(pupil.critics, rows).min(0).values.cpu().numpy()
        return values

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {**self._common_state(), "pupils": {name: pupil.state_dict() for name, pupil in self.pupils.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        for name, saved in state["pupils"].items():
            self.pupils[name].load_state_dict(saved)

    def replay_state(self) -> dict[str, Any]:
        return {name: pupil.replay.state_dict() for name, pupil in self.pupils.items()}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        for name, pupil in self.pupils.items():
            pupil.replay.load_state_dict(state[name])
