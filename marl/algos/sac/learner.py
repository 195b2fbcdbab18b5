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

import torch
from torch import Tensor

from marl.algos.config import LearnerConfig
from marl.algos.joint_view import ActionFn, action_fn_of
from marl.algos.learner import LearnerSpec
from marl.algos.off_policy import ActorCriticLearner, Numbers, Report
from marl.algos.qmix.losses import td_target
from marl.algos.reading import Reading
from marl.algos.sac.actor_critic import SoftActorCritic
from marl.algos.sac.config import SacConfig
from marl.algos.sac.losses import critic_loss, temperature_loss
from marl.algos.sac.values import Moment, SoftLoss
from marl.algos.transitions import JointObs, Transitions
from marl.data.batch import MultiAgentBatch
from marl.data.task import Array, PolicyID


class SacLearner(ActorCriticLearner[SoftActorCritic]):
    """Each policy has critics, a temperature and a replay of its own; policies learn together by seeing each other."""

    def __init__(self, spec: LearnerSpec) -> None:
        super().__init__(spec, {name: SoftActorCritic(name, spec) for name in spec.policies})
        self.action_fns: dict[int, ActionFn] = {}
        for index, policy in enumerate(spec.everybody.values()):
            # Drawn as they play, not their best guess: the expectation is over what others may do (Iqbal and Sha, 2019).
            self.action_fns[index] = action_fn_of(policy, lambda: self.rng, explore=True)
        self.counters |= {"num_target_updates": 0, "last_target_update_ts": 0}

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.sac.reading import reading  # knows this class itself

        assert isinstance(config, SacConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> SacLearner:
        return cls(spec)

    # -- learning --------------------------------------------------------------------------------------------------

    def _train(self, ac: SoftActorCritic) -> Report:
        """One gradient step of the critics, of the actor and of the temperature, on the same rows."""
        rows = ac.sample(self.rng)
        self._show(ac.name, lambda: ac.view.shown(rows))
        whole = ac.transitions(rows)
        # All that is random is drawn here and for all rows, so that the members of a learner group draw the same.
        before, after = self._moment(ac, whole.now), self._moment(ac, whole.next)
        share, weight = self.learner_group.share(len(rows)), self.learner_group.weight(len(rows))
        mine, before, after = whole.part(share), before.part(share), after.part(share)

        target = self._target(ac, mine, after)
        critic, errors = self._improve_critics(ac, mine, target, weight)
        self.count_errors(ac, rows, errors)
        actor, entropy = self._improve_actor(ac, mine, before, weight)  # by the critics as they are after their step
        alpha = self._improve_temperature(ac, mine, entropy, weight)
        ac.move_targets(ac.config.tau)
        self._count_target_update(ac.name)
        self.count_update(len(rows))
        return {"critic": critic, "actor": actor, "alpha": alpha}

    def _moment(self, ac: SoftActorCritic, joint: JointObs) -> Moment:
        """What the others do now, by their present policies, and the noise of the own action."""
        alone = ac.config.critic_sees == "own"
        others = ac.view.nothing(len(joint)) if alone else ac.view.decided(joint, self.action_fns)
        noise = self.rng.standard_normal((len(joint), ac.soft.noise_width), "float32")
        return Moment(joint, others, torch.from_numpy(noise).to(ac.view.device))

    @torch.no_grad()
    def _target(self, ac: SoftActorCritic, t: Transitions, after: Moment) -> Tensor:
        value, _ = ac.soft(ac.target_critics, after, ac.alpha)
        return td_target(t.rewards, value, t.elapsed, t.terminated, ac.config.gamma)

    def _improve_critics(
        self, ac: SoftActorCritic, t: Transitions, target: Tensor, weight: float
    ) -> tuple[Numbers, Tensor]:
        """One step of both critics; returns numbers to report and the critics' error per row."""
        values, tapes = ac.critics.run(ac.soft.seen(t))
        q = ac.soft.pick(values, t)
        loss, slopes = critic_loss(q, target, t.weights)
        self.check_loss(ac, "critic", loss)
        lr, by_values = ac.step_sizes(self.timesteps[ac.name])["critic"], ac.soft.spread(slopes * weight, t)
        norm = self.descend_by(ac.critics, tapes, by_values, ac.optimisers["critic"], lr, ac.config.grad_clip)
        errors = (q - target).abs().mean(0)
        numbers = {
            "critic_loss": loss * weight, "critic_grad_norm": norm * weight, "mean_q": q.mean() * weight,
            "mean_td_error": errors.mean() * weight,
        }  # fmt: skip
        return numbers, errors

    def _improve_actor(
        self, ac: SoftActorCritic, t: Transitions, before: Moment, weight: float
    ) -> tuple[Numbers, Tensor]:
        """One step of the actor up its soft value; returns numbers to report and the entropy per row."""

        def loss_of(params: Tensor) -> SoftLoss:
            found = ac.soft.loss(ac.critics, before, params, ac.alpha)
            self.check_loss(ac, "actor", found.loss)
            return found

        found, norm = self.climb(ac, ac.actor, ac.view.own(t.now), loss_of, t, weight)
        lr = ac.step_sizes(self.timesteps[ac.name])["actor"]
        numbers = {
            "actor_loss": found.loss * weight, "grad_norm": norm * weight, "entropy": found.entropy.mean() * weight,
            "cur_lr": torch.tensor(lr * weight),
        }  # fmt: skip
        return numbers, found.entropy

    def _improve_temperature(self, ac: SoftActorCritic, t: Transitions, entropy: Tensor, weight: float) -> Numbers:
        wanted = ac.soft.target_entropy(t.now, ac.config)
        lr, optimiser = ac.step_sizes(self.timesteps[ac.name])["alpha"], ac.optimisers["alpha"]
        if lr > 0:  # alpha_lr 0: the temperature is fixed, and its optimiser has nothing to remember
            _, slope = temperature_loss(ac.log_alpha, entropy, wanted)
            optimiser.grad.fill_(slope * weight)
            optimiser.step(None, lr, self.learner_group)
        return {"alpha": ac.alpha * weight, "target_entropy": wanted.mean() * weight}

    @torch.no_grad()
    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        """What the more careful of the two critics expects of the decisions as they were made."""
        ac = self.actor_critics[policy]
        values: Array = ac.soft.chosen(ac.critics, ac.transitions(ac.rows(batch))).min(0).values.cpu().numpy()
        return values
