"""Values of spaces over the wire: what is in a space comes through unchanged, everything else is refused by its key."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.serve.space_codec import Unfit, codec

SPACES = {
    "choice": spaces.Discrete(3, start=-1),
    "choices": spaces.MultiDiscrete([2, 3]),
    "table of choices": spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    "bits": spaces.MultiBinary(4),
    "table of bits": spaces.MultiBinary([2, 2]),
    "box": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "endless box": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    "one number": spaces.Box(0.0, 1.0, (), np.float32),
    "picture": spaces.Box(0, 255, (2, 3, 3), np.uint8),
    "large numbers": spaces.Box(0, 2**64 - 1, (2,), np.uint64),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (2,), np.float32)]),
    "dict": spaces.Dict({"arm": spaces.Box(0, 1, (2,), np.float32), "mode": spaces.Tuple([spaces.Discrete(3)])}),
}


def equal(one: object, other: object) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(np.array_equal(one, other)) and np.asarray(one).dtype == np.asarray(other).dtype


@pytest.mark.parametrize("name", SPACES)
def test_a_value_of_a_space_comes_through_json_bit_for_bit(name: str) -> None:
    space = SPACES[name]
    space.seed(1)
    for _ in range(20):
        value = space.sample()
        read = codec(space).read(json.loads(json.dumps(codec(space).write(value))))
        assert space.contains(read) or isinstance(space, spaces.Discrete)
        assert equal(read, int(value) if isinstance(space, spaces.Discrete) else _plain_ints(space, value))


def _plain_ints(space: spaces.Space, value: object) -> object:
    """Choices within tuples and dicts are read as Python's own numbers."""
    if isinstance(space, spaces.Discrete):
        return int(value)
    if isinstance(space, spaces.Tuple):
        return tuple(map(_plain_ints, space.spaces, value))
    if isinstance(space, spaces.Dict):
        return {key: _plain_ints(part, value[key]) for key, part in space.spaces.items()}
    return value


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int16"])
def test_an_array_may_come_as_its_bytes(dtype: str) -> None:
    packed = {"__nd__": True, "dtype": dtype, "shape": [3], "data": np.array([0, 1, -1], dtype).tobytes()}
    read = codec(SPACES["box"]).read(packed)
    assert read.dtype == np.float32
    assert read.tolist() == [0, 1, -1]


BAD_BYTES = {
    "another shape": {"shape": [4]},
    "too few bytes": {"data": b"1234"},
    "no bytes": {"data": "AAAA"},
    "an object type": {"dtype": "object"},
    "a type with fields": {"dtype": "f4,f4,f4"},
    "not marked": {"__nd__": 1},
    "another key": {"order": "F"},
    "NaN": {"data": np.array([0, np.nan, 0], np.float32).tobytes()},
    "infinite": {"data": np.array([0, 0, -np.inf], np.float32).tobytes()},
}


@pytest.mark.parametrize("what", BAD_BYTES)
def test_bytes_that_are_not_a_value_of_the_space_are_refused(what: str) -> None:
    good = {"__nd__": True, "dtype": "float32", "shape": [3], "data": np.zeros(3, np.float32).tobytes()}
    codec(SPACES["box"]).read(good)
    with pytest.raises(Unfit):
        codec(SPACES["box"]).read({**good, **BAD_BYTES[what]})


def test_fractions_as_bytes_are_no_picture() -> None:
    packed = {"__nd__": True, "dtype": "float32", "shape": [2, 3, 3], "data": np.zeros(18, np.float32).tobytes()}
    with pytest.raises(Unfit):
        codec(SPACES["picture"]).read(packed)


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("choice", 2, ""),
        ("choice", -2, ""),
        ("choice", True, ""),
        ("choice", 1.0, ""),
        ("choice", "1", ""),
        ("choice", None, ""),
        ("choice", [1], ""),
        ("choices", [0, 3], "[1]"),
        ("choices", [0, True], "[1]"),
        ("choices", [0], ""),
        ("choices", [0, 1.0], "[1]"),
        ("bits", [0, 1, 2, 0], "[2]"),
        ("bits", [0, 1, 0.0, 0], "[2]"),
        ("box", [0, 0, float("nan")], "[2]"),
        ("box", [0, float("inf"), 0], "[1]"),
        ("box", [0, 1.1, 0], "[1]"),
        ("box", [0, "0", 0], "[1]"),
        ("box", [0, None, 0], "[1]"),
        ("box", [0, True, 0], "[1]"),
        ("box", [0, [0], 0], "[1]"),
        ("box", [0, 0], ""),
        ("box", 0, ""),
        ("box", "abc", ""),
        ("box", [0, 0, 10**400], ""),
        ("endless box", [[0, 0], [0, float("-inf")]], "[1][1]"),
        ("endless box", [[0, 0], [0]], "[1]"),
        ("endless box", [[0, 0], [0, float("nan")]], "[1][1]"),
        ("one number", [0.5], ""),
        ("one number", 1.5, ""),
        ("picture", [[[0] * 3] * 3, [[0] * 3, [0, 256, 0], [0] * 3]], "[1][1][1]"),
        ("picture", [[[0] * 3] * 3, [[0] * 3, [0, 1.5, 0], [0] * 3]], "[1][1][1]"),
        ("picture", [[[0] * 3] * 3, [[0] * 3, [0, -1, 0], [0] * 3]], "[1][1][1]"),
        ("large numbers", [0, -1], ""),
        ("large numbers", [0, 2**64], ""),
        ("tuple", [0, [0.5, 2]], "[1][1]"),
        ("tuple", [0], ""),
        ("dict", {"arm": [0, 0], "mode": [3]}, ".mode[0]"),
        ("dict", {"arm": [0, 0]}, ""),
        ("dict", {"arm": [0, 0], "mode": [0], "leg": 1}, ""),
        ("dict", [], ""),
    ],
)
def test_what_is_not_in_a_space_is_refused_by_its_key(name: str, value: object, key: str) -> None:
    with pytest.raises(Unfit) as refused:
        codec(SPACES[name]).read(value)
    assert refused.value.key == key
    assert refused.value.got
    assert refused.value.expected


def test_a_number_beyond_the_type_of_the_space_is_not_made_infinite() -> None:
    endless = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    assert codec(endless).read([3e38]).tolist() == [np.float32(3e38)]
    with pytest.raises(Unfit):
        codec(endless).read([1e39])


def test_a_bound_that_was_rounded_takes_its_own_text() -> None:
    tight = spaces.Box(np.float32(0.1), np.float32(0.7), (2,), np.float32)
    assert codec(tight).read([0.1, 0.7]).tolist() == [np.float32(0.1), np.float32(0.7)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["arm", "mode", "__nd__", "x"]), inner),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(JSON, st.sampled_from(sorted(SPACES)))
def test_whatever_comes_is_in_the_space_or_refused(value: object, name: str) -> None:
    space = SPACES[name]
    try:
        read = codec(space).read(value)
    except Unfit:
        return
    if isinstance(space, spaces.Discrete):
        read = np.int64(read)
    assert name in ("tuple", "dict") or space.contains(read)
