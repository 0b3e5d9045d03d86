"""Count bank conflicts of layouts of shared memory, and find the layout with the fewest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from triton_linear.dialect import encodings, f2
from triton_linear.dialect.encodings.shared import PARTITION, PaddedShared
from triton_linear.dialect.gluon import encoding_text, linear_layout, shared_layout
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.notebook import Explained
from triton_linear.dialect.records import dataclass
from triton_linear.gluon.units import bytes_of, target_of
from triton_linear.lowering.planners.placement import Exchange, ExchangeLimits, place
from triton_linear.lowering.planners.shared_access import Touch, touches
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target

Addresses = npt.NDArray[np.int64]
_OFFSET = "offset"


@dataclass(frozen=True)
class BankReport(Explained):
    """The accesses by which warp 0 stores or loads a tensor, with the widest vectors that fit."""

    touches: tuple[Touch, ...]
    target: str

    @property
    def wavefronts(self) -> int:
        """Wavefronts of all accesses."""
        return sum(touch.wavefronts for touch in self.touches)

    @property
    def minimum(self) -> int:
        """The fewest wavefronts for accesses of these widths to the same number of different words."""
        return sum(touch.minimum for touch in self.touches)

    @property
    def conflicts(self) -> int:
        """Wavefronts due to bank conflicts: `wavefronts - minimum`."""
        return self.wavefronts - self.minimum

    def __str__(self) -> str:
        widths: dict[tuple[int, int, int], int] = {}
        for touch in self.touches:
            key = touch.width * 8, touch.wavefronts, touch.minimum
            widths[key] = widths.get(key, 0) + 1
        parts = [
            f"{count} of {bits} bits at {times} wavefront{'s' if times > 1 else ''} each"
            + (f" ({least} without conflicts)" if times > least else "")
            for (bits, times, least), count in widths.items()
        ]
        verdict = "no conflicts" if not self.conflicts else f"{self.conflicts} of them by conflicts"
        return f"{self.wavefronts} wavefronts of a warp on {self.target}, {verdict}: {', '.join(parts)}"


def bank_conflicts(
    shared: Any,
    registers: Any,
    shape: Sequence[int],
    dtype: str,
    target: str = "cuda:90",
    *,
    alloc_shape: Sequence[int] | None = None,
    offsets: Sequence[int] | None = None,
    kind: str = LOAD,
) -> BankReport:
    """The bank conflicts of an access between the layout `registers` and the memory layout `shared`.

    `kind` is "load" or "store"; AMD's GPUs process the two in different phases. If the tensor is a slice of
    an allocation, as `memdesc.slice` makes it, `alloc_shape` is the allocation's shape and `offsets` the
    slice's start.

    Requires: sizes and offsets are powers of two, or zero. Ensures: addresses are exact, padding included;
    matrix instructions (`ldmatrix`, `stmatrix`) are not considered.

    Raises ValueError for layouts that do not fit the shape.
    """
    if kind not in (LOAD, STORE):
        raise ValueError(f"bank_conflicts: kind is '{LOAD}' or '{STORE}', not {kind!r}")
    gpu, size = target_of(target), bytes_of(dtype)
    whole = tuple(alloc_shape) if alloc_shape is not None else tuple(shape)
    start = tuple(offsets) if offsets is not None else (0,) * len(shape)
    if len(whole) != len(shape) or len(start) != len(shape):
        raise ValueError(
            f"bank_conflicts: shape {tuple(shape)}, alloc_shape {whole} and offsets {start} differ in rank"
        )
    if any(at + extent > most for at, extent, most in zip(start, shape, whole, strict=True)):
        raise ValueError(f"bank_conflicts: the slice {tuple(shape)} at {start} is not inside {whole}")
    addresses = _addresses(shared, whole, size)
    return BankReport(touches_of(addresses, linear_layout(registers, shape), size, gpu, start, kind), gpu.name)


def _addresses(shared: Any, shape: tuple[int, ...], size: int) -> Addresses:
    """The byte address of each element, as an array of this shape; an element has `size` bytes."""
    padded: PaddedShared | None = None
    if isinstance(shared, LinearLayout):
        layout = shared
    else:
        text = encoding_text(shared, shape)
        parsed = encodings.parse(text)
        padded = parsed if isinstance(parsed, PaddedShared) else None
        layout = encodings.layout_of(text, shape)
    if not layout.has_in_dim(_OFFSET) or layout.has_in_dim(PARTITION):
        raise ValueError(f"{shared!r} is no layout of one allocation of shared memory")
    offsets = np.arange(layout.in_dim_size(_OFFSET))
    if padded is not None:
        offsets += sum(offsets // p.interval * p.amount for p in padded.paddings)
    addresses = np.zeros(shape, np.int64)
    # If an element has several places, the first is its address, so it must be written last.
    addresses[tuple(points_of(layout, _OFFSET)[::-1].T)] = offsets[::-1] * size
    return addresses


def points_of(layout: LinearLayout, *dims: str) -> Any:
    """The tensor coordinates for every value of the in-dims `dims`, the others zero: shape (sizes..., rank)."""
    points = np.zeros((*(layout.in_dim_size(dim) for dim in dims), layout.num_out_dims), np.int64)
    for axis, dim in enumerate(dims):
        size = layout.in_dim_size(dim)
        part = np.zeros((size, layout.num_out_dims), np.int64)
        for bit, vector in enumerate(dict(layout.bases)[dim]):
            part[np.arange(size) >> bit & 1 == 1] ^= np.array(vector, np.int64)
        shape = [1] * len(dims) + [layout.num_out_dims]
        shape[axis] = size
        points ^= part.reshape(shape)
    return points


def touches_of(
    addresses: Addresses,
    registers: LinearLayout,
    size: int,
    target: Target,
    start: tuple[int, ...],
    kind: str,
) -> tuple[Touch, ...]:
    """The accesses of warp 0 to a tensor whose elements, of `size` bytes, have these addresses; registers hold
    it from the coordinates `start` on.

    Raises ValueError if the target has another number of lanes.
    """
    points = points_of(registers, REGISTER, LANE) + np.array(start, np.int64)
    if points.shape[1] != target.lanes:
        raise ValueError(f"the layout has {points.shape[1]} lanes, {target.name} has {target.lanes}")
    return touches(addresses[tuple(np.moveaxis(points, -1, 0))].tolist(), size, target, kind)


@dataclass(frozen=True)
class SharedSuggestion(Explained):
    """A memory layout, and the bank conflicts of each of its writers and readers."""

    layout: Any
    linear: LinearLayout
    writers: tuple[BankReport, ...]
    readers: tuple[BankReport, ...]

    @property
    def wavefronts(self) -> int:
        """Wavefronts of one warp, summed over all writers and readers."""
        return sum(report.wavefronts for report in (*self.writers, *self.readers))

    @property
    def conflicts(self) -> int:
        """Those wavefronts that are due to bank conflicts."""
        return sum(report.conflicts for report in (*self.writers, *self.readers))

    def __str__(self) -> str:
        lines = [f"{self.layout}"]
        for name, reports in (("writer", self.writers), ("reader", self.readers)):
            for number, report in enumerate(reports):
                lines.append(f"  {name} {number}: {report}")
        return "\n".join(lines)


def suggest_shared_layout(
    writers: Sequence[Any],
    readers: Sequence[Any],
    shape: Sequence[int],
    dtype: str,
    target: str = "cuda:90",
) -> SharedSuggestion:
    """The layout of shared memory with the fewest wavefronts for these writers and readers.

    The candidates are rows without a swizzle, and the optimal swizzle of every ordered pair of layouts (arXiv
    2505.23819, optimal swizzling). The vectors of an optimal swizzle are the registers that are neighbours in
    both layouts; its banks span a common complement of the spans of the lanes of both.

    Ensures: with one writer and one reader there are no bank conflicts.

    Raises ValueError if there is no writer or no reader, or a layout does not fit the shape.
    """
    if not writers or not readers:
        raise ValueError("suggest_shared_layout: at least one writer and one reader")
    gpu, size = target_of(target), bytes_of(dtype)
    stored, loaded = ([linear_layout(one, shape) for one in side] for side in (writers, readers))
    best: SharedSuggestion | None = None
    for memory in _candidates(stored, loaded, tuple(shape), size, gpu):
        addresses = _addresses(memory, tuple(shape), size)
        start = (0,) * len(shape)
        reports = [
            tuple(BankReport(touches_of(addresses, one, size, gpu, start, kind), gpu.name) for one in side)
            for kind, side in ((STORE, stored), (LOAD, loaded))
        ]
        suggestion = SharedSuggestion(shared_layout(memory), memory, *reports)
        if best is None or suggestion.wavefronts < best.wavefronts:
            best = suggestion
    assert best is not None
    return best


def _candidates(
    stored: Sequence[LinearLayout],
    loaded: Sequence[LinearLayout],
    shape: tuple[int, ...],
    size: int,
    target: Target,
) -> list[LinearLayout]:
    """Rows without a swizzle, and the optimal swizzle of each ordered pair of layouts, without duplicates."""
    names = dim_names(len(shape))
    rows = LinearLayout.empty()
    for name, extent in reversed(list(zip(names, shape, strict=True))):
        rows = rows * LinearLayout.identity_1d(extent, _OFFSET, name)
    candidates = dict.fromkeys([rows.transpose_outs(list(names))])
    sides = [*stored, *loaded]
    limits = ExchangeLimits(size, target, size * int(np.prod(shape)))
    for a, b in itertools.permutations(range(len(sides)), 2):
        first, second = sides[a], sides[b]
        columns = [
            tuple(c for c in side.columns(dim) if c)
            for side in (first, second)
            for dim in (REGISTER, LANE, WARP)
        ]
        swizzle = place(Exchange(*columns), limits).swizzle
        basis = [c for c in swizzle.basis() if c]
        basis += f2.extend(tuple(basis), tuple(1 << bit for bit in range(first.total_out_bits)))
        candidates[_memory_layout(basis, first)] = None
    return list(candidates)


def _memory_layout(basis: Sequence[int], like: LinearLayout) -> LinearLayout:
    """The memory layout whose offset bits have these flattened columns, onto the out-dims of `like`."""
    vectors = []
    for column in basis:
        vector, rest = [], column
        for _, size in like.out_dims:
            vector.append(rest & (size - 1))
            rest >>= size.bit_length() - 1
        vectors.append(tuple(vector))
    bases = [(_OFFSET, vectors), (BLOCK, [])]
    return LinearLayout.from_bases(bases, like.out_dim_names, [size for _, size in like.out_dims])
