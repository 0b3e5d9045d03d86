"""Accesses to shared memory: what stock Triton makes of one, and what is left of it by way of another layout.

Counted are wavefronts of the CTA, by the interpreter, from the addresses; and instructions of PTX or of AMD's
assembly of a kernel that has nothing but the access, its operands and a sink. It needs no GPU.

    python -m bench.paper.local            prints the table
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.harness.report import Row, table
from bench.harness.ttgir import blocked, dot_operand, mma, tensor
from bench.paper.table import Part, Record, Table

_WARPS = 4


@dataclass(frozen=True)
class Access:
    """One access of a tensor, in registers as `registers` says, in memory as `memory` says."""

    name: str
    target: str
    shape: tuple[int, int]
    element: str
    registers: str
    memory: str
    is_store: bool = False

    @property
    def key(self) -> str:
        """See `Case`."""
        return f"{self.target} {'store' if self.is_store else 'load'}: {self.name}"


def _mma(index: int, k_width: int) -> str:
    return dot_operand(index, mma(2, [4, 1], [16, 8]), k_width)


def _mfma(index: int, version: int, shape: str, k_width: int) -> str:
    warps = f"warpsPerCTA = [2, 2], instrShape = {shape}, isTransposed = true"
    parent = f"#ttg.amd_mfma<{{version = {version}, {warps}}}>"
    return dot_operand(index, parent, k_width)


def _swizzled(vec: int, per_phase: int, max_phase: int, order: str = "[1, 0]", kind: str = "swizzled") -> str:
    return (
        f"#ttg.{kind}_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, order = {order}}}>"
    )


def _nvmma(width: int, turned: bool, bits: int) -> str:
    return (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, transposed = {str(turned).lower()}, "
        f"elementBitWidth = {bits}}}>"
    )


def _blocked(each: int) -> str:
    return blocked([1, each], [4, 8], [4, 1], [1, 0])


_WGMMA = mma(3, [4, 1], [16, 64, 16])
_INT4 = (
    "#ttg.linear<{register = [[1, 0], [0, 1], [0, 2], [0, 4], [0, 8], [32, 0]], lane = [[0, 16], [0, 32], "
    "[0, 64], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]], block = []}>"
)
_INT4_AMD = (
    "#ttg.linear<{register = [[1, 0], [0, 1], [0, 2], [0, 4], [0, 8]], lane = [[0, 16], [0, 32], "
    "[0, 64], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]], block = []}>"
)


def cases() -> Sequence[Access]:
    """What a survey of kernels found, the operands of products of either order and what is at the bound."""
    return [*_of_every_nvidia(), *_of_hopper(), *_of_amd()]


def _of_every_nvidia() -> Iterator[Access]:
    f16, turned = _swizzled(8, 1, 8), _swizzled(16, 2, 4, "[0, 1]")
    for target in ("cuda:80", "cuda:90", "cuda:100"):
        square = target, (64, 64)
        yield Access("f16 left operand, rows", *square, "f16", _mma(0, 2), f16)
        yield Access("f16 right operand, rows", *square, "f16", _mma(1, 2), f16)
        yield Access("tf32 right operand, rows", *square, "f32", _mma(1, 1), _swizzled(4, 1, 8))
        yield Access("8-bit right operand, columns", *square, "i8", _mma(1, 4), turned)
        yield Access("8-bit right operand, rows", target, (64, 128), "f8E5M2", _mma(1, 4), _swizzled(8, 1, 16))
        yield Access("8-bit left operand, columns", *square, "i8", _mma(0, 4), turned)
        rows = "f16", _blocked(16), _swizzled(16, 1, 4)
        yield Access("rows, vectors of 16", target, (128, 128), *rows, is_store=True)


def _of_hopper() -> Iterator[Access]:
    half, wide = ("cuda:90", (64, 128)), ("cuda:90", (64, 64))
    swizzled, turned = _nvmma(128, False, 16), _nvmma(128, True, 16)
    yield Access("f16 to 128-byte swizzle", *half, "f16", _blocked(8), swizzled, True)
    yield Access("bf16, 16 a thread, to 128-byte swizzle", *half, "bf16", _blocked(16), swizzled, True)
    yield Access("f16 accumulator to 128-byte swizzle", *wide, "f16", _WGMMA, swizzled, True)
    yield Access("f32 accumulator to 128-byte swizzle", *wide, "f32", _WGMMA, _nvmma(128, False, 32), True)
    yield Access("fp8 rows to columns", *half, "f8E4M3FN", _blocked(16), _nvmma(64, True, 8), True)
    yield Access("f16 rows from columns", *wide, "f16", _blocked(8), turned)
    yield Access("dequantised int4 to columns", *half, "f16", _INT4, turned, True)


def _of_amd() -> Iterator[Access]:
    turned = _swizzled(4, 1, 16, "[0, 1]")
    yield Access("dequantised int4 to columns", "hip:gfx942", (64, 128), "f16", _INT4_AMD, turned, True)
    tiles = {
        "hip:gfx90a": (2, "[32, 32, 8]", 4),
        "hip:gfx942": (3, "[16, 16, 16]", 4),
        "hip:gfx950": (4, "[32, 32, 16]", 8),
    }
    for target, (version, tile, width) in tiles.items():
        left, right = (_mfma(index, version, tile, width) for index in (0, 1))
        square = target, (64, 64), "f16"
        yield Access("f16 left operand, rows", *square, left, _swizzled(width, 1, 16))
        yield Access("f16 right operand, rows, no swizzle", *square, right, _swizzled(1, 1, 1))
        yield Access("f16 right operand, rows", target, (32, 128), "f16", right, _swizzled(8, 1, 16))


def _text(case: Access, packed: bool) -> str:
    """A kernel with the access alone. Its other end is assembly that takes registers one by one, or `packed`,
    in words, as instructions for matrices do."""
    from triton_linear.lowering.plan.element import element_type
    from triton_linear.lowering.target.targets import target

    rows, columns = case.shape
    values = tensor(case.shape, case.element, case.registers)
    memory = f"!ttg.memdesc<{rows}x{columns}x{case.element}, {case.memory}, #ttg.shared_memory, mutable>"
    register = "r" if case.target.startswith("cuda") else "v"
    count = element_type(case.element).per_word if packed else 1

    def assembly(result: str, value: str) -> str:
        return (
            f'{result} = tt.elementwise_inline_asm "// sink result" {{constraints = "={register},{register}", '
            f"packed_element = {count} : i32, pure = false}} {value} : {values} -> {values}"
        )

    if case.is_store and not packed:
        access = f"ttg.local_store %x, %m : {values} -> {memory}"
    elif case.is_store:
        access = f"{assembly('%z', '%x')}\nttg.local_store %z, %m : {values} -> {memory}"
    else:
        access = f"%y = ttg.local_load %m : {memory} -> {values}\n{assembly('%z', '%y')}"
    return (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {_WARPS} : i32, '
        f'ttg.target = "{case.target}", "ttg.threads-per-warp" = {target(case.target).lanes} : i32}} {{\n'
        f"tt.func public @access({f'%x: {values}' if case.is_store else ''}) {{\n"
        f"%m = ttg.local_alloc : () -> {memory}\n{access}\ntt.return\n}}\n}}\n"
    )


_INSTRUCTION = re.compile(r"^\s+(?:@!?%\S+ )?([a-z][\w.]*)(?=[\s;]|$)")
_SHARED = ("ld.shared", "st.shared", "ldmatrix", "stmatrix", "ds_read", "ds_write", "ds_load", "ds_store")
_LANES = ("shfl", "ds_bpermute", "ds_swizzle", "v_permlane")


def _instructions(text: str) -> Mapping[str, int]:
    """All instructions of a listing, those that access shared memory, and those that are exchanges of lanes."""
    names = [found[1] for line in text.splitlines() if (found := _INSTRUCTION.match(line))]
    return {
        "instructions": len(names),
        "shared": sum(name.startswith(_SHARED) for name in names),
        "exchanges": sum(name.startswith(_LANES) for name in names),
    }


def run(case: Access) -> Record:
    """Wavefronts and instructions of either side, and the fewest wavefronts that move as many bytes."""
    from bench.whole_kernels import LOWERING, lower_kernel
    from triton_linear.dialect import encodings
    from triton_linear.dialect.linear_layout import REGISTER
    from triton_linear.lowering.interpreter.memory import SimulationError
    from triton_linear.lowering.plan.element import element_type
    from triton_linear.tools.support.compile import lower, to_triton

    element = element_type(case.element)
    layout = encodings.held_layout_of(case.registers, case.shape, element.bits)
    zero = np.zeros((1, 1), np.uint64)
    given: list[Any] = [[zero] * layout.in_dim_size(REGISTER)] if case.is_store else []
    found: dict[str, Any] = {}
    for way in ("stock", "ours"):
        kernel = lower_kernel(
            _text(case, packed=False), "access.ttgir", case.target, LOWERING if way == "ours" else None
        )
        try:
            counts = kernel.run(given).counts
        except SimulationError as error:
            return {"not_interpreted": str(error)}
        stage = "ptx" if case.target.startswith("cuda") else "amdgcn"
        words = lower_kernel(
            _text(case, packed=True), "access.ttgir", case.target, LOWERING if way == "ours" else None
        )
        listing = lower(to_triton(words.embedded), case.target, stage).text(stage)
        found[way] = {
            "wavefronts": counts.wavefronts,
            "widths": sorted({access.width for access in counts.accesses}),
            **_instructions(listing),
        }
        moved = max(counts.bytes_loaded, counts.bytes_stored)
        found["fewest"] = min(found.get("fewest", moved), moved // 128)
    return found


def report(records: Mapping[str, Record]) -> Part:
    """A row for each case."""
    lines: list[Row] = []
    shorter = 0
    for key, record in records.items():
        if "stock" not in record:
            lines.append(f"| {key} | | not interpreted | | | |")
            continue
        stock, ours = record["stock"], record["ours"]
        shorter += ours["wavefronts"] < stock["wavefronts"]
        shared = f"{stock['shared']} → {ours['shared']}" + (
            f" + {ours['exchanges']} exchanges" if ours["exchanges"] else ""
        )
        counts = f"{stock['instructions']} → {ours['instructions']}"
        lines.append((key, record["fewest"], stock["wavefronts"], ours["wavefronts"], shared, counts))
    rows = table("access | fewest | stock | ours | shared | instructions", lines)
    head = (
        "Wavefronts of a CTA of four warps: the fewest that move as many bytes, those of stock Triton, ours. "
        "`shared` and `instructions` count the listing (PTX, or AMD's assembly), with the other end of the "
        "access packed in words. Matrices of bytes (sm_100) are not interpreted: such accesses "
        "stay as they are.\n\n"
    )
    return Part(f"Accesses to shared memory: {shorter} of {len(records)} shorter", head + "\n".join(rows))


TABLE = Table("local", timed=False, gpu=False, cases=cases, run=run, report=report)

if __name__ == "__main__":
    print(report({case.key: run(case) for case in cases()}).markdown)
