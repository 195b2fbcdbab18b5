"""All that is tried with a dict env: episodes, repetitions, copies side by side, saving and going on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from marl.data.tree import pack, unpack
from marl.envs.base import MultiAgentEnv
from marl.envs.check.chance_exam import Chance, DictChanceExam
from marl.envs.check.dict_play import PATIENCE, Clock, DictPlay
from marl.envs.check.dict_rules import DictRules
from marl.envs.check.findings import Broken, Findings
from marl.envs.check.traces import REPEATED, Trace, digest, draw
from marl.envs.vector.checks import EnvCheck
from marl.envs.vector.layout import kinds_of
from marl.envs.vector.vector_env import DictVector
from marl.errors import EnvError, let_through
from marl.failures import line_of_code

ODD = 7  # more steps before that, so that a counter which goes on over resets does not stand at a round number
LONG = 200  # steps after which an episode that has not ended is worth a word
SECONDS = 30.0  # of playing, after which the episodes are cut
PATIENCE_S, FEWEST = 3.0, 10  # seconds that one repetition may take, and how many steps it has all the same


class DictExam:
    """``make`` gives a new copy of the env; where there is only one object, ``alone``, it gives that one again."""

    def __init__(
        self,
        first: MultiAgentEnv,
        make: Callable[[], MultiAgentEnv],
        name: str,
        findings: Findings,
        seed: int,
        alone: bool,
    ) -> None:
        self.make, self.name, self.findings, self.seed, self.alone = make, name, findings, seed, alone
        self.made = [first]
        self.kinds = kinds_of(first)
        self.rules = DictRules(first, self.kinds, findings)
        self.clock = Clock()
        self.play = DictPlay(first, self.rules, self.clock)
        self.episodes: list[Trace] = []
        self.repeated = REPEATED  # steps to play again: fewer in slow envs
        self.chance: Chance | None = None

    def _new(self) -> MultiAgentEnv:
        self.made.append(self.make())
        return self.made[-1]

    def run(self, episodes: int, steps: int) -> None:
        with suppress(Broken):
            self._play_episodes(episodes, steps)
            self._look_who_was_asked()
            self.findings.repeating = True
            if steps:
                self._repeat()
                self._save_and_go_on()
                self._reset_without_seed()
                self._look_at_chance(steps)
        if not self.findings.any_severe:
            self._train_on_it(min(steps, 2 * self.repeated))
        self._close()

    def _play_episodes(self, episodes: int, steps: int) -> None:
        started = time.perf_counter()
        played = 0
        while len(self.episodes) < episodes and (played < steps or not self.episodes):
            seed = self.seed + len(self.episodes)
            self.play.trace = Trace(seed)
            self.episodes.append(self.play.trace)  # before it is played: an env that breaks in it leaves its steps here
            trace = self.play.episode(seed, steps - played, started + SECONDS)
            self.episodes[-1] = trace
            played += trace.length
            too_long = time.perf_counter() - started > SECONDS
            if too_long:
                break
        per_step = (time.perf_counter() - started) / max(played, 1)
        self.repeated = min(REPEATED, max(FEWEST, int(PATIENCE_S / per_step)))
        any_over = any(trace.over for trace in self.episodes)
        if not any_over and trace.length >= LONG:
            self._tell_endless(trace.length)

    def _tell_endless(self, length: int) -> None:
        if self.play.empty_steps > PATIENCE:
            text = f"nobody has been alive for {self.play.empty_steps} steps, and '__all__' is not true."
            self.findings.add("nobody-left", text)
        else:
            self.findings.add("no-end", f"the first episode did not end within {length} steps.")

    def _look_who_was_asked(self) -> None:
        whole = [trace for trace in self.episodes if trace.over]
        if not self.rules.fixed or not whole:
            return
        for agent in self.rules.names:
            if agent in self.rules.asked_ever:
                continue
            text = f"agent {agent!r} was never asked in {len(self.episodes)} episode(s)."
            self.findings.add("never-asked", text)

    # -- repeating -------------------------------------------------------------------------------------------------

    def _repeat(self) -> None:
        """The first episode once more: in a new object, in the old one, beside another copy."""
        first = self.episodes[0]
        if not self.alone:
            other = DictPlay(self._new(), self.rules).episode(self.seed, self.repeated)
            parted = first.difference(other)
            if parted:
                text = f"two copies with the same seed and the same actions differ: {parted}."
                self.findings.add("not-repeatable", text)
                return
        self.play.episode(self.seed + 1, ODD)
        again = self.play.episode(self.seed, self.repeated)
        parted = first.difference(again)
        if parted:
            text = f"the same seed and actions lead elsewhere after other episodes were played: {parted}."
            self.findings.add("not-repeatable" if self.alone else "remembers", text)
        elif not self.alone:
            self._play_side_by_side(first)

    def _play_side_by_side(self, first: Trace) -> None:
        mine = DictPlay(self._new(), self.rules)
        theirs = DictPlay(self._new(), self.rules)
        mine.begin(self.seed)
        theirs.begin(self.seed + 1)
        for _ in range(self.repeated):
            for play in (theirs, mine):
                if not play.trace.over:
                    play.step()
        parted = first.difference(mine.trace)
        if parted:
            text = f"a copy that is stepped in turns with another one differs from one that is alone: {parted}."
            self.findings.add("copies-interfere", text)

    # -- saving ----------------------------------------------------------------------------------------------------

    def _save_and_go_on(self) -> None:
        env = self._new()
        offers = [callable(getattr(env, name, None)) for name in ("get_state", "set_state")]
        if offers == [True, False]:
            self.findings.add("state-half", "the env has get_state() but no set_state().")
        if not all(offers):
            return
        play = DictPlay(env, self.rules)
        play.episode(self.seed, min(10, self.episodes[0].length // 2))
        try:
            state = env.get_state()  # type: ignore[attr-defined]
        except BaseException as error:
            let_through(error)
            self.findings.add("raised", f"get_state raised {type(error).__name__}: {error}{line_of_code(error)}.")
            return
        before = digest(state)
        try:
            plain, arrays = pack(state)
        except TypeError as error:
            self.findings.add("state-type", f"get_state() cannot be kept in a checkpoint: {error}")
            return
        saved = unpack(plain, {path: array.copy() for path, array in arrays.items()})  # as if written and read
        done, actions = play.trace.length, []
        while not play.trace.over and play.trace.length < done + self.repeated // 2:
            play.step()
            actions.append(play.actions)
        if digest(state) != before:
            self.findings.add("state-aliased", "what get_state() gave has changed while the env went on.")
        self._go_on(saved, play.trace, done, actions)

    def _go_on(self, saved: object, trace: Trace, done: int, actions: list[dict[str, object]]) -> None:
        env = self._new()
        restored = DictPlay(env, DictRules(env, self.kinds, Findings()))  # what it does wrong was found before
        try:
            env.set_state(saved)  # type: ignore[attr-defined]
            restored.go_on_after(trace, done)
            for chosen in actions:
                restored.step(chosen)
            parted = trace.difference(restored.trace)
        except BaseException as error:
            let_through(error)
            parted = f"{type(error).__name__}: {error}"
        if parted:
            text = f"a copy that got the state after step {done} by set_state() goes on differently: {parted}."
            self.findings.add("state-roundtrip", text)

    # -- around it -------------------------------------------------------------------------------------------------

    def _reset_without_seed(self) -> None:
        try:
            self._new().reset()
        except BaseException as error:
            let_through(error)
            self.findings.add("unseeded-reset", f"reset() without a seed raised {type(error).__name__}: {error}.")

    def _look_at_chance(self, steps: int) -> None:
        play = DictPlay(self._new(), self.rules)
        self.chance = DictChanceExam(play, self.name, self.seed, self.repeated, steps).run()

    def _train_on_it(self, steps: int) -> None:
        """The same path as in training, for anything that the rules above do not know."""
        rng = np.random.default_rng(self.seed)
        try:
            env = DictVector([self._new()], self.name)
            check = EnvCheck(env)
            over, number = True, 0
            for _ in range(steps):
                if over:
                    frame = env.reset(np.array([0]), np.array([self.seed + number]))
                    number += 1
                else:
                    columns = [
                        np.stack([draw(kind, frame.legal[k][0, i], rng) for i in range(kind.size)])[None]
                        for k, kind in enumerate(env.kinds)
                    ]
                    frame = env.step(columns)
                check.look(frame, env.where)
                over = bool(frame.over[0])
        except EnvError as error:
            self.findings.add("unusable", str(error))
        except BaseException as error:
            let_through(error)
            self.findings.add("unusable", f"training would stop with {type(error).__name__}: {error}.")

    def _close(self) -> None:
        for env in self.made[:1] if self.alone else self.made:
            try:
                env.close()
            except BaseException as error:
                let_through(error)
                self.findings.add("close", f"close() raised {type(error).__name__}: {error}.")
