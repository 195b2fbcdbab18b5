"""One episode as a line of text."""

from __future__ import annotations

import json

import numpy as np

from marl.offline.json_lines import to_line


def test_a_line_tells_of_everybody_who_was_there_or_was_paid() -> None:
    rows = {
        # a is there from the first step, b comes later, c is paid without being there, d is neither
        "alive": np.array([[1, 0, 0, 0], [1, 1, 0, 0]], bool),
        "rewards": np.array([[0.1, 0, 0, 0], [0.2, 0, 3, 0]], np.float32),
        "policy": np.array([[0, 1, -1, 5], [0, 1, -1, 5]]),
    }
    line = to_line(rows, ["a", "b", "c", "d"], ["p", "q"], worker=3)
    assert line.endswith(b"\n")
    told = json.loads(line)
    assert (told["worker"], told["length"]) == (3, 2)
    assert told["returns"] == {"a": 0.3, "b": 0.0, "c": 3.0}
    assert told["policies"] == {"a": "p", "b": "q", "c": None}
    assert told["columns"]["rewards"] == [[0.1, 0, 0, 0], [0.2, 0, 3, 0]]
    assert told["columns"]["alive"][1] == [True, True, False, False]
