"""The bench of public complaints: each is there by its counts, and what the plugin makes of it; no GPU."""

from __future__ import annotations

import doctest
import functools
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import triton_linear
from bench.harness.child import empty_cache
from bench.kernels import modes
from bench.reported import case as cases_are
from bench.reported import counts, dry, kernels_packed, measure, packed, reasons, releases, report, run
from bench.reported.cases import CASES
from triton_linear.dialect import triton_versions
from triton_linear.ptxas.cubin import usage
from triton_linear.tools.diff.loops import loops
from triton_linear.tools.explain.pack import packings

CALLED = {case.name: case for case in CASES}
FEWER = {
    "gather_bytes": {"shuffles": 0.9, "shared stores": 0.6},
    "chained_division": {"divisions": 0.05, "PTX lines": 0.2, "shared loads": 0.1},
    "divided_places": {"shared stores": 0.5, "PTX lines": 0.95},
    "reduced_then_stored": {"shared stores": 0.5, "barriers": 0.5},
    "attention_bytes": {"shared stores": 0.6, "shuffles": 0.6},
    "block_scaled": {"shared stores": 1.0, "barriers": 1.0},
    "scaled_rows": {"shared loads": 0.0, "shared stores": 0.0, "barriers": 0.0, "registers": 0.7},
    "embedding_sum": {"shared stores": 0.2, "barriers": 0.5},
    "transposed_operand": {"shared loads": 0.0, "shared stores": 0.0},
}
"""The share of stock Triton's instructions that ours has at most, of the kinds that a complaint is about."""
ALIKE = ("int4_64", "int4_256", "mxfp4_16", "mxfp4_256")
"""Cases of other sizes than `int4_16` and `mxfp4_64`."""


@functools.cache
def counted(name: str, ours: bool, packed: bool = False) -> dict[str, Any]:
    """Counts of a case's kernel, compiled once."""
    with empty_cache():
        return (dry.ours if ours else dry.stock)(CALLED[name], packed=packed)


@pytest.mark.parametrize("name", [name for name in CALLED if name not in ALIKE])
def test_no_case_spills_more_and_what_it_is_about_is_less(name: str) -> None:
    stock, ours = counted(name, False), counted(name, True)
    assert (ours["stack"] or 0) <= (stock["stack"] or 0)
    for kind, share in FEWER.get(name, {}).items():
        assert stock[kind], f"the complaint is not there: no {kind}"
        assert ours[kind] <= share * stock[kind], (kind, stock[kind], ours[kind])


def test_divisions_that_all_lanes_repeat_are_there_with_stock_triton_alone() -> None:
    """What the source asks for is two divisions of each element."""
    case = CALLED["chained_division"]
    constants = case.kernel.constants
    each = 2 * constants["ROWS"] * constants["COLUMNS"] // (32 * case.kernel.options["num_warps"])
    assert (counted(case.name, False)["divisions"] or 0) > 30 * each
    assert counted(case.name, True)["divisions"] == each


def test_scales_that_take_their_neighbours_layout_spill_since_3_7_1() -> None:
    """With four warps. The counts are those of the releases; the load of both kinds of bytes has one layout."""
    case = CALLED["gather_attention"]
    known = json.loads(releases.COUNTS.read_text())[case.name]
    stack = {release: ways["stock"]["stack"] for release, ways in known.items()}
    assert all(stack[release] > 8 * stack["3.6.0"] for release in ("3.7.1", "3.8.0", "3.9.0"))
    if triton_versions.found() == "3.6.0":
        pytest.skip("3.6.0 loads scales in the other order")
    with empty_cache():
        text = dry.compiled(case.kernel, case.target).asm["ttgir"]
    layouts = re.findall(r"tt\.load .*tensor<32x512x!tt\.ptr<i8>, (#\w+)>", text)
    assert layouts[0] == layouts[1]
    assert f"{layouts[0]} = #ttg.blocked<{{sizePerThread = [1, 16]" in text
    if triton_versions.installed_release() < (3, 8):
        pytest.skip("ours would spill more there, and the kernel is left as it is")
    stock, ours = counted(case.name, False), counted(case.name, True)
    assert ours["stack"] <= 0.2 * (stock["stack"] or 0)
    assert ours["shared loads"] <= 0.5 * (stock["shared loads"] or 0)


