"""Every threshold that decides something, per family of GPUs.

The facts of a GPU (banks, registers, instructions) are in `targets`, the costs of its instructions
there too. A threshold is a decision that follows from neither a manual nor the measurement of one
instruction: the least saving for which a change is made, the bound of a search, an assumption about the rest of
a kernel. `Target.policy` has the values of a GPU.

Each field has its unit, the kernels that it was seen on, and its neutral value, with which its rule decides
nothing or its search is not cut short. `python -m bench.ablation` sets each field to its neutral value and says
which modules change; docs/builders/policy.md has the table.
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

    margin: float = _threshold(0.005, 0.0, "part of the clocks")
    """The least saving for which layouts change or a reduction is taken apart; none on a GPU whose clocks were
    measured, where conversions go or become much cheaper and global memory has no more to do. With 0, 27
    kernels of other packages had other layouts on an H200, as fast in the mean (0.95 to 1.09). 3 % had been
    asked for where an assignment adds conversions: without that, 11 launches became 2 % faster in the mean
    (0.99 to 1.22), and layer norms 1 % slower to 12 % faster."""
    much_less: float = _threshold(0.6, 1.0, "part of a conversion's clocks")
    """A conversion that keeps at most this part of its clocks counts as much cheaper."""

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

    # Reductions taken apart (passes/reductions)

    spares_shared_memory: bool = _threshold(False, False, "yes or no")
    """True if reductions, in other layouts or taken apart, may take no more shared memory than Triton's take in
    the module, and scratch beside them takes no more to save barriers. Set for AMD GPUs, where the CTAs of a CU
    share its 64 KiB (gfx950: 160 KiB) and the cost of that was not measured."""

    # Which loads begin an iteration ahead (passes/scheduling/load_ahead.py)

    warps_ahead: int = _threshold(20, 0, "warps")
    """Warps that have to stay resident, as far as registers are estimated, when a loop carries what it loads.
    On an H200, 33 launches with so many were 1.21 times as fast in the mean (0.97 to 2.04). The 21 that stay as
    they are would have had 0.91 of their speed (0.44 to 1.22). Unbounded for AMD GPUs: not measured there."""

    # Planners (lowering/planners)

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
    """`likely_warps` for conversions of kernels that go through a sequence with a state
    (passes/analysis/residency.py), whose grids have few CTAs; 0: the warps of one CTA. Of 409 launches of
    other packages 62 were below 0.98 of stock Triton's speed with 8, of which 12 below 0.90, and 52 and 8 with
    0; of the 19 that changed by 2 % or more, 15 became faster."""
    matrix_bytes: int = _threshold(4, 0, "bytes")
    """The widest load of a lane that gives way to `ldmatrix` without `.trans`, if elements are narrower than
    this, and stores and loads become fewer. It takes as many wavefronts, and fewer instructions: alone, a warp
    loads 16 words in 34 clocks instead of 65. Of 607 launches of other packages on an H100 the slowest ones
    that it changes became 3 to 11 % faster (0.90 to 1.00 of stock Triton's speed, 0.93 to 0.99, 0.93 to 0.96).
    With 8, words and pairs of words included, others gained as much and more, but a recurrence took twice as
    long and a matmul 1.25 times, because ptxas had other registers left for loads from global memory."""
    likely_registers: int = _threshold(64, 0, "registers")
    """Registers of a thread of a small kernel that works on tensors."""

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
NVIDIA_UNMEASURED: Final = replace(NVIDIA, margin=0.05)
"""NVIDIA GPUs whose clocks were not measured. The published rates of their pipes equal the measured ones of the
H200; waits and barriers are not published. The margins are half of CDNA's. No GPU has confirmed them."""
CDNA: Final = replace(
    NVIDIA,
    margin=0.1,
    spares_shared_memory=True,
    large_tensor=UNBOUNDED,
    state_warps=8,
    fetch_clocks=0.0,
    warps_ahead=UNBOUNDED,
)
"""CDNA, whose clocks follow from manuals: nothing was measured."""

FAMILIES: Final = {"NVIDIA": NVIDIA, "unmeasured NVIDIA": NVIDIA_UNMEASURED, "CDNA": CDNA}
