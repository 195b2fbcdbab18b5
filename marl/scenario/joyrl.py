"""JoyRL's YAML (``general_cfg``, ``algo_cfg``, ``env_cfg``) as a scenario of ours, and what was done with each of its keys.

A key that says the same here is renamed. One that changes nothing is named in the notes. All others are refused with what to
write instead: a key that is read and ignored would be a run that is not what its file says.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from marl.errors import ConfigError, did_you_mean
from marl.scenario.joyrl_keys import (
    ALGORITHMS,
    BUFFERS,
    DRAWING,
    EPSILON,
    IDLE,
    NOISY,
    RECIPES,
    RENAMED_ALGO,
    RENAMED_GENERAL,
    REPLAYED,
    SECTIONS,
    WATCHING,
    Keys,
)
from marl.scenario.joyrl_layers import read_layers
from marl.scenario.rllib_keys import OLD_KEYS


@dataclass(frozen=True)
class Playing:
    """``mode: test``: what to play, as `marl rollout` is told."""

    path: Path
    episodes: int
    sets: tuple[str, ...]
    seed: int
    render: bool
    video: Path | None

    @property
    def command(self) -> str:
        words = [f"marl rollout {self.path} --episodes {self.episodes} --seed {self.seed}"]
        for text in self.sets:
            words.append(f"--set {text}")
        if self.render:
            words.append("--render")
        if self.video is not None:
            words.append(f"--video {self.video}")
        return " ".join(words)


@dataclass
class Translation:
    """What a file became: a scenario, or something to play, and a note for each key that has no place in it."""

    scenario: Keys = field(default_factory=dict)
    playing: Playing | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """As it is told to the user."""
        became = yaml.safe_dump(self.scenario, sort_keys=False, default_flow_style=None, width=120)
        if self.playing is not None:
            became = self.playing.command + "\n"
        notes = "".join(f"# {note}\n" for note in self.notes)
        return f"# JoyRL's YAML, read as:\n{became}{notes}".rstrip()


def is_joyrl(loaded: Mapping[str, Any]) -> bool:
    """Whether it has one of JoyRL's sections; ours have other names."""
    return not loaded.keys().isdisjoint(SECTIONS)


def translate(loaded: Mapping[str, Any], where: str) -> Translation:
    """JoyRL's sections as ours; ``where`` names the file in errors."""
    unknown = [str(key) for key in loaded if key not in SECTIONS]
    if unknown:
        raise ConfigError(
            f"{where} has JoyRL's sections, and {unknown[0]!r} beside them. Its sections are {', '.join(SECTIONS)}; for the "
            "keys of a scenario of ours write a file without them."
        )
    sections: list[Keys] = []
    for name in SECTIONS:
        section = loaded.get(name) or {}  # `env_cfg:` with nothing below it is null
        if not isinstance(section, dict):
            raise ConfigError(f"{where}: {name} is a {type(section).__name__}; expected keys and values.")
        sections.append(dict(section))  # a copy: the reader takes the keys out
    return _Reader(where, *sections).read()


