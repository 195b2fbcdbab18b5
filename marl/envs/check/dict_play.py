"""Plays one copy of a dict env, one episode at a time, and looks at every answer."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marl.data.actions import decoder
from marl.data.task import AgentID, Array
from marl.envs.base import ALL, Action, Flags, MultiAgentEnv, Obs, StepResult, ending, state_vector
from marl.envs.check.dict_rules import DictRules, truth
from marl.envs.check.findings import Broken
from marl.envs.check.traces import Trace, View, arrays_in, digest, draw
from marl.envs.vector.env_errors import wrong_reset, wrong_step
from marl.errors import let_through
from marl.failures import line_of_code

PATIENCE = 20  # steps with nobody left before an env that never ends is called empty


@dataclass
class Clock:
    """Seconds that each reset and each step of the env itself took."""

    resets: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)


class DictPlay:
    """One object of the env. ``begin`` starts an episode, ``step`` goes on with random (or given) actions."""

    def __init__(self, env: MultiAgentEnv, rules: DictRules, clock: Clock | None = None) -> None:
        self.env = env
        self.rules = rules
        self.findings = rules.findings
        self.clock = clock or Clock()
        self._decode = {id(kind): decoder(kind.action_space) for kind in rules.kinds}
        self._state_size: int | None = None
        self.trace = Trace(0)
        self.actions: dict[AgentID, Action] = {}

    def episode(self, seed: int, limit: int, deadline: float = math.inf) -> Trace:
        """An episode from its seed, cut after ``limit`` steps or when the time is up."""
        self.begin(seed)
        while not self.trace.over and self.trace.length < limit:
            if time.perf_counter() >= deadline:
                break
            self.step()
        return self.trace

    def begin(self, seed: int, options: Mapping[str, Any] | None = None) -> None:
        self._open_books(seed)
        given: dict[str, Any] = {}
        if options:  # only where there are any: many envs take no options at all
            given["options"] = dict(options)
        answer = self._call("reset", lambda: self.env.reset(seed=seed, **given), self.clock.resets)
        if not _is_tuple_of_dicts(answer, 2):
            self._break("wrong-answer", wrong_reset(answer))
        obs, infos = answer
        self._look_at_sights(obs, infos, 0)
        self._ask(obs, infos, 0)
        self._remember(obs, StepResult({}, {}, {}, {}, {}))

    def go_on_after(self, trace: Trace, step: int) -> None:
        """The env was put behind ``step`` of an episode by ``set_state``."""
        self._open_books(trace.seed)
        self.trace.views = list(trace.views[: step + 1])

    def _open_books(self, seed: int) -> None:
        self.trace = Trace(seed)
        self.rng = np.random.default_rng([seed, 1])  # the same actions whenever the seed is played again
        self.alive: set[AgentID] = set()
        self.ended: dict[AgentID, int] = {}
        self.empty_steps = 0
        self._handed_out: list[tuple[AgentID, Array, Array]] = []

    def step(self, actions: dict[AgentID, Action] | None = None) -> None:
        step = self.trace.length + 1
        self.actions = self._choose() if actions is None else actions
        self.trace.decisions += len(self.actions)
        # A copy: what the env does to its argument must not change what a message says was sent.
        answer = self._call("step", lambda: self.env.step(dict(self.actions)), self.clock.steps)
        if not _is_tuple_of_dicts(answer, 5):
            self._break("wrong-answer", wrong_step(answer))
        result = StepResult(*answer)
        self._look_for_changes(result.obs, step)
        self._look_at_sights(result.obs, result.infos, step)
        self.rules.crowd(self.alive | set(result.obs), step)
        self.rules.flags(result, step)
        self._look_at_rewards(result.rewards, step)
        self._end(result, step)
        self._ask({} if self.trace.over else result.obs, result.infos, step)
        self._remember(result.obs, result)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, verb: str, call: Any, times: list[float]) -> Any:
        started = time.perf_counter()
        try:
            return call()
        except BaseException as error:
            let_through(error)
            sent = f" The actions were {self.actions}." if verb == "step" else ""
            text = f"{verb} raised {type(error).__name__}: {error}{line_of_code(error)}.{sent}"
            self._break("raised", text)
        finally:
            times.append(time.perf_counter() - started)

    def _break(self, code: str, text: str) -> None:
        step = max(self.trace.length + 1, 0)
        self.findings.add(code, f"step {step}: {text}")
        raise Broken(text)

    def _choose(self) -> dict[AgentID, Action]:
        chosen: dict[AgentID, Action] = {}
        for agent in sorted(self.asked, key=str):  # by name: the order of a dict may differ between two copies
            kind = self.rules.kind_of(agent)
            decode = self._decode[id(kind)]
            stored = draw(kind, self.asked[agent], self.rng)
            chosen[agent] = decode(stored.tolist())
        return chosen

    # -- what an answer holds --------------------------------------------------------------------------------------

    def _look_at_sights(self, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Any], step: int) -> None:
        for agent, value in obs.items():
            if self.rules.known(agent, "observations", step):
                self.rules.observation(self.env, agent, value, step)
        self.rules.sharing(obs, step)
        self.rules.infos(infos, step)

    def _look_for_changes(self, obs: Mapping[AgentID, Obs], step: int) -> None:
        """Arrays that were given in the step before still hold what they held."""
        given_now = {id(array) for array in arrays_in(list(obs.values()))}
        for agent, array, copy in self._handed_out:
            unchanged = array.shape == copy.shape and array.tobytes() == copy.tobytes()
            if unchanged:
                continue
            text = f"step {step}: the array that agent {agent!r} got in step {step - 1} was changed in place"
            if id(array) in given_now:
                text += " and given again"
            self.findings.add("obs-mutated", f"{text}.")

    def _look_at_rewards(self, rewards: Mapping[AgentID, Any], step: int) -> None:
        for agent, reward in rewards.items():
            if not self.rules.known(agent, "rewards", step):
                continue
            amount = self.rules.reward(agent, reward, step)
            self.trace.returns[agent] = self.trace.returns.get(agent, 0.0) + amount
            if not amount or agent in self.alive:
                continue
            why = "before it was ever asked"
            if agent in self.ended:
                why = f"after its end in step {self.ended[agent]}"
            text = f"step {step}: agent {agent!r} was rewarded while absent ({amount:g}, {why})."
            self.findings.add("reward-absent", text)

    def _end(self, result: StepResult, step: int) -> None:
        """Who ended in this step, and whether the episode is over."""
        terminated = _as_bools(result.terminated)
        truncated = _as_bools(result.truncated)
        gone = self._leaving(result.obs, terminated, truncated, step)
        self.alive -= gone
        self.ended |= dict.fromkeys(gone, step)
        nobody_left = not self.alive and self.ended.keys() >= set(result.obs)
        if ALL in terminated or ALL in truncated:  # then it alone says when the episode is over
            self.trace.over = terminated.get(ALL, False) or truncated.get(ALL, False)
        else:
            self.trace.over = nobody_left
        if nobody_left and not self.trace.over:
            self.empty_steps += 1  # others may still come, but an env that stays empty never ends
        else:
            self.empty_steps = 0

    def _leaving(self, obs: Mapping[AgentID, Obs], terminated: Flags, truncated: Flags, step: int) -> set[AgentID]:
        """Those who terminate or are truncated in this step."""
        there = {agent for agent in obs if self.rules.seat(agent) is not None}
        ended_here: set[AgentID] = set()
        cut_here: set[AgentID] = set()
        for agent in sorted(self.alive | there, key=str):
            ends, cut = ending(agent, terminated, truncated)
            if ends:
                ended_here.add(agent)
            elif cut:
                cut_here.add(agent)
        gone = ended_here | cut_here
        for agent in sorted(gone.difference(obs), key=str):
            self._look_at_ending(agent, agent in ended_here, step)
        if ended_here and cut_here:
            self.findings.notes.setdefault(
                "mixed endings", f"agents terminate and truncate in the same step (first in step {step})"
            )
        return gone

    def _look_at_ending(self, agent: AgentID, ends: bool, step: int) -> None:
        if ends:
            self.findings.notes.setdefault(
                "last observations", f"terminated agents get none (first in step {step}); nothing is lost by that"
            )
        else:
            text = f"step {step}: agent {agent!r} was truncated without a last observation."
            self.findings.add("no-last-obs", text)

    def _ask(self, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Any], step: int) -> None:
        """Those who act next, with their masks."""
        self.asked: dict[AgentID, Array | None] = {}
        for agent, value in obs.items():
            ends_now = step > 0 and self.ended.get(agent) == step  # this is its last observation
            if ends_now or self.rules.seat(agent) is None:
                continue
            if agent in self.ended:
                text = f"step {step}: agent {agent!r} is asked again after its end in step {self.ended.pop(agent)}."
                self.findings.add("asked-after-end", text)
            info = infos.get(agent)
            if not isinstance(info, Mapping):  # reported elsewhere
                info = {}
            legal = self.rules.mask(self.env, agent, value, info, step)
            self.rules.choice(agent, legal, step)
            self.asked[agent] = legal
            self.alive.add(agent)

    # -- keeping it ------------------------------------------------------------------------------------------------

    def _remember(self, obs: Mapping[AgentID, Obs], result: StepResult) -> None:
        view: View = {}
        for agent, value in obs.items():
            view[f"the observation of agent {agent!r}"] = digest(value)
        # Sorted: who is named first in a dict does not make another episode.
        rewards = [(str(agent), repr(reward)) for agent, reward in result.rewards.items()]
        view["the rewards"] = digest(sorted(rewards))
        for name in ("terminated", "truncated"):
            flags = _as_bools(getattr(result, name))
            raised = [str(agent) for agent in flags if flags[agent]]
            view[f"the {name} flags"] = digest(sorted(raised))
        view["state()"] = digest(self._state())
        self.trace.views.append(view)
        self._handed_out = []
        for agent, value in obs.items():
            for array in arrays_in(value):
                self._handed_out.append((agent, array, array.copy()))

    def _state(self) -> Array:
        step = self.trace.length + 1
        try:
            state = state_vector(self.env)
        except BaseException as error:
            let_through(error)
            text = f"step {step}: state() raised {type(error).__name__}: {error}{line_of_code(error)}."
            self.findings.add("raised", text)
            raise Broken(text) from error
        if self._state_size not in (None, state.size):
            text = f"step {step}: state() has {state.size} numbers, before it had {self._state_size}."
            self.findings.add("state-size", text)
        self._state_size = state.size
        if not np.isfinite(state).all():
            self.findings.add("state-nan", f"step {step}: state() holds NaN or infinity.")
        return state


def _is_tuple_of_dicts(answer: object, length: int) -> bool:
    if not isinstance(answer, tuple) or len(answer) != length:
        return False
    return all(isinstance(part, Mapping) for part in answer)


def _as_bools(flags: Mapping[AgentID, Any]) -> Flags:
    """Flags as the env meant them, also where they are no bools."""
    return {agent: truth(flag) for agent, flag in flags.items()}
