"""The stage that makes code of LLVM IR, `ptx` or `amdgcn`: other versions of a kernel that spills or stalls.

Spilled values go through memory, usually in the innermost loop, and better layouts seldom make up for that. On
an H200, 40 launches of other packages had kernels that spilled more than stock Triton's (16 with Triton 3.6, 24
with 3.9): 23 took at least 2 % longer, 11 at least 2 % less, and the geometric mean of all was 0.95 of stock
Triton's speed. A walk through both cubins tells some of those that are faster: where a warp of stock Triton's
takes a tenth more clocks, what ours spills is not what counts. Without that a kernel that spills as many bytes
is left too: of three, two were as fast as stock Triton's (1.01 times) and one had 0.93 of its speed. A kernel
is not compared for spills if its warps hardly execute them (`Policy.spills_matter`). Large kernels that spill
may have so many registers that few CTAs fit; such a kernel is left if more of stock Triton's are done sooner.

ptxas may also put the instructions of a kernel in an order in which each waits for the one before it, most
often where many logarithms and exponentials want predicates that masks and lanes hold. A small change of the
code is enough for that, and a warp then takes up to twice its clocks. A walk through the cubin shows the waits
(`warp_clocks.arithmetic_waits`), and a walk through stock Triton's whether it has them too. Loads that are
begun one after another, though ptxas was told of more registers (`advice`), are compared likewise. The walk
does not see conflicts in shared memory, so a kernel whose new layouts save much is not compared for stalls.

Other kernels of ours are not compared. Versions are compiled in this order, each at most once: ours, stock
Triton's, and ours with Triton's layouts. The last is left out if the code is so large that it would take long.
Stock Triton's is the measure: the first of ours that does not give way to it is taken. AMD's code tells what a
thread has on its stack, and no clocks. The results of comparisons are kept on disk (`kept.comparisons`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from triton_linear.dialect.records import dataclass
from triton_linear.ptxas.advice import Pace
from triton_linear.ptxas.output import held_back

if TYPE_CHECKING:
    from triton_linear.lowering.target.policy import Policy

Metadata = MutableMapping[str, Any]
Stage = Callable[[object, Metadata], object]


@dataclass(frozen=True, slots=True)
class Figures:
    """What is compared of the code of two kernels. spilled: the bytes that a thread spills. spills: they may
    matter. stalls: its warps stall. pace: walks through the code."""

    spilled: int
    spills: bool
    stalls: bool
    pace: Callable[[], Pace]


@dataclass(frozen=True, slots=True)
class Maker:
    """How code is made of the LLVM IR of a kernel. text: the stage `ptx` or `amdgcn`. figures: those of a
    kernel's text; None if there is nothing to compare. code: the stage `cubin`, which may know the text."""

    text: Stage
    figures: Callable[[object, Metadata], Figures | None]
    code: Stage | None = None


