"""What is asked of an env and the envs inside of it: copies of a state, luck that is drawn anew, scenes, action names."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import AgentID, Array, Ints
from marl.envs.batched import BatchedEnv, NativeEnv, State
from marl.envs.vector.vector_env import DictVector

Drawing = np.random.Generator | np.random.RandomState | random.Random
DEEPEST = 8  # envs inside of envs that are looked into


def repeated(array: Array, copies: int) -> Array:
    """The only row of an array, so many times."""
    return np.repeat(array, copies, axis=0)


def tiled(env: BatchedEnv, state: State, copies: int) -> State | None:
    """The state of an env of one copy for one of ``copies`` copies; None where the form of its state is not known."""
    if isinstance(env, DictVector):
        return _tiled_dict_env(state, copies)
    # A native env with a get_state of its own may hold anything.
    if not isinstance(env, NativeEnv) or set(state) != set(env.state_arrays):
        return None
    return {name: repeated(array, copies) for name, array in state.items()}


def _tiled_dict_env(state: State, copies: int) -> State:
    many: dict[str, Any] = {}
    for name in ("present", "alive", "state"):
        many[name] = repeated(state[name], copies)
    for name in ("lanes", "seating", "empty_steps"):
        many[name] = list(state[name]) * copies
    # Observations and masks are lists as well, but by kind and not by copy.
    for name in ("obs", "legal"):
        many[name] = [repeated(column, copies) for column in state[name]]
    return many


# -- luck --------------------------------------------------------------------------------------------------------------


class Luck:
    """What is still to be drawn in the episodes of a batched env, and whether anything of it has been drawn.

    A batched env says itself what it can do (``reseed``). A dict env has a method ``reseed(seed)``, or its generators are
    found among the attributes of the env and of the envs inside of it.
    """

    def __init__(self, env: BatchedEnv) -> None:
        self.env = env
        self.drawn_anew = False  # whether the last ``reseed`` changed anything that may be drawn
        self._watched: list[tuple[Drawing, bytes]] = []
        self._asked = False  # an env that reseeds itself does not tell whether it draws

    def reseed(self, seeds: Ints) -> None:
        """One seed per copy, for all that its episode draws from now on."""
        self._watched, self._asked = [], False
        if isinstance(self.env, DictVector):
            for env, seed in zip(self.env.envs, seeds.tolist(), strict=True):
                self._reseed_one(env, seed)
        else:
            self._asked = self.env.reseed(seeds)
        self.drawn_anew = self._asked or bool(self._watched)

    def _reseed_one(self, env: object, seed: int) -> None:
        for layer in layers(env):
            own = getattr(layer, "reseed", None)
            if callable(own) and not isinstance(layer, BatchedEnv):
                self._asked |= own(seed) is not False  # None: a method that returns nothing has done it
                return
        for number, generator in enumerate(generators(env)):
            _reseed_generator(generator, [seed, number])
            self._watched.append((generator, _state(generator)))

    @property
    def used(self) -> bool:
        """Whether anything may have been drawn since."""
        if self._asked:
            return True
        return any(_state(generator) != before for generator, before in self._watched)


def layers(env: object) -> Iterator[object]:
    """An env and the envs inside of it, from the outside in, each once: whatever has ``reset`` and ``step``."""
    seen: set[int] = set()
    waiting: list[tuple[object, int]] = [(env, 0)]
    while waiting:
        layer, depth = waiting.pop(0)
        if id(layer) in seen or depth > DEEPEST:
            continue
        seen.add(id(layer))
        yield layer
        for value in _attributes(layer):
            if _is_env(value):
                waiting.append((value, depth + 1))


def _attributes(layer: object) -> list[object]:
    """What an env holds, also in lists."""
    held: list[object] = []
    for value in list(getattr(layer, "__dict__", {}).values()):
        if isinstance(value, list | tuple):
            held += value
        else:
            held.append(value)
    return held


def _is_env(value: object) -> bool:
    # By the type: a module or a mock that answers to every name is no env.
    kind = type(value)
    return callable(getattr(kind, "reset", None)) and callable(getattr(kind, "step", None))


def generators(env: object) -> list[Drawing]:
    """The random generators among the attributes of an env and of the envs inside of it."""
    found: dict[int, Drawing] = {}
    for layer in layers(env):
        for value in _attributes(layer):
            if isinstance(value, Drawing):
                found[id(value)] = value
    return list(found.values())


def _reseed_generator(generator: Drawing, seeds: Sequence[int]) -> None:
    """In place: others may hold the same generator."""
    source = np.random.SeedSequence(seeds)
    if not isinstance(generator, np.random.Generator):
        drawn = source.generate_state(1)
        generator.seed(int(drawn[0]))
        return
    # numpy's newer generators cannot be seeded again, but they take the state of a fresh one of their kind.
    fresh = type(generator.bit_generator)(source)
    generator.bit_generator.state = fresh.state


def _state(generator: Drawing) -> bytes:
    """What tells whether something was drawn since."""
    return pickle.dumps(generator)


# -- scenes ------------------------------------------------------------------------------------------------------------


def scene_inside(env: object, viewer: AgentID | None) -> Mapping[str, Any] | None:
    """What the method ``scene`` of a dict env, or of an env inside of it, gives; None where there is none."""
    # The outermost env that says something knows best: a wrapper may have changed agents and actions.
    for layer in layers(env):
        own = _scene_method(layer)
        found: Any = None if own is None else own(viewer=viewer)
        if found is None:
            continue
        if viewer is not None and isinstance(found, Mapping) and not _acts_alike(env, layer, viewer):
            found = {**found, "actions": {}}
        scene: Mapping[str, Any] = found
        return scene
    return None


def _scene_method(layer: Any) -> Callable[..., Any] | None:
    # By the type: an attribute of that name may be anything, such as the scene of a game engine.
    own = getattr(type(layer), "scene", None)
    if not callable(own) or isinstance(layer, BatchedEnv):
        return None
    method: Callable[..., Any] = layer.scene
    return method


def _acts_alike(outside: Any, inside: Any, viewer: AgentID) -> bool:
    """Whether an action means the same to both: places that can be clicked stand for actions of the env inside."""
    if outside is inside:
        return True
    try:
        theirs = inside.action_space
        if callable(theirs):  # that of a Gymnasium env is an attribute
            theirs = theirs(viewer)
        return bool(outside.action_space(viewer) == theirs)
    except Exception:  # the env inside may not know this agent
        return False


# -- names -------------------------------------------------------------------------------------------------------------


def action_names(env: BatchedEnv, agent: AgentID) -> tuple[str, ...]:
    """What an agent's actions are called: by ``action_names``, or Gymnasium's ``get_action_meanings``; empty: numbers."""
    if not isinstance(env, DictVector):
        return tuple(env.action_names(agent))
    # The outermost env that says something knows best: a wrapper may have changed the actions.
    for layer in layers(env.envs[0]):
        named = _names_in(layer, agent)
        if named:
            return tuple(map(str, named))
    return ()


def _names_in(layer: Any, agent: AgentID) -> Sequence[Any]:
    """A method of the agent, a dict by agent, a list for all agents, or Gymnasium's method."""
    named = getattr(layer, "action_names", None)
    if named is None:
        named = getattr(layer, "get_action_meanings", tuple)()
    elif callable(named):
        named = named(agent)
    elif isinstance(named, Mapping):
        named = named.get(agent, ())
    names: Sequence[Any] = named
    return names
