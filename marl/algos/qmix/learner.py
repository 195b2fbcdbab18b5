"""Action values learned from a replay: DQN, VDN and QMIX differ in the mixer alone.

    chosen = mixer(Q_a(o_a, u_a), s)
    target = sum r + gamma ** elapsed * mixer'(max_u Q'_a(o'_a, u), s')
    loss   = (chosen - target)^2

Details that matter for results: double Q over each member's own argmax; targets copied every ``target_update_every``
updates; legal-action masks in every maximum; absent members count as zero; the state of the mixer is the world's own
state or, where it has none, the members' observations side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.config import scheduled
from marl.algos.learner import Learner, Metrics, load_numpy, mean_metrics, to_numpy
from marl.algos.optimiser import FlatOptimiser, shared_optimisers
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.losses import best_legal, td_loss, td_target
from marl.algos.qmix.mixers import MIXERS
from marl.algos.views import JointFeatures, columns_by_kind, single_rows, team_rows
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.replay import Replay
from marl.data.task import PolicyID, Task
from marl.errors import TrainingError
from marl.policies.networks import seeded
from marl.policies.policy import Policy
from marl.policies.value import ValuePolicy


@dataclass
class Team:
    """Whose values are mixed: a group's seats, or, with ``policy``, each agent of that policy by itself."""

    name: str
    seats: tuple[int, ...]
    policy: PolicyID | None = None
    mixer: nn.Module = field(default_factory=nn.Module)
    target_mixer: nn.Module = field(default_factory=nn.Module)
    joint: JointFeatures | None = None  # the mixer's state where the world has none
    replay: Replay = field(default_factory=lambda: Replay(1))
    optimiser: FlatOptimiser | None = None


