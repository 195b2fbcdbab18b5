"""V-trace against its definition, summed term by term, and in the cases where it is something simpler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.data.batch import MultiAgentBatch
from marl.data.returns import fold_rewards, gae, vtrace
from tests.data.test_returns import column, grid

GAMMA = 0.9


def three_lives(rng: np.random.Generator) -> tuple[MultiAgentBatch, list[list[int]], dict[int, int]]:
    """A seat that decides now and then: a life that is terminated, one that is truncated, one that goes on after the grid.

    Gives the batch, the rows of each life's decisions, and how many steps each of them lasts.
    """
    rows, ends = 36, {11: "terminated", 24: "truncated", 35: ""}
    decides = rng.random(rows) < 0.5
    decides[[0, 12, 25]] = True
    lives, elapsed, first = [], {}, 0
    for end in ends:
        at = [t for t in range(first, end + 1) if decides[t]]
        elapsed.update(zip(at, np.diff([*at, end + 1]).tolist(), strict=True))
        lives.append(at)
        first = end + 1
    flags = {name: [int(ends.get(t) == name) for t in range(rows)] for name in ("terminated", "truncated")}
    lasting = [elapsed.get(t, 0) for t in range(rows)]
    return grid(rng.normal(size=rows).tolist(), decides.tolist(), lasting, **flags), lives, elapsed


def arguments(rng: np.random.Generator, rows: int, spread: float) -> tuple[Any, Any, Any]:
    values, next_values = rng.normal(size=(2, rows)).astype(np.float32)
    return column(values), column(next_values), column(rng.normal(scale=spread, size=rows).astype(np.float32))


@pytest.mark.parametrize(("rho_bar", "c_bar", "trace"), [(1.0, 1.0, 1.0), (2.0, 0.7, 1.0), (0.5, 0.5, 0.8)])
def test_vtrace_equals_the_sum_over_the_rest_of_each_life(rho_bar: float, c_bar: float, trace: float) -> None:
    rng = np.random.default_rng(1)
    batch, lives, elapsed = three_lives(rng)
    values, next_values, log_ratios = arguments(rng, len(batch.t), spread=1.0)
    folded = fold_rewards(batch, GAMMA)
    got = vtrace(batch, values, next_values, folded, log_ratios, GAMMA, rho_bar, c_bar, trace)

    def after(t: int) -> float:
        """The value of what a decision led to; nothing after a terminated life."""
        return 0.0 if batch.terminateds[t + elapsed[t] - 1, 0, 0] else float(next_values[t, 0, 0])

    for at in lives:
        ratio = {t: float(np.exp(log_ratios[t, 0, 0])) for t in at}
        earned = {t: sum(GAMMA**k * float(batch.rewards[t + k, 0, 0]) for k in range(elapsed[t])) for t in at}
        delta = {t: earned[t] + GAMMA ** elapsed[t] * after(t) - float(values[t, 0, 0]) for t in at}
        for i, start in enumerate(at):
            correction = 0.0
            for j in range(i, len(at)):
                passed = np.prod([trace * min(c_bar, ratio[t]) for t in at[i:j]])
                correction += GAMMA ** (at[j] - start) * passed * min(rho_bar, ratio[at[j]]) * delta[at[j]]
            assert got[0][start, 0, 0] == pytest.approx(correction, abs=1e-5)
        for i, t in enumerate(at):
            beyond = float(got[0][at[i + 1], 0, 0]) if i + 1 < len(at) else 0.0
            expected = min(rho_bar, ratio[t]) * (delta[t] + GAMMA ** elapsed[t] * beyond)
            assert got[1][t, 0, 0] == pytest.approx(expected, abs=1e-5)


def test_with_the_policy_that_acted_vtrace_targets_are_n_step_returns_and_advantages_those_of_gae() -> None:
    batch = grid([1.0, 2.0, 4.0, 8.0], [1, 1, 1, 1], [1, 1, 1, 1])
    values = column([3.0, 1.0, -2.0, 5.0])
    next_values = column([1.0, -2.0, 5.0, 10.0])
    corrections, advantages = vtrace(batch, values, next_values, batch.rewards, column([0.0] * 4), 0.5)
    returns = [8 + 0.5 * 10, 4 + 0.5 * 13, 2 + 0.5 * 10.5, 1 + 0.5 * 7.25][::-1]
    assert (values + corrections)[:, 0, 0] == pytest.approx(returns)
    assert advantages[:, 0, 0] == pytest.approx(gae(batch, values, next_values, batch.rewards, 0.5, 1.0)[:, 0, 0])


def test_data_that_the_policy_would_never_produce_moves_nothing() -> None:
    batch = grid([1.0, 1.0], [1, 1], [1, 1])
    never = column([-100.0, -100.0])
    corrections, advantages = vtrace(batch, column([5.0, 5.0]), column([5.0, 5.0]), batch.rewards, never, GAMMA)
    assert np.abs([corrections, advantages]).max() < 1e-30


def test_a_ratio_far_above_the_bound_counts_as_the_bound() -> None:
    batch = grid([1.0, 1.0], [1, 1], [1, 1])
    zeros, huge = column([0.0, 0.0]), column([500.0, 500.0])
    at_bound = vtrace(batch, zeros, zeros, batch.rewards, zeros, GAMMA)
    for got, expected in zip(vtrace(batch, zeros, zeros, batch.rewards, huge, GAMMA), at_bound, strict=True):
        assert got == pytest.approx(expected)
