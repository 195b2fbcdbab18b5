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
COLUMNS = ("obs", "actions", "rewards", "terminated", "legal", "steps", "logp")
OUTSIDER = -1
"""In the column ``policy``: nobody of ours."""


def write_trajectories(
    directory: Path | str,
    env: str | Callable[..., Any],
    episodes: Iterable[Life | Mapping[AgentID, Life]],
    *,
    env_config: Mapping[str, Any] | None = None,
    wrappers: Sequence[Any] = (),
) -> int:
    """Write episodes that were not played by marl, so that ``input: DIRECTORY`` can learn from them; returns their number.

    An episode maps agent ids to what they did (or is just that, where the env has one agent). For ``L`` decisions:

    - ``obs``: ``L + 1`` observations as the env gives them, the last one after the last decision; ``L`` are enough
      where the agent terminated;
    - ``actions``: ``L`` actions as the env takes them;
    - ``rewards``: ``L`` numbers, what the agent was paid from this decision to its next one;
    - ``terminated``: true where the episode ended by the rules (default), false where it was only cut off;
    - ``legal`` (optional): masks of what it might have done, as many as observations;
    - ``steps`` (optional): the env steps in which it decided, where that is not in every one from the first on;
    - ``logp`` (optional, then everywhere): ``L`` logarithms of how likely the behaviour was to choose so, by which other
      policies can be judged (``off_policy_estimator``).
    """
    folder = Path(directory).expanduser()
    if numbered_files(folder):
        raise DataError(f"{folder} already holds recorded episodes. Choose another directory, or move them away.")
    look = inspect_env(compose({"env": env, "env_config": dict(env_config or {}), "wrappers": list(wrappers)}))
    task = Task(look.kinds)
    given = list(episodes)
    found = [_rows(task, episode, number) for number, episode in enumerate(given)]
    if not found:
        raise DataError(f"no episode was given to write into {folder}.")
    told: list[int] = []
    if _all_told(given):
        told = [OUTSIDER]
    # Only now, when all episodes have been read: a mistake in the last one leaves nothing behind.
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, task, env_name(env), [], normalized=False, told=told)
    for number, first in enumerate(range(0, len(found), EPISODES_PER_FILE)):
        write_episodes(folder / file_name(number), found[first : first + EPISODES_PER_FILE])
    return len(found)


def _rows(task: Task, episode: Mapping[str, Any], number: int) -> Rows:
    """All agents of one episode, aligned."""
    lives = dict(episode)
    if task.num_seats == 1 and "actions" in episode:
        lives = {task.seat_names[0]: episode}  # an agent of its own name would have a dict there
    if not lives:
        raise DataError(f"episode {number} has no agent. Give at least one agent's obs, actions and rewards.")
    seats = _seats(task, list(lives), number)
    read = {}
    for agent, life in lives.items():
        kind = task.kinds[task.kind_of(seats[agent])]
        read[agent] = _Reading(kind, agent, life, number)
    steps = 1 + max(int(life.steps[-1]) for life in read.values())
    rows = empty_rows(task, steps)
    rows["policy"][:] = OUTSIDER
    for agent, life in read.items():
        life.enter(rows, task, seats[agent])
    return rows


