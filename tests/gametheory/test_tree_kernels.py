"""Sparse products that are added to arrays, against scipy's matrices; on them everything in sequence form rests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from marl.gametheory.tree import kernels
from marl.gametheory.tree.kernels import add, add_transposed, product, short


def some_matrix() -> sparse.csr_array:
    dense = np.random.default_rng(0).normal(size=(7, 5))
    dense[dense < 0.3] = 0.0
    dense[3] = 0.0  # a row without entries
    return sparse.csr_array(dense)


@pytest.mark.parametrize("publicly", [False, True])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_products_are_added_to_what_is_there(monkeypatch: pytest.MonkeyPatch, publicly: bool, kind: type) -> None:
    if publicly:  # as where scipy has no such loops to import
        monkeypatch.setattr(kernels, "csr_matvec", kernels.rows_publicly)
        monkeypatch.setattr(kernels, "csc_matvec", kernels.columns_publicly)
    matrix = some_matrix()
    start, index = matrix.indptr.astype(kind), matrix.indices.astype(kind)
    x, out = np.arange(5.0), np.ones(7)
    one = product(start, index, matrix.data, x, out)
    add([one, one])
    assert out == pytest.approx(1.0 + 2.0 * (matrix @ np.arange(5.0)), abs=1e-14)
    before = out.copy()
    add_transposed([one])
    assert x == pytest.approx(np.arange(5.0) + matrix.T @ before, abs=1e-13)


def test_a_product_sees_what_the_one_before_it_wrote() -> None:
    numbers = np.array([2.0, 0.0, 0.0])
    start, index, tenth = np.arange(2, dtype=np.int32), np.zeros(1, np.int32), np.array([10.0])
    add(product(start, index, tenth, numbers[i : i + 1], numbers[i + 1 : i + 2]) for i in (0, 1))
    assert numbers.tolist() == [2.0, 20.0, 200.0]


def test_indices_are_short_where_that_suffices() -> None:
    assert short(np.array([0, 2**31 - 1])).dtype == np.int32
    assert short(np.array([0, 2**31])).dtype == np.int64
    assert short(np.zeros(0, np.int64)).dtype == np.int32
