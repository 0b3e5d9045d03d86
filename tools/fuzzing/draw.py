"""Random programs: chains of conversions, with loops, branches and other users of shared memory among them."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP
from triton_linear.dialect.triton_versions import SUMS_OF_BITS, installed_release
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.fuzzing.encodings import Vector, bases_of, is_linear, layout_drawn
from triton_linear.tools.fuzzing.evaluate import REDUCTIONS
from triton_linear.tools.fuzzing.program import (
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
from triton_linear.tools.fuzzing.random_layouts import (
    ELEMENTS,
    Columns,
    blocked_encoding,
    kernel_encoding,
    random_columns,
)
from triton_linear.tools.fuzzing.write import write

MOST_BYTES = 8 << 10
MOST_REGISTERS = 32
MOST_CONVERSIONS = 12
DEEPEST = 2


def draw_program(
    rng: random.Random, target_name: str, ctas: int = 1, widths: Sequence[int] = (1, 2, 4, 4, 8)
) -> Program:
    """A program of one to MOST_CONVERSIONS conversions, in as many warps as one of `widths`; in clusters of
    CTAs, with no other user of memory."""
    target = target_called(target_name)
    while True:
        warps = rng.choice(widths)
        element = rng.choice((*ELEMENTS, "f32", "i32", "f16"))
        threads = target.lanes.bit_length() + warps.bit_length() + ctas.bit_length() - 3
        most = (MOST_BYTES * 8 // element_type(element).bits).bit_length() - 1
        bits = min(max(3, threads + rng.choice((-2, -1, 0, 1, 1, 2, 2, 3, 3, 4))), most, 12)
        shape = _shape(rng, bits, rng.choice((1, 2, 2, 2, 3)))
        drawer = _Drawer(rng, target, warps, element, ctas)
        source = drawer.encoding(shape)
        steps = drawer.steps(shape, source, 0)
        program = Program(target.name, warps, shape, element, source, steps, ctas=ctas)
        if 1 <= write(program).conversions <= MOST_CONVERSIONS:
            return program


def _shape(rng: random.Random, bits: int, rank: int) -> tuple[int, ...]:
    if rank == 2 and rng.random() < 0.6:
        return (1 << (bits // 2), 1 << (bits - bits // 2))
    cuts = sorted(rng.randint(0, bits) for _ in range(rank - 1))
    return tuple(1 << (b - a) for a, b in zip([0, *cuts], [*cuts, bits], strict=True))


class _Drawer:
    """Draws the parts of one program."""

    def __init__(self, rng: random.Random, target: Target, warps: int, element: str, ctas: int = 1) -> None:
        self.rng = rng
        self.target = target
        self.lanes = target.lanes
        self.warps = warps
        self.element = element
        self.ctas = ctas
        # What Triton makes of memory of several CTAs is not interpreted.
        self.in_memory = element != "i1" and not element.startswith("!tt.ptr") and ctas == 1

    def encoding(self, shape: Sequence[int], kin: str = "", plain: bool = False) -> str:
        """Any distributed encoding; `plain`: no sums of basis vectors."""
        if self.ctas == 1 and self.rng.random() < 0.4:
            for _ in range(4):
                encoding = kernel_encoding(self.rng, self.lanes, self.warps, shape, self.target.name)
                if layout_drawn(encoding, shape, self.element).in_dim_size(REGISTER) <= MOST_REGISTERS:
                    return encoding
        return self.linear(shape, kin, plain)

    def linear(self, shape: Sequence[int], kin: str = "", plain: bool = False) -> str:
        """A `#ttg.linear`."""
        general = not plain and self.rng.random() < 0.35 and installed_release() in SUMS_OF_BITS
        like = _columns(kin) if kin and is_linear(kin) and not plain else None
        columns = random_columns(self.rng, shape, self.lanes, self.warps, general, like, self.ctas)
        return columns.text(len(shape))

    def blocked(self, rank: int) -> str:
        """A `#ttg.blocked`."""
        return blocked_encoding(self.rng, self.lanes, self.warps, rank)

    def scanned(self, shape: Sequence[int]) -> str:
        """A `#ttg.blocked` nowhere larger than the tensor, if one is found: Triton cannot scan others."""
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
            turned = self.rng.random() < 0.5 and bits == 16
            if shape[0 if turned else 1] * bits // 8 >= width and shape[1 if turned else 0] >= 8:
                return (
                    f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, "
                    f"transposed = {'true' if turned else 'false'}, elementBitWidth = {bits}}}>"
                )
        vec, per_phase, most = (1 << self.rng.randint(0, 3) for _ in range(3))
        return (
            f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {most}, order = {order}}}>"
        )

    def steps(self, shape: Sequence[int], kin: str, depth: int, in_loop: bool = False) -> Steps:
        """A few steps on a tensor that comes in layout `kin`, as far as that is known."""
        found: list[Step] = []
        for _ in range(self.rng.choice((1, 2, 2, 3, 4) if depth else (2, 3, 4, 5))):
            step = self.step(shape, kin, depth, in_loop)
            found.append(step)
            kin = getattr(step, "encoding", "")
            if isinstance(step, Convert) and self.rng.random() < 0.7:
                # Two conversions on end are one to the passes.
                found.append(Add(self.rng.randint(1, 100)))
        return tuple(found)

    def step(self, shape: Sequence[int], kin: str, depth: int, in_loop: bool) -> Step:
        """One step."""
        rng = self.rng
        kinds: list[str] = ["convert"] * 4
        if self.in_memory:
            kinds += ["shared", "shared", "reduce", "scan"]
        if depth < DEEPEST:
            kinds += ["loop", "loop", "transposed", "transposed", "reshaped", "reshaped"]
            kinds += ["branch"] * (3 if in_loop else 1)
            kinds += ["park"] * (2 if self.in_memory else 0)
        kind = rng.choice(kinds)
        rank = len(shape)
        if kind == "shared":
            source = self.encoding(shape, kin, plain=True)
            there = self.encoding(shape, plain=True)
            return Shared(self.memory(shape), source, there, rng.random() < 0.4)
        if kind == "reduce":
            axis = rng.randrange(rank)
            rest = (*shape[:axis], *shape[axis + 1 :])
            inner = (
                self.steps(rest, "", depth + 1, in_loop)
                if rest and depth < DEEPEST and rng.random() < 0.6
                else ()
            )
            return Reduce(axis, rng.choice(list(REDUCTIONS)), self.blocked(rank), inner)
        if kind == "scan":
            axis = rng.randrange(rank)
            if encoding := self.scanned(shape):
                return Scan(axis, encoding, rng.random() < 0.3)
        if kind == "loop":
            encoding = self.encoding(shape, kin)
            how = rng.choice(("for", "for", "while"))
            return Loop(how, rng.randint(2, 3), encoding, self.steps(shape, encoding, depth + 1, True))
        if kind == "transposed" and rank > 1:
            order = list(range(rank))
            while order == sorted(order):
                rng.shuffle(order)
            turned = tuple(shape[d] for d in order)
            return Transposed(
                tuple(order),
                self.linear(shape, kin),
                self.linear(turned),
                self.steps(turned, "", depth + 1, in_loop),
            )
        if kind == "reshaped":
            bits = sum(size.bit_length() - 1 for size in shape)
            other = _shape(rng, bits, rng.choice((1, 2, 3)))
            if other != tuple(shape):
                encoding, inner_encoding = self.linear(shape, plain=True), self.linear(other, plain=True)
                return Reshaped(other, encoding, inner_encoding, self.steps(other, "", depth + 1, in_loop))
        if kind == "branch":
            encoding = self.encoding(shape, kin)
            return Branch(
                encoding, self.steps(shape, kin, depth + 1, in_loop), self.steps(shape, kin, depth + 1, in_loop)
            )
        if kind == "park":
            kept = self.memory(shape) if rng.random() < 0.5 else ""
            source = self.encoding(shape, plain=True)
            return Park(
                kept, source, self.encoding(shape, plain=bool(kept)), self.steps(shape, kin, depth + 1, in_loop)
            )
        return Convert(self.encoding(shape, kin))


def _columns(encoding: str) -> Columns:
    """The basis vectors of a `#ttg.linear`, each of which moves in one dimension."""

    def vector(moves: Vector) -> tuple[int, int]:
        return next(((d, by) for d, by in enumerate(moves) if by), (0, 0))

    bases = bases_of(encoding)
    return Columns(*(tuple(map(vector, bases[place])) for place in (REGISTER, LANE, WARP, BLOCK)))
