"""What `triton-linear diff` is made of: assembly, dumps of passes, lines of sources, conditions."""

from __future__ import annotations

from pathlib import Path

import pytest
from diff_kernels import converted, copy

from triton_linear.dialect import bridge
from triton_linear.lowering.target.targets import target
from triton_linear.ptxas.cubin import code, loops
from triton_linear.tools.diff import assembly
from triton_linear.tools.diff.assembly import instructions
from triton_linear.tools.diff.compiled import CompiledKernel
from triton_linear.tools.diff.divergence import divergence, layout_divergence, plain
from triton_linear.tools.diff.facts import ConversionFact
from triton_linear.tools.diff.figures import occupancy
from triton_linear.tools.diff.gate import Condition
from triton_linear.tools.diff.ir import conversions, layouts, operations
from triton_linear.tools.diff.lines import aligned, statement
from triton_linear.tools.diff.passes import Dump, dumps
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import to_triton
from triton_linear.tools.support.errors import ToolError

PTX = {
    "@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];": (assembly.LOAD, 128),
    "ld.global.L1::evict_last.L2::cache_hint.v2.b64 { %rd1, %rd2 }, [ %rd3 ], %rd4;": (assembly.LOAD, 128),
    "ld.global.nc.b16 %rs1, [%rd1];": (assembly.LOAD, 16),
    "@%p3 st.global.v2.b32 [ %rd1 + 0 ], { %r1, %r2 };": (assembly.STORE, 64),
    "st.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5};": (assembly.SHARED_STORE, 128),
    "@%p1 ld.shared::cta.f32 %r1, [%r2];": (assembly.SHARED_LOAD, 32),
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];": (assembly.SHARED_LOAD, 128),
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r1], {%r2, %r3};": (assembly.SHARED_STORE, 64),
    "cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;": (assembly.COPY, 128),
    "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier [%r1], [%rd1, {%r2}], [%r3];": (
        assembly.BULK,
        0,
    ),
    "shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;": (assembly.SHUFFLE, 0),
    "bar.sync 0;": (assembly.BARRIER, 0),
    "@%p1 atom.global.gpu.acq_rel.add.f32 %r1, [ %rd1 + 0 ], %r2;": (assembly.ATOMIC, 0),
    "ld.param.b64 %rd1, [kernel_param_0];": None,
    "bar.warp.sync -1;": None,
    "add.s32 %r1, %r2, %r3;": None,
}
AMDGCN = {
    "global_load_dwordx4 v[6:9], v[4:5], off": (assembly.LOAD, 128),
    "buffer_load_dwordx2 v[4:5], v44, s[4:7], 0 offen": (assembly.LOAD, 64),
    "global_load_b128 v[0:3], v[4:5], off": (assembly.LOAD, 128),
    "buffer_load_ushort v1, v2, s[0:3], 0 offen": (assembly.LOAD, 16),
    "global_load_short_d16_hi v1, v[2:3], off": (assembly.LOAD, 16),
    "buffer_load_dword v1, s[0:3], 0 offen lds": (assembly.COPY, 32),
    "global_store_byte v[0:1], v2, off": (assembly.STORE, 8),
    "ds_read2st64_b64 v[0:3], v4 offset1:4": (assembly.SHARED_LOAD, 128),
    "ds_write_b128 v14, v[2:5]": (assembly.SHARED_STORE, 128),
    "ds_load_u16 v1, v2": (assembly.SHARED_LOAD, 16),
    "ds_bpermute_b32 v1, v2, v3": (assembly.SHUFFLE, 0),
    "v_add_f32_dpp v1, v2, v3 row_ror:8": (assembly.SHUFFLE, 0),
    "s_barrier": (assembly.BARRIER, 0),
    "v_mov_b32_e32 v1, v2": None,
}


@pytest.mark.parametrize("line", [*PTX, *AMDGCN])
def test_an_instruction_is_known_with_its_width(line: str) -> None:
    head = ".amdhsa_code_object_version 5\n" if line in AMDGCN else ".version 8.0\n"
    wanted = {**PTX, **AMDGCN}[line]
    assert [(one.kind, one.bits) for one in instructions(head + "\t" + line)] == ([wanted] if wanted else [])


