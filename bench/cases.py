"""One hundred kernels that do nothing but convert a layout, from every distributed encoding and element type.

A kernel loads a tensor in layout A, converts it to B and stores it from there, so whatever the layouts the
result is the input again. Looped kernels convert back and forth, adding to the elements on the way, which
reuses scratch memory and exercises the barriers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon._runtime import GluonASTSource

from .harness.report import sizes

SEED = 20260101
COUNT = 100
LOOP_STEPS = 5

# Element type -> (bits of the integer in memory, Gluon's type or None where that is the integer).
ELEMENTS: dict[str, tuple[int, Any]] = {
    "i1": (8, None),
    "i8": (8, None),
    "f8E4M3FN": (8, gl.float8e4nv),
    "f8E5M2": (8, gl.float8e5),
    "i16": (16, None),
    "f16": (16, gl.float16),
    "bf16": (16, gl.bfloat16),
    "i32": (32, None),
    "f32": (32, gl.float32),
    "i64": (64, None),
    "f64": (64, gl.float64),
    "ptr": (32, None),
}


@gluon.jit
def through(x, target, element: gl.constexpr, kind: gl.constexpr, base):
    """x in the layout `target`, moved as `element` with the same bits, as x != 0 where `kind` is i1, or as the
    pointers `base` + x."""
    if kind == "i1":
        return gl.convert_layout(x != 0, target).to(x.dtype)
    elif kind == "ptr":
        return ((gl.convert_layout(base + x, target).to(gl.int64) - base.to(gl.int64)) >> 2).to(x.dtype)
    elif element is None:
        return gl.convert_layout(x, target)
    else:
        return gl.convert_layout(x.to(element, bitcast=True), target).to(x.dtype, bitcast=True)


@gluon.jit
def convert_matrix(
    source,
    destination,
    steps,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    A: gl.constexpr,
    B: gl.constexpr,
    ELEMENT: gl.constexpr,
    KIND: gl.constexpr,
    LOOP: gl.constexpr,
):
    """Rank two. A loop adds its step between the conversions, so that they cannot be folded."""
    a_offsets = (
        gl.arange(0, ROWS, gl.SliceLayout(1, A))[:, None] * COLUMNS
        + gl.arange(0, COLUMNS, gl.SliceLayout(0, A))[None, :]
    )
    b_offsets = (
        gl.arange(0, ROWS, gl.SliceLayout(1, B))[:, None] * COLUMNS
        + gl.arange(0, COLUMNS, gl.SliceLayout(0, B))[None, :]
    )
    x = gl.load(source + a_offsets)
    if LOOP:
        for step in range(steps):
            y = through(x, B, ELEMENT, KIND, source) + step.to(x.dtype)
            x = through(y, A, ELEMENT, KIND, source) + step.to(x.dtype)
    gl.store(destination + b_offsets, through(x, B, ELEMENT, KIND, source))


@gluon.jit
def convert_vector(
    source,
    destination,
    steps,
    SIZE: gl.constexpr,
    A: gl.constexpr,
    B: gl.constexpr,
    ELEMENT: gl.constexpr,
    KIND: gl.constexpr,
    LOOP: gl.constexpr,
):
    """Rank one, as `convert_matrix`."""
    a_offsets = gl.arange(0, SIZE, A)
    b_offsets = gl.arange(0, SIZE, B)
    x = gl.load(source + a_offsets)
    if LOOP:
        for step in range(steps):
            y = through(x, B, ELEMENT, KIND, source) + step.to(x.dtype)
            x = through(y, A, ELEMENT, KIND, source) + step.to(x.dtype)
    gl.store(destination + b_offsets, through(x, B, ELEMENT, KIND, source))


@dataclass(frozen=True)
class Case:
    """One kernel: a tensor of `shape` and `element` goes from `source` to `destination` (family, layout)."""

    index: int
    shape: tuple[int, ...]
    element: str
    warps: int
    source: tuple[str, Any]
    destination: tuple[str, Any]
    loop: bool

    @property
    def name(self) -> str:
        """A readable identifier, unique by its leading index."""
        size = sizes(self.shape)
        loop = ", looped" if self.loop else ""
        families = f"{self.source[0]} -> {self.destination[0]}"
        return f"{self.index:03d} {families}, {size} {self.element}, {self.warps} warps{loop}"

    @property
    def bits(self) -> int:
        """Width of the integers in memory."""
        return ELEMENTS[self.element][0]

    @property
    def kernel(self) -> Any:
        """The Gluon function."""
        return convert_vector if len(self.shape) == 1 else convert_matrix

    def constants(self) -> dict[str, Any]:
        """The kernel's constexpr arguments."""
        sizes = ("SIZE",) if len(self.shape) == 1 else ("ROWS", "COLUMNS")
        return dict(zip(sizes, self.shape, strict=True)) | {
            "A": self.source[1],
            "B": self.destination[1],
            "ELEMENT": ELEMENTS[self.element][1],
            "KIND": self.element,
            "LOOP": self.loop,
        }

    def compile_source(self) -> GluonASTSource:
        """The kernel as `triton.compile` takes it."""
        types = {"source": f"*i{self.bits}", "destination": f"*i{self.bits}", "steps": "i32"}
        signature = {name: types.get(name, "constexpr") for name in self.kernel.arg_names}
        attributes = {(index,): [["tt.divisibility", 16]] for index in (0, 1)}
        return GluonASTSource(self.kernel, signature, constexprs=self.constants(), attrs=attributes)


