"""Every threshold that decides something, per family of GPUs.

The facts of a GPU (banks, registers, instructions) are in `targets`, the costs of its instructions in `clocks`
and `targets`. A threshold is a decision that follows from neither a manual nor the measurement of one
instruction: the least saving for which a change is made, the bound of a search, an assumption about the rest of
a kernel. `Target.policy` has the values of a GPU.

Each field has its unit, the kernels that it was seen on, and its neutral value, with which its rule decides
nothing or its search is not cut short. `python -m bench.ablation` sets each field to its neutral value and says
which modules change; docs/policy.md has the table.
"""

from __future__ import annotations

from dataclasses import field, fields, replace
from typing import Any, Final

from triton_linear.dialect.records import dataclass

UNBOUNDED: Final = 1 << 30
"""The neutral value of a bound."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The unit of a field and its neutral value."""

    unit: str
    neutral: float


def _threshold(value: float, neutral: float, unit: str) -> Any:
    return field(default=value, metadata={"threshold": Threshold(unit, neutral)})


@dataclass(frozen=True)
class Policy:
    """The thresholds of one family of GPUs; the defaults are those of NVIDIA GPUs, seen on an H200."""

    # Whether an assignment of layouts is applied (passes/assignment/assign.py)

    unmeasured_margin: float = _threshold(0.0, 0.0, "part of the clocks")
    """The least saving for which a module gets other layouts or a reduction is taken apart, if the clocks are
    another GPU's. 0 for a GPU whose clocks were measured."""
    saved_clocks: float = _threshold(4.0, 0.0, "clocks of an SM")
    """The least saving outside global memory if an assignment removes conversions. Seen on scalars and small
    rows, where a smaller difference is the rounding of the model."""
    margin: float = _threshold(0.005, 0.0, "part of the clocks")
    """The least saving if an assignment removes no conversion, or takes hardly more of global memory. With 0,
    27 kernels of other packages had other layouts on an H200, as fast in the mean (0.95 to 1.09). 3 % had been
    asked for where an assignment adds conversions: without that, 11 launches became 2 % faster in the mean
    (0.99 to 1.22), and layer norms 1 % slower to 12 % faster."""
    margin_with_memory: float = _threshold(0.03, 0.0, "part of the clocks")
    """The least saving if an assignment takes more of global memory, whose clocks vary more from GPU to GPU.
    With the margin above, 11 launches of other packages had other layouts on an H200, as fast in the mean:
    three up to 5 % faster, five up to 7 % slower, four of these slower than 0.98 of stock Triton."""
    much_less: float = _threshold(0.6, 1.0, "part of a conversion's clocks")
    """A conversion that keeps at most this part of its clocks counts as much cheaper."""
    equal_memory: float = _threshold(0.001, 0.0, "part of the clocks of memory")
    """An increase of memory clocks up to this counts as none: the model's sums are floating-point."""
    hardly_more_memory: float = _threshold(0.03, 0.0, "part of the clocks of memory")
    """An increase of memory clocks up to this counts as hardly more."""

    # Which layouts are tried (passes/assignment/candidates.py, passes/analysis)

    candidates: int = _threshold(12, UNBOUNDED, "layouts")
    """Layouts that a group chooses from."""
    carried_edges: int = _threshold(3, UNBOUNDED, "edges")
    """Edges of the graph of values across which a layout is propagated as a candidate."""
    meeting_pairs: int = _threshold(6, UNBOUNDED, "pairs of a load and a store")
    """Pairs for which layouts are made between which a conversion stays inside warps."""
    local_partners: int = _threshold(3, UNBOUNDED, "accesses")
    """Accesses to global memory that an access to shared memory is paired with."""
    spread_starts: int = _threshold(3, UNBOUNDED, "registers")
    """How many candidates spread the result of a reduction over lanes with copies: from the first register on,
    from the second, and so on."""
    line_bytes: int = _threshold(64, 128, "bytes")
    """The least bytes of a line that one instruction covers in a layout that is made to be near another:
    bench/accesses has 1.1 times the clocks for loads of 64 of 128 bytes."""
    one_side: float = _threshold(3.0, 1.0, "times")
    """The weight of shared memory against global memory, and the reverse, in two searches for the layouts that
    are cheapest for one of them. They join the layout that is cheapest for both."""

    # The cost of an assignment (passes/assignment/costs.py and plan.py)

    unknown_trips: int = _threshold(8, 1, "iterations")
    """Assumed iterations of a loop whose bounds are not constant."""
    new_conversion: float = _threshold(1.5, 1.0, "times")
    """The factor on a conversion where the module has none: its latency may not be hidden."""
    new_after_local: float = _threshold(3.0, 1.5, "times")
    """The factor on a new conversion of a value that was just loaded from shared memory, where any thread could
    have loaded it: the second trip waits for the first, and nothing hides that in the loop of a dot. Seen with
    int8 operands that become bf16. Neutral: `new_conversion`."""
    new_beside_dots: float = _threshold(4.0, 1.5, "times")
    """The factor on a new conversion outside loops of a kernel with dots: the registers of dots leave a
    multiprocessor one or two CTAs, so that nothing hides its latency. Seen with the bias of a matmul, which all
    warps can load: converted from one load it took 8 % of the time of a tile of 64x64, and in a kernel with
    tiles of 128x128 so many registers that a second CTA did not fit. Neutral: `new_conversion`."""
    fetch_clocks: float = _threshold(1.0, 0.0, "clocks for each instruction of a conversion")
    """What each instruction of a conversion costs once in a kernel, besides its clocks. Code that runs once,
    like that which stores the result of a matmul, is in no cache, and this is taken to be why. Without it
    shuffles inside warps, some 200 instructions, take the place of 20 accesses to shared memory there. Of 224
    kernels of other packages whose layouts change, 7 keep Triton's by it. On an H200 these had been 2.8 %
    slower in the mean with the others, max_pool2d 9 %, a matmul of fp8 blocks 6 %. With 2 clocks 19 keep them,
    which had been as fast. Charged for plans outside loops as well, it gives 31 kernels others, on an H100 as
    fast in the mean (0.95 to 1.06)."""
    unknown_conversion: float = _threshold(200.0, 0.0, "clocks of an SM")
    """The cost of a conversion of layouts that this package does not know."""
    waited_for: float = _threshold(1.0, 0.0, "times")
    """The factor on the additional clocks of a load in another layout, charged once more if its result goes
    straight to shared memory. Seen with fp8 operands, where loads that covered lines in parts took 10 % longer
    and the kernels 4 to 9 %."""
    least_weight: float = _threshold(0.3, 0.0, "clocks of memory")
    """The least weight of a clock outside global memory against a clock of it, which hides all but the end of
    the former."""
    planned_conversions: int = _threshold(64, UNBOUNDED, "pairs of layouts")
    """Pairs that are planned for one assignment; pairs that are not planned are not chosen."""

    # Reductions taken apart (passes/reductions)

    splits_beside_scans: bool = _threshold(False, True, "yes or no")
    """True if reductions are also taken apart in a kernel with a scan, whose barriers synchronise the warps
    anyway. By the model that saved 13 % of a reduction with Triton 3.6 and 26 % with 3.9; a kernel with both in
    its loop took 10 and 9 % longer."""
    spares_shared_memory: bool = _threshold(False, False, "yes or no")
    """True if reductions, in other layouts or taken apart, may take no more shared memory than Triton's take in
    the module, and scratch beside them takes no more to save barriers. Set for AMD GPUs, where the CTAs of a CU
    share its 64 KiB (gfx950: 160 KiB) and the cost of that was not measured."""

    # Which loads begin an iteration ahead (passes/scheduling/load_ahead.py)

    warps_ahead: int = _threshold(20, 0, "warps")
    """Warps that have to stay resident, as far as registers are estimated, when a loop carries what it loads.
    On an H200, 33 launches with so many were 1.21 times as fast in the mean (0.97 to 2.04). The 21 that stay as
    they are would have had 0.91 of their speed (0.44 to 1.22). Unbounded for AMD GPUs: not measured there."""
    warps_ahead_alike: int = _threshold(12, 0, "warps")
    """Warps that suffice where registers grow by no more than `registers_ahead`. Four launches with so few were
    1.17 to 1.47 times as fast; of nine with fewer, two were 1.12 times as fast and six slower, down to 0.89."""
    registers_ahead: float = _threshold(1.1, UNBOUNDED, "times")
    """What counts as hardly more registers: the four that `warps_ahead_alike` is about have up to 1.05 times as
    many. Five with as few warps and 1.16 times as many or more had 0.75 to 1.08 of their speed."""
    ahead_without_exchange: bool = _threshold(False, True, "yes or no")
    """True if loops without an exchange between warps load ahead too: a variant of `triton-linear tune`."""
    ahead_beside_dots: bool = _threshold(False, True, "yes or no")
    """True if loops that Triton has pipelined, and those with dots of warp groups, load ahead what leads to no
    dot: in the same variant. Not measured."""

    # Accesses to shared memory through another layout (passes/staging)

    staging_left: float = _threshold(0.85, 1.0, "part of an access's clocks")
    """The most clocks of an access through another layout, with its conversion, for which it is staged."""
    staging_bounded: int = _threshold(48, UNBOUNDED, "layouts")
    """Layouts for which the lower bound of their conversion is computed."""
    staging_planned: int = _threshold(10, UNBOUNDED, "layouts")
    """Layouts for which the conversion is planned."""
    staging_alike: int = _threshold(4, UNBOUNDED, "layouts")
    """Planned layouts with the same lower bound."""
    staging_fillings: int = _threshold(96, 384, "permutations")
    """Ways to fill the lanes of one pattern that are tried. Neutral: four times as many; there are up to
    600,000."""
    staging_fillings_kept: int = _threshold(3, UNBOUNDED, "permutations")
    """Tried ways to fill the lanes that are kept."""
    staging_giving_way: int = _threshold(2, UNBOUNDED, "lane bits")
    """Lane bits that are replaced by others."""

    # Planners (lowering/planners)

    most_registers: int = _threshold(8192, UNBOUNDED, "registers")
    """The most elements of a tensor that a thread holds, copies included, for a conversion to be planned; its
    255 registers are 1,020 bytes."""
    likely_warps: int = _threshold(8, 0, "warps")
    """Warps assumed to be resident on a multiprocessor that converts, if nothing else is known: two CTAs of
    four. Neutral: the warps of one CTA."""
    large_tensor: int = _threshold(128, UNBOUNDED, "registers")
    """A kernel with a tensor that takes so many registers of a thread or more is priced for the warps of one
    CTA: with 64 more for all else a multiprocessor holds two CTAs of four warps. Of 409 launches of other
    packages 45 have such a tensor, of which 12 change: on an H100 they became 4.7 % faster in the mean, 6 by
    more than 2 %, and none slower by as much. Offsets counted then, which made transposes of bytes 4 to 8 %
    slower; they do not any more."""
    state_warps: int = _threshold(0, 8, "warps")
    """`likely_warps` for conversions and staged accesses of kernels that go through a sequence with a state
    (passes/analysis/recurrence.py), whose grids have few CTAs; 0: the warps of one CTA. Of 409 launches of
    other packages 62 were below 0.98 of stock Triton's speed with 8, of which 12 below 0.90, and 52 and 8 with
    0; of the 19 that changed by 2 % or more, 15 became faster."""
    counts_ctas_of_regions: bool = _threshold(True, False, "yes or no")
    """True if kernels with warp-specialised regions are priced for the warps of each region in as many CTAs as
    find registers and shared memory (passes/analysis/residency.py), rather than for `likely_warps`. In
    bench.gpu_partitions (300 kernels of seed 1) 159 conversions of 56 kernels depend on it: by the model, with
    the registers that `ptxas` gave these kernels, they take 0.6 % more than the best with it, 5.9 % with 8
    warps."""
    region_scratch_bytes: int = _threshold(2048, UNBOUNDED, "bytes for each warp")
    """The most scratch of a warp for an exchange inside warps, in kernels with warp-specialised regions; one
    that needs more goes in several rounds. A round takes a barrier of the warp alone, and fewer registers are
    live across it. Of bench.gpu_partitions (300 kernels of seed 1) three kernels have larger exchanges: on an
    H100 they became 6, 11 and 13 % faster."""
    region_matrix_bytes: int = _threshold(8, 0, "bytes")
    """`matrix_load_bytes` and `matrix_store_bytes` in such kernels, if it is more: matrix instructions then
    move words too, with fewer addresses in registers. It changes 31 kernels of bench.gpu_partitions: on an H200
    one became 14 % faster (0.95 to 1.08 of stock Triton's speed), two 2 %, five 2.5 to 3.4 % slower; the mean
    of all stays the same."""
    warp_scratch_bytes: int = _threshold(UNBOUNDED, UNBOUNDED, "bytes for each warp")
    """The same in all kernels."""
    loose_bits: int = _threshold(8, 0, "bits")
    """The widest elements for which plans by words are charged what arithmetic beside them needs, in kernels
    with warp-specialised regions: permutes that make words of registers with an element each, and the reverse.
    Accesses of a single element need none. Of 300 kernels of bench.gpu_partitions 28 changed by more than 2 %
    on an H100: 16 became up to 20 % faster, 12 up to 13 % slower, the geometric mean of all rose from 1.197 to
    1.199 of stock Triton's speed."""
    vector_words: int = _threshold(4, 1, "words")
    """Words of two elements of 16 bits that are packed in one LLVM vector. Triton optimises without a target,
    so LLVM makes two additions of halves one instruction only where it finds those of 128 bits together
    (`slp-min-reg-size`). Of the 300 kernels of bench.gpu_partitions, 102 have such elements: in 50 the loops
    take fewer instructions, up to a half, in one two more."""
    leaves_loose_bytes: bool = _threshold(True, False, "yes or no")
    """True if conversions inside a CTA, of predicates (i1) that arithmetic gives and takes, are left to Triton
    in kernels with clusters or warp-specialised regions, where plans by words take more instructions
    (lowering/planners/loose.py). Of 34 kernels of bench.gpu_partitions with such conversions of predicates or
    bytes 20 were below 0.97 of stock Triton's speed on an H100, their mean 0.96; bytes are packed by fewer
    instructions since. Other kernels were not measured."""
    loose_shuffles: float = _threshold(1.25, UNBOUNDED, "times as many instructions")
    """`leaves_loose_bytes` applies to shuffles of more than one word that take so many times the instructions
    of an exchange without words. Of 34 kernels of bench.gpu_partitions with such shuffles of bytes or
    predicates 20 were below 0.98 of stock Triton's speed on an H100, 0.68 at worst, their mean 0.96; of 18 with
    shuffles that take fewer, one was, and their mean 1.05."""
    matrix_load_bytes: int = _threshold(4, 0, "bytes")
    """The widest load of a lane that gives way to `ldmatrix` without `.trans`, if elements are narrower than
    this, and stores and loads become fewer. It takes as many wavefronts, and fewer instructions: alone, a warp
    loads 16 words in 34 clocks instead of 65. Of 607 launches of other packages on an H100 the slowest ones
    that it changes became 3 to 11 % faster (0.90 to 1.00 of stock Triton's speed, 0.93 to 0.99, 0.93 to 0.96).
    With 8, words and pairs of words included, others gained as much and more, but a recurrence took twice as
    long and a matmul 1.25 times, because ptxas had other registers left for loads from global memory."""
    matrix_store_bytes: int = _threshold(4, 0, "bytes")
    """`stmatrix` without `.trans` stores elements narrower than this, if stores and loads become fewer: an
    accumulator of half-words whose rows a lane then loads whole takes as many wavefronts, in a third fewer
    accesses. It changes 118 of 538 kernels of other packages. Of 123 launches that it or `fetch_clocks` changes
    38 became at least 1.5 % faster on an H100, most of them recurrences with a state, and 15 as much slower;
    the mean of all rose by 0.85 %, while that of 332 others fell by 0.13 %."""
    replacing: float = _threshold(1.15, 1.0, "times")
    """Selects become replacements if a plan by shuffles takes this many times as long without them: the other
    pipe is idle in bench/conversions, but not in every kernel."""
    exchange_permutes: int = _threshold(3, 0, "permutes for each shuffle")
    """The search for an exchange of lanes with registers before or after shared memory ends with one that takes
    at most this, and one permute for each word."""
    scratch_bytes: int = _threshold(16 * 1024, UNBOUNDED, "bytes")
    """The most scratch of a conversion of four warps or fewer; one that needs more goes in several rounds. The
    value of a GPU follows from its shared memory (`targets`)."""
    likely_registers: int = _threshold(64, 0, "registers")
    """Registers of a thread of a small kernel that works on tensors."""
    registers_beside: int = _threshold(16, 0, "registers")
    """Registers of a thread beside the tensor that it converts: the fewest that kernels of bench/conversions
    need."""

    # Gathers (lowering/gather)

    gather_registers: int = _threshold(224, UNBOUNDED, "registers")
    """Registers of a thread that a gather may take: of 255, some hold addresses and other live values."""
    gather_choices: int = _threshold(64, UNBOUNDED, "registers")
    """Source registers that a result may be chosen from; a thread has 255 registers for everything."""
    gather_words: int = _threshold(8192, UNBOUNDED, "words")
    """Words that one thread may shuffle or choose from in all; with more, compilers take too long."""

    # Scratch (lowering/emit/scratch.py)

    scratch_pieces: int = _threshold(64, UNBOUNDED, "exchanges")
    """A kernel with more exchanges gets the simplest arrangement of scratch, and no other is tried."""
    small_scratch: int = _threshold(1024, 0, "bytes")
    """Scratch outside loops that needs no more than this keeps its bytes until the next exchange is done. The
    GPU itself reserves as much for each CTA."""

    # Registers (plugin/ptxas)

    more_ctas: float = _threshold(1.5, 1.0, "times")
    """The least factor on resident CTAs for which a kernel is assembled with a bound on its registers: one more
    of several CTAs hardly shows."""
    registers_near: float = _threshold(0.4, UNBOUNDED, "part of the bound")
    """The most registers above the bound, for each doubling of resident CTAs: 1.4 times the bound if one CTA
    becomes two, 1.2 times if two become three. The matmul with a fused epilogue comes to 1.38 times, and is 1.2
    times as fast with the bound, in each of four shapes."""


