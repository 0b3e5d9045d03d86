"""Layouts of registers in which an access to shared memory may be cheaper than in the one that is wanted.

They hold the same elements in the same warps, so a conversion from one to another stays inside the warp. Each
is the wanted layout with its basis vectors in other places: some where an instruction wants them (its pattern),
the others where they were, unless they were displaced or stand in the way of a bank.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.planners.transposing import FORMS
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.shared_memory import LocalAccess

_WORD = 4

Basis = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What an instruction asks for: leading registers with these offsets in bytes, lane bits with theirs."""

    registers: tuple[int, ...]
    lanes: tuple[tuple[int, int], ...] = ()


def patterns(local: LocalAccess, target: Target) -> Iterator[Pattern]:
    """The patterns of the instructions of a target for one access, the widest first.

    Loads and stores have a vector in the registers of a thread. Matrix instructions have words in a thread and
    rows of 16 bytes in four lanes; transposed, a row is in eight lanes, and loads of AMD's that transpose say
    for themselves (`lowering/planners/transposing.py`).
    """
    size = local.element_bytes
    most = target.max_access_bytes
    while most >= size:
        yield Pattern(_doubling(size, most))
        most //= 2
    names = target.store_matrix if local.is_store else target.load_matrix
    for name in names:
        form = FORMS[name]
        if form.unit == size:
            yield Pattern((), tuple((lane, size << place) for place, lane in enumerate(form.row)))
    if target.vendor == "nvidia" and names and size <= _WORD:
        yield Pattern(_doubling(size, _WORD), ((0, _WORD), (1, 2 * _WORD)))


def _doubling(start: int, end: int) -> tuple[int, ...]:
    found = []
    while start < end:
        found.append(start)
        start *= 2
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Places:
    """A layout in the making: basis vectors with their offsets; `moved` lanes have another vector than before,
    `exchanged` of these a register's."""

    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    wavefronts: int
    exchanged: int
    moved: int

    def layout(self, like: LinearLayout) -> LinearLayout:
        """The layout with the warps of another."""
        bases = tuple(
            (name, {REGISTER: self.registers, LANE: self.lanes}.get(name, vectors))
            for name, vectors in like.bases
        )
        return LinearLayout.fitted(bases, like.out_dims)


def places(local: LocalAccess, wanted: LinearLayout, target: Target) -> list[Places]:
    """Placements of the basis vectors of a layout that suit an instruction, each once.

    Requires: the layout and the access are of one tensor. Ensures: each holds the same elements in each warp;
    none has registers that are copies of others in the warp.
    """
    bases = dict(wanted.bases)
    independent = f2.Echelon(())
    bits = [size.bit_length() - 1 for _, size in wanted.out_dims]
    for basis in bases[LANE]:
        independent.add(_flat(basis, bits))
    registers = tuple(basis for basis in bases[REGISTER] if independent.add(_flat(basis, bits)))
    vectors = (*bases[REGISTER], *bases[LANE], *bases.get(WARP, ()))
    offsets = {basis: local.offset(basis) for basis in vectors}
    making = _Making(local, target, registers, bases[LANE], bases.get(WARP, ()), offsets)
    found: dict[tuple[tuple[Basis, ...], tuple[Basis, ...]], Places] = {}
    for pattern in patterns(local, target):
        for made in making.with_pattern(pattern):
            found.setdefault((made.registers, made.lanes), made)
    return list(found.values())


def _flat(basis: Basis, bits: Sequence[int]) -> int:
    value = shift = 0
    for coordinate, width in zip(basis, bits, strict=True):
        value |= coordinate << shift
        shift += width
    return value


_Left = tuple[tuple[Basis, ...], list[int], int]
"""The registers that go with some lanes, their offsets, and the width of an access."""