def _all_told(episodes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every agent of every episode says how likely its decisions were; some of them would help nobody."""
    lives: list[Life] = []
    for episode in episodes:
        if "actions" in episode:
            lives.append(episode)
        else:
            lives += episode.values()
    told = ["logp" in life for life in lives]
    if any(told) and not all(told):
        raise DataError(
            f"{told.count(True)} of {len(told)} agents' episodes have a column 'logp'. Give it to all of them, or to none."
        )
    return all(told)


def _seats(task: Task, agents: Sequence[AgentID], number: int) -> dict[AgentID, int]:
    """Agents known in advance have their seat; the others take the free seats of their pattern in turn."""
    free = dict(enumerate(task.seat_names))
    found = {}
    for agent in agents:
        seat = next((seat for seat, name in free.items() if _may_sit_at(agent, name)), None)
        if seat is None:
            raise DataError(
                f"episode {number}: no free seat for agent {agent!r}. Agents of the env: {', '.join(task.seat_names)}."
                f"{did_you_mean(agent, task.seat_names)}"
            )
        found[agent] = seat
        del free[seat]
    return found


def _may_sit_at(agent: AgentID, seat_name: str) -> bool:
    """``car_*[3]`` is the fourth seat for agents whose names fit ``car_*``."""
    return seat_name == agent or fnmatchcase(agent, seat_name.split("[")[0])


class _Reading:
    """One agent's life in one episode, checked and in stored form."""

    def __init__(self, kind: AgentType, agent: AgentID, life: Life, number: int) -> None:
        self.kind, self.where = kind, f"episode {number}, agent {agent!r}"
        self._check_columns(life)
        self.count = len(life["actions"])
        self.terminated = bool(life.get("terminated", True))
        self.steps = np.asarray(life.get("steps", np.arange(self.count)), np.int64)
        self.rewards = np.asarray(life["rewards"], np.float32)
        self.logp = np.asarray(life.get("logp", np.zeros(self.count)), np.float32)
        self._check_lengths(life)
        # The same readers as for envs: what an env must not show, a recording must not hold.
        reader = Reader(kind, kind.observation_space)
        try:
            seen = [reader.row(agent, obs, self._place) for obs in life["obs"]]
            masks = [np.ones(kind.legal_width)] * len(seen)
            if "legal" in life:
                masks = [reader.legal(agent, mask, self._place) for mask in life["legal"]]
        except EnvError as error:
            raise DataError(str(error)) from error
        self.obs = np.array(seen, kind.obs_dtype)
        self.legal = np.array(masks, bool).reshape(len(masks), kind.legal_width)
        self.actions = np.array([self._action(action) for action in life["actions"]], kind.action_dtype)
        if kind.legal_width and not all_legal(kind, self.legal[: self.count], self.actions):
            raise self._wrong("an action was played that its mask forbids")

    def _place(self) -> str:
        return self.where

    def _check_columns(self, life: Life) -> None:
        for key in life:
            if key not in COLUMNS:
                raise self._wrong(f"unknown column {key!r}.{did_you_mean(key, COLUMNS)} Known: {', '.join(COLUMNS)}")
        for key in ("obs", "actions", "rewards"):
            if key not in life:
                raise self._wrong(f"column {key!r} is missing")

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self.where}: {what}.")

    def _check_lengths(self, life: Life) -> None:
        n, seen = self.count, len(life["obs"])
        if not n:
            raise self._wrong("there is no decision; leave the agent out of this episode")
        # After its end nobody looks: what a terminated agent saw last is of no use.
        enough = {n, n + 1} if self.terminated else {n + 1}
        if seen not in enough:
            raise self._wrong(f"{n} actions need {n + 1} observations (the last one after them), but there are {seen}")
        if not self.rewards.shape == self.steps.shape == (n,):
            raise self._wrong(
                f"{n} actions need {n} rewards and {n} steps, got {self.rewards.shape} and {self.steps.shape}"
            )
        if self.logp.shape != (n,) or not np.isfinite(self.logp).all():
            raise self._wrong(f"{n} actions need {n} finite numbers of logp, got {self.logp.tolist()}")
        before = np.append(-1, self.steps[:-1])
        if (self.steps <= before).any():
            raise self._wrong("steps have to be env steps from 0 on, each later than the one before")
        masks = len(life.get("legal", life["obs"]))
        if masks != seen:
            raise self._wrong(f"{seen} observations need {seen} masks, but there are {masks}")

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
        rows["action_logp"][steps, seat] = self.logp
        rows["present"][steps, seat], rows["new_present"][steps[1:] - 1, seat] = True, True
        first, last = int(steps[0]), int(steps[-1])
        rows["alive"][first : last + 1, seat] = True
        rows["new_alive"][max(first - 1, 0) : last, seat] = True
        if first:
            rows["new_present"][first - 1, seat] = True
        rows["new_alive"][last, seat] = not self.terminated
        ending = "truncateds"
        if self.terminated:
            ending = "terminateds"
        rows[ending][last, seat] = True
