"""Plans of gathers, which are by shuffles. Pure data, as in `plans`."""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import count

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
    def destination_registers(self) -> int:
        """Registers of the result, and of the index."""
        return len(self.outputs)

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
        steps = f"{count(self.shuffles, 'shuffle')}{packed}" if self.moves else "inside the lane"
        return f"gather: {steps}, {count(self.selects, 'select')}, {count(self.permutes, 'permute')}"
