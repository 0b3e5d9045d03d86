"""Plans of conversions, rejections, and costs. Pure data; nothing here decides or emits.

A plan is complete: it has every register, mask, offset and barrier, so that emission has no decisions left and
two equal plans give the same code. Threads are numbered as the hardware does: the lane in the low bits, the
warp above. A `mask` selects bits of that number; `parity(mask & thread)` is the condition of a select.
"""

from __future__ import annotations

import math
from dataclasses import field

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.target.lanes import work
from triton_linear.lowering.target.steps import Pick, Shuffle, Step, Trade
from triton_linear.lowering.target.targets import InstructionCosts, Target

NOOP = "noop"
"""The kind of plans that move nothing."""


WIDEST_LOAD = 16
"""The most bytes that one load from global memory gives a thread."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The reason why a planner has no plan for a conversion; it names the basis vector that does not fit."""

    planner: str
    reason: str

    def __str__(self) -> str:
        return f"{self.planner}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Cost:
    """The instructions that one warp executes, and their clocks by the target's table.

    clocks: throughput, on a multiprocessor with enough other warps. latency: the time to the result, for a CTA
    that is alone on a multiprocessor. alu: selects and permutes.
    """

    clocks: float = 0.0
    latency: float = 0.0
    shuffles: int = 0
    alu: int = 0
    wavefronts: int = 0
    barriers: int = 0
    scratch_bytes: int = 0

    def expected(self, warps: int) -> float:
        """Clocks until `warps` warps are done: the cubic norm of their throughput and of the latency, since
        neither hides the other fully."""
        return float(((warps * self.clocks) ** 3 + self.latency**3) ** (1 / 3))


@dataclass(frozen=True, slots=True)
class RegisterPlan:
    """Destination register i is source register `sources[i]` of the same thread."""

    source_registers: int
    sources: tuple[int, ...]
    scratch_bytes: int = 0

    @property
    def kind(self) -> str:
        """ "noop" if every register stays what it is, else "registers"."""
        return NOOP if self.sources == tuple(range(self.source_registers)) else "registers"

    @property
    def destination_registers(self) -> int:
        """Registers of the result."""
        return len(self.sources)

    def summary(self) -> str:
        """One line for people."""
        return "no-op" if self.kind == NOOP else f"registers: {len(self.sources)} renamed"


@dataclass(frozen=True, slots=True)
class ShufflePlan:
    """Registers move between the lanes of a warp, as words of `slots` neighbouring registers.

    Source registers fill the first words; each of `steps` makes one more. Destination register i is slot
    i mod `slots` of word `outputs[i // slots]`. Each of the `phases` waits once for words of other lanes.

    `shuffles` counts the words that come from another lane.
    """

    source_registers: int
    destination_registers: int
    slots: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    phases: int
    scratch_bytes: int = 0
    shuffles: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shuffles = sum([not isinstance(step, Pick) for step in self.steps])
        object.__setattr__(self, "shuffles", shuffles)  # read often, and there are many steps

    @property
    def kind(self) -> str:
        """ "registers" if no word leaves its lane, else "shuffle"."""
        return "shuffle" if self.shuffles else "registers"

    @property
    def stages(self) -> tuple[ShufflePlan | SharedPlan, ...]:
        """The parts of the plan, in the order of execution."""
        return (self,)

    def moving(self, target: Target) -> tuple[int, int]:
        """(vector instructions, passes through the shuffle pipe) of its shuffles, for each 32 bits of a
        word."""
        if not target.lane_instructions:
            return 0, self.shuffles
        moving = [step for step in self.steps if isinstance(step, Trade | Shuffle)]
        each = [work(step, target.lane_instructions) for step in moving]
        return math.ceil(sum(alu for alu, _ in each)), sum(passes for _, passes in each)

    @property
    def picks(self) -> int:
        """Selects and permutes."""
        return len(self.steps) - self.shuffles

    def summary(self) -> str:
        """One line for people."""
        packed = f" of {self.slots} packed registers" if self.slots > 1 else ""
        return f"{self.kind}: {count(self.shuffles, 'shuffle')}{packed}, {count(self.picks, 'permute')}"


@dataclass(frozen=True, slots=True)
class Access:
    """One vector access at byte `offset`, with the registers of its elements, lowest address first.

    A store has the registers of every alternative of its plan's `split`, one alternative after the other.
    """

    offset: int
    registers: tuple[int, ...]


_MATRIX_WORDS = {"": "", "ldmatrix": "matrix ", "stmatrix": "matrix "}
"""What summaries call accesses by a matrix instruction of this name; others transpose."""


