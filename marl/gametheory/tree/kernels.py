"""Sums over short runs of an array, by the compiled loops of scipy's sparse matrices.

A sparse matrix by rows is three arrays: row ``r`` holds ``data[k]`` in column ``index[k]`` for ``k`` from ``start[r]`` up to
``start[r + 1]``. Solvers keep ``start`` and ``index`` for good and change ``data`` (a strategy, say) in every iteration. A
``product`` with a vector is added to an array that exists:

    out[r] += sum_k data[k] * x[index[k]]

That is ``csr_array(...) @ x`` without making a matrix, checking it and allocating the answer, which for games of a few
thousand choices takes longer than the sums. It also adds up the choices of information sets, five times as fast as
``np.add.reduceat``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from marl.data.task import Ints
from marl.gametheory.tree.tree import Reals

Index: TypeAlias = NDArray[np.int32] | Ints


def rows_publicly(rows: int, columns: int, start: Index, index: Index, data: Reals, x: Reals, out: Reals) -> None:
    out += sparse.csr_array((data, index, start), shape=(rows, columns)) @ x


def columns_publicly(rows: int, columns: int, start: Index, index: Index, data: Reals, x: Reals, out: Reals) -> None:
    out += sparse.csc_array((data, index, start), shape=(rows, columns)) @ x


try:
    from scipy.sparse._sparsetools import csc_matvec, csr_matvec  # type: ignore[import-untyped, unused-ignore]
except ImportError:  # They are no promised part of scipy: the same by its public face, slower.
    csr_matvec, csc_matvec = rows_publicly, columns_publicly


def short(numbers: Ints) -> Index:
    """32 bits where they suffice: half of the memory that the loops read."""
    if numbers.size and numbers.max() >= 2**31:
        return np.ascontiguousarray(numbers, np.int64)
    return np.ascontiguousarray(numbers, np.int32)


Product: TypeAlias = tuple[int, int, Index, Index, Reals, Reals, Reals]
"""One ``out += M x``, with its arrays: for loops in which the arrays stay and their numbers change."""


def product(start: Index, index: Index, data: Reals, x: Reals, out: Reals) -> Product:
    """``out += M x``, to be added later. All arrays are contiguous; ``start`` and ``index`` are of one type."""
    return len(out), len(x), start, index, data, x, out


def add(products: Iterable[Product]) -> None:
    """One after the other; a later one may read what an earlier one wrote."""
    for one in products:
        csr_matvec(*one)


def add_transposed(products: Iterable[Product]) -> None:
    """``x += M' out`` with the same three arrays: what row ``r`` holds is added at its columns, times ``out[r]``."""
    for rows, columns, start, index, data, x, out in products:
        csc_matvec(columns, rows, start, index, data, out, x)
