"""Deterministic actors that climb critics of actions: DDPG, TD3 and MADDPG differ in a few keys.

    y      = r + gamma ** elapsed * min_i Q'_i(x', mu'_1(o'_1), ..., mu'_n(o'_n))     (TD3: noise on the coordinates of mu')
    critic = sum_i (Q_i(x, u_1, ..., u_n) - y)^2
    actor  = -Q_1(x, u_1, ..., mu(o_own), ..., u_n)

``x`` and ``u`` are the observations and actions of those whom ``critic_sees`` shows: the agent alone (Lillicrap et al., 2016;
Fujimoto et al., 2018), its group, or everybody (Lowe et al., 2017). Each policy has its own critic and its own reward, so
agents may be opponents.

Details that matter for results: only the own action is replaced in the actor's objective, the others' come from the replay;
the others' next actions come from their target actors where they learn together, else from their policies as they are;
options are drawn by Gumbel noise with a straight-through gradient, target actions take the likeliest one; the actor's raw
outputs are held small (``actor_reg``); targets move by ``tau`` whenever the actor does; critics see observations unfiltered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.config import LearnerConfig
from marl.algos.joint_view import ActionFn, Actions, action_fn_of
from marl.algos.learner import LearnerSpec
from marl.algos.maddpg.actor_critic import DeterministicActorCritic
from marl.algos.maddpg.config import MaddpgConfig
from marl.algos.maddpg.losses import actor_loss, critic_loss, smoothed, td_target
from marl.algos.off_policy import ActorCriticLearner, ActorLoss, Numbers, Report
from marl.algos.reading import Reading
from marl.algos.transitions import Transitions
from marl.data.batch import MultiAgentBatch
from marl.data.task import Array, PolicyID
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.policy import Inputs


class MaddpgLearner(ActorCriticLearner[DeterministicActorCritic]):
    """Each policy has critics, targets, replay and counters of its own; they meet in joint views."""

    def __init__(self, spec: LearnerSpec) -> None:
        super().__init__(spec, {name: DeterministicActorCritic(name, spec) for name in spec.policies})
        # For policies that are read only: an opponent that draws must not change which rows are drawn from the replays.
        self.others_rng = np.random.default_rng([spec.seed, 9])
        self.action_fns: dict[int, ActionFn] = {}
        for index, (name, policy) in enumerate(spec.everybody.items()):
            if name in self.actor_critics:
                self.action_fns[index] = _target_action_fn(self.actor_critics[name].target_actor)
            else:
                self.action_fns[index] = action_fn_of(policy, lambda: self.others_rng)
        self.counters |= {"num_actor_updates": 0, "num_target_updates": 0, "last_target_update_ts": 0}

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.maddpg.reading import reading  # knows this class itself

        assert isinstance(config, MaddpgConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> MaddpgLearner:
        return cls(spec)

    # -- learning --------------------------------------------------------------------------------------------------

    def _train(self, ac: DeterministicActorCritic) -> Report:
        """One step of the critic; every ``policy_delay``-th time also one of the actor and of the targets."""
        rows = ac.sample(self.rng)
        self._show(ac.name, lambda: ac.view.shown(rows))
        whole = ac.transitions(rows)
        next_actions = self._next_actions(ac, whole)
        # Each of a learner group learns from its share of the rows, whose mean counts ``weight`` in the mean over all.
        share, weight = self.learner_group.share(len(rows)), self.learner_group.weight(len(rows))
        mine = whole.part(share)

        target = self._target(ac, mine, {k: actions[share] for k, actions in next_actions.items()})
        seen = ac.view(mine.now, ac.view.played(mine))
        q, tapes = ac.critics.run(seen)
        loss, slopes = critic_loss(q, target, mine.weights)
        lr = ac.step_sizes(self.timesteps[ac.name])["critic"]
        norm = self.descend_by(ac.critics, tapes, slopes * weight, ac.optimisers["critic"], lr, ac.config.grad_clip)
        error = (q - target[:, None]).abs().mean(dim=1)
        self.count_errors(ac, rows, error)
        ac.updates += 1
        self.count_update(len(rows))
        critic = {
            "critic_loss": loss * weight, "mean_q": q.mean() * weight, "mean_td_error": error.mean() * weight,
            "critic_grad_norm": norm / self.learner_group.size,
        }  # fmt: skip
        if ac.updates % ac.config.policy_delay:
            return {"critic": critic}

        actor = self._improve_actor(ac, mine, seen, weight)
        ac.move_targets(ac.config.tau)
        self.counters["num_actor_updates"] += 1
        self._count_target_update(ac.name)
        return {"critic": critic, "actor": actor}

    @torch.no_grad()
    def _next_actions(self, ac: DeterministicActorCritic, whole: Transitions) -> Actions:
        """What everybody does at the outcomes. Asked for all rows by all of a learner group: some opponents draw."""
        actions = ac.view.decided(whole.next, self.action_fns)
        if not ac.config.target_noise:
            return actions
        for k, encoded in actions.items():
            columns = ac.view.visible.task.kinds[k].columns
            bounded = torch.from_numpy(columns.bounded[list(columns.numbers)]).to(ac.view.device)
            options, noise = columns.options, whole.noise[f"new_noise.{k}"]
            moved = smoothed(encoded[:, :, options:], noise, ac.config.target_noise_clip, bounded)
            actions[k] = torch.cat([encoded[:, :, :options], moved], dim=2)
        return actions

    @torch.no_grad()
    def _target(self, ac: DeterministicActorCritic, t: Transitions, next_actions: Actions) -> Tensor:
        next_q = ac.target_critics(ac.view(t.next, next_actions))
        return td_target(t.rewards, next_q, t.elapsed, t.terminated, ac.config.gamma)

    def _improve_actor(self, ac: DeterministicActorCritic, t: Transitions, seen: Tensor, weight: float) -> Numbers:
        obs, index, legal = ac.view.own(t.now)

        def loss_of(outputs: Tensor) -> ActorLoss:
            return self._actor_loss(ac, t, seen, outputs, legal)

        found, norm = self.climb(ac, ac.actor.model, (obs, index), loss_of, t, weight)
        return {"actor_loss": found.loss * weight, "grad_norm": norm / self.learner_group.size}

    def _actor_loss(
        self, ac: DeterministicActorCritic, t: Transitions, seen: Tensor, outputs: Tensor, legal: Tensor
    ) -> ActorLoss:
        """The loss and its slopes by the actor's outputs: ``dL/dq * dq/dx`` in the columns ``x`` of the own action, then back
        through the drawn options and the squashed coordinates. ``seen`` is the critic's view of what was played."""
        # Of twins the first alone, as in TD3 (Fujimoto et al., 2018); the smaller of both is for targets.
        actor, critic, temperature = ac.actor, ac.critics.each[0], ac.config.gumbel_temperature
        mine, soft = actor.drawn(outputs, legal, t.noise.get("gumbel"), temperature)
        q, tape = critic.run(ac.view.with_own_action(seen, t.now, mine))
        loss, by_q, by_outputs = actor_loss(q, outputs, ac.config.actor_reg)
        # The critic is climbed, not changed: the gradient of its parameters is not even computed.
        by_view = critic.pull(tape, by_q, inputs=True, parameters=False)
        assert by_view is not None
        by_action = ac.view.by_own_action(by_view, t.now)
        return ActorLoss(loss, actor.slopes(soft, by_action, temperature) + by_outputs)

    def summary(self, name: PolicyID, reports: Sequence[Report]) -> dict[str, float]:
        lr = self.actor_critics[name].step_sizes(self.timesteps[name])
        return {**super().summary(name, reports), "cur_actor_lr": lr["actor"], "cur_critic_lr": lr["critic"]}

    @torch.no_grad()
    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        """What the (first) critic expects of the decisions as they were made."""
        ac = self.actor_critics[policy]
        t = ac.view.transitions(ac.rows(batch))
        values: Array = ac.critics(ac.view(t.now, ac.view.played(t)))[:, 0].cpu().numpy()
        return values

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "others_rng": self.others_rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.others_rng.bit_generator.state = state["others_rng"]


def _target_action_fn(actor: DeterministicPolicy) -> ActionFn:
    """Greedy actions of a target actor."""

    def decide(inputs: Inputs) -> Tensor:
        obs, index, legal = actor.tensors(inputs, actor.device)
        return actor.greedy(actor(obs, index), legal)

    return decide
