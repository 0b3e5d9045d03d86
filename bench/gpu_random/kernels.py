"""Kernels that only convert a layout, as TTGIR text, and what every register of every thread must hold then.

A kernel fills a tensor in layout A, converts it to B (and back and forth, adding to the elements on the way, if
it has a loop) and writes out what each thread then holds. Filling and draining are PTX that counts the thread's
registers, so no address is derived from a layout, and copies, which `tt.store` leaves out, are seen as well.
CTA t works on the t-th pattern of bits; in clusters, cluster t, whose CTAs hold a part of the tensor each.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.fuzz.pairs import drawn_layout
from bench.fuzz.random_layouts import Pair, random_pair
from triton_linear.dialect.linear_layout import REGISTER
from triton_linear.lowering.interpreter.verify import element_patterns, held_elements
from triton_linear.lowering.plan.element import ElementType, element_type

from ..harness import ttgir
from ..harness.report import sizes

METHODS = ("stock", "ours")
LANES = 32
LOOP_STEPS = 3
LOOPED = 0.4
MOST_REGISTERS = 128
THINNED = 0.7
RANDOM = 8
WARP_GROUP = 4
BESIDE, INSIDE = "beside", "inside"
"""Where a kernel with a warp-specialised region converts: in front of it, or in its only partition."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class RandomCase:
    """One kernel: the pair of layouts, whether it loops, the warps of a CTA that convert, the CTAs of a
    cluster, and, if it has a warp-specialised region, whether it converts BESIDE that or INSIDE."""

    index: int
    pair: Pair
    warps: int
    loop: bool
    ctas: int = 1
    region: str = ""

    @property
    def own_warps(self) -> int:
        """The warps of a CTA that are the kernel's own, of no partition."""
        return WARP_GROUP if self.region == INSIDE else self.warps

    @property
    def partition_warps(self) -> int:
        """The warps of the partition."""
        return {BESIDE: WARP_GROUP, INSIDE: self.warps}.get(self.region, 0)

    @property
    def all_warps(self) -> int:
        """The warps of a CTA, those of the partition too, which Triton fills up to whole warp groups then."""
        both = self.own_warps + self.partition_warps
        return -(-both // WARP_GROUP) * WARP_GROUP if self.region else both

    @property
    def first_warp(self) -> int:
        """The first warp of a CTA that converts.

        Triton places a partition behind the kernel's own warps, and fills its warp group with partitions that
        do nothing. Those of more warps are first, so a single warp comes behind two that do nothing.
        """
        return self.own_warps + (2 if self.warps == 1 else 0) if self.region == INSIDE else 0

    @property
    def name(self) -> str:
        """A readable identifier, unique by its leading index."""
        size = sizes(self.pair.shape)
        loop = ", looped" if self.loop else ""
        clusters = f", {self.ctas} CTAs" if self.ctas > 1 else ""
        what = f"{self.pair.family}, {size} {self.pair.element}, {self.warps} warps"
        region = f", {self.region} a region" if self.region else ""
        return f"{self.index:03d} {what}{clusters}{loop}{region}"

    @property
    def element(self) -> ElementType:
        """What the tensor holds."""
        return element_type(self.pair.element)

    def patterns(self) -> Words:
        """What the tensor holds, a row for each cluster: those that tell its elements apart, then random
        ones."""
        size = int(np.prod(self.pair.shape))
        telling = element_patterns(size, self.element.bits)
        noise = np.random.default_rng(self.index).integers(0, 1 << 64, (RANDOM, size), np.uint64)
        return np.concatenate([telling, self.masked(noise)])

    def masked(self, words: Words) -> Words:
        """What an element keeps of each."""
        return words & np.uint64((1 << self.element.bits) - 1)

    def registers(self, encoding: str, patterns: Words) -> Words:
        """[cluster, thread, register] of a tensor in one of the pair's layouts, as this was drawn."""
        layout = drawn_layout(self.pair, encoding)
        ctas = [held_elements(layout, LANES, self.warps, cta) for cta in range(self.ctas)]
        held = np.concatenate(ctas, axis=1)
        return np.ascontiguousarray(patterns[:, held].swapaxes(1, 2))

    @property
    def register_counts(self) -> tuple[int, int]:
        """Elements that a thread holds in A and in B."""
        a, b = (drawn_layout(self.pair, e) for e in (self.pair.source, self.pair.destination))
        return a.in_dim_size(REGISTER), b.in_dim_size(REGISTER)

    def text(self, target: str, method: str) -> str:
        """The module, as one of the methods compiles it."""
        return kernel_text(self, target)

    def inputs(self) -> list[Words]:
        """The tensors that the kernel begins with: [cluster, thread, register] of each."""
        return [self.source()]

    @property
    def input_counts(self) -> tuple[int, ...]:
        """Elements that a thread holds of each input."""
        return self.register_counts[:1]

    def source(self) -> Words:
        """The tensor that the kernel fills: [cluster, thread, register of A]."""
        return self.registers(self.pair.source, self.patterns())

    def expected(self) -> Words:
        """What it must end with: [cluster, thread, register of B]."""
        added = np.uint64(LOOP_STEPS * (LOOP_STEPS - 1) if self.loop else 0)
        return self.registers(self.pair.destination, self.masked(self.patterns() + added))


def random_cases(seed: int, count: int) -> list[RandomCase]:
    """`count` kernels of at most MOST_REGISTERS elements a thread; the same seed, the same kernels.

    Pairs of general F2 matrices are thinned out, as stock Triton cannot compile 2 in 5 of them.
    """
    rng = random.Random(seed)
    cases: list[RandomCase] = []
    while len(cases) < count:
        warps = rng.choice((1, 2, 4, 8))
        case = RandomCase(len(cases), random_pair(rng, LANES, warps), warps, rng.random() < LOOPED)
        general, registers = case.pair.family.startswith("general"), case.register_counts
        if max(registers) <= MOST_REGISTERS and not (general and rng.random() < THINNED):
            cases.append(case)
    return cases


def cluster_cases(seed: int, count: int, sizes: Sequence[int], region: str = "") -> list[RandomCase]:
    """`count` kernels that loop, in clusters of these sizes, each of which converts what its CTAs hold, with
    the `region` of `RandomCase`; the same seed, the same kernels."""
    rng = random.Random(seed)
    cases: list[RandomCase] = []
    while len(cases) < count:
        warps, ctas = rng.choice((4, 8) if region == BESIDE else (1, 2, 4, 8)), rng.choice(tuple(sizes))
        pair = random_pair(rng, LANES, warps, ctas=ctas)
        case = RandomCase(len(cases), pair, warps, loop=True, ctas=ctas, region=region)
        if max(case.register_counts) <= MOST_REGISTERS:
            cases.append(case)
    return cases


def flat(tensors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[cluster, element], dimension 0 fastest, of tensors by their coordinates."""
    rows: npt.NDArray[Any] = tensors.transpose(0, *range(tensors.ndim - 1, 0, -1)).reshape(len(tensors), -1)
    return rows


def _next_place(threads: int, first_thread: int, registers: int, first: int, counters: int) -> str:
    """PTX that finds a thread's next word behind operand `first`: its address `xa`, and `xp`, if there is one.

    The thread's counter, behind operand `counters`, goes up. So many threads of a CTA have words, beginning
    with `first_thread`.
    """
    return " ".join(
        (
            ".reg .b32 xt, xn, xm; .reg .b64 xa; .reg .pred xp;",
            f"mov.u32 xt, %tid.x; sub.u32 xt, xt, {first_thread};",
            f"mov.u32 xn, %ctaid.x; mad.lo.u32 xt, xn, {threads}, xt;",
            f"mul.wide.u32 xa, xt, 4; add.u64 xa, xa, ${counters};",
            "ld.global.u32 xn, [xa]; add.u32 xm, xn, 1; st.global.u32 [xa], xm;",
            f"setp.lt.u32 xp, xn, {registers}; mad.lo.u32 xn, xt, {registers}, xn;",
            f"mul.wide.u32 xa, xn, 8; add.u64 xa, xa, ${first};",
        )
    )


BUFFERS = ("source", "filled", "out", "drained")
CAPTURED = "_captured"


class Body:
    """The lines of a kernel, or of a part of one that has buffers of its own, whose names end with `suffix`;
    `threads`: of the CTA, where that has more than the case."""

    def __init__(self, case: RandomCase, suffix: str = "", threads: int | None = None) -> None:
        self.case, self.suffix = case, suffix
        self.threads, self.first_thread = threads or LANES * case.warps, LANES * case.first_warp
        self.lines: list[str] = []
        self.bits = f"i{case.element.bits}"

    def add(self, text: str) -> str:
        """A line `name = text`; gives the name."""
        name = f"%v{self.suffix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def tensor(self, element: str, encoding: str) -> str:
        """The type of the case's tensor with other elements."""
        return ttgir.tensor(self.case.pair.shape, element, encoding)

    def everywhere(self, argument: str, encoding: str) -> str:
        """The address in `argument` in every register."""
        address = self.add(f"tt.ptr_to_int {argument} : !tt.ptr<i64> -> i64")
        return self.add(f"tt.splat {address} : i64 -> {self.tensor('i64', encoding)}")

    def inline(self, ptx: str, constraints: str, operands: list[str], result: str, encoding: str) -> str:
        """Inline assembly, once for each register, in order."""
        types = ", ".join([self.tensor("i64", encoding)] * len(operands))
        return self.add(
            f'tt.elementwise_inline_asm "{ptx}" '
            f'{{constraints = "{constraints}", packed_element = 1 : i32, pure = false}} '
            f"{', '.join(operands)} : {types} -> {self.tensor(result, encoding)}"
        )

    def fill(self, encoding: str) -> str:
        """The bits of the tensor in layout `encoding`."""
        registers = self.case.register_counts[0]
        place = _next_place(self.threads, self.first_thread, registers, 1, 2)
        ptx = f"{{ {place} mov.b64 $0, 0; @xp ld.global.b64 $0, [xa]; }}"
        operands = [self.everywhere(f"%{name}{self.suffix}", encoding) for name in BUFFERS[:2]]
        word = self.inline(ptx, "=&l,l,l", operands, "i64", encoding)
        if self.bits == "i64":
            return word
        return self.add(
            f"arith.trunci {word} : {self.tensor('i64', encoding)} to {self.tensor(self.bits, encoding)}"
        )

    def drain(self, value: str, encoding: str) -> None:
        """Write out the bits `value`."""
        registers = self.case.register_counts[1]
        if self.bits != "i64":
            types = f"{self.tensor(self.bits, encoding)} to {self.tensor('i64', encoding)}"
            value = self.add(f"arith.extui {value} : {types}")
        place = _next_place(self.threads, self.first_thread, registers, 2, 3)
        ptx = f"{{ {place} @xp st.global.b64 [xa], $1; mov.b32 $0, 0; }}"
        operands = [value, *(self.everywhere(f"%{name}{self.suffix}", encoding) for name in BUFFERS[2:])]
        self.inline(ptx, "=r,l,l,l", operands, "i32", encoding)

    def cast(self, value: str, encoding: str, back: bool) -> str:
        """Bits as elements; back: elements as bits."""
        element = self.case.pair.element
        if element == self.bits:
            return value
        operation = "tt.bitcast"
        if element.startswith("!tt.ptr"):
            operation = "tt.ptr_to_int" if back else "tt.int_to_ptr"
        types = [self.tensor(self.bits, encoding), self.tensor(element, encoding)]
        source, destination = reversed(types) if back else types
        return self.add(f"{operation} {value} : {source} -> {destination}")

    def convert(self, value: str, source: str, destination: str) -> str:
        """The bits `value` in layout `source`, moved as elements to `destination`."""
        pair = self.case.pair
        value = self.cast(value, source, back=False)
        value = self.add(f"ttg.convert_layout {value} : {pair.type(source)} -> {pair.type(destination)}")
        return self.cast(value, destination, back=True)

    def plus_step(self, value: str, encoding: str) -> str:
        """value + %step."""
        type_ = self.tensor(self.bits, encoding)
        step = "%step"
        if self.bits != "i32":
            operation = "extui" if self.case.element.bits > 32 else "trunci"
            step = self.add(f"arith.{operation} %step : i32 to {self.bits}")
        step = self.add(f"tt.splat {step} : {self.bits} -> {type_}")
        return self.add(f"arith.addi {value}, {step} : {type_}")


def converting(body: Body, baseline: bool = False) -> None:
    """Write what fills the tensor, converts it, and drains it; `baseline`: without conversions in the loop."""
    a, b = body.case.pair.source, body.case.pair.destination
    x = body.fill(a)
    if body.case.loop:
        type_ = body.tensor(body.bits, a)
        zero, one = (body.add(f"arith.constant {n} : i32") for n in (0, 1))
        result, carried = f"%turned{body.suffix}", f"%x{body.suffix}"
        body.lines.append(
            f"{result} = scf.for %step = {zero} to %steps{body.suffix} step {one} "
            f"iter_args({carried} = {x}) -> ({type_}) : i32 {{"
        )
        y, there = (carried, a) if baseline else (body.convert(carried, a, b), b)
        y = body.plus_step(y, there)
        x = body.plus_step(y if baseline else body.convert(y, b, a), a)
        body.lines += [f"scf.yield {x} : {type_}", "}"]
        x = result
    body.drain(body.convert(x, a, b), b)


def _nothing(case: RandomCase, warps: int, number: str, name: str) -> list[str]:
    """Lines that do something with a number and leave nothing: Triton drops partitions without any."""
    ctas = ", ".join(["[0]"] * (case.ctas.bit_length() - 1))
    clusters = f", CGALayout = [{ctas}]" if ctas else ""
    layout = f"sizePerThread = [1], threadsPerWarp = [{LANES}], warpsPerCTA = [{warps}], order = [0]{clusters}"
    type_ = f"tensor<{LANES * warps}xi32, #ttg.blocked<{{{layout}}}>>"
    rest = '{constraints = "=r,r", packed_element = 1 : i32, pure = false}'
    return [
        f"%{name}_in = tt.splat {number} : i32 -> {type_}",
        f'%{name}_out = tt.elementwise_inline_asm "mov.b32 $0, $1;" {rest} %{name}_in : {type_} -> {type_}',
    ]


def _specialised(
    case: RandomCase, own: Sequence[str], partition: Sequence[str], captured: Mapping[str, str]
) -> list[str]:
    """A warp-specialised region of these lines; the partition has the values `captured`, by their names and
    types, as names that end with CAPTURED."""
    arguments = ", ".join(f"{name}{CAPTURED}: {type_}" for name, type_ in captured.items())
    return [
        f"ttg.warp_specialize({', '.join(captured)})",
        "default {",
        *own,
        "ttg.warp_yield",
        "}",
        f"partition0({arguments}) num_warps({case.partition_warps}) {{",
        *partition,
        "ttg.warp_return",
        f"}} : ({', '.join(captured.values())}) -> ()",
    ]


def kernel_text(case: RandomCase, target: str) -> str:
    """The module with the kernel `convert(source, filled, out, drained, steps)`."""
    body, steps = Body(case, CAPTURED if case.region == INSIDE else ""), {"%steps": "i32"}
    converting(body)
    lines = body.lines
    if case.region == BESIDE:
        own = _nothing(case, case.warps, "%steps", "own")
        lines += _specialised(
            case, own, _nothing(case, case.partition_warps, f"%steps{CAPTURED}", "other"), steps
        )
    elif case.region == INSIDE:
        lines = _specialised(case, (), lines, {f"%{name}": "!tt.ptr<i64>" for name in BUFFERS} | steps)
    return module_text(case, target, [(name, "i64") for name in BUFFERS], lines)


def module_text(
    case: RandomCase, target: str, pointers: Sequence[tuple[str, str]], lines: Sequence[str]
) -> str:
    """The module with a kernel of these lines, which takes pointers, by their name and what they point to, and
    `%steps`."""
    arguments = [f"%{name}: !tt.ptr<{to}> {{tt.divisibility = 16 : i32}}" for name, to in pointers]
    signature, body = ", ".join((*arguments, "%steps: i32")), "\n    ".join((*lines, "tt.return"))
    return (
        f'module attributes {{"ttg.num-ctas" = {case.ctas} : i32, "ttg.num-warps" = {case.own_warps} : i32, '
        f'ttg.target = "{target}", "ttg.threads-per-warp" = {LANES} : i32}} {{\n'
        f"  tt.func public @convert({signature}) {{\n    {body}\n  }}\n}}\n"
    )