class QmixLearner(Learner):
    """``teams`` are mixed; policies of ``alone`` learn each agent's values by itself."""

    def __init__(
        self, policies: Mapping[PolicyID, Policy], task: Task, config: QmixConfig, seed: int,
        all_policies: Sequence[PolicyID], teams: Mapping[str, tuple[int, ...]], alone: Sequence[PolicyID],
    ) -> None:  # fmt: skip
        super().__init__(policies, seed)
        self.task, self.config = task, config
        self.index = {name: list(all_policies).index(name) for name in policies}
        self._device = next(iter(policies.values())).device
        self.values: dict[PolicyID, ValuePolicy] = {n: p for n, p in policies.items() if isinstance(p, ValuePolicy)}
        self.targets = {name: deepcopy(policy) for name, policy in self.values.items()}
        self.optimisers = {
            name: FlatOptimiser(policy.own_parameters(), config.optimizer, config.lr, f"policy {name!r}")
            for name, policy in self.values.items()
        }
        self.shared = shared_optimisers(policies, dict.fromkeys(policies, config))
        self.teams = [self._team(name, seats, seed) for name, seats in teams.items()]
        self.teams += [self._single(name) for name in alone]
        self.update_debt = 0.0
        self.counters |= {"num_target_updates": 0, "last_target_update_ts": 0}

    # -- set-up ----------------------------------------------------------------------------------------------------

    def _team(self, name: str, seats: tuple[int, ...], seed: int) -> Team:
        joint = None if self.task.state_size else JointFeatures(self.task, seats)
        state_size = self.task.state_size if joint is None else joint.size
        build = MIXERS[self.config.mixer]
        mixer = build(len(seats), state_size, self.config.mixing_embed_dim, seeded(seed, 5)).to(self._device)
        team = Team(name, seats, None, mixer, deepcopy(mixer), joint, self._replay())
        if any(True for _ in mixer.parameters()):
            team.optimiser = FlatOptimiser(
                mixer.parameters(), self.config.optimizer, self.config.lr, f"mixer of {name!r}"
            )
        return team

    def _single(self, policy: PolicyID) -> Team:
        apart = MIXERS["none"](1, 0, 0, seeded(0))
        seats = tuple(range(self.policies[policy].kind.seats.start, self.policies[policy].kind.seats.stop))
        return Team(policy, seats, policy, apart, apart, None, self._replay())

    def _replay(self) -> Replay:
        alpha = self.config.prioritized_replay_alpha if self.config.prioritized_replay else 0.0
        return Replay(self.config.buffer_size, alpha)

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        if not self.trained:
            return {}
        self._count_steps(batch.env_steps)
        for team in self.teams:
            self._remember(team, batch)
        rows = [self._update() for _ in range(self._updates_due(batch.env_steps))]
        self._anneal()
        if not rows:
            return {}
        return {name: mean_metrics([row[name] for row in rows]) for name in sorted(self.trained)}

    def _remember(self, team: Team, batch: MultiAgentBatch) -> None:
        if team.policy is None:
            rows = team_rows(batch, team.seats, self.config.gamma)
            team.replay.add(rows, rows["lane"])
        else:
            kind = self.task.kind_of(team.seats[0])
            rows = single_rows(batch, team.policy, kind, self.config.gamma)
            team.replay.add(rows, rows["lane"] * self.task.num_seats + rows["seat"])

    def _updates_due(self, env_steps: int) -> int:
        if max(self.timesteps.values()) < self.config.learning_starts or not any(len(t.replay) for t in self.teams):
            return 0
        self.update_debt += self.config.updates_per_step * env_steps
        due = int(self.update_debt)
        self.update_debt -= due
        return due

    def _update(self) -> Metrics:
        """One gradient step on a batch of every team that has rows."""
        blocks = [self.optimisers[name] for name in sorted(self.trained)]
        blocks += [self.shared[layers] for layers, users in self.sharing.items() if users[0] in self.trained]
        blocks += [team.optimiser for team in self.teams if team.optimiser is not None]
        for block in blocks:
            block.zero()
        loss, stats = self._loss()
        loss.backward()  # type: ignore[no-untyped-call]
        lr = scheduled(self.config.lr_schedule, self.config.lr, max(self.timesteps.values()))
        norms = [block.step(self.config.grad_clip, lr) for block in blocks]
        self._after_update()
        common = {**stats, "cur_lr": lr}
        return {name: {**common, "grad_norm": float(norms[i])} for i, name in enumerate(sorted(self.trained))}

    def _loss(self) -> tuple[Tensor, dict[str, float]]:
        config, losses, chosen_values, errors = self.config, [], [], []
        for team in self.teams:
            if not len(team.replay):
                continue
            rows = team.replay.sample(
                config.train_batch_size, self.rng, config.n_step, config.gamma, config.prioritized_replay_beta
            )
            chosen, target = self._chosen(team, rows), self._target(team, rows)
            losses.append(td_loss(chosen, target, self._tensor(rows["weights"])))
            error = (chosen - target).detach().cpu()
            team.replay.update_priorities(rows["place"], error.numpy())
            chosen_values.append(chosen.detach().cpu())
            errors.append(error.abs())
            self.counters["num_steps_trained"] += len(rows)
            self.counters["num_agent_steps_trained"] += int(rows["present"].sum())
        loss = torch.stack(losses).sum()
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss of {', '.join(self.policies)} became {float(loss.detach())} after "
                f"{self.counters['num_updates']} updates. Usual remedies: a smaller lr, and a look at the world's "
                "rewards and observations."
            )
        q = torch.cat(chosen_values)
        return loss, {
            "td_loss": float(loss.detach()), "mean_q": float(q.mean()), "min_q": float(q.min()), "max_q": float(q.max()),
            "mean_td_error": float(torch.cat(errors).mean()),
        }  # fmt: skip

    def _chosen(self, team: Team, rows: SampleBatch) -> Tensor:
        """Team value of what was played: ``[N]``."""
        members = []
        for k, values in self._member_values(team, rows, "", self.values):
            actions = self._tensor(rows[f"actions.{k}"]).unsqueeze(-1)
            members.append(values.gather(2, actions).squeeze(2))
        present = self._tensor(rows["present"])
        return self._mix(team.mixer, team, torch.cat(members, 1) * present, rows, "")

    @torch.no_grad()
    def _target(self, team: Team, rows: SampleBatch) -> Tensor:
        members = []
        target_values = dict(self._member_values(team, rows, "new_", self.targets))
        choosing = dict(self._member_values(team, rows, "new_", self.values)) if self.config.double_q else target_values
        for k, values in target_values.items():
            best = best_legal(choosing[k], self._tensor(rows[f"new_legal.{k}"])).unsqueeze(-1)
            members.append(values.gather(2, best).squeeze(2))
        masked = torch.cat(members, 1) * self._tensor(rows["new_present"])
        next_value = self._mix(team.target_mixer, team, masked, rows, "new_")
        elapsed, terminated = self._tensor(rows["elapsed"]), self._tensor(rows["terminateds"])
        return td_target(self._tensor(rows["rewards"]), next_value, elapsed, terminated, self.config.gamma)

    def _member_values(
        self, team: Team, rows: SampleBatch, when: str, networks: Mapping[PolicyID, ValuePolicy]
    ) -> list[tuple[int, Tensor]]:
        """Per kind: values ``[N, n_k, actions]``, each by the policy that plays the member."""
        found, at = [], 0
        for k, columns in columns_by_kind(self.task, team.seats).items():
            n = 1 if team.policy else len(columns)
            obs, index = rows[f"{when}obs.{k}"], rows[f"agent_index.{k}"]
            players = rows[f"{when}policy"][:, at : at + n].reshape(-1)
            flat = (
                self._tensor(obs.reshape(len(obs) * n, -1)),
                self._tensor(np.ascontiguousarray(index).reshape(-1)),
            )
            able = {name: net for name, net in networks.items() if net.kind.first_seat == self.task.kinds[k].first_seat}
            found.append((k, self._by_player(players, flat, able).view(len(obs), n, -1)))
            at += n
        return found

    def _by_player(
        self,
        players: np.ndarray[Any, Any],
        flat: tuple[Tensor, Tensor],
        networks: Mapping[PolicyID, ValuePolicy],
    ) -> Tensor:
        """Values of rows that different policies of one kind play; zeros where none of them does."""
        mine = [name for name in networks if (players == self.index[name]).any()]
        if len(mine) == 1 and (players == self.index[mine[0]]).all():
            return networks[mine[0]].values(networks[mine[0]].features(*flat))
        width = next(iter(networks.values())).num_actions
        values = torch.zeros(len(players), width, device=self._device)
        for name in mine:
            rows = torch.from_numpy(np.flatnonzero(players == self.index[name])).to(self._device)
            network = networks[name]
            values = values.index_copy(0, rows, network.values(network.features(flat[0][rows], flat[1][rows])))
        return values

    def _mix(self, mixer: nn.Module, team: Team, values: Tensor, rows: SampleBatch, when: str) -> Tensor:
        if team.joint is None:
            state = self._tensor(rows[f"{when}state"])
        else:
            obs = {k: rows[f"{when}obs.{k}"] for k in team.joint.by_kind}
            state = team.joint(obs, rows[f"{when}present"]).to(self._device)
        mixed: Tensor = mixer(values, state)
        return mixed

    def _tensor(self, array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _after_update(self) -> None:
        self.counters["num_updates"] += 1
        if self.counters["num_updates"] % self.config.target_update_every:
            return
        for name in self.trained:
            self.targets[name].load_state_dict(self.values[name].state_dict())
        for team in self.teams:
            team.target_mixer.load_state_dict(team.mixer.state_dict())
        self.counters["num_target_updates"] += 1
        self.counters["last_target_update_ts"] = max(self.timesteps.values())

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._common_state(),
            "update_debt": self.update_debt,
            "targets": {name: policy.get_weights() for name, policy in self.targets.items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "shared": {name: optimiser.state_dict() for name, optimiser in self.shared.items()},
            "mixers": {
                team.name: {
                    "mixer": to_numpy(team.mixer.state_dict()),
                    "target": to_numpy(team.target_mixer.state_dict()),
                    "optimiser": team.optimiser.state_dict() if team.optimiser else {},
                }
                for team in self.teams
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        self.update_debt = state["update_debt"]
        for name, weights in state["targets"].items():
            self.targets[name].set_weights(weights)
        for name, saved in state["optimisers"].items():
            self.optimisers[name].load_state_dict(saved)
        for layers, saved in state["shared"].items():
            self.shared[layers].load_state_dict(saved)
        for team in self.teams:
            saved = state["mixers"][team.name]
            load_numpy(team.mixer, saved["mixer"])
            load_numpy(team.target_mixer, saved["target"])
            if team.optimiser is not None:
                team.optimiser.load_state_dict(saved["optimiser"])

    def replay_state(self) -> dict[str, Any]:
        return {team.name: team.replay.state_dict() for team in self.teams}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        for team in self.teams:
            team.replay.load_state_dict(state[team.name])
