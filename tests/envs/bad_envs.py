"""Small envs that each break one rule of the dict contract, and the sound one that they are made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from marl.envs.base import MultiAgentEnv, StepResult

SIGHT = spaces.Box(-10, 10, (2,), np.float32)
MASKED = spaces.Dict({"observation": SIGHT, "action_mask": spaces.MultiBinary(3)})
MOVES = spaces.Discrete(3)
LENGTH = 8


class Sound(MultiAgentEnv):
    """Two agents see the time and a random number for eight steps; then all are truncated."""

    possible_agents: Any = ("a_0", "a_1")
    space: Any = SIGHT

    def observation_space(self, agent: str) -> Any:
        return self.space

    def action_space(self, agent: str) -> Any:
        return MOVES

    def sight(self, agent: str) -> Any:
        return np.array([self.t, self.luck], np.float32)

    def obs(self) -> dict[str, Any]:
        return {agent: self.sight(agent) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.t = np.random.default_rng(seed), 0
        self.luck = float(self.rng.random())
        return self.obs(), {}

    def step(self, actions: Any) -> Any:
        self.t += 1
        self.luck = float(self.rng.random())
        result = StepResult(self.obs(), dict.fromkeys(actions, 1.0), {}, {"__all__": self.t == LENGTH}, {})
        return self.spoil(result)

    def spoil(self, result: StepResult) -> Any:
        """Where the bad ones go wrong."""
        return result


class Saved(Sound):
    """With a state of its own."""

    def get_state(self) -> Any:
        return {"t": self.t, "luck": self.luck, "rng": self.rng.bit_generator.state}

    def set_state(self, state: Any) -> None:
        self.rng = np.random.default_rng()
        self.t, self.luck, self.rng.bit_generator.state = state["t"], state["luck"], state["rng"]


class Masked(Sound):
    space = MASKED
    mask = np.array([0, 1, 1], np.int8)

    def sight(self, agent: str) -> Any:
        return {"observation": super().sight(agent), "action_mask": self.mask.copy()}


class Cars(Sound):
    """Agents whose ids are not known: one car leaves and the next one comes in every step."""

    possible_agents = ()
    max_agents: Any = {"car_*": 2}  # noqa: RUF012

    def obs(self) -> dict[str, Any]:
        return {f"car_{i}": self.sight("car") for i in (self.t - 1, self.t) if i >= 0}

    def spoil(self, result: StepResult) -> Any:
        gone = f"car_{self.t - 1}"
        return result._replace(rewards={gone: 1.0}, terminated={gone: True})


# -- answers -------------------------------------------------------------------------------------------------------


class NoAgents(Sound):
    possible_agents = ()


class Crash(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result if self.t < 3 else 1 // 0


class FourTuple(Sound):
    def spoil(self, result: StepResult) -> Any:
        return tuple(result)[:4]


class RewardAlone(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(rewards=1.0)  # type: ignore[arg-type]


class ObsAlone(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class InfoText(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(infos={"a_0": "fine"})  # type: ignore[dict-item]


# -- who -----------------------------------------------------------------------------------------------------------


class UnknownObs(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(obs={**result.obs, "A_0": self.sight("a_0")})


class UnknownReward(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(rewards={**result.rewards, "a_7": 1.0})


class UnknownFlag(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(terminated={"b_0": True})


class Crowd(Cars):
    max_agents = {"car_*": 1}  # noqa: RUF012


class NeverAsked(Sound):
    possible_agents = ("a_0", "a_1", "a_2")

    def obs(self) -> dict[str, Any]:
        return {agent: self.sight(agent) for agent in ("a_0", "a_1")}


class Revenant(Sound):
    """Ends an agent and goes on to ask it."""

    def spoil(self, result: StepResult) -> Any:
        return result._replace(terminated={"a_1": self.t == 3})


class PaysTheDead(Sound):
    def spoil(self, result: StepResult) -> Any:
        left = {"a_0": result.obs["a_0"]} if self.t > 3 else result.obs
        return result._replace(obs=left, rewards={"a_1": 1.0}, terminated={"a_1": self.t == 3})


class PaysTheUnborn(Sound):
    def obs(self) -> dict[str, Any]:
        return {agent: self.sight(agent) for agent in self.possible_agents[: 1 + (self.t > 4)]}

    def spoil(self, result: StepResult) -> Any:
        return result._replace(rewards={"a_1": 2.0 * (self.t == 2)})


# -- observations --------------------------------------------------------------------------------------------------


class WrongShape(Sound):
    def sight(self, agent: str) -> Any:
        return np.zeros(3, np.float32)


class LostKey(Masked):
    def sight(self, agent: str) -> Any:
        return {"action_mask": self.mask.copy()}


class Fraction(Sound):
    space = spaces.MultiDiscrete([20, 20])

    def sight(self, agent: str) -> Any:
        return np.array([0.5, self.t])


class OutOfChoices(Sound):
    space = spaces.Discrete(5)

    def sight(self, agent: str) -> Any:
        return self.t


class OutOfSeveralChoices(Sound):
    space = spaces.MultiDiscrete([5, 5])

    def sight(self, agent: str) -> Any:
        return np.array([self.t, 0])


class Doubles(Sound):
    def sight(self, agent: str) -> Any:
        return super().sight(agent).astype(np.float64)


class OutOfBounds(Sound):
    def sight(self, agent: str) -> Any:
        return super().sight(agent) + np.array([4, 0], np.float32)  # up to 12, the space ends at 10


class NotANumber(Sound):
    def sight(self, agent: str) -> Any:
        return np.array([np.nan if self.t == 3 else 0, 0], np.float32)


class SharedObs(Sound):
    def obs(self) -> dict[str, Any]:
        return dict.fromkeys(self.possible_agents, self.sight("a_0"))


class Mutated(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.board = {agent: np.zeros(2, np.float32) for agent in self.possible_agents}
        return super().reset(seed=seed)

    def sight(self, agent: str) -> Any:
        self.board[agent][:] = self.t
        return self.board[agent]


class ChangedLater(Mutated):
    """Hands out another object every time, but a view of the same memory."""

    def sight(self, agent: str) -> Any:
        return super().sight(agent)[:]


class NewSpaces(Sound):
    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-10, 10, (2,), np.float32)


class GrowingSpace(Sound):
    size = 2

    def action_space(self, agent: str) -> Any:
        self.size += 1
        return spaces.Discrete(self.size)


# -- masks ---------------------------------------------------------------------------------------------------------


class ShortMask(Masked):
    mask = np.array([0, 1], np.int8)


class EmptyMask(Masked):
    def sight(self, agent: str) -> Any:
        return {**super().sight(agent), "action_mask": np.full(3, self.t != 4, np.int8)}


class SecretMask(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(infos={"a_0": {"action_mask": np.ones(3, np.int8)}})


# -- rewards and endings -------------------------------------------------------------------------------------------


class BadReward(Sound):
    value: Any = float("nan")

    def spoil(self, result: StepResult) -> Any:
        return result._replace(rewards={"a_0": self.value if self.t == 3 else 0.0})


class TextReward(BadReward):
    value = "much"


class ArrayReward(BadReward):
    value = np.ones(1)


class NumberFlags(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(truncated={"__all__": int(self.t == LENGTH)})


class BothFlags(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(terminated={"__all__": self.t == LENGTH})


class NoLastObs(Sound):
    def spoil(self, result: StepResult) -> Any:
        return result._replace(obs={} if self.t == LENGTH else result.obs)


class NobodyLeft(Sound):
    def obs(self) -> dict[str, Any]:
        return super().obs() if self.t < 4 else {}

    def spoil(self, result: StepResult) -> Any:
        ended = dict.fromkeys(self.possible_agents, self.t >= 3)
        return result._replace(obs=result.obs, terminated={**ended, "__all__": False}, truncated={})


class Endless(Sound):
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def spoil(self, result: StepResult) -> Any:
        return result._replace(truncated={})


class Mixed(Sound):
    """Sound: one terminates while the other truncates."""

    def spoil(self, result: StepResult) -> Any:
        over = self.t == LENGTH
        return result._replace(terminated={"a_0": over}, truncated={"a_1": over})


# -- chance that is listed -----------------------------------------------------------------------------------------


class Listed(Sound):
    """Sound: one of two numbers is drawn, shown and listed."""

    listed: Any = ((0.0, 0.25), (1.0, 0.75))

    def chance_outcomes(self) -> Any:
        return self.listed

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.t = np.random.default_rng(seed), 0
        self.luck = self.chosen(float(self.rng.random() < 0.75), options or {})
        return self.obs(), {}

    def chosen(self, drawn: float, options: Any) -> float:
        return float(options.get("chance", drawn))

    def step(self, actions: Any) -> Any:
        self.t += 1
        return StepResult(self.obs(), dict.fromkeys(actions, self.luck), {}, {"__all__": self.t == LENGTH}, {})


class WrongSum(Listed):
    listed = ((0.0, 0.25), (1.0, 0.5))


class DeafToChance(Listed):
    def chosen(self, drawn: float, options: Any) -> float:
        return drawn


class LuckyBesides(Listed):
    def step(self, actions: Any) -> Any:
        result = super().step(actions)
        return result._replace(rewards=dict.fromkeys(actions, float(self.rng.random())))


class ListsTooLittle(Listed):
    listed = ((0.0, 1.0),)


class WrongWeights(Listed):
    listed = ((0.0, 0.6), (1.0, 0.4))


class TakesNoOptions(Listed):
    def reset(self, *, seed: int | None = None) -> Any:
        return super().reset(seed=seed)


class Alike(Sound):
    """Sound: nothing is random, which it does not say."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=0)


class Certain(Alike):
    """Sound: nothing is random, and it says so."""

    def chance_outcomes(self) -> Any:
        return {None: 1.0}
