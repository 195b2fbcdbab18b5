"""Plays a natively batched world, every lane with its own seed and its own random actions, and looks at every frame."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from marl.data.task import AgentID, Array
from marl.envs.batched import BatchedEnv, Frame
from marl.envs.check.dict_play import Clock
from marl.envs.check.findings import Broken, Findings
from marl.envs.check.traces import REPEATED, Trace, View, differs, digest, draw
from marl.envs.vector.env_errors import line_of_code
from marl.envs.vector.bounds import stored_bounds
from marl.envs.vector.checks import largest_choices, misshapen
from marl.envs.vector.encoding import can_act
from marl.errors import let_through


class ArrayPlay:
    """All lanes of one world object. Lanes whose episode is over wait for ``begin``, but are stepped all the same."""

    def __init__(self, world: BatchedEnv, findings: Findings, clock: Clock | None = None) -> None:
        self.world, self.findings, self.clock = world, findings, clock or Clock()
        lanes, seats = world.num_envs, len(world.seat_names)
        self.traces = [Trace(0) for _ in range(lanes)]
        self.rngs = [np.random.default_rng(0) for _ in range(lanes)]
        self.alive = np.zeros((lanes, seats), bool)
        self.asked_ever = np.zeros(seats, bool)
        self.actions: list[Array] = []
        self.frame: Frame

    def begin(self, lanes: Sequence[int], seeds: Sequence[int]) -> None:
        others = [i for i, trace in enumerate(self.traces) if i not in lanes and trace.views and not trace.over]
        before = [self.sight(lane) for lane in others]
        started = time.perf_counter()
        self.frame = self._call("reset", lambda: self.world.reset(np.array(lanes), np.array(seeds)))
        self.clock.resets.append((time.perf_counter() - started) / len(lanes))
        for lane, seen in zip(others, before, strict=True):
            if differs(self.sight(lane), seen):
                text = f"reset of lane {lanes[0]} changed what lane {lane} shows in the middle of its episode."
                self.findings.add("reset-touches-others", text)
        for lane, seed in zip(lanes, seeds, strict=True):
            self.traces[lane], self.rngs[lane] = Trace(seed), np.random.default_rng([seed, 1])
            self.alive[lane] = False
            self._settle(lane)

    def step(self, actions: list[Array] | None = None) -> None:
        self.actions = self._choose() if actions is None else actions
        started = time.perf_counter()
        self.frame = self._call("step", lambda: self.world.step([column.copy() for column in self.actions]))
        self.clock.steps.append(time.perf_counter() - started)
        for lane, trace in enumerate(self.traces):
            if not trace.over:
                self._settle(lane)

    def episode(self, seed: int, limit: int, deadline: float = math.inf, lane: int = 0) -> Trace:
        """One lane's episode, cut after ``limit`` steps or when the time is up; the other lanes play on as they are."""
        self.begin([lane], [seed])
        while not self.traces[lane].over and self.traces[lane].length < limit and time.perf_counter() < deadline:
            self.step()
            self.restart([lane])
        return self.traces[lane]

    def restart(self, but: Sequence[int] = ()) -> None:
        """New episodes in the lanes that are over, except for some."""
        over = [i for i, trace in enumerate(self.traces) if trace.over and i not in but]
        if over:
            self.begin(over, [self.traces[i].seed + 100 for i in over])

    def _call(self, verb: str, call: object) -> Frame:
        try:
            frame = call()  # type: ignore[operator]
        except BaseException as error:
            let_through(error)
            text = f"{self._when()}: {verb} raised {type(error).__name__}: {error}{line_of_code(error)}."
            self.findings.add("raised", text)
            raise Broken(text) from error
        wrong = list(misshapen(self.world, frame))
        for text in wrong:
            self.findings.add("wrong-answer", f"{self._when()}: {text}")
        if wrong:
            raise Broken(wrong[0])
        assert isinstance(frame, Frame)
        return frame

    def _when(self, lane: int = 0) -> str:
        copies = self.world.num_envs
        return f"step {self.traces[lane].length + 1}" + (f" of lane {lane} of {copies}" if copies > 1 else "")

    def _choose(self) -> list[Array]:
        world, frame = self.world, self.frame
        columns = [np.zeros((world.num_envs, k.size, *k.action_shape), k.action_dtype) for k in world.kinds]
        place = [(k, i) for k, kind in enumerate(world.kinds) for i in range(kind.size)]
        for lane, rng in enumerate(self.rngs):
            asked = {world.agent_at(lane, s): s for s in np.flatnonzero(frame.present[lane]).tolist()}
            self.traces[lane].decisions += len(asked)
            for agent in sorted(asked, key=str):  # by name: another world may have seated them otherwise
                k, i = place[asked[agent]]
                columns[k][lane, i] = draw(world.kinds[k], frame.legal[k][lane, i], rng)
        return columns

    # -- rules -----------------------------------------------------------------------------------------------------

    def _settle(self, lane: int) -> None:
        self._look_at_numbers(lane)
        self._look_at_life(lane)
        self._look_at_asked(lane)
        trace, frame = self.traces[lane], self.frame
        view = self.sight(lane)
        for seat in np.flatnonzero(frame.rewards[lane]).tolist():
            view[f"the reward of agent {self._name(lane, seat)!r}"] = frame.rewards[lane, seat : seat + 1].copy()
        for name in ("terminated", "truncated"):
            seats = np.flatnonzero(getattr(frame, name)[lane]).tolist()
            view[f"the {name} flags"] = ", ".join(sorted(self._name(lane, seat) for seat in seats))
        trace.views.append(view if trace.length < REPEATED else {})  # later ones are never compared
        for seat in np.flatnonzero(frame.rewards[lane]).tolist():
            agent = self._name(lane, seat)
            trace.returns[agent] = trace.returns.get(agent, 0.0) + float(frame.rewards[lane, seat])
        trace.over = bool(frame.over[lane])

    def sight(self, lane: int) -> View:
        """What the asked agents of a lane see, and the global state."""
        frame, view = self.frame, View()
        for k, kind in enumerate(self.world.kinds):
            for i in np.flatnonzero(frame.present[lane, kind.seats]).tolist():
                agent = self._name(lane, kind.first_seat + i)
                view[f"the observation of agent {agent!r}"] = frame.obs[k][lane, i].copy()
                view[f"the action mask of agent {agent!r}"] = digest(frame.legal[k][lane, i])
        view["the state"] = frame.state[lane].copy()
        return view

    def _name(self, lane: int, seat: int) -> AgentID:
        return self.world.agent_at(lane, seat)

    def _look_at_numbers(self, lane: int) -> None:
        frame, when = self.frame, self._when(lane)
        for seat in np.flatnonzero(~np.isfinite(frame.rewards[lane])).tolist():
            text = f"{when}: the reward of agent {self._name(lane, seat)!r} is {frame.rewards[lane, seat]}."
            self.findings.add("reward-nan", text)
        if not np.isfinite(frame.state[lane]).all():
            self.findings.add("state-nan", f"{when}: the state holds NaN or infinity.")
        shown = frame.present[lane] | frame.terminated[lane] | frame.truncated[lane]
        for k, kind in enumerate(self.world.kinds):
            rows, top = frame.obs[k][lane], largest_choices(kind)
            if rows.dtype.kind == "f" and not np.isfinite(rows).all():
                seat = kind.first_seat + int(np.argwhere(~np.isfinite(rows))[0][0])
                absent = "" if shown[seat] else " (absent)"
                text = f"{when}: the observation of agent {self._name(lane, seat)!r}{absent} holds NaN or infinity."
                self.findings.add("obs-nan", text)
            space = kind.observation_space
            low, high = stored_bounds(kind)
            outside = ((rows < low) | (rows > high)).any(axis=1) & shown[kind.seats]
            for i in np.flatnonzero(outside).tolist():
                who = self._name(lane, kind.first_seat + i)
                text = (
                    f"{when}: the observation of agent {who!r} is not in its space {space}: it is {rows[i].tolist()}."
                )
                self.findings.add("obs-bounds" if top is None else "obs-range", text)

    def _look_at_life(self, lane: int) -> None:
        frame, when = self.frame, self._when(lane)
        ended = frame.terminated[lane] | frame.truncated[lane]
        for seat in np.flatnonzero(ended & frame.present[lane]).tolist():
            self.findings.add("asked-and-ended", f"{when}: agent {self._name(lane, seat)!r} ends and is asked as well.")
        for seat in np.flatnonzero(frame.terminated[lane] & frame.truncated[lane]).tolist():
            text = f"{when}: agent {self._name(lane, seat)!r} is terminated and truncated at once."
            self.findings.add("both-flags", text)
        for seat in np.flatnonzero(frame.blind[lane] & frame.truncated[lane]).tolist():
            text = f"{when}: agent {self._name(lane, seat)!r} was truncated without a last observation."
            self.findings.add("no-last-obs", text)
        for seat in np.flatnonzero((frame.rewards[lane] != 0) & ~self.alive[lane]).tolist():
            text = (
                f"{when}: agent {self._name(lane, seat)!r} was rewarded while absent ({frame.rewards[lane, seat]:g})."
            )
            self.findings.add("reward-absent", text)
        self.alive[lane] = (self.alive[lane] | frame.present[lane]) & ~ended
        left = self.alive[lane] & bool(frame.over[lane])
        for seat in np.flatnonzero(left).tolist():
            text = (
                f"{when}: the episode is over, but agent {self._name(lane, seat)!r} neither terminated nor truncated."
            )
            self.findings.add("over-without-flags", text)
        if frame.terminated[lane].any() and frame.truncated[lane].any():
            self.findings.notes.setdefault("mixed endings", f"agents terminate and truncate in the same step ({when})")

    def _look_at_asked(self, lane: int) -> None:
        frame, when = self.frame, self._when(lane)
        self.asked_ever |= frame.present[lane]
        names = [self._name(lane, seat) for seat in np.flatnonzero(frame.present[lane]).tolist()]
        for name in {name for name in names if names.count(name) > 1}:
            self.findings.add("wrong-answer", f"{when}: two seats are both called {name!r}. Give every agent one seat.")
        for k, kind in enumerate(self.world.kinds):
            if kind.legal_width:
                stuck = frame.present[lane, kind.seats] & ~can_act(kind, frame.legal[k][lane])
                for i in np.flatnonzero(stuck).tolist():
                    who = self._name(lane, kind.first_seat + i)
                    self.findings.add("mask-empty", f"{when}: agent {who!r} is asked, but its action_mask is empty.")
