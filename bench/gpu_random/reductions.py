"""Kernels that reduce along an axis across the CTAs of their cluster, as TTGIR text, and what they must give.

A kernel fills a tensor, reduces it, and writes out the result in every place of the axis, so that every copy in
every CTA is seen. In its loop the result and a number are added to the elements: each iteration waits for the
one before. Elements are integers, for which numpy says what must come out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.fuzz.evaluate import by_coordinates
from bench.fuzz.pairs import drawn_layout
from bench.fuzz.random_layouts import random_pair
from triton_linear.dialect import triton_versions
from triton_linear.passes.reductions.split import Split, split

from ..harness import ttgir
from ..harness.report import sizes
from .kernels import BUFFERS, LANES, LOOP_STEPS, Body, RandomCase, Words, flat, module_text

MOST_REGISTERS = 32
OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "addi": np.add.reduce,
    "maxui": np.maximum.reduce,
    "xori": np.bitwise_xor.reduce,
}
"""Operations of `arith`, and what they give along an axis."""


@dataclass(frozen=True)
class ReductionCase(RandomCase):
    """One kernel: both layouts of its pair are the tensor's."""

    axis: int = 0
    operation: str = "addi"

    @property
    def name(self) -> str:
        """See `RandomCase`."""
        along = f"{self.operation} along {self.axis} of {sizes(self.pair.shape)} {self.pair.element}"
        return f"{self.index:03d} {along}, {self.pair.family}, {self.warps} warps, {self.ctas} CTAs"

    def expected(self) -> Words:
        """What the kernel must end with: [cluster, thread, register]."""
        x = by_coordinates(self.patterns(), self.pair.shape)
        for step in range(LOOP_STEPS):
            x = self.masked(x + self._reduced(x) + np.uint64(step))
        whole = np.broadcast_to(self._reduced(x), x.shape)
        return self.registers(self.pair.source, flat(whole))

    def _reduced(self, x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        return self.masked(OPERATIONS[self.operation](x, axis=self.axis + 1, keepdims=True))

    def text(self, target: str, method: str) -> str:
        """See `RandomCase`."""
        return reduction_text(self, target)


def reduction_cases(seed: int, count: int, clusters: Sequence[int]) -> list[ReductionCase]:
    """`count` kernels in clusters of these sizes, each of which reduces across CTAs; the same seed, the same
    kernels."""
    rng = random.Random(f"reductions {seed}")
    return [_drawn(rng, number, rng.choice(tuple(clusters))) for number in range(count)]


def _drawn(rng: random.Random, number: int, ctas: int) -> ReductionCase:
    while True:
        warps = rng.choice((1, 2, 4, 8))
        pair = random_pair(rng, LANES, warps, ctas=ctas)
        pair = replace(pair, destination=pair.source)
        axis, operation = rng.randrange(len(pair.shape)), rng.choice(tuple(OPERATIONS))
        case = ReductionCase(number, pair, warps, True, ctas, axis=axis, operation=operation)
        usual = not pair.family.startswith("general") and not pair.element.startswith("!tt.ptr")
        if not usual or case.element.bits < 8 or max(case.register_counts) > MOST_REGISTERS:
            continue
        found = split(drawn_layout(pair, pair.source), axis, triton_versions.installed_release())
        if isinstance(found, Split) and found.far:
            return case


def reduction_text(case: ReductionCase, target: str) -> str:
    """The module with the kernel `convert(source, filled, out, drained, steps)`."""
    body, encoding = Body(case), case.pair.source
    x, type_ = body.fill(encoding), body.tensor(body.bits, encoding)
    zero, one = (body.add(f"arith.constant {n} : i32") for n in (0, 1))
    body.lines.append(
        f"%turned = scf.for %step = {zero} to %steps step {one} iter_args(%x = {x}) -> ({type_}) : i32 {{"
    )
    added = body.add(f"arith.addi %x, {_whole(case, body, '%x')} : {type_}")
    body.lines += [f"scf.yield {body.plus_step(added, encoding)} : {type_}", "}"]
    body.drain(_whole(case, body, "%turned"), encoding)
    return module_text(case, target, [(name, "i64") for name in BUFFERS], body.lines)


def _whole(case: ReductionCase, body: Body, x: str) -> str:
    """The result of the reduction of `x`, in every place of the axis."""
    shape, encoding, bits, axis = case.pair.shape, case.pair.source, body.bits, case.axis
    type_ = body.tensor(bits, encoding)
    left = [size for dim, size in enumerate(shape) if dim != axis]
    reduced = ttgir.tensor(left, bits, ttgir.slice_of(axis, encoding)) if left else bits
    region = f"%c = arith.{case.operation} %a, %b : {bits}\n tt.reduce.return %c : {bits}"
    result = body.add(
        f'"tt.reduce"({x}) <{{axis = {axis} : i32}}> ({{\n ^bb0(%a: {bits}, %b: {bits}):\n {region}\n }}) '
        f": ({type_}) -> {reduced}"
    )
    if not left:
        return body.add(f"tt.splat {result} : {bits} -> {type_}")
    thin = ttgir.tensor([1 if dim == axis else size for dim, size in enumerate(shape)], bits, encoding)
    result = body.add(f"tt.expand_dims {result} {{axis = {axis} : i32}} : {reduced} -> {thin}")
    return body.add(f"tt.broadcast {result} : {thin} -> {type_}")
