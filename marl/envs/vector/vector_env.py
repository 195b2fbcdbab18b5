"""Dicts at the edge, arrays inside: lifts copies of a dict env to the array API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from marl.data.actions import decoder
from marl.data.task import AgentID, AgentType, AnySpace, Array, Ints
from marl.envs.base import ALL, ENV_STATE, Action, MultiAgentEnv, Obs, StepResult, ending, state_vector
from marl.envs.batched import BatchedEnv, State, StepOutput
from marl.envs.chance import CHANCE, Outcome
from marl.envs.tasks import TaskLane, TaskMemory, tell, users_env, verbs_of
from marl.envs.vector.agent_slots import Seating
from marl.envs.vector.encoding import BROKEN, Reader, can_act
from marl.envs.vector.env_errors import Where, close_all, guarded, reset_pair, step_result
from marl.envs.vector.episode_log import EpisodeLog, bring_back
from marl.envs.vector.layout import MASK, kinds_of, state_width
from marl.errors import EnvError

LONGEST_EMPTY = 1_000  # steps without anybody alive before an env is told off


class DictVector(BatchedEnv):
    """``E`` objects of a ``MultiAgentEnv`` behind the array API. ``kinds``: agents as they are told apart elsewhere."""

    def __init__(
        self,
        envs: Sequence[MultiAgentEnv],
        name: str,
        fresh: Any = None,
        worker_index: int = 0,
        with_state: bool = True,
        kinds: Sequence[AgentType] = (),
    ) -> None:
        first = envs[0]
        self.envs, self.name, self.worker_index = list(envs), name, worker_index
        self.num_envs = len(self.envs)
        self.kinds = tuple(kinds) or kinds_of(first)
        self.fixed_seats, self.lifted = bool(first.possible_agents), True
        self.with_state = with_state  # asking an env for its state may cost as much as a step
        self.fresh = fresh  # makes a new env object for a copy, for envs that a reset does not clean
        self.infos: list[Mapping[AgentID, Any]] = [{} for _ in self.envs]
        self.last_obs: list[Mapping[AgentID, Obs]] = [{} for _ in self.envs]
        self.last_results: list[StepResult] = [StepResult({}, {}, {}, {}, {})] * self.num_envs
        self.logs = [EpisodeLog(env) for env in self.envs]
        self.seating = [Seating(self.seat_names, first.max_agents, self.fixed_seats) for _ in self.envs]
        self._recalled: list[TaskMemory] = []
        self._prepare_kinds(first)
        self._prepare_arrays()

    def _prepare_kinds(self, first: MultiAgentEnv) -> None:
        """How observations and actions of each kind of agent are read and written."""
        self._place: list[tuple[int, int]] = []  # seat -> kind, column
        self._decode: list[Callable[[Any], Any]] = []
        self._readers: list[Reader] = []
        spaces_given: list[AnySpace] = []
        for k, kind in enumerate(self.kinds):
            self._place.extend((k, i) for i in range(kind.size))
            self._decode.append(decoder(kind.action_space))
            example = kind.agents[0].split("[")[0].replace("*", "0")
            given = first.observation_space(example)
            self._readers.append(Reader(kind, given))
            spaces_given.append(given)
        self._state_in_obs = state_width(spaces_given)  # where the state comes inside the observations
        self._masked = any(kind.masked for kind in self.kinds)
        # Agents of one kind without envelopes, who never change: where all are shown at once, no names have to be looked up.
        one_kind = self.fixed_seats and len(self.kinds) == 1
        self._plain = one_kind and self._readers[0].key is None and not self._masked

    def _prepare_arrays(self) -> None:
        env_ids, seats = self.num_envs, len(self._place)
        self._obs = [np.zeros((env_ids, kind.size, kind.obs_width), kind.obs_dtype) for kind in self.kinds]
        self._legal = [np.ones((env_ids, kind.size, kind.legal_width), bool) for kind in self.kinds]
        self._present = np.zeros((env_ids, seats), bool)
        self._alive = np.zeros((env_ids, seats), bool)
        self.paid: Array = np.zeros((env_ids, seats))
        self._terminated = np.zeros((env_ids, seats), bool)
        self._truncated = np.zeros((env_ids, seats), bool)
        self._blind = np.zeros((env_ids, seats), bool)
        self._over = np.zeros(env_ids, bool)
        self._empty_steps = [0] * env_ids  # since anybody was alive
        self._born: list[tuple[int, int]] = []
        self._late: list[tuple[int, AgentID, float]] = []
        self.state_size = self._ask_state_size()
        self._state = np.zeros((env_ids, self.state_size), np.float32)

    def _ask_state_size(self) -> int:
        """An env may need a reset before it can tell its state."""
        if not self.with_state:
            return 0
        if self._state_in_obs:
            return self._state_in_obs
        try:
            return state_vector(self.envs[0]).size
        except Exception:
            guarded(self.envs[0].reset, "reset", partial(self.where, 0), seed=0)
            return state_vector(self.envs[0]).size

    def where(self, env_id: int) -> str:
        return f"env {self.name!r}, worker {self.worker_index}, copy {env_id}, step {self.logs[env_id].steps}"

    # -- the array API ---------------------------------------------------------------------------------------------

    def reset(self, env_ids: Ints, seeds: Ints) -> StepOutput:
        self._clear()
        for env_id, seed in zip(env_ids.tolist(), seeds.tolist(), strict=True):
            self.reset_copy(env_id, seed)
        return self._frame()

    def reset_to(self, env_ids: Ints, outcomes: Sequence[Outcome], seeds: Ints) -> StepOutput:
        """New episodes with these outcomes of what ``chance_outcomes()`` lists."""
        self._clear()
        for env_id, outcome, seed in zip(env_ids.tolist(), outcomes, seeds.tolist(), strict=True):
            self.reset_copy(env_id, seed, {CHANCE: outcome})
        return self._frame()

    def step(self, actions: Sequence[Array]) -> StepOutput:
        self._clear()
        lists = [column.tolist() for column in actions]
        asked = self._present.tolist()
        self._present[:] = False
        for env_id in range(self.num_envs):
            self.step_copy(env_id, self._actions_of(env_id, asked[env_id], lists))
        return self._frame()

    def agent_at(self, env_id: int, seat: int) -> AgentID:
        return self.seating[env_id].names[seat]

    def sub_env(self, index: int) -> object:
        """The user's env object; behind a view that notes tasks where it takes any."""
        env = self.envs[index]
        if verbs_of(env):
            return TaskLane(env, partial(self._note_task, index))
        return users_env(env)

    def _note_task(self, env_id: int, verb: str, task: object) -> None:
        self.told[env_id].pop(verb, None)  # the newest one comes last
        self.told[env_id][verb] = task
        self.logs[env_id].note_task(verb, task)

    def restore_tasks(self, told: Sequence[TaskMemory]) -> None:
        """Done copy by copy in ``set_state``: an episode that is replayed begins with the tasks of its beginning."""
        self._recalled = list(told)

    def render(self, env_id: int) -> Array | str | None:
        drawn: Array | str | None = guarded(self.envs[env_id].render, "render", partial(self.where, env_id))
        return drawn

    def close(self) -> None:
        close_all(self.envs, self.name)

    # -- one copy --------------------------------------------------------------------------------------------------

    def reset_copy(self, env_id: int, seed: int, options: Mapping[str, Any] | None = None) -> None:
        if self.fresh is not None:
            close_all([self.envs[env_id]], self.name)
            self.envs[env_id] = self.fresh(env_id)
            self.logs[env_id] = EpisodeLog(self.envs[env_id])
            tell(self.envs[env_id], self.told[env_id], {})
        self._alive[env_id] = self._present[env_id] = False
        for column in self._obs:  # nothing of the episode before may show through
            column[env_id] = 0
        for mask in self._legal:
            mask[env_id] = True
        self._empty_steps[env_id] = 0
        if not self.fixed_seats:
            self.seating[env_id].clear()
        self.logs[env_id].start(seed, self.told[env_id], options)
        where = partial(self.where, env_id)
        chance: dict[str, Any] = {}
        if options:  # only then: an env may take no options at all
            chance["options"] = dict(options)
        answer = guarded(self.envs[env_id].reset, "reset", where, seed=seed, **chance)
        obs, self.infos[env_id] = reset_pair(answer, where)
        self.last_obs[env_id] = obs
        if self._see_all(env_id, obs, self.infos[env_id]):
            self._look_for_masks(env_id, where)
        self._finish_copy(env_id)

    def _look_for_masks(self, env_id: int, where: Where) -> None:
        """Nobody has looked at the infos: a mask in them, which the spaces do not announce, must not go unnoticed."""
        size = self.kinds[0].columns.options
        for agent in self.last_obs[env_id]:
            info = self.infos[env_id].get(agent) or {}
            given = np.asarray(info.get(MASK), object)
            if given.shape == (size,):
                self._readers[0].legal(agent, given, where)

    def step_copy(self, env_id: int, actions: dict[AgentID, Action]) -> None:
        self.logs[env_id].record(actions)
        where = partial(self.where, env_id)
        answer = guarded(self.envs[env_id].step, "step", where, actions)
        result = self.last_results[env_id] = step_result(answer, where)
        obs, rewards, terminated, truncated, self.infos[env_id] = result
        self.last_obs[env_id] = obs
        if not self.fixed_seats:
            self.seating[env_id].release()
        all_seen = self._see_all(env_id, obs, self.infos[env_id])
        self._pay_all(env_id, rewards)
        if not all_seen or any(terminated.values()) or any(truncated.values()):
            self._end(env_id, result)
        self._finish_copy(env_id)

    def _finish_copy(self, env_id: int) -> None:
        if self._masked:
            self._check_masks(env_id)
        if self.state_size:
            self._state[env_id] = self._look_at_state(env_id)

    def _look_at_state(self, env_id: int) -> Array:
        """The env's ``state()``, or the state that came with the observations."""
        if self._state_in_obs:
            state: Array = self._state[env_id]  # as it was, where nobody is shown anything
            for value in self.last_obs[env_id].values():
                if isinstance(value, Mapping) and ENV_STATE in value:
                    state = np.asarray(value[ENV_STATE], np.float32).reshape(-1)
                    break
        else:
            state = guarded(state_vector, "state", partial(self.where, env_id), self.envs[env_id])
        if state.size != self.state_size:
            raise EnvError(
                f"{self.where(env_id)}: the global state has {state.size} numbers, expected {self.state_size} as at the "
                "start. Give it the same size in every step."
            )
        return state

    def _actions_of(self, env_id: int, asked: list[bool], lists: list[Any]) -> dict[AgentID, Action]:
        chosen: dict[AgentID, Action] = {}
        names = self.seating[env_id].names
        for seat, wanted in enumerate(asked):
            if wanted:
                k, i = self._place[seat]
                chosen[names[seat]] = self._decode[k](lists[k][env_id][i])
        return chosen

    def _see_all(self, env_id: int, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Any]) -> bool:
        """Whether everybody was seen at once, so that nobody can be missing."""
        may_be_read_at_once = self._plain and len(obs) == self.kinds[0].size
        if may_be_read_at_once and self._see_at_once(env_id, obs):
            return True
        for agent, value in obs.items():
            self._see(env_id, agent, value, infos.get(agent) or {})
        return False

    def _see_at_once(self, env_id: int, obs: Mapping[AgentID, Obs]) -> bool:
        """A row for each agent of the only kind; False where one cannot be read: the slow path finds out whose it was."""
        reader, stored = self._readers[0], self._obs[0][env_id]
        encode = reader.encode
        try:
            rows = np.asarray([encode(obs[agent]) for agent in self.kinds[0].agents])
        except BROKEN:
            return False
        if rows.shape != stored.shape or rows.dtype.kind not in reader.takes:
            return False
        stored[:] = rows
        if rows.dtype != reader.dtype and reader.may_wrap(rows.dtype) and (stored != rows).any():
            return False
        self._present[env_id] = self._alive[env_id] = True
        return True

    def _see(self, env_id: int, agent: AgentID, value: Obs, info: Mapping[str, Any]) -> None:
        seat = self.seating[env_id].seat_of.get(agent)
        if seat is None:  # somebody new, where ids are not known in advance
            seat = self.seating[env_id].take(agent, self.where(env_id))
            self._born.append((env_id, seat))
        k, i = self._place[seat]
        reader, where = self._readers[k], partial(self.where, env_id)
        value, mask = reader.opened(agent, value, info, where)
        self._obs[k][env_id, i] = reader.row(agent, value, where)
        if mask is not None:
            self._legal[k][env_id, i] = reader.legal(agent, mask, where)
        self._present[env_id, seat] = self._alive[env_id, seat] = True

    def _check_masks(self, env_id: int) -> None:
        for k, kind in enumerate(self.kinds):
            if not kind.masked:
                continue
            stuck = self._present[env_id, kind.seats] & ~can_act(kind, self._legal[k][env_id])
            for i in np.flatnonzero(stuck).tolist():
                raise EnvError(
                    f"{self.where(env_id)}: agent {self.agent_at(env_id, kind.first_seat + i)!r} is asked to act, but its "
                    "action_mask allows nothing. Allow at least one action, or end the agent."
                )

    def _pay_all(self, env_id: int, rewards: Mapping[AgentID, float]) -> None:
        if self._plain and len(rewards) == self.kinds[0].size:
            try:
                self.paid[env_id] = [rewards[agent] for agent in self.kinds[0].agents]
                return
            except (KeyError, ValueError, TypeError):
                pass  # somebody unknown, or not plain numbers: one by one, to say whose it was
        for agent, reward in rewards.items():
            seat = self.seating[env_id].seat_of.get(agent)
            try:
                amount = float(reward)
            except (TypeError, ValueError):
                said = f"{self.where(env_id)}: the reward of agent {agent!r} is {reward!r}. Return a number."
                raise EnvError(said) from None
            if seat is None:
                self.seating[env_id].check_known(agent, self.where(env_id))
                self._late.append((env_id, agent, amount))
            else:
                self.paid[env_id, seat] += amount

    def _end(self, env_id: int, result: StepResult) -> None:
        """Flags of those who ended, and whether the episode is over."""
        terminated, truncated = result.terminated, result.truncated
        self._check_flags(env_id, terminated)
        self._check_flags(env_id, truncated)
        for agent, seat in self.seating[env_id].seat_of.items():
            if not self._alive[env_id, seat]:
                continue
            ends, cut = ending(agent, terminated, truncated)
            if ends or cut:
                self._terminated[env_id, seat], self._truncated[env_id, seat] = ends, cut
                # A truncated agent's value goes on, so its last observation is missed; a terminated one's is 0 anyway.
                self._blind[env_id, seat] = not ends and agent not in result.obs
                self._alive[env_id, seat] = self._present[env_id, seat] = False
                if not self.fixed_seats:
                    self.seating[env_id].leaving.append(agent)
        somebody = bool(self._alive[env_id].any())
        over = not somebody
        if ALL in terminated or ALL in truncated:  # then the env says itself when an episode ends
            over = any(ending(ALL, terminated, truncated))
        self._over[env_id] = over
        self._count_empty_step(env_id, goes_on=somebody or over)

    def _count_empty_step(self, env_id: int, goes_on: bool) -> None:
        """An episode in which nobody lives and that does not end would be played for ever."""
        if goes_on:
            self._empty_steps[env_id] = 0
            return
        self._empty_steps[env_id] += 1
        if self._empty_steps[env_id] >= LONGEST_EMPTY:
            raise EnvError(
                f"{self.where(env_id)}: nobody has been alive for {LONGEST_EMPTY} steps, and '__all__' is not true. End the "
                "episode with '__all__', or leave '__all__' out where all agents end by themselves."
            )

    def _check_flags(self, env_id: int, flags: Mapping[AgentID, bool]) -> None:
        """A flag of somebody unknown is a mistyped id: the agent that was meant would never end."""
        seat_of = self.seating[env_id].seat_of
        for agent, flag in flags.items():
            if flag and agent not in seat_of and agent != ALL:
                self.seating[env_id].check_known(agent, self.where(env_id))

    # -- frames and state ------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        for flags in (self._terminated, self._truncated, self._blind, self._over):
            flags[:] = False
        self.paid[:] = 0.0
        self._born, self._late = [], []

    def _frame(self) -> StepOutput:
        with np.errstate(over="ignore"):
            rewards = self.paid.astype(np.float32)
        return StepOutput(
            self._obs, self._legal, self._present, self._state, rewards, self._terminated, self._truncated,
            self._over, self._blind, self._born, self._late,
        )  # fmt: skip

    def shown(self, env_id: int) -> list[Array]:
        """The observations of one copy, per kind."""
        return [column[env_id] for column in self._obs]

    def get_state(self) -> State:
        logs = [log.snapshot(self.shown(env_id)) for env_id, log in enumerate(self.logs)]
        return {
            "lanes": logs,
            "seating": [seating.get_state() for seating in self.seating],
            "obs": [column.copy() for column in self._obs],
            "legal": [column.copy() for column in self._legal],
            "present": self._present.copy(),
            "alive": self._alive.copy(),
            "state": self._state.copy(),
            "empty_steps": list(self._empty_steps),
        }

    def set_state(self, state: State) -> StepOutput:
        """Copies whose episode is too long to be replayed come back as ``over``: they have to be started anew."""
        lost = []
        for env_id, saved in enumerate(state["lanes"]):
            last_told = {}
            if self._recalled:
                last_told = self._recalled[env_id]
            lost.append(not bring_back(self, env_id, saved, last_told))
        self._clear()
        for seating, saved in zip(self.seating, state["seating"], strict=True):
            seating.set_state(saved)
        for column, saved in zip([*self._obs, *self._legal], [*state["obs"], *state["legal"]], strict=True):
            column[:] = saved
        self._present[:], self._alive[:], self._state[:] = state["present"], state["alive"], state["state"]
        self._empty_steps = list(state["empty_steps"])
        self._over[:] = lost
        return self._frame()
