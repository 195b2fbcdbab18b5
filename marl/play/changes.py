"""What a rollout does differently from the run of its checkpoint, and which keys of a scenario count there at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from marl.errors import ConfigError
from marl.scenario.config import ALL_ALGO_KEYS, TOP_KEYS
from marl.scenario.load import apply, parse_set, section_of
from marl.trust import words_of

PLAYED = frozenset(
    {
        "env", "env_config", "wrappers", "preprocessor_pref", "horizon", "env_timeout_s", "fresh_env_per_episode",
        "normalize_actions", "clip_actions", "clip_rewards", "algo", "model", "exploration_config", "multiagent", "population",
        "imports",
    }
)  # fmt: skip
"""Keys and sections of a scenario that decide how a rollout goes; all others are about learning, workers and results."""
ACTING = frozenset(
    {
        "critic_sees", "objective", "dueling", "num_atoms", "v_min", "v_max", "anticipatory", "noisy", "sigma0", "temperature",
        "initial_value", "float_states", "max_states", "normalize_values", "normalize_rewards", "reward_scale",
    }
)  # fmt: skip
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
            return key in ("max_seq_len", "attention_memory_training")
    return words[0] in TOP_KEYS - PLAYED
