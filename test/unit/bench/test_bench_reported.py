"""The bench of public complaints: each is there by its counts, and what the plugin makes of it; no GPU."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from bench.harness.child import empty_cache
from bench.reported import counts, dry, releases, report, run
from bench.reported.cases import CASES
from triton_linear.dialect import triton_versions

CALLED = {case.name: case for case in CASES}
FEWER = {
    "gather_bytes": {"shuffles": 0.9, "shared stores": 0.6},
    "chained_division": {"divisions": 0.05, "PTX lines": 0.2, "shared loads": 0.1},
    "divided_places": {"shared stores": 0.5, "PTX lines": 0.95},
    "reduced_then_stored": {"shared stores": 0.5, "barriers": 0.5},
    "attention_bytes": {"shared stores": 0.6},
    "block_scaled": {"shared stores": 1.0, "barriers": 1.0},
    "scaled_rows": {"shared loads": 0.0, "shared stores": 0.0, "barriers": 0.0, "registers": 0.7},
    "embedding_sum": {"shared stores": 0.2, "barriers": 0.5},
    "transposed_operand": {"shared loads": 0.0, "shared stores": 0.0},
}
"""The share of stock Triton's instructions that ours has at most, of the kinds that a complaint is about."""

KNOWN = json.loads(releases.COUNTS.read_text())


@functools.cache
def counted(name: str, ours: bool) -> dict[str, Any]:
    """Counts of a case's kernel, compiled once; of stock Triton's those on record, which took up to 20 s."""
    release = KNOWN[name].get(triton_versions.found())
    if release and not ours and name != "layer_norm":
        return dict(release["stock"])
    with empty_cache():
        return (dry.ours if ours else dry.stock)(CALLED[name])


def test_the_record_is_of_this_release_and_these_kernels() -> None:
    on_record = KNOWN["layer_norm"].get(triton_versions.found())
    assert on_record is None or on_record["stock"] == {
        kind: count for kind, count in counted("layer_norm", False).items() if kind in on_record["stock"]
    }


@pytest.mark.parametrize("name", FEWER)
def test_no_case_spills_more_and_what_it_is_about_is_less(name: str) -> None:
    stock, ours = counted(name, False), counted(name, True)
    assert (ours["stack"] or 0) <= (stock["stack"] or 0)
    for kind, share in FEWER[name].items():
        assert stock[kind], f"the complaint is not there: no {kind}"
        assert ours[kind] <= share * stock[kind], (kind, stock[kind], ours[kind])


def test_divisions_that_all_lanes_repeat_are_there_with_stock_triton_alone() -> None:
    """What the source asks for is two divisions of each element."""
    case = CALLED["chained_division"]
    constants = case.kernel.constants
    each = 2 * constants["ROWS"] * constants["COLUMNS"] // (32 * case.kernel.options["num_warps"])
    assert (counted(case.name, False)["divisions"] or 0) > 30 * each
    assert counted(case.name, True)["divisions"] == each


def test_instructions_are_counted_whatever_their_form() -> None:
    text = """
    .reg .b32 %r<7>;
    // ld.global.b32 in a comment
    @%p1 ld.global.L1::evict_last.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
    st.global.b32 [%rd1], %r1;
    atom.global.gpu.relaxed.add.f32 %f1, [%rd1], %f2;
    red.relaxed.gpu.global.add.v4.f32 [%rd1], {%f1, %f1, %f1, %f1};
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
    stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r5], {%r1, %r2};
    st.shared.v4.b32 [%r5], {%r1, %r2, %r3, %r4};
    bar.sync 0;
    bar.warp.sync -1;
    shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;
    div.full.f32 %f1, %f2, %f3;
    rem.s32 %r1, %r2, %r3;
    cp.async.cg.shared.global [ %r5 + 0 ], [ %rd1 + 0 ], 0x10, %r6;
    """
    found = counts.of_ptx(text)
    assert found == {
        "divisions": 2,
        "global loads": 1,
        "global stores": 1,
        "copies": 1,
        "atomics": 2,
        "shared loads": 1,
        "shared stores": 2,
        "shuffles": 1,
        "barriers": 1,
        "PTX lines": 13,
    }


def _record(name: str, ratio: float, **facts: Any) -> dict[str, Any]:
    kind = {"registers": 40, **dict.fromkeys(counts.KINDS, 1)}
    way = {"seconds": 1.0, "fell_back": [], "result": "identical", "counts": [kind], "microseconds": 10.0}
    return {
        "name": name,
        "ways": {"stock": way, "ours": {**way, "ratio": [ratio - 0.1, ratio, ratio + 0.1], **facts}},
    }


def test_verdicts_and_what_failed_are_on_the_page() -> None:
    records = [
        _record("gather_bytes", 1.3),
        _record("scaled_rows", 1.0),
        _record("layer_norm", 0.9),
        _record("embedding_sum", 2.0, result="WRONG"),
        {"name": "dot_atomics", "error": "no\nGPU", "traceback": ""},
    ]
    facts = {"device": "X", "triton": "3.9.0", "triton_linear": "0", "date": "today", "cases": records}
    assert [report.verdict(record) for record in records] == ["won", "equal", "lost", "WRONG", "failed"]
    text = report.markdown({**facts, "not_run": ["channels_last"]})
    assert "5 kernels: 1 won (1.1 or more), 1 lost" in text
    assert "| gather_bytes | [#11373](" in text
    assert "- dot_atomics: no GPU" in text
    assert "Not run for want of time: channels_last." in text
    assert math.isnan(report.ratio(records[-1]))
    assert run.problems(records[3]) == ["ours: other results"]
    assert run.problems(records[0]) == []


def test_every_case_has_a_paragraph_a_picture_and_counts_of_four_releases() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "reported.md").read_text()
    assert list(KNOWN) == list(CALLED)
    for name, case in CALLED.items():
        assert set(KNOWN[name]) >= {"3.6.0", "3.7.1", "3.8.0", "3.9.0"}
        assert case.thread in page
        assert f"img/reported-{name}.svg" in page
        assert (root / "docs" / "img" / f"reported-{name}.svg").exists()
