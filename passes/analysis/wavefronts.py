"""Wavefronts that a warp takes for an access to shared memory, from the offsets of its registers and lanes.

Lanes that are served together touch 2^rank different words, in 2^rank' different banks. Rows of matrix
instructions are named by some lanes, and by registers beyond those that one instruction moves.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import field

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.transposing import FORMS
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target

_ROW_BYTES = 16
_LANE_BITS = 5
_WORD = 4


@dataclass(slots=True)
class Kind:
    """A kind of access to shared memory: LOAD or STORE, of elements of so many bytes, by a warp of lanes.

    copies: whether it copies from global memory, which no matrix instruction does.
    """

    name: str
    element_bytes: int
    target: Target
    lane_bits: int
    copies: bool = False
    matrices: tuple[_Matrices, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = () if self.copies else _matrices(self.name, self.element_bytes, self.target, self.lane_bits)
        self.matrices = found

    def conflicts(self, size: int, lanes: Sequence[int | None]) -> int:
        """How often the bank that is asked most is asked, by lanes with these offsets for `size` bytes each. Of
        lanes whose offset is not known: at least, as others only add to it."""
        service = self.target.service(self.name, size)
        told = [offset or 0 for offset in lanes]
        unknown = sum(1 << lane for lane, offset in enumerate(lanes) if offset is None)
        together = [f2.multiply_vector(told, lane) for lane in service.lanes if not lane & unknown]
        return _conflicts(together, size, service.banks, self.target.bank_bytes)

    def without_conflicts(self, register_bits: int, size: int) -> int:
        """Wavefronts for 2^`register_bits` elements of each lane, `size` bytes at once."""
        count = 1 << (register_bits - (size // self.element_bytes).bit_length() + 1)
        return count * max(1, (1 << self.lane_bits) // self.target.service(self.name, size).count)

    def may_be_matrices(self, lanes: Sequence[int | None]) -> bool:
        """Whether matrix instructions may move lanes with these offsets, as far as they are known."""
        return any(matrices.suit(lanes) for matrices in self.matrices)

    def by_matrices(self, registers: Sequence[int], lanes: Sequence[int]) -> int | None:
        """Wavefronts of registers and lanes with these offsets by matrix instructions, None where none fit."""
        for matrices in self.matrices:
            if matrices.suit(lanes):
                rows = matrices.rows_of(registers, lanes)
                if rows is not None:
                    return matrices.wavefronts(self.target, *rows)
        return None

    def served(self, size: int) -> tuple[int, ...] | None:
        """The lane bits on whose offsets alone `conflicts` depends, in any order; None where it is not so."""
        return _alone(self.target.service(self.name, size).lanes)

    def wavefronts(self, registers: tuple[int, ...], size: int, lanes: Sequence[int]) -> int:
        """Wavefronts of a warp whose registers and lanes have these offsets, `size` bytes a thread at once."""
        plain = self.without_conflicts(_rank(registers), size) * self.conflicts(size, lanes)
        found = self.by_matrices(registers, lanes)
        return plain if found is None else min(plain, found)


@dataclass(frozen=True, slots=True)
class _Matrices:
    """Matrix instructions.

    lanes: lane bits, each with the offset that it must have. word: offsets that registers must have, which one
    instruction moves. leading: how many registers else, the first. rows: what names the rows, a lane bit or one
    of the leading registers. together: which sums of rows are served at once, in how many phases.
    """

    lanes: tuple[tuple[int, int], ...]
    word: tuple[int, ...]
    leading: int
    rows: tuple[tuple[str, int], ...]
    row_bytes: int
    together: tuple[int, ...]
    banks: int
    phases: int

    def suit(self, lanes: Sequence[int | None]) -> bool:
        """Whether lanes have the offsets that they must have, or may have them where that is not known."""
        for lane, offset in self.lanes:
            found = lanes[lane]
            if found != offset and found is not None:
                return False
        return True

    def rows_of(self, registers: Sequence[int], lanes: Sequence[int]) -> tuple[list[int], list[int]] | None:
        """Offsets of what names the rows, and of registers beyond an instruction; None if it does not fit."""
        if len(registers) < self.leading or not set(self.word) <= set(registers):
            return None
        rows = [lanes[number] if what == "lane" else registers[number] for what, number in self.rows]
        outer = [offset for offset in registers[self.leading :] if offset not in self.word]
        return None if any(offset % self.row_bytes for offset in (*rows, *outer)) else (rows, outer)

    def wavefronts(self, target: Target, rows: Sequence[int], outer: Sequence[int]) -> int:
        """Those that it takes, with what `rows_of` gives."""
        together = [f2.multiply_vector(rows, sum_) for sum_ in self.together]
        conflicts = _conflicts(together, self.row_bytes, self.banks, target.bank_bytes)
        return (self.phases << f2.rank(outer)) * conflicts


@functools.lru_cache(maxsize=256)
def _matrices(kind: str, size: int, target: Target, lane_bits: int) -> tuple[_Matrices, ...]:
    """Matrix instructions for loads or stores, by `kind`, of elements of `size` bytes.

    On NVIDIA GPUs a row is 16 bytes, the words of four lanes, and there are eight; or, transposed, the
    half-words of eight lanes, each of which has two. On AMD's it is what `transposing.FORMS` says.
    """
    names = target.store_matrix if kind == STORE else target.load_matrix
    if target.vendor == "amd":
        return () if kind == STORE else _transposing(names, size, target)
    if not names or size > _WORD or lane_bits != _LANE_BITS:
        return ()
    word = tuple(size << bit for bit in range((_WORD // size).bit_length() - 1))
    each = (1, 2, 4)
    rows = tuple(("lane", lane) for lane in (2, 3, 4))
    found = [_Matrices(((0, 4), (1, 8)), word, 0, rows, _ROW_BYTES, each, target.banks, 1)]
    if size == 2:
        rows = ("register", 0), ("lane", 0), ("lane", 1)
        found.append(_Matrices(((2, 2), (3, 4), (4, 8)), (), 1, rows, _ROW_BYTES, each, target.banks, 1))
    return tuple(found)


def _transposing(names: Sequence[str], size: int, target: Target) -> tuple[_Matrices, ...]:
    """Instructions of `transposing.FORMS` whose rows are of elements of this size."""
    found = []
    for form in (FORMS[name] for name in names):
        if form.unit == size:
            service = target.service(LOAD, form.row_bytes)
            kinds = {"l": "lane", "r": "register"}
            rows = tuple((kinds[source[0]], int(source[1:])) for source in form.lanes)
            lanes = tuple((lane, form.unit << place) for place, lane in enumerate(form.row))
            phases = target.lanes // service.count
            found.append(
                _Matrices(
                    lanes, (), form.register_bits, rows, form.row_bytes, service.lanes, service.banks, phases
                )
            )
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _alone(lanes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The bits of these numbers of lanes, where each has one."""
    return (
        tuple(lane.bit_length() - 1 for lane in lanes) if all(lane.bit_count() == 1 for lane in lanes) else None
    )


_rank = functools.lru_cache(maxsize=4096)(f2.rank)


def _conflicts(lanes: Sequence[int], size: int, bank_count: int, bank_bytes: int) -> int:
    """How often the bank that is asked most is asked, by lanes with these offsets for `size` bytes each."""
    return _most_asked(tuple(sorted(lanes)), size, bank_count, bank_bytes)  # in any order


@functools.lru_cache(maxsize=4096)
def _most_asked(lanes: tuple[int, ...], size: int, bank_count: int, bank_bytes: int) -> int:
    inside = [1 << bit for bit in range((size // bank_bytes).bit_length() - 1)]
    words = [offset // bank_bytes for offset in lanes]
    banks = [word % bank_count for word in words]
    return 1 << (f2.rank([*words, *inside]) - f2.rank([*banks, *inside]))
