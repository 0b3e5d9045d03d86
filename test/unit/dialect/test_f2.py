"""Linear algebra over F2 against its definitions, by enumeration of small spaces."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import invertible_matrices, matrices

from triton_linear.dialect import f2

some = settings(max_examples=80, deadline=None)
sizes = st.integers(0, 5)


@st.composite
def any_matrix(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    """Return a matrix of up to 5 columns, and its number of rows."""
    rows = draw(sizes)
    return draw(matrices(draw(sizes), rows)), rows


def span(columns: tuple[int, ...]) -> set[int]:
    """Every sum of columns, by enumeration."""
    result = set()
    for chosen in product([0, 1], repeat=len(columns)):
        total = 0
        for take, column in zip(chosen, columns, strict=True):
            total ^= column if take else 0
        result.add(total)
    return result


@some
@given(any_matrix())
def test_rank_counts_the_span(matrix: tuple[tuple[int, ...], int]) -> None:
    columns, _ = matrix
    assert 1 << f2.rank(columns) == len(span(columns))


@some
@given(any_matrix())
def test_solve_finds_exactly_the_span(matrix: tuple[tuple[int, ...], int]) -> None:
    columns, rows = matrix
    reachable = span(columns)
    echelon = f2.Echelon(columns)
    assert len(echelon) == len(columns)
    for target in range(1 << rows):
        x = f2.solve(columns, target)
        assert (x is not None) == (target in reachable) == f2.in_span(columns, target) == (target in echelon)
        assert x == echelon.solve(target)
        if x is not None:
            assert f2.multiply_vector(columns, x) == target


@some
@given(any_matrix())
def test_solve_sets_free_variables_to_zero(matrix: tuple[tuple[int, ...], int]) -> None:
    columns, rows = matrix
    free = sum(1 << i for i, column in enumerate(columns) if f2.in_span(columns[:i], column))
    for target in range(1 << rows):
        x = f2.solve(columns, target)
        assert x is None or not x & free


@some
@given(any_matrix())
def test_null_space(matrix: tuple[tuple[int, ...], int]) -> None:
    columns, _ = matrix
    kernel = f2.null_space(columns)
    zeros = {x for x in range(1 << len(columns)) if not f2.multiply_vector(columns, x)}
    assert span(kernel) == zeros
    assert len(kernel) == len(columns) - f2.rank(columns)
    # One free variable each: bit lengths give them in order, and no vector has another's.
    free = [vector.bit_length() - 1 for vector in kernel]
    assert free == sorted(set(free))
    for index, vector in enumerate(kernel):
        assert not any(vector >> other & 1 for other in free if other != free[index])


@some
@given(st.data())
def test_reduce_is_canonical(data: st.DataObject) -> None:
    columns, _ = data.draw(any_matrix())
    basis = f2.reduce(columns)
    assert span(basis) == span(columns)
    assert list(basis) == sorted(basis)
    for member in basis:
        lead = member.bit_length() - 1
        assert sum(other >> lead & 1 for other in basis) == 1
    mixed = [f2.multiply_vector(columns, x) for x in data.draw(invertible_matrices(len(columns)))]
    assert f2.reduce(mixed) == basis


@some
@given(st.data())
def test_intersection(data: st.DataObject) -> None:
    rows = data.draw(sizes)
    u, v = data.draw(matrices(data.draw(sizes), rows)), data.draw(matrices(data.draw(sizes), rows))
    common = f2.intersection(u, v)
    assert span(common) == span(u) & span(v)
    assert len(common) == f2.rank(common)
    assert common == f2.intersection(v, u)


@some
@given(st.data())
def test_extend(data: st.DataObject) -> None:
    rows = data.draw(sizes)
    have, candidates = data.draw(matrices(3, rows)), data.draw(matrices(4, rows))
    added = f2.extend(have, candidates)
    assert span(have + added) == span(have + candidates)
    assert f2.rank(have + added) == f2.rank(have) + len(added)
    # Greedy: an earlier candidate is never passed over for a later one.
    greedy: tuple[int, ...] = ()
    for candidate in candidates:
        if not f2.in_span(have + greedy, candidate):
            greedy += (candidate,)
    assert added == greedy


def test_vectors_have_no_width_limit() -> None:
    wide = tuple((1 << i) ^ (1 << i + 1) for i in range(200))
    assert f2.rank(wide) == 200
    assert f2.solve(wide, 1 ^ (1 << 200)) == (1 << 200) - 1


def test_bad_arguments_name_the_rule_and_the_value() -> None:
    with pytest.raises(ValueError, match="vector 4 does not fit in 2 coordinates"):
        f2.multiply_vector((1, 2), 4)
    with pytest.raises(ValueError, match="vector -1 does not fit"):
        f2.multiply_vector((1, 2), -1)
    with pytest.raises(ValueError, match="non-negative integer, got -3"):
        f2.rank((-3,))
