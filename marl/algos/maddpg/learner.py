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

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.config import LearnerConfig
from marl.algos.custom_loss import with_custom
from marl.algos.joint_view import ActionFn, Actions, columns_of_loss, greedy_decider, joint_rows
from marl.algos.learner import Learner, LearnerSpec, Metrics, mean_metrics
from marl.algos.maddpg.actor_critic import ActorCritic
from marl.algos.maddpg.config import MaddpgConfig
from marl.algos.maddpg.losses import actor_loss, critic_loss, smoothed, td_target
from marl.algos.reading import Reading
from marl.algos.update_ratio import in_turns
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, PolicyID
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.policy import Inputs

Numbers = dict[str, Tensor]


class MaddpgLearner(Learner):
    """Each policy is an ``ActorCritic`` with critics, targets, replay and counters of its own; they meet in joint views."""

    shares_minibatches = True

    def __init__(self, brief: LearnerSpec) -> None:
        super().__init__(brief.policies, brief.seed)
        index = {name: i for i, name in enumerate(brief.everybody)}
        self.pupils = {name: ActorCritic(name, index[name], brief) for name in brief.policies}
        self.others_rng = np.random.default_rng([brief.seed, 9])  # for policies that are read only
        self.deciders: dict[int, ActionFn] = {
            index[name]: _target_decider(self.pupils[name].target_actor)
            if name in self.pupils
            else greedy_decider(policy, self.others_rng)
            for name, policy in brief.everybody.items()
        }
        self.counters |= {"num_actor_updates": 0, "num_target_updates": 0, "last_target_update_ts": 0}

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.maddpg.reading import reading  # knows this class itself

        assert isinstance(config, MaddpgConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, brief: LearnerSpec) -> MaddpgLearner:
        return cls(brief)

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        self._count_steps(batch.env_steps)
        pupils = [self.pupils[name] for name in sorted(self.trained)]
        self.clock.start()
        fresh = [pupil.remember(batch) for pupil in pupils]
        self.clock.lap("load")
        due: dict[PolicyID, int] = {}
        stats: dict[PolicyID, list[Numbers]] = {}
        actor_stats: dict[PolicyID, list[Numbers]] = {}
        for pupil in pupils:
            due[pupil.name] = pupil.updates_due(batch.env_steps, self.timesteps[pupil.name])
            stats[pupil.name] = []
            actor_stats[pupil.name] = []
        for name in in_turns(due):
            self._update(self.pupils[name], stats[name], actor_stats[name])
        for pupil, rows in zip(pupils, fresh, strict=True):
            if len(rows):
                seen = pupil.view.own(rows, "")
                pupil.actor.observe(seen.obs, seen.agent_index)
        self._anneal()
        return {name: self._summary(name, found, actor_stats[name]) for name, found in stats.items() if found}

    def _update(self, pupil: ActorCritic, stats: list[Numbers], actor_stats: list[Numbers]) -> None:
        """One step of the critic; every ``policy_delay``-th time also one of the actor and of the targets."""
        rows = pupil.sample(self.rng)
        self._show(pupil.name, lambda: pupil.view.shown(rows))
        actor_lr, critic_lr = pupil.lrs(self.timesteps[pupil.name])
        stats.append(self._improve_critic(pupil, rows, critic_lr))
        pupil.updates += 1
        self.counters["num_updates"] += 1
        self.counters["num_steps_trained"] += len(rows)
        self.counters["num_agent_steps_trained"] += len(rows)
        if pupil.updates % pupil.config.policy_delay == 0:
            actor_stats.append(self._improve_actor(pupil, rows, actor_lr))
            pupil.move_targets()
            self.counters["num_actor_updates"] += 1
            self._count_target_update(pupil.name)

    def _improve_critic(self, pupil: ActorCritic, rows: SampleBatch, lr: float) -> Numbers:
        share, weight, view = self.crew.share(len(rows)), self.crew.weight(len(rows)), pupil.view
        mine, actions = rows.rows(share), {k: found[share] for k, found in self._next_actions(pupil, rows).items()}
        target = self._target(pupil, mine, actions)
        pupil.critic_optimiser.zero()
        q = pupil.critics(view(mine, "", view.played(mine)))
        loss = critic_loss(q, target, view.tensor(mine["weights"])) * weight
        loss.backward()  # type: ignore[no-untyped-call]
        norm = pupil.critic_optimiser.step(pupil.config.grad_clip, lr, self.crew)
        error = (q.detach() - target[:, None]).abs().mean(dim=1)
        if pupil.replay.priorities is not None or pupil.config.full_td_error:
            errors = self.crew.gather(error, len(rows)).cpu().numpy()
            pupil.replay.update_priorities(rows["place"], errors)
            if pupil.config.full_td_error:
                self.td_errors[pupil.name] = errors
        return {
            "critic_loss": loss.detach(), "mean_q": q.detach().mean() * weight,
            "mean_td_error": error.mean() * weight, "critic_grad_norm": norm / self.crew.size,
        }  # fmt: skip

    @torch.no_grad()
    def _next_actions(self, pupil: ActorCritic, rows: SampleBatch) -> Actions:
        """What everybody does at the outcomes. Asked for all rows, whoever of a crew needs them: some opponents draw."""
        view, config = pupil.view, pupil.config
        actions = view.decided(rows, "new_", self.deciders)
        if config.target_noise:
            for k, encoded in actions.items():
                columns = view.sight.task.kinds[k].columns
                bounded = view.tensor(columns.bounded[list(columns.numbers)])
                options, noise = columns.options, view.tensor(rows[f"new_noise.{k}"])
                moved = smoothed(encoded[:, :, options:], noise, config.target_noise_clip, bounded)
                actions[k] = torch.cat([encoded[:, :, :options], moved], dim=2)
        return actions

    @torch.no_grad()
    def _target(self, pupil: ActorCritic, rows: SampleBatch, actions: Actions) -> Tensor:
        view = pupil.view
        next_q = pupil.target_critics(view(rows, "new_", actions))
        return td_target(
            view.tensor(rows["rewards"]), next_q, view.tensor(rows["elapsed"]), view.tensor(rows["terminateds"]),
            pupil.config.gamma,
        )  # fmt: skip

    def _improve_actor(self, pupil: ActorCritic, rows: SampleBatch, lr: float) -> Numbers:
        rows, weight = rows.rows(self.crew.share(len(rows))), self.crew.weight(len(rows))
        pupil.actor_optimiser.zero()
        own_loss = loss = self._actor_loss(pupil, rows)
        if pupil.custom_loss is not None:
            loss = with_custom(pupil.custom_loss, loss, columns_of_loss(pupil.view, rows))
        # The critic is climbed, not changed: its own gradient is not even computed.
        (loss * weight).backward(inputs=pupil.actor_parameters)  # type: ignore[no-untyped-call]
        norm = pupil.actor_optimiser.step(pupil.config.grad_clip, lr, self.crew)
        return {"actor_loss": own_loss.detach() * weight, "grad_norm": norm / self.crew.size}

    def _actor_loss(self, pupil: ActorCritic, rows: SampleBatch) -> Tensor:
        view, actor = pupil.view, pupil.actor
        obs, index, legal = actor.tensors(view.own(rows, ""), actor.device)
        out = actor(obs, index)
        if actor.columns.options:
            mine = actor.drawn(out, legal, view.tensor(rows["gumbel"]), pupil.config.gumbel_temperature)
        else:
            mine = actor.greedy(out, legal)
        q = pupil.critics.first(view(rows, "", view.with_own(rows, view.played(rows), mine)))
        return actor_loss(q, out, pupil.config.actor_reg)

    def _summary(self, name: PolicyID, stats: list[Numbers], actor_stats: list[Numbers]) -> dict[str, float]:
        actor_lr, critic_lr = self.pupils[name].lrs(self.timesteps[name])
        summary = mean_metrics(self.crew.sum_metrics(stats))
        if actor_stats:
            summary |= mean_metrics(self.crew.sum_metrics(actor_stats))
        custom = self.pupils[name].custom_loss
        if custom is not None and actor_stats:  # before the actor's first step the loss has not been asked
            summary |= custom.stats()
        return {**summary, "cur_actor_lr": actor_lr, "cur_critic_lr": critic_lr}

    @torch.no_grad()
    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        """What the (first) critic expects of the decisions as they were made."""
        pupil = self.pupils[policy]
        rows = joint_rows(batch, policy, pupil.view.sight, pupil.config.gamma)
        values: Array = pupil.critics(pupil.view(rows, "", pupil.view.played(rows)))[:, 0].cpu().numpy()
        return values

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._common_state(),
            "others_rng": self.others_rng.bit_generator.state,
            "pupils": {name: pupil.state_dict() for name, pupil in self.pupils.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        self.others_rng.bit_generator.state = state["others_rng"]
        for name, saved in state["pupils"].items():
            self.pupils[name].load_state_dict(saved)

    def replay_state(self) -> dict[str, Any]:
        return {name: pupil.replay.state_dict() for name, pupil in self.pupils.items()}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        for name, pupil in self.pupils.items():
            pupil.replay.load_state_dict(state[name])


def _target_decider(actor: DeterministicPolicy) -> ActionFn:
    """Greedy actions of a target actor."""

    def decide(inputs: Inputs) -> Tensor:
        obs, index, legal = actor.tensors(inputs, actor.device)
        return actor.greedy(actor(obs, index), legal)

    return decide
