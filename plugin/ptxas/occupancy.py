"""How many CTAs fit on a multiprocessor, and the PTX directive on registers that follows from it.

ptxas does not know the shared memory, which Triton asks for at launch, nor the steps in which CTAs fit: of a
kernel of 8 warps one CTA fits with 136 registers a thread, and two with 128. So it saves registers for CTAs
that do not fit, or takes a few too many for another one. The first of these rules that holds is tried:

Spills. A kernel that spills though its threads can have more registers gets the largest number of CTAs
(`.minnctapersm`; PTX ISA, performance-tuning directives) that leaves room for what it spills.

One more CTA. A kernel slightly above a step gets a bound on its registers (`.maxnreg`), unless it has
warp-specialised regions.

Memory. A kernel with `mma.sync`, of which fewer CTAs fit in memory than by registers, gets the number that
fits: ptxas then loads operands of MMAs earlier.

The kernel is assembled once more with its directive. It keeps it if it then spills less, or nothing; with a
bound, if it spills hardly anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from triton_linear.dialect.records import dataclass
from triton_linear.ptxas.cubin import Usage

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

BOUND = ".maxnreg"
"""The directive that bounds the registers of a thread."""
CTAS = ".minnctapersm"
"""The directive that says how many CTAs registers must suffice for."""
_MMA = re.compile(r"^\s*mma\.sync\b", re.M)
_WORD = 4
MORE: Final = 20
"""Bytes of a thread: who spills less than that more does not spill more. A word or four are moved out of a loop
or are none the slower; an AMD kernel has as much on its stack for other reasons."""
_TENSOR_COLUMNS = 512
"""Columns of tensor memory of a multiprocessor (PTX ISA, tensor memory)."""
UNIT = 8
"""Registers of a thread are allocated in multiples of this: those of a warp in multiples of 256."""
LEAST, MOST = 24, 255
"""Registers that a thread can have: ptxas raises lower bounds to the least."""


@dataclass(frozen=True, slots=True)
class CtaLimits:
    """What limits the CTAs of a kernel that are resident on a multiprocessor.

    most: the CTAs that fit, apart from registers. warps: those of a CTA. whole: every warp runs the whole
    kernel.
    """

    most: int
    warps: int
    gpu: Target
    whole: bool

    def ctas(self, used: int) -> int:
        """The CTAs that fit if each thread uses `used` registers."""
        return min(self.most, resident(used, self.warps, self.gpu.registers, self.gpu.lanes))

    def ctas_leaving(self, wanted: int, used: int) -> int | None:
        """The most CTAs that leave a thread `wanted` registers; None if none do, or if that is hardly more."""
        if used + UNIT > wanted:
            return None
        counts = range(self.ctas(used), 0, -1)
        return next((n for n in counts if most_registers(n, self.warps, self.gpu) >= wanted), None)


def limits_of(
    threads: int, metadata: Mapping[str, Any], gpu: Target, own_warps: int | None = None
) -> CtaLimits:
    """What limits the CTAs of a kernel.

    threads: those of a CTA. metadata: what Triton knows of the kernel. own_warps: warps of the kernel without
    those of warp-specialised regions; None: there are no others.
    """
    warps = max(1, threads // gpu.lanes)
    shared = (metadata.get("shared") or 0) + gpu.reserved_shared_bytes
    memory = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    most = min(gpu.resident_warps // warps, memory // shared if shared else gpu.resident_warps)
    if columns := metadata.get("tmem_size"):
        most = min(most, _TENSOR_COLUMNS // columns)
    return CtaLimits(most, warps, gpu, own_warps is None or warps <= own_warps)


def advise(text: str, usage: Usage, limits: CtaLimits) -> str:
    """The directive to try for a kernel; "" for none. text: its PTX. usage: of a thread without one."""
    used, gpu = usage.registers, limits.gpu
    if usage.stack:
        needed = max(used + usage.stack // _WORD, -(-used // UNIT) * UNIT + UNIT)
        ctas = limits.ctas_leaving(min(needed, most_registers(1, limits.warps, gpu)), used)
        return f"{CTAS} {ctas}" if ctas else ""
    limit = bound(used, limits.warps, limits.most, gpu)
    if limit is not None and limits.whole:
        return f"{BOUND} {limit}"
    fits_by_registers = resident(used, limits.warps, gpu.registers, gpu.lanes)
    if 0 < limits.most < fits_by_registers and _MMA.search(text):
        return f"{CTAS} {limits.most}"
    return ""


def serves(directive: str, usage: Usage, before: Usage) -> bool:
    """True if a kernel keeps its directive. usage, before: of a thread with it and without."""
    if directive.startswith(BOUND):
        return usage.stack < MORE  # another CTA is worth a word or four
    return not usage.stack or usage.stack < before.stack


def bound(used: int, warps: int, most: int, gpu: Target) -> int | None:
    """The registers of a thread with which another CTA fits, if that is worth a try; else None.

    used: registers of a thread now. warps: those of a CTA. most: the CTAs that fit, apart from registers. The
    fewer CTAs are resident now, the more registers may be given up for another one.

    >>> from triton_linear.lowering.target.targets import target
    >>> h200 = target("cuda:90")
    >>> bound(168, 8, 2, h200), bound(128, 8, 2, h200), bound(136, 8, 1, h200), bound(192, 8, 2, h200)
    (128, None, None, None)
    """
    ctas = resident(used, warps, gpu.registers, gpu.lanes)
    if not 0 < ctas < most or ctas + 1 < gpu.policy.more_ctas * ctas:
        return None
    limit = most_registers(ctas + 1, warps, gpu)
    near = 1 + gpu.policy.registers_near / ctas
    return limit if limit >= LEAST and used <= near * limit else None


def resident(used: int, warps: int, registers: int, lanes: int = 32) -> int:
    """How many CTAs fit by registers. used: registers of a thread. warps: those of a CTA. registers: those of a
    multiprocessor.

    >>> resident(72, 4, 65536), resident(136, 8, 65536)
    (7, 1)
    """
    return registers // (-(-used // UNIT) * UNIT * lanes * warps)


def most_registers(ctas: int, warps: int, gpu: Target) -> int:
    """The most registers a thread can have if `ctas` CTAs of `warps` warps are to fit.

    >>> from triton_linear.lowering.target.targets import target
    >>> h200 = target("cuda:90")
    >>> most_registers(4, 8, h200), most_registers(1, 4, h200)
    (64, 255)
    """
    return min(MOST, gpu.registers // (ctas * gpu.lanes * warps) // UNIT * UNIT)
