"""Prioritised replay: chances are powers of errors, in the tree and in every learner that has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.algos.presets import ALGOS
from marl.data.batch import SampleBatch
from marl.data.replay import Priorities, Replay
from tests.algos.updates import found_in, one_update

ERRORS = np.array([1.0, 4.0, 9.0, 16.0], np.float32)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
def test_rows_are_drawn_by_the_power_alpha_of_their_errors(alpha: float) -> None:
    priorities = Priorities(4, alpha)
    priorities.raise_to(np.arange(4), ERRORS)
    expected = ERRORS**alpha / (ERRORS**alpha).sum()
    drawn, chances = priorities.sample(10_000, np.random.default_rng(0))
    assert np.bincount(drawn, minlength=4) / 10_000 == pytest.approx(expected, abs=2e-3)
    assert chances == pytest.approx(expected[drawn], rel=1e-4)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_a_replay_draws_by_its_alpha_and_a_new_row_like_the_most_surprising_one(alpha: float) -> None:
    replay = Replay(8, alpha)
    columns = {"x": np.arange(4), "t": np.arange(4), "elapsed": np.ones(4, int), "eps_id": np.arange(4)}
    replay.add(SampleBatch(columns), np.arange(4))
    replay.update_priorities(np.arange(4), ERRORS)
    replay.add(SampleBatch({name: column[:1] for name, column in columns.items()}), np.arange(1))
    weights = np.array([*ERRORS, 16.0]) ** alpha
    drawn = replay.sample(10_000, np.random.default_rng(0), 1, 0.9, beta=1.0)
    assert np.bincount(drawn["place"], minlength=5) / 10_000 == pytest.approx(weights / weights.sum(), abs=2e-3)
    # With beta 1 a row weighs as much less as it is drawn more often; the rarest one weighs 1.
    assert drawn["weights"] == pytest.approx((weights.min() / weights)[drawn["place"]], rel=1e-4)


def unit_of(learner: Any) -> float:
    """Errors are told in rewards; priorities count them in the unit of the networks."""
    return float(getattr(learner, "unit", 1.0))


@pytest.mark.parametrize("alpha", [0.3, 0.9])
@pytest.mark.parametrize("algo", [a for a in ALGOS if "prioritized_replay" in ALGOS[a].family.config.model_fields])
def test_every_learner_raises_what_it_drew_to_the_power_alpha_of_its_errors(algo: str, alpha: float) -> None:
    keys: dict[str, Any] = {"prioritized_replay_alpha": alpha, "full_td_error": True, "n_step": 1}
    if ALGOS[algo].defaults.get("priorities") == "divergence":
        keys["priorities"] = "error"
    with one_update(algo, train_batch_size=16, prioritized_replay=True, **keys) as trainer:
        trainer.train()
        (learner,) = trainer.learners
        (replay,) = found_in(learner, Replay)
        errors = learner.td_errors["default_policy"].astype(np.float64) / unit_of(learner)
    assert replay.priorities is not None
    leaves = replay.priorities.tree[replay.priorities.size :][: len(replay)]
    drawn = leaves[leaves != 1.0]  # the others keep the priority of new rows
    assert sorted(drawn) == pytest.approx(sorted((errors + 1e-6) ** alpha), rel=1e-4)
    assert len(drawn) > 8


@pytest.mark.parametrize("alpha", [0.3, 0.9])
def test_a_sequence_has_the_power_alpha_of_its_mean_error(alpha: float) -> None:
    keys = {"prioritized_replay": True, "prioritized_replay_alpha": alpha, "full_td_error": True}
    memory = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 4}  # episodes of four moves are one sequence each
    with one_update("dqn", train_batch_size=16, **keys, **memory) as trainer:
        trainer.train()
        (replay,) = found_in(trainer.learners, Replay)
        (learner,) = trainer.learners
        errors = learner.td_errors["default_policy"].astype(np.float64).reshape(4, 4).mean(axis=1) / unit_of(learner)
    assert replay.priorities is not None
    leaves = replay.priorities.tree[replay.priorities.size :][: len(replay)]
    assert set(np.round(leaves[leaves != 1.0], 5)) == set(np.round((errors + 1e-6) ** alpha, 5))
