"""Layouts of registers in which an access to shared memory may be cheaper than in the one that is wanted.

They hold the same elements in the same warps, so a conversion from one to another stays inside the warp. Each
is the wanted layout with its basis vectors in other places: some where an instruction wants them (its pattern),
the others where they were, unless they were displaced or stand in the way of a bank.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.shared_access import Kind
from triton_linear.lowering.planners.transposing import FORMS
from triton_linear.lowering.target import limits
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


def places(local: LocalAccess, wanted: LinearLayout, target: Target, below: int | None = None) -> list[Places]:
    """Placements of the basis vectors of a layout that suit an instruction and take less than `below`
    wavefronts, each once.

    Requires: the layout and the access are of one tensor. Ensures: each holds the same elements in each warp;
    none has registers that are copies of others in the warp.
    """
    bases = dict(wanted.bases)
    independent = f2.Echelon(())
    bits = [size.bit_length() - 1 for _, size in wanted.out_dims]
    for basis in bases[LANE]:
        independent.add(_flat(basis, bits))
    registers = tuple(basis for basis in bases[REGISTER] if independent.add(_flat(basis, bits)))
    making = _Making.of(local, registers, bases[LANE], bases.get(WARP, ()), target)
    found: dict[tuple[tuple[Basis, ...], tuple[Basis, ...]], Places] = {}
    for pattern in patterns(local, target):
        for made in making.with_pattern(pattern, below):
            found.setdefault((made.registers, made.lanes), made)
    return list(found.values())


def _flat(basis: Basis, bits: Sequence[int]) -> int:
    value = shift = 0
    for coordinate, width in zip(basis, bits, strict=True):
        value |= coordinate << shift
        shift += width
    return value


@dataclass(frozen=True)
class _Making:
    """A wanted layout by its basis vectors, and the access that it is wanted for.

    bits: what stands for each basis vector in a set of them, a number with one bit; 0 for that of copies.
    widths: bytes that instructions may move at once, where registers have the offsets below them, and the lanes
    that are served together then (`Kind.served`).
    register_bits: how many vectors are in registers at least. asked: conflicts that are known, by the bytes at
    once and the lanes. moves: by the set of lanes, the bytes at once, and wavefronts without conflicts.
    """

    kind: Kind
    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    offsets: Mapping[Basis, int]
    bits: Mapping[Basis, int]
    widths: Mapping[int, tuple[int, ...] | None]
    register_bits: int
    asked: dict[tuple[int, object], float] = field(default_factory=dict)
    moves: dict[int, tuple[int, int]] = field(default_factory=dict)

    @functools.cached_property
    def place(self) -> Mapping[int, int]:
        """Offsets by what stands for vectors."""
        return {0: 0} | {bit: self.offsets[basis] for basis, bit in self.bits.items()}

    @staticmethod
    def of(
        local: LocalAccess,
        registers: tuple[Basis, ...],
        lanes: tuple[Basis, ...],
        warps: tuple[Basis, ...],
        target: Target,
    ) -> _Making:
        """That of a layout with these basis vectors."""
        offsets = {basis: local.offset(basis) for basis in (*registers, *lanes, *warps)}
        inside = [offsets[basis] for basis in (*registers, *lanes)]
        # Vectors change places between registers and lanes, so all of them are registers here.
        widest = local.width_of(inside, [offsets[basis] for basis in warps], target.max_access_bytes)
        kind = local.kind(len(lanes), target)
        widths = {size: kind.served(size) for size in _doubling(local.element_bytes, 2 * widest)}
        register_bits = max(0, f2.rank(inside) - len(lanes))
        moving = dict.fromkeys(basis for basis in (*lanes, *registers) if any(basis))
        bits = {basis: 1 << number for number, basis in enumerate(moving)}
        bits |= {basis: 0 for basis in lanes if not any(basis)}
        return _Making(kind, registers, lanes, offsets, bits, widths, register_bits)

    def with_pattern(self, pattern: Pattern, below: int | None) -> Iterator[Places]:
        """Those with this pattern and few wavefronts, less than `below`; none where no vectors of the warp have
        its offsets."""
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
        best = below
        # Lanes stay where they were, but for as few as must give way to others that reach other banks.
        for given in range(len(kept) + 1):
            least: int | None = None
            for gone in itertools.combinations(kept, given):
                stay = fixed | {lane: basis for lane, basis in kept.items() if lane not in gone}
                for made in self._filled(leading, stay, best):
                    least = made.wavefronts if least is None else min(least, made.wavefronts)
                    yield made
            if least is not None:
                best = least
            if given == limits.STAGING_GIVING_WAY or best is None or best <= self._fewest():
                return

    def _fewest(self) -> int:
        """Wavefronts of a warp if each is full."""
        held = self.kind.element_bytes << len(self.registers) + f2.rank(
            [self.offsets[basis] for basis in self.lanes]
        )
        return max(1, held // self.kind.target.wavefront_bytes)

    def _least(self, size: int) -> int:
        """Wavefronts of a warp that moves `size` bytes at once, without conflicts, whatever is in its lanes."""
        bits = max(self.register_bits, (size // self.kind.element_bytes).bit_length() - 1)
        return self.kind.without_conflicts(bits, size)

    def _filled(self, leading: tuple[Basis, ...], stay: dict[int, Basis], below: int | None) -> list[Places]:
        """With the open lanes filled by the vectors that are left, the best first, as far as they take less
        than `below` wavefronts."""
        bits = self.bits
        lanes = [bits[stay[lane]] if lane in stay else None for lane in range(len(self.lanes))]
        there = [None if bit is None else self.place[bit] for bit in lanes]
        # Lanes that stay may conflict so much that no filling helps, unless it is for matrix instructions.
        matrices = [
            [(lane, self._having(offset)) for lane, offset in each.lanes]
            for each in self.kind.matrices
            if each.suit(there)
        ]
        bound = None if matrices else below
        conflicts: dict[int, float] = {}
        if bound is not None:
            conflicts = {size: self._conflicts(size, lanes) for size in self.widths}
            if not all(map(any, self.lanes)):  # copies in lanes that are still open may join phases
                service = {size: self.kind.target.service(self.kind.name, size) for size in self.widths}
                conflicts = {size: n / 2 if service[size].pairs else n for size, n in conflicts.items()}
            if all(self._least(size) * count >= bound for size, count in conflicts.items()):
                return []
        open_lanes = [lane for lane in range(len(self.lanes)) if lane not in stay]
        placed = {*leading, *stay.values()}
        left = [basis for basis in (*self.lanes, *self.registers) if basis not in placed and any(basis)]
        left.sort(key=self._reaches(stay.values()))
        left += [basis for basis in self.lanes if not any(basis)][: len(open_lanes)]
        # Which vectors go to lanes says what registers are left; many fillings differ in their order alone.
        sets: dict[int, tuple[int, int] | None] = {}
        made: list[tuple[int, int, int, tuple[int, ...]]] = []
        before = [bits[self.lanes[lane]] for lane in open_lanes]
        staying, held = (_together([bits[basis] for basis in some]) for some in (stay.values(), self.lanes))
        fillings = itertools.permutations([bits[basis] for basis in left], len(open_lanes))
        for filling in itertools.islice(fillings, limits.STAGING_FILLINGS):
            chosen = sum(filling)  # of bits, each of which is there once
            if chosen not in sets:
                size, whole = found = self._moves(chosen | staying)
                sets[chosen] = found if bound is None or whole * conflicts[size] < bound else None
            counted = sets[chosen]
            if counted is None:
                continue
            for lane, bit in zip(open_lanes, filling, strict=True):
                lanes[lane] = bit
            size, whole = counted
            wavefronts = int(whole * self._conflicts(size, lanes))
            for asked in matrices:
                for lane, suitable in asked:
                    if lanes[lane] not in suitable:
                        break
                else:
                    wavefronts = min(wavefronts, self._by_matrices(leading, lanes) or wavefronts)
                    break
            if below is None or wavefronts < below:
                moved = sum(map(operator.ne, filling, before))
                made.append((wavefronts, (chosen & ~held).bit_count(), moved, filling))
        made.sort(key=operator.itemgetter(0, 1, 2))
        basis_of = {bit: basis for basis, bit in bits.items()}
        return [
            self._made(
                leading,
                stay | {lane: basis_of[bit] for lane, bit in zip(open_lanes, filling, strict=True)},
                wavefronts,
            )
            for wavefronts, _, _, filling in made[: limits.STAGING_FILLINGS_KEPT]
        ]

    def _reaches(self, lanes: Iterable[Basis]) -> Callable[[Basis], bool]:
        """Puts in front what reaches banks that these lanes do not."""
        line = self.kind.target.wavefront_bytes
        banks = f2.Echelon([self.offsets[basis] % line for basis in lanes])
        return lambda basis: not banks.add(self.offsets[basis] % line)

    def _made(self, leading: tuple[Basis, ...], placed: Mapping[int, Basis], wavefronts: int) -> Places:
        lanes = tuple(placed[lane] for lane in range(len(self.lanes)))
        return Places(
            self._left(leading, lanes),
            lanes,
            wavefronts,
            sum(basis not in self.lanes for basis in lanes),
            sum(basis != before for basis, before in zip(lanes, self.lanes, strict=True)),
        )

    def _left(self, leading: tuple[Basis, ...], lanes: Collection[Basis]) -> tuple[Basis, ...]:
        """The registers that are left where these vectors lead them, and those are in lanes."""
        rest = (basis for basis in (*self.registers, *self.lanes) if basis not in leading)
        return (*leading, *(basis for basis in rest if basis not in lanes and any(basis)))

    def _moves(self, lanes: int) -> tuple[int, int]:
        """Bytes that a thread moves at once if lanes have these vectors, and wavefronts without conflicts."""
        found = self.moves.get(lanes)
        if found is None:
            registers = [self.offsets[basis] for basis, bit in self.bits.items() if bit & ~lanes]
            size = next((size for size in self.widths if size not in registers), max(self.widths))
            whole = self.kind.without_conflicts(f2.rank(registers), size)
            found = self.moves[lanes] = size, whole
        return found

    def _conflicts(self, size: int, lanes: Sequence[int | None]) -> float:
        """`Kind.conflicts` of lanes with these vectors, each told by its bit."""
        served, together = self.widths[size], 0
        for lane in served or ():
            together |= lanes[lane] or 0
        pairs = self.kind.target.service(self.kind.name, size).pairs
        has_copies = any(lanes[pair.bit_length() - 1] == 0 for pair in pairs)
        key = size, tuple(lanes) if served is None or has_copies else together
        found = self.asked.get(key)
        if found is None:
            there = [None if bit is None else self.place[bit] for bit in lanes]
            found = self.asked[key] = self.kind.conflicts(size, there)
        return found

    def _having(self, offset: int) -> frozenset[int]:
        """What stands for vectors with this offset."""
        return frozenset(bit for bit, found in self.place.items() if found == offset)

    def _by_matrices(self, leading: tuple[Basis, ...], lanes: Sequence[int | None]) -> int | None:
        """`Kind.by_matrices` of lanes with these vectors, all of which are known."""
        there = [self.place[bit or 0] for bit in lanes]
        inside = {basis for basis, bit in self.bits.items() if bit in lanes}
        return self.kind.by_matrices([self.offsets[basis] for basis in self._left(leading, inside)], there)


def _together(bits: Sequence[int]) -> int:
    """The set of vectors that have these bits."""
    return functools.reduce(operator.or_, bits, 0)
