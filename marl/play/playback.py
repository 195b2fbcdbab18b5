"""Playing a trained run: no learner, just the policies of a checkpoint in their env, watched by whoever wants to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import AgentID, PolicyID, Task
from marl.envs.batched import StepOutput
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.mappers.mapper import UserFunction
from marl.offline.recording import Recorder
from marl.play.policy_sources import Cast, Recast, cast
from marl.play.return_summary import Tally, episode_line
from marl.play.video import Screen, Video, check_screen, picture_by, picture_of
from marl.rollout.env_runner import Actions, EnvRunner
from marl.rollout.rollout_buffer import RolloutBuffer
from marl.runs.saved import SavedRun
from marl.scenario.config import ALL_ALGO_KEYS, TOP_KEYS
from marl.scenario.load import apply, parse_set, section_of
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates, example_agent
from marl.trust import words_of

RGB = "rgb_array"
PLAYED = frozenset(
    {
        "env", "env_config", "wrappers", "preprocessor_pref", "horizon", "env_timeout_s", "fresh_env_per_episode",
        "normalize_actions", "clip_actions", "clip_rewards", "algo", "model", "exploration_config", "multiagent", "population",
        "imports",
    }
)  # fmt: skip
"""Keys and sections of a scenario that decide how a rollout goes; all others are about learning, workers and results."""
ACTING = frozenset({"critic_sees", "objective", "dueling", "num_atoms", "v_min", "v_max", "anticipatory"})
"""Keys of algorithms that acting policies are built from (``LearnerConfig.acting``)."""
EXPLORING = frozenset({"type", "epsilon_base"})
"""Keys of ``exploration_config`` that count; where a schedule stands is part of the weights."""
INSTEAD = {
    "explore": "--explore plays with exploration", "seed": "--seed N is the seed of the first episode",
    "output": "--save DIR keeps the episodes", "load": "--policy ID=PATH lets a policy of another run play",
    "render_env": "--render shows each step", "record_env": "--video FILE films it",
    "exploration_config": "how far exploration has come is part of the checkpoint",
}  # fmt: skip


@dataclass(frozen=True)
class Changes:
    """What is different from the run of the checkpoint: its env, other keys, some of its policies."""

    env: str | None = None
    env_config: Mapping[str, Any] = field(default_factory=dict)  # with another env all of it, else changes
    sets: Sequence[str] = ()  # key=value
    policies: Mapping[str, str] = field(default_factory=dict)  # see policy_sources.py

    def applied(self, to_play: Mapping[str, Any]) -> dict[str, Any]:
        raw = dict(to_play)
        if self.env is not None:
            raw |= {"env": self.env, "env_config": dict(self.env_config), "wrappers": []}
        elif self.env_config:
            raw["env_config"] = {**raw["env_config"], **self.env_config}
        for text in self.sets:
            key, value = parse_set(text)
            check_counts(key, value)
            apply(raw, key, value)
        return raw

    @property
    def words(self) -> list[str]:
        """Texts that the user gave, whatever the checkpoint says."""
        return list(words_of([self.env, dict(self.env_config), [parse_set(text)[1] for text in self.sets]]))


NOTHING = Changes()


def check_counts(key: str, value: Any) -> None:
    """Refuse a key of ``--set`` that would change nothing in a rollout; unknown keys are somebody else's matter."""
    words = key.split(".")
    section = section_of(words[0])
    for leaf in _leaves(words if section is None else [section, *words], value):
        if _is_idle(leaf):
            instead = f"; {INSTEAD[leaf[0]]}" if leaf[0] in INSTEAD else ""
            raise ConfigError(
                f"--set {'.'.join(leaf)}=... changes nothing in a rollout, which neither learns nor uses workers"
                f"{instead}. Drop it. What counts here: env_config.KEY, horizon, wrappers, "
                "multiagent.policy_mapping_fn, ..."
            )


