"""Rows of a sparse matrix with few entries each, as arrays: taking some of them is cheap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

FEW = 8  # entries per row up to which a product is computed by gathering


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Column and factor of each entry, `[rows, entries]`, padded with factors of 0.

    >>> rows = SparseRows.of(csr_array(np.array([[0.0, 2.0], [0.0, 0.0], [1.0, 1.0]])))
    >>> rows.factor.tolist()
    [[2.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    >>> rows.dot(np.array([10.0, 1.0])).tolist()
    [2.0, 0.0, 11.0]
    """

    column: NDArray[np.int64]
    factor: NDArray[np.float64]
    columns: int  # of the matrix

    @staticmethod
    def of(matrix: csr_array) -> SparseRows:
        counts = np.diff(matrix.indptr)
        shape = (len(counts), int(counts.max(initial=0)))
        column, factor = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        row = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
        column[row, place], factor[row, place] = matrix.indices, matrix.data
        return SparseRows(column, factor, cast(tuple[int, int], matrix.shape)[1])

    @staticmethod
    def product(factors: Sequence[SparseRows]) -> SparseRows:
        """Return the rows of products, whose exponents add up. Columns may occur twice."""
        column = np.concatenate([rows.column for rows in factors], axis=1)
        factor = np.concatenate([rows.factor for rows in factors], axis=1)
        return SparseRows(column, factor, factors[0].columns)

    def __getitem__(self, rows: NDArray[np.int64]) -> SparseRows:
        column, factor = self.column[rows], self.factor[rows]
        width = int((factor != 0).any(axis=0).sum())  # entries come first in each row
        return SparseRows(column[:, :width], factor[:, :width], self.columns)

    def any(self) -> bool:
        return bool(self.factor.any())

    def dot(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a vector."""
        return (self.factor * vector[self.column]).sum(axis=1)

    def matrix(self) -> csr_array:
        """Return the rows as a matrix in which no entry is stored twice or is zero."""
        bounds = np.arange(len(self.column) + 1) * self.column.shape[1]
        matrix = csr_array(
            (self.factor.ravel(), self.column.ravel(), bounds), shape=(len(self.column), self.columns)
        )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix


class TorchRows:
    """Sparse rows that multiply tensors. `rows @ values`: [n, networks] -> [rows, networks]"""

    def __init__(self, rows: SparseRows) -> None:
        width, ones = rows.column.shape[1], bool((rows.factor == 1).all())
        in_order = np.array_equal(rows.column, np.arange(rows.columns)[:, None])
        self.is_identity = ones and in_order
        self.column = torch.from_numpy(rows.column)
        self.factor = None if width == 1 and ones else torch.from_numpy(rows.factor)
        self.dense = torch.from_numpy(rows.matrix().toarray()) if width > FEW else None

    def __matmul__(self, values: Tensor) -> Tensor:
        if self.is_identity:
            return values
        if self.dense is not None:
            return self.dense.to(values) @ values
        column = self.column.to(values.device)
        if self.factor is None:
            return values[column[:, 0]]
        factor = self.factor.to(values)
        terms = [factor[:, entry, None] * values[column[:, entry]] for entry in range(column.shape[1])]
        return sum(terms[1:], terms[0]) if terms else values.new_zeros(len(column), values.shape[1])
