"""Atomic routing as an env: everybody picks a path at the same time and pays the time it takes.

The reward of an agent on the path ``P`` is ``-sum_{e in P} t_e(x_e)``, where ``x_e`` is ``flow_per_agent`` times the number of
agents whose paths take the edge ``e``. An action is the number of a simple path of the agent's own trip, short ones first
(``CongestionGame.path_names``). In a repeated game every round is a step and the last round terminates the episode.

Everybody sees its own trip as a one-hot, so that a policy may be shared by agents with different ways to go; with
``observe: last`` also the loads of all edges in the round before, as shares of the whole flow. The global state is the same
loads, or a constant 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv
from marl.envs.games.networks.congestion_scene import congestion_scene
from marl.envs.games.networks.routing import CongestionConfig, Numbers, build_game, read_config


class CongestionGames(NativeEnv):
    """``num_envs`` copies of a congestion game. Agents with equally many paths form one kind."""

    config_class = CongestionConfig

    name = "congestion"
    deterministic = True
    state_arrays = ("rounds", "last")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = read_config(env_config)
        self.game = game = build_game(self.config)
        self.shows_last = self.config.observe == "last"
        self.state_size = len(game.edges) if self.shows_last else 1
        self.trip_of = np.repeat(np.arange(len(game.trips)), [trip.agents for trip in game.trips])
        counts = np.array([len(game.trips[trip].paths) for trip in self.trip_of])
        self.agents = [np.flatnonzero(counts == count) for count in dict.fromkeys(counts.tolist())]
        self.kinds = number_seats([self._kind(agents, int(counts[agents[0]])) for agents in self.agents])
        self.agent_in_seat = np.concatenate(self.agents)  # seats go by kind, agents by trip
        self.first_path = np.array([game.path_slices[trip].start for trip in self.trip_of])
        self.trips = np.eye(len(game.trips), dtype=np.float32)[self.trip_of]
        self.rounds = np.zeros(num_envs, np.int64)
        self.last = np.zeros((num_envs, game.num_agents), np.int64)  # paths, numbered over all trips

    def _kind(self, agents: Ints, paths: int) -> AgentType:
        name = "driver" if len(self.agents) == 1 else f"driver_with_{paths}_paths"
        width = len(self.game.trips) + self.shows_last * self.state_size
        seen = spaces.Box(0, 1, (width,), np.float32)
        return AgentType(name, tuple(f"driver_{agent}" for agent in agents), seen, spaces.Discrete(paths))

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds  # nothing is random
        self.rounds[env_ids] = 0
        self.last[env_ids] = self.first_path

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        for agents, chosen in zip(self.agents, actions, strict=True):
            self.last[:, agents] = self.first_path[agents] + chosen
        delays = self.game.path_delays(self.edge_loads())
        paid = -np.take_along_axis(delays, self.last, axis=1)[:, self.agent_in_seat]
        self.rounds += 1
        over = self.rounds >= self.config.repetitions
        ended = np.repeat(over[:, None], paid.shape[1], axis=1)
        return paid.astype(np.float32), ended, np.zeros_like(ended), over

    def edge_loads(self) -> Numbers:
        """``[E, edges]``: the loads of the last round; means nothing before the first one."""
        paths = len(self.game.incidence)
        # One bincount for all envs: each counts in a row of its own.
        cells = self.last + paths * np.arange(self.num_envs)[:, None]
        counts = np.bincount(cells.ravel(), minlength=paths * self.num_envs).reshape(self.num_envs, paths)
        return self.game.loads(counts.astype(np.float64) * self.game.flow_per_agent)

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        state = self._state()
        obs = [self._sight(agents, state) for agents in self.agents]
        legal = [np.ones((self.num_envs, kind.size, 0), bool) for kind in self.kinds]
        return obs, legal, np.ones((self.num_envs, self.game.num_agents), bool), state

    def _state(self) -> Floats:
        if not self.shows_last:
            return np.ones((self.num_envs, 1), np.float32)
        played = (self.rounds > 0)[:, None]
        shares: Numbers = self.edge_loads() / self.game.demands.sum() * played
        return shares.clip(0, 1).astype(np.float32)  # rounding may lead out of the Box

    def _sight(self, agents: Ints, state: Floats) -> Floats:
        trip = np.broadcast_to(self.trips[agents], (self.num_envs, *self.trips[agents].shape))
        if not self.shows_last:
            return trip.copy()
        loads = np.broadcast_to(state[:, None], (self.num_envs, len(agents), self.state_size))
        return np.concatenate([trip, loads], axis=2)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        trip = int(self.trip_of[int(agent.removeprefix("driver_"))])
        return self.game.path_names[self.game.path_slices[trip]]

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any] | None:
        return congestion_scene(self, env_id, viewer)

    def render(self, env_id: int) -> str:
        """Loads and delays of the edges, and how many agents took each path."""
        game, played = self.game, bool(self.rounds[env_id])
        lines = [f"congestion game, round {self.rounds[env_id]} of {self.config.repetitions}"]
        if played:
            loads = self.edge_loads()[env_id]
            for (u, v), load, delay in zip(game.edges, loads, game.edge_delays(loads), strict=True):
                lines.append(f"edge {u} > {v}: load {load:g}, delay {delay:g}")
        taken = np.bincount(self.last[env_id], minlength=len(game.path_names)) * played
        lines += [f"path {name}: {count} agents" for name, count in zip(game.path_names, taken, strict=True)]
        return "\n".join(lines)
