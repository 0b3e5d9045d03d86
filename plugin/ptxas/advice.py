"""Choose a PTX directive on registers for a kernel of ours, by how many CTAs fit on a multiprocessor.

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
from triton_linear.ptxas.occupancy import UNIT, bound, most_registers, resident

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
        """The most CTAs, at most those with `used` registers, that leave a thread `wanted` registers; None if
        there is no such number, or if that is hardly more registers."""
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
