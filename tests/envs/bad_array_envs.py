"""Small natively batched envs that each break one rule of the array contract, and the sound one that they are made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentType, number_seats
from marl.envs.batched import NativeEnv, StepOutput

LENGTH = 8


class SoundArrays(NativeEnv):
    """Two agents see the time and a number that only the seed decides, for eight steps; then all are truncated."""

    name = "sound"
    state_size = 1
    state_arrays: Any = ("t", "luck")
    space: Any = spaces.Box(-10, 10, (2,), np.float32)
    masked = False

    def __init__(self, num_envs: int, env_config: Any) -> None:
        self.num_envs = num_envs
        self.kinds = number_seats([AgentType("agent", ("a_0", "a_1"), self.space, spaces.Discrete(3), self.masked)])
        self.t = np.zeros(num_envs, np.int64)
        self.luck = np.zeros((num_envs, LENGTH + 1), np.float32)

    def _start(self, env_ids: Any, seeds: Any) -> None:
        self.t[env_ids] = 0
        for env_id, seed in zip(env_ids.tolist(), seeds.tolist(), strict=True):
            self.luck[env_id] = np.random.default_rng(seed).random(LENGTH + 1)

    def _play(self, actions: Any) -> Any:
        self.t += 1
        over = self.t >= LENGTH
        ended = np.repeat(over[:, None], 2, axis=1)
        return np.ones((self.num_envs, 2), np.float32), np.zeros_like(ended), ended, over

    def _view(self) -> Any:
        now = self.luck[np.arange(self.num_envs), np.minimum(self.t, LENGTH)]
        obs = np.repeat(np.stack([self.t.astype(np.float32), now], axis=1)[:, None], 2, axis=1)
        legal = np.ones((self.num_envs, 2, self.kinds[0].legal_width), bool)
        return [obs.astype(np.float32)], [legal], np.ones((self.num_envs, 2), bool), now[:, None]

    def step(self, actions: Any) -> Any:
        return self.spoil(super().step(actions))

    def spoil(self, frame: StepOutput) -> Any:
        """Where the bad ones go wrong."""
        return frame

    def at(self, step: int) -> Any:
        """Copies that are in this step."""
        return self.t == step


class Narrow(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.rewards = frame.rewards[:, :1]
        return frame


class WholeNumbers(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.obs = [frame.obs[0].astype(np.int64)]
        return frame


class NoObservations(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.obs = None  # type: ignore[assignment]
        return frame


class NoFrame(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        return frame.obs, frame.rewards


class CrashArrays(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        return frame if self.t[0] < 3 else 1 // 0


class Twins(SoundArrays):
    def agent_at(self, env_id: int, seat: int) -> str:
        return "a_0"


class NaNArrays(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.obs[0][self.at(3), 1] = np.nan
        return frame


class NaNRewards(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.rewards[self.at(3), 1] = np.inf
        return frame


class NaNState(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.state = np.where(self.at(3)[:, None], np.nan, frame.state)
        return frame


class Outside(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.obs[0][self.at(3), 1] = 11
        return frame


class TooManyChoices(SoundArrays):
    space = spaces.MultiDiscrete([5, 5])

    def _view(self) -> Any:
        obs, legal, present, state = super()._view()
        return [obs[0].astype(np.int64)], legal, present, state


class StuckArrays(SoundArrays):
    masked = True

    def spoil(self, frame: StepOutput) -> Any:
        frame.legal[0][self.at(3), 1] = False
        return frame


class AskedAndEnded(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.present |= frame.truncated
        return frame


class OverWithoutFlags(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.truncated[:, 1] = False
        return frame


class BothFlagsArrays(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.terminated |= frame.truncated
        return frame


class BlindArrays(SoundArrays):
    def spoil(self, frame: StepOutput) -> Any:
        frame.blind = frame.truncated.copy()
        return frame


class PaysTheAbsent(SoundArrays):
    """The second agent comes late but is paid from the beginning."""

    arrives = 5

    def _view(self) -> Any:
        obs, legal, present, state = super()._view()
        present[self.t < self.arrives, 1] = False
        return obs, legal, present, state


class NeverAskedArrays(PaysTheAbsent):
    arrives = LENGTH

    def _play(self, actions: Any) -> Any:
        rewards, terminated, truncated, over = super()._play(actions)
        return rewards * np.array([1, 0], np.float32), terminated, truncated, over


class EndlessArrays(SoundArrays):
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def _play(self, actions: Any) -> Any:
        rewards, terminated, truncated, over = super()._play(actions)
        return rewards, terminated, truncated & False, over & False


class IgnoresSeeds(SoundArrays):
    def _start(self, env_ids: Any, seeds: Any) -> None:
        super()._start(env_ids, OUTSIDE.integers(0, 2**31, len(env_ids)))


OUTSIDE = np.random.default_rng()


class RemembersEpisodes(SoundArrays):
    begun = 0
    state_arrays = ("t", "luck")

    def _start(self, env_ids: Any, seeds: Any) -> None:
        self.begun += 1
        super()._start(env_ids, seeds)
        self.luck[env_ids] += min(self.begun, 5)


class OneGenerator(SoundArrays):
    """Draws for all copies together: what a copy gets depends on the number of copies."""

    def _start(self, env_ids: Any, seeds: Any) -> None:
        super()._start(env_ids, seeds)
        self.luck[env_ids] = np.random.default_rng(seeds[0]).random((self.num_envs, LENGTH + 1))[env_ids]


class LooksAtTheNeighbour(SoundArrays):
    def _view(self) -> Any:
        obs, legal, present, state = super()._view()
        obs[0][:, :, 1] = self.t.max()
        return obs, legal, present, state


class ResetsEverybody(SoundArrays):
    """A reset of one copy turns the others back as well."""

    def _start(self, env_ids: Any, seeds: Any) -> None:
        super()._start(env_ids, seeds)
        self.luck += np.where(np.isin(np.arange(self.num_envs), env_ids), 0, 1)[:, None]


class ForgetsLuck(SoundArrays):
    state_arrays = ("t",)


class AliasedArrays(SoundArrays):
    def get_state(self) -> Any:
        return {"t": self.t, "luck": self.luck}


class ObjectArrays(SoundArrays):
    def get_state(self) -> Any:
        return {"space": self.space}


class CannotCloseArrays(SoundArrays):
    def close(self) -> None:
        raise OSError("no window to close")
