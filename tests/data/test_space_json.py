"""Spaces come back from JSON as they were."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.space_json import space_from_json, space_to_json
from marl.errors import DataError

SPACES = [
    spaces.Box(-1, 2, (2, 3), np.float32),
    spaces.Box(np.array([-1, -2], np.float32), np.array([np.inf, 5], np.float32)),
    spaces.Box(-np.inf, np.inf, (4,), np.float64),
    spaces.Box(0, 255, (3, 3, 1), np.uint8),
    spaces.Box(-1, 1, (), np.float32),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 3]),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))]),
    spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Box(0, 1, (2,))})}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_comes_back_from_its_json(space: Any) -> None:
    plain = json.dumps(space_to_json(space), allow_nan=False)
    found = space_from_json(json.loads(plain))
    assert found == space
    assert found.dtype == space.dtype
    if isinstance(space, spaces.Dict):
        assert list(found.spaces) == list(space.spaces)


def test_equal_bounds_are_written_once() -> None:
    assert space_to_json(spaces.Box(0, 255, (9, 9), np.uint8))["high"] == 255
    assert space_to_json(spaces.Box(np.array([0, 1], np.float32), 2))["low"] == [0.0, 1.0]
    assert space_to_json(spaces.Box(-np.inf, 1, (2,)))["low"] == "-inf"


def test_what_cannot_be_written_or_read_is_named() -> None:
    with pytest.raises(DataError, match="type Text"):
        space_to_json(spaces.Text(3))
    with pytest.raises(DataError, match="'Text' is unknown"):
        space_from_json({"type": "Text"})