class Compiled(Protocol):
    """A kernel that the stage `llir` has compiled (`LLIRStage`)."""

    def others(self, llir: object) -> Iterator[tuple[str, Metadata]]:
        """LLVM IR and metadata of stock Triton's kernel, and then of ours with Triton's layouts, if that is
        another one. Empty if there is nothing to compare, or if `llir` is not the result of the stage."""

    @property
    def saved(self) -> float:
        """The part of the modelled clocks that new layouts of the kernel save."""

    def compared(self, vetoed: str, kept: bool) -> None:
        """Keep the result of the comparison. vetoed: why the kernel gives way; "" if it does not. kept: to ours
        with Triton's layouts, not to stock Triton's."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the time of the block under this name."""

    def finish(self, vetoed: str = "", kept: bool = False) -> None:
        """Deliver the kernel's report. vetoed, kept: as for `compared`."""


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of the kernel, and what was printed while it was made."""

    maker: Maker
    text: object
    metadata: Metadata
    figures: Figures
    printed: str = ""


class Veto:
    """The stages of one compile behind `llir`.

    ours, stock: make the code of our kernels and of stock Triton's; called for each kernel. kernel: what `llir`
    has compiled. policy: returns the thresholds of the GPU. fails: is called with an exception of the
    comparison; our kernel is then taken.
    """

    def __init__(
        self,
        ours: Callable[[], Maker],
        stock: Callable[[], Maker],
        kernel: Compiled,
        policy: Callable[[], Policy],
        fails: Callable[[Exception, Metadata], None],
    ) -> None:
        self._ours = ours
        self._stock = stock
        self._kernel = kernel
        self._policy = policy
        self._fails = fails
        self._taken: Maker | None = None

    def text(self, src: object, metadata: Metadata) -> object:
        """The stage `ptx` or `amdgcn`: the text of the version taken; `metadata` becomes that of the same."""
        maker = self._taken = self._ours()
        vetoed, kept = "", False
        try:
            text = maker.text(src, metadata)
            try:
                figures = maker.figures(text, metadata)
                if figures is not None and (figures.spills or figures.stalls):
                    ours = _Version(maker, text, metadata, figures)
                    taken, vetoed, kept = self._best(src, ours)
                    text, self._taken = taken.text, taken.maker
                    metadata.update(taken.metadata)  # entries that other hooks added stay
                    print(taken.printed, end="")
            except Exception as error:
                self._fails(error, metadata)
        except BaseException:
            with suppress(Exception):  # the compile's own exception is raised, not that of a listener
                self._kernel.finish()
            raise
        self._kernel.finish(vetoed, kept)
        return text

    def _best(self, src: object, ours: _Version) -> tuple[_Version, str, bool]:
        """The version to take, why ours gives way to it, and whether it is ours with Triton's layouts."""
        policy = self._policy()
        stalls = ours.figures.stalls and self._kernel.saved < policy.saves_much
        if not ours.figures.spills and not stalls:
            return ours, "", False
        with self._kernel.phase("veto"):
            others = self._kernel.others(src)
            stock = self._next(others, self._stock())
            if stock is None:
                return ours, "", False
            taken, kept = ours, None
            vetoed = _gives_way(ours.figures, stock.figures, stalls, policy)
            alone = ours.figures.spills and not stock.figures.spilled
            if vetoed or alone:
                if len(str(ours.text)) <= policy.small_code:
                    kept = self._next(others, self._ours())
                if kept and alone and kept.figures.spilled:
                    kept = None
                if kept and _gives_way(kept.figures, stock.figures, kept.figures.stalls, policy):
                    kept = None
                taken = kept or (stock if vetoed else ours)
                vetoed = vetoed or (kept and _SPILLS_ALONE.format(ours.figures.spilled)) or ""
            self._kernel.compared(vetoed, kept is not None)
        return taken, vetoed, kept is not None

    @staticmethod
    def _next(others: Iterator[tuple[str, Metadata]], maker: Maker) -> _Version | None:
        """The next version; None if there is none, or if its code does not tell its figures."""
        with held_back() as printed:
            llir, metadata = next(others, (None, {}))
            text = None if llir is None else maker.text(llir, metadata)
            figures = None if text is None else maker.figures(text, metadata)
        return None if figures is None else _Version(maker, text, metadata, figures, printed.getvalue())

    def code(self, src: object, metadata: Metadata) -> object:
        """The stage `cubin`, which may have assembled `src` already."""
        maker = self._taken or self._ours()
        assert maker.code is not None
        return maker.code(src, metadata)


_SPILLS_ALONE = "it would spill {} bytes in each thread, and nothing with Triton's layouts"


def _gives_way(ours: Figures, stock: Figures, stalls: bool, policy: Policy) -> str:
    """Why stock Triton's kernel is better than one of ours; "" if it is not. stalls: it may be for stalls."""
    if not ours.spills and not stalls:
        return ""
    pace, stock_pace, ratio = ours.pace(), stock.pace(), policy.stock_clocks
    fewer = ours.spills and stock.spilled + policy.less_spilled <= ours.spilled
    if fewer and not stock_pace.is_slower(pace, ratio):
        return f"it would spill {ours.spilled} bytes in each thread, stock Triton's spills {stock.spilled}"
    if stalls and pace.is_slower(stock_pace, ratio):
        return (
            f"a warp would take {pace.clocks} clocks by its instructions, "
            f"stock Triton's takes {stock_pace.clocks}"
        )
    if ours.spills and pace.is_crowded_out(stock_pace, ratio):
        return (
            f"{pace.ctas} CTAs would take {pace.clocks} clocks by their instructions, "
            f"{stock_pace.ctas} of stock Triton's take {stock_pace.clocks}"
        )
    return ""