class _Reader:
    """Takes key by key out of the sections; what is left at the end nobody could read."""

    def __init__(self, where: str, general: Keys, algo: Keys, env: Keys) -> None:
        self.where, self.general, self.algo, self.env = where, general, algo, env
        self.made = Translation()

    def read(self) -> Translation:
        mode = self.general.pop("mode", None) or "train"
        if mode not in ("train", "test"):
            raise self._refused("general_cfg.mode", mode, "train or test")
        if mode == "test":
            self.made.playing = self._playing()
            return self.made
        self._env()
        self._algo()
        self._model()
        self._exploration()
        self._length()
        self._workers()
        self._saving()
        self._start()
        self._seed()
        self._trajectories()
        self._idle()
        self._refuse_the_rest()
        return self.made

    # -- what is played ------------------------------------------------------------------------------------------------

    def _env(self) -> None:
        family = self.general.pop("env_name", None) or "gym"
        if family not in ("gym", "gymnasium"):
            raise self._refused(
                "general_cfg.env_name", family, "gym; an env of your own is `env: package.module:Class`"
            )
        name = self.env.pop("id", None)
        if not isinstance(name, str):
            raise self._refused("env_cfg.id", name, "a Gymnasium id such as CartPole-v1")
        if self.env.pop("wrapper", None) is not None:
            raise ConfigError(
                f"{self.where}: env_cfg.wrapper: here, say wrappers: [package.module:Class] in a scenario."
            )
        shown = self._render_mode()
        self.made.scenario["env"] = name
        self.made.scenario |= WATCHING[shown]
        own: Keys = {}
        idle: Keys = {}
        for key, value in self.env.items():
            if key in IDLE:
                idle[key] = value
            else:
                own[key] = value
        if own:  # handed to the env, as JoyRL hands them to gym.make
            self.made.scenario["env_config"] = own
        self.env = idle

    def _render_mode(self) -> str:
        shown = str(self.env.pop("render_mode", None))  # null, or the word None
        if shown not in WATCHING:
            raise self._refused("env_cfg.render_mode", shown, "null, human or rgb_array")
        return shown

    def _algo(self) -> None:
        given = self.general.pop("algo_name", None)
        # DQN_new is another edition of the same algorithm, and PER_DQN is as good a spelling as PERDQN.
        plain = str(given).lower().removesuffix("_new").removesuffix("_cnn")
        plain = plain.replace("_", "").replace("-", "")
        if plain not in ALGORITHMS:
            guess = RECIPES.get(plain) or did_you_mean(given, ALGORITHMS)
            raise self._refused("general_cfg.algo_name", given, f"one of {', '.join(ALGORITHMS)}", guess)
        name, keys = ALGORITHMS[plain]
        self.made.notes.append(
            f"algo_name {given} is our {name}; keys that the file leaves out have the defaults of marl"
        )
        algo = {"name": name, **keys}
        for key in list(self.algo):
            if key in RENAMED_ALGO:
                algo[RENAMED_ALGO[key]] = self.algo.pop(key)
        if name in REPLAYED:
            # JoyRL's loop: an update after every env step, as soon as there is one batch to draw.
            algo["updates_per_step"] = 1.0
            if "train_batch_size" in algo:
                algo["learning_starts"] = algo["train_batch_size"]
        self.made.scenario["algo"] = algo | self._buffer()

    def _buffer(self) -> Keys:
        kind = self.algo.pop("buffer_type", None)
        if kind is None:
            return {}
        if kind not in BUFFERS:
            raise self._refused("algo_cfg.buffer_type", kind, ", ".join(BUFFERS))
        if not BUFFERS[kind]:
            self.made.notes.append(f"buffer_type {kind} is what the algorithm uses anyway")
        return BUFFERS[kind]

    def _model(self) -> None:
        found = {}
        for key in ("value_layers", "actor_layers", "critic_layers"):
            if key in self.algo:
                found[key] = self._layers(key, self.algo.pop(key))
        if not found:
            return
        model, *others = found.values()
        if any(other != model for other in others):
            raise ConfigError(
                f"{self.where}: algo_cfg: {' and '.join(found)} differ, but actor and critic have equal hidden layers here. "
                "Make them equal, or write a scenario with a custom_model."
            )
        self.made.scenario["model"] = model

    def _layers(self, key: str, layers: Any) -> Keys:
        found = read_layers(f"algo_cfg.{key}", layers, self._refused)
        if found.sigma0 is not None:
            # Here it is a matter of the algorithm that all layers are noisy.
            algo = self.made.scenario["algo"]
            if algo["name"] not in NOISY:
                raise self._refused(
                    f"algo_cfg.{key}", "noisy_linear", "linear layers; NoisyDQN and RainbowDQN have noisy ones"
                )
            algo["sigma0"] = found.sigma0
        return found.model

    def _exploration(self) -> None:
        given: Keys = {}
        for key in EPSILON:
            if key in self.algo:
                given[key] = self.algo.pop(key)
        if not given:
            return
        epsilon = {**EPSILON, **given}
        name = self.made.scenario["algo"]["name"]
        self.made.scenario["exploration_config"] = {
            "type": DRAWING.get(name, "EpsilonGreedy"),
            "initial_epsilon": epsilon["epsilon_start"],
            "final_epsilon": epsilon["epsilon_end"],
            "epsilon_decay": epsilon["epsilon_decay"],
        }

    # -- how long, where and from what -----------------------------------------------------------------------------------

    def _length(self) -> None:
        for key in list(self.general):
            if key in RENAMED_GENERAL:
                ours = RENAMED_GENERAL[key]
                self.made.scenario[ours] = self.general.pop(key)
        episodes = self.general.pop("max_episode", None)
        if episodes == -1:
            self.made.notes.append("max_episode -1: it trains until Ctrl-C")
        elif episodes is not None:
            self.made.scenario["stop"] = {"episodes_total": episodes}
            self.made.notes.append(f"max_episode: it ends after the iteration in which episode {episodes} ends")

    def _workers(self) -> None:
        backend = self.general.pop("mp_backend", None)
        workers = self.general.pop("n_workers", 1)
        if backend not in (None, "single", "ray"):
            raise self._refused("general_cfg.mp_backend", backend, "single or ray")
        if backend == "ray":
            self.made.scenario["num_workers"] = workers
        elif workers not in (0, 1, None):
            self.made.notes.append(f"n_workers {workers} counts with mp_backend: ray alone; this is one process")

    def _saving(self) -> None:
        """Every ``model_save_fre`` updates JoyRL saves a model and, with ``online_eval``, evaluates it."""
        updates = self.general.pop("model_save_fre", None)
        looks = self._flag("online_eval")
        episodes = self.general.pop("online_eval_episode", None)
        every = 1
        if updates is not None:
            algo = self.made.scenario["algo"]["name"]
            if algo in REPLAYED:
                # One update per env step, so that an iteration is as long as JoyRL waits.
                self.made.scenario["timesteps_per_iteration"] = updates
            else:
                every = updates
            self.made.scenario["checkpoint_freq"] = every
            self.made.notes.append(
                "model_save_fre: checkpoints are numbered by iteration, and keep_checkpoints says how many stay"
            )
        if looks is False:
            self.made.scenario["evaluation"] = {"interval": 0}
        elif looks or episodes is not None:
            self.made.scenario["evaluation"] = {"interval": every, "episodes": episodes or 10}

    def _start(self) -> None:
        wanted = self._flag("load_checkpoint")
        path = self.general.pop("load_path", None)
        if wanted:
            trained = self._trained(path)
            self.made.scenario["load"] = {"default_policy": str(trained)}
        elif path is not None:
            self.made.notes.append(f"load_path {path} is not used, as load_checkpoint is not true")

    def _seed(self) -> None:
        seed = self.general.pop("seed", None)
        if seed == 0:
            seed = random.SystemRandom().randrange(1, 2**31)
            self.made.notes.append(f"seed 0 means none in JoyRL, and every run of ours has one: {seed} was drawn")
        if seed is not None:
            self.made.scenario["seed"] = seed

    def _trajectories(self) -> None:
        if self._flag("collect_traj"):
            folder = f"{Path(self.where).stem}_trajs"
            self.made.scenario["output"] = folder
            self.made.notes.append(f"collect_traj: episodes go to {folder}/trajs_0.npz, ..., 1000 in a file")

    def _playing(self) -> Playing:
        """``mode: test``: the keys of training say nothing about it."""
        path = self._trained(self.general.pop("load_path", None))
        episodes = self.general.pop("max_episode", 10)
        seed = self.general.pop("seed", 0)
        if episodes == -1:
            episodes = 10
            self.made.notes.append("max_episode -1: 10 episodes are played")
        steps = self.general.pop("max_step", None)
        shown = self._render_mode()
        self._check_whole("max_episode", episodes)
        self._check_whole("max_step", steps)
        self._check_whole("seed", seed)
        self.made.notes.append("mode: test plays what load_path has learned, in its env; keys of training are not used")
        sets: tuple[str, ...] = ()
        if steps is not None:
            sets = (f"horizon={steps}",)
        video = None
        if shown == "rgb_array":
            video = Path("videos/video.gif")
        return Playing(
            path=path,
            episodes=episodes or 10,
            sets=sets,
            seed=seed or 0,
            render=shown == "human",
            video=video,
        )

    def _check_whole(self, key: str, value: Any) -> None:
        """Counts go to a command line, where nobody would say in which file a wrong one stands; null is the default."""
        if value is None:
            return
        is_count = isinstance(value, int) and value >= 0
        if not is_count:
            raise self._refused(f"general_cfg.{key}", value, "a whole number")

    def _trained(self, path: Any) -> Path:
        if not isinstance(path, str):
            raise self._refused("general_cfg.load_path", path, "the run directory or checkpoint of a run of marl")
        below = Path("tasks") / path  # where JoyRL keeps its own
        if not Path(path).exists() and below.exists():
            return below
        return Path(path)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _idle(self) -> None:
        for section in (self.general, self.algo, self.env):
            for key in list(section):
                if key in IDLE:
                    value = section.pop(key)
                    self.made.notes.append(f"{key} {value!r} changes nothing: {IDLE[key]}")

    def _refuse_the_rest(self) -> None:
        known = [*RENAMED_GENERAL, *RENAMED_ALGO, *EPSILON, *IDLE]
        sections = (self.general, self.algo, self.env)
        for name, section in zip(SECTIONS, sections, strict=True):
            for key in section:
                # JoyRL and RLlib share many words, so what was said about the older ones holds here as well.
                if key in OLD_KEYS:
                    advice = f" Here, {OLD_KEYS[key]}."
                else:
                    advice = did_you_mean(key, known)
                raise ConfigError(
                    f"{self.where}: {name}.{key} has no equivalent that is known.{advice} Drop it, or write a scenario of "
                    "ours: `marl config` lists its keys."
                )

    def _flag(self, key: str) -> bool | None:
        value = self.general.pop(key, None)
        if value is not None and not isinstance(value, bool):
            raise self._refused(f"general_cfg.{key}", value, "true or false")
        return value

    def _refused(self, key: str, got: Any, expected: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self.where}: {key} = {got!r}; expected {expected}.{hint}")
