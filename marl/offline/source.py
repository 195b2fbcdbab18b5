"""Learning from recorded episodes instead of play: ``input`` is a directory of recordings, a file, or a pattern of either.

Every pass goes through all episodes once, in an order of its own that follows from the run's seed. Who learns from an agent's
decisions is said by the run's ``policy_mapping_fn``, asked with the agent's id, whoever played it when it was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from marl.algos.learner import Learner
from marl.data.episode import Episode, EpisodeStats
from marl.data.task import Ints
from marl.errors import CheckpointError, ConfigError, DataError, SpaceMismatchError
from marl.mappers.mapper import check_known
from marl.offline.manifest import MANIFEST, read_manifest
from marl.offline.trajectories import Trajectories, read_trajectories, recorded_files
from marl.rollout.rollout_buffer import Collected
from marl.scenario.env import env_name
from marl.scenario.resolve import Setup
from marl.scenario.routing import example_agent


class RecordedEpisodes:
    """Rounds of whole recorded episodes."""

    def __init__(self, setup: Setup, given: str) -> None:
        self.setup, self.given = setup, given
        files = find_files(given)
        needs_state = any(role.config.needs_state or role.config.looks_at_groups for role in setup.roles.values())
        self.data = read_trajectories(files, setup.task, setup.rollout.config.normalize_actions, needs_state)
        if not self.data.env_steps:
            raise DataError(f"input: {given} holds no env step to learn from.")
        self.policy_ids = list(setup.policies)
        self.passes, self.place = 0, 0
        self._notes = self._introduction(files)
        self._order = self._shuffled()

    def _introduction(self, files: Sequence[Path]) -> list[str]:
        returns = self.data.returns(np.arange(len(self.data))).sum(axis=1)
        notes = [
            f"learning from {len(self.data)} recorded episodes ({self.data.env_steps} env steps) of {self.given}: reward mean "
            f"{returns.mean():.4g}, min {returns.min():.4g}, max {returns.max():.4g}"
        ]
        directories = {path.parent for path in files}
        envs = {str(read_manifest(directory)["env"]) for directory in directories}
        here = env_name(self.setup.scenario.env)
        for env in sorted(envs - {here}):
            notes.append(f"they were recorded in env {env!r}; this run plays {here!r}")
        return notes

    def collect(self, steps: int) -> Collected:
        """Whole episodes with at least ``steps`` env steps in all, as if one copy had just played them."""
        chosen, length = [], 0
        while length < steps:
            if self.place == len(self.data):
                self.passes, self.place = self.passes + 1, 0
                self._order = self._shuffled()
            chosen.append(int(self._order[self.place]))
            length += int(self.data.lengths[chosen[-1]])
            self.place += 1
        episodes = np.array(chosen)
        policy_of = self._policies(episodes)
        notes, self._notes = self._notes, []
        batch = self.data.batch(episodes, self.policy_ids, policy_of)
        return Collected(batch, self._stats(episodes, policy_of), notes=notes, extra={"num_passes": float(self.passes)})

    def _shuffled(self) -> Ints:
        return np.random.default_rng([self.setup.scenario.seed, self.passes, 0x747261]).permutation(len(self.data))

    def _policies(self, episodes: Ints) -> Ints:
        """``[n, A]``: who learns from each seat."""
        # A mapper that draws does so anew in every pass, and the same in a repeated run; the prime keeps passes apart.
        return who_plays(self.setup, episodes, int(self.setup.scenario.seed) + 1_000_003 * self.passes)

    def _stats(self, episodes: Ints, policy_of: Ints) -> EpisodeStats:
        returns = self.data.returns(episodes)
        episode, seat = np.nonzero(self.data.seen(episodes) | (returns != 0))
        return EpisodeStats(
            rewards=returns.sum(axis=1).astype(np.float32),
            lengths=self.data.lengths[episodes],
            agents=self.setup.task.seat_names,
            agent=seat,
            episode=episode,
            policy=policy_of[episode, seat],
            returns=returns[episode, seat].astype(np.float32),
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "episodes": len(self.data),
            "env_steps": self.data.env_steps,
            "passes": self.passes,
            "place": self.place,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        # Other recordings have another order, so the place in it would mean nothing.
        if (state["episodes"], state["env_steps"]) != (len(self.data), self.data.env_steps):
            raise CheckpointError(
                f"the checkpoint's run learned from {state['episodes']} episodes ({state['env_steps']} env steps), but input: "
                f"{self.given} now holds {len(self.data)} ({self.data.env_steps}). Give it the same recordings."
            )
        self.passes, self.place = state["passes"], state["place"]
        self._notes, self._order = [], self._shuffled()


def who_plays(setup: Setup, episodes: Ints, seed: int) -> Ints:
    """``[n, A]``: the place of each seat's policy. Agents without fixed names go by their pattern: all cars as ``car_0``."""
    mapper = setup.rollout.mapper
    agents = [example_agent(name) for name in setup.task.seat_names]
    found = np.empty((len(episodes), len(agents)), np.int64)
    for row, number in enumerate(episodes.tolist()):
        # A mapping that never changes is asked once: a user's function may be slow.
        if row and mapper.fixed:
            found[row] = found[0]
            continue
        episode = Episode(number, seed + number)
        found[row] = [_ask(setup, agent, seat, episode) for seat, agent in enumerate(agents)]
    return found