@pytest.mark.parametrize("name", ["int4_16", "mxfp4_64"])
def test_packed_weights_are_read_in_whole_vectors_and_nothing_is_exchanged(name: str) -> None:
    """64 bytes of weights a thread and iteration: by single bytes as they lie, in four vectors when packed."""
    found = [(counted(name, ours), counted(name, ours, packed=True)) for ours in (False, True)]
    for rows, tiles in found:
        assert rows["shared loads"] - tiles["shared loads"] == 64 - 4
        assert tiles["shared stores"] <= rows["shared stores"]
        assert not tiles["stack"]
    became = found[1][1]["became"]
    assert became["noop"] == 2
    assert became.keys() <= {"noop", "cta-shared"}
    assert became["cta-shared"] <= 2, "the scales and the result, behind the loop"


@pytest.mark.parametrize("name", ["int4_16", "mxfp4_64"])
def test_the_order_is_the_one_that_explain_derives_and_the_kernel_undoes(name: str) -> None:
    with empty_cache():
        text = dry.compiled(CALLED[name].kernel, "cuda:90").asm["ttgir"]
    found = [each for each in packings(text, name) if each.nibbles == packed.PACKING]
    assert len(found) == 1
    printed = str(found[0]).partition("elements.")[2]
    assert f"elements.{printed}" in kernels_packed.tile_of.src


@pytest.mark.parametrize(("name", "share"), [("int4_16", 0.6), ("mxfp4_64", 0.7)])
def test_an_iteration_of_packed_weights_takes_fewer_clocks(name: str, share: float) -> None:
    """Two halves by one operation, where those of a register come 16 bits apart; no byte is picked out."""
    case = CALLED[name]
    with empty_cache():
        rows = dry.compiled(case.kernel, "cuda:90").asm["cubin"]
        with triton_linear.enabled(strict=True):
            tiles = dry.compiled(case.packed, "cuda:90").asm["cubin"]
    before, after = (max(loop.clocks for loop in loops(code) or []) for code in (rows, tiles))
    assert after <= share * before


def test_words_of_packed_weights_become_what_the_bytes_were() -> None:
    script = Path(__file__).parents[1] / "support" / "packed_interpreted.py"
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {"int4": True, "mxfp4": True}


def test_every_way_of_a_packed_case_is_beside_stock_tritons_unpacked_one() -> None:
    found = measure.ways(CALLED["int4_16"])
    assert list(found) == [modes.STOCK, modes.OURS, "packed stock", "packed ours"]
    assert found["stock"][0] is found["ours"][0] is not found["packed ours"][0]
    assert list(measure.ways(CALLED["layer_norm"])) == [modes.STOCK, modes.OURS]
    with pytest.raises(ValueError, match="layer_norm has no kernel that takes packed weights"):
        dry.stock(CALLED["layer_norm"], packed=True)


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


