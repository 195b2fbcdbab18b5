"""Dicts at the edge, arrays inside: lifts copies of a dict world to the array API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import AgentID, Array, Ints, Kind
from marl.envs.base import ALL, Action, MultiAgentEnv, Obs, StepResult, state_vector
from marl.envs.batched import BatchedEnv, Frame, State
from marl.envs.episode_log import LONGEST_REPLAY, EpisodeLog, fingerprint
from marl.envs.layout import MASK, decoder, encoder, kinds_of, obs_key, pattern_of
from marl.errors import EnvError, did_you_mean

LONGEST_EMPTY = 1_000  # steps without anybody alive before a world is told off


class DictVector(BatchedEnv):
    """``E`` objects of a ``MultiAgentEnv`` behind the array API.

    Agents that are known in advance keep their seat for ever. Where ids are not known, a new id takes the seat of its
    pattern that has been free for the longest time, and the seat is free again in the step after its agent's end.
    """

    def __init__(self, envs: Sequence[MultiAgentEnv], name: str, fresh: Any = None, worker_index: int = 0) -> None:
        self.envs = list(envs)
        self.name = name
        self.worker_index = worker_index
        self.num_envs = len(self.envs)
        self.kinds = kinds_of(self.envs[0])
        self.fixed_seats = bool(self.envs[0].possible_agents)
        self.infos: list[Mapping[AgentID, Any]] = [{} for _ in self.envs]
        self.last_results: list[StepResult] = [StepResult({}, {}, {}, {}, {})] * self.num_envs
        self.logs = [EpisodeLog(env) for env in self.envs]
        self.fresh = fresh  # makes a new env object for a lane, for worlds that a reset does not clean
        self._prepare_seats()
        self._prepare_arrays()

    # -- layout ----------------------------------------------------------------------------------------------------

    def _prepare_seats(self) -> None:
        self._place = [(k, i) for k, kind in enumerate(self.kinds) for i in range(kind.size)]  # seat -> kind, column
        self._encode = [encoder(kind.observation_space) for kind in self.kinds]
        self._decode = [decoder(kind.action_space) for kind in self.kinds]
        self._key = [obs_key(self._raw_space(kind)) for kind in self.kinds]
        names = self.seat_names
        if self.fixed_seats:
            fixed = {agent: seat for seat, agent in enumerate(names)}
            self._seating = [fixed] * self.num_envs  # id -> seat
            self._plain = len(self.kinds) == 1 and self._key[0] is None and not self.kinds[0].masked
        else:
            self._seating = [{} for _ in self.envs]
            self._plain = False
        self._masked = any(kind.masked for kind in self.kinds)
        self._patterns = list(self.envs[0].max_agents)
        self._free: list[dict[str, list[int]]] = [self._all_free() for _ in self.envs]
        self._names: list[list[AgentID]] = [list(names) for _ in self.envs]
        self._leaving: list[list[AgentID]] = [[] for _ in self.envs]

    def _raw_space(self, kind: Kind) -> Any:
        first = kind.agents[0]
        return self.envs[0].observation_space(first.split("[")[0].replace("*", "0") if self._dynamic else first)

    @property
    def _dynamic(self) -> bool:
        return not self.fixed_seats

    def _all_free(self) -> dict[str, list[int]]:
        free: dict[str, list[int]] = {pattern: [] for pattern in self._patterns}
        for seat, name in enumerate(self.seat_names if self._dynamic else ()):
            free[name.split("[")[0]].append(seat)
        return free

    def _prepare_arrays(self) -> None:
        lanes, seats = self.num_envs, len(self._place)
        self._obs = [np.zeros((lanes, kind.size, kind.obs_width), kind.obs_dtype) for kind in self.kinds]
        self._legal = [np.ones((lanes, kind.size, kind.legal_width), bool) for kind in self.kinds]
        self._present = np.zeros((lanes, seats), bool)
        self._alive = np.zeros((lanes, seats), bool)
        self._rewards = np.zeros((lanes, seats), np.float32)
        self._terminated = np.zeros((lanes, seats), bool)
        self._truncated = np.zeros((lanes, seats), bool)
        self._blind = np.zeros((lanes, seats), bool)
        self._over = np.zeros(lanes, bool)
        self._lonely = [0] * lanes  # steps since anybody was alive
        self._born: list[tuple[int, int]] = []
        self._late: list[tuple[int, AgentID, float]] = []
        self.state_size = self._ask_state_size()
        self._state = np.zeros((lanes, self.state_size), np.float32)

    def _ask_state_size(self) -> int:
        """A world may need a reset before it can tell its state."""
        try:
            return state_vector(self.envs[0]).size
        except Exception:
            self._guarded(0, lambda: self.envs[0].reset(seed=0), "reset")
            return state_vector(self.envs[0]).size

    # -- the array API ---------------------------------------------------------------------------------------------

    def reset(self, lanes: Ints, seeds: Ints) -> Frame:
        self._clear()
        for lane, seed in zip(lanes.tolist(), seeds.tolist(), strict=True):
            self._reset_lane(lane, seed)
        return self._frame()

    def step(self, actions: Sequence[Array]) -> Frame:
        self._clear()
        lists = [column.tolist() for column in actions]
        asked = self._present.tolist()
        self._present[:] = False
        for lane, env in enumerate(self.envs):
            chosen = self._actions_of(lane, asked[lane], lists)
            self.logs[lane].record(chosen)
            result = self._guarded(lane, lambda env=env, chosen=chosen: env.step(chosen), "step")
            self.last_results[lane] = self._five(lane, result)
            self._take(lane, self.last_results[lane])
        return self._frame()

    def agent_at(self, lane: int, seat: int) -> AgentID:
        return self._names[lane][seat]

    def lane(self, index: int) -> object:
        return self.envs[index]

    def render(self, lane: int) -> Array | str | None:
        return self.envs[lane].render()

    def close(self) -> None:
        for env in self.envs:
            env.close()

    # -- one lane --------------------------------------------------------------------------------------------------

    def _reset_lane(self, lane: int, seed: int) -> None:
        if self.fresh is not None:
            self.envs[lane].close()
            self.envs[lane] = self.fresh(lane)
            self.logs[lane] = EpisodeLog(self.envs[lane])
        self._alive[lane] = self._present[lane] = False
        if self._dynamic:
            self._seating[lane], self._free[lane], self._leaving[lane] = {}, self._all_free(), []
        self.logs[lane].start(seed)
        answer = self._guarded(lane, lambda: self.envs[lane].reset(seed=seed), "reset")
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], dict)):
            raise EnvError(
                f"env {self.name!r}, copy {lane}: reset returned {type(answer).__name__}; expected the pair "
                "(observations by agent, infos by agent)."
            )
        obs, infos = answer
        self.infos[lane] = infos
        self._see_all(lane, obs, infos)
        if self.state_size:
            self._state[lane] = state_vector(self.envs[lane])

    def _actions_of(self, lane: int, asked: list[bool], lists: list[Any]) -> dict[AgentID, Action]:
        chosen: dict[AgentID, Action] = {}
        names = self._names[lane]
        for seat, wanted in enumerate(asked):
            if wanted:
                k, i = self._place[seat]
                chosen[names[seat]] = self._decode[k](lists[k][lane][i])
        return chosen

    def _take(self, lane: int, result: StepResult) -> None:
        """Write one world's answer into the arrays."""
        obs, rewards, terminated, truncated, infos = result
        self.infos[lane] = infos
        self._free_seats(lane)
        all_seen = self._see_all(lane, obs, infos)
        self._pay_all(lane, rewards)
        if not all_seen or any(terminated.values()) or any(truncated.values()):
            self._end(lane, terminated, truncated, obs)
        if self._masked:
            self._check_masks(lane)
        if self.state_size:
            self._state[lane] = state_vector(self.envs[lane])

    def _check_masks(self, lane: int) -> None:
        for k, kind in enumerate(self.kinds):
            stuck = self._present[lane, kind.seats] & ~self._legal[k][lane].any(axis=1) if kind.masked else ()
            for i in np.flatnonzero(stuck).tolist():
                raise EnvError(
                    f"env {self.name!r}, copy {lane}, step {self.logs[lane].steps}: agent "
                    f"{self._names[lane][kind.first_seat + i]!r} is asked to act, but its action_mask allows nothing. "
                    "Allow at least one action, or end the agent."
                )

    def _see_all(self, lane: int, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Any]) -> bool:
        """Whether everybody was seen at once, so that nobody can be missing."""
        if self._plain and len(obs) == self.kinds[0].size:
            encode = self._encode[0]
            try:
                self._obs[0][lane] = [encode(obs[agent]) for agent in self.kinds[0].agents]
            except (KeyError, ValueError, TypeError):
                pass  # the slow path below finds out which agent it was
            else:
                self._present[lane] = self._alive[lane] = True
                return True
        for agent, value in obs.items():
            self._see(lane, agent, value, infos.get(agent) or {})
        return False

    def _see(self, lane: int, agent: AgentID, value: Obs, info: Mapping[str, Any]) -> None:
        seat = self._seat_for(lane, agent)
        k, i = self._place[seat]
        mask = info.get(MASK)
        if self._key[k] is not None:
            mask = value.get(MASK, mask)
            value = value[self._key[k]]
        try:
            self._obs[k][lane, i] = self._encode[k](value)
        except (ValueError, TypeError) as error:
            raise EnvError(
                f"env {self.name!r}, copy {lane}: the observation of agent {agent!r} has shape {np.shape(value)}, its "
                f"space says {self.kinds[k].observation_space}. Make the two agree ({error})."
            ) from error
        if mask is not None and self.kinds[k].masked:
            self._legal[k][lane, i] = mask
        self._present[lane, seat] = self._alive[lane, seat] = True

    def _pay_all(self, lane: int, rewards: Mapping[AgentID, float]) -> None:
        if self._plain and len(rewards) == self.kinds[0].size:
            try:
                self._rewards[lane] = [rewards[agent] for agent in self.kinds[0].agents]
            except (KeyError, ValueError, TypeError):
                pass  # somebody unknown, or not plain numbers: one by one
            else:
                return
        for agent, reward in rewards.items():
            self._pay(lane, agent, reward)

    def _pay(self, lane: int, agent: AgentID, reward: float) -> None:
        seat = self._seating[lane].get(agent)
        if seat is None:
            self._late.append((lane, agent, float(reward)))
        else:
            self._rewards[lane, seat] += reward

    def _end(
        self,
        lane: int,
        terminated: Mapping[AgentID, bool],
        truncated: Mapping[AgentID, bool],
        obs: Mapping[AgentID, Obs],
    ) -> None:
        everybody = (bool(terminated.get(ALL, False)), bool(truncated.get(ALL, False)))
        if any(terminated.values()) or any(truncated.values()):
            self._end_agents(lane, terminated, truncated, obs, everybody)
        alive = bool(self._alive[lane].any())
        self._over[lane] = any(everybody) or (not alive and ALL not in terminated and ALL not in truncated)
        self._lonely[lane] = 0 if alive or self._over[lane] else self._lonely[lane] + 1
        if self._lonely[lane] >= LONGEST_EMPTY:
            raise EnvError(
                f"env {self.name!r}, copy {lane}: nobody has been alive for {LONGEST_EMPTY} steps, and '__all__' is not "
                "true. End the episode with '__all__', or leave '__all__' out where all agents end by themselves."
            )

    def _end_agents(
        self,
        lane: int,
        terminated: Mapping[AgentID, bool],
        truncated: Mapping[AgentID, bool],
        obs: Mapping[AgentID, Obs],
        everybody: tuple[bool, bool],
    ) -> None:
        for agent, seat in self._seating[lane].items():
            if not self._alive[lane, seat]:
                continue
            ends, cut = bool(terminated.get(agent, False)), bool(truncated.get(agent, False))
            if not (ends or cut):
                ends, cut = everybody[0], everybody[1] and not everybody[0]
            if ends or cut:
                self._terminated[lane, seat], self._truncated[lane, seat] = ends, cut and not ends
                self._blind[lane, seat] = not ends and agent not in obs
                self._alive[lane, seat] = self._present[lane, seat] = False
                self._leaving[lane].append(agent)

    # -- seats -----------------------------------------------------------------------------------------------------

    def _seat_for(self, lane: int, agent: AgentID) -> int:
        seat = self._seating[lane].get(agent)
        if seat is None:
            seat = self._new_seat(lane, agent)
        return seat

    def _new_seat(self, lane: int, agent: AgentID) -> int:
        pattern = pattern_of(agent, self._patterns)
        if self.fixed_seats or pattern is None:
            known = list(self._seating[lane]) if self.fixed_seats else self._patterns
            where = "possible_agents" if self.fixed_seats else "the patterns of max_agents"
            raise EnvError(
                f"env {self.name!r}, copy {lane}: agent {agent!r} is not in {where} ({', '.join(map(str, known))})."
                f"{did_you_mean(agent, known)} Add it there."
            )
        free = self._free[lane][pattern]
        if not free:
            raise EnvError(
                f"env {self.name!r}, copy {lane}: agent {agent!r} appeared while all "
                f"{self.envs[lane].max_agents[pattern]} "
                f"seats of {pattern!r} were taken. Raise max_agents[{pattern!r}]."
            )
        seat = free.pop(0)
        self._seating[lane][agent] = seat
        self._names[lane][seat] = agent
        self._born.append((lane, seat))
        return seat

    def _free_seats(self, lane: int) -> None:
        """Seats of agents that ended in the step before; their last observations are stored by now."""
        for agent in self._leaving[lane] if self._dynamic else ():
            seat = self._seating[lane].pop(agent)
            self._free[lane][self.seat_names[seat].split("[")[0]].append(seat)
        self._leaving[lane].clear()

    # -- frames, errors, state -------------------------------------------------------------------------------------

    def _clear(self) -> None:
        for flags in (self._terminated, self._truncated, self._blind, self._over):
            flags[:] = False
        self._rewards[:] = 0.0
        self._born, self._late = [], []

    def _frame(self) -> Frame:
        return Frame(
            self._obs, self._legal, self._present, self._state, self._rewards, self._terminated, self._truncated,
            self._over, self._blind, self._born, self._late,
        )  # fmt: skip

    def _guarded(self, lane: int, call: Any, verb: str) -> Any:
        """Run the user's code; what goes wrong there names env, worker, copy and step."""
        try:
            return call()
        except EnvError:
            raise
        except Exception as error:
            raise EnvError(
                f"env {self.name!r}, worker {self.worker_index}, copy {lane}, step {self.logs[lane].steps}: {verb} "
                "raised "
                f"{type(error).__name__}: {error}"
            ) from error

    def _five(self, lane: int, result: object) -> StepResult:
        if isinstance(result, StepResult):
            return result
        if not isinstance(result, tuple) or len(result) != 5:
            size = len(result) if isinstance(result, tuple) else type(result).__name__
            raise EnvError(
                f"env {self.name!r}, copy {lane}: step returned {size} values; expected five dicts: observations, "
                "rewards, "
                "terminated, truncated, infos. A world with one `done` dict: return it as terminated, and {} as "
                "truncated."
            )
        return StepResult(*result)

    def get_state(self) -> State:
        return {
            "lanes": [log.snapshot([column[lane] for column in self._obs]) for lane, log in enumerate(self.logs)],
            "obs": [column.copy() for column in self._obs],
            "legal": [column.copy() for column in self._legal],
            "present": self._present.copy(),
            "alive": self._alive.copy(),
            "state": self._state.copy(),
            "names": [list(names) for names in self._names],
            "seating": [[[agent, seat] for agent, seat in seating.items()] for seating in self._seating],
            "free": [dict(free) for free in self._free],
            "leaving": [list(agents) for agents in self._leaving],
        }

    def set_state(self, state: State) -> Frame:
        """Lanes whose episode is too long to be replayed come back as ``over``: they have to be started anew."""
        lost = [not self._bring_back(lane, saved) for lane, saved in enumerate(state["lanes"])]
        self._clear()
        for column, saved in zip([*self._obs, *self._legal], [*state["obs"], *state["legal"]], strict=True):
            column[:] = saved
        self._present[:], self._alive[:], self._state[:] = state["present"], state["alive"], state["state"]
        self._names = [list(names) for names in state["names"]]
        self._leaving = [list(agents) for agents in state["leaving"]]
        if self._dynamic:
            self._seating = [dict(pairs) for pairs in state["seating"]]
            self._free = [{p: list(seats) for p, seats in free.items()} for free in state["free"]]
        self._over[:] = lost
        return self._frame()

    def _bring_back(self, lane: int, saved: State) -> bool:
        log = self.logs[lane]
        if "state" in saved:
            log.adopt(saved)
            return True
        if saved["steps"] > LONGEST_REPLAY:
            return False
        if saved["seed"] is None:
            return True
        self._reset_lane(lane, saved["seed"])
        for actions in self.logs[lane].replayed(saved):
            self.logs[lane].record(actions)
            env = self.envs[lane]
            result = self._guarded(lane, lambda env=env, chosen=actions: env.step(chosen), "step")
            self._take(lane, self._five(lane, result))
        if fingerprint([column[lane] for column in self._obs]) != saved["fingerprint"]:
            raise EnvError(
                f"env {self.name!r}, copy {lane}: replaying the episode from its seed and its {saved['steps']} logged "
                "steps "
                "led elsewhere, so the run cannot go on exactly. Give the world get_state() and set_state(), or set "
                "fresh_env_per_episode: true if it only remembers something over resets."
            )
        return True
