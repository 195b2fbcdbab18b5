"""The game theory gives the recorded answers; ``python -m tests.golden.answers`` records anew."""

import json
from typing import Any

import pytest

from tests.golden.answers import FILE, NAMES, answer

RECORDED = json.loads(FILE.read_text(encoding="utf-8"))


def compare(found: Any, recorded: Any, where: str) -> None:
    if isinstance(recorded, dict):
        assert found.keys() == recorded.keys(), where
        for key, value in recorded.items():
            if key == "iterations":  # other machines round in other places, and may need some steps more or less
                assert found[key] == pytest.approx(value, rel=0.5, abs=2), f"{where}: {key}"
            else:
                compare(found[key], value, f"{where}: {key}")
    elif isinstance(recorded, list):
        assert len(found) == len(recorded), where
        for i, value in enumerate(recorded):
            compare(found[i], value, f"{where}[{i}]")
    elif isinstance(recorded, float):
        assert found == pytest.approx(recorded, rel=1e-4, abs=1e-9), where
    else:
        assert found == recorded, where


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_recorded(name: str) -> None:
    compare(json.loads(json.dumps(answer(name))), RECORDED[name], name)