def thresholds() -> dict[str, Threshold]:
    """The unit and neutral value of each field, in the order in which the fields are declared."""
    return {entry.name: entry.metadata["threshold"] for entry in fields(Policy)}


NVIDIA: Final = Policy()
"""NVIDIA GPUs whose clocks were measured."""
NVIDIA_UNMEASURED: Final = replace(NVIDIA, unmeasured_margin=0.05, staging_left=0.8)
"""NVIDIA GPUs whose clocks were not measured. The published rates of their pipes equal the measured ones of the
H200; waits and barriers are not published. The margins are half of CDNA's. No GPU has confirmed them."""
CDNA: Final = replace(
    NVIDIA,
    unmeasured_margin=0.1,
    staging_left=0.75,
    spares_shared_memory=True,
    large_tensor=UNBOUNDED,
    state_warps=8,
    counts_ctas_of_regions=False,
    region_scratch_bytes=UNBOUNDED,
    region_matrix_bytes=0,
    loose_bits=0,
    vector_words=1,
    fetch_clocks=0.0,
    warps_ahead=UNBOUNDED,
    warps_ahead_alike=UNBOUNDED,
)
"""CDNA, whose clocks follow from manuals: nothing was measured."""
RDNA: Final = CDNA
"""RDNA: nothing was measured."""

FAMILIES: Final = {"NVIDIA": NVIDIA, "unmeasured NVIDIA": NVIDIA_UNMEASURED, "CDNA": CDNA, "RDNA": RDNA}
