"""The table of widths: what is read from PTX, the paper's columns, and what falls short; records of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.paper import run as runs
from bench.paper import widths
from bench.paper.widths import PAPER, WARPS, Width, cases, run

PTX = """
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	ld.global.b16 { %rs1 }, [ %rd2 + 0 ];
	ld.global.b16 { %rs1 }, [ %rd2 + 2 ];
	st.global.v2.b32 [ %rd3 + 0 ], { %r1, %r2 };
	st.shared.v4.b32 [ %r9 ], { %r1, %r2, %r3, %r4 };
	ld.param.b64 	%rd1, [copied_param_0];
"""


def test_accesses_of_global_memory_are_counted() -> None:
    assert widths.widths(PTX) == {"ld": "2 x v1.b16, 1 x v4.b32", "st": "1 x v2.b32"}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.key)
def test_accesses_are_as_wide_as_a_thread_s_share(
    case: Width, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found = run(case)
    width = {4: "v1.b32", 8: "v2.b32"}.get(case.share, "v4.b32")
    assert {text.split(" x ")[1] for text in found["ours"].values()} == {width}
    if case.warps == WARPS:
        before = PAPER[case.element, case.k][0]
        assert {text.split(" x ")[1] for text in found["stock"].values()} == {before}


def test_another_gpu_is_not_mixed_in(tmp_path: Path) -> None:
    kept = runs.Kept(tmp_path / "paper.jsonl", runs.header({"device": "A", "torch": "1"}))
    kept.close(1.0)
    runs.Kept(tmp_path / "paper.jsonl", runs.header(None))
    with pytest.raises(SystemExit, match="was measured on A"):
        runs.Kept(tmp_path / "paper.jsonl", runs.header({"device": "B", "torch": "1"}))