def log2(value: int) -> int:
    """The exponent of a power of two."""
    return value.bit_length() - 1


def factors(rng: random.Random, total: int, rank: int) -> list[int]:
    """A random way to write a power of two as a product of `rank` powers of two."""
    result = [1] * rank
    for _ in range(log2(total)):
        result[rng.randrange(rank)] *= 2
    return result


def blocked(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """A blocked layout, often larger than the tensor in one direction and so with copies."""
    rank = len(shape)
    order = rng.sample(range(rank), rank)
    size = [1] * rank
    size[order[0]] = rng.choice((1, 2, 4, 8))
    if rank > 1:
        size[order[1]] = rng.choice((1, 1, 2, 4))
    return gl.BlockedLayout(size, factors(rng, 32, rank), factors(rng, warps, rank), order)


def slice_of_blocked(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """A slice of a blocked layout of one rank more: lanes and warps of the lost axis hold copies."""
    dim = rng.randrange(len(shape) + 1)
    return gl.SliceLayout(dim, blocked(rng, (*shape[:dim], 4, *shape[dim:]), bits, warps))


def mma_v2(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """The accumulator of mma.sync m16n8."""
    return gl.NVMMADistributedLayout([2, 0], factors(rng, warps, 2), [16, 8])


def mma_v3(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """The accumulator of wgmma m64, whose warps come in groups of four along the rows."""
    width = rng.choice([n for n in (8, 16, 32, 64) if n <= shape[1]])
    return gl.NVMMADistributedLayout([3, 0], [4, warps // 4], [16, width, 16])


def slice_of_mma(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """What a reduction of an accumulator leaves."""
    return gl.SliceLayout(rng.randrange(2), mma_v2(rng, (16, 16), bits, warps))


def dot_operand(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """An operand of mma.sync in registers; warps along the other operand's axis hold copies."""
    return gl.DotOperandLayout(rng.randrange(2), mma_v2(rng, shape, bits, warps), max(1, 32 // bits))


def dot_operand_v3(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """The left operand of wgmma in registers."""
    return gl.DotOperandLayout(0, mma_v3(rng, shape, bits, warps), 32 // bits)


def linear(rng: random.Random, shape: tuple[int, ...], bits: int, warps: int) -> Any:
    """The tensor's unit vectors, dealt at random to registers, lanes and warps; zero vectors among them."""
    units = [
        [(1 << bit) * (axis == dim) for axis in range(len(shape))]
        for dim in range(len(shape))
        for bit in range(log2(shape[dim]))
    ]
    rng.shuffle(units)
    zero = [0] * len(shape)
    lanes, warp_bases = [], []
    for bases, count in ((lanes, 5), (warp_bases, log2(warps))):
        for _ in range(count):
            bases.append(units.pop() if units and rng.random() < 0.85 else list(zero))
    registers = units + [list(zero)] * (rng.random() < 0.25)
    rng.shuffle(registers)
    return gl.DistributedLinearLayout(registers, lanes, warp_bases, [], list(shape))


def nearby(rng: random.Random, layout: Any) -> Any:
    """A linear layout with the same warps: the lanes permuted, or one of them exchanged with a register."""
    registers, lanes = list(layout.reg_bases), list(layout.lane_bases)
    if registers and rng.random() < 0.6:
        register, lane = rng.randrange(len(registers)), rng.randrange(len(lanes))
        registers[register], lanes[lane] = lanes[lane], registers[register]
    else:
        rng.shuffle(lanes)
    return gl.DistributedLinearLayout(registers, lanes, layout.warp_bases, [], layout.shape)


Family = Callable[[random.Random, tuple[int, ...], int, int], Any]
MATRIX_FAMILIES: tuple[Family, ...] = (
    blocked,
    slice_of_blocked,
    mma_v2,
    mma_v3,
    dot_operand,
    dot_operand_v3,
    linear,
)
VECTOR_FAMILIES: tuple[Family, ...] = (blocked, slice_of_blocked, slice_of_mma, linear)


def families(rank: int, bits: int, warps: int) -> list[Family]:
    """The families that exist for a rank, an element width and a number of warps."""
    if rank == 1:
        return list(VECTOR_FAMILIES)
    absent: set[Family] = set()
    if warps < 4:
        absent |= {mma_v3, dot_operand_v3}
    if bits > 32:
        absent |= {dot_operand, dot_operand_v3}
    if bits not in (8, 16):
        absent.add(dot_operand_v3)
    return [family for family in MATRIX_FAMILIES if family not in absent]


def draw(rng: random.Random, index: int) -> Case:
    """The case of an index; types go round, every seventh case is a vector, two in five loop."""
    element = list(ELEMENTS)[index % len(ELEMENTS)]
    bits = ELEMENTS[element][0]
    warps = rng.choice((1, 2, 4, 4, 8))
    rank = 1 if index % 7 == 6 else 2
    if rank == 1:
        shape: tuple[int, ...] = (rng.choice((16, 128, 512, 1024)),)
    else:
        # At most 64 registers of 64 bits a thread, and 64 KiB in all.
        limit = min(32 * warps * 64, (64 << 10) * 8 // bits)
        choices = [
            (rows, columns)
            for rows in (16, 32, 64, 128)
            for columns in (16, 32, 64, 128)
            if rows * columns <= limit
        ]
        shape = rng.choice(choices)
    loop = index % 5 in (1, 3) and element not in ("ptr", "i1")
    if index % 7 in (1, 4):
        layout = linear(rng, shape, bits, warps)
        return Case(index, shape, element, warps, ("linear", layout), ("nearby", nearby(rng, layout)), loop)
    known = families(rank, bits, warps)
    source = known[index % len(known)]
    others = [family for family in known if family is not source] + [blocked, linear]
    destination = rng.choice(others)
    pair = [(family.__name__, family(rng, shape, bits, warps)) for family in (source, destination)]
    return Case(index, shape, element, warps, pair[0], pair[1], loop)


def cases(count: int = COUNT) -> list[Case]:
    """The first `count` cases; the same ones in every run."""
    rng = random.Random(SEED)
    return [draw(rng, index) for index in range(count)]
