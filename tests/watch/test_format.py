"""Numbers and times as the page writes them."""

from __future__ import annotations

import pytest

from tests.watch.javascript import RunJs, run_js

__all__ = ["run_js"]

DURATION = 'const { duration } = await import("marl/format.js"); return data.map((one) => duration(one));'
NUMBER = 'const { number } = await import("marl/format.js"); return data.map((one) => number(one));'


@pytest.mark.slow
def test_times_are_rounded_as_a_whole(run_js: RunJs) -> None:
    seconds = [None, 0.5, 9.96, 59.4, 59.7, 119.7, 3599.6, 3600, 7199]
    shown = ["–", "0.5 s", "10 s", "59 s", "1 min 0 s", "2 min 0 s", "1 h 0 min", "1 h 0 min", "2 h 0 min"]
    assert run_js(DURATION, seconds) == shown


@pytest.mark.slow
def test_numbers_keep_four_digits_and_a_real_minus(run_js: RunJs) -> None:
    assert run_js(NUMBER, [None, 0, -0.5, 12345, 3.14159265, -2.5e-7]) == [
        "–",
        "0",
        "−0.5",
        "12,345",
        "3.142",
        "−2.50e−7",
    ]
