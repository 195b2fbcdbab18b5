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
from marl.data.task import AgentID, Task
from marl.envs.batched import StepOutput
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError
from marl.mappers.mapper import Mapper, UserFunction
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
            instead = INSTEAD.get(leaf[0])
            raise ConfigError(
                f"--set {'.'.join(leaf)}=... changes nothing in a rollout, which neither learns nor uses workers"
                f"{f'; {instead}' if instead else ''}. Drop it. What counts here: env_config.KEY, horizon, wrappers, "
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
    top, *rest = words
    if top == "multiagent" and rest[:1] == ["policies"]:  # NAME, then keys of sections without the section's name
        own = rest[2:]
        return bool(own) and _is_idle(own if own[0] in PLAYED else ["algo", *own])
    if top == "multiagent":
        return rest[:1] == ["policies_to_train"]
    if top == "algo":
        return bool(rest) and rest[0] in ALL_ALGO_KEYS - ACTING
    if top == "exploration_config":
        return bool(rest) and rest[0] not in EXPLORING
    if top == "model":
        return rest[:1] == ["max_seq_len"]
    return top in TOP_KEYS - PLAYED


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

    def begin(self, player: EnvRunner) -> None: ...

    def before(self, player: EnvRunner, choices: Actions) -> None: ...

    def after(self, player: EnvRunner, frame: StepOutput) -> None: ...


def play(
    path: Path,
    wishes: RolloutOptions,
    allow: frozenset[str] = frozenset(),
    changes: Changes = NOTHING,
    say: Callable[[str], None] = print,
) -> list[Tally]:
    """Play, tell each episode by ``say`` as it ends, and give what was earned in each way of playing."""
    picturing = wishes.render or wishes.video is not None
    player = load_player(path, allow, changes, RGB if picturing else None)
    with ExitStack() as ending:
        ending.callback(player.env.close)
        watchers = _watchers(player, wishes, say, ending)
        tallies = []
        for explore in wishes.explore:
            if len(wishes.explore) > 1:
                say("exploring:" if explore else "greedy:")
            tallies.append(_played(player, wishes, explore, watchers, say))
    return tallies


def _watchers(
    player: EnvRunner, wishes: RolloutOptions, say: Callable[[str], None], ending: ExitStack
) -> list[Watcher]:
    """All that could go wrong with them goes wrong here, before anything is played."""
    found: list[Watcher] = []
    if wishes.render or wishes.video is not None:
        _check_drawing(player, wishes.render)
    if wishes.render:
        screen = Screen(say, wishes.fps)
        ending.callback(screen.close)
        found.append(Shown(screen))
    if wishes.save is not None:
        notes = Notes(player, wishes.save)
        ending.callback(notes.recorder.close)
        found.append(notes)
    if wishes.video is not None:
        found.append(Shown(ending.enter_context(Video(wishes.video, wishes.fps))))
    return found


def _check_drawing(player: EnvRunner, on_screen: bool) -> None:
    player.env.reset(np.array([0]), np.array([0]))
    drawn, name = picture_by(player.env), player.env.name
    picture_of(drawn, name)
    if on_screen:
        check_screen(drawn, name)


def _played(
    player: EnvRunner, wishes: RolloutOptions, explore: bool, watchers: Sequence[Watcher], say: Callable[[str], None]
) -> Tally:
    rng = np.random.default_rng([wishes.seed, 1])
    ended: list[EpisodeStats] = []
    played = 0
    player.ledger.pop()
    _begin(player, wishes.seed, watchers)
    while (played < wishes.steps) if wishes.steps is not None else (len(ended) < wishes.episodes):
        choices = player.decide(rng, explore=explore)
        for watcher in watchers:
            watcher.before(player, choices)
        frame = player.advance(choices)
        played += 1
        over = player.settle(frame)
        for watcher in watchers:
            watcher.after(player, frame)
        if over.size:
            ended.append(player.ledger.pop())
            say(f"episode {len(ended)}  {episode_line(ended[-1], player.policy_ids)}")
            if wishes.steps is None and len(ended) == wishes.episodes:
                break
            _begin(player, wishes.seed + len(ended), watchers)
    return Tally(explore, played, EpisodeStats.concat(ended), player.policy_ids)


def _begin(player: EnvRunner, seed: int, watchers: Sequence[Watcher]) -> None:
    player.begin(np.array([0]), np.array([seed]))
    for watcher in watchers:
        watcher.begin(player)


# -- watchers ----------------------------------------------------------------------------------------------------------


class Shown:
    """Hands what the env draws to a video or a screen: how an episode begins, and after every step."""

    def __init__(self, target: Video | Screen) -> None:
        self.target = target

    def begin(self, player: EnvRunner) -> None:
        self.target.add(picture_by(player.env), player.env.name)

    def before(self, player: EnvRunner, choices: Actions) -> None:
        """Nothing has happened yet."""

    def after(self, player: EnvRunner, frame: StepOutput) -> None:
        del frame
        self.begin(player)


class Notes:
    """Writes down what a player does, step by step."""

    def __init__(self, player: EnvRunner, directory: Path) -> None:
        env = player.env
        task = Task(env.kinds, env.state_size)
        self.grid = RolloutBuffer(task, player.policy_ids, env.num_envs, complete_episodes=False)
        normalized = player.config.normalize_actions
        self.recorder = Recorder(directory.expanduser(), task, env.name, player.policy_ids, normalized)
        self.recorder.prepare()

    def begin(self, player: EnvRunner) -> None:
        """The grid finds out by itself."""

    def before(self, player: EnvRunner, choices: Actions) -> None:
        """What everybody saw and decided."""
        (self.row,) = self.grid.extend(1)
        self.grid.record(self.row, player, choices)

    def after(self, player: EnvRunner, frame: StepOutput) -> None:
        """What came of it."""
        self.grid.settle(self.row, player, frame)
        self.recorder.add(self.grid.batch())
        self.grid.keep_tail()


# -- the player --------------------------------------------------------------------------------------------------------


def load_player(
    path: Path, allow: frozenset[str], changes: Changes = NOTHING, render_mode: str | None = None
) -> EnvRunner:
    """One copy of a run's env with its policies; names may only point to built-in or allowed modules."""
    remedy = "Name them again: --env package.module:Class, --set multiagent.policy_mapping_fn=..."
    run = SavedRun.open(path, allow, changes.words, remedy=remedy)
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
    patterns, before = (mapper.patterns, mapper.before) if isinstance(mapper, Recast) else ({}, mapper)
    for name, source in sources.items():
        meant = [agent for seat in setup.task.seat_names for agent in _meant(name, seat, name in patterns, before)]
        takers = [next((p for p in patterns if fnmatchcase(agent, p)), name) for agent in meant]
        unknown = not meant and (name in patterns or isinstance(before, UserFunction))
        if name in takers or unknown:
            continue
        taken = ", ".join(f"--policy {p}={sources[p]}" for p in dict.fromkeys(takers))
        who = {p for seat in setup.task.seat_names for p in candidates(before, example_agent(seat))}
        never = f"the mapping of the run never chooses it, but {', '.join(sorted(who))}"
        why = f"{taken} takes everybody that it would play" if taken else never
        raise ConfigError(f"--policy {name}={source} plays nobody: {why}. Drop it, or name who plays.")


def _meant(name: str, seat: str, is_agent: bool, before: Mapper) -> list[AgentID]:
    """Agents on a seat that a name means: by its pattern, or because the run's mapping gives them to the policy.

    Of a seat such as ``car_*[0]`` some agents are tried.
    """
    stem = seat.split("[")[0]
    named = [name] if fnmatchcase(name, stem) else []
    agents = [seat] if "*" not in seat else [*named, *(stem.replace("*", word) for word in ("0", "12345"))]
    if is_agent:
        return [agent for agent in agents if fnmatchcase(agent, name)]
    return agents if name in candidates(before, example_agent(seat)) else []
