"""The stages `ptx` and `cubin`, which take stock Triton's kernel if ours spills as much or its warps stall.

Spilled values go through memory, usually in the innermost loop, and better layouts seldom make up for that. On
an H200, 40 launches of other packages had kernels that spilled more than stock Triton's (16 with Triton 3.6, 24
with 3.9): 23 took at least 2 % longer, 11 at least 2 % less, and the geometric mean of all was 0.95 of stock
Triton's speed. A walk through both cubins tells some of those that are faster: where a warp of stock Triton's
takes a tenth more clocks, what ours spills is not what counts. Without that a kernel that spills as many bytes
is left too: of three, two were as fast as stock Triton's (1.01 times) and one had 0.93 of its speed. A kernel
is not compared for spills if its warps hardly execute them (`Policy.spills_matter`).

ptxas may also put the instructions of a kernel in an order in which each waits for the one before it, most
often where many logarithms and exponentials want predicates that masks and lanes hold. A small change of the
code is enough for that, and a warp then takes up to twice its clocks. A walk through the cubin shows the waits
(`warp_clocks.arithmetic_waits`), and a walk through stock Triton's whether it has them too. Loads that are
begun one after another, though ptxas was told of more registers (`advice`), are compared likewise. The walk
does not see conflicts in shared memory, so a kernel whose new layouts save much is not compared for stalls.

Other kernels of ours are not compared. The results of comparisons are kept on disk (`kept.comparisons`).
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

from triton_linear.ptxas.cubin import usage
from triton_linear.ptxas.output import held_back
from triton_linear.ptxas.registers import Assembler, Stage

Metadata = MutableMapping[str, Any]


class Compiled(Protocol):
    """A kernel that the stage `llir` has compiled (`LLIRStage`)."""

    def stock_again(self, llir: object) -> tuple[str, Metadata] | None:
        """LLVM IR of stock Triton's kernel and its metadata; None if there is nothing to compare, or if `llir`
        is not the result of the stage."""

    @property
    def saved(self) -> float:
        """The part of the modelled clocks that new layouts of the kernel save."""

    def compared(self, vetoed: str) -> None:
        """Keep the result of the comparison. vetoed: why stock Triton's kernel is taken; "" if ours is."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the time of the block under this name."""

    def finish(self, vetoed: str = "") -> None:
        """Deliver the kernel's report. vetoed: why stock Triton's kernel is taken; "" if ours is."""


class Veto:
    """Both stages of one compile.

    assembler: makes our kernel's PTX and cubin. ptx, cubin: the backend's own stages. kernel: what `llir` has
    compiled. fails: is called with an exception of the comparison; our kernel is then taken.
    """

    def __init__(
        self,
        assembler: Assembler,
        ptx: Stage,
        cubin: Stage,
        kernel: Compiled,
        fails: Callable[[Exception, Metadata], None],
    ) -> None:
        self._assembler = assembler
        self._ptx = ptx
        self._cubin = cubin
        self._kernel = kernel
        self._fails = fails
        self._taken: tuple[object, object] | None = None

    def ptx(self, src: object, metadata: Metadata) -> object:
        """The PTX of our kernel or of stock Triton's; `metadata` becomes that of the same kernel."""
        vetoed = ""
        try:
            text = self._assembler.ptx(src, metadata)
            try:
                if found := self._better(src, text, metadata):
                    text, vetoed = found
            except Exception as error:
                self._taken = None
                self._fails(error, metadata)
        except BaseException:
            with suppress(Exception):  # the compile's own exception is raised, not that of a listener
                self._kernel.finish()
            raise
        self._kernel.finish(vetoed)
        return text

    def _better(self, src: object, text: object, metadata: Metadata) -> tuple[str, str] | None:
        """Stock Triton's PTX and why it is taken; None if ours is."""
        ours = self._assembler.cubin_of(text)
        own = usage(ours)
        if own is None:
            return None
        policy = self._assembler.policy
        spilled = own.stack - self._assembler.occupancy_spills  # bytes spilled for another CTA do not count
        spills = spilled > 0 and self._assembler.spills_matter(text, ours, metadata)
        stalls = self._assembler.stalls and self._kernel.saved < policy.saves_much
        if not spills and not stalls:
            return None
        with self._kernel.phase("veto"), held_back() as printed:
            again = self._kernel.stock_again(src)
            if again is None:
                return None
            llir, stock_metadata = again
            stock_text = self._ptx(llir, stock_metadata)
            cubin = self._cubin(stock_text, stock_metadata)
        stock = usage(cubin)
        if not isinstance(stock_text, str) or stock is None:
            return None
        pace = self._assembler.pace(text, ours, metadata)
        stock_pace = self._assembler.pace(stock_text, cubin, stock_metadata)
        vetoed = ""
        if spills and stock.stack <= spilled and not stock_pace.is_slower(pace, policy.stock_clocks):
            vetoed = f"it would spill {spilled} bytes in each thread, stock Triton's spills {stock.stack}"
        elif stalls and pace.is_slower(stock_pace, policy.stock_clocks):
            vetoed = (
                f"a warp would take {pace.clocks} clocks by its instructions, "
                f"stock Triton's takes {stock_pace.clocks}"
            )
        self._kernel.compared(vetoed)
        if not vetoed:
            return None
        print(printed.getvalue(), end="")
        metadata.update(stock_metadata)  # entries that other hooks added stay
        self._taken = stock_text, cubin
        return stock_text, vetoed

    def cubin(self, src: object, metadata: Metadata) -> object:
        """The cubin of PTX; it may have been assembled already."""
        taken, self._taken = self._taken, None
        return taken[1] if taken is not None and taken[0] == src else self._assembler.cubin(src, metadata)
