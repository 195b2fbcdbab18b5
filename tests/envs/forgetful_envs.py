"""Small envs that go wrong when they are saved, repeated, copied or closed; made from the sound one of ``bad_envs``."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from marl.envs.base import StepResult
from tests.envs.bad_envs import Saved, Sound

# -- states --------------------------------------------------------------------------------------------------------


class GrowingState(Sound):
    def state(self) -> Any:
        return np.zeros(2 + (self.__dict__.get("t", 0) > 3))


class BadState(Sound):
    def state(self) -> Any:
        return np.array([1.0, np.inf if self.__dict__.get("t", 0) == 3 else 0.0])


class ObjectState(Saved):
    def get_state(self) -> Any:
        return {"rng": self.rng}


class HalfSaved(Saved):
    set_state = None  # type: ignore[assignment]


class ForgetsItsGenerator(Saved):
    def get_state(self) -> Any:
        return {"t": self.t, "luck": self.luck, "rng": np.random.default_rng(0).bit_generator.state}


class Aliased(Saved):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.clock = np.zeros(1)
        return super().reset(seed=seed)

    def spoil(self, result: StepResult) -> Any:
        self.clock += 1
        return result

    def get_state(self) -> Any:
        return {**super().get_state(), "clock": self.clock}

    def set_state(self, state: Any) -> None:
        super().set_state(state)
        self.clock = np.array(state["clock"])


# -- repeating, and around it --------------------------------------------------------------------------------------


class IgnoresItsSeed(Sound):
    def sight(self, agent: str) -> Any:
        return np.array([self.t, OUTSIDE.random()], np.float32)


OUTSIDE = np.random.default_rng()


class Remembers(Sound):
    episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episodes = min(self.episodes + 1, 5)
        return super().reset(seed=seed)

    def sight(self, agent: str) -> Any:
        return np.array([self.t, self.episodes], np.float32)


class SharesAGenerator(Sound):
    """Seeds the generator of the whole process."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        np.random.seed(seed)  # noqa: NPY002
        return super().reset(seed=seed)

    def sight(self, agent: str) -> Any:
        return np.array([self.t, np.random.random()], np.float32)  # noqa: NPY002


class NeedsASeed(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed + 0)  # type: ignore[operator]


class CannotClose(Sound):
    def close(self) -> None:
        raise OSError("no window to close")


LOCK = threading.Lock()  # cannot be pickled


def unsendable() -> Any:
    lock = threading.Lock()

    def create(_: Any) -> Sound:
        with lock:
            return Sound()

    return create
