"""All that a VMAS scenario remembers, as a tree of numbers and arrays, and back.

VMAS has no call for its state: it is spread over attributes of the scenario, its env, agents, landmarks, sensors and
controllers. ``Memory`` walks over these objects once when the env is new, and again whenever the state is asked for; the
state is what differs from the beginning. Attributes may hold numbers, strings, tensors, lists, tuples and dicts of these, and
references to other such objects (a goal landmark). Anything else (functions, devices, colours) is taken as fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import torch

from marl.data.task import Array
from marl.envs.batched import State
from marl.errors import EnvError

Path: TypeAlias = str
FIXED: State = {"fixed": 1}
MISSING: State = {}


class Memory:
    """Saves and restores the attributes of all VMAS objects that can be reached from ``root``."""

    def __init__(self, root: object, device: object) -> None:
        self.root = root
        self.device = device
        self.objects: dict[Path, Any] = {}  # what there was at the beginning; kept, so that ids stay theirs
        self.objects = dict(self._walk())
        self.first = self._read()

    def save(self) -> State:
        """Attributes that are not as they were at the beginning, and those that are gone."""
        now = self._read()
        changed: dict[Path, State] = {}
        for path, value in now.items():
            before = self.first.get(path, MISSING)
            if not _same(value, before):
                changed[path] = value
        gone = [path for path in self.first if path not in now]
        return {"changed": changed, "gone": gone}

    def restore(self, state: State) -> None:
        """Bring every attribute to what it was at ``save``."""
        wanted = {**self.first, **state["changed"]}
        for path in state["gone"]:
            del wanted[path]
        now = self._read()
        for path in now.keys() - wanted.keys():
            owner, attribute = self._place(path)
            del vars(owner)[attribute]
        # All tensors first: an attribute may share the tensor of another one that comes later.
        tensors: dict[Path, torch.Tensor] = {}
        for path, value in wanted.items():
            owner, attribute = self._place(path)
            tensors |= self._tensors(path, value, now.get(path), vars(owner).get(attribute))
        for path, value in wanted.items():
            is_right = _same(value, now.get(path, MISSING)) and not _aliased(value)
            if is_right:
                continue
            owner, attribute = self._place(path)
            # Past the setters of VMAS, which check shapes and tell observers.
            vars(owner)[attribute] = self._decode(path, value, vars(owner).get(attribute), tensors)

    def _place(self, path: Path) -> tuple[Any, str]:
        owner, attribute = path.rsplit("/", 1)
        if owner not in self.objects:
            raise EnvError(
                f"the VMAS scenario made the object {owner!r} during play, which cannot be brought back from a checkpoint. "
                "Start the run anew."
            )
        return self.objects[owner], attribute

    def _walk(self) -> Iterator[tuple[Path, Any]]:
        """Every object once, under its name of the beginning or else the first path that leads to it."""
        # By identity: objects of VMAS may compare as equal, or not at all.
        names = {id(found): path for path, found in self.objects.items()}
        seen = {id(self.root)}
        waiting: list[tuple[Path, Any]] = [("", self.root)]
        while waiting:
            path, found = waiting.pop(0)
            yield path, found
            for attribute, value in vars(found).items():
                for child_path, child in _members(f"{path}/{attribute}", value):
                    if id(child) in seen:
                        continue
                    seen.add(id(child))
                    name = names.get(id(child), child_path)
                    waiting.append((name, child))

    def _read(self) -> dict[Path, State]:
        objects = list(self._walk())
        names = {id(found): path for path, found in objects}
        tensors: dict[int, Path] = {}  # where each was met first; other places say `same`
        read: dict[Path, State] = {}
        for path, found in objects:
            for attribute, value in vars(found).items():
                place = f"{path}/{attribute}"
                read[place] = _encode(value, place, names, tensors)
        return read

    def _tensors(self, path: Path, value: State, now: State, held: Any) -> dict[Path, torch.Tensor]:
        """The tensors of one attribute by their paths: those that are right already, and new ones."""
        if _same(value, now) and not _aliased(value):
            return dict(_held_tensors(path, held))
        new: dict[Path, torch.Tensor] = {}
        for place, array in _arrays(path, value):
            copied = torch.from_numpy(np.array(array))  # a copy: the checkpoint must not change with the env
            new[place] = copied.to(self.device)  # type: ignore[call-overload]
        return new

    def _decode(self, path: Path, value: State, held: Any, tensors: Mapping[Path, torch.Tensor]) -> Any:
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return tensors[path]
        if "same" in value:
            return tensors[value["same"]]
        if "object" in value:
            return self._place(value["object"] + "/")[0]
        if "items" in value:
            return self._decode_container(path, value, held, tensors)
        return held  # taken as fixed

    def _decode_container(self, path: Path, value: State, held: Any, tensors: Mapping[Path, torch.Tensor]) -> Any:
        """A dict, a distribution, a list or a tuple."""
        old = _held_items(value, held)
        old += [None] * len(value["items"])  # there may be more of them than are held now
        items = [self._decode(f"{path}/{i}", item, old[i], tensors) for i, item in enumerate(value["items"])]
        if "keys" in value:
            keys = [self._decode(f"{path}/{i}k", key, None, tensors) for i, key in enumerate(value["keys"])]
            return dict(zip(keys, items, strict=True))
        if "fields" in value:
            again = copy(held)
            vars(again).update(zip(value["fields"], items, strict=True))
            return again
        return tuple(items) if value["tuple"] else items


def _held_items(value: State, held: Any) -> list[Any]:
    """What an attribute holds now in the places of the encoded ``value``; nothing if it holds something else."""
    if "fields" in value:
        return [vars(held)[name] for name in value["fields"]]
    if "keys" in value:
        if not isinstance(held, dict):
            return []
        return list(held.values())
    if not isinstance(held, list | tuple):
        return []
    return list(held)


def _encode(value: Any, path: Path, names: dict[int, Path], tensors: dict[int, Path]) -> State:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor):
        if id(value) in tensors:  # VMAS writes in place: what two attributes share has to stay shared
            return {"same": tensors[id(value)]}
        tensors[id(value)] = path
        array = value.detach().cpu().numpy()
        return {"array": array.copy()}
    if id(value) in names:
        return {"object": names[id(value)]}
    if isinstance(value, dict):
        keys = [_encode(key, f"{path}/{i}k", names, tensors) for i, key in enumerate(value)]
        items = _encode_items(value.values(), path, names, tensors)
        return {"keys": keys, "items": items}
    if type(value) in (list, tuple):  # no subclasses: a named tuple could not be made again from a list
        items = _encode_items(value, path, names, tensors)
        return {"items": items, "tuple": type(value) is tuple}
    if _is_distribution(value):
        fields = vars(value)
        items = _encode_items(fields.values(), path, names, tensors)
        return {"fields": list(fields), "items": items}
    return FIXED


def _encode_items(items: Iterable[Any], path: Path, names: dict[int, Path], tensors: dict[int, Path]) -> list[State]:
    return [_encode(item, f"{path}/{i}", names, tensors) for i, item in enumerate(items)]


def _members(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """VMAS objects in a value, also within lists and dicts."""
    if isinstance(value, dict):
        for i, (key, item) in enumerate(value.items()):
            yield from _members(f"{path}/{i}k", key)
            yield from _members(f"{path}/{i}", item)
    elif type(value) in (list, tuple):
        for i, item in enumerate(value):
            yield from _members(f"{path}/{i}", item)
    elif _is_vmas_object(value):
        yield path, value


def _held_tensors(path: Path, value: Any) -> Iterator[tuple[Path, torch.Tensor]]:
    """Tensors in a value, by the paths that ``_arrays`` gives to their encoded ones."""
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if _is_distribution(value):
        value = vars(value)
    if isinstance(value, dict):
        value = list(value.values())
    if type(value) in (list, tuple):
        for i, item in enumerate(value):
            yield from _held_tensors(f"{path}/{i}", item)


def _arrays(path: Path, value: State) -> Iterator[tuple[Path, Array]]:
    """Arrays in an encoded value, by their paths."""
    if not isinstance(value, dict):
        return
    if "array" in value:
        yield path, value["array"]
    for i, item in enumerate(value.get("items", ())):
        yield from _arrays(f"{path}/{i}", item)


def _aliased(value: State) -> bool:
    """Whether a tensor that another attribute holds as well is in it."""
    if not isinstance(value, dict):
        return False
    if "same" in value:
        return True
    return any(_aliased(item) for item in value.get("items", ()))


def _is_distribution(value: Any) -> bool:
    """Torch's distributions, which a scenario may make anew at every reset: told by their tensors."""
    return isinstance(value, torch.distributions.Distribution)


def _is_vmas_object(value: Any) -> bool:
    """Scenario files are loaded by VMAS as modules without a name."""
    if isinstance(value, type | Enum | torch.Tensor):
        return False
    module = type(value).__module__
    if module.startswith("vmas.simulator.rendering"):  # pictures hold no state of the game
        return False
    from_vmas = module == "" or module.startswith("vmas.")
    return from_vmas and hasattr(value, "__dict__")


def _same(a: State, b: State) -> bool:
    """Whether two encoded values are equal, arrays to the bit."""
    match a, b:
        case dict(), dict():
            if a.keys() != b.keys():
                return False
            return all(_same(a[key], b[key]) for key in a)
        case list(), list():
            if len(a) != len(b):
                return False
            return all(map(_same, a, b))
        case np.ndarray(), np.ndarray():
            if a.dtype != b.dtype or a.shape != b.shape:
                return False
            return a.tobytes() == b.tobytes()
        case _:
            return _same_scalar(a, b)


def _same_scalar(a: State, b: State) -> bool:
    if type(a) is not type(b):
        return False
    if a == b:
        return True
    both_nan = a != a and b != b  # the only value that differs from itself has not changed
    return bool(both_nan)