@dataclass(frozen=True)
class _Making:
    """A wanted layout by its basis vectors, and the access that it is wanted for; what is known of registers
    by those that lead and the lanes in any order."""

    local: LocalAccess
    target: Target
    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    warps: tuple[Basis, ...]
    offsets: Mapping[Basis, int]
    left: dict[tuple[tuple[Basis, ...], Set[Basis]], _Left] = field(default_factory=dict)

    def with_pattern(self, pattern: Pattern) -> Iterator[Places]:
        """Those with this pattern and few wavefronts; none where no vectors of the warp have its offsets."""
        at = {self.offsets[basis]: basis for basis in (*self.registers, *self.lanes) if any(basis)}
        wanted = (*pattern.registers, *(offset for _, offset in pattern.lanes))
        if any(offset not in at for offset in wanted):
            return
        leading = tuple(at[offset] for offset in pattern.registers)
        fixed = {lane: at[offset] for lane, offset in pattern.lanes}
        if any(lane >= len(self.lanes) for lane in fixed):
            return
        taken = {at[offset] for offset in wanted}
        kept = {
            lane: basis for lane, basis in enumerate(self.lanes) if lane not in fixed and basis not in taken
        }
        best: int | None = None
        # Lanes stay where they were, but for as few as must give way to others that reach other banks.
        for given in range(len(kept) + 1):
            least: int | None = None
            for gone in itertools.combinations(kept, given):
                stay = fixed | {lane: basis for lane, basis in kept.items() if lane not in gone}
                for made in self._filled(leading, stay):
                    if best is None or made.wavefronts < best:
                        least = made.wavefronts if least is None else min(least, made.wavefronts)
                        yield made
            if least is not None:
                best = least
            if given == self.target.policy.staging_giving_way or best is None or best <= self._fewest():
                return

    def _fewest(self) -> int:
        """Wavefronts of a warp if each is full."""
        held = self.local.element_bytes << len(self.registers) + f2.rank(
            [self.offsets[basis] for basis in self.lanes]
        )
        return max(1, held // self.target.wavefront_bytes)

    def _filled(self, leading: tuple[Basis, ...], stay: dict[int, Basis]) -> Iterator[Places]:
        """With the open lanes filled by the vectors that are left, the best first."""
        open_lanes = [lane for lane in range(len(self.lanes)) if lane not in stay]
        placed = {*leading, *stay.values()}
        left = [basis for basis in (*self.lanes, *self.registers) if basis not in placed and any(basis)]
        left.sort(key=self._reaches(stay.values()))
        left += [basis for basis in self.lanes if not any(basis)][: len(open_lanes)]
        made = []
        policy = self.target.policy
        fillings = itertools.permutations(left, len(open_lanes))
        for filling in itertools.islice(fillings, policy.staging_fillings):
            lanes = stay | dict(zip(open_lanes, filling, strict=True))
            made.append(self._placed(leading, tuple(lanes[lane] for lane in range(len(self.lanes)))))
        made.sort(key=lambda places: (places.wavefronts, places.exchanged, places.moved))
        yield from made[: policy.staging_fillings_kept]

    def _reaches(self, lanes: Iterable[Basis]) -> Callable[[Basis], bool]:
        """Puts in front what reaches banks that these lanes do not."""
        line = self.target.wavefront_bytes
        banks = f2.Echelon([self.offsets[basis] % line for basis in lanes])
        return lambda basis: not banks.add(self.offsets[basis] % line)

    def _placed(self, leading: tuple[Basis, ...], lanes: tuple[Basis, ...]) -> Places:
        chosen = leading, frozenset(lanes)
        left = self.left.get(chosen)
        if left is None:
            left = self.left[chosen] = self._left(*chosen)
        registers, offsets, size = left
        there = [self.offsets[basis] for basis in lanes]
        return Places(
            registers,
            lanes,
            self.local.wavefronts_of(offsets, there, size, self.target),
            sum(basis not in self.lanes for basis in lanes),
            sum(basis != before for basis, before in zip(lanes, self.lanes, strict=True)),
        )

    def _left(self, leading: tuple[Basis, ...], lanes: Set[Basis]) -> _Left:
        rest = [
            basis for basis in (*self.registers, *self.lanes) if basis not in leading and basis not in lanes
        ]
        registers = (*leading, *(basis for basis in rest if any(basis)))
        here = [self.offsets[basis] for basis in registers]
        others = [self.offsets[basis] for basis in (*lanes, *self.warps)]
        return registers, here, self.local.width_of(here, others, self.target.max_access_bytes)
