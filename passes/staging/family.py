"""Layouts of registers in which an access to shared memory may be cheaper than in the one that is wanted.

They hold the same elements in the same warps, so a conversion from one to another stays inside the warp. Each
is the wanted layout with its basis vectors in other places: some where an instruction wants them (its pattern),
the others where they were, unless they were displaced or stand in the way of a bank.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field

from triton_linear.dialect import f2
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.transposing import FORMS
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.analysis.wavefronts import Kind, Wavefronts

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
    making = _Making.of(local, registers, bases[LANE], bases.get(WARP, ()), target)
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


@dataclass(frozen=True, slots=True)
class _Left:
    """The registers that go with some lanes, and the wavefronts of both by the offsets of the lanes."""

    registers: tuple[Basis, ...]
    wavefronts: Wavefronts


@dataclass(frozen=True)
class _Making:
    """A wanted layout by its basis vectors, and the access that it is wanted for.

    widths: bytes that instructions may move at once, where registers have the offsets below them.
    register_bits: how many vectors are in registers at least. left: what is known of registers by those that
    lead and the lanes in any order.
    """

    kind: Kind
    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    offsets: Mapping[Basis, int]
    widths: tuple[int, ...]
    register_bits: int
    left: dict[tuple[tuple[Basis, ...], Set[Basis]], _Left] = field(default_factory=dict)

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
        widths = _doubling(local.element_bytes, 2 * widest)
        register_bits = max(0, f2.rank(inside) - len(lanes))
        return _Making(local.kind(len(lanes), target), registers, lanes, offsets, widths, register_bits)

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
                for made in self._filled(leading, stay, best):
                    least = made.wavefronts if least is None else min(least, made.wavefronts)
                    yield made
            if least is not None:
                best = least
            if given == self.kind.target.policy.staging_giving_way or best is None or best <= self._fewest():
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
        there = [self.offsets[stay[lane]] if lane in stay else None for lane in range(len(self.lanes))]
        # Lanes that stay may conflict so much that no filling helps, unless it is for matrix instructions.
        bound = None if self.kind.may_be_matrices(there) else below
        conflicts: dict[int, int] = {}
        if bound is not None:
            conflicts = {size: self.kind.conflicts(size, there) for size in self.widths}
            if all(self._least(size) * count >= bound for size, count in conflicts.items()):
                return []
        open_lanes = [lane for lane in range(len(self.lanes)) if lane not in stay]
        placed = {*leading, *stay.values()}
        left = [basis for basis in (*self.lanes, *self.registers) if basis not in placed and any(basis)]
        left.sort(key=self._reaches(stay.values()))
        left += [basis for basis in self.lanes if not any(basis)][: len(open_lanes)]
        policy = self.kind.target.policy
        # Which vectors go to lanes says what registers are left; many fillings differ in their order alone.
        sets: dict[Set[Basis], Wavefronts | None] = {}
        made: list[tuple[int, int, int, tuple[Basis, ...]]] = []
        lanes = [offset or 0 for offset in there]
        before = [self.lanes[lane] for lane in open_lanes]
        held = frozenset(self.lanes)
        fillings = itertools.permutations(left, len(open_lanes))
        for filling in itertools.islice(fillings, policy.staging_fillings):
            chosen = frozenset(filling)
            if chosen not in sets:
                found = self._left(leading, chosen.union(stay.values())).wavefronts
                is_few = bound is None or found.whole * conflicts[found.size] < bound
                sets[chosen] = found if is_few else None
            counted = sets[chosen]
            if counted is None:
                continue
            for lane, basis in zip(open_lanes, filling, strict=True):
                lanes[lane] = self.offsets[basis]
            wavefronts = counted.of(lanes)
            if below is None or wavefronts < below:
                moved = sum(map(operator.ne, filling, before))
                made.append((wavefronts, len(chosen - held), moved, filling))
        made.sort(key=operator.itemgetter(0, 1, 2))
        return [
            self._made(leading, stay | dict(zip(open_lanes, filling, strict=True)), wavefronts)
            for wavefronts, _, _, filling in made[: policy.staging_fillings_kept]
        ]

    def _reaches(self, lanes: Iterable[Basis]) -> Callable[[Basis], bool]:
        """Puts in front what reaches banks that these lanes do not."""
        line = self.kind.target.wavefront_bytes
        banks = f2.Echelon([self.offsets[basis] % line for basis in lanes])
        return lambda basis: not banks.add(self.offsets[basis] % line)

    def _made(self, leading: tuple[Basis, ...], placed: Mapping[int, Basis], wavefronts: int) -> Places:
        lanes = tuple(placed[lane] for lane in range(len(self.lanes)))
        return Places(
            self._left(leading, frozenset(lanes)).registers,
            lanes,
            wavefronts,
            sum(basis not in self.lanes for basis in lanes),
            sum(basis != before for basis, before in zip(lanes, self.lanes, strict=True)),
        )

    def _left(self, leading: tuple[Basis, ...], lanes: Set[Basis]) -> _Left:
        """What is left where these vectors lead registers, and those are in lanes."""
        found = self.left.get((leading, lanes))
        if found is None:
            rest = [
                basis for basis in (*self.registers, *self.lanes) if basis not in leading and basis not in lanes
            ]
            registers = (*leading, *(basis for basis in rest if any(basis)))
            offsets = tuple([self.offsets[basis] for basis in registers])
            size = next((size for size in self.widths if size not in offsets), self.widths[-1])
            found = self.left[leading, lanes] = _Left(registers, Wavefronts(self.kind, offsets, size))
        return found
