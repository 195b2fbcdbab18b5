"""Calls a user's hooks for the episodes of one env runner; one without such hooks has none of this and pays nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.callbacks.callbacks import Hooks
from marl.callbacks.running_episode import RunningEpisode
from marl.data.actions import decoder
from marl.data.task import AgentID, Array, Bools, Ints, Task
from marl.envs.batched import State
from marl.envs.vector.vector_env import DictVector
from marl.errors import CallbackError, did_you_mean

if TYPE_CHECKING:
    from marl.rollout.env_runner import EnvRunner
    from marl.rollout.worker import RolloutWorker


class EpisodeCallbacks:
    """The episodes of an env runner as hooks see them, and the last actions, which nobody else remembers."""

    def __init__(self, runner: EnvRunner, hooks: Hooks, worker: RolloutWorker, evaluating: bool = False) -> None:
        self.runner, self.hooks, self.worker, self.evaluating = runner, hooks, worker, evaluating
        env = self.env = runner.env
        self.counts: Bools = np.ones(env.num_envs, bool)  # copies whose episode is one that anybody asked for
        self.over: dict[int, RunningEpisode] = {}  # ended since the last fragment, by id, for hooks that see its rows
        self._keeps = "on_postprocess_trajectory" in hooks and not evaluating
        self._actions = [
            np.zeros((env.num_envs, kind.size, *kind.action_shape), kind.action_dtype) for kind in env.kinds
        ]
        self._acted = np.zeros((env.num_envs, len(env.seat_names)), bool)
        self._decode = [decoder(kind.action_space) for kind in env.kinds]

    # -- what the runner tells -------------------------------------------------------------------------------------

    def new_episode(self, env_id: int, seed: int) -> RunningEpisode:
        """The object of an episode that begins in this copy."""
        runner = self.runner
        return RunningEpisode(
            int(runner.eps_id[env_id]), seed, runner.worker_index, env_id, evaluating=self.evaluating, witness=self
        )

    def begin(self, env_ids: Ints) -> None:
        """Episodes have begun."""
        self._acted[env_ids] = False
        self._seat(self.runner.view.born)
        if "on_episode_start" in self.hooks:
            for env_id in env_ids[self.counts[env_ids]].tolist():
                self._call("on_episode_start", env_id)

    def act(self, actions: Sequence[Array], present: Bools) -> None:
        """Everybody who was asked is about to do this, in the env's units."""
        for kind, last, new in zip(self.env.kinds, self._actions, actions, strict=True):
            asked = present[:, kind.seats]
            last[asked] = new[asked]
        self._acted |= present

    def settle(self, over: Ints) -> list[Any]:
        """A step was made, which ended these copies' episodes. Returns their objects, whose notes are read later."""
        self._seat(self.runner.view.born)
        if "on_episode_step" in self.hooks:
            for env_id in np.flatnonzero(self.counts).tolist():
                self._call("on_episode_step", env_id)
        ended = []
        for env_id in over.tolist():
            episode = self._episode(env_id)
            if self.counts[env_id] and "on_episode_end" in self.hooks:
                self._call("on_episode_end", env_id)
            episode.end()
            if self._keeps:
                self.over[episode.episode_id] = episode
            ended.append(episode)
        return ended

    def _seat(self, born: Sequence[tuple[int, int]]) -> None:
        for env_id, seat in born:
            self._episode(env_id).seated.append((int(self.runner.t[env_id]), seat, self.env.agent_at(env_id, seat)))

    def _episode(self, env_id: int) -> RunningEpisode:
        episode = self.runner.episodes[env_id]
        assert isinstance(episode, RunningEpisode)
        return episode

    def _call(self, hook: str, env_id: int) -> None:
        self.hooks(
            hook, worker=self.worker, base_env=self.env, policies=self.worker.policy_map, episode=self._episode(env_id),
            env_index=env_id,
        )  # fmt: skip

    def pop_episodes(self) -> dict[int, RunningEpisode]:
        """All episodes of the last fragment by their id: those that ended in it and those that go on."""
        episodes, self.over = self.over, {}
        for env_id in range(self.env.num_envs):
            running = self._episode(env_id)
            episodes[running.episode_id] = running
        return episodes

    # -- what episodes ask -----------------------------------------------------------------------------------------

    def length(self, env_id: int) -> int:
        return int(self.runner.t[env_id])

    def total_reward(self, env_id: int) -> float:
        late = sum(earned for _, _, earned in self.runner.stats.past[env_id])
        return float(self.runner.stats.returns[env_id].sum() + late)

    def observation(self, env_id: int, agent: AgentID | None) -> Array:
        k, column, _ = self._place(env_id, agent)
        row: Array = self.runner.view.obs[k][env_id, column].copy()
        return row

    def raw_observation(self, env_id: int, agent: AgentID | None) -> Any:
        if not isinstance(self.env, DictVector):
            return self.observation(env_id, agent)
        return self.env.last_obs[env_id].get(self._name(env_id, agent))

    def action(self, env_id: int, agent: AgentID | None) -> Any:
        k, column, seat = self._place(env_id, agent)
        if not self._acted[env_id, seat]:
            return None
        return self._decode[k](self._actions[k][env_id, column].tolist())

    def info(self, env_id: int, agent: AgentID | None) -> Mapping[str, Any]:
        if not isinstance(self.env, DictVector):
            return {}
        return self.env.infos[env_id].get(self._name(env_id, agent)) or {}

    def _name(self, env_id: int, agent: AgentID | None) -> AgentID:
        *_, seat = self._place(env_id, agent)
        return self.env.agent_at(env_id, seat)

    def _place(self, env_id: int, agent: AgentID | None) -> tuple[int, int, int]:
        """Kind, column within the kind, and seat of an agent."""
        names = [self.env.agent_at(env_id, seat) for seat in range(len(self.env.seat_names))]
        if agent is None and len(names) == 1:
            agent = names[0]
        if agent not in names:
            hint = " Name one of them." if agent is None else did_you_mean(agent, names)
            raise CallbackError(
                f"episode {self._episode(env_id).episode_id} has no agent {agent!r}. It has {', '.join(names)}.{hint}"
            )
        seat = names.index(agent)
        k = Task(self.env.kinds).kind_of(seat)
        return k, seat - self.env.kinds[k].first_seat, seat

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        env_ids = range(self.env.num_envs)
        return {
            "episodes": [self._episode(env_id).state_dict() for env_id in env_ids],
            "actions": [column.copy() for column in self._actions],
            "acted": self._acted.copy(),
            "counts": self.counts.copy(),
        }

    def load_state_dict(self, state: State | None) -> None:
        """None: the run had no hooks for episodes before, so those that are under way are watched from here on."""
        if state is None:
            for env_id in range(self.env.num_envs):
                self._join_in(env_id)
            return
        for env_id, saved in enumerate(state["episodes"]):
            self._episode(env_id).load_state_dict(saved)
        for column, saved in zip(self._actions, state["actions"], strict=True):
            column[:] = saved
        self._acted[:], self.counts = state["acted"], np.array(state["counts"])

    def _join_in(self, env_id: int) -> None:
        """An episode is watched from its middle on: who plays in it is known, who sat there before is not."""
        episode = self._episode(env_id)
        if self.env.fixed_seats:
            episode.policies = episode.policies or dict(self.runner.episodes[0].policies)
            return
        for seat in range(len(self.env.seat_names)):
            episode.seated.append((0, seat, self.env.agent_at(env_id, seat)))
