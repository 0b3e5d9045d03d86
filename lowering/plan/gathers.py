"""What a gather will do: plans by shuffles and through shared memory. Pure data, as in `plan`."""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import WIDEST_LOAD, MemorySide

LEGACY_GATHER = "gather-legacy"
"""The kind of plans as Triton's were before linear layouts."""

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one register of the result is chosen from: source registers `base` xor the choice's, read in the
    lane that the plan's maps give xor `lane_flip`; the choice is what its maps give xor `choice_flip`."""

    base: int
    lane_flip: int
    choice_flip: int


@dataclass(frozen=True, slots=True)
class GatherPlan:
    """A gather inside a warp: every result is one of 2^n source registers of the lane that its index names.

    The lane is the xor of `lane_by_index[j]` over the set bits j of the index and `lane_by_thread[k]` over the
    set bits k of the thread number; so is the choice of its columns. Choice c stands for source register
    `Wanted.base` xor the `choices[j]` of the set bits j of c. Its lowest `packed` bits number the elements of a
    word. Register i of the result is what `wanted[outputs[i]]` gives for the index in register
    `indices[outputs[i]]`. Without `moves` the lane is always the own one.
    """

    source_registers: int
    index_registers: int
    axis_bits: int
    lane_by_index: Columns
    lane_by_thread: Columns
    choice_by_index: Columns
    choice_by_thread: Columns
    choices: Columns
    packed: int
    moves: bool
    indices: tuple[int, ...]
    wanted: tuple[Wanted, ...]
    outputs: tuple[int, ...]
    kind: str = "gather"
    scratch_bytes: int = 0

    @property
    def kept_lanes(self) -> int | None:
        """The bits of the lane that are the own one's, where the index alone gives all others; else None."""
        kept = sum(column for bit, column in enumerate(self.lane_by_thread) if column == 1 << bit)
        from_index = (*self.lane_by_index, *(wanted.lane_flip for wanted in self.wanted))
        if any(column not in (0, 1 << bit) for bit, column in enumerate(self.lane_by_thread)):
            return None
        return None if any(column & kept for column in from_index) else kept

    @property
    def words(self) -> int:
        """Words that each result is chosen from."""
        return 1 << (len(self.choices) - self.packed)

    @property
    def shuffles(self) -> int:
        """Words that come from other lanes."""
        return len(self.wanted) * self.words if self.moves else 0

    @property
    def permutes(self) -> int:
        """Elements that are taken out of words of several."""
        return len(self.wanted) if self.packed else 0

    @property
    def select_bits(self) -> int:
        """Bits of the choice that selects are made by; a permute takes the element's place, and one of two
        words."""
        high = len(self.choices) - self.packed
        return max(0, high - 1) if self.packed else high

    @property
    def selects(self) -> int:
        """Selects between words."""
        pairs = min(2, self.words) if self.packed else 1
        return len(self.wanted) * (self.words - pairs)

    def groups(self, wanted: Wanted) -> Iterator[tuple[int, ...]]:
        """The source registers of each word that a result is chosen from, lowest element first."""
        low, high = self.choices[: self.packed], self.choices[self.packed :]
        for word in f2.sums(high):
            yield tuple(wanted.base ^ word ^ slot for slot in f2.sums(low))

    def summary(self) -> str:
        """One line for people."""
        packed = f" of {1 << self.packed} packed registers" if self.packed else ""
        steps = f"{_count(self.shuffles, 'shuffle')}{packed}" if self.moves else "inside the lane"
        return f"gather: {steps}, {_count(self.selects, 'select')}, {_count(self.permutes, 'permute')}"


@dataclass(frozen=True, slots=True)
class Fetch:
    """One load of a gather: of the element that the index in register `index` names, at the address that the
    plan's maps give xor `offset`."""

    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class GatherSharedPlan:
    """A gather through shared memory, in one or more rounds over the same scratch.

    The stores are as those of a `SharedPlan`. The byte address that a fetch loads is the xor of
    `address_by_index[j]` over the set bits j of the index, `address_by_thread[k]` over the set bits k of the
    thread number, and its own offset. Register i of the result is what fetch `outputs[i]` loads, counted
    through the rounds. Rounds are separated by barriers of the plan's scope; `waits`: there is one before the
    first too.
    """

    source_registers: int
    index_registers: int
    axis_bits: int
    scope: str
    element_bytes: int
    store: MemorySide
    split: Columns
    address_by_index: Columns
    address_by_thread: Columns
    fetches: tuple[tuple[Fetch, ...], ...]
    outputs: tuple[int, ...]
    scratch_bytes: int
    waits: bool = False
    kind: str = "gather-shared"

    @property
    def per_word(self) -> int:
        """Registers that lie side by side in a word."""
        return max(1, 4 // self.element_bytes)

    @property
    def loads(self) -> int:
        """Loads of one thread."""
        return sum(map(len, self.fetches))

    @property
    def stores(self) -> int:
        """Stores of one thread."""
        return sum(map(len, self.store.rounds))

    @property
    def barriers(self) -> int:
        """One between the stores and loads of a round, one between rounds."""
        return 2 * len(self.fetches) - 1 + self.waits

    @property
    def stores_apart(self) -> bool:
        """As `SharedPlan.stores_apart`."""
        return len(self.store.rounds[0]) > 1 and self.source_registers * self.element_bytes > WIDEST_LOAD

    def summary(self) -> str:
        """One line for people."""
        stores = f"{_count(self.stores, 'store')} of {self.store.access_bytes * 8} bits"
        loads = f"{_count(self.loads, 'load')} of {self.element_bytes * 8} bits"
        barriers = _count(self.barriers, f"{self.scope} barrier")
        return f"{self.kind}: {stores}, {loads}, {barriers}, {self.scratch_bytes} bytes of scratch"


AnyGatherPlan = GatherPlan | GatherSharedPlan


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
