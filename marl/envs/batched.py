"""The array API: many copies of one env, stepped together.

``E`` copies, ``A`` seats over all kinds of agents, ``A_k`` seats of one kind. Built-in games implement it
directly; dict envs are lifted to it by ``envs/vector/vector_env.py``. Users may write natively batched envs as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints
from marl.envs.tasks import TaskMemory, tell

State: TypeAlias = Any
"""Nested dicts and lists of numbers, strings, None and numpy arrays: what a checkpoint can hold."""


@dataclass(slots=True)
class StepOutput:
    """What the env shows after a reset or a step. Arrays may be reused by the env at its next call.

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
    born: Sequence[tuple[int, int]] = ()  # (env_id, seat) taken by a new agent; only where seats are not fixed
    late: Sequence[tuple[int, AgentID, float]] = ()  # (env_id, agent, reward) of agents that have no seat any more


class BatchedEnv(ABC):
    """``num_envs`` copies of an env behind array calls.

    The caller decides when a copy starts anew: after a step with ``over[e]`` it calls ``reset([e], [seed])`` before the
    next step. Everything random in a copy's episode must follow from that seed.
    """

    config_class: ClassVar[type[Config] | None] = None
    """The keys of its ``env_config``, which ``marl config ENV`` lists."""

    name: str = "world"
    num_envs: int
    kinds: tuple[AgentType, ...]
    state_size: int = 0
    fixed_seats: bool = True
    """Whether every seat belongs to one agent id for ever. If not, frames tell ``born`` seats."""
    lifted: bool = False
    """Whether dict envs are behind it: its arrays have the right shapes by construction, its numbers may be anything."""
    paid: Array | None = None
    """Rewards of the last step as precisely as the env told them, where it did; frames hold them in single precision."""

    @abstractmethod
    def reset(self, env_ids: Ints, seeds: Ints) -> StepOutput:
        """Start new episodes in these copies; the frame shows all copies."""

    @abstractmethod
    def step(self, actions: Sequence[Array]) -> StepOutput:
        """Step all copies. ``actions[k]`` is ``[E, A_k, *action_shape]``; cells of absent agents mean nothing."""

    @abstractmethod
    def get_state(self) -> State:
        """Everything needed to go on in the middle of the episodes."""

    @abstractmethod
    def set_state(self, state: State) -> StepOutput:
        """Take a state of ``get_state`` and show it again, with zero rewards."""

    def agent_at(self, env_id: int, seat: int) -> AgentID:
        """Who sits there now, or sat there last."""
        del env_id
        return self.seat_names[seat]

    @property
    def seat_names(self) -> tuple[AgentID, ...]:
        names: list[AgentID] = []
        for kind in self.kinds:
            names += kind.agents
        return tuple(names)

    def sub_env(self, index: int) -> object:
        """One copy: the user's env object, or a small view of a native env."""
        return Lane(self, index)

    def lane(self, index: int) -> object:
        """The old name of ``sub_env``, for one release."""
        return self.sub_env(index)

    def render(self, env_id: int) -> Array | str | None:
        """A picture (height x width x 3, uint8) or a text of one copy."""
        del env_id
        return None

    def reseed(self, seeds: Ints) -> bool:
        """Draw what chance has not shown yet anew, from these seeds, one per copy; whether anything is drawn later at all.

        What has happened and what is shown stay as they are. Without it, copies of a state go on with the same luck.
        """
        del seeds
        return False

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        """What the agent's Discrete actions are called; empty where they are only numbered."""
        del agent
        return ()

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any] | None:
        """What one copy looks like, for a page to draw (``marl.envs.scenes``); None: as ``render`` shows it."""
        del env_id, viewer
        return None

    def set_task(self, env_id: int, task: object) -> None:
        """Change what a copy plays from its next reset on."""
        raise NotImplementedError(f"{self.name} has no tasks (lane {env_id}, task {task!r})")

    @cached_property
    def told(self) -> list[TaskMemory]:
        """What each copy was last told through ``sub_env(i)``."""
        return [{} for _ in range(self.num_envs)]

    def restore_tasks(self, told: Sequence[TaskMemory]) -> None:
        """Tell every copy what it had been told when a state was taken; called before ``set_state``."""
        for env_id, tasks in enumerate(told):
            tell(self.sub_env(env_id), tasks, self.told[env_id])

    def close(self) -> None:
        """Free what the env holds."""


@dataclass(frozen=True)
class Lane:
    """One copy of a natively batched env, as ``foreach_env`` and callbacks see it."""

    env: BatchedEnv
    index: int

    def render(self) -> Array | str | None:
        return self.env.render(self.index)

    def set_task(self, task: object) -> None:
        self.env.set_task(self.index, task)
        self.env.told[self.index]["set_task"] = task


class NativeEnv(BatchedEnv):
    """A natively batched env whose whole state is a few arrays with a leading axis ``E``.

    Subclasses name these arrays in ``state_arrays``, implement ``_view`` (observations, masks, presence, state of all
    copies), ``_start`` (new episodes) and ``_play`` (rewards and flags of one step). Randomness of an episode is drawn
    in ``_start`` from the copy's seed and kept in an array, so there is no generator to save. An env in which nothing is
    random says so by ``deterministic``: game trees are exact then.
    """

    state_arrays: tuple[str, ...] = ()
    deterministic: bool = False

    @abstractmethod
    def _start(self, env_ids: Ints, seeds: Ints) -> None: ...

    @abstractmethod
    def _play(self, actions: Sequence[Array]) -> tuple[Array, Bools, Bools, Bools]:
        """Rewards (game trees take them in double precision), terminated, truncated ``[E, A]`` and over ``[E]``."""

    @abstractmethod
    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        """Observations and masks per kind, present ``[E, A]``, state ``[E, state_size]``."""

    def reset(self, env_ids: Ints, seeds: Ints) -> StepOutput:
        self._start(np.asarray(env_ids), np.asarray(seeds))
        return self._still()

    def step(self, actions: Sequence[Array]) -> StepOutput:
        self.paid, terminated, truncated, over = self._play(actions)
        obs, legal, present, state = self._view()
        present = present & ~(terminated | truncated)
        with np.errstate(over="ignore"):
            rewards = self.paid.astype(np.float32, copy=False)
        blind = np.zeros_like(present)  # a native env always shows the last observation
        return StepOutput(obs, legal, present, state, rewards, terminated, truncated, over, blind)

    def get_state(self) -> State:
        return {name: getattr(self, name).copy() for name in self.state_arrays}

    def set_state(self, state: State) -> StepOutput:
        for name in self.state_arrays:
            setattr(self, name, np.array(state[name]))
        return self._still()

    def _still(self) -> StepOutput:
        obs, legal, present, state = self._view()
        unpaid, nobody = np.zeros(present.shape, np.float32), np.zeros(present.shape, bool)
        return StepOutput(obs, legal, present, state, unpaid, nobody, nobody, np.zeros(self.num_envs, bool), nobody)
