"""Every threshold that decides something, per family of GPUs.

What a GPU is (banks, registers, instructions) is in `targets`, and what its instructions cost in `clocks` and
`targets`. Here is what neither manual nor measurement of an instruction says: how much must be saved for a
change to be made, how far is searched, what is taken for granted of the rest of a kernel. `Target.policy` has
the values of a GPU.

Each field has its unit, what it was seen on, and its neutral value: the one with which the rule that it belongs
to decides nothing, or a search goes on to its end. `python -m bench.ablation` sets each field to its neutral
value and says which modules change; docs/policy.md has the table.
"""

from __future__ import annotations

from dataclasses import field, fields, replace
from typing import Any, Final

from triton_linear.dialect.records import dataclass

UNBOUNDED: Final = 1 << 30
"""The neutral value of a bound."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What is known of a field: its unit, and its neutral value."""

    unit: str
    neutral: float


def _threshold(value: float, neutral: float, unit: str) -> Any:
    return field(default=value, metadata={"threshold": Threshold(unit, neutral)})


@dataclass(frozen=True)
class Policy:
    """The thresholds of one family of GPUs; the defaults are those of NVIDIA GPUs, seen on an H200."""

    # Whether layouts that were assigned are taken (passes/assignment/assign.py)

    unmeasured_margin: float = _threshold(0.0, 0.0, "part of the clocks")
    """What must be saved of a module's clocks by layouts, and of a reduction's by taking it apart, because the
    clocks are another GPU's. 0 where they were measured."""
    saved_clocks: float = _threshold(4.0, 0.0, "clocks of an SM")
    """What must be saved outside memory where conversions go. Seen on scalars and small rows, where less is
    the rounding of the model."""
    margin: float = _threshold(0.005, 0.0, "part of the clocks")
    """What must be saved of the whole where no conversion goes, or memory has a little more to do."""
    margin_with_memory: float = _threshold(0.03, 0.0, "part of the clocks")
    """The same where memory has more to do, whose clocks vary more from GPU to GPU."""
    much_less: float = _threshold(0.6, 1.0, "part of a conversion's clocks")
    """What a conversion may have left to count as one that became much less."""
    equal_memory: float = _threshold(0.001, 0.0, "part of the clocks of memory")
    """How much more memory may have to do for as much as before: the model's sums are floating-point."""
    hardly_more_memory: float = _threshold(0.03, 0.0, "part of the clocks of memory")
    """How much more it may have to do for hardly more."""

    # Which layouts are tried (passes/assignment/candidates.py, passes/analysis)

    candidates: int = _threshold(12, UNBOUNDED, "layouts")
    """Layouts that a group chooses from."""
    carried_edges: int = _threshold(3, UNBOUNDED, "edges")
    """Edges that a layout is carried across."""
    meeting_pairs: int = _threshold(6, UNBOUNDED, "pairs of a load and a store")
    """Pairs for which layouts are made that meet inside warps."""
    local_partners: int = _threshold(3, UNBOUNDED, "accesses")
    """Accesses to global memory that an access to shared memory is paired with."""
    spread_starts: int = _threshold(3, UNBOUNDED, "registers")
    """From how many of its first registers on what a reduction leaves is spread over lanes with copies."""
    line_bytes: int = _threshold(64, 128, "bytes")
    """Bytes of a line that an instruction covers without a loss to speak of (bench/accesses: 64 of 128 take 1.1
    times as long to load); a layout made to be near another goes no farther."""
    one_side: float = _threshold(3.0, 1.0, "times")
    """How much more either side counts, shared or global memory, where the layouts that are cheapest for one
    are added to that which is cheapest for both."""

    # What an assignment is charged (passes/assignment/costs.py and plan.py)

    unknown_trips: int = _threshold(8, 1, "iterations")
    """Iterations of a loop whose bounds are not constant."""
    new_conversion: float = _threshold(1.5, 1.0, "times")
    """How much more a conversion is charged where the module has none: whether it hides is not known."""
    new_after_local: float = _threshold(3.0, 1.5, "times")
    """The same for what was just loaded from shared memory, where any thread could have loaded it: a second
    trip waits for the first, which nothing hides in the loop of a dot. Seen with int8 operands that become
    bf16. Neutral: as any new conversion."""
    new_beside_dots: float = _threshold(4.0, 1.5, "times")
    """The same for what is converted once, beside dots: their registers leave a multiprocessor a CTA or two, so
    nothing hides what every warp waits for. Seen with the bias of a matmul, which all warps can load: converted
    from one load it took 8 % of the time of a tile of 64x64, and registers that keep a second of 128x128 out.
    Neutral: as any new conversion."""
    new_saves: float = _threshold(0.03, 0.0, "part of the clocks")
    """What an assignment must save to have such conversions, where there are no dots: beside these their price
    says it all. Of 439 kernels of bench/foreign 24 with dots had others if they had to save 5 %, and took 4 %
    longer in the mean (H100)."""
    unknown_conversion: float = _threshold(200.0, 0.0, "clocks of an SM")
    """A conversion of layouts that are not known here."""
    waited_for: float = _threshold(1.0, 0.0, "times")
    """How much more is charged of what a load takes longer than it does, if it goes to shared memory at once.
    Seen with fp8 operands, where 10 % more for lines that are covered in parts cost 4 to 9 % of all."""
    least_weight: float = _threshold(0.3, 0.0, "clocks of memory")
    """What a clock outside global memory counts at least, against one of it, which hides it but for the end."""
    planned_conversions: int = _threshold(64, UNBOUNDED, "pairs of layouts")
    """Pairs that are planned for an assignment; those that are not are not chosen either."""

    # Reductions taken apart (passes/reductions)

    splits_beside_scans: bool = _threshold(False, True, "yes or no")
    """Whether reductions are taken apart beside a scan, at whose barriers the warps meet anyway. By the model
    that saved 13 % of a reduction with Triton 3.6 and 26 % with 3.9; a kernel with both in its loop took 10 and
    9 % longer."""
    spares_shared_memory: bool = _threshold(False, False, "yes or no")
    """Whether reductions, in other layouts or taken apart, may take no more shared memory than Triton's take in
    the module, and scratch beside them no more to save barriers. So on AMD GPUs, where the CTAs of a CU share
    its 64 KiB (gfx950: 160 KiB) and what that costs was not measured."""

    # Accesses to shared memory by way of another layout (passes/staging)

    staging_left: float = _threshold(0.85, 1.0, "part of an access's clocks")
    """What an access may keep, with its conversion, to go by way of another layout."""
    staging_bounded: int = _threshold(48, UNBOUNDED, "layouts")
    """Layouts for which the least cost of their conversion is asked."""
    staging_planned: int = _threshold(10, UNBOUNDED, "layouts")
    """Layouts for which it is planned."""
    staging_alike: int = _threshold(4, UNBOUNDED, "layouts")
    """Of these, those with the same least cost."""
    staging_fillings: int = _threshold(96, 384, "permutations")
    """Ways to fill the lanes of one pattern that are looked at. Neutral: four times as many; all are up to
    600,000."""
    staging_fillings_kept: int = _threshold(3, UNBOUNDED, "permutations")
    """Of those ways, the ones that are kept."""
    staging_giving_way: int = _threshold(2, UNBOUNDED, "lane bits")
    """Lane bits that give way to others."""

    # Planners (lowering/planners)

    most_registers: int = _threshold(8192, UNBOUNDED, "registers")
    """Elements of a tensor that a thread may hold, copies included, for a conversion to be planned; its 255
    registers are 1,020 bytes."""
    likely_warps: int = _threshold(8, 0, "warps")
    """Warps that a multiprocessor holds while it converts, if nothing else is known: two CTAs of four. Neutral:
    those of one CTA."""
    large_tensor: int = _threshold(128, UNBOUNDED, "registers")
    """Registers of a thread that a tensor takes from which on layouts and plans of its kernel are priced for
    the warps of one CTA: with 64 more for all else a multiprocessor holds two CTAs of four warps. Of 409
    launches of other packages 45 have such a tensor, of which 12 change: on an H100 they became 4.7 % faster
    in the mean, 6 by more than 2 %, and none slower by as much."""
    state_warps: int = _threshold(0, 8, "warps")
    """The same for conversions and staged accesses of kernels that go through a sequence with a state
    (passes/analysis/recurrence.py), whose grids are of few CTAs; 0: those of one CTA. Of 409 launches of other
    packages 62 were below 0.98 of stock Triton's speed with 8, of which 12 below 0.90, and 52 and 8 with 0; of
    the 19 that changed by 2 % or more, 15 became faster."""
    counts_ctas_of_regions: bool = _threshold(True, False, "yes or no")
    """Whether conversions of kernels with warp-specialised regions are priced for the warps of their region in
    as many CTAs as find registers and shared memory (passes/analysis/residency.py), rather than for
    `likely_warps`. Of bench.gpu_partitions (300 kernels of seed 1) 159 conversions of 56 kernels depend on it:
    by the model, with the registers that `ptxas` gave these kernels, they take 1.4 % more than the best so,
    5.9 % more with 8 warps."""
    region_scratch_bytes: int = _threshold(2048, UNBOUNDED, "bytes for each warp")
    """Scratch of a warp beyond which an exchange inside warps goes in rounds, in kernels with warp-specialised
    regions. A round takes a barrier of the warp alone, and all registers of the tensor are live across an
    exchange of one round. Of bench.gpu_partitions (300 kernels of seed 1) TODO."""
    warp_scratch_bytes: int = _threshold(UNBOUNDED, UNBOUNDED, "bytes for each warp")
    """The same in all kernels."""
    leaves_loose_bytes: bool = _threshold(True, False, "yes or no")
    """Whether conversions inside a CTA of bytes that arithmetic has one to a register are left to Triton, in
    kernels with clusters or warp-specialised regions, where plans by words take more instructions
    (lowering/planners/loose.py). Of 34 kernels of bench.gpu_partitions with such conversions 20 were below 0.97
    of stock Triton's speed on an H100, their mean 0.96. Elsewhere it was not measured."""
    loose_shuffles: float = _threshold(1.25, UNBOUNDED, "times as many instructions")
    """The same for shuffles of more than one word: how many times the instructions of an exchange that moves
    bytes as they are. Of 34 kernels of bench.gpu_partitions with shuffles that take more, 20 were below 0.98 of
    stock Triton's speed on an H100, 0.68 at worst, their mean 0.96; of 18 with shuffles that take less, one
    was, and their mean 1.05."""
    replacing: float = _threshold(1.15, 1.0, "times")
    """How many times longer shuffles must take without replacements for these to be made: the other pipe is
    idle in bench/conversions, but not in every kernel."""
    exchange_permutes: int = _threshold(3, 0, "permutes for each shuffle")
    """Up to here, and one for each word, the exchange of lanes with registers before or after shared memory is
    as good as can be, and no other is looked for."""
    scratch_bytes: int = _threshold(16 * 1024, UNBOUNDED, "bytes")
    """Scratch that a conversion of four warps or fewer may take before it goes in rounds over less. That of a
    GPU follows from its shared memory (`targets`)."""
    likely_registers: int = _threshold(64, 0, "registers")
    """Registers of a thread of a kernel that works on tensors, if it is a small one."""
    registers_beside: int = _threshold(16, 0, "registers")
    """Registers of a thread beside the tensor that it converts: the fewest that kernels of bench/conversions
    need."""

    # Gathers (lowering/gather)

    gather_registers: int = _threshold(224, UNBOUNDED, "registers")
    """Registers of a thread that are there for a gather: of 255, some are for addresses and what is around."""
    gather_choices: int = _threshold(64, UNBOUNDED, "registers")
    """Source registers that a result may be chosen from; a thread has 255 registers for everything."""
    gather_words: int = _threshold(8192, UNBOUNDED, "words")
    """Words that a thread may shuffle or choose from in all, beyond which compilers take too long."""

    # Scratch (lowering/emit/scratch.py)

    scratch_pieces: int = _threshold(64, UNBOUNDED, "exchanges")
    """Exchanges in a kernel beyond which only the simplest arrangement of scratch is tried."""

    # Registers (plugin/ptxas)

    more_ctas: float = _threshold(1.5, 1.0, "times")
    """How many times as many CTAs are worth assembling a kernel with a bound on its registers: one more of
    several hardly shows."""
    registers_near: float = _threshold(0.35, UNBOUNDED, "part of the bound")
    """What a kernel may have above the registers of the bound for each time as many CTAs more: 1.35 times
    as many registers where one CTA becomes two, 1.175 times where two become three."""
    bounded_clocks: float = _threshold(0.07, UNBOUNDED, "part of the clocks")
    """What a warp may take longer with such a bound for each time as many CTAs more, what is spilled among it:
    7 % where one CTA becomes two, 3.5 % where two become three. Kernels that took less longer became up to 1.23
    times as fast, those that took more 3 to 41 % slower (docs/plugin-registers.md)."""
    given_up_stack: int = _threshold(512, 1, "bytes")
    """Bytes of stack with which ptxas is taken to have given up on a kernel of few registers."""
    given_up_registers: int = _threshold(64, 255, "registers")
    """What few registers are there."""
    loop_left: float = _threshold(0.99, 1.0, "part of the clocks")
    """What a loop of matrix products may have left of its clocks for another assembly of it to be taken."""
    loop_near: float = _threshold(1.1, 0.0, "times")
    """How many times the clocks of its own products a loop may take to be left as it is. Assembled once more,
    loops of matmuls in f16 with 1.08 times had the same clocks; fp8 and TF32 with 2.2 to 2.7 lost 3 to 8 %."""
    serial_loads: float = _threshold(0.1, UNBOUNDED, "part of the clocks")
    """What a warp must wait for loads that were begun one after another for a kernel to be assembled with more
    registers. Of 393 kernels of bench/foreign 50 wait so long; of 27 the warps were sooner done then."""
    registers_more: float = _threshold(1.5, 1.0, "times")
    """How many times the registers that ptxas took a thread may have in that assembly."""
    warp_left: float = _threshold(0.95, 1.0, "part of the clocks")
    """What a warp may have left of its clocks for that assembly to be taken."""
    tensor_cores_busy: float = _threshold(2.0, 1.0, "times")
    """A loop stays where the tensor cores take so many times as long for the products of all resident warps."""