def test_an_instruction_has_the_users_line() -> None:
    text = """\
    .loc 1 30 11
    ld.global.b32 %r1, [%rd1];
    .loc 2 293 36, function_name $L__info_string0, inlined_at 1 41 24
    ld.global.b32 %r1, [%rd1];
    .loc 1 50 1
    // begin inline asm
    .loc 1 50 1
    mov.u32 %r1, 0x0;
    .loc 1 51 1
    ld.global.b32 %r1, [%rd1];
    // end inline asm
    ld.global.b32 %r1, [%rd1];
    .file 1 "/home/me" "a.py"
    .file 2 "/x/triton/language" "standard.py"
"""
    assert [one.where for one in instructions(text)] == [("/home/me/a.py", n) for n in (30, 41, 50, 50)]


def test_an_inlined_line_of_amdgcn_is_the_users() -> None:
    text = """\
    .amdhsa_code_object_version 5
    .file 1 "/home/me" "a.py"
    .file 2 "/x/triton/language" "standard.py"
    .loc 2 293 36 ; standard.py:293:36 @[ a.py:41:24 ]
    s_barrier
"""
    assert [one.where for one in instructions(text)] == [("/home/me/a.py", 41)]


def _dump(header: str, text: str) -> str:
    return f"// -----// IR Dump Before {header} ('builtin.module' operation) //----- //\n{text}\n\n"


TTIR = "module {\n  tt.func public @k() {\n    tt.return\n  }\n}"
TTGIR = TTIR.replace("module {", 'module attributes {"ttg.num-warps" = 4 : i32} {')


def test_dumps_of_all_releases_are_read_by_kernel_and_compile(tmp_path: Path) -> None:
    path = tmp_path / "passes.txt"
    once = (
        _dump("Inliner (inline)", TTIR)
        + _dump("CSEPass: cse", TTIR)
        + "// -----// SoftwarePipeliner internal IR Dump After: LowerLoops\nmodule {}\n"
        + _dump("TritonGPUCoalesce: tritongpu-coalesce{x=1 y=2}", TTGIR)
        + _dump("ConvertGPUToLLVM (convert)", "module { llvm.func @k() }")
    )
    path.write_text(once + once)
    found = dumps(path)
    assert list(found) == ["k"]
    assert [[dump.name for dump in one] for one in found["k"]] == [["inline", "cse", "tritongpu-coalesce"]] * 2
    assert dumps(tmp_path / "none.txt") == {}


def _made(*passes: tuple[str, str]) -> CompiledKernel:
    dumped = [Dump(name, text) for name, text in passes]
    return CompiledKernel("k", {"ttir": TTIR, "ttgir": passes[-1][1]}, passes=dumped)


def test_the_pass_is_found_behind_which_a_module_differs() -> None:
    other = TTGIR.replace("tt.return", "%0 = arith.constant 1 : i32\n    tt.return")
    a = _made(("inline", TTIR), ("coalesce", TTGIR), ("prefetch", TTGIR), ("cse", TTGIR))
    b = _made(("inline", TTIR), ("coalesce", TTGIR), ("prefetch", TTGIR), ("new", other), ("cse", other))
    assert str(divergence(a, b)) == "TTGIR, after prefetch in A, prefetch, new in B"
    c = _made(("inline", TTIR), ("coalesce", other), ("prefetch", other), ("cse", other))
    assert str(divergence(a, c)) == "TTGIR, after inline"
    assert divergence(a, a) is None


def test_layouts_that_are_the_same_in_other_words_do_not_differ() -> None:
    text = bridge.expand_aliases(copy("cuda:90", True))
    linear = "#ttg.linear<{register = [[1], [2], [4], [1024], [2048]], lane = [[8], [16], [32], [64], [128]], "
    linear += "warp = [[256], [512]], block = []}>"
    blocked = text[text.index("#ttg.blocked") : text.index("}>") + 2]
    a, b = (
        CompiledKernel("copy", {"ttgir": text}),
        CompiledKernel("copy", {"ttgir": text.replace(blocked, linear)}),
    )
    assert divergence(a, b) is not None
    assert layout_divergence(a, b, ("3.9.0", "3.9.0")) is None
    narrow = CompiledKernel("copy", {"ttgir": copy("cuda:90", False)})
    assert str(layout_divergence(a, narrow, ("3.9.0", "3.9.0"))) == "TTGIR"


