"""The map behind every lowering: which source register of which thread holds a destination element.

A source layout A and a destination layout B map (register, lane, warp, block) bits onto the same tensor. A
conversion is a linear map C from destination bits to source bits with

    A(C(x)) = B(x)    for every destination index x.

A may hold an element in several places (its null space is not zero), so C is not unique. The choice made here
moves least: the origin of every destination bit is searched in the same thread first, then in the same warp,
then in the same CTA, then in the cluster. The search solves for the difference from the identity, so that C is
the identity where A leaves a choice.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from typing import NamedTuple

from triton_linear.dialect import f2
from triton_linear.dialect.dimensions import split
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass

HARDWARE_DIMS = (REGISTER, LANE, WARP, BLOCK)


class Reach(enum.IntEnum):
    """The smallest unit of threads that an element stays inside."""

    THREAD = 0
    WARP = 1
    CTA = 2
    CLUSTER = 3


@dataclass(frozen=True, slots=True)
class Hardware:
    """The flattened columns of a distributed layout, one tuple per hardware dimension."""

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    block: tuple[int, ...]

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def of(layout: LinearLayout) -> Hardware:
        """The columns of `layout`; a dimension it lacks is empty.

        Raises ValueError for an in-dim that is not a hardware dimension.
        """
        columns = split(layout.matrix(), [(name, len(vectors)) for name, vectors in layout.bases])
        found = [columns.pop(name, ()) for name in HARDWARE_DIMS]
        if columns:
            raise ValueError(f"in-dim '{next(iter(columns))}' is not one of {', '.join(HARDWARE_DIMS)}")
        return Hardware(*found)

    @property
    def warps_hold_copies(self) -> bool:
        """True if some warps of a CTA hold the same elements, in whatever lanes and registers."""
        inside = (*self.register, *self.lane)
        return f2.rank((*inside, *self.warp)) < f2.rank(inside) + len(self.warp)


class Origin(NamedTuple):
    """The source bits to flip for one destination bit, as a mask per hardware dimension, and their reach."""

    register: int
    lane: int
    warp: int
    block: int
    reach: Reach


@dataclass(frozen=True, slots=True)
class Conversion:
    """C, by columns: the origin of each destination bit. `src` and `dst` are the columns of A and B."""

    src: Hardware
    dst: Hardware
    register: tuple[Origin, ...]
    lane: tuple[Origin, ...]
    warp: tuple[Origin, ...]
    block: tuple[Origin, ...]

    def bits(self) -> Iterator[tuple[str, int, Origin]]:
        """(dimension, bit, origin) of every destination bit."""
        for name in HARDWARE_DIMS:
            for bit, origin in enumerate(getattr(self, name)):
                yield name, bit, origin

    @property
    def reach(self) -> Reach:
        """The farthest that any destination bit travels."""
        return max((origin.reach for _, _, origin in self.bits()), default=Reach.THREAD)

    def witness(self, reach: Reach) -> str:
        """The first destination bit that travels farther than `reach`, in words."""
        for name, bit, origin in self.bits():
            if origin.reach > reach:
                held = [
                    f"{d}={getattr(origin, d)}"
                    for d in HARDWARE_DIMS[1 : origin.reach + 1]
                    if getattr(origin, d) or d == HARDWARE_DIMS[origin.reach]
                ]
                return f"destination {name}={1 << bit} is held by source {', '.join(held)}"
        raise ValueError(f"no destination bit travels farther than {reach.name.lower()}")


@functools.lru_cache(maxsize=4096)
def conversion(src: LinearLayout, dst: LinearLayout) -> Conversion:
    """The conversion from `src` to `dst` that moves least.

    Requires: both map hardware dimensions onto the same out-dims; `src` holds every element.
    Ensures: src(C(x)) = dst(x) for every destination index x.

    Raises ValueError if the requirement fails, with the bit that has no source.
    """
    if src.out_dims != dst.out_dims:
        raise ValueError(f"conversion between different tensors: {src.out_dims} and {dst.out_dims}")
    return between(Hardware.of(src), Hardware.of(dst))


@functools.lru_cache(maxsize=256)
def between(a: Hardware, b: Hardware) -> Conversion:
    """`conversion`, of two layouts given by their columns."""
    return Conversion(a, b, **{name: _origins(a, b, name) for name in HARDWARE_DIMS})


def reach_between(a: Hardware, b: Hardware) -> Reach:
    """The reach of `between(a, b)`, without the origins of its bits."""
    moved = set(b.register)
    for own, wanted in ((a.lane, b.lane), (a.warp, b.warp), (a.block, b.block)):
        moved.update(w ^ (own[bit] if bit < len(own) else 0) for bit, w in enumerate(wanted))
    within: tuple[int, ...] = ()
    for reach, columns in zip(Reach, (a.register, a.lane, a.warp, a.block), strict=True):
        within += columns
        span = _span(within)
        if all(column in span for column in moved):
            return reach
    raise ValueError("the source layout is not surjective")


def _origins(a: Hardware, b: Hardware, name: str) -> tuple[Origin, ...]:
    """The origin of each destination bit of one dimension; raises ValueError if one has none."""
    # Columns that travel less come first, so a solution has others only where it must.
    dims = (a.register, a.lane, a.warp, a.block)
    span = _span(tuple([column for dim in dims for column in dim]))
    here = HARDWARE_DIMS.index(name)
    stay: tuple[int, ...] = getattr(a, name)
    origins = []
    for bit, target in enumerate(getattr(b, name)):
        anchor = stay[bit] if bit < len(stay) else 0
        if here == 0 and anchor != target:
            anchor = 0  # registers have no place to stay at: only a bit that agrees already is kept
        found = span.solve(target ^ anchor)
        if found is None:
            raise ValueError(
                f"destination {name}={1 << bit} has no source: the source layout is not surjective"
            )
        parts = []
        for dim in dims:
            parts.append(found & ((1 << len(dim)) - 1))
            found >>= len(dim)
        if here or anchor:
            parts[here] ^= (1 << bit) if bit < len(stay) else 0
        moved = [dim for dim in range(1, 4) if parts[dim] != ((1 << bit) if dim == here else 0)]
        register, lane, warp, block = parts
        origins.append(Origin(register, lane, warp, block, Reach(max(moved, default=0))))
    return tuple(origins)


@functools.lru_cache(maxsize=1024)
def _span(columns: tuple[int, ...]) -> f2.Echelon:
    return f2.Echelon(columns)
