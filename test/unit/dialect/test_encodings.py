"""Encodings against Triton's own toLinearLayout, bit for bit."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from triton_linear.dialect import encodings
from triton_linear.tools.doctor.encodings import SHARED, Cases, Oracle, layout_difference

SEED = int(os.environ.get("TRITON_LINEAR_TEST_SEED", "20231107"))
CASES_A_FAMILY = 300


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


def test_every_encoding_against_triton(oracle: Oracle) -> None:
    """At least 3,000 distinct pairs of encoding and shape, at least 150 of every family."""
    seen: Counter[str] = Counter()
    distinct = set()
    for case in Cases(oracle, SEED).each(CASES_A_FAMILY):
        text = oracle.text_of(case)
        if (text, case.shape) in distinct:
            continue
        distinct.add((text, case.shape))
        seen[case.family] += 1
        difference = layout_difference(oracle, case, text)
        assert difference is None, f"{case.family}: {text} {case.shape}\n{difference}"
        assert encodings.parse(text).space == ("shared" if case.family in SHARED else "distributed")
    assert len(distinct) >= 3000, seen
    assert min(seen.values()) >= 150, seen


def test_shapes_on_both_sides_of_the_tile(oracle: Oracle) -> None:
    """The generator reaches tensors that are smaller than their tile, and larger ones, in all ranks."""
    ranks: Counter[int] = Counter()
    copies = repeats = 0
    for case in Cases(oracle, SEED + 1).each(40):
        ranks[len(case.shape)] += 1
        if case.family != "blocked":
            continue
        layout = oracle.distributed(case.attribute, case.shape)
        copies += any(not any(basis) for _, vectors in layout.bases for basis in vectors)
        repeats += layout.in_dim_bits("register") > 4
    assert set(ranks) >= {1, 2, 3, 4, 5}
    assert copies and repeats