def thresholds() -> dict[str, Threshold]:
    """What is known of each field, in the order in which they are declared."""
    return {entry.name: entry.metadata["threshold"] for entry in fields(Policy)}


NVIDIA: Final = Policy()
"""NVIDIA GPUs whose clocks were measured."""
NVIDIA_UNMEASURED: Final = replace(NVIDIA, unmeasured_margin=0.05, staging_left=0.8, serial_loads=UNBOUNDED)
"""NVIDIA GPUs whose clocks were not measured. What is published of their pipes is what was measured of the
H200's; of waits and barriers nothing is. Half of the margins of CDNA, which no GPU has confirmed."""
CDNA: Final = replace(
    NVIDIA,
    unmeasured_margin=0.1,
    staging_left=0.75,
    spares_shared_memory=True,
    large_tensor=UNBOUNDED,
    state_warps=8,
    counts_ctas_of_regions=False,
    region_scratch_bytes=UNBOUNDED,
)
"""CDNA, where nothing was measured and clocks follow from manuals."""
RDNA: Final = CDNA
"""RDNA, where nothing was measured either."""

FAMILIES: Final = {"NVIDIA": NVIDIA, "unmeasured NVIDIA": NVIDIA_UNMEASURED, "CDNA": CDNA, "RDNA": RDNA}
