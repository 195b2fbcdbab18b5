"""The dict API of a natively batched env: one copy of it, as a ``MultiAgentEnv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.actions import action_encoder
from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import ALL, ENV_STATE, Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import BatchedEnv, NativeEnv, State, StepOutput
from marl.envs.chance import CHANCE, Outcome, nothing_random
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.vector.layout import MASK, pattern_of


class SingleLane(MultiAgentEnv):
    """Plays one copy of a ``BatchedEnv`` through dicts, for scripts, tests and other libraries."""

    def __init__(self, create: Callable[[int, Mapping[str, Any]], BatchedEnv], config: Mapping[str, Any] | None = None):
        config = config or {}
        self.env = create(1, config)
        self.with_state = bool(config.get("separate_state_space", False))
        self._gone: list[AgentID] = []  # ended in the step before
        self._seat_of: dict[AgentID, int] = {}
        self._place: list[tuple[int, int]] = []  # seat -> kind, column
        for k, kind in enumerate(self.env.kinds):
            for i in range(kind.size):
                self._place.append((k, i))
        if self.env.fixed_seats:
            self.possible_agents = self.env.seat_names
        else:
            patterns = [name.split("[")[0] for name in self.env.seat_names]
            self.max_agents = dict(Counter(patterns))
        self._encode = [action_encoder(kind.action_space) for kind in self.env.kinds]
        self._state: Array = np.zeros(self.env.state_size, np.float32)
        self._obs_spaces = [self._observation_space(k) for k in range(len(self.env.kinds))]
        self._offer_what_the_env_can()

    def _offer_what_the_env_can(self) -> None:
        """Tasks and outcomes of chance: others ask whether the methods are there, so they are only where the env has them."""
        if type(self.env).set_task is not BatchedEnv.set_task:
            self.set_task = self._set_task
        if isinstance(self.env, DealtEnv):
            self.chance_outcomes = self._deals
        elif isinstance(self.env, NativeEnv) and self.env.deterministic:
            self.chance_outcomes = nothing_random

    def _observation_space(self, k: int) -> AnySpace:
        kind = self.env.kinds[k]
        parts: dict[str, AnySpace] = {}
        if kind.masked:
            parts[MASK] = spaces.MultiBinary(kind.legal_width)
        if self.with_state:
            parts[ENV_STATE] = spaces.Box(-np.inf, np.inf, (self.env.state_size,), np.float32)
        if not parts:
            return kind.observation_space
        return spaces.Dict({"obs": kind.observation_space, **parts})

    def _kind_of(self, agent: AgentID) -> int:
        names = self.env.seat_names
        if self.env.fixed_seats:
            seat = names.index(agent)
        else:
            pattern = pattern_of(agent, list(self.max_agents)) or agent
            seats = [place for place, name in enumerate(names) if name.startswith(f"{pattern}[")]
            seat = seats[0]  # the spaces of all seats of a pattern are alike
        kind, _ = self._place[seat]
        return kind

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._obs_spaces[self._kind_of(agent)]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.env.kinds[self._kind_of(agent)].action_space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        self._seat_of = {}
        self._gone = []
        frame = self._begin(seed, options or {})
        obs = self._observations(frame, asked_only=True)
        return obs, {agent: {} for agent in obs}

    def _begin(self, seed: int | None, options: Mapping[str, Any]) -> StepOutput:
        if CHANCE in options and isinstance(self.env, DealtEnv):
            return self.env.reset_to(np.array([0]), np.array([options[CHANCE]]))
        if seed is None:  # as in Gymnasium: then every episode is another one
            seed = int(np.random.default_rng().integers(2**31))
        return self.env.reset(np.array([0]), np.array([seed]))

    def _deals(self) -> list[tuple[Outcome, float]]:
        """The env's deals by number; offered only where the env itself lists them."""
        assert isinstance(self.env, DealtEnv)
        deals: list[tuple[Outcome, float]] = []
        for deal, probability in enumerate(self.env.deal_probabilities):
            if probability > 0:
                deals.append((deal, float(probability)))
        return deals

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        frame = self.env.step(self._columns(actions))
        obs = self._observations(frame, asked_only=False)
        rewards: dict[AgentID, float] = {}
        terminated: dict[AgentID, bool] = {}
        truncated: dict[AgentID, bool] = {}
        self._gone = []
        somebody_cut = False
        for agent, seat in self._seat_of.items():
            ends, cut = bool(frame.terminated[0, seat]), bool(frame.truncated[0, seat])
            rewards[agent] = float(frame.rewards[0, seat])
            terminated[agent] = ends
            truncated[agent] = cut
            if ends or cut:
                self._gone.append(agent)
            somebody_cut |= cut and not ends
        for _, agent, reward in frame.late:
            rewards[agent] = rewards.get(agent, 0.0) + reward
        over = bool(frame.over[0])
        # "__all__" terminates everybody, so it may only say so where nobody was truncated.
        truncated[ALL] = over and somebody_cut
        terminated[ALL] = over and not somebody_cut
        return StepResult(obs, rewards, terminated, truncated, {agent: {} for agent in obs})

    def _columns(self, actions: Mapping[AgentID, Action]) -> list[Array]:
        columns: list[Array] = []
        for kind in self.env.kinds:
            columns.append(np.zeros((1, kind.size, *kind.action_shape), kind.action_dtype))
        for agent, action in actions.items():
            k, i = self._place[self._seat_of[agent]]
            columns[k][0, i] = self._encode[k](action)
        return columns

    def _observations(self, frame: StepOutput, asked_only: bool) -> dict[AgentID, Obs]:
        """Observations of those who are asked and, after a step, the last ones of those who ended."""
        self._state = np.array(frame.state[0])
        shown = frame.present[0]
        if not asked_only:
            shown = shown | frame.terminated[0] | frame.truncated[0]
        seats: dict[AgentID, int] = {}
        obs: dict[AgentID, Obs] = {}
        for seat in np.flatnonzero(shown).tolist():
            agent = self.env.agent_at(0, seat)
            seats[agent] = seat
            obs[agent] = self._observe(frame, seat)
        self._seat_of = {**self._alive(), **seats}
        return obs

    def _alive(self) -> dict[AgentID, int]:
        """Agents between two decisions keep their seat."""
        if self.env.fixed_seats:
            return {agent: seat for seat, agent in enumerate(self.env.seat_names)}
        alive = dict(self._seat_of)
        for agent in self._gone:
            alive.pop(agent, None)
        return alive

    def _observe(self, frame: StepOutput, seat: int) -> Obs:
        k, i = self._place[seat]
        kind = self.env.kinds[k]
        space = kind.observation_space
        flat = frame.obs[k][0, i]
        obs: Obs
        if isinstance(space, spaces.Discrete):
            obs = int(flat[0]) + int(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            obs = (flat.reshape(space.shape) + space.start).astype(space.dtype)
        elif isinstance(space, spaces.Tuple | spaces.Dict):
            obs = spaces.unflatten(space, flat)
        else:
            obs = np.array(flat, space.dtype).reshape(space.shape or ())
        parts: dict[str, Obs] = {}
        if kind.masked:
            parts[MASK] = frame.legal[k][0, i].astype(np.int8)
        if self.with_state:
            parts[ENV_STATE] = self._state
        if not parts:
            return obs
        return {"obs": obs, **parts}

    def state(self) -> Array | None:
        if not self.env.state_size:
            return None
        return self._state

    def render(self) -> Array | str | None:
        return self.env.render(0)

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any] | None:
        return self.env.scene(0, viewer)

    def close(self) -> None:
        self.env.close()

    def reseed(self, seed: int) -> bool:
        return self.env.reseed(np.array([seed]))

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        return self.env.action_names(agent)

    def _set_task(self, task: object) -> None:
        self.env.set_task(0, task)

    def get_state(self) -> State:
        return {
            "world": self.env.get_state(),
            "seats": [[a, s] for a, s in self._seat_of.items()],
            "gone": list(self._gone),
        }

    def set_state(self, state: State) -> None:
        self._state = np.array(self.env.set_state(state["world"]).state[0])
        self._seat_of = dict(map(tuple, state["seats"]))
        self._gone = list(state["gone"])
