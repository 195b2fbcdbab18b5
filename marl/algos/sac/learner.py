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
from marl.algos.custom_loss import with_custom
from marl.algos.joint_view import ActionFn, action_fn_of
from marl.algos.learner import LearnerSpec
from marl.algos.off_policy import ActorCriticLearner, Numbers, Report
from marl.algos.qmix.losses import td_target
from marl.algos.reading import Reading
from marl.algos.sac.actor_critic import SoftActorCritic
from marl.algos.sac.config import SacConfig
from marl.algos.sac.losses import critic_loss, temperature_loss
from marl.algos.sac.values import Moment
from marl.algos.transitions import JointObs, Transitions
from marl.data.batch import MultiAgentBatch
from marl.data.task import Array, PolicyID
from marl.errors import TrainingError


class SacLearner(ActorCriticLearner[SoftActorCritic]):
    """Each policy has critics, a temperature and a replay of its own; policies learn together by seeing each other."""

    def __init__(self, spec: LearnerSpec) -> None:
        super().__init__(spec, {name: SoftActorCritic(name, spec) for name in spec.policies})
        self.action_fns: dict[int, ActionFn] = {}
        for index, policy in enumerate(spec.everybody.values()):
            # Drawn as they play, not their best guess: the expectation is over what others may do (Iqbal and Sha, 2019).
            self.action_fns[index] = action_fn_of(policy, self.rng, explore=True)
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
        lr, clip = ac.step_sizes(self.timesteps[ac.name]), ac.config.grad_clip

        target = self._target(ac, mine, after)
        q = ac.soft.chosen(ac.critics, mine)
        loss = self._finite(ac, "critic", critic_loss(q, target, mine.weights) * weight)
        norm = self.descend(loss, ac.optimisers["critic"], lr["critic"], clip)
        errors = (q.detach() - target).abs().mean(0)
        self.count_errors(ac, rows, errors)
        critic = {
            "critic_loss": loss.detach(), "critic_grad_norm": norm * weight, "mean_q": q.detach().mean() * weight,
            "mean_td_error": errors.mean() * weight,
        }  # fmt: skip

        value, entropy = ac.soft(ac.critics, before, ac.alpha)  # by the critics as they are after their step
        own_loss = loss = -value.mean()
        if ac.custom_loss is not None:
            loss = with_custom(ac.custom_loss, loss, ac.view.columns_of_loss(mine))
        loss = self._finite(ac, "actor", loss * weight)
        # The critics are climbed, not changed: their own gradient is not even computed.
        norm = self.descend(loss, ac.optimisers["actor"], lr["actor"], clip, inputs=ac.actor_parameters)
        actor = {
            "actor_loss": own_loss.detach() * weight, "grad_norm": norm * weight,
            "entropy": entropy.detach().mean() * weight, "cur_lr": torch.tensor(lr["actor"] * weight),
        }  # fmt: skip

        alpha = self._improve_temperature(ac, mine, entropy.detach(), lr["alpha"], weight)
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

    def _improve_temperature(
        self, ac: SoftActorCritic, t: Transitions, entropy: Tensor, lr: float, weight: float
    ) -> Numbers:
        wanted = ac.soft.target_entropy(t.now, ac.config)
        if lr > 0:  # alpha_lr 0: the temperature is fixed, and its optimiser has nothing to remember
            loss = temperature_loss(ac.log_alpha, entropy, wanted) * weight
            self.descend(loss, ac.optimisers["alpha"], lr, None)
        return {"alpha": ac.alpha * weight, "target_entropy": wanted.mean() * weight}

    def _finite(self, ac: SoftActorCritic, part: str, loss: Tensor) -> Tensor:
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the {part} loss of policy {ac.name!r} became {float(loss.detach())} after "
                f"{self.counters['num_updates']} updates. Usual remedies: a smaller lr, a grad_clip, and a look at the "
                "env's rewards and observations."
            )
        return loss

    @torch.no_grad()
    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        """What the more careful of the two critics expects of the decisions as they were made."""
        ac = self.actor_critics[policy]
        values: Array = ac.soft.chosen(ac.critics, ac.transitions(ac.rows(batch))).min(0).values.cpu().numpy()
        return values
