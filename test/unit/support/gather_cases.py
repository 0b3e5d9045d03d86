"""Random gathers, and kernels with one."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.plan.element import ElementType, element_type
from triton_linear.lowering.target.targets import Target

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950", "hip:gfx1200")
ELEMENTS = ("i1", "i8", "f8E5M2", "f16", "bf16", "i32", "f32", "i64", "f64", "!tt.ptr<f32>")
INDICES = ("i8", "i16", "i32", "i64")
Vector = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A gather: the layouts of source and index, the axis and the elements of both."""

    src: LinearLayout
    index: LinearLayout
    axis: int
    element: ElementType
    index_element: ElementType

    @property
    def warps(self) -> int:
        return self.src.in_dim_size(WARP)


def layout(register: list[Vector], lane: list[Vector], warp: list[Vector], sizes: list[int]) -> LinearLayout:
    bases = ((REGISTER, register), (LANE, lane), (WARP, warp), (BLOCK, []))
    dims = [(f"dim{number}", size) for number, size in enumerate(sizes)]
    return LinearLayout.from_bases(bases, dims)


def random_gather(rng: random.Random, target: Target) -> Case:
    """One of rank 1 or 2 that stays in its warp, with copies in registers, lanes and warps."""
    lane_bits, warp_bits = target.lanes.bit_length() - 1, rng.randrange(3)
    rank = rng.choice((1, 2, 2, 2))
    sizes = [1 << rng.randrange(11 if rank == 1 else 7) for _ in range(rank)]
    axis = rng.randrange(rank)
    index_sizes = list(sizes)
    if rng.random() < 0.4:
        index_sizes[axis] = 1 << rng.randrange(6)
    zero = (0,) * rank
    beside = [vector for vector in _units(sizes) if not vector[axis]]
    warp = rng.sample(beside, min(len(beside), warp_bits))
    sides = [
        _with_warps(rng, shape, lane_bits, warp + [zero] * (warp_bits - len(warp)))
        for shape in (sizes, index_sizes)
    ]
    fitting = [name for name in INDICES if sizes[axis] <= 1 << element_type(name).bits]
    return Case(*sides, axis, element_type(rng.choice(ELEMENTS)), element_type(rng.choice(fitting)))


def in_cluster(rng: random.Random, case: Case) -> Case:
    """The gather in each of 2 to 16 CTAs, which have rows of their own, or copies."""
    bits, rank = rng.randint(1, 4), len(case.src.out_dims)
    grown, block = [0] * rank, []
    for _ in range(bits):
        dim = rng.randrange(rank)
        own = dim != case.axis
        size = case.src.out_dims[dim][1] << grown[dim]
        block.append(tuple(size if own and d == dim else 0 for d in range(rank)))
        grown[dim] += own

    def of(side: LinearLayout) -> LinearLayout:
        bases = {name: list(vectors) for name, vectors in side.bases} | {BLOCK: block}
        dims = [(name, size << grown[dim]) for dim, (name, size) in enumerate(side.out_dims)]
        return LinearLayout.from_bases(list(bases.items()), dims)

    return replace(case, src=of(case.src), index=of(case.index))


def _units(sizes: list[int]) -> list[Vector]:
    """The unit vectors of a tensor."""
    return [
        tuple(1 << bit if d == dim else 0 for d in range(len(sizes)))
        for dim, size in enumerate(sizes)
        for bit in range(size.bit_length() - 1)
    ]


def _with_warps(rng: random.Random, sizes: list[int], lane_bits: int, warp: list[Vector]) -> LinearLayout:
    """A random layout with these warps; in some, vectors are sums of unit vectors."""
    columns = [vector for vector in _units(sizes) if vector not in warp]
    if rng.random() < 0.3 and len(columns) > 1:
        for _ in range(8):
            i, j = rng.sample(range(len(columns)), 2)
            columns[i] = tuple(a ^ b for a, b in zip(columns[i], columns[j], strict=True))
    columns += [(0,) * len(sizes)] * max(rng.randrange(3), lane_bits - len(columns))
    rng.shuffle(columns)
    return layout(columns[lane_bits:], columns[:lane_bits], warp, sizes)
