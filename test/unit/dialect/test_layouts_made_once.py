"""Equal layouts are one object, whichever way they are made, and go when nobody holds them."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

from triton_linear.dialect.labelled_matrix import _MADE, LabelledMatrix
from triton_linear.dialect.linear_layout import LinearLayout

BASES, OUT_DIMS = (("lane", ((1,), (2,), (4,))),), (("once", 8),)


def test_equal_layouts_are_identical() -> None:
    one = LinearLayout(BASES, OUT_DIMS)
    others = (
        LinearLayout.fitted(BASES, OUT_DIMS),
        LinearLayout.identity_1d(8, "lane", "once"),
        LinearLayout.from_matrix((1, 2, 4), [("lane", 8)], [("once", 8)]),
        LinearLayout(tuple((name, list(map(list, vectors))) for name, vectors in BASES), list(OUT_DIMS)),
        one.compose(LinearLayout.identity_1d(8, "once", "once")),
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
    )
    assert all(other is one for other in others)
    assert one is not LabelledMatrix(BASES, OUT_DIMS)
    assert one is not one.resize_out_dim("once", 16)


def test_layouts_go_when_nobody_holds_them() -> None:
    key = LinearLayout, (("lane", ((1,), (2,))),), (("held by nobody", 4),)
    one = LinearLayout(*key[1:])
    assert key in _MADE
    del one
    assert key not in _MADE


def test_threads_make_one_object() -> None:
    sizes = [1 << bits for bits in range(12)] * 50
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda size: LinearLayout.identity_1d(size, "lane", "by threads"), sizes))
    assert len(set(map(id, made))) == len(set(sizes)) == len(set(made))
