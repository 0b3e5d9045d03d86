"""What `triton-linear diff` is made of: assembly, layouts, lines of sources, conditions."""

from __future__ import annotations

from pathlib import Path

import pytest
from diff_kernels import converted, copy

from triton_linear.dialect import bridge
from triton_linear.lowering.target.targets import target
from triton_linear.ptxas.cubin import code, loops
from triton_linear.tools.diff import assembly
from triton_linear.tools.diff.assembly import instructions
from triton_linear.tools.diff.compare import aligned
from triton_linear.tools.diff.compiled import layouts, plain_assembly
from triton_linear.tools.diff.gate import Condition
from triton_linear.tools.diff.resources import occupancy
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import read_module, to_triton
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


def test_layouts_are_those_of_data() -> None:
    module = read_module(converted("cuda:90", True), bridge.upstream_context(), "copy.ttgir")
    found = [(layout.operation, layout.tensor) for _, layout in layouts(module)]
    assert found == [("tt.load", "4096xf32"), ("tt.store", "4096xf32")]


def test_layouts_that_are_the_same_in_other_words_do_not_differ() -> None:
    text = bridge.expand_aliases(copy("cuda:90", True))
    linear = "#ttg.linear<{register = [[1], [2], [4], [1024], [2048]], lane = [[8], [16], [32], [64], [128]], "
    linear += "warp = [[256], [512]], block = []}>"
    blocked = text[text.index("#ttg.blocked") : text.index("}>") + 2]
    texts = text, text.replace(blocked, linear), copy("cuda:90", False)
    a, b, narrow = (
        {layout.key for _, layout in layouts(read_module(one, bridge.upstream_context(), "copy.ttgir"))}
        for one in texts
    )
    assert a == b
    assert a.isdisjoint(narrow)


def test_assembly_is_compared_without_places() -> None:
    a = ".entry k() {\n  .loc 1 2 3\n  bar.sync 0; // here\n$L__tmp0:\n}\n.section .debug_info {\n}"
    assert plain_assembly(a) == plain_assembly(a.replace("1 2 3", "1 4 5").replace("here", "there"))
    assert plain_assembly(a) != plain_assembly(a.replace("bar.sync 0", "bar.sync 1"))


def test_lines_of_an_edited_file_are_those_with_the_same_text(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1\ny = 2\nz = 3\n")
    second.write_text("# new\nx = 1\ny = 2\nz = 4\n")
    place = aligned({str(first)}, {str(second)})
    assert [place((str(second), line)) for line in (2, 3, 4)] == [(str(first), line) for line in (1, 2, 3)]
    assert place((str(second), 1)) == (str(second), 1)
    assert aligned({str(first)}, {str(first), str(second)})((str(second), 2)) == (str(second), 2)


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
