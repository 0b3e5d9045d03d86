"""The bench of gathers, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton_linear.examples.spec import gpu_target

from bench import gather
from bench.kernels import modes


def test_every_size_of_every_element_is_there_once_and_in_a_chain() -> None:
    found = list(gather.cases())
    assert len({name for name, _, _ in found}) == len(found)
    assert len(found) == len(gather.ELEMENTS) * len(gather.COLUMNS) * 2
    for _, described, kernel in found:
        assert kernel.inputs["x_ptr"].shape == (gather.BLOCKS * gather.ROWS, described["columns"])
        assert kernel.inputs["index_ptr"].below == described["columns"]


@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "hip:gfx942"])
def test_cases_compile_and_short_rows_are_gathered_inside_the_lane(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    by_name = {name: kernel for name, _, kernel in gather.cases()}
    gpu = gpu_target(target)
    for name in ("[512, 2] float32, once", "[512, 4] float32, chain"):
        stock = gather.compiled(by_name[name], gpu, modes.STOCK)
        ours = gather.compiled(by_name[name], gpu, modes.LOWER)
        assert stock["gathers"] == ours["failed"] == []
        assert [lowering for lowering, _ in ours["gathers"]] == ["gather"]
        assert stock["shuffles"] > 0 < stock["barriers"]
    once = gather.compiled(by_name["[512, 2] float32, once"], gpu, modes.LOWER)
    assert all(once[key] == 0 for key in (*gather.INSTRUCTIONS, "shared"))


def test_the_table_has_a_row_for_each_case_and_names_what_differs() -> None:
    def row(columns: int, times: int, ratio: float) -> dict[str, object]:
        return {
            "columns": columns,
            "element": "float16",
            "times": times,
            "microseconds": 100.0,
            "ratio": {mode: [ratio - 0.1, ratio, ratio + 0.1] for mode in gather.MODES},
            "shared": {mode: 2048 * (mode == modes.STOCK) for mode in (modes.STOCK, *gather.MODES)},
            "identical": times == 1,
        }

    facts = {"device": "X", "triton": "3.6.0", "triton_linear": "0", "date": "today"}
    text = gather.markdown({**facts, "cases": [row(4, 1, 2.0), row(8, gather.CHAIN, 0.5)]})
    assert "| 4 | once | 100.0 | 2.00 (1.90 to 2.10) | 2.00 (1.90 to 2.10) | 2048, 0 | identical |" in text
    assert f"| 8 | {gather.CHAIN} | 100.0 | 0.50 (0.40 to 0.60) |" in text
    assert text.count("DIFFER") == 1
    assert "## float16" in text
    assert "## int8" not in text
