"""The array API: many copies of one world, stepped together.

``E`` copies (*lanes*), ``A`` seats over all kinds of agents, ``A_k`` seats of one kind. Built-in games implement it
directly; dict worlds are lifted to it by ``envs/vector/vector_env.py``. Users may write natively batched worlds as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from marl.data.task import AgentID, Array, Bools, Floats, Ints, Kind
from marl.envs.tasks import Told, tell

State: TypeAlias = Any
"""Nested dicts and lists of numbers, strings, None and numpy arrays: what a checkpoint can hold."""


@dataclass(slots=True)
class Frame:
    """What the world shows after a reset or a step. Arrays may be reused by the world at its next call.

    A seat is ``present`` when its agent is asked to act next. The observation of an agent that ended in this step is
    its last one. ``blind`` seats were truncated without a last observation. Where both are set, terminated wins.
    """

    obs: Sequence[Array]  # per kind [E, A_k, obs_width]
    legal: Sequence[Bools]  # per kind [E, A_k, legal_width]; width 0: everything is legal
    present: Bools  # [E, A]
    state: Floats  # [E, state_size]
    rewards: Floats  # [E, A]
    terminated: Bools  # [E, A]
    truncated: Bools  # [E, A]
    over: Bools  # [E]: the episode has ended
    blind: Bools  # [E, A]
    born: Sequence[tuple[int, int]] = ()  # (lane, seat) taken by a new agent; only where seats are not fixed
    late: Sequence[tuple[int, AgentID, float]] = ()  # (lane, agent, reward) of agents that have no seat any more


class BatchedEnv(ABC):
    """``num_envs`` copies of a world behind array calls.

    The caller decides when a lane starts anew: after a step with ``over[e]`` it calls ``reset([e], [seed])`` before the
    next step. Everything random in a lane's episode must follow from that seed.
    """

    name: str = "world"
    num_envs: int
    kinds: tuple[Kind, ...]
    state_size: int = 0
    fixed_seats: bool = True
    """Whether every seat belongs to one agent id for ever. If not, frames tell ``born`` seats."""

    @abstractmethod
    def reset(self, lanes: Ints, seeds: Ints) -> Frame:
        """Start new episodes in these lanes; the frame shows all lanes."""

    @abstractmethod
    def step(self, actions: Sequence[Array]) -> Frame:
        """Step all lanes. ``actions[k]`` is ``[E, A_k, *action_shape]``; cells of absent agents mean nothing."""

    @abstractmethod
    def get_state(self) -> State:
        """Everything needed to go on in the middle of the episodes."""

    @abstractmethod
    def set_state(self, state: State) -> Frame:
        """Take a state of ``get_state`` and show it again, with zero rewards."""

    def agent_at(self, lane: int, seat: int) -> AgentID:
        """Who sits there now, or sat there last."""
        del lane
        return self.seat_names[seat]

    @property
    def seat_names(self) -> tuple[AgentID, ...]:
        return tuple(agent for kind in self.kinds for agent in kind.agents)

    def lane(self, index: int) -> object:
        """One copy: the user's env object, or a small view of a native world."""
        return Lane(self, index)

    def render(self, lane: int) -> Array | str | None:
        """A picture (height x width x 3, uint8) or a text of one lane."""
        del lane
        return None

    def set_task(self, lane: int, task: object) -> None:
        """Change what a lane plays from its next reset on."""
        raise NotImplementedError(f"{self.name} has no tasks (lane {lane}, task {task!r})")

    @property
    def told(self) -> list[Told]:
        """What each lane was last told through ``lane(i)``."""
        memory: list[Told] = vars(self).setdefault("_told", [{} for _ in range(self.num_envs)])
        return memory

    def recall(self, told: Sequence[Told]) -> None:
        """Tell every lane what it had been told when a state was taken; called before ``set_state``."""
        for lane, tasks in enumerate(told):
            tell(self.lane(lane), tasks, self.told[lane])

    def close(self) -> None:
        """Free what the world holds."""


@dataclass(frozen=True)
class Lane:
    """One copy of a natively batched world, as ``foreach_env`` and callbacks see it."""

    world: BatchedEnv
    index: int

    def render(self) -> Array | str | None:
        return self.world.render(self.index)

    def set_task(self, task: object) -> None:
        self.world.set_task(self.index, task)
        self.world.told[self.index]["set_task"] = task


class NativeEnv(BatchedEnv):
    """A natively batched world whose whole state is a few arrays with a leading axis ``E``.

    Subclasses name these arrays in ``state_arrays``, implement ``_view`` (observations, masks, presence, state of all
    lanes), ``_start`` (new episodes) and ``_play`` (rewards and flags of one step). Randomness of an episode is drawn
    in ``_start`` from the lane's seed and kept in an array, so there is no generator to save. A world in which nothing is
    random says so by ``deterministic``: game trees are exact then.
    """

    state_arrays: tuple[str, ...] = ()
    deterministic: bool = False

    @abstractmethod
    def _start(self, lanes: Ints, seeds: Ints) -> None: ...

    @abstractmethod
    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        """Rewards, terminated, truncated ``[E, A]`` and over ``[E]``."""

    @abstractmethod
    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        """Observations and masks per kind, present ``[E, A]``, state ``[E, state_size]``."""

    def reset(self, lanes: Ints, seeds: Ints) -> Frame:
        self._start(np.asarray(lanes), np.asarray(seeds))
        return self._still()

    def step(self, actions: Sequence[Array]) -> Frame:
        rewards, terminated, truncated, over = self._play(actions)
        obs, legal, present, state = self._view()
        ended = terminated | truncated
        return Frame(obs, legal, present & ~ended, state, rewards, terminated, truncated, over, self._none)

    def get_state(self) -> State:
        return {name: getattr(self, name).copy() for name in self.state_arrays}

    def set_state(self, state: State) -> Frame:
        for name in self.state_arrays:
            setattr(self, name, np.array(state[name]))
        return self._still()

    def _still(self) -> Frame:
        obs, legal, present, state = self._view()
        zeros = np.zeros(present.shape, np.float32)
        over = np.zeros(self.num_envs, bool)
        return Frame(obs, legal, present, state, zeros, self._none, self._none, over, self._none)

    @property
    def _none(self) -> Bools:
        return np.zeros((self.num_envs, sum(kind.size for kind in self.kinds)), bool)
