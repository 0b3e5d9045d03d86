"""Maps are values: equal ones are equal and hash alike, whichever way they are made."""

from __future__ import annotations

import copy
import pickle

from triton_linear.dialect.labelled_matrix import LabelledMatrix
from triton_linear.dialect.linear_layout import LinearLayout

BASES, OUT_DIMS = (("lane", ((1,), (2,), (4,))),), (("dim0", 8),)


def test_equal_layouts_are_equal_however_they_are_made() -> None:
    one = LinearLayout(BASES, OUT_DIMS)
    others = (
        LinearLayout.fitted(BASES, OUT_DIMS),
        LinearLayout.identity_1d(8, "lane", "dim0"),
        LinearLayout.from_matrix((1, 2, 4), [("lane", 8)], [("dim0", 8)]),
        LinearLayout(tuple((name, list(map(list, vectors))) for name, vectors in BASES), list(OUT_DIMS)),
        one.compose(LinearLayout.identity_1d(8, "dim0", "dim0")),
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
    )
    assert {one, *others} == {one}
    assert all(other.columns("lane") == one.columns("lane") for other in others)


def test_other_values_and_other_types_differ() -> None:
    one = LinearLayout(BASES, OUT_DIMS)
    assert one != LabelledMatrix(BASES, OUT_DIMS)
    assert one != LinearLayout(BASES, (("dim0", 16), *OUT_DIMS[1:]))
    assert one != LinearLayout((("warp", BASES[0][1]),), OUT_DIMS)
