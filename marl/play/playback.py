"""Playing a trained run: no learner, just the policies of a checkpoint in their env, watched by whoever wants to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import Task
from marl.envs.batched import StepOutput
from marl.offline.recording import Recorder, who_tells
from marl.play.changes import NOTHING, Changes
from marl.play.exported_run import open_playable
from marl.play.return_summary import Tally, episode_line
from marl.play.video import Screen, Video, check_screen, picture_by, picture_of
from marl.rollout.deciding import Actions
from marl.rollout.env_runner import EnvRunner
from marl.rollout.rollout_buffer import RolloutBuffer

RGB = "rgb_array"


@dataclass(frozen=True)
class RolloutOptions:
    """How much is played, in which ways, and who looks on."""

    episodes: int = 10
    steps: int | None = None  # exactly so many env steps instead
    explore: Sequence[bool] = (False,)  # one after the other, with the same seeds
    seed: int = 0
    render: bool = False
    video: Path | None = None
    fps: float | None = None
    save: Path | None = None


class Watcher(Protocol):
    """Sees an episode begin, and every step twice: what everybody decided, and what came of it."""

    def begin(self, runner: EnvRunner) -> None: ...

    def before(self, runner: EnvRunner, choices: Actions) -> None: ...

    def after(self, runner: EnvRunner, output: StepOutput) -> None: ...


def play(
    path: Path,
    options: RolloutOptions,
    allow: frozenset[str] = frozenset(),
    changes: Changes = NOTHING,
    say: Callable[[str], None] = print,
) -> list[Tally]:
    """Play, tell each episode by ``say`` as it ends, and give what was earned in each way of playing."""
    picturing = options.render or options.video is not None
    runner = open_playable(path, allow, changes).runner(render_mode=RGB if picturing else None)
    with ExitStack() as ending:
        ending.callback(runner.env.close)
        watchers = _watchers(runner, options, say, ending)
        summaries = []
        for explore in options.explore:
            if len(options.explore) > 1:
                say("exploring:" if explore else "greedy:")
            summaries.append(_played(runner, options, explore, watchers, say))
    return summaries


def _watchers(
    runner: EnvRunner, options: RolloutOptions, say: Callable[[str], None], ending: ExitStack
) -> list[Watcher]:
    """All that could go wrong with them goes wrong here, before anything is played."""
    found: list[Watcher] = []
    if options.render or options.video is not None:
        _check_drawing(runner, options.render)
    if options.render:
        screen = Screen(say, options.fps)
        ending.callback(screen.close)
        found.append(Shown(screen))
    if options.save is not None:
        notes = Notes(runner, options.save, options.explore)
        ending.callback(notes.recorder.close)
        found.append(notes)
    if options.video is not None:
        found.append(Shown(ending.enter_context(Video(options.video, options.fps))))
    return found


def _check_drawing(runner: EnvRunner, on_screen: bool) -> None:
    # Many envs draw nothing before their first reset.
    runner.env.reset(np.array([0]), np.array([0]))
    drawn, name = picture_by(runner.env), runner.env.name
    picture_of(drawn, name)
    if on_screen:
        check_screen(drawn, name)


def _played(
    runner: EnvRunner, options: RolloutOptions, explore: bool, watchers: Sequence[Watcher], say: Callable[[str], None]
) -> Tally:
    # Begun anew for every way of playing: they differ in how they play, not in luck.
    rng = np.random.default_rng([options.seed, 1])
    ended: list[EpisodeStats] = []
    played = 0
    runner.stats.pop()
    _begin(runner, options.seed, watchers)
    while not _enough(options, played, len(ended)):
        choices = runner.decide(rng, explore=explore)
        for watcher in watchers:
            watcher.before(runner, choices)
        output = runner.advance(choices)
        played += 1
        over = runner.settle(output)
        for watcher in watchers:
            watcher.after(runner, output)
        if over.size:
            ended.append(runner.stats.pop())
            say(f"episode {len(ended)}  {episode_line(ended[-1], runner.policy_ids)}")
            # Not after the last episode: a video would end with the beginning of one that nobody plays.
            if options.steps is not None or len(ended) < options.episodes:
                _begin(runner, options.seed + len(ended), watchers)
    return Tally(explore, played, EpisodeStats.concat(ended), runner.policy_ids)


def _enough(options: RolloutOptions, steps: int, episodes: int) -> bool:
    if options.steps is not None:
        return steps >= options.steps
    return episodes >= options.episodes


def _begin(runner: EnvRunner, seed: int, watchers: Sequence[Watcher]) -> None:
    runner.begin(np.array([0]), np.array([seed]))
    for watcher in watchers:
        watcher.begin(runner)


# -- watchers ----------------------------------------------------------------------------------------------------------


class Shown:
    """Hands what the env draws to a video or a screen: how an episode begins, and after every step."""

    def __init__(self, target: Video | Screen) -> None:
        self.target = target

    def begin(self, runner: EnvRunner) -> None:
        self.target.add(picture_by(runner.env), runner.env.name)

    def before(self, runner: EnvRunner, choices: Actions) -> None:
        """Nothing has happened yet."""

    def after(self, runner: EnvRunner, output: StepOutput) -> None:
        del output
        self.begin(runner)


class Notes:
    """Writes down what the policies do, step by step."""

    def __init__(self, runner: EnvRunner, directory: Path, ways: Sequence[bool]) -> None:
        env = runner.env
        task = Task(env.kinds, env.state_size)
        self.buffer = RolloutBuffer(task, runner.policy_ids, env.num_envs, complete_episodes=False)
        normalized = runner.config.normalize_actions
        named = dict(zip(runner.policy_ids, runner.policies, strict=True))
        # Played in two ways, a recording does not say which episode was played how.
        told = [place for place in who_tells(named, ways[0]) if place in who_tells(named, ways[-1])]
        self.recorder = Recorder(directory.expanduser(), task, env.name, runner.policy_ids, normalized, told=told)
        self.recorder.prepare()

    def begin(self, runner: EnvRunner) -> None:
        """The buffer finds out by itself."""

    def before(self, runner: EnvRunner, choices: Actions) -> None:
        """What everybody saw and decided."""
        (self.row,) = self.buffer.extend(1)
        self.buffer.record(self.row, runner, choices)

    def after(self, runner: EnvRunner, output: StepOutput) -> None:
        """What came of it."""
        self.buffer.settle(self.row, runner, output)
        self.recorder.add(self.buffer.batch())
        self.buffer.keep_tail()
