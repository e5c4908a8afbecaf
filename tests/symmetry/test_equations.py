"""Linear equations between scales, against dense linear algebra."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graph_metanetworks.symmetry.equations import solve


@st.composite
def systems(draw) -> tuple[int, np.ndarray]:
    unknowns = draw(st.integers(1, 8))
    width = draw(st.integers(1, 4))
    row = st.lists(st.integers(-unknowns, unknowns), min_size=width, max_size=width)
    rows = draw(st.lists(row, max_size=7))
    return unknowns, np.array(rows, dtype=np.int64).reshape(-1, width)


def dense(unknowns: int, rows: np.ndarray) -> np.ndarray:
    matrix = np.zeros((len(rows), unknowns + 1))
    for index, row in enumerate(rows):
        for signed in row:
            matrix[index, abs(signed)] += np.sign(signed)
    matrix[:, 0] = 0
    return matrix


def rank_of_bits(matrix: np.ndarray) -> int:
    rows, rank = [int("".join(str(int(abs(x)) % 2) for x in row), 2) for row in matrix], 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            low = pivot & -pivot
            rows = [row ^ pivot if row & low else row for row in rows]
    return rank


@given(systems())
@example((5, np.array([[0, 2, 4, 5], [0, -2, -4, -5], [0, -4, -4, 5]])))  # thirds must cancel
def test_all_solutions_over_the_reals(system: tuple[int, np.ndarray]) -> None:
    unknowns, rows = system
    solution, matrix = solve(unknowns, [rows]), dense(unknowns, rows)
    assert solution.free == unknowns - (np.linalg.matrix_rank(matrix) if len(rows) else 0)
    values = solution.values(np.random.default_rng(0).normal(size=solution.free))
    np.testing.assert_allclose(matrix @ values, 0, atol=1e-9)


@given(systems())
def test_all_solutions_modulo_two(system: tuple[int, np.ndarray]) -> None:
    unknowns, rows = system
    solution, matrix = solve(unknowns, [rows], modulo=2), dense(unknowns, rows)
    assert solution.free == unknowns - rank_of_bits(matrix)
    values = solution.values(np.random.default_rng(0).integers(0, 2, solution.free).astype(float))
    assert set(values) <= {0.0, 1.0}
    assert not ((matrix @ values) % 2).any()


@pytest.mark.parametrize("modulo", [None, 2])
def test_no_equations(modulo: int | None) -> None:
    assert solve(3, [], modulo=modulo).free == 3
