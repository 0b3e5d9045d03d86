"""What a cubin says of its loops, against what NVIDIA's tools show."""

from __future__ import annotations

import functools
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
import triton
from assign_support import path_of
from machine_code import shown
from plugin_support import CUDA
from triton import knobs

import triton_linear
from triton_linear.lowering.target.targets import target
from triton_linear.ptxas import cubin as cubins
from triton_linear.ptxas.cubin import usage
from triton_linear.tools.diff.compiled import resources

NESTED = """
.version 8.0
.target sm_{capability}
.address_size 64
.visible .entry nested(.param .u64 p, .param .u32 n)
{{
.reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .f32 %f<3>;
ld.param.u64 %rd1, [p];
ld.param.u32 %r1, [n];
mov.u32 %r2, 0;
OUTER:
mov.u32 %r3, 0;
INNER:
ld.volatile.global.f32 %f1, [%rd1];
ex2.approx.f32 %f2, %f1;
st.volatile.global.f32 [%rd1], %f2;
add.s32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r1;
@%p1 bra INNER;
bar.sync 0;
add.s32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, 100;
@%p2 bra OUTER;
ret;
}}
"""


@functools.cache
def nested(capability: str) -> bytes:
    """The cubin of a loop in a loop."""
    version = "8.7" if int(capability) >= 100 else "8.0"
    return assembled(NESTED.replace("8.0", version).format(capability=capability), capability)


def assembled(ptx: str, capability: str) -> bytes:
    """The cubin of PTX."""
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        text.write_text(ptx)
        ptxas = knobs.nvidia.ptxas_blackwell if int(capability) >= 100 else knobs.nvidia.ptxas
        subprocess.run([ptxas.path, f"--gpu-name=sm_{capability}", str(text), "-o", str(made)], check=True)
        return made.read_bytes()


