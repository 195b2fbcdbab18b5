"""A note about values that no reward explains: said once, where it is so, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.qmix.returns_seen import ReturnsSeen
from marl.data.batch import SampleBatch
from marl.training.extensions.plausible import PATIENCE, Plausible
from tests.algos.updates import small_run


def rows(rewards: list[float], ended: list[int], terminated: list[int], stream: list[int] | None = None) -> SampleBatch:
    return SampleBatch(
        {
            "rewards": np.array(rewards, np.float32), "elapsed": np.ones(len(rewards), np.int64),
            "ended": np.array(ended, bool), "terminateds": np.array(terminated, bool),
            "stream": np.array(stream or [0] * len(rewards)),
        }
    )  # fmt: skip


def test_an_episode_that_ends_explains_the_sum_of_what_it_paid() -> None:
    seen = ReturnsSeen(0.9)
    assert seen.bounds() == {}
    seen.observe("team", rows([1.0, -2.0, 3.0, 1.0], [0, 0, 1, 0], [0, 0, 1, 0]))
    assert seen.bounds() == {"min_return": -2.0, "max_return": 4.0}
    seen.observe("team", rows([4.0, 0.0], [0, 1], [0, 1]))  # goes on with the 1 of the round before
    assert seen.bounds() == {"min_return": -2.0, "max_return": 5.0}


def test_an_episode_that_is_cut_off_may_be_paid_again_and_again() -> None:
    seen = ReturnsSeen(0.9)
    seen.observe("team", rows([1.0, 1.0, 0.5], [0, 1, 1], [0, 0, 1]))
    forever = 2.0 / (1 - 0.9**2)
    assert seen.bounds()["max_return"] == pytest.approx(2.0 * 0 + 0.5 + forever)
    # A reward of 1 in every step is worth 1 / (1 - gamma) = 10 for ever, which is explained.
    assert seen.bounds()["max_return"] >= 10.0


def test_streams_do_not_mix_and_the_state_is_whole() -> None:
    seen = ReturnsSeen(1.0)
    seen.observe("team", rows([1.0, 5.0, 1.0, 5.0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 1]))
    again = ReturnsSeen(1.0)
    again.load_state_dict(seen.state_dict())
    for one in (seen, again):
        one.observe("team", rows([1.0], [1], [1], [1]))
        assert one.bounds() == {"min_return": 0.0, "max_return": 11.0}
    assert again.state_dict() == seen.state_dict()


@pytest.fixture
def trainer() -> Iterator[Any]:
    with small_run("dqn") as found:
        yield found


def heard(trainer: Any, extension: Plausible, iterations: int, **told: float) -> list[str]:
    trainer.notes.clear()
    trainer.last_metrics = {"wolves": {"min_q": 0.0, "max_q": 0.9, "min_return": 0.0, "max_return": 1.0, **told}}
    for _ in range(iterations):
        extension.after_iteration(trainer, {})
    return list(trainer.notes)


def test_values_beyond_every_return_are_told_once_after_some_iterations(trainer: Any) -> None:
    extension = Plausible()
    assert heard(trainer, extension, PATIENCE - 1, max_q=1.4) == []
    (note,) = heard(trainer, extension, 2 * PATIENCE, max_q=1.4)
    assert "'wolves' values its play up to 1.4" in note
    assert "no return beyond 1" in note
    again = Plausible()
    again.load_state_dict(extension.state_dict())
    assert heard(trainer, again, 2 * PATIENCE, max_q=1.4) == []


def test_values_within_the_returns_and_those_that_come_back_are_not_told(trainer: Any) -> None:
    assert heard(trainer, Plausible(), 3 * PATIENCE, max_q=1.2) == []
    extension = Plausible()
    for _ in range(4):
        assert heard(trainer, extension, PATIENCE - 1, max_q=1.4) == []
        assert heard(trainer, extension, 1) == []
    assert heard(trainer, Plausible(), PATIENCE, min_q=-0.5) != []


def test_a_run_whose_values_are_far_too_high_says_so_and_an_ordinary_one_does_not() -> None:
    for bias, told in ((0.0, False), (50.0, True)):
        with small_run("vdn", lr=1e-5) as trainer:
            trainer.train()
            for networks in (trainer.learners[0].values, trainer.learners[0].targets):  # type: ignore[attr-defined]
                for policy in networks.values():
                    with torch.no_grad():
                        policy.model.last_layer()[1].add_(bias)
            for _ in range(PATIENCE):
                trainer.train()
            notes = [note for note in trainer.notes if "explain no return" in note]
            assert len(notes) == told
