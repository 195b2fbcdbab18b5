"""All that is tried with a natively batched env: episodes, repetitions, other copies, other numbers of copies, saving."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from marl.data.tree import pack, unpack
from marl.envs.batched import BatchedEnv
from marl.envs.check.array_play import ArrayPlay
from marl.envs.check.chance_exam import Chance, chance_of_arrays
from marl.envs.check.dict_exam import FEWEST, LONG, PATIENCE_S, SECONDS
from marl.envs.check.dict_play import Clock
from marl.envs.check.findings import Broken, Findings
from marl.envs.check.traces import REPEATED, Trace, View, digest
from marl.errors import let_through
from marl.failures import line_of_code

ROUNDING = 1e-5  # sums over other numbers of copies may be added up in another order
COPIES = 3  # copies side by side, of which the middle one is compared


class ArrayExam:
    """``first`` has one copy; ``make(n)`` returns a new env object with ``n`` copies."""

    def __init__(self, first: BatchedEnv, make: Callable[[int], BatchedEnv], findings: Findings, seed: int) -> None:
        self.make, self.findings, self.seed = make, findings, seed
        self.made = [first]
        self.clock = Clock()
        self.play = ArrayPlay(first, findings, self.clock)
        self.episodes: list[Trace] = []
        self.repeated = REPEATED  # steps to play again: fewer in slow envs
        self.chance: Chance | None = None

    def _new(self, env_ids: int) -> BatchedEnv:
        self.made.append(self.make(env_ids))
        return self.made[-1]

    def run(self, episodes: int, steps: int) -> None:
        with suppress(Broken):
            self._play_episodes(episodes, steps)
            self._look_who_was_asked()
            self.findings.repeating = True
            if steps and not self.findings.any_severe:
                self._repeat()
                self._save_and_go_on()
                self.chance = chance_of_arrays(self._new(1), self.findings, self.seed, self.repeated, steps)
        for env in self.made:
            try:
                env.close()
            except BaseException as error:
                let_through(error)
                self.findings.add("close", f"close() raised {type(error).__name__}: {error}.")

    def _play_episodes(self, episodes: int, steps: int) -> None:
        started = time.perf_counter()
        played = 0
        while len(self.episodes) < episodes:
            seed = self.seed + len(self.episodes)
            trace = self.play.episode(seed, steps - played, started + SECONDS)
            self.episodes.append(trace)
            played += trace.length
            too_long = time.perf_counter() - started > SECONDS
            if too_long or played >= steps:
                break
        per_step = (time.perf_counter() - started) / max(played, 1)
        self.repeated = min(REPEATED, max(FEWEST, int(PATIENCE_S / per_step)))
        any_over = any(trace.over for trace in self.episodes)
        if not any_over and trace.length >= LONG:
            self.findings.add("no-end", f"the first episode did not end within {trace.length} steps.")

    def _look_who_was_asked(self) -> None:
        env = self.play.env
        whole = [trace for trace in self.episodes if trace.over]
        if not env.fixed_seats or not whole:
            return
        for seat in np.flatnonzero(~self.play.asked_ever).tolist():
            text = f"agent {env.seat_names[seat]!r} was never asked in {len(self.episodes)} episode(s)."
            self.findings.add("never-asked", text)

    def _repeat(self) -> None:
        """The first episode once more: in a new object, in the old one, as one copy of several."""
        first = self.episodes[0]
        other = ArrayPlay(self._new(1), self.findings).episode(self.seed, self.repeated)
        parted = first.difference(other)
        if parted:
            text = f"two envs with the same seed and the same actions differ: {parted}."
            self.findings.add("not-repeatable", text)
            return
        again = self.play.episode(self.seed, self.repeated)
        parted = first.difference(again)
        if parted:
            text = f"the same seed and actions lead elsewhere after other episodes were played: {parted}."
            self.findings.add("remembers", text)
            return
        crowd = ArrayPlay(self._new(COPIES), self.findings)
        crowd.begin(range(COPIES), [self.seed + 7 + env_id for env_id in range(COPIES)])
        for _ in range(3):  # the others are in the middle of their episodes when the compared one begins
            crowd.step()
            crowd.restart()
        parted = first.difference(crowd.episode(self.seed, self.repeated, env_id=1), ROUNDING)
        if parted and "reset-touches-others" not in self.findings:
            text = f"an episode of env_id 1 of {COPIES} differs from the same episode in an env of one copy: {parted}."
            self.findings.add("lanes-depend", text)

    def _save_and_go_on(self) -> None:
        """Put a state in the middle of episodes into a new object, and see whether both go on alike."""
        play = ArrayPlay(self._new(COPIES), self.findings)
        play.begin(range(COPIES), range(self.seed, self.seed + COPIES))
        for _ in range(min(10, self.episodes[0].length // 2)):
            play.step()
            play.restart()
        try:
            state = play.env.get_state()
            before = digest(state)
            plain, arrays = pack(state)
        except TypeError as error:
            self.findings.add("state-type", f"get_state() cannot be kept in a checkpoint: {error}")
            return
        except BaseException as error:
            let_through(error)
            self.findings.add("raised", f"get_state raised {type(error).__name__}: {error}{line_of_code(error)}.")
            return
        saved = unpack(plain, {path: array.copy() for path, array in arrays.items()})  # as if written and read
        furthest = max(trace.length for trace in play.traces)
        shown, actions = self._play_on(play)
        if digest(state) != before:
            self.findings.add("state-aliased", "what get_state() gave has changed while the env went on.")
        if parted := self._go_on(saved, shown, actions):
            text = f"an env that got the state after step {furthest} by set_state() goes on differently: {parted}."
            self.findings.add("state-roundtrip", text)

    def _play_on(self, play: ArrayPlay) -> tuple[list[View], list[list[np.ndarray]]]:
        """What all copies show now and in each step until the first of them is over, and what was done in these steps."""
        shown = self._shown(play)
        actions = []
        for _ in range(self.repeated // 2):
            play.step()
            actions.append(play.actions)
            shown += self._shown(play)
            if any(trace.over for trace in play.traces):
                break
        return shown, actions

    @staticmethod
    def _shown(play: ArrayPlay) -> list[View]:
        """What all copies show, one after the other."""
        return [play.sight(env_id) for env_id in range(COPIES)]

    def _go_on(self, saved: object, shown: list[View], actions: list[list[np.ndarray]]) -> str:
        restored = ArrayPlay(self._new(COPIES), Findings())
        try:
            restored.frame = restored.env.set_state(saved)
            again = self._shown(restored)
            for chosen in actions:
                restored.step(chosen)
                again += self._shown(restored)
        except BaseException as error:
            let_through(error)
            return f"{type(error).__name__}: {error}"
        return Trace(0, shown).difference(Trace(0, again))