def branches_back(cubin: bytes) -> list[tuple[int, int]]:
    """The target and number of each branch that goes back, as NVIDIA's tool shows them."""
    text = shown(cubin, "-sass", tool="cuobjdump")
    branches = re.findall(r"^\s*/\*([0-9a-f]{4,})\*/.*\bBRA\b[^;]*?\b0x([0-9a-f]+)", text, re.M)
    places = [(int(to, 16) // 16, int(at, 16) // 16) for at, to in branches]
    return sorted((to, at) for to, at in places if to < at)


@pytest.mark.parametrize("capability", ["75", "80", "86", "89", "90", "100", "120"])
def test_loops_are_those_that_nvidia_s_tool_shows(capability: str) -> None:
    cubin = nested(capability)
    assert cubins.capability(cubin) == int(capability)
    found = cubins.loops(cubin)
    assert found is not None
    assert [(loop.first, loop.last) for loop in found] == branches_back(cubin)
    outer, inner = found
    assert outer.first < inner.first and inner.last < outer.last and inner.clocks < outer.clocks


WAITS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry waits(.param .u64 p, .param .u32 n)
{
.reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<2>; .reg .f32 %f<3>;
.shared .align 8 .b64 barriers[2];
ld.param.u64 %rd1, [p];
ld.param.u32 %r1, [n];
mov.u32 %r2, barriers;
mov.u32 %r3, 0;
FIRST:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
@!%p1 bra.uni FIRST;
LOOP:
ld.volatile.global.f32 %f1, [%rd1];
and.b32 %r4, %r3, 1;
SECOND:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2+8], %r4;
@!%p1 bra.uni SECOND;
ex2.approx.f32 %f2, %f1;
st.volatile.global.f32 [%rd1], %f2;
add.s32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, %r1;
@%p2 bra LOOP;
ret;
}
"""

DIVERGING = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry diverging(.param .u64 p)
{
.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd;
ld.param.u64 %rd, [p];
mov.u32 %r1, %tid.x;
mov.u32 %r2, 0;
LOOP:
setp.gt.u32 %p, %r1, 7;
@%p bra OTHER;
shfl.sync.bfly.b32 %r3, %r1, 3, 31, -1;
add.s32 %r1, %r1, %r3;
bra BOTH;
OTHER:
shfl.sync.bfly.b32 %r3, %r1, 5, 31, -1;
mul.lo.s32 %r1, %r1, %r3;
BOTH:
add.s32 %r2, %r2, 1;
setp.lt.u32 %p, %r2, %r1;
@%p bra LOOP;
st.global.u32 [%rd], %r1;
ret;
}
"""


def test_code_behind_the_end_of_the_kernel_makes_no_loop_of_what_follows_its_branch() -> None:
    """A wait for an mbarrier, a loop of its own there, and a shuffle of threads that are not together."""
    cubin = assembled(WAITS, "90")
    loops = cubins.loops(cubin)
    assert loops is not None
    outer, *spins = [(loop.first, loop.last) for loop in loops]
    assert len(spins) == 2 and all(outer[1] < first < last <= first + 2 for first, last in spins)
    assert len(branches_back(cubin)) == 3 + 2
    diverging = assembled(DIVERGING, "90")
    assert len(cubins.loops_of(cubins.decoded(diverging), 90)) == 1
    assert len(branches_back(diverging)) == 1 + 2


def test_a_branch_back_makes_a_loop_if_its_target_leads_to_it() -> None:
    other, exit_, ret, no_guard = 0x221, 0x94D, 0x950, 7

    def plain(opcode: int, guard: int = no_guard) -> tuple[int, int]:
        return opcode | guard << 12, 0xE0 << 18

    def to(instructions: int, guard: int = no_guard) -> tuple[int, int]:
        """A branch so many instructions on from the next one."""
        words, byte = divmod(4 * instructions, 256)
        low, high = plain(0x947, guard)
        return low | byte << 16 | words % (1 << 30) << 34, high | (words >> 30) % (1 << 18)

    def loops(*code: tuple[int, int]) -> list[tuple[int, int]]:
        return cubins.loops_of(list(code), 90)

    op = plain(other)
    for guard in (0, no_guard):
        assert loops(op, op, to(-2, guard)) == [(1, 2)]
        assert loops(op, op, to(-4, guard)) == []  # to before the code
        assert loops(op, to(1, guard), op, to(-3)) == [(1, 3)]  # over an instruction of the loop
        for leaving in (exit_, ret):
            assert loops(to(1, 0), plain(leaving, guard), op, to(-3)) == [(1, 3)] * (guard != no_guard)
    # From 1 to 4, back to 2, to 6, and back to 1. What is at 2 leads to 4 only by way of 1.
    assert loops(op, to(2), op, to(2), to(-3, 0), to(1), to(-6, 0)) == [(1, 6)]
    div = 1 << 27  # BRA.DIV: the next instruction follows where threads are together
    low, high = to(2)
    assert loops(op, (low, high | div), op, to(-3)) == [(1, 3)]


def test_of_other_capabilities_loops_are_not_known() -> None:
    cubin = bytearray(nested("100"))
    form, flags = cubin[8], struct.unpack_from("<I", cubin, 0x30)[0]
    assert form >= 8 and flags >> 8 & 255 == 100
    struct.pack_into("<I", cubin, 0x30, flags & ~0xFF00 | 140 << 8)
    unknown = bytes(cubin)
    assert usage(unknown) == usage(nested("100"))
    assert cubins.decoded(unknown)
    assert cubins.loops(unknown) is None
    assert resources(unknown, "", 0, 4, target("cuda:100")).loops is None
    assert resources(nested("100"), "", 0, 4, target("cuda:100")).loops


def _loops_of(text: str) -> list[list[tuple[str, int]]]:
    """The instructions of each loop in what nvdisasm shows, and what the scheduler does after each."""
    labels: dict[str, int] = {}
    lines: list[tuple[str, int]] = []
    for line in text.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(lines)
        elif op := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);\s+/\* 0x", line):
            lines.append((op[1], 0))
        elif control := re.match(r"\s+/\* (0x[0-9a-f]{16}) \*/", line):
            lines[-1] = lines[-1][0], int(control[1], 16) >> 41
    branches = ((i, re.search(r"BRA.*`\((\.L_x_\d+)\)", op)) for i, (op, _) in enumerate(lines))
    return [lines[labels[to[1]] : i + 1] for i, to in branches if to and labels[to[1]] < i]


@pytest.mark.parametrize("name", ["matmul_gelu", "attention"])
def test_clocks_of_loops_are_what_nvidia_s_tool_shows(name: str) -> None:
    with triton_linear.enabled(strict=True, occupancy=False):
        cubin = triton.compile(str(path_of(name)), target=CUDA).asm["cubin"]
    clocks = [sum(control & 15 for _, control in loop) for loop in _loops_of(shown(cubin, "-c", "-hex"))]
    found = cubins.loops(cubin)
    assert found and [loop.clocks for loop in found] == clocks
