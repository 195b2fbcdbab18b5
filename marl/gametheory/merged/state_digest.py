"""Whether two states of an env are equal, told by digests of all that they hold.

Equal digests mean equal states: numbers, texts, arrays, lists, dicts, sets and objects of them are read to the bottom, random
generators by their states, functions with their code and what they remember, classes with the data in them. What is held in
two places at once is another state than two equal copies, since a change of the one is a change of the other. Dicts and sets
are compared without an order. Nothing is pickled and no code of the state is run. What cannot be looked into (an object of
another language, an open file, a running generator) cannot be compared, and is refused by its name. Variables of modules
are not part of a state.
"""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial, singledispatchmethod
from hashlib import sha256
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)  # fmt: skip
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


PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})
VALUES = (tuple, frozenset, np.generic, MethodType, BuiltinFunctionType, range, ModuleType, np.dtype)
"""What cannot change by itself: it is what it holds, wherever it is held."""
DATA = (bool, int, float, complex, str, list, dict, set, deque, np.ndarray)
"""What a class may hold besides its code."""


class _Reader:
    """Reads one state. Everything that can change gets a number when it is met, and is told by it when it is met again."""

    def __init__(self) -> None:
        self.number: dict[int, int] = {}
        self.known: dict[int, bytes] = {}  # digests of values, which are read once
        # Both go by the object's id, which must not be given to another object meanwhile.
        self.alive: list[object] = []

    def read(self, value: Any) -> bytes:
        if type(value) in PLAIN:
            return _plain(value)
        at = id(value)
        if at in self.known:
            return self.known[at]
        if at in self.number:
            return _join("again", [self.number[at].to_bytes(8, "little")])
        self.alive.append(value)
        if isinstance(value, VALUES):
            found = self._parts(value)
            self.known[at] = found
            return found
        number = self.number[at] = len(self.number)
        return _join("first", [number.to_bytes(8, "little"), self._parts(value)])

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
            for slot in _slots(owner):
                try:
                    attributes[f"{owner.__qualname__}.{slot.__name__}"] = slot.__get__(value)
                except AttributeError:
                    continue  # not filled, which is a state too
        return _join(_name(type(value)), [self.read(type(value)), *self._named(attributes)])

    def _container(self, value: Any, parts: Iterable[bytes]) -> bytes:
        """What holds values, and may have attributes beside them where its class was derived."""
        attributes = getattr(value, "__dict__", {})
        return _join(_name(type(value)), [*parts, *self._named(attributes)])

    @_parts.register(int)
    @_parts.register(float)
    @_parts.register(complex)
    @_parts.register(str)
    @_parts.register(bytes)
    def _(self, value: Any) -> bytes:
        """Of a class derived from one of these; what is plain was read before."""
        base = next(kind for kind in type(value).__mro__ if kind in PLAIN)
        return self._container(value, [_plain(base(value) if base is not str else str.__str__(value))])

    @_parts.register(list)
    @_parts.register(tuple)
    def _(self, value: Any) -> bytes:
        return self._container(value, self._listed(value))

    @_parts.register(deque)
    def _(self, value: Any) -> bytes:
        return self._container(value, [_plain(value.maxlen), *self._listed(value)])

    @_parts.register(dict)
    @_parts.register(MappingProxyType)
    def _(self, value: Any) -> bytes:
        # Without an order, as dicts are compared: a board that was filled in another order is the same board.
        keys = sorted(value, key=_alone)
        return self._container(value, self._pairs(value, keys))

    @_parts.register(OrderedDict)
    def _(self, value: Any) -> bytes:
        # Here the order counts when two of them are compared.
        return self._container(value, self._pairs(value, list(value)))

    @_parts.register(defaultdict)
    def _(self, value: Any) -> bytes:
        made_by = self._inside("default_factory", value.default_factory)
        return self._container(value, [made_by, *self._pairs(value, sorted(value, key=_alone))])

    def _pairs(self, value: Mapping[Any, Any], keys: Iterable[Any]) -> list[bytes]:
        return [self.read(key) + self._inside(f"[{key!r}]", value[key]) for key in keys]

    @_parts.register(set)
    @_parts.register(frozenset)
    def _(self, value: Any) -> bytes:
        return self._container(value, self._listed(sorted(value, key=_alone)))

    @_parts.register(np.ndarray)
    def _(self, value: Array) -> bytes:
        plain = np.asarray(value)
        if plain.dtype.hasobject:
            return self._container(value, [str(plain.shape).encode(), *self._listed(plain.reshape(-1).tolist())])
        return self._container(value, [f"{plain.shape}{plain.dtype.str}".encode(), _bytes_of(plain)])

    @_parts.register(np.generic)
    def _(self, value: Any) -> bytes:
        plain = np.asarray(value)
        if plain.dtype.hasobject:
            raise NotComparableError(value)
        return _join(_name(type(value)) + plain.dtype.str, [_bytes_of(plain)])

    @_parts.register(np.random.Generator)
    def _(self, value: np.random.Generator) -> bytes:
        source = value.bit_generator
        born = getattr(source.seed_seq, "n_children_spawned", 0)  # decides what it gives to generators spawned by it
        return self._container(value, [self.read(source.state), _plain(born)])

    @_parts.register(np.random.RandomState)
    def _(self, value: np.random.RandomState) -> bytes:
        return self._container(value, [self.read(value.get_state(legacy=False))])

    @_parts.register(random.Random)
    def _(self, value: random.Random) -> bytes:
        return self._container(value, [self.read(value.getstate())])

    @_parts.register(Enum)
    def _(self, value: Enum) -> bytes:
        return _join(_name(type(value)), [value.name.encode()])

    @_parts.register(BuiltinFunctionType)
    def _(self, value: Any) -> bytes:
        """Methods too, such as ``random.Random(7).random``: what they belong to may change."""
        return _join(f"builtin {value.__qualname__}", [self._inside("__self__", value.__self__)])

    @_parts.register(type)
    def _(self, value: type) -> bytes:
        """A class is code, which does not change while it runs, but may hold data that does."""
        held = {}
        for owner in value.__mro__:
            if not owner.__flags__ & HEAP_TYPE:
                continue
            for name, part in vars(owner).items():
                if type(part) in DATA and not name.startswith("__"):
                    held[f"{owner.__qualname__}.{name}"] = part
        return _join("class", [_name(value).encode(), *self._named(held)])

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
        cells = [self._cell(cell) for cell in value.__closure__ or ()]
        defaults = self._listed([value.__defaults__, value.__kwdefaults__])
        name = f"{value.__module__}.{value.__qualname__}"
        return _join(name, [_code(value.__code__), *cells, *defaults, *self._named(value.__dict__)])

    def _cell(self, cell: Any) -> bytes:
        try:
            return self.read(cell.cell_contents)
        except ValueError:
            return b"empty"

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


def _slots(owner: type) -> list[MemberDescriptorType]:
    """What a class declared by ``__slots__``, under whatever names Python keeps it."""
    if "__slots__" not in vars(owner):
        return []
    return [part for part in vars(owner).values() if isinstance(part, MemberDescriptorType)]


def _alone(value: object) -> bytes:
    """A digest that does not depend on what was met before: members of a set have no order of their own."""
    return _Reader().read(value)


def _code(code: CodeType) -> bytes:
    consts = [_code(part) if isinstance(part, CodeType) else repr(part).encode() for part in code.co_consts]
    return _join("code", [code.co_code, repr(code.co_names).encode(), *consts])


def _bytes_of(array: Array) -> bytes:
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind in "fc":
        plain = plain + np.zeros((), plain.dtype)  # -0.0 becomes 0.0
    return bytes(plain.tobytes())


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
