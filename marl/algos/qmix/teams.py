"""Whose values are mixed, with the mixer and the replay of each team."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from marl.algos.joint_view import JointFeatures
from marl.algos.learner import LearnerSpec, load_numpy, to_numpy
from marl.algos.optimiser import FlatOptimiser
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.mixers import MIXERS, KeepApart, Mixer, MonotonicMixer
from marl.algos.team_rows import Gaps, single_rows, team_rows
from marl.algos.transitions import JointObs, Transitions
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.replay import Replay
from marl.data.sequences import Chunks
from marl.data.task import Floats, PolicyID, Task
from marl.errors import ConfigError
from marl.policies.networks import seeded


@dataclass
class Team:
    """A group's seats, or, with ``policy``, each agent of that policy by itself. ``chunks`` puts the rows of recurrent
    members together to sequences; the replay then holds these."""

    name: str
    seats: tuple[int, ...]
    replay: Replay
    policy: PolicyID | None = None
    mixer: Mixer = field(default_factory=lambda: KeepApart(1, 0, 0, seeded(0)))
    target_mixer: Mixer = field(default_factory=lambda: KeepApart(1, 0, 0, seeded(0)))
    joint: JointFeatures | None = None  # the mixer's state where the env has none
    optimiser: FlatOptimiser | None = None
    chunks: Chunks | None = None
    gaps: Gaps = field(default_factory=Gaps)

    def remember(
        self, batch: MultiAgentBatch, task: Task, config: QmixConfig, learning: Collection[PolicyID]
    ) -> SampleBatch:
        """Add a grid's decisions to the replay, but those of teams in which none of the ``learning`` policies played; returns
        them with rewards as they are learned from."""
        if self.policy is None:
            rows = self._mixed_rows(batch, config.gamma, learning)
        else:
            rows = single_rows(batch, self.policy, task.kind_of(self.seats[0]), config.gamma)
        rows = rows.with_columns(rewards=_as_learned(rows, config))
        self._observe(rows)
        if self.chunks is None:
            self.replay.add(rows, rows["stream"])
        elif len(rows):
            complete = self.chunks.add(rows)
            if complete is not None:
                self.replay.add(complete, complete["stream"][:, 0])
        return rows

    def _observe(self, rows: SampleBatch) -> None:
        """Let the mixer's filter learn; its slow copy sees states in the same way at once."""
        if not isinstance(self.mixer, MonotonicMixer) or self.mixer.filter is None or not len(rows):
            return
        device = self.mixer.unit.device
        self.mixer.observe(self._as_mixed(Transitions.of(rows, device).now).state)
        assert isinstance(self.target_mixer, MonotonicMixer)
        assert self.target_mixer.filter is not None
        self.target_mixer.filter.load_state_dict(self.mixer.filter.state_dict())

    def _mixed_rows(self, batch: MultiAgentBatch, gamma: float, learning: Collection[PolicyID]) -> SampleBatch:
        rows = team_rows(batch, self.seats, gamma, self.gaps)
        # A mapping function may give all seats of the team to policies that learn elsewhere.
        own = [index for index, name in enumerate(batch.policy_ids) if name in learning]
        played = (rows["present"] & np.isin(rows["policy"], own)).any(axis=1)
        return rows if played.all() else rows.rows(np.flatnonzero(played))

    def as_mixed(self, t: Transitions) -> Transitions:
        """The same as mixers take it: who is present as numbers, and, where the env has no state, what the members see side by
        side in its place."""
        return replace(t, now=self._as_mixed(t.now), next=self._as_mixed(t.next))

    def _as_mixed(self, joint: JointObs) -> JointObs:
        state = joint.state if self.joint is None else self.joint(joint.obs, joint.present)
        return replace(joint, state=state, present=joint.present.float())

    def state_dict(self) -> dict[str, Any]:
        return {
            "mixer": to_numpy(self.mixer.state_dict()),
            "target": to_numpy(self.target_mixer.state_dict()),
            "optimiser": self.optimiser.state_dict() if self.optimiser else {},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # A state of an older release knows neither unit nor filter.
        for mixer, saved in ((self.mixer, state["mixer"]), (self.target_mixer, state["target"])):
            load_numpy(mixer, {**to_numpy(dict(mixer.named_buffers())), **saved})
        if self.optimiser is not None:
            self.optimiser.load_state_dict(state["optimiser"])

    def replay_state(self) -> dict[str, Any]:
        waiting = self.chunks.state_dict() if self.chunks else {}
        return {**self.replay.state_dict(), "waiting": waiting, "gaps": self.gaps.state_dict()}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        self.replay.load_state_dict(dict(state))
        if self.chunks is not None:
            self.chunks.load_state_dict(state["waiting"])
        self.gaps.load_state_dict(state.get("gaps", {}))


def _as_learned(rows: SampleBatch, config: QmixConfig) -> Floats:
    """``(r + shift) * scale``, where a decision that lasted several steps is shifted for each of them."""
    if config.reward_shift == 0.0 and config.reward_scale == 1.0:
        return rows["rewards"]
    steps = discounted_steps(rows["elapsed"].astype(np.float64), config.gamma)
    learned: Floats = ((rows["rewards"] + config.reward_shift * steps) * config.reward_scale).astype(np.float32)
    return learned


def discounted_steps(elapsed: Any, gamma: float) -> Any:
    """What a reward of 1 in every step of a decision pays: ``1 + gamma + ... + gamma^(elapsed - 1)``."""
    return elapsed if gamma == 1.0 else (1 - gamma**elapsed) / (1 - gamma)


def build_teams(spec: LearnerSpec, config: QmixConfig, device: torch.device) -> list[Team]:
    """Teams to mix, and those of one for policies that learn by themselves."""
    groups, alone = _who_mixes(spec, config)
    longest = _longest(spec, config)
    teams = [_mixed(name, seats, spec, config, device, longest) for name, seats in groups.items()]
    for name in alone:
        seats = spec.policies[name].kind.seats
        apart = MIXERS["none"](1, 0, 0, seeded(0))
        replay, chunks = _replay(config, longest)
        teams.append(Team(name, tuple(range(seats.start, seats.stop)), replay, name, apart, apart, chunks=chunks))
    return teams


def _mixed(
    name: str, seats: tuple[int, ...], spec: LearnerSpec, config: QmixConfig, device: torch.device, longest: int
) -> Team:
    task = spec.task
    # Where the env has no state, what the members see stands in for it.
    joint = None if task.state_size else JointFeatures(task, seats).to(device)
    state_size = task.state_size if joint is None else joint.size
    mixer = MIXERS[config.mixer](
        len(seats), state_size, config.mixing_embed_dim, seeded(spec.seed, 5), config.hypernet_embed,
        config.normalize_state,
    ).to(device)  # fmt: skip
    replay, chunks = _replay(config, longest)
    team = Team(name, seats, replay, None, mixer, deepcopy(mixer), joint, chunks=chunks)
    if any(True for _ in mixer.parameters()):
        team.optimiser = FlatOptimiser(mixer.parameters(), config.optimizer, config.lr, f"mixer of {name!r}")
    return team


def _replay(config: QmixConfig, longest: int) -> tuple[Replay, Chunks | None]:
    alpha = config.prioritized_replay_alpha if config.prioritized_replay else 0.0
    if not longest:
        return Replay(config.buffer_size, alpha), None
    # buffer_size counts decisions, this replay sequences. Sequences are not linked: they are learned from one by one.
    return Replay(max(1, config.buffer_size // longest), alpha, linked=False), Chunks(longest)


def _longest(spec: LearnerSpec, config: QmixConfig) -> int:
    """Rows per sequence where a member is recurrent; 0 where none is."""
    recurrent = [name for name, policy in spec.policies.items() if policy.carry_size]
    if not recurrent:
        return 0
    if config.n_step > 1:
        raise ConfigError(
            f"policy {recurrent[0]!r} is recurrent and learns from whole sequences, which have n_step 1, but n_step is "
            f"{config.n_step}. Set n_step: 1."
        )
    lengths = {spec.models[name].max_seq_len for name in recurrent}
    if len(lengths) > 1:
        raise ConfigError(f"policies {', '.join(recurrent)} learn together but differ in max_seq_len. Make it equal.")
    return lengths.pop()


def _names_outside(task: Task, grouped: set[int], seats: frozenset[int]) -> list[str]:
    """Agents of the groups that this learner does not play."""
    return [task.seat_names[seat] for seat in grouped if seat not in seats]


def _who_mixes(spec: LearnerSpec, config: QmixConfig) -> tuple[dict[str, tuple[int, ...]], list[PolicyID]]:
    """Groups to mix, and policies with agents outside of any group, which learn by themselves."""
    if config.mixer == "none":
        return {}, list(spec.policies)
    seats = frozenset().union(*spec.seats.values())
    teams: dict[str, tuple[int, ...]] = {}
    grouped: set[int] = set()
    for group, members in spec.task.groups.items():
        if seats & set(members):
            teams[group] = members
            grouped.update(members)
    alone = [name for name in spec.policies if spec.seats[name] - grouped]
    if alone and teams:
        raise ConfigError(
            f"policy {alone[0]!r} plays agents inside and outside of the mixed groups ({', '.join(teams)}). Give the "
            "agents outside a policy of their own, or put them into a group."
        )
    outside = _names_outside(spec.task, grouped, seats)
    if outside:
        raise ConfigError(
            f"group {next(iter(teams))!r} is mixed by {spec.algo}, but {', '.join(outside)} is played by another algorithm "
            "or a scripted policy. Take it out of the group, or give it a policy of the same algo."
        )
    return teams, alone
