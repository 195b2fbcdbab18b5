"""Plays a natively batched env, every copy with its own seed and its own random actions, and looks at every answer."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from marl.data.task import AgentID, Array
from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.check.dict_play import Clock
from marl.envs.check.findings import Broken, Findings
from marl.envs.check.traces import REPEATED, Trace, View, differs, digest, draw
from marl.envs.vector.checks import largest_choices, misshapen, stored_bounds
from marl.envs.vector.encoding import can_act
from marl.errors import let_through
from marl.failures import line_of_code


class ArrayPlay:
    """All copies in one env object. Those whose episode is over wait for ``begin``, but are stepped all the same."""

    def __init__(self, env: BatchedEnv, findings: Findings, clock: Clock | None = None) -> None:
        self.env = env
        self.findings = findings
        self.clock = clock or Clock()
        seats = len(env.seat_names)
        self.traces = [Trace(0) for _ in range(env.num_envs)]
        self.rngs = [np.random.default_rng(0) for _ in range(env.num_envs)]
        self.alive = np.zeros((env.num_envs, seats), bool)
        self.asked_ever = np.zeros(seats, bool)
        self.actions: list[Array] = []
        self.frame: StepOutput

    def begin(self, env_ids: Sequence[int], seeds: Sequence[int]) -> None:
        shown_before: dict[int, View] = {}  # by env_ids in the middle of an episode, which a reset leaves alone
        for env_id, trace in enumerate(self.traces):
            playing = trace.views and not trace.over
            if playing and env_id not in env_ids:
                shown_before[env_id] = self.sight(env_id)
        started = time.perf_counter()
        self.frame = self._call("reset", lambda: self.env.reset(np.array(env_ids), np.array(seeds)))
        self.clock.resets.append((time.perf_counter() - started) / len(env_ids))
        for env_id, seen in shown_before.items():
            if differs(self.sight(env_id), seen):
                text = f"reset of env {env_ids[0]} changed what env {env_id} shows in the middle of its episode."
                self.findings.add("reset-touches-others", text)
        for env_id, seed in zip(env_ids, seeds, strict=True):
            self.traces[env_id] = Trace(seed)
            self.rngs[env_id] = np.random.default_rng([seed, 1])
            self.alive[env_id] = False
            self._settle(env_id)

    def step(self, actions: list[Array] | None = None) -> None:
        self.actions = self._choose() if actions is None else actions
        started = time.perf_counter()
        self.frame = self._call("step", lambda: self.env.step([column.copy() for column in self.actions]))
        self.clock.steps.append(time.perf_counter() - started)
        for env_id, trace in enumerate(self.traces):
            if not trace.over:
                self._settle(env_id)

    def episode(self, seed: int, limit: int, deadline: float = math.inf, env_id: int = 0) -> Trace:
        """One copy's episode, cut after ``limit`` steps or when the time is up; the others play on as they are."""
        self.begin([env_id], [seed])
        trace = self.traces[env_id]
        while not trace.over and trace.length < limit:
            if time.perf_counter() >= deadline:
                break
            self.step()
            self.restart([env_id])
        return trace

    def restart(self, but: Sequence[int] = ()) -> None:
        """New episodes where they are over, except for some copies."""
        over: list[int] = []
        seeds: list[int] = []
        for env_id, trace in enumerate(self.traces):
            if trace.over and env_id not in but:
                over.append(env_id)
                seeds.append(trace.seed + 100)
        if over:
            self.begin(over, seeds)

    def _call(self, verb: str, call: object) -> StepOutput:
        try:
            frame = call()  # type: ignore[operator]
        except BaseException as error:
            let_through(error)
            text = f"{self._when()}: {verb} raised {type(error).__name__}: {error}{line_of_code(error)}."
            self.findings.add("raised", text)
            raise Broken(text) from error
        wrong = list(misshapen(self.env, frame))
        for text in wrong:
            self.findings.add("wrong-answer", f"{self._when()}: {text}")
        if wrong:
            raise Broken(wrong[0])
        assert isinstance(frame, StepOutput)
        return frame

    def _when(self, env_id: int = 0) -> str:
        when = f"step {self.traces[env_id].length + 1}"
        if self.env.num_envs > 1:
            when += f" of env {env_id} of {self.env.num_envs}"
        return when

    def _choose(self) -> list[Array]:
        columns: list[Array] = []
        place: list[tuple[int, int]] = []  # of each seat: its kind, and its row there
        for k, kind in enumerate(self.env.kinds):
            columns.append(np.zeros((self.env.num_envs, kind.size, *kind.action_shape), kind.action_dtype))
            place += [(k, i) for i in range(kind.size)]
        for env_id, rng in enumerate(self.rngs):
            seats = np.flatnonzero(self.frame.present[env_id]).tolist()
            asked = {self._name(env_id, seat): seat for seat in seats}
            self.traces[env_id].decisions += len(asked)
            for agent in sorted(asked, key=str):  # by name: another env may have seated them otherwise
                k, i = place[asked[agent]]
                columns[k][env_id, i] = draw(self.env.kinds[k], self.frame.legal[k][env_id, i], rng)
        return columns

    # -- rules -----------------------------------------------------------------------------------------------------

    def _settle(self, env_id: int) -> None:
        self._look_at_numbers(env_id)
        self._look_at_life(env_id)
        self._look_at_asked(env_id)
        trace, frame = self.traces[env_id], self.frame
        view = self.sight(env_id)
        for seat in np.flatnonzero(frame.rewards[env_id]).tolist():
            agent = self._name(env_id, seat)
            view[f"the reward of agent {agent!r}"] = frame.rewards[env_id, seat : seat + 1].copy()
            trace.returns[agent] = trace.returns.get(agent, 0.0) + float(frame.rewards[env_id, seat])
        for name in ("terminated", "truncated"):
            seats = np.flatnonzero(getattr(frame, name)[env_id]).tolist()
            flagged = [self._name(env_id, seat) for seat in seats]
            view[f"the {name} flags"] = ", ".join(sorted(flagged))
        if trace.length >= REPEATED:
            view = {}  # never compared, so not kept
        trace.views.append(view)
        trace.over = bool(frame.over[env_id])

    def sight(self, env_id: int) -> View:
        """What the asked agents of one copy see, and the global state."""
        frame = self.frame
        view: View = {}
        for k, kind in enumerate(self.env.kinds):
            for i in np.flatnonzero(frame.present[env_id, kind.seats]).tolist():
                agent = self._name(env_id, kind.first_seat + i)
                view[f"the observation of agent {agent!r}"] = frame.obs[k][env_id, i].copy()
                view[f"the action mask of agent {agent!r}"] = digest(frame.legal[k][env_id, i])
        view["the state"] = frame.state[env_id].copy()
        return view

    def _name(self, env_id: int, seat: int) -> AgentID:
        return self.env.agent_at(env_id, seat)

    def _look_at_numbers(self, env_id: int) -> None:
        frame, when = self.frame, self._when(env_id)
        for seat in np.flatnonzero(~np.isfinite(frame.rewards[env_id])).tolist():
            text = f"{when}: the reward of agent {self._name(env_id, seat)!r} is {frame.rewards[env_id, seat]}."
            self.findings.add("reward-nan", text)
        if not np.isfinite(frame.state[env_id]).all():
            self.findings.add("state-nan", f"{when}: the state holds NaN or infinity.")
        shown = frame.present[env_id] | frame.terminated[env_id] | frame.truncated[env_id]
        for k, kind in enumerate(self.env.kinds):
            rows = frame.obs[k][env_id]
            if rows.dtype.kind == "f" and not np.isfinite(rows).all():
                seat = kind.first_seat + int(np.argwhere(~np.isfinite(rows))[0][0])
                absent = "" if shown[seat] else " (absent)"
                text = f"{when}: the observation of agent {self._name(env_id, seat)!r}{absent} holds NaN or infinity."
                self.findings.add("obs-nan", text)
            low, high = stored_bounds(kind)
            outside = ((rows < low) | (rows > high)).any(axis=1) & shown[kind.seats]
            code = "obs-bounds" if largest_choices(kind) is None else "obs-range"
            for i in np.flatnonzero(outside).tolist():
                who = self._name(env_id, kind.first_seat + i)
                self.findings.add(
                    code,
                    f"{when}: the observation of agent {who!r} is not in its space {kind.observation_space}: it is "
                    f"{rows[i].tolist()}.",
                )

    def _look_at_life(self, env_id: int) -> None:
        frame, when = self.frame, self._when(env_id)
        ended = frame.terminated[env_id] | frame.truncated[env_id]
        for seat in np.flatnonzero(ended & frame.present[env_id]).tolist():
            self.findings.add(
                "asked-and-ended", f"{when}: agent {self._name(env_id, seat)!r} ends and is asked as well."
            )
        for seat in np.flatnonzero(frame.terminated[env_id] & frame.truncated[env_id]).tolist():
            text = f"{when}: agent {self._name(env_id, seat)!r} is terminated and truncated at once."
            self.findings.add("both-flags", text)
        for seat in np.flatnonzero(frame.blind[env_id] & frame.truncated[env_id]).tolist():
            text = f"{when}: agent {self._name(env_id, seat)!r} was truncated without a last observation."
            self.findings.add("no-last-obs", text)
        for seat in np.flatnonzero((frame.rewards[env_id] != 0) & ~self.alive[env_id]).tolist():
            text = f"{when}: agent {self._name(env_id, seat)!r} was rewarded while absent ({frame.rewards[env_id, seat]:g})."
            self.findings.add("reward-absent", text)
        self.alive[env_id] = (self.alive[env_id] | frame.present[env_id]) & ~ended
        left = self.alive[env_id] & bool(frame.over[env_id])
        for seat in np.flatnonzero(left).tolist():
            text = (
                f"{when}: the episode is over, but agent {self._name(env_id, seat)!r} neither terminated nor truncated."
            )
            self.findings.add("over-without-flags", text)
        if frame.terminated[env_id].any() and frame.truncated[env_id].any():
            self.findings.notes.setdefault("mixed endings", f"agents terminate and truncate in the same step ({when})")

    def _look_at_asked(self, env_id: int) -> None:
        frame, when = self.frame, self._when(env_id)
        self.asked_ever |= frame.present[env_id]
        seats = np.flatnonzero(frame.present[env_id]).tolist()
        names = Counter(self._name(env_id, seat) for seat in seats)
        for name, times in names.items():
            if times == 1:
                continue
            self.findings.add("wrong-answer", f"{when}: two seats are both called {name!r}. Give every agent one seat.")
        for k, kind in enumerate(self.env.kinds):
            if not kind.legal_width:
                continue  # all actions are legal at all times
            stuck = frame.present[env_id, kind.seats] & ~can_act(kind, frame.legal[k][env_id])
            for i in np.flatnonzero(stuck).tolist():
                who = self._name(env_id, kind.first_seat + i)
                self.findings.add("mask-empty", f"{when}: agent {who!r} is asked, but its action_mask is empty.")
