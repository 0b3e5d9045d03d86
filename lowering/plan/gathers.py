"""Plans of gathers, by shuffles and through shared memory. Pure data, as in `plans`."""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import CLUSTER, WIDEST_LOAD, MemorySide, Ranks

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GatheredWord:
    """The word of one result register, relative to the maps of its plan.

    It is source register `base` xor the register of the choice, in the lane of the plan's maps xor `lane_flip`;
    the choice is that of the plan's maps xor `choice_flip`.
    """

    base: int
    lane_flip: int
    choice_flip: int


@dataclass(frozen=True, slots=True)
class GatherPlan:
    """A gather inside a warp: every result is one of 2^n source registers of the lane that its index names.

    The lane is the xor of `lane_by_index[j]` over the set bits j of the index and `lane_by_thread[k]` over the
    set bits k of the thread number. The choice follows in the same way from `choice_by_index` and
    `choice_by_thread`. Choice c stands for source register `GatheredWord.base` xor the `choices[j]` of the set
    bits j of c. Its lowest `packed` bits number the elements of a word. Register i of the result is the word
    `wanted[outputs[i]]` for the index in register `indices[outputs[i]]`. Without `moves` every lane reads its
    own registers.
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
    wanted: tuple[GatheredWord, ...]
    outputs: tuple[int, ...]
    kind: str = "gather"
    scratch_bytes: int = 0

    @property
    def kept_lanes(self) -> int | None:
        """The bits of the lane read that are always those of the reading lane.

        None unless the index alone gives all other bits.
        """
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
        """Words that are read from other lanes."""
        return len(self.wanted) * self.words if self.moves else 0

    @property
    def permutes(self) -> int:
        """Elements that are extracted from packed words."""
        return len(self.wanted) if self.packed else 0

    @property
    def select_bits(self) -> int:
        """Bits of the choice that are conditions of selects. With packed words, a permute takes the position of
        the element and one more bit, which chooses between two words."""
        high = len(self.choices) - self.packed
        return max(0, high - 1) if self.packed else high

    @property
    def selects(self) -> int:
        """Selects between words."""
        pairs = min(2, self.words) if self.packed else 1
        return len(self.wanted) * (self.words - pairs)

    def groups(self, wanted: GatheredWord) -> Iterator[tuple[int, ...]]:
        """Yield the source registers of each word that a result is chosen from, lowest element first."""
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
    """One load of a gather: the element that the index in register `index` names, at the address of the plan's
    maps xor `offset`."""

    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class GatherSharedPlan:
    """A gather through shared memory, in one or more rounds over the same scratch.

    Its stores are those of a `SharedPlan`. The byte address of a fetch is the xor of `address_by_index[j]` over
    the set bits j of the index, `address_by_thread[k]` over the set bits k of the thread number, and the
    fetch's offset. Register i of the result is the result of fetch `outputs[i]`, counted through the rounds.
    Barriers of the plan's scope separate the rounds.

    Columns of `address_by_thread` beyond those of lanes and warps belong to the rank of the CTA in its cluster.
    With scope "cluster", a fetch loads from the CTA whose rank is that of `ranks`, by its place in the rounds,
    xor `rank_by_index[j]` over the set bits j of the index. Each CTA has scratch of its own at the same
    address.
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
    kind: str = "gather-shared"
    ranks: Ranks | None = None
    rank_by_index: Columns = ()

    @property
    def per_word(self) -> int:
        """Registers that are packed into a word."""
        return max(1, 4 // self.element_bytes)

    @property
    def loads(self) -> int:
        """Loads of one thread."""
        return sum(map(len, self.fetches))

    @property
    def stores(self) -> int:
        """Stores of one thread."""
        return self.store.accesses

    @property
    def barriers(self) -> int:
        """Barriers: one between the stores and loads of each round, one between rounds, and in
        a cluster one behind the last loads (see `SharedPlan.barriers`)."""
        return 2 * len(self.fetches) - 1 + (self.scope == CLUSTER)

    @property
    def stores_apart(self) -> bool:
        """See `SharedPlan.stores_apart`."""
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
