"""Random programs: chains of conversions, with loops, branches and other users of shared memory
between them."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence

from bench.fuzz.encodings import Vector, bases_of, is_linear, layout_drawn
from bench.fuzz.evaluate import REDUCTIONS
from bench.fuzz.program import (
    Add,
    Branch,
    Convert,
    Loop,
    Park,
    Program,
    Reduce,
    Reshaped,
    Scan,
    Shared,
    Step,
    Steps,
    Transposed,
)
from bench.fuzz.random_layouts import ELEMENTS, Columns, blocked_encoding, kernel_encoding, random_columns
from bench.fuzz.write import write
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP
from triton_linear.dialect.triton_versions import SUMS_OF_BITS, installed_release
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called

MOST_BYTES = 8 << 10
MOST_REGISTERS = 32
MOST_CONVERSIONS = 12
MAX_DEPTH = 2


def draw_program(rng: random.Random, target_name: str, widths: Sequence[int] = (1, 2, 4, 4, 8)) -> Program:
    """A program of one to MOST_CONVERSIONS conversions, with a number of warps out of `widths`."""
    target = target_called(target_name)
    while True:
        warps = rng.choice(widths)
        element = rng.choice((*ELEMENTS, "f32", "i32", "f16"))
        threads = target.lanes.bit_length() + warps.bit_length() - 2
        most = (MOST_BYTES * 8 // element_type(element).bits).bit_length() - 1
        bits = min(max(3, threads + rng.choice((-2, -1, 0, 1, 1, 2, 2, 3, 3, 4))), most, 12)
        shape = _shape(rng, bits, rng.choice((1, 2, 2, 2, 3)))
        drawer = _Drawer(rng, target, warps, element)
        source = drawer.encoding(shape)
        steps = drawer.steps(shape, source, 0)
        program = Program(target.name, warps, shape, element, source, steps)
        if 1 <= write(program).conversions <= MOST_CONVERSIONS:
            return program


def _shape(rng: random.Random, bits: int, rank: int) -> tuple[int, ...]:
    if rank == 2 and rng.random() < 0.6:
        return (1 << (bits // 2), 1 << (bits - bits // 2))
    cuts = sorted(rng.randint(0, bits) for _ in range(rank - 1))
    return tuple(1 << (b - a) for a, b in zip([0, *cuts], [*cuts, bits], strict=True))


class _Drawer:
    """Draws the parts of one program."""

    def __init__(self, rng: random.Random, target: Target, warps: int, element: str) -> None:
        self.rng = rng
        self.target = target
        self.lanes = target.lanes
        self.warps = warps
        self.element = element
        self.in_memory = element != "i1" and not element.startswith("!tt.ptr")

    def encoding(self, shape: Sequence[int], like: str = "", plain: bool = False) -> str:
        """A distributed encoding, maybe similar to `like`; `plain`: no sums of basis vectors."""
        if self.rng.random() < 0.4:
            for _ in range(4):
                encoding = kernel_encoding(self.rng, self.lanes, self.warps, shape)
                if layout_drawn(encoding, shape, self.element).in_dim_size(REGISTER) <= MOST_REGISTERS:
                    return encoding
        return self.linear(shape, like, plain)

    def linear(self, shape: Sequence[int], like: str = "", plain: bool = False) -> str:
        """A `#ttg.linear`, maybe similar to `like`."""
        general = not plain and self.rng.random() < 0.35 and installed_release() in SUMS_OF_BITS
        similar = _columns(like) if like and is_linear(like) and not plain else None
        columns = random_columns(self.rng, shape, self.lanes, self.warps, general, similar)
        return columns.text(len(shape))

    def blocked(self, rank: int) -> str:
        """A `#ttg.blocked`."""
        return blocked_encoding(self.rng, self.lanes, self.warps, rank)

    def scanned(self, shape: Sequence[int]) -> str:
        """A `#ttg.blocked` that exceeds the tensor in no dimension, or "": Triton cannot scan with others."""
        for _ in range(16):
            encoding = self.blocked(len(shape))
            sizes = [
                json.loads(found) for found in re.findall(r"(?:PerThread|PerWarp|PerCTA) = (\[.*?\])", encoding)
            ]
            if all(math.prod(each) <= size for *each, size in zip(*sizes, shape, strict=True)):
                return encoding
        return ""

    def memory(self, shape: Sequence[int]) -> str:
        """An encoding of shared memory."""
        rank = len(shape)
        order = list(range(rank))
        self.rng.shuffle(order)
        bits = element_type(self.element).bits
        nvidia = self.target.vendor == "nvidia"
        if rank == 2 and shape[0] >= 8 and bits <= 32 and nvidia and self.rng.random() < 0.25:
            width = self.rng.choice((32, 64, 128))
            transposed = self.rng.random() < 0.5 and bits == 16
            if shape[0 if transposed else 1] * bits // 8 >= width and shape[1 if transposed else 0] >= 8:
                return (
                    f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, "
                    f"transposed = {'true' if transposed else 'false'}, elementBitWidth = {bits}}}>"
                )
        vec, per_phase, most = (1 << self.rng.randint(0, 3) for _ in range(3))
        return (
            f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {most}, order = {order}}}>"
        )

    def steps(self, shape: Sequence[int], given: str, depth: int, in_loop: bool = False) -> Steps:
        """A few steps on a tensor whose layout is `given`; "" if that is unknown."""
        found: list[Step] = []
        for _ in range(self.rng.choice((1, 2, 2, 3, 4) if depth else (2, 3, 4, 5))):
            step = self.step(shape, given, depth, in_loop)
            found.append(step)
            given = getattr(step, "encoding", "")
            if isinstance(step, Convert) and self.rng.random() < 0.7:
                # Without an operation between them, the passes would merge two conversions.
                found.append(Add(self.rng.randint(1, 100)))
        return tuple(found)

    def step(self, shape: Sequence[int], given: str, depth: int, in_loop: bool) -> Step:
        """A step on a tensor whose layout is `given`."""
        rng = self.rng
        kinds: list[str] = ["convert"] * 4
        if self.in_memory:
            kinds += ["shared", "shared", "reduce", "scan"]
        if depth < MAX_DEPTH:
            kinds += ["loop", "loop", "transposed", "transposed", "reshaped", "reshaped"]
            kinds += ["branch"] * (3 if in_loop else 1)
            kinds += ["park"] * (2 if self.in_memory else 0)
        kind = rng.choice(kinds)
        rank = len(shape)
        if kind == "shared":
            source = self.encoding(shape, given, plain=True)
            destination = self.encoding(shape, plain=True)
            return Shared(self.memory(shape), source, destination, rng.random() < 0.4)
        if kind == "reduce":
            axis = rng.randrange(rank)
            rest = (*shape[:axis], *shape[axis + 1 :])
            inner = (
                self.steps(rest, "", depth + 1, in_loop)
                if rest and depth < MAX_DEPTH and rng.random() < 0.6
                else ()
            )
            return Reduce(axis, rng.choice(list(REDUCTIONS)), self.blocked(rank), inner)
        if kind == "scan":
            axis = rng.randrange(rank)
            if encoding := self.scanned(shape):
                return Scan(axis, encoding, rng.random() < 0.3)
        if kind == "loop":
            encoding = self.encoding(shape, given)
            loop = rng.choice(("for", "for", "while"))
            return Loop(loop, rng.randint(2, 3), encoding, self.steps(shape, encoding, depth + 1, True))
        if kind == "transposed" and rank > 1:
            order = list(range(rank))
            while order == sorted(order):
                rng.shuffle(order)
            transposed = tuple(shape[d] for d in order)
            return Transposed(
                tuple(order),
                self.linear(shape, given),
                self.linear(transposed),
                self.steps(transposed, "", depth + 1, in_loop),
            )
        if kind == "reshaped":
            bits = sum(size.bit_length() - 1 for size in shape)
            other = _shape(rng, bits, rng.choice((1, 2, 3)))
            if other != tuple(shape):
                encoding, inner_encoding = self.linear(shape, plain=True), self.linear(other, plain=True)
                return Reshaped(other, encoding, inner_encoding, self.steps(other, "", depth + 1, in_loop))
        if kind == "branch":
            encoding = self.encoding(shape, given)
            return Branch(
                encoding,
                self.steps(shape, given, depth + 1, in_loop),
                self.steps(shape, given, depth + 1, in_loop),
            )
        if kind == "park":
            kept = self.memory(shape) if rng.random() < 0.5 else ""
            source = self.encoding(shape, plain=True)
            return Park(
                kept,
                source,
                self.encoding(shape, plain=bool(kept)),
                self.steps(shape, given, depth + 1, in_loop),
            )
        return Convert(self.encoding(shape, given))


def _columns(encoding: str) -> Columns:
    """The basis vectors of a `#ttg.linear`, each with at most one nonzero coordinate."""

    def vector(coordinates: Vector) -> tuple[int, int]:
        return next(((d, by) for d, by in enumerate(coordinates) if by), (0, 0))

    bases = bases_of(encoding)
    return Columns(*(tuple(map(vector, bases[place])) for place in (REGISTER, LANE, WARP, BLOCK)))
