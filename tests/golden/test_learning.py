"""The first iterations of every algorithm give the recorded numbers; ``python -m tests.golden.learning`` records anew."""

import json

import pytest

from tests.golden.learning import CASES, FILE, run

RECORDED = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_the_first_iterations_give_the_recorded_numbers(name: str) -> None:
    found = run(name)
    assert len(found) == len(RECORDED[name])
    for now, then in zip(found, RECORDED[name], strict=True):
        assert now == pytest.approx(then, rel=2e-3, abs=1e-4)
