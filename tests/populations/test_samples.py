"""From episodes to a tensor, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from marl.populations.payoff_estimates import over_seatings, payoff_tensor, seatings, standard_error

NAMES = [["a", "b"], ["a", "b"]]
PLAYERS = ["first", "second"]


def zero_sum(*first: float) -> np.ndarray:
    return np.array([[x, -x] for x in first])


def test_mean_and_standard_error_are_those_of_the_episodes() -> None:
    samples = {(0, 0): zero_sum(1, 2, 3, 6), (0, 1): zero_sum(1, 1), (1, 0): zero_sum(0, 1)}
    tensor = payoff_tensor(samples, PLAYERS, NAMES)
    assert tensor.mean[0, 0, 0] == 3.0
    assert tensor.mean[1, 0, 0] == -3.0
    assert tensor.stderr[0, 0, 0] == pytest.approx(np.sqrt((4 + 1 + 0 + 9) / 3 / 4))
    assert tensor.stderr[0, 0, 1] == 0.0
    assert tensor.count.tolist() == [[4, 2], [2, 0]]
    assert np.isnan(tensor.mean[:, 1, 1]).all()  # nobody played it
    assert not tensor.symmetric


def test_one_population_is_averaged_over_seats_seed_by_seed() -> None:
    """The first seat is worth 1; b is 2 better than a. Seat by seat the pairing is noisy, seed by seed it is not."""
    samples = {
        (0, 0): zero_sum(1, 1),
        (0, 1): zero_sum(1 - 2 + 5, 1 - 2 - 5),
        (1, 0): zero_sum(1 + 2 + 5, 1 + 2 - 5),
        (1, 1): zero_sum(1, 1),
    }
    tensor = payoff_tensor(samples, PLAYERS, NAMES, symmetric=True)
    assert tensor.mean[0].tolist() == [[0.0, -2.0], [2.0, 0.0]]
    assert tensor.mean[1].tolist() == [[0.0, 2.0], [-2.0, 0.0]]
    assert tensor.stderr.tolist() == np.zeros((2, 2, 2)).tolist()
    assert tensor.count.tolist() == [[2, 4], [4, 2]]
    assert tensor.symmetric


def test_three_seats_are_averaged_over_all_six_orders() -> None:
    rng = np.random.default_rng(0)
    cells = seatings((0, 1, 1))
    assert cells == [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
    samples = {cell: rng.normal(size=(4, 3)) for cell in cells}
    found = over_seatings(samples, (0, 1, 1))
    zero = np.mean([samples[cell][:, cell.index(0)] for cell in cells], axis=0)
    ones = np.mean([samples[cell][:, seat] for cell in cells for seat in range(3) if cell[seat] == 1], axis=0)
    np.testing.assert_allclose(found, np.stack([zero, ones, ones], axis=1))


def test_equal_episodes_have_no_error_at_all() -> None:
    assert standard_error(np.full((7, 2), 0.1)).tolist() == [0.0, 0.0]
