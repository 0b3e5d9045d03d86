"""Kernels that gather what other CTAs of their cluster hold, as TTGIR text, and what they must give.

A kernel fills a tensor in layout A and random indices in layout B, gathers along an axis, and writes out what
each thread then holds, as those of conversions do (`kernels`). In its loop a number is added to the elements,
and the index moves on by the top bit of what was gathered: so each iteration stores anew and waits for the one
before, and random indices stay random. No iteration converts a layout.

The method "global" is what an author of Gluon kernels may write instead: through a buffer of global memory
that each cluster has twice, in turns, with `cluster.barrier()` between the stores and the loads.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bench.fuzz.evaluate import by_coordinates
from bench.fuzz.pairs import drawn_layout
from bench.fuzz.random_layouts import random_pair
from triton_linear.dialect.linear_layout import LANE, REGISTER
from triton_linear.lowering.gather.request import stays_in_cta

from ..harness import ttgir
from ..harness.report import sizes
from .kernels import BUFFERS, LANES, LOOP_STEPS, METHODS, Body, RandomCase, Words, flat, module_text

GLOBAL = "global"
MOST_REGISTERS = 32
LEAST_SIZE = 8
"""Elements on the axis, at least."""
ELEMENT_BITS = (8, 16, 32, 64)
SAME_LAYOUT = 0.5
"""The share of gathers whose index has the layout of the source."""
INDEX = "_index"
TIMED_CLUSTERS = 16
"""Clusters with indices of their own where a kernel is timed."""


@dataclass(frozen=True)
class GatherCase(RandomCase):
    """One kernel: layout A is the source's and layout B that of index and result, which have the same shape."""

    axis: int = 0

    @property
    def name(self) -> str:
        """See `RandomCase`."""
        along = f"axis {self.axis} of {sizes(self.pair.shape)} {self.pair.element}"
        same = "same layout" if self.pair.source == self.pair.destination else "two layouts"
        return f"{self.index:03d} {along}, {same}, {self.pair.family}, {self.warps} warps, {self.ctas} CTAs"

    @property
    def methods(self) -> tuple[str, ...]:
        """See `RandomCase`."""
        return (*METHODS, GLOBAL)

    @property
    def stock_is_right(self) -> bool:
        """It is wrong in Triton 3.9."""
        return False

    @property
    def size(self) -> int:
        """Elements on the axis."""
        return self.pair.shape[self.axis]

    @property
    def scratch(self) -> int:
        """Two buffers of the whole tensor."""
        return 2 * math.prod(self.pair.shape) * self.element.bits // 8

    @property
    def input_counts(self) -> tuple[int, ...]:
        """Those of the source and those of the index."""
        return self.register_counts

    def inputs(self) -> list[Words]:
        """Source and index."""
        return [self.source(), self._index_registers(self.indices(len(self.patterns())))]

    def timed_inputs(self) -> list[Words | None]:
        """Zeros, and indices that are as random as those of `inputs`."""
        return [None, self._index_registers(self.indices(TIMED_CLUSTERS))]

    def indices(self, clusters: int) -> npt.NDArray[np.int64]:
        """[cluster, *coordinates]: random ones over the whole axis."""
        rng = np.random.default_rng((self.index, 1))
        return rng.integers(0, self.size, (clusters, *self.pair.shape))

    def _index_registers(self, indices: npt.NDArray[np.int64]) -> Words:
        return self.registers(self.pair.destination, flat(indices).astype(np.uint64))

    def expected(self) -> Words:
        """What the kernel must end with: [cluster, thread, register of B]."""
        x = by_coordinates(self.patterns(), self.pair.shape)
        index = self.indices(len(x))
        for step in range(LOOP_STEPS):
            y = np.take_along_axis(x, index, self.axis + 1)
            index = (index + (y >> np.uint64(self.element.bits - 1)).astype(np.int64)) % self.size
            x = self.masked(x + np.uint64(step))
        return self.registers(self.pair.destination, flat(np.take_along_axis(x, index, self.axis + 1)))

    def text(self, target: str, method: str) -> str:
        """See `RandomCase`."""
        return gather_text(self, target, method)


def gather_cases(seed: int, count: int, clusters: Sequence[int]) -> list[GatherCase]:
    """`count` kernels in clusters of these sizes, of elements of 1, 2, 4 and 8 bytes, each of which asks other
    CTAs; the same seed, the same kernels."""
    rng = random.Random(f"gathers {seed}")
    kinds = itertools.cycle(itertools.product(ELEMENT_BITS, clusters))
    return [_drawn(rng, number, *next(kinds)) for number in range(count)]


