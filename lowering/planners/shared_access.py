"""The one count of wavefronts that accesses to shared memory take, by planners, passes and tools.

Lanes that are served together (`target.phases`) access words in banks, and take as many wavefronts as the
busiest bank has different words. Where addresses are known, they are counted (`touches`). In a
layout over F2, the words are 2^rank in 2^rank' banks, and all phases are alike (`conflicts`, `Kind`). For
matrix instructions, some bits of the lane and of the register number select the row.

The interpreter counts by itself: tests compare both.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.transposing import FORMS
from triton_linear.lowering.target.phases import BANK_BYTES, LOAD, STORE, WIDEST, Service
from triton_linear.lowering.target.targets import Target

_ROW_BYTES = 16
_LANE_BITS = 5
_WORD = 4


def _by_bank(addresses: Iterable[int], width: int, service: Service) -> dict[int, int]:
    """How many different words lanes that are served together access in each bank, `width` bytes each."""
    words = range(max(1, width // BANK_BYTES))
    accessed = {address // BANK_BYTES + word for address in addresses for word in words}
    return Counter(word % service.banks for word in sorted(accessed))


def _phases(addresses: Sequence[int], service: Service) -> Iterator[tuple[int, ...]]:
    """The lanes of a warp, phase by phase."""
    order = service.order(len(addresses))
    for start in range(0, len(addresses), service.count):
        yield tuple(sorted(order[start : start + service.count]))


def conflicts(lanes: Sequence[int], size: int, banks: int) -> int:
    """Accesses to the busiest bank, by lanes that access `size` bytes each at the sums of these offsets."""
    # The order of the offsets has no effect: sorting makes the cache hit more often.
    return _sorted_conflicts(tuple(sorted(lanes)), size, banks)


@dataclass(slots=True)
class Kind:
    """A kind of access to shared memory: LOAD or STORE (`name`), of elements of `element_bytes` bytes, by a
    warp of 2^`lane_bits` lanes.

    copies: True for a copy from global memory, which no matrix instruction does.
    """

    name: str
    element_bytes: int
    target: Target
    lane_bits: int
    copies: bool = False
    matrices: tuple[_MatrixInstruction, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.matrices = (
            ()
            if self.copies
            else _matrix_instructions(self.name, self.element_bytes, self.target, self.lane_bits)
        )

    def by_matrices(self, registers: Sequence[int], lanes: Sequence[int]) -> int | None:
        """Wavefronts by matrix instructions for registers and lanes with these offsets; None if no instruction
        fits."""
        for matrices in self.matrices:
            if matrices.suit(lanes):
                rows = matrices.rows_of(registers, lanes)
                if rows is not None:
                    return matrices.wavefronts(*rows)
        return None

    def wavefronts(self, registers: tuple[int, ...], size: int, lanes: Sequence[int]) -> int:
        """Wavefronts of a warp whose registers and lanes have these offsets, `size` bytes a thread at once."""
        service = self.target.service(self.name, size)
        if len(lanes) > len(service.lanes):
            service = service.of(lanes)
        together = [f2.multiply_vector(lanes, lane) for lane in service.lanes]
        accesses = 1 << (_rank(registers) - (size // self.element_bytes).bit_length() + 1)
        plain = accesses * max(1, (1 << self.lane_bits) // service.count)
        plain *= conflicts(together, size, service.banks)
        by_matrices = self.by_matrices(registers, lanes)
        return plain if by_matrices is None else min(plain, by_matrices)


@dataclass(frozen=True, slots=True)
class _MatrixInstruction:
    """A matrix instruction.

    lanes: lane bits, each with the offset that it must have. word: offsets that some register bits must have,
    the ones inside a word of the instruction. leading: how many of the first register bits the instruction
    moves besides. rows: the bits that select the row: each a lane bit or one of the leading register bits.
    together: the sums of row offsets that are served in one phase. phases: number of phases.
    """

    lanes: tuple[tuple[int, int], ...]
    word: tuple[int, ...]
    leading: int
    rows: tuple[tuple[str, int], ...]
    row_bytes: int
    together: tuple[int, ...]
    banks: int
    phases: int

    def suit(self, lanes: Sequence[int]) -> bool:
        """True if the lanes have the offsets that the instruction needs."""
        return all(lanes[lane] == needed for lane, needed in self.lanes)

    def rows_of(self, registers: Sequence[int], lanes: Sequence[int]) -> tuple[list[int], list[int]] | None:
        """Offsets of the bits that select the row, and of the register bits that select the instruction; None
        if the instruction does not fit."""
        if len(registers) < self.leading or not set(self.word) <= set(registers):
            return None
        rows = [lanes[number] if what == "lane" else registers[number] for what, number in self.rows]
        outer = [offset for offset in registers[self.leading :] if offset not in self.word]
        return None if any(offset % self.row_bytes for offset in (*rows, *outer)) else (rows, outer)

    def wavefronts(self, rows: Sequence[int], outer: Sequence[int]) -> int:
        """Wavefronts of a warp; `rows` and `outer` as `rows_of` gives them."""
        together = [f2.multiply_vector(rows, sum_) for sum_ in self.together]
        factor = conflicts(together, self.row_bytes, self.banks)
        return (self.phases << f2.rank(outer)) * factor


@functools.lru_cache(maxsize=256)
def _matrix_instructions(
    kind: str, size: int, target: Target, lane_bits: int
) -> tuple[_MatrixInstruction, ...]:
    """The matrix instructions of a target that load or store (`kind`) elements of `size` bytes.

    NVIDIA: a matrix has eight rows of 16 bytes. A row is the words of four lanes; transposed, it is the
    half-words of eight lanes, each of which has two. AMD: as in `transposing.FORMS`.
    """
    names = target.store_matrix if kind == STORE else target.load_matrix
    if target.vendor == "amd":
        return () if kind == STORE else _transposing_instructions(names, size, target)
    if not names or size > _WORD or lane_bits != _LANE_BITS:
        return ()
    word = tuple(size << bit for bit in range((_WORD // size).bit_length() - 1))
    each = (1, 2, 4)
    rows = tuple(("lane", lane) for lane in (2, 3, 4))
    found = [_MatrixInstruction(((0, 4), (1, 8)), word, 0, rows, _ROW_BYTES, each, target.banks, 1)]
    if size == 2:
        rows = ("register", 0), ("lane", 0), ("lane", 1)
        found.append(
            _MatrixInstruction(((2, 2), (3, 4), (4, 8)), (), 1, rows, _ROW_BYTES, each, target.banks, 1)
        )
    return tuple(found)


def _transposing_instructions(
    names: Sequence[str], size: int, target: Target
) -> tuple[_MatrixInstruction, ...]:
    """The instructions of `transposing.FORMS` whose rows consist of elements of `size` bytes."""
    found = []
    for form in (FORMS[name] for name in names):
        if form.unit == size:
            service = target.service(LOAD, form.row_bytes)
            kinds = {"l": "lane", "r": "register"}
            rows = tuple((kinds[source[0]], int(source[1:])) for source in form.lanes)
            lanes = tuple((lane, form.unit << place) for place, lane in enumerate(form.row))
            phases = target.lanes // service.count
            found.append(
                _MatrixInstruction(
                    lanes, (), form.register_bits, rows, form.row_bytes, service.lanes, service.banks, phases
                )
            )
    return tuple(found)


_rank = functools.lru_cache(maxsize=4096)(f2.rank)


@functools.lru_cache(maxsize=4096)
def _sorted_conflicts(lanes: tuple[int, ...], size: int, banks: int) -> int:
    inside = [1 << bit for bit in range((size // BANK_BYTES).bit_length() - 1)]
    words = [offset // BANK_BYTES for offset in lanes]
    reached = [word % banks for word in words]
    return 1 << (f2.rank([*words, *inside]) - f2.rank([*reached, *inside]))


@dataclass(frozen=True, slots=True)
class Phase:
    """Lanes that are served together, and the number of different words that they access in each bank."""

    lanes: tuple[int, ...]
    banks: dict[int, int] = field(hash=False)

    @property
    def wavefronts(self) -> int:
        """The words of the busiest bank."""
        return max(self.banks.values())


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of a warp.

    registers: those that it moves. width: bytes of a lane. addresses: of each lane. minimum: the fewest
    wavefronts for the same number of words.
    """

    registers: tuple[int, ...]
    width: int
    addresses: tuple[int, ...]
    phases: tuple[Phase, ...]
    minimum: int

    @property
    def wavefronts(self) -> int:
        """Wavefronts of all phases."""
        return sum(phase.wavefronts for phase in self.phases)