def who_plays_all(setup: Setup, data: Trajectories) -> Ints:
    """The same for all recorded episodes, in the order of the recordings; a mapper that draws does so as in a first pass."""
    return who_plays(setup, np.arange(len(data)), int(setup.scenario.seed))


def _ask(setup: Setup, agent: str, seat: int, episode: Episode) -> int:
    policy_ids = list(setup.policies)
    policy = setup.rollout.mapper(agent, episode)
    check_known(setup.rollout.mapper, agent, policy, policy_ids)
    if setup.policies[policy].kind != setup.task.kind_of(seat):
        raise SpaceMismatchError(f"agent {agent!r} was sent to policy {policy!r}, which plays agents of other spaces.")
    return policy_ids.index(policy)


def find_files(given: str) -> list[Path]:
    """The files that ``input`` means, in order."""
    path = Path(given).expanduser()
    places = [path]
    if has_magic(str(path)):
        places = sorted(map(Path, glob(str(path))))
    files = []
    for place in places:
        if place.is_dir():
            files += recorded_files(place)
        else:
            files.append(place)
    # A pattern such as runs/* meets the manifest as well.
    found = [file for file in files if file.is_file() and file.name != MANIFEST]
    if not found:
        raise DataError(
            f"input: {given} finds no recorded episodes. Expected a directory with trajs_0.npz or output-*.json, such a "
            "file, or a pattern such as runs/*/trajs_*.npz; `output: DIR` records them."
        )
    return found


def check_learners(setup: Setup, learners: Sequence[Learner]) -> None:
    """Refuse algorithms that learn from nothing but what their own policy just did."""
    for name, role in setup.roles.items():
        if role.preset.family.on_policy and not role.config.learns_from_recordings:
            raise ConfigError(
                f"policy {name!r} learns by {role.preset.name}, which needs what its own policy did, not recorded episodes "
                f"(input: {setup.scenario.input}). Use marwil, bc, or an algorithm with a replay such as dqn, or drop input."
            )
        if role.preset.family.name == "nfsp":
            raise ConfigError(
                f"policy {name!r} learns by nfsp, which has to know which decisions were its own best responses; recorded "
                f"episodes (input: {setup.scenario.input}) do not tell. Use dqn, marwil or bc, or drop input."
            )
    for learner in learners:
        for name, policy in learner.policies.items():
            if policy.carry_size:
                raise ConfigError(
                    f"policy {name!r} has a memory, which recordings do not hold, so it cannot learn from input: "
                    f"{setup.scenario.input}. Use a model without a memory (drop use_lstm, use_gru, use_attention or "
                    "custom_model), or drop input."
                )
