"""A running episode as callbacks see it: the user's own notes, and what its agents saw and did last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from marl.data.episode import Episode, Remarks
from marl.data.task import AgentID, Array
from marl.errors import CallbackError

NOTES = ("user_data", "custom_metrics", "hist_data", "media", "seated")  # of an episode, kept in checkpoints
OWN_HISTOGRAMS = ("episode_reward", "episode_lengths")
SCALAR, SCALARS = "__scalar__", "__scalars__"
NUMPY_NUMBERS = [
    {kind} for kind in (np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, np.bool_)
]


class Witness(Protocol):
    """Knows what happened last in each copy of the env. Without an agent, the only one is meant."""

    def length(self, env_id: int) -> int: ...

    def total_reward(self, env_id: int) -> float: ...

    def observation(self, env_id: int, agent: AgentID | None) -> Array: ...

    def raw_observation(self, env_id: int, agent: AgentID | None) -> Any: ...

    def action(self, env_id: int, agent: AgentID | None) -> Any: ...

    def info(self, env_id: int, agent: AgentID | None) -> Mapping[str, Any]: ...


@dataclass
class RunningEpisode(Episode):
    """One object per episode, which all hooks of the episode are given. It is saved with the run."""

    evaluating: bool = False
    """Whether it is played by an evaluation, so that nobody learns from it."""
    user_data: dict[Any, Any] = field(default_factory=dict)
    """Whatever the hooks want to remember during the episode: numbers, texts, lists, tuples, dicts, arrays."""
    custom_metrics: dict[str, float] = field(default_factory=dict)
    """One number per name; results hold mean, min and max over episodes."""
    hist_data: dict[str, Any] = field(default_factory=dict)
    """A list of numbers per name; results and TensorBoard hold the values of all episodes together."""
    media: dict[str, Any] = field(default_factory=dict)
    """A picture, or a list of them, per name."""
    seated: list[tuple[int, int, AgentID]] = field(default_factory=list)  # from which step on who sits where
    witness: Witness | None = None  # None: the episode has ended
    final_length: int = 0
    final_reward: float = 0.0

    @property
    def length(self) -> int:
        """Env steps so far."""
        if self.witness is None:
            return self.final_length
        return self.witness.length(self.env_index)

    @property
    def total_reward(self) -> float:
        """What the env paid all agents so far."""
        if self.witness is None:
            return self.final_reward
        return self.witness.total_reward(self.env_index)

    def last_observation_for(self, agent: AgentID | None = None) -> Array:
        """The newest observation of an agent as policies are given it: a flat row."""
        return self._witness.observation(self.env_index, agent)

    def last_raw_obs_for(self, agent: AgentID | None = None) -> Any:
        """The newest observation as the env gave it; None where the last step showed the agent nothing."""
        return self._witness.raw_observation(self.env_index, agent)

    def last_action_for(self, agent: AgentID | None = None) -> Any:
        """What the agent did last, as the env was told; None before its first decision."""
        return self._witness.action(self.env_index, agent)

    def last_info_for(self, agent: AgentID | None = None) -> Mapping[str, Any]:
        """What the env said beside the last step; empty where it said nothing."""
        return self._witness.info(self.env_index, agent)

    @property
    def _witness(self) -> Witness:
        if self.witness is None:
            raise CallbackError(
                f"episode {self.episode_id} has ended, so what its agents saw and did last is in the batch alone. Keep it in "
                "episode.user_data in on_episode_end."
            )
        return self.witness

    def agent_at(self, seat: int, step: int) -> AgentID:
        """Who sat there in a step of this episode; for envs whose seats change hands."""
        for since, place, agent in reversed(self.seated):  # the newest first: a seat may have had several
            if place == seat and since <= step:
                return agent
        raise LookupError(f"nobody sat on seat {seat} in step {step} of episode {self.episode_id}")

    def end(self) -> None:
        """Nothing more happens in it."""
        # The witness goes on with the next episode of this copy, so its numbers have to be taken now.
        self.final_length = self.length
        self.final_reward = self.total_reward
        self.witness = None

    def remarks(self) -> Remarks:
        """What remains of the user's notes."""
        remarks: Remarks = {"custom_metrics": {}, "hist_data": {}, "media": {}}
        for name, value in self.custom_metrics.items():
            remarks["custom_metrics"][str(name)] = self._number(name, value)
        for name, values in self.hist_data.items():
            remarks["hist_data"][str(name)] = self._numbers(name, values)
        for name, given in self.media.items():
            remarks["media"][str(name)] = self._pictures(name, given)
        return remarks

    def _number(self, name: object, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise self._refused("custom_metrics", name, value, "a number") from None

    def _numbers(self, name: object, values: Any) -> Array:
        of_a_policy = str(name).startswith("policy_") and str(name).endswith("_reward")
        if str(name) in OWN_HISTOGRAMS or of_a_policy:
            raise CallbackError(
                f"episode.hist_data[{name!r}]: results have a histogram of that name. Choose another one."
            )
        try:
            return np.array(values, np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise self._refused("hist_data", name, values, "a list of numbers") from None

    def _pictures(self, name: object, given: Any) -> list[Array]:
        several = [given]
        if isinstance(given, list | tuple):
            several = list(given)
        pictures: list[Array] = []
        for one in several:
            picture = np.array(one)
            if picture.dtype.kind not in "buif" or picture.ndim < 2:
                expected = "an array [H, W], [H, W, 3] or [T, H, W, 3], or a list of them"
                raise self._refused("media", name, given, expected)
            pictures.append(picture)
        return pictures

    def _refused(self, where: str, name: object, value: object, expected: str) -> CallbackError:
        got = repr(value)
        if len(got) > 60:
            got = f"{got[:57]}..."
        return CallbackError(
            f"episode.{where}[{name!r}] is {got} ({type(value).__name__}) in episode "
            f"{self.episode_id} of worker {self.worker_index}; expected {expected}."
        )

    def state_dict(self) -> dict[str, Any]:
        """The notes, as a checkpoint takes them."""
        notes: dict[str, Any] = {}
        for name in NOTES:
            notes[name] = storable(getattr(self, name), f"episode.{name}")
        return notes

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in NOTES:
            if name in state:  # older checkpoints know fewer
                setattr(self, name, restored(state[name]))


def storable(value: Any, where: str) -> Any:
    """A copy that a checkpoint takes and from which ``restored`` makes the same again, types of numpy's numbers included."""
    if isinstance(value, np.generic):
        # As a plain number it would come back with another precision, and a resumed run would reckon otherwise.
        return {SCALAR: np.array([value])}
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        stored: dict[Any, Any] = {}
        for key, item in value.items():
            stored[key] = storable(item, f"{where}[{key!r}]")
        return stored
    if isinstance(value, list):
        if {type(item) for item in value} in NUMPY_NUMBERS:
            # One array instead of an entry for each: hooks append a number in every step.
            return {SCALARS: np.array(value)}
        return _storable_items(value, where)
    if isinstance(value, tuple):
        return tuple(_storable_items(value, where))
    if isinstance(value, bool | int | float | str | None):
        return value
    raise CallbackError(
        f"{where} is a {type(value).__name__}, which a checkpoint cannot hold. Keep numbers, texts, None, lists, tuples, "
        "dicts and numpy arrays there."
    )


def _storable_items(values: Sequence[Any], where: str) -> list[Any]:
    stored: list[Any] = []
    for place, item in enumerate(values):
        stored.append(storable(item, f"{where}[{place}]"))
    return stored


def restored(value: Any) -> Any:
    """What ``storable`` was given."""
    if isinstance(value, dict):
        keys = value.keys()
        if keys == {SCALAR}:
            return value[SCALAR][0]
        if keys == {SCALARS}:
            return list(value[SCALARS])
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(restored, value))
    if isinstance(value, tuple):
        return tuple(map(restored, value))
    return value