def touches(
    places: Sequence[Sequence[int]], element_bytes: int, target: Target, kind: str = LOAD
) -> tuple[Touch, ...]:
    """The loads or stores by which one warp moves every register of every lane, with the widest vectors that
    fit all lanes.

    Requires: `places` has the byte address of each element, for each register and lane.
    Ensures: registers with the same addresses are moved once; vectors have a power of two elements, at most
    `WIDEST`, and are aligned in every lane. Matrix instructions are not considered.
    """
    found: list[Touch] = []
    held = {tuple(places[register]): register for register in reversed(range(len(places)))}
    left = sorted(held.values())
    while left:
        vector = _vector(places, left, element_bytes, WIDEST)
        left = [register for register in left if register not in vector]
        found.append(_touch(places[vector[0]], tuple(vector), element_bytes, target, kind))
    return tuple(found)


def _vector(places: Sequence[Sequence[int]], left: Sequence[int], element_bytes: int, most: int) -> list[int]:
    """The registers of the next access: the longest run that begins at an aligned address in every lane."""
    best: list[int] = []
    at = {tuple(places[register]): register for register in left}
    for first in left:
        vector = [first]
        while len(vector) * element_bytes < most:
            step = len(vector) * element_bytes
            following = at.get(tuple(address + step for address in places[first]))
            if following is None:
                break
            vector.append(following)
        length = 1 << (len(vector).bit_length() - 1)
        while length > 1 and any(address % (length * element_bytes) for address in places[first]):
            length //= 2
        if length > len(best):
            best = vector[:length]
        if len(best) * element_bytes >= most:
            break
    return best


def _touch(
    addresses: Sequence[int], registers: tuple[int, ...], element_bytes: int, target: Target, kind: str
) -> Touch:
    width = len(registers) * element_bytes
    service = target.service(kind, width)
    if len(addresses) > service.count and _joins(addresses, service):
        service = service.joined
    phases = tuple(
        Phase(lanes, _by_bank([addresses[lane] for lane in lanes], width, service))
        for lanes in _phases(addresses, service)
    )
    minimum = sum(-(-sum(phase.banks.values()) // service.banks) for phase in phases)
    return Touch(registers, width, tuple(addresses), phases, minimum)


def _joins(addresses: Sequence[int], service: Service) -> bool:
    """Whether phases are joined, as all lanes whose numbers differ by one of `service.pairs` have copies."""
    return any(
        all(address == addresses[lane ^ pair] for lane, address in enumerate(addresses))
        for pair in service.pairs
    )
