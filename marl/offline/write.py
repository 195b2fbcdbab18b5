"""The user's own episodes as recordings to learn from: plain arrays in, ``trajs_0.npz`` and ``trajectories.json`` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from marl.data.actions import action_encoder
from marl.data.task import AgentID, AgentType, Array, Task
from marl.envs.vector.encoding import Reader
from marl.errors import DataError, EnvError, did_you_mean
from marl.offline.manifest import write_manifest
from marl.offline.recording import EPISODES_PER_FILE
from marl.offline.trajectories import Rows, all_legal, empty_rows, file_name, numbered_files, write_episodes
from marl.scenario.env import env_name, inspect_env
from marl.scenario.load import compose

Life: TypeAlias = Mapping[str, Any]
"""What one agent did in one episode, by column."""
COLUMNS = ("obs", "actions", "rewards", "terminated", "legal", "steps")


def write_trajectories(
    directory: Path | str,
    env: str | Callable[..., Any],
    episodes: Iterable[Life | Mapping[AgentID, Life]],
    *,
    env_config: Mapping[str, Any] | None = None,
    wrappers: Sequence[Any] = (),
) -> int:
    """Write episodes that were not played by marl, so that ``input: DIRECTORY`` can learn from them; gives their number.

    An episode maps agent ids to what they did (or is just that, where the env has one agent). For ``L`` decisions:

    - ``obs``: ``L + 1`` observations as the env gives them, the last one after the last decision; ``L`` are enough
      where the agent terminated;
    - ``actions``: ``L`` actions as the env takes them;
    - ``rewards``: ``L`` numbers, what the agent was paid from this decision to its next one;
    - ``terminated``: true where the episode ended by the rules (default), false where it was only cut off;
    - ``legal`` (optional): masks of what it might have done, as many as observations;
    - ``steps`` (optional): the env steps in which it decided, where that is not in every one from the first on.
    """
    folder = Path(directory).expanduser()
    if numbered_files(folder):
        raise DataError(f"{folder} already holds recorded episodes. Choose another directory, or move them away.")
    look = inspect_env(compose({"env": env, "env_config": dict(env_config or {}), "wrappers": list(wrappers)}))
    task = Task(look.kinds)
    found = [_rows(task, episode, number) for number, episode in enumerate(episodes)]
    if not found:
        raise DataError(f"no episode was given to write into {folder}.")
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, task, env_name(env), [], normalized=False)
    for number, first in enumerate(range(0, len(found), EPISODES_PER_FILE)):
        write_episodes(folder / file_name(number), found[first : first + EPISODES_PER_FILE])
    return len(found)


def _rows(task: Task, episode: Mapping[str, Any], number: int) -> Rows:
    """All agents of one episode, aligned."""
    lives = {task.seat_names[0]: episode} if "actions" in episode and task.num_seats == 1 else dict(episode)
    seats = _seats(task, list(lives), number)
    read = {
        agent: _Reading(task.kinds[task.kind_of(seats[agent])], agent, life, number) for agent, life in lives.items()
    }
    if not read:
        raise DataError(f"episode {number} has no agent. Give at least one agent's obs, actions and rewards.")
    rows = empty_rows(task, max(int(life.steps[-1]) + 1 for life in read.values()))
    rows["policy"][:] = -1  # nobody of ours
    for agent, life in read.items():
        life.enter(rows, task, seats[agent])
    return rows


def _seats(task: Task, agents: Sequence[AgentID], number: int) -> dict[AgentID, int]:
    """Agents known in advance have their seat; the others take the free seats of their pattern in turn."""
    free = dict(enumerate(task.seat_names))
    found = {}
    for agent in agents:
        fits = [seat for seat, name in free.items() if name == agent or fnmatchcase(agent, name.split("[")[0])]
        if not fits:
            raise DataError(
                f"episode {number}: no free seat for agent {agent!r}. Agents of the env: {', '.join(task.seat_names)}."
                f"{did_you_mean(agent, task.seat_names)}"
            )
        found[agent] = fits[0]
        del free[fits[0]]
    return found


class _Reading:
    """One agent's life in one episode, checked and in stored form."""

    def __init__(self, kind: AgentType, agent: AgentID, life: Life, number: int) -> None:
        self.kind, self.where = kind, f"episode {number}, agent {agent!r}"
        if unknown := [key for key in life if key not in COLUMNS]:
            raise self._wrong(
                f"unknown column {unknown[0]!r}.{did_you_mean(unknown[0], COLUMNS)} Known: {', '.join(COLUMNS)}"
            )
        if missing := [key for key in ("obs", "actions", "rewards") if key not in life]:
            raise self._wrong(f"column {missing[0]!r} is missing")
        self.count = len(life["actions"])
        self.terminated = bool(life.get("terminated", True))
        self.steps = np.asarray(life.get("steps", np.arange(self.count)), np.int64)
        self.rewards = np.asarray(life["rewards"], np.float32)
        self._check_lengths(life)
        reader = Reader(kind, kind.observation_space)
        try:
            self.obs = np.array([reader.row(agent, obs, lambda: self.where) for obs in life["obs"]], kind.obs_dtype)
            masks = life.get("legal", np.ones((len(self.obs), kind.legal_width)))
            rows = [reader.legal(agent, mask, lambda: self.where) for mask in masks] if "legal" in life else masks
        except EnvError as error:
            raise DataError(str(error)) from error
        self.legal = np.array(rows, bool).reshape(len(rows), kind.legal_width)
        self.actions = np.array([self._action(action) for action in life["actions"]], kind.action_dtype)
        if kind.legal_width and not all_legal(kind, self.legal[: self.count], self.actions):
            raise self._wrong("an action was played that its mask forbids")

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self.where}: {what}.")

    def _check_lengths(self, life: Life) -> None:
        n, seen = self.count, len(life["obs"])
        if not n:
            raise self._wrong("there is no decision; leave the agent out of this episode")
        if seen != n + 1 and not (self.terminated and seen == n):
            raise self._wrong(f"{n} actions need {n + 1} observations (the last one after them), but there are {seen}")
        if self.rewards.shape != (n,) or self.steps.shape != (n,):
            raise self._wrong(
                f"{n} actions need {n} rewards and {n} steps, got {self.rewards.shape} and {self.steps.shape}"
            )
        if self.steps[0] < 0 or (np.diff(self.steps) <= 0).any():
            raise self._wrong("steps have to be env steps from 0 on, each later than the one before")
        if "legal" in life and len(life["legal"]) != seen:
            raise self._wrong(f"{seen} observations need {seen} masks, but there are {len(life['legal'])}")

    def _action(self, action: Any) -> Array:
        try:
            stored = action_encoder(self.kind.action_space)(action)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise self._wrong(f"action {action!r} is none of {self.kind.action_space}") from error
        if not self.kind.columns.contains(stored):
            raise self._wrong(f"action {action!r} is none of {self.kind.action_space}")
        return stored

    def enter(self, rows: Rows, task: Task, seat: int) -> None:
        """Into the columns of the episode: decisions where they were made, outcomes in the step before the next one."""
        k, column = task.kind_of(seat), seat - self.kind.first_seat
        steps, n = self.steps, self.count
        outcomes = np.append(steps[1:] - 1, steps[-1])[: len(self.obs) - 1]
        rows[f"obs.{k}"][steps, column], rows[f"legal.{k}"][steps, column] = self.obs[:n], self.legal[:n]
        rows[f"new_obs.{k}"][outcomes, column] = self.obs[1:]
        rows[f"new_legal.{k}"][outcomes, column] = self.legal[1:]
        rows[f"actions.{k}"][steps, column], rows["rewards"][steps, seat] = self.actions, self.rewards
        rows["present"][steps, seat], rows["new_present"][steps[1:] - 1, seat] = True, True
        first, last = int(steps[0]), int(steps[-1])
        rows["alive"][first : last + 1, seat] = True
        rows["new_alive"][max(first - 1, 0) : last, seat] = True
        if first:
            rows["new_present"][first - 1, seat] = True
        rows["new_alive"][last, seat] = not self.terminated
        rows["terminateds" if self.terminated else "truncateds"][last, seat] = True
