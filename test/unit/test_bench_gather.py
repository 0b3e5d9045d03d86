"""The bench of gathers, without a GPU."""

from __future__ import annotations

import json
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
    old = gather.compiled(by_name["[512, 2] float32, once"], gpu, modes.BASELINE)
    assert [lowering for lowering, _ in old["gathers"]] == ["gather-legacy"]
    assert old["shuffles"] == 0 < old["loads"]
    assert old["shared"] >= 512 * 2 * 4
    once = gather.compiled(by_name["[512, 2] float32, once"], gpu, modes.LOWER)
    assert all(once[key] == 0 for key in (*gather.INSTRUCTIONS, "shared"))


RATIO = [1.9, 2.0, 2.1]


def measured(identical: bool = True) -> dict[str, object]:
    return {
        "microseconds": 100.0,
        "ratio": dict.fromkeys(gather.MODES, RATIO),
        "shared": {mode: 2048 * (mode == modes.STOCK) for mode in (modes.STOCK, *gather.MODES)},
        "registers": {},
        "fell_back": False,
        "identical": identical,
    }


def test_the_table_has_a_row_for_each_case_and_names_what_differs() -> None:
    facts = {"device": "X", "triton": "3.6.0", "triton_linear": "0", "date": "today"}
    rows = [
        {"columns": columns, "times": times, "element": "float16", **measured(times == 1)}
        for columns, times in ((4, 1), (8, gather.CHAIN))
    ]
    text = gather.markdown({**facts, "cases": rows})
    both = "2.00 (1.90 to 2.10) | 2.00 (1.90 to 2.10)"
    assert f"| 4 | once | 100.0 | {both} | 2048, 0, 0 | identical |" in text
    assert f"| 8 | {gather.CHAIN} | 100.0 | {both} | 2048, 0, 0 | DIFFER |" in text
    assert "## float16" in text
    assert "## int8" not in text


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the cases that are run, in order; the third fails."""
    names: list[str] = []

    def compare(name: str, kernel: object, turns: int) -> dict[str, object]:
        names.append(name)
        if len(names) == 3:
            raise RuntimeError("out of luck")
        return measured()

    monkeypatch.setattr(gather, "compare", compare)
    monkeypatch.setattr(gather, "device_name", lambda: "no GPU")
    return names


def test_a_run_goes_on_where_the_one_before_ended(tmp_path: Path, runs: list[str]) -> None:
    arguments = ["--output", str(tmp_path), "--only", r", (4|8)\] float32"]
    assert gather.main([*arguments, "--budget", "-1"]) == 0
    assert runs == []
    assert gather.main(arguments) == 1
    failed = runs[2]
    assert len(runs) == 4
    lines = (tmp_path / "gather.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [name for name in runs if name != failed]
    # As if killed while it wrote the last line.
    (tmp_path / "gather.jsonl").write_text("\n".join([*lines[:2], lines[2][:30]]))
    again = runs[3]
    assert gather.main(arguments) == 0
    assert runs[4:] == [failed, again]
    assert set(gather.done(tmp_path / "gather.jsonl")) == set(runs)
    rows = json.loads((tmp_path / "gather.json").read_text())["cases"]
    assert [row["name"] for row in rows] == sorted(set(runs), key=runs[:4].index)
    assert (tmp_path / "gather.md").read_text().count("identical") == 4
