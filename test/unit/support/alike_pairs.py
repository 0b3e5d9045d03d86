"""Random conversions between layouts that kernels have, to compare with what Triton emits for them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.baseline.alike import is_alike
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import NoOpPlan, Selection
from triton_linear.lowering.planners.conversion import Hardware
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target.targets import target

_WARPS = 4


@dataclass(frozen=True, slots=True)
class Pair:
    """A conversion of four warps: the types of its operand and result, and what is selected for it."""

    source: str
    result: str
    selection: Selection
    alike: bool

    def work(self, gpu: str) -> tuple[str, str, int, str]:
        """As `check_conversions` takes it."""
        return self.source, self.result, _WARPS, gpu


def pairs(seed: int, gpu: str) -> Iterator[Pair]:
    """Pairs that move data, without end."""
    rng = random.Random(seed)
    while True:
        shape = rng.choice([32, 64, 128]), rng.choice([32, 64, 128])
        element = rng.choice(["f16", "bf16", "f32", "i8", "i64"])
        sides = [_blocked(rng, shape), _blocked(rng, shape)]
        if rng.random() < 0.4 and element in ("f16", "bf16", "f32"):
            sides[rng.randrange(2)] = _accumulator(rng, gpu)
        types = [f"tensor<{shape[0]}x{shape[1]}x{element}, {side}>" for side in sides]
        source, result = (layout_of(side, shape) for side in sides)
        selection = select(source, result, element_type(element), target(gpu))
        if selection.plan is None or isinstance(selection.plan, NoOpPlan):
            continue
        alike = is_alike(selection.plan, Hardware.of(source), Hardware.of(result), target(gpu))
        yield Pair(*types, selection, alike)


def alike_pairs(seed: int, gpu: str, count: int) -> list[Pair]:
    """The first pairs that are alike."""
    return list(itertools.islice((pair for pair in pairs(seed, gpu) if pair.alike), count))


def _blocked(rng: random.Random, shape: tuple[int, int]) -> str:
    fast = rng.randrange(2)
    held = rng.choice([1, 2, 4, 8, 16])
    lanes = min(32, max(1, shape[fast] // held))
    warps = rng.choice([1, 4])
    numbers = [[held, 1], [lanes, 32 // lanes], [warps, _WARPS // warps]]
    each, threads, across = (row if fast == 0 else row[::-1] for row in numbers)
    order = [fast, 1 - fast]
    return (
        f"#ttg.blocked<{{sizePerThread = {each}, threadsPerWarp = {threads}, warpsPerCTA = {across}, "
        f"order = {order}}}>"
    )


def _accumulator(rng: random.Random, gpu: str) -> str:
    if gpu == "cuda:90" and rng.random() < 0.7:
        columns = rng.choice([16, 32])
        return (
            "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], "
            f"instrShape = [16, {columns}, 16]}}>"
        )
    warps = rng.choice([[4, 1], [2, 2], [1, 4]])
    return (
        f"#ttg.nvidia_mma<{{versionMajor = 2, versionMinor = 0, warpsPerCTA = {warps}, instrShape = [16, 8]}}>"
    )