def _drawn(rng: random.Random, number: int, bits: int, ctas: int) -> GatherCase:
    while True:
        warps = rng.choice((1, 2, 4, 8))
        pair = random_pair(rng, LANES, warps, ctas=ctas)
        if rng.random() < SAME_LAYOUT:
            pair = replace(pair, destination=pair.source)
        case = GatherCase(number, pair, warps, True, ctas, axis=rng.randrange(len(pair.shape)))
        usual = len(pair.shape) < 3 and case.size >= LEAST_SIZE and not pair.family.startswith("general")
        if not usual or case.element.bits != bits or pair.element.startswith("!tt.ptr"):
            continue
        source, index = (drawn_layout(pair, side) for side in (pair.source, pair.destination))
        if max(case.register_counts) <= MOST_REGISTERS and not stays_in_cta(source, index, case.axis):
            return case


def gather_text(case: GatherCase, target: str, method: str) -> str:
    """The module with the kernel `convert(source, filled, source_index, filled_index, out, drained, scratch,
    steps)`."""
    body, index_body = Body(case), Body(_of_indices(case), INDEX)
    index_body.lines = body.lines
    gathering = (_ThroughGlobal if method == GLOBAL else _Gathering)(case, body, index_body)
    gathering.write(body.fill(case.pair.source), index_body.fill(case.pair.destination))
    names = (*BUFFERS[:2], *(f"{name}{INDEX}" for name in BUFFERS[:2]), *BUFFERS[2:])
    pointers = [*((name, "i64") for name in names), ("scratch", body.bits)]
    return module_text(case, target, pointers, body.lines)


def _of_indices(case: GatherCase) -> RandomCase:
    """The case whose tensor is the index."""
    b = case.pair.destination
    return RandomCase(case.index, replace(case.pair, element="i32", source=b), case.warps, True, case.ctas)


class _Gathering:
    """Writes a loop of gathers, and one behind it that is drained."""

    def __init__(self, case: GatherCase, body: Body, index_body: Body) -> None:
        self.case, self.body, self.index_body = case, body, index_body
        self.a, self.b = case.pair.source, case.pair.destination

    def write(self, x: str, index: str) -> None:
        """Write it for the bits `x` and for `index`."""
        self.body.drain(self.loop(x, index), self.b)

    def loop(self, x: str, index: str) -> str:
        """The bits that are gathered in the end."""
        body = self.body
        types = f"{body.tensor(body.bits, self.a)}, {body.tensor('i32', self.b)}"
        zero, one = (body.add(f"arith.constant {n} : i32") for n in (0, 1))
        body.lines.append(
            f"%moved:2 = scf.for %step = {zero} to %steps step {one} "
            f"iter_args(%x = {x}, %i = {index}) -> ({types}) : i32 {{"
        )
        moved = self.moved("%i", self.gather("%x", "%i", "%step"))
        added = body.plus_step("%x", self.a)
        body.lines += [f"scf.yield {added}, {moved} : {types}", "}"]
        return self.gather("%moved#0", "%moved#1", "%steps")

    def gather(self, x: str, index: str, step: str) -> str:
        """The bits that are gathered in iteration `step`."""
        body, element = self.body, self.case.pair.element
        x = body.cast(x, self.a, back=False)
        types = [body.tensor(element, self.a), body.tensor("i32", self.b)]
        gathered = f"tt.gather {x}[{index}] {{axis = {self.case.axis} : i32}}"
        y = body.add(f"{gathered} : ({', '.join(types)}) -> {body.tensor(element, self.b)}")
        return body.cast(y, self.b, back=True)

    def moved(self, index: str, y: str) -> str:
        """The index, plus the top bit of `y`."""
        body, bits = self.body, self.case.element.bits
        top = self.arithmetic("shrui", y, self.constant(bits - 1, body.bits, self.b), body.bits, self.b)
        if bits != 32:
            types = f"{body.tensor(body.bits, self.b)} to {body.tensor('i32', self.b)}"
            top = body.add(f"arith.{'extui' if bits < 32 else 'trunci'} {top} : {types}")
        number = self.arithmetic("addi", index, top, "i32", self.b)
        return self.arithmetic("andi", number, self.constant(self.case.size - 1, "i32", self.b), "i32", self.b)

    def constant(self, value: int, element: str, encoding: str) -> str:
        """A tensor of one value."""
        return self.body.add(f"arith.constant dense<{value}> : {self.body.tensor(element, encoding)}")

    def arithmetic(self, operation: str, a: str, b: str, element: str, encoding: str) -> str:
        """An operation of two tensors."""
        return self.body.add(f"arith.{operation} {a}, {b} : {self.body.tensor(element, encoding)}")