def test_a_text_is_compared_without_names_and_places() -> None:
    a = '  %x = arith.addi %y, %z : i32 loc("x"("/a b.py":1:2))\n#loc = loc("a.py":1:1)'
    b = "  %0 = arith.addi %1, %2 : i32 loc(#loc7)"
    assert plain(a) == plain(b)
    assert plain(a) != plain(b.replace("%2", "%1"))


def test_operations_have_their_types_and_loops() -> None:
    text = converted("cuda:90", True)
    ops = list(operations(str(to_triton(text)) + "\n"))
    (conversion,) = conversions(ops)
    assert [type_.partition(",")[0] for type_ in conversion.types] == ["tensor<4096xf32"] * 2
    found = [one for at in layouts(ops, every=True).values() for one in at]
    assert [(one.operation, one.tensor) for one in found] == [("tt.load", "4096xf32"), ("tt.store", "4096xf32")]


def test_a_lowering_may_show_that_data_stay_nearer() -> None:
    far = ConversionFact("across warps", "a", "b")
    assert [
        far.with_lowering(kind).crosses for kind in ("registers", "shuffle", "warp-shared", "cta-shared", "")
    ] == [*("registers", "across lanes", "across lanes", "across warps", "across warps")]
    assert ConversionFact("no-op", "a", "b").with_lowering("registers").crosses == "no-op"


def test_lines_of_an_edited_file_are_those_with_the_same_text(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1\ny = (\n    2)\nz = 3\n")
    second.write_text("# new\nx = 1\ny = (\n    2)\nz = 4\n")
    here, there = aligned([str(first)], [str(second)])
    assert [there((str(second), line))[1] for line in (2, 3, 4, 5)] == [1, 2, 2, 4]
    assert there((str(second), 1)) == (str(second), 1)
    assert here((str(first), 3)) == (str(first), 2)


def test_a_line_that_moved_is_the_same_line(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("a = 1\nx = 0\nb = 2\nx = 0\nc = 3\n")
    second.write_text("c = 3\nx = 0\na = 1\nx = 0\nb = 4\n")
    _, there = aligned([str(first)], [str(second)])
    assert [there((str(second), line))[1] for line in (1, 3)] == [5, 1]
    assert len({there((str(second), line)) for line in range(1, 6)}) == 5


def test_a_statement_is_called_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("for i in (\n    1,\n):\n    f(\n        i)\n")
    assert [statement((str(path), line))[1] for line in range(1, 6)] == [1, 1, 1, 4, 4]
    assert statement(("a.ttgir", 7)) == ("a.ttgir", 7)


@pytest.mark.parametrize(
    ("name", "registers", "shared", "warps", "ctas", "limited_by"),
    [
        ("cuda:90", 32, 0, 1, 32, "CTAs"),
        ("cuda:90", 138, 0, 8, 1, "registers"),
        ("cuda:90", 32, 98304, 4, 2, "shared memory"),
        ("cuda:90", 32, 0, 8, 8, "warps"),
        ("hip:gfx942", 146, 32768, 4, 2, "shared memory"),
        ("hip:gfx942", 146, 0, 4, 3, "registers"),
    ],
)
def test_as_many_ctas_are_resident_as_find_room(
    name: str, registers: int, shared: int, warps: int, ctas: int, limited_by: str
) -> None:
    assert occupancy(registers, shared, warps, target(name)) == (ctas, limited_by)


@pytest.mark.parametrize("text", ["", "speed", "registers >= 1", "registers > -1", "registers > x", "width 1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="is no condition"):
        Condition.parse(text)


LOOP = """\
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90"} {
  tt.func public @kernel(%p: tensor<32x!tt.ptr<f32>, #b>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      %x = tt.load %p {isVolatile = true} : tensor<32x!tt.ptr<f32>, #b>
      tt.store %p, %x : tensor<32x!tt.ptr<f32>, #b>
    }
    tt.return
  }
}
"""


def test_a_loop_of_a_cubin_has_clocks() -> None:
    cubin = lower(to_triton(LOOP), "cuda:90", "cubin").stages["cubin"]
    found = loops(cubin)
    assert found
    assert all(loop.first < loop.last and loop.clocks >= loop.last - loop.first for loop in found)
    assert loops(b"none") is None
    assert code(b"none") is None