def _leaves(words: list[str], value: Any) -> Iterator[list[str]]:
    """The keys that a value gives, also where it is a whole section."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves([*words, str(key)], inner)
    else:
        yield words


def _is_idle(words: Sequence[str]) -> bool:
    """Whether a key is one of learning, of workers or of results."""
    match words:
        case ["multiagent", "policies", _, first, *rest]:  # NAME, then keys of sections without the section's name
            if first in PLAYED:
                return _is_idle([first, *rest])
            return _is_idle(["algo", first, *rest])
        case ["multiagent", key, *_]:
            return key == "policies_to_train"
        case ["algo", key, *_]:
            return key in ALL_ALGO_KEYS - ACTING
        case ["exploration_config", key, *_]:
            return key not in EXPLORING
        case ["model", key, *_]:
            return key == "max_seq_len"
    return words[0] in TOP_KEYS - PLAYED


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
    runner = load_env_runner(path, allow, changes, RGB if picturing else None)
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
        notes = Notes(runner, options.save)
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

    def __init__(self, runner: EnvRunner, directory: Path) -> None:
        env = runner.env
        task = Task(env.kinds, env.state_size)
        self.buffer = RolloutBuffer(task, runner.policy_ids, env.num_envs, complete_episodes=False)
        normalized = runner.config.normalize_actions
        self.recorder = Recorder(directory.expanduser(), task, env.name, runner.policy_ids, normalized)
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


# -- the env runner ----------------------------------------------------------------------------------------------------


def load_env_runner(
    path: Path, allow: frozenset[str], changes: Changes = NOTHING, render_mode: str | None = None
) -> EnvRunner:
    """One copy of a run's env with its policies; names may only point to built-in or allowed modules."""
    remedy = "Name them again: --env package.module:Class, --set multiagent.policy_mapping_fn=..."
    run = SavedRun.open(path, allow, changes.words, remedy=remedy)
    # The user's changes come last: they are what this rollout is about.
    setup = run.resolve(changes.applied(run.to_play()))
    own = [name for name in setup.policies if name not in changes.policies]
    policies = run.policies(setup, own, "Say where it comes from: --policy {name}=PATH.")
    with run.trusted():
        playing = cast(setup, policies, changes.policies)
        _check_all_play(playing, setup, changes.policies)
        spec = setup.rollout
        fresh = spec.config.fresh_env_per_episode
        env = make_batched_env(
            spec.env, 1, spec.env_config, fresh_env_per_episode=fresh, with_state=False, wrappers=spec.wrappers,
            render_mode=render_mode,
        )  # fmt: skip
    return EnvRunner(env, playing.policies, playing.kinds, playing.mapper, spec.config, teams=spec.teams)


def _check_all_play(playing: Cast, setup: Setup, sources: Mapping[str, str]) -> None:
    """Refuse a ``--policy`` that would play nobody, because others take all its agents or the mapping never chooses it."""
    mapper = playing.mapper
    if not isinstance(mapper, Recast):
        mapper = Recast({}, mapper)
    for name, source in sources.items():
        takers = _takers(name, mapper, setup.task.seat_names)
        if name in takers:
            continue
        if takers:
            others = [f"--policy {taker}={sources[taker]}" for taker in takers]
            why = f"{', '.join(others)} takes everybody that it would play"
        elif name in mapper.patterns or isinstance(mapper.before, UserFunction):
            continue  # agents that come later may have such names, and a function may choose anybody
        else:
            who: set[PolicyID] = set()
            for seat in setup.task.seat_names:
                who.update(candidates(mapper.before, example_agent(seat)))
            why = f"the mapping of the run never chooses it, but {', '.join(sorted(who))}"
        raise ConfigError(f"--policy {name}={source} plays nobody: {why}. Drop it, or name who plays.")


def _takers(name: str, mapper: Recast, seats: Sequence[str]) -> list[PolicyID]:
    """Who plays the agents that a name means; the name itself where no pattern takes them away from it."""
    found: dict[PolicyID, None] = {}
    for seat in seats:
        for agent in _meant(name, seat, mapper):
            found[mapper.own(agent) or name] = None
    return list(found)


def _meant(name: str, seat: str, mapper: Recast) -> list[AgentID]:
    """Agents on a seat that a name means: by its pattern, or because the run's mapping gives them to the policy.

    Of a seat such as ``car_*[0]`` some agents are tried.
    """
    agents = [seat]
    if "*" in seat:
        stem = seat.split("[")[0]
        agents = [stem.replace("*", "0"), stem.replace("*", "12345")]
        if fnmatchcase(name, stem):
            agents.insert(0, name)
    if name in mapper.patterns:
        return [agent for agent in agents if fnmatchcase(agent, name)]
    if name in candidates(mapper.before, example_agent(seat)):
        return agents
    return []
