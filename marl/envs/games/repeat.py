"""Repeat after a delay: a task that only a memory solves.

In each of the first ``length`` steps every agent is shown a symbol of its own, drawn at the start of the episode; ``delay``
steps after a symbol was shown it has to be named. Nothing tells that the time has come, and what is played before then does
not count. A right answer pays ``1 / length``: the best return of an agent is 1, and without a memory nothing is better than
guessing, ``1 / symbols`` on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from pydantic import Field

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv


class RepeatConfig(Config):
    """Keys of ``env_config``."""

    delay: int = Field(
        5,
        ge=1,
        le=1_000_000,
        description="Steps from the one that shows a symbol to the one in which it is to be named.",
    )
    symbols: int = Field(3, ge=2, le=64, description="How many symbols there are, and as many actions.")
    length: int = Field(
        1, ge=1, le=1_000_000, description="Steps that show a symbol. An episode has delay + length steps."
    )
    agents: int = Field(1, ge=1, le=64, description="Agents side by side, each with symbols of its own.")


class RepeatGames(NativeEnv):
    """``num_envs`` copies. Global state: which answer of each agent pays now, one-hot; zeros while none does."""

    config_class = RepeatConfig

    name = "repeat_after_delay"
    state_arrays = ("shown", "t")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = RepeatConfig(**env_config)
        symbols, agents = self.config.symbols, self.config.agents
        names = tuple(f"agent_{i}" for i in range(agents))
        # One value more than symbols: nothing is shown.
        seen, named = spaces.Discrete(symbols + 1), spaces.Discrete(symbols)
        self.kinds = number_seats([AgentType("agent", names, seen, named)])
        self.state_size = agents * symbols
        self.shown = np.zeros((num_envs, agents, self.config.length), np.int64)
        self.t = np.zeros(num_envs, np.int64)
        self._one_hot = np.eye(symbols + 1, symbols, dtype=np.float32)  # a row of zeros for nothing

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        self.t[env_ids] = 0
        for env_id, seed in zip(env_ids, seeds, strict=True):
            drawn = np.random.default_rng(int(seed)).integers(self.config.symbols, size=self.shown.shape[1:])
            self.shown[env_id] = drawn

    def _symbols(self, when: Ints) -> Ints:
        """What these steps ``[E]`` show each agent ``[E, A]``; the number after the last symbol: nothing."""
        shows = (when >= 0) & (when < self.config.length)
        found = self.shown[np.arange(self.num_envs), :, np.clip(when, 0, self.config.length - 1)]
        return np.where(shows[:, None], found, self.config.symbols)

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        wanted = self._symbols(self.t - self.config.delay)
        rewards = (actions[0] == wanted).astype(np.float32) / np.float32(self.config.length)
        self.t += 1
        over = self.t >= self.config.delay + self.config.length
        ended = np.repeat(over[:, None], self.config.agents, axis=1)
        return rewards, ended, np.zeros_like(ended), over

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        seats = (self.num_envs, self.config.agents)
        wanted = self._one_hot[self._symbols(self.t - self.config.delay)]
        legal = np.ones((*seats, 0), bool)
        return (self._symbols(self.t)[:, :, None],), (legal,), np.ones(seats, bool), wanted.reshape(self.num_envs, -1)

    # -- looking at it -------------------------------------------------------------------------------------------------

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """A sentence per agent; an agent is told what it is shown now, not what it should remember."""
        lines = [f"Step {self.t[env_id] + 1} of {self.config.delay + self.config.length}."]
        for column, agent in enumerate(self.kinds[0].agents):
            if viewer is None or viewer == agent:
                lines.append(self._line(env_id, column, agent, everything=viewer is None))
        return {"kind": "text", "text": "\n".join(lines)}

    def _line(self, env_id: int, column: int, agent: AgentID, *, everything: bool) -> str:
        now, wanted = self._symbols(self.t)[env_id, column], self._symbols(self.t - self.config.delay)[env_id, column]
        line = f"{agent} sees {self._word(now)}"
        if everything:
            line += f", should name {self._word(wanted)}"
        return f"{line}."

    def _word(self, symbol: int) -> str:
        return "nothing" if symbol == self.config.symbols else f"symbol {symbol}"

    def render(self, env_id: int) -> str:
        text: str = self.scene(env_id)["text"]
        return text
