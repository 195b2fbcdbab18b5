"""Whether two states of an env are equal, told by digests of all that they hold.

Equal digests mean equal states: numbers, texts, arrays, lists, dicts, sets and objects of them are read to the bottom, random
generators by their states. Nothing is pickled and no code of the state is run. What cannot be looked into (an object of
another language, an open file, a running generator) cannot be compared, and is refused by its name.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial, singledispatchmethod
from hashlib import sha256
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from marl.data.task import Array


class NotComparableError(TypeError):
    """A state holds something that cannot be looked into; ``path`` says where."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.what = f"{type(value).__module__}.{type(value).__qualname__}"
        self.path: list[str] = []

    def __str__(self) -> str:
        place = ".".join(reversed(self.path)) or "the state itself"
        return f"{place} is a {self.what}"


def digest_of(state: object) -> bytes:
    """32 bytes that are equal for equal states, and for no others."""
    return _Reader().read(state)


class _Reader:
    """Reads one state. What it holds several times is read once; what holds itself is told by how far up it stands."""

    def __init__(self) -> None:
        self.known: dict[int, bytes] = {}
        self.above: dict[int, int] = {}
        # A digest is found again by the object's id, which must not be given to another object meanwhile.
        self.alive: list[object] = []

    def read(self, value: Any) -> bytes:
        if isinstance(value, bool | int | float | complex | str | bytes | None):
            return _plain(value)
        number = id(value)
        if number in self.known:
            return self.known[number]
        if number in self.above:
            return _join("itself", [str(len(self.above) - self.above[number]).encode()])
        self.above[number] = len(self.above)
        found = self._parts(value)
        del self.above[number]
        self.alive.append(value)
        self.known[number] = found
        return found

    def _inside(self, name: str, value: Any) -> bytes:
        try:
            return self.read(value)
        except NotComparableError as error:
            error.path.append(name)
            raise

    def _named(self, parts: Mapping[str, Any]) -> list[bytes]:
        """Attributes in the order of their names, which no history changes."""
        found = []
        for name in sorted(parts):
            found += [name.encode(), self._inside(name, parts[name])]
        return found

    def _listed(self, parts: Iterable[Any]) -> list[bytes]:
        return [self._inside(f"[{i}]", part) for i, part in enumerate(parts)]

    # -- one kind of value each ------------------------------------------------------------------------------------

    @singledispatchmethod
    def _parts(self, value: Any) -> bytes:
        """Any object written in Python: its type and its attributes."""
        if not _is_python(type(value)):
            raise NotComparableError(value)
        attributes = dict(getattr(value, "__dict__", {}))
        for owner in type(value).__mro__:
            for name in _slots(owner):
                if hasattr(value, name):
                    attributes[name] = getattr(value, name)
        return _join(_name(type(value)), self._named(attributes))

    def _container(self, value: Any, parts: Iterable[bytes]) -> bytes:
        """What holds values, and may have attributes beside them where its class was derived."""
        attributes = getattr(value, "__dict__", {})
        return _join(_name(type(value)), [*parts, *self._named(attributes)])

    @_parts.register(list)
    @_parts.register(tuple)
    @_parts.register(deque)
    def _(self, value: Any) -> bytes:
        return self._container(value, self._listed(value))

    @_parts.register(dict)
    @_parts.register(MappingProxyType)
    def _(self, value: Any) -> bytes:
        # Without an order, as dicts are compared: a board that was filled in another order is the same board.
        pairs = [self.read(key) + self._inside(f"[{key!r}]", held) for key, held in value.items()]
        return self._container(value, sorted(pairs))

    @_parts.register(OrderedDict)
    def _(self, value: Any) -> bytes:
        # Here the order counts when two of them are compared.
        pairs = [self.read(key) + self._inside(f"[{key!r}]", held) for key, held in value.items()]
        return self._container(value, pairs)

    @_parts.register(set)
    @_parts.register(frozenset)
    def _(self, value: Any) -> bytes:
        return self._container(value, sorted(self._listed(value)))

    @_parts.register(np.ndarray)
    def _(self, value: Array) -> bytes:
        if value.dtype.hasobject:
            return _join(f"array{value.shape}", self._listed(value.reshape(-1).tolist()))
        plain = np.ascontiguousarray(value)
        if plain.dtype.kind == "f":
            plain = plain + np.zeros((), plain.dtype)  # -0.0 becomes 0.0
        return _join(f"array{value.shape}{value.dtype.str}", [plain.tobytes()])

    @_parts.register(np.generic)
    def _(self, value: Any) -> bytes:
        return self._parts(np.asarray(value))

    @_parts.register(np.random.Generator)
    def _(self, value: np.random.Generator) -> bytes:
        return _join("generator", [self.read(value.bit_generator.state)])

    @_parts.register(np.random.RandomState)
    def _(self, value: np.random.RandomState) -> bytes:
        return _join("generator", [self.read(value.get_state(legacy=False))])

    @_parts.register(random.Random)
    def _(self, value: random.Random) -> bytes:
        return _join("generator", [self.read(value.getstate())])

    @_parts.register(Enum)
    def _(self, value: Enum) -> bytes:
        return _join(_name(type(value)), [value.name.encode()])

    @_parts.register(BuiltinFunctionType)
    def _(self, value: Any) -> bytes:
        """Methods too, such as ``random.Random(7).random``: what they belong to may change."""
        return _join(f"builtin {value.__qualname__}", [self._inside("__self__", value.__self__)])

    @_parts.register(type)
    @_parts.register(ModuleType)
    @_parts.register(np.dtype)
    @_parts.register(range)
    @_parts.register(bytearray)
    def _(self, value: Any) -> bytes:
        """What a program is made of does not change while it runs."""
        return _join("code", [repr(getattr(value, "__qualname__", value)).encode()])

    @_parts.register(FunctionType)
    def _(self, value: FunctionType) -> bytes:
        """A function may remember something in the variables around it."""
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return _join(f"{value.__module__}.{value.__qualname__}", self._listed([cells, value.__defaults__]))

    @_parts.register(MethodType)
    def _(self, value: MethodType) -> bytes:
        return _join("method", [self.read(value.__func__), self._inside("__self__", value.__self__)])

    @_parts.register(partial)
    def _(self, value: Any) -> bytes:
        return _join("partial", self._listed([value.func, value.args, value.keywords]))


HEAP_TYPE = 1 << 9
"""Flag of types that are made while a program runs, as all that are written in Python (Py_TPFLAGS_HEAPTYPE)."""
POINTER = 8
BESIDE_SLOTS = 2
"""Pointers that an object written in Python may have beside its slots: to its attributes and to weak references."""


def _is_python(kind: type) -> bool:
    """Whether all that objects of this type hold is in attributes and slots, so that nothing of it goes unseen.

    A type of another language keeps its own fields in the object, which is larger then than its slots say.
    """
    slots = 0
    for owner in kind.__mro__:
        slots += len(_slots(owner))
    most = object.__basicsize__ + POINTER * (slots + BESIDE_SLOTS)
    return bool(kind.__flags__ & HEAP_TYPE) and kind.__basicsize__ <= most


def _slots(owner: type) -> tuple[str, ...]:
    slots = owner.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _plain(value: object) -> bytes:
    if isinstance(value, float):
        value += 0.0  # -0.0 becomes 0.0
    return _join(type(value).__name__, [repr(value).encode()])


def _join(tag: str, parts: Iterable[bytes]) -> bytes:
    """Lengths stand before the parts, so that no two lists of parts look alike."""
    digest = sha256(tag.encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
