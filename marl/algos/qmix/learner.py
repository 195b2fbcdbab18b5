"""Action values learned from a replay: DQN, VDN and QMIX differ in the mixer alone.

    chosen = mixer(Q_a(o_a, u_a), s)
    target = sum r + gamma ** elapsed * mixer'(max_u Q'_a(o'_a, u), s')
    loss   = (chosen - target)^2

Details that matter for results: double Q over each member's own argmax; targets copied every ``target_update_every``
updates; legal-action masks in every maximum; absent members count as zero; the state of the mixer is the env's own
state or, where it has none, the members' observations side by side. Recurrent members learn from sequences of
``max_seq_len`` decisions that begin with the memory they were played with.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.config import LearnerConfig, scheduled
from marl.algos.custom_loss import build_losses, with_custom
from marl.algos.learner import LearnerSpec, Metrics, mean_metrics
from marl.algos.off_policy import OffPolicyLearner, UpdateRatio
from marl.algos.optimiser import FlatOptimiser, shared_optimisers
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.distributional import compare_distributions
from marl.algos.qmix.losses import best_legal, td_loss, td_target
from marl.algos.qmix.teams import Team, build_teams
from marl.algos.qmix.values import MemberValues, Networks, Values
from marl.algos.reading import Reading
from marl.algos.team_rows import columns_of_one
from marl.algos.transitions import JointObs, Transitions
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.sequences import unpadded
from marl.data.task import Floats, PolicyID
from marl.errors import TrainingError
from marl.policies.value import ValuePolicy


class QmixLearner(OffPolicyLearner):
    """Teams are mixed; policies outside of any team learn each agent's values by itself."""

    def __init__(self, spec: LearnerSpec) -> None:
        super().__init__(spec.policies, spec.seed)
        config = next(iter(spec.configs.values()))  # those who learn together agree on all keys
        assert isinstance(config, QmixConfig)
        self.task, self.config = spec.task, config
        self.device = next(iter(spec.policies.values())).device
        order = list(spec.everybody)
        self.members = MemberValues(self.task, {name: order.index(name) for name in spec.policies}, self.device)
        self.values: dict[PolicyID, ValuePolicy] = {}
        self.targets: dict[PolicyID, ValuePolicy] = {}
        self.optimisers: dict[PolicyID, FlatOptimiser] = {}
        for name, policy in spec.policies.items():
            assert isinstance(policy, ValuePolicy)
            self.values[name] = policy
            self.targets[name] = deepcopy(policy)
            self.optimisers[name] = FlatOptimiser(
                policy.own_parameters(), config.optimizer, config.lr, f"policy {name!r}"
            )
        self.shared = shared_optimisers(spec.policies, spec.configs)
        self.custom = build_losses(spec.policies, spec.configs)
        self.teams = build_teams(spec, config, self.device)
        self.update_ratio = UpdateRatio(config)
        self.counters |= {"num_target_updates": 0, "last_target_update_ts": 0}

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.qmix.reading import reading  # knows this class itself

        assert isinstance(config, QmixConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> QmixLearner:
        return cls(spec)

    # -- learning --------------------------------------------------------------------------------------------------

    def remember(self, batch: MultiAgentBatch) -> None:
        for team in self.teams:
            team.remember(batch, self.task, self.config, self.policies)

    def train(self, env_steps: int) -> Metrics:
        stored = sum(len(team.replay) for team in self.teams)
        due = self.update_ratio.due(env_steps, max(self.timesteps.values()), stored)
        updates = [self._train() for _ in range(due)]
        if not updates:
            return {}
        metrics: Metrics = {}
        for name in sorted(self.trained):
            metrics[name] = mean_metrics([update[name] for update in updates])
            if name in self.custom:
                metrics[name] |= self.custom[name].stats()
        return metrics

    def _train(self) -> Metrics:
        """One gradient step on a batch of every team that has rows."""
        trained = sorted(self.trained)
        optimisers = self._optimisers_to_step(trained)
        for optimiser in optimisers:
            optimiser.zero()
        loss, stats = self._loss()
        loss.backward()  # type: ignore[no-untyped-call]
        lr = scheduled(self.config.lr_schedule, self.config.lr, max(self.timesteps.values()))
        norms = [optimiser.step(self.config.grad_clip, lr, self.learner_group) for optimiser in optimisers]
        self.counters["num_updates"] += 1
        # Whole copies from time to time (Mnih et al., 2015): in between, what the values are drawn to stands still.
        if self.counters["num_updates"] % self.config.target_update_every == 0:
            self.copy_to_targets()
        metrics: Metrics = {}
        for name, norm in zip(trained, norms, strict=False):  # those of the policies come first
            metrics[name] = {**stats, "cur_lr": lr, "grad_norm": float(norm)}
        return metrics

    def _optimisers_to_step(self, trained: list[PolicyID]) -> list[FlatOptimiser]:
        """Optimisers of the policies, of the layers that they share, and of the mixers."""
        optimisers = [self.optimisers[name] for name in trained]
        for layers, users in self.sharing.items():
            if users[0] in self.trained:
                optimisers.append(self.shared[layers])
        for team in self.teams:
            if team.optimiser is not None:
                optimisers.append(team.optimiser)
        return optimisers

    def _loss(self) -> tuple[Tensor, dict[str, float]]:
        """The sum over the teams, and its metrics."""
        self.td_errors.clear()
        losses, judged = [], []
        for team in self.teams:
            if len(team.replay):
                team_loss, values = self._team_loss(team)
                losses.append(team_loss)
                judged.append(values)
        loss = torch.stack(losses).sum()
        whole_loss = float(self.learner_group.sum_(loss.detach().clone()))
        if not np.isfinite(whole_loss):
            raise TrainingError(
                f"the loss of {', '.join(self.policies)} became {whole_loss} after "
                f"{self.counters['num_updates']} updates. Usual remedies: a smaller lr, and a look at the env's "
                "rewards and observations."
            )
        q, target = torch.cat(judged).T.contiguous()
        return loss, {
            "td_loss": whole_loss, "mean_q": float(q.mean()), "min_q": float(q.min()), "max_q": float(q.max()),
            "mean_td_error": float((q - target).abs().mean()),
        }  # fmt: skip

    def _team_loss(self, team: Team) -> tuple[Tensor, Tensor]:
        """This learner's share of a team's loss; and of all rows ``[N, 2]`` what the team's values were and should be."""
        drawn = self._draw(team)
        self._show_team(team, drawn)
        mine, place, count = self._share(drawn)
        rows = mine if team.chunks is None else unpadded(mine)
        chosen, target, loss = self._compare(team, Transitions.of(rows, self.device), mine)
        loss = self._with_custom(team, loss, rows) * ((place.stop - place.start) / count)
        values = self.learner_group.gather(torch.stack([chosen.detach(), target]).T.cpu(), count, place)
        error = (values[:, 0] - values[:, 1]).numpy()
        team.replay.update_priorities(drawn["place"], _per_draw(error, drawn))
        if self.config.full_td_error:
            self._list_errors(team, np.abs(error))
        self.counters["num_steps_trained"] += count
        self.counters["num_agent_steps_trained"] += int(drawn["present"].sum())
        return loss, values

    def _draw(self, team: Team) -> SampleBatch:
        """Rows to learn from; whole sequences of about as many rows for recurrent members."""
        config = self.config
        count = config.train_batch_size
        # A sequence counts as many rows as it may have; short ones at the ends of episodes make the batch smaller.
        if team.chunks is not None:
            count = max(1, round(count / team.chunks.longest))
        return team.replay.sample(count, self.rng, config.n_step, config.gamma, config.prioritized_replay_beta)

    def _compare(self, team: Team, t: Transitions, drawn: SampleBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Values of what was played and what they should have been, ``[N]`` each, and the loss."""
        if self.config.num_atoms > 1:
            assert team.policy is not None  # distributions are not mixed
            return compare_distributions(t, self.values[team.policy], self.targets[team.policy], self.config)
        if team.chunks is None:
            values = self.members.at_once(t.now, self.values)
            valuing, choosing = self._next_values(t)
        else:
            values, choosing = self.members.over_time(drawn, self.values)
            with torch.no_grad():
                _, valuing = self.members.over_time(drawn, self.targets)
            choosing = choosing if self.config.double_q else valuing
        chosen, target = self._chosen(team, t, values), self._target(team, t, valuing, choosing)
        return chosen, target, td_loss(chosen, target, t.weights, self.config.huber_delta)

    @torch.no_grad()
    def _next_values(self, t: Transitions) -> tuple[Values, Values]:
        """By the targets, and by those that choose."""
        valuing = self.members.at_once(t.next, self.targets)
        if not self.config.double_q:
            return valuing, valuing
        # Double Q (van Hasselt et al., 2016): who chooses and who judges err differently, so that an action that one of
        # them overrates is not also judged by the same mistake.
        online: Networks = self.values
        return valuing, self.members.at_once(t.next, online)

    def _chosen(self, team: Team, t: Transitions, values: Values) -> Tensor:
        """``mixer(Q_a(o_a, u_a), s)``."""
        members = [q.gather(2, t.actions[k].unsqueeze(-1)).squeeze(2) for k, q in values.items()]
        return self._mix(team, team.mixer, torch.cat(members, 1), t.now)

    @torch.no_grad()
    def _target(self, team: Team, t: Transitions, valuing: Values, choosing: Values) -> Tensor:
        """``sum r + gamma ** elapsed * mixer'(Q'_a(o'_a, u*_a), s')``; each member's ``u*`` is its own best legal action."""
        members = []
        for k, values in valuing.items():
            best = best_legal(choosing[k], t.next.legal[k]).unsqueeze(-1)
            members.append(values.gather(2, best).squeeze(2))
        next_value = self._mix(team, team.target_mixer, torch.cat(members, 1), t.next)
        return td_target(t.rewards, next_value, t.elapsed, t.terminated, self.config.gamma)

    def _mix(self, team: Team, mixer: nn.Module, values: Tensor, joint: JointObs) -> Tensor:
        """The team's value; an absent member counts as zero."""
        state = joint.state if team.joint is None else team.joint(joint.obs, joint.present)
        mixed: Tensor = mixer(values * joint.present, state)
        return mixed

    def copy_to_targets(self) -> None:
        """The slow copies of networks and mixers become what they follow."""
        for name in self.trained:
            self.targets[name].load_state_dict(self.values[name].state_dict())
        for team in self.teams:
            team.target_mixer.load_state_dict(team.mixer.state_dict())
        self.counters["num_target_updates"] += 1
        self.counters["last_target_update_ts"] = max(self.timesteps.values())

    # -- beside the loss -------------------------------------------------------------------------------------------

    def _taught(self, team: Team) -> list[PolicyID]:
        """Policies that learn from a team's rows: its own, or all of a mixed one."""
        return sorted(self.trained if team.policy is None else self.trained & {team.policy})

    def _shown(self, team: Team, rows: SampleBatch) -> SampleBatch:
        """Teams of one by plain names, mixed teams kind by kind."""
        if team.policy is None:
            return rows
        return SampleBatch(columns_of_one(rows, self.task.kind_of(team.seats[0])))

    def _show_team(self, team: Team, drawn: SampleBatch) -> None:
        def rows() -> SampleBatch:
            return self._shown(team, drawn if team.chunks is None else unpadded(drawn))

        for name in self._taught(team):
            self._show(name, rows)

    def _with_custom(self, team: Team, loss: Tensor, rows: SampleBatch) -> Tensor:
        asked = [name for name in self._taught(team) if name in self.custom]
        if not asked:
            return loss
        columns: dict[str, Tensor] = {}
        for column, array in self._shown(team, rows).items():
            columns[column] = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        for name in asked:
            loss = with_custom(self.custom[name], loss, columns)
        return loss

    def _list_errors(self, team: Team, errors: Floats) -> None:
        """The errors of a mixed team are those of all its policies."""
        for name in self._taught(team):
            before = self.td_errors.get(name, errors[:0])
            self.td_errors[name] = np.concatenate([before, errors])

    def _share(self, drawn: SampleBatch) -> tuple[SampleBatch, slice, int]:
        """A member's part of what was drawn, the place of its rows among all rows, and how many these are."""
        lengths = drawn["mask"].sum(axis=1) if "mask" in drawn else np.ones(len(drawn), np.int64)
        first, end = self.learner_group.bounds(len(drawn))
        place = slice(int(lengths[:first].sum()), int(lengths[:end].sum()))
        return drawn.rows(self.learner_group.share(len(drawn))), place, int(lengths.sum())

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._common_state(),
            "debt": self.update_ratio.debt,
            "targets": {name: policy.get_weights() for name, policy in self.targets.items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "shared": {name: optimiser.state_dict() for name, optimiser in self.shared.items()},
            "mixers": {team.name: team.state_dict() for team in self.teams},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        self.update_ratio.debt = state["debt"]
        for name, weights in state["targets"].items():
            self.targets[name].set_weights(weights)
        for name, saved in state["optimisers"].items():
            self.optimisers[name].load_state_dict(saved)
        for layers, saved in state["shared"].items():
            self.shared[layers].load_state_dict(saved)
        for team in self.teams:
            team.load_state_dict(state["mixers"][team.name])

    def replay_state(self) -> dict[str, Any]:
        return {team.name: team.replay_state() for team in self.teams}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        for team in self.teams:
            team.load_replay_state(state[team.name])


def _per_draw(errors: np.ndarray[Any, Any], drawn: SampleBatch) -> np.ndarray[Any, Any]:
    """One error per drawn row, or the mean over each drawn sequence."""
    if "mask" not in drawn:
        return errors
    lengths = drawn["mask"].sum(axis=1)
    sums: np.ndarray[Any, Any] = np.add.reduceat(np.abs(errors), np.cumsum(lengths) - lengths)
    means: np.ndarray[Any, Any] = sums / lengths
    return means