class _ThroughGlobal(_Gathering):
    """The same through global memory, in which neighbours of a thread, or of a warp, lie side by side."""

    def write(self, x: str, index: str) -> None:
        """See `_Gathering`."""
        every = range(len(self.case.pair.shape))
        self.places = self.number(self.a, every)
        self.beside = self.number(self.b, [dim for dim in every if dim != self.case.axis])
        self.cluster = self.body.add("tt.get_program_id x : i32")
        super().write(x, index)

    def stride(self, dim: int) -> int:
        """Elements between neighbours of a dimension; it is 1 where the source's first basis vector lies."""
        shape, bases = self.case.pair.shape, dict(drawn_layout(self.case.pair, self.a).bases)
        vectors = [vector for vector in (*bases[REGISTER], *bases[LANE]) if any(vector)]
        fastest = next((d for d, by in enumerate(vectors[0]) if by), 0) if vectors else 0
        return 1 if dim == fastest else shape[fastest]

    def number(self, encoding: str, dims: Sequence[int]) -> str:
        """The places of elements, of which only some dimensions count."""
        total = self.constant(0, "i32", encoding)
        for dim in dims:
            coordinate = self.coordinate(encoding, dim)
            scaled = self.arithmetic(
                "muli", coordinate, self.constant(self.stride(dim), "i32", encoding), "i32", encoding
            )
            total = self.arithmetic("addi", total, scaled, "i32", encoding)
        return total

    def coordinate(self, encoding: str, dim: int) -> str:
        """The coordinate of each element along a dimension of a tensor of rank 1 or 2."""
        body, shape = self.body, self.case.pair.shape
        if len(shape) == 1:
            line = f"tt.make_range {{end = {shape[0]} : i32, start = 0 : i32}}"
            return body.add(f"{line} : {body.tensor('i32', encoding)}")
        flat = ttgir.tensor(shape[dim : dim + 1], "i32", ttgir.slice_of(1 - dim, encoding))
        numbers = body.add(f"tt.make_range {{end = {shape[dim]} : i32, start = 0 : i32}} : {flat}")
        expanded = ttgir.tensor([n if d == dim else 1 for d, n in enumerate(shape)], "i32", encoding)
        numbers = body.add(f"tt.expand_dims {numbers} {{axis = {1 - dim} : i32}} : {flat} -> {expanded}")
        return body.add(f"tt.broadcast {numbers} : {expanded} -> {body.tensor('i32', encoding)}")

    def gather(self, x: str, index: str, step: str) -> str:
        """See `_Gathering`: store, barrier of the cluster, load. A buffer is stored to again behind the barrier
        of the iteration between, to which all come when they have loaded."""
        body, element, count = self.body, self.body.bits, math.prod(self.case.pair.shape)
        one, two, size = (body.add(f"arith.constant {n} : i32") for n in (1, 2, count))
        turn = body.add(f"arith.andi {step}, {one} : i32")
        buffer = body.add(f"arith.muli {self.cluster}, {two} : i32")
        buffer = body.add(f"arith.addi {buffer}, {turn} : i32")
        offset = body.add(f"arith.muli {buffer}, {size} : i32")
        base = body.add(f"tt.addptr %scratch, {offset} : !tt.ptr<{element}>, i32")
        body.lines.append(
            f"tt.store {self.addresses(base, self.places, self.a)}, {x} : {self.pointers(self.a)}"
        )
        body.lines.append("ttng.cluster_barrier")
        stride = self.constant(self.stride(self.case.axis), "i32", self.b)
        along = self.arithmetic("muli", index, stride, "i32", self.b)
        places = self.arithmetic("addi", self.beside, along, "i32", self.b)
        return body.add(f"tt.load {self.addresses(base, places, self.b)} : {self.pointers(self.b)}")

    def pointers(self, encoding: str) -> str:
        """The type of addresses of elements."""
        return self.body.tensor(f"!tt.ptr<{self.body.bits}>", encoding)

    def addresses(self, base: str, places: str, encoding: str) -> str:
        """The addresses of places behind `base`."""
        type_ = self.pointers(encoding)
        bases = self.body.add(f"tt.splat {base} : !tt.ptr<{self.body.bits}> -> {type_}")
        return self.body.add(f"tt.addptr {bases}, {places} : {type_}, {self.body.tensor('i32', encoding)}")