@dataclass(frozen=True, slots=True)
class MemorySide:
    """The stores or the loads of an exchange, by round.

    A thread's byte address is the xor of `columns[j]` over the set bits j of its thread number, xor the
    access's offset. An access moves `slots` elements of the thread: at that address, or, if `matrix` is not
    empty, by the matrix instruction of that name (`transposing.FORMS`), where the address lanes name rows of
    `access_bytes`. Stores have 2^`choices` alternatives. No access has bank conflicts.
    """

    access_bytes: int
    columns: tuple[int, ...]
    rounds: tuple[tuple[Access, ...], ...]
    slots: int
    matrix: str = ""
    choices: int = 0

    @property
    def accesses(self) -> int:
        """Accesses of a thread in all rounds."""
        return sum(map(len, self.rounds))

    def wavefronts(self, kind: str, element_bytes: int, target: Target) -> int:
        """Wavefronts of one access of a warp: one for each phase of the lanes that have an address."""
        addresses = self.slots * element_bytes * target.lanes // self.access_bytes
        service = target.service(kind, self.access_bytes)
        return addresses // (service if self.matrix else service.of(self.columns)).count


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Elements travel through shared memory, in one or more rounds over the same scratch.

    Bit i of the alternative that a thread stores is parity(split[i] & thread). Destination register i is at
    (round, load access, position) `outputs[i]`. Barriers of the plan's scope separate the rounds. The stores
    take the result of `before`, and `after` takes the result of the loads, if these plans by shuffles are
    given.
    """

    source_registers: int
    scope: str
    element_bytes: int
    store: MemorySide
    load: MemorySide
    split: tuple[int, ...]
    outputs: tuple[tuple[int, int, int], ...]
    scratch_bytes: int
    before: ShufflePlan | None = None
    after: ShufflePlan | None = None

    @property
    def destination_registers(self) -> int:
        """Registers of the result."""
        return len(self.outputs)

    @property
    def per_word(self) -> int:
        """Registers that are packed into a word."""
        return max(1, 4 // self.element_bytes)

    @property
    def stages(self) -> tuple[ShufflePlan | SharedPlan, ...]:
        """The parts of the plan, in the order of execution."""
        return tuple(stage for stage in (self.before, self, self.after) if stage is not None)

    @property
    def kind(self) -> str:
        """ "warp-shared" or "cta-shared"."""
        return f"{self.scope}-shared"

    @property
    def stores_apart(self) -> bool:
        """True if a round has several stores, and one load from global memory cannot bring all they store.

        The loads from global memory are then to be in flight together (see
        `InstructionWriter.keep_loads_in_flight`).
        """
        return len(self.store.rounds[0]) > 1 and self.source_registers * self.element_bytes > WIDEST_LOAD

    @property
    def accesses(self) -> int:
        """The stores and loads of a thread."""
        return self.store.accesses + self.load.accesses

    @property
    def barriers(self) -> int:
        """Barriers: one between the stores and loads of each round, one between rounds."""
        return 2 * len(self.store.rounds) - 1

    def summary(self) -> str:
        """One line for people."""
        sides = [
            f"{count(side.accesses, _MATRIX_WORDS.get(side.matrix, 'transposing ') + name)} of "
            f"{side.slots * self.element_bytes * 8} bits"
            for name, side in (("store", self.store), ("load", self.load))
        ]
        for where, stage in (("before", self.before), ("after", self.after)):
            if stage is not None:
                sides.append(f"{count(stage.shuffles, 'shuffle')} {where}")
        barriers = count(self.barriers, "barrier")
        return f"{self.kind}: {', '.join(sides)}, {barriers}, {self.scratch_bytes} bytes of scratch"


def count(number: int, what: str) -> str:
    """A number of things, in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def meets_warps(plan: object) -> bool:
    """True if the code of a plan has barriers of all warps of a CTA."""
    return isinstance(plan, SharedPlan) and plan.scope != "warp"


Plan = RegisterPlan | ShufflePlan | SharedPlan


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen plan (None: left to Triton), its cost, and the planners without a plan, each with its
    reason."""

    plan: Plan | None
    cost: Cost
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What one warp executes; a part is fractional if it is a mean or a bound.

    shuffles, wavefronts: passes through the pipe of shuffles and shared memory. alu: selects, permutes and
    other arithmetic. waits: how often shuffles, or selects alone, are waited for. rounds: how often loads from
    shared memory are. accesses: stores and loads of a thread. warp_barriers, barriers: those of a warp, and
    those of more.
    """

    shuffles: float = 0
    alu: float = 0
    wavefronts: float = 0
    waits: int = 0
    rounds: int = 0
    accesses: float = 0
    warp_barriers: int = 0
    barriers: int = 0

    def clocks(self, table: InstructionCosts) -> float:
        """Clocks on a multiprocessor with enough other warps: of the pipes together, and of barriers."""
        memory = self.wavefronts * table.wavefront + self.shuffles * table.shuffle
        pipes = table.clocks(memory, self.alu)
        return pipes + self.barriers * table.cta_barrier

    def latency(self, table: InstructionCosts, warps: int) -> float:
        """Clocks to the result, if a CTA of `warps` warps is alone on a multiprocessor.

        Each of four warps has a scheduler of its own; all warps share the memory pipe.
        """
        moving = self.shuffles * max(table.lone_shuffle, warps * table.shuffle)
        busy = table.alone * (moving + self.alu * table.lone_alu)
        busy += table.alone * warps * self.wavefronts * table.wavefront
        wait = table.shuffle_wait if self.shuffles else table.select_wait
        busy += self.rounds * table.memory_wait + self.accesses * table.lone_access
        return busy + self.barriers * table.barrier_wait + self.waits * wait

    def cost(self, table: InstructionCosts, warps: int, scratch_bytes: int = 0) -> Cost:
        """Both, with the counts of instructions."""
        return Cost(
            self.clocks(table),
            self.latency(table, warps),
            shuffles=int(self.shuffles),
            alu=int(self.alu),
            wavefronts=round(self.wavefronts + 0.499),
            barriers=self.barriers + self.warp_barriers,
            scratch_bytes=scratch_bytes,
        )


@dataclass(frozen=True, slots=True)
class Stub:
    """A conversion from one layout to another.

    accumulators: the source may be accumulators in the registers that `wgmma` wrote.
    """

    symbol: str
    source: LinearLayout
    destination: LinearLayout
    element: ElementType
    plan: Plan
    accumulators: bool = False
