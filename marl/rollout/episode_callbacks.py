"""Calls a user's hooks for the episodes of one player. A player without such hooks has no watch and pays nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.actions import decoder
from marl.callbacks.callbacks import Hooks
from marl.callbacks.running_episode import RunningEpisode
from marl.data.task import AgentID, Array, Bools, Ints
from marl.envs.batched import State
from marl.envs.vector.vector_env import DictVector
from marl.errors import CallbackError, did_you_mean

if TYPE_CHECKING:
    from marl.rollout.env_runner import Player
    from marl.rollout.worker import RolloutWorker


class Watch:
    """The episodes of a player as hooks see them, and the last actions, which nobody else remembers."""

    def __init__(self, player: Player, hooks: Hooks, worker: RolloutWorker, evaluating: bool = False) -> None:
        self.player, self.hooks, self.worker, self.evaluating = player, hooks, worker, evaluating
        world = self.world = player.world
        self.counts: Bools = np.ones(world.num_envs, bool)  # copies whose episode is one that anybody asked for
        self.over: dict[
            int, RunningEpisode
        ] = {}  # ended since the last fragment, by id, for those who look at its rows
        self._keeps = "on_postprocess_trajectory" in hooks and not evaluating
        self._actions = [
            np.zeros((world.num_envs, kind.size, *kind.action_shape), kind.action_dtype) for kind in world.kinds
        ]
        self._acted = np.zeros((world.num_envs, len(world.seat_names)), bool)
        self._decode = [decoder(kind.action_space) for kind in world.kinds]

    # -- what the player tells -------------------------------------------------------------------------------------

    def new_episode(self, lane: int, seed: int) -> RunningEpisode:
        """The object of an episode that begins in this copy."""
        player = self.player
        return RunningEpisode(
            int(player.eps_id[lane]), seed, player.worker_index, lane, evaluating=self.evaluating, witness=self
        )

    def begin(self, lanes: Ints) -> None:
        """Episodes have begun."""
        self._acted[lanes] = False
        self._seat(self.player.view.born)
        if "on_episode_start" in self.hooks:
            for lane in lanes[self.counts[lanes]].tolist():
                self._call("on_episode_start", lane)

    def act(self, actions: Sequence[Array], present: Bools) -> None:
        """Everybody who was asked is about to do this, in the world's units."""
        for kind, last, new in zip(self.world.kinds, self._actions, actions, strict=True):
            asked = present[:, kind.seats]
            last[asked] = new[asked]
        self._acted |= present

    def settle(self, over: Ints) -> list[Any]:
        """A step was made, which ended these copies' episodes. Gives their objects, whose notes are read when all is said."""
        self._seat(self.player.view.born)
        if "on_episode_step" in self.hooks:
            for lane in np.flatnonzero(self.counts).tolist():
                self._call("on_episode_step", lane)
        ended = []
        for lane in over.tolist():
            episode = self._episode(lane)
            if self.counts[lane] and "on_episode_end" in self.hooks:
                self._call("on_episode_end", lane)
            episode.end()
            if self._keeps:
                self.over[episode.episode_id] = episode
            ended.append(episode)
        return ended

    def _seat(self, born: Sequence[tuple[int, int]]) -> None:
        for lane, seat in born:
            self._episode(lane).seated.append((int(self.player.t[lane]), seat, self.world.agent_at(lane, seat)))

    def _episode(self, lane: int) -> RunningEpisode:
        episode = self.player.episodes[lane]
        assert isinstance(episode, RunningEpisode)
        return episode

    def _call(self, hook: str, lane: int) -> None:
        self.hooks(
            hook, worker=self.worker, base_env=self.world, policies=self.worker.policy_map, episode=self._episode(lane),
            env_index=lane,
        )  # fmt: skip

    def pop_episodes(self) -> dict[int, RunningEpisode]:
        """All episodes of the last fragment by their id: those that ended in it and those that go on."""
        over, self.over = self.over, {}
        running = [self._episode(lane) for lane in range(self.world.num_envs)]
        return {**over, **{episode.episode_id: episode for episode in running}}

    # -- what episodes ask -----------------------------------------------------------------------------------------

    def length(self, lane: int) -> int:
        return int(self.player.t[lane])

    def total_reward(self, lane: int) -> float:
        late = sum(earned for _, _, earned in self.player.ledger.past[lane])
        return float(self.player.ledger.returns[lane].sum() + late)

    def observation(self, lane: int, agent: AgentID | None) -> Array:
        k, column, _ = self._place(lane, agent)
        row: Array = self.player.view.obs[k][lane, column].copy()
        return row

    def raw_observation(self, lane: int, agent: AgentID | None) -> Any:
        if not isinstance(self.world, DictVector):
            return self.observation(lane, agent)
        return self.world.last_obs[lane].get(self._name(lane, agent))

    def action(self, lane: int, agent: AgentID | None) -> Any:
        k, column, seat = self._place(lane, agent)
        return self._decode[k](self._actions[k][lane, column].tolist()) if self._acted[lane, seat] else None

    def info(self, lane: int, agent: AgentID | None) -> Mapping[str, Any]:
        if not isinstance(self.world, DictVector):
            return {}
        return self.world.infos[lane].get(self._name(lane, agent)) or {}

    def _name(self, lane: int, agent: AgentID | None) -> AgentID:
        *_, seat = self._place(lane, agent)
        return self.world.agent_at(lane, seat)

    def _place(self, lane: int, agent: AgentID | None) -> tuple[int, int, int]:
        """Kind, column within the kind, and seat of an agent."""
        names = [self.world.agent_at(lane, seat) for seat in range(len(self.world.seat_names))]
        if agent is None and len(names) == 1:
            agent = names[0]
        if agent not in names:
            raise CallbackError(
                f"episode {self._episode(lane).episode_id} has no agent {agent!r}. It has {', '.join(names)}."
                f"{did_you_mean(agent, names) if agent is not None else ' Name one of them.'}"
            )
        seat = names.index(agent)
        k = next(k for k, kind in enumerate(self.world.kinds) if kind.seats.start <= seat < kind.seats.stop)
        return k, seat - self.world.kinds[k].first_seat, seat

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        lanes = range(self.world.num_envs)
        return {
            "episodes": [self._episode(lane).state_dict() for lane in lanes],
            "actions": [column.copy() for column in self._actions],
            "acted": self._acted.copy(),
            "counts": self.counts.copy(),
        }

    def load_state_dict(self, state: State | None) -> None:
        """None: the run had no hooks for episodes before, so those that are under way are watched from here on."""
        for lane in range(self.world.num_envs):
            episode = self._episode(lane)
            if state is not None:
                episode.load_state_dict(state["episodes"][lane])
            elif self.world.fixed_seats:
                episode.policies = episode.policies or dict(self.player.episodes[0].policies)
            else:
                names = [(0, seat, self.world.agent_at(lane, seat)) for seat in range(len(self.world.seat_names))]
                episode.seated = names
        if state is not None:
            for column, saved in zip(self._actions, state["actions"], strict=True):
                column[:] = saved
            self._acted[:], self.counts = state["acted"], np.array(state["counts"])
