"""The model of docs/scale.md finds the prices that made the numbers, and the page tells what the measured numbers give."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import scale  # noqa: E402
import scale_model  # noqa: E402
import scale_page  # noqa: E402
from scale_env import Crowd  # noqa: E402

FOUND = json.loads((ROOT / "benchmarks" / "scale.json").read_text(encoding="utf-8"))
PRICES = {
    "round": 1e-3, "tick": 0.0, "policy and tick": 2e-4, "env step": 1e-6, "agent step": 4e-7, "observed byte": 1e-9,
}  # fmt: skip


def rows() -> list[dict[str, Any]]:
    return [asdict(point) for _, point in scale.points(quick=False)]


def priced(row: dict[str, Any]) -> float:
    return sum(PRICES[name] * often for name, often in scale_model.collecting(row).items())


def test_a_fit_finds_the_prices_that_made_the_numbers() -> None:
    found = scale_model.fit(rows(), [priced(row) for row in rows()], scale_model.collecting)
    for name, price in PRICES.items():
        assert found.prices[name] == pytest.approx(price, rel=1e-4, abs=1e-10)
    assert max(found.errors) < 1e-6


def test_no_price_is_negative_and_the_error_is_that_of_points_that_the_fit_has_not_seen() -> None:
    measured = np.array([priced(row) for row in rows()])
    measured *= np.random.default_rng(0).uniform(0.8, 1.25, len(measured))
    measured[7] *= 3
    found = scale_model.fit(rows(), measured.tolist(), scale_model.collecting)
    assert min(found.prices.values()) >= 0
    assert 0.03 < found.typical_error < 0.25
    assert found.errors[7] > 0.4


def test_updates_are_counted_as_the_learner_makes_them() -> None:
    marl.register_env("crowd", Crowd)
    for point in (scale.Point(7, 5, 2, 3, 60, 3), scale.Point(2, 4, 3, 6, 5, 2, minibatch=9)):
        with scale.trainer_of(point) as trainer:
            trainer.learning.learn(trainer.workers.collect(point.ticks).batch)  # the first round leaves decisions open
            before = trainer.learning.counters()["num_updates"]
            collected = trainer.workers.collect(point.ticks)
            trainer.learning.learn(collected.batch)
            made = trainer.learning.counters()["num_updates"] - before
        assert collected.agent_steps == point.rows
        assert made == point.epochs * sum(scale_model.minibatches_of(asdict(point)))


def test_overlap_never_slows_a_run_and_the_limit_is_where_the_driver_takes_as_long_as_collecting() -> None:
    model = scale_model.model_of(FOUND)
    for setting in scale_model.SETTINGS:
        for workers in (1, 8, 64, 512):
            in_turn = model.speed(setting, workers) * (1 - 1e-9)  # of equal numbers, one may be rounded down
            assert model.speed(setting, workers, overlap=True) >= in_turn
            assert model.speed(setting, workers, spared=("load",)) >= in_turn
        limit = int(model.limit(setting))
        for workers, reached in ((limit, True), (limit - 1, limit == 1)):
            parts = model.round(setting, max(1, workers))
            assert (sum(parts[name] for name in scale_model.DRIVER) >= parts["collect"]) == reached


def test_what_is_sent_is_as_large_as_what_was_measured() -> None:
    model = scale_model.model_of(FOUND)
    for row in FOUND["workers"]:
        assert model.size({**row, "envs": row["envs"] * row["workers"]}) == pytest.approx(row["bytes"], rel=0.01)


def test_the_page_is_what_the_numbers_give() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert page == scale_page.page(FOUND, scale_model.model_of(FOUND))


def test_a_page_of_a_busy_machine_says_so() -> None:
    calm = {**FOUND, "quick": False, "machine": {**FOUND["machine"], "load": 0.2}}
    model = scale_model.model_of(FOUND)
    assert "trust shapes" not in scale_page.page(calm, model)
    assert "trust shapes" in scale_page.page({**calm, "quick": True}, model)


def test_points_off_the_axes_are_the_same_in_every_run() -> None:
    assert scale.others(5) == scale.others(24)[:5]
    assert replace(scale.BASE, envs=4096) in scale.AXES["envs"]