def test_a_python_with_triton_alone_counts_stock_kernels() -> None:
    """Other releases are counted that way: nothing of MLIR is imported."""
    code = (
        "import sys; sys.modules['mlir'] = None; sys.modules['torch'] = None\n"
        "from bench.reported import dry; from bench.reported.cases import CASES\n"
        "print(dry.stock(next(c for c in CASES if c.name == 'channels_last'))['conversions'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


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


def test_a_run_keeps_what_a_case_that_fails_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Child:
        starts = 1

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def begin(self, _: str) -> dict[str, Any]:
            return {"device": "X", "torch": "2"}

        def ask(self, _: Any, name: str, __: int) -> dict[str, Any]:
            if name == "layer_norm":
                raise RuntimeError("CUDA error: an illegal address")
            return _record(name, 1.2)

        def close(self) -> None:
            pass

    monkeypatch.setattr(run, "Child", Child)
    status = run.main(["--output", str(tmp_path), "--only", "layer_norm|scaled_rows"])
    assert status == 1
    text = (tmp_path / "reported.md").read_text()
    assert "2 kernels: 1 won" in text
    assert "illegal address" in text
    assert run.main(["--output", str(tmp_path), "--only", "dot_atomics", "--reasons"]) == 0
    text = (tmp_path / "reasons.md").read_text()
    assert "- dot_atomics, ours: 10.0 µs, 1.200 (1.100 to 1.300) times as fast as stock, identical" in text
    with pytest.raises(SystemExit, match="no case matches 'scaled_rows'"):
        run.main(["--only", "scaled_rows", "--reasons"])


def test_atomics_can_take_the_accumulator_without_shared_memory() -> None:
    """64 floats a thread: 32 atomics of two, or, of two lanes' registers exchanged, 16 of four as in stock."""
    case = CALLED["dot_atomics"]
    found = reasons.ways(case)
    assert list(found) == [modes.STOCK, modes.OURS, "pairs", "fours"]
    for name, atomics, width in (("pairs", 32, 2), ("fours", 16, 4)):
        kernel = found[name][0]
        assert isinstance(kernel, reasons.Laid)
        with empty_cache():
            stock, laid = dry.stock(case), kernel.compiled("cuda:90")
        counted = counts.of_kernel(laid)
        assert counted["atomics"] == atomics == laid.asm["ptx"].count(f".add.v{width}.f32")
        assert stock["shared loads"]
        assert not counted["shared loads"]
        assert counted["shared"] == (stock["shared"] or 0) // 2


def test_the_layout_of_atomics_is_changed_where_it_is_theirs_alone() -> None:
    with empty_cache():
        text = dry.compiled(CALLED["dot_atomics"].kernel, "cuda:90").asm["ttgir"]
    reasons.in_layout(text, reasons.FOURS)
    with pytest.raises(ValueError, match=r"#blocked is not of atomics alone: .*tt\.load"):
        reasons.in_layout(text.replace("#blocked2", "#blocked"), reasons.FOURS)
    with pytest.raises(ValueError, match="without atomics"):
        reasons.in_layout(text.replace("tt.atomic_rmw", "tt.store"), reasons.FOURS)


def test_what_is_launched_gets_tensors_and_numbers_in_order() -> None:
    started: list[Any] = []
    kernel = reasons.ways(CALLED["dot_atomics"])["pairs"][0]
    assert isinstance(kernel, reasons.Laid)
    kernel._held.append({kernel.grid: lambda *arguments: started.append(arguments)})
    kernel.start({"n": 5, "out_ptr": 3, "a_ptr": 1, "k": 4, "b_ptr": 2})
    assert started == [(1, 2, 3, 4, 5)]


def test_a_bound_lets_the_second_cta_in() -> None:
    kernel, mode = reasons.ways(CALLED["layer_norm"])["64 registers"]
    assert mode == modes.STOCK
    with empty_cache():
        bounded = usage(dry.compiled(kernel, "cuda:90").asm["cubin"])
    assert bounded is not None
    assert bounded.registers * 32 * kernel.options["num_warps"] * 2 <= 65536


def test_bad_names_are_refused() -> None:
    with pytest.raises(SystemExit, match="no case matches 'nothing'"):
        run.main(["--dry", "--only", "nothing"])
    with pytest.raises(SystemExit, match="'hip:gfx942' is no NVIDIA GPU"):
        run.main(["--dry", "hip:gfx942"])


def test_every_case_has_a_row_a_picture_and_counts_of_four_releases() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "reported.md").read_text()
    known = json.loads(releases.COUNTS.read_text())
    assert list(known) == list(CALLED)
    for name, case in CALLED.items():
        assert set(known[name]) >= {"3.6.0", "3.7.1", "3.8.0", "3.9.0"}
        assert case.thread in page
        if not name.endswith(("_64", "_256")):
            assert f"img/reported-{name}.svg" in page
            assert (root / "docs" / "img" / f"reported-{name}.svg").exists()


def test_examples() -> None:
    for module, attempted in ((counts, 1), (reasons, 2), (releases, 1), (cases_are, 2)):
        assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=attempted)
