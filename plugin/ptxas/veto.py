"""The stage that makes code of LLVM IR, `ptx` or `amdgcn`: other versions of a kernel that spills.

Spilled values go through memory, usually in the innermost loop, and better layouts seldom make up for that. So
a kernel of ours that spills is compared with others, each compiled at most once: stock Triton's, and ours with
Triton's layouts. Stock Triton's is the measure: the first of ours that does not spill more is taken. The last
is left out if the code is so large that it would take long.

What is compared are bytes that the assembler reports. Nothing foresees speed: where a GPU is at hand, launches
measure (`contest`). The results of comparisons are kept on disk (`kept.assembly`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, Protocol

from triton_linear.dialect.records import dataclass
from triton_linear.ptxas.advice import MORE
from triton_linear.ptxas.output import held_back

Metadata = MutableMapping[str, Any]
Stage = Callable[[object, Metadata], object]
_SCRATCH: Final = re.compile(r"^\s*\.private_segment_fixed_size:\s*(\d+)\s*$", re.M)
"""Bytes for each thread, in the metadata of a kernel (LLVM's guide for AMDGPU, code object metadata)."""
_SMALL_CODE: Final = 128 * 1024
"""The most characters of PTX or AMDGCN of a kernel that is compiled a third time. Of more than that Triton
takes two to ten seconds for one version."""


@dataclass(frozen=True, slots=True)
class Maker:
    """How code is made of the LLVM IR of a kernel. text: the stage `ptx` or `amdgcn`. spilled: the bytes that a
    thread spills, by the text; None if there is nothing to compare. code: the stage `cubin`, which may know the
    text."""

    text: Stage
    spilled: Callable[[object, Metadata], int | None]
    code: Stage | None = None


class Compiled(Protocol):
    """A kernel that the stage `llir` has compiled (`LLIRStage`)."""

    def others(self, llir: object) -> Iterator[tuple[str, Metadata]]:
        """LLVM IR and metadata of stock Triton's kernel, and then of ours with Triton's layouts, if that is
        another one. Empty if there is nothing to compare, or if `llir` is not the result of the stage."""

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
    spilled: int
    printed: str = ""


class Veto:
    """The stages of one compile behind `llir`.

    ours, stock: make the code of our kernels and of stock Triton's; called for each kernel. kernel: what `llir`
    has compiled. fails: is called with an exception of the comparison; our kernel is then taken.
    """

    def __init__(
        self,
        ours: Callable[[], Maker],
        stock: Callable[[], Maker],
        kernel: Compiled,
        fails: Callable[[Exception, Metadata], None],
    ) -> None:
        self._ours = ours
        self._stock = stock
        self._kernel = kernel
        self._fails = fails
        self._taken: Maker | None = None

    def text(self, src: object, metadata: Metadata) -> object:
        """The stage `ptx` or `amdgcn`: the text of the version taken; `metadata` becomes that of the same."""
        maker = self._taken = self._ours()
        vetoed, kept = "", False
        try:
            text = maker.text(src, metadata)
            try:
                spilled = maker.spilled(text, metadata) or 0
                if spilled >= MORE:
                    taken, vetoed, kept = self._best(src, _Version(maker, text, metadata, spilled))
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
        with self._kernel.phase("veto"):
            others = self._kernel.others(src)
            stock = self._next(others, self._stock())
            if stock is None:
                return ours, "", False
            taken, vetoed = ours, ""
            if ours.spilled >= stock.spilled + MORE:
                found = f"{ours.spilled} bytes in each thread, stock Triton's spills {stock.spilled}"
                vetoed = f"it would spill {found}"
                taken = stock
                if len(str(ours.text)) <= _SMALL_CODE:
                    kept = self._next(others, self._ours())
                    if kept is not None and kept.spilled < stock.spilled + MORE:
                        taken = kept
            kept_ours = bool(vetoed) and taken is not stock
            self._kernel.compared(vetoed, kept_ours)
        return taken, vetoed, kept_ours

    @staticmethod
    def _next(others: Iterator[tuple[str, Metadata]], maker: Maker) -> _Version | None:
        """The next version; None if there is none, or if its code does not tell what it spills."""
        with held_back() as printed:
            llir, metadata = next(others, (None, {}))
            text = None if llir is None else maker.text(llir, metadata)
            spilled = None if text is None else maker.spilled(text, metadata)
        return None if spilled is None else _Version(maker, text, metadata, spilled, printed.getvalue())

    def code(self, src: object, metadata: Metadata) -> object:
        """The stage `cubin`, which may have assembled `src` already."""
        maker = self._taken or self._ours()
        assert maker.code is not None
        return maker.code(src, metadata)


def scratch_of(text: object) -> int | None:
    """The bytes that a thread of an AMDGCN kernel has in scratch memory (spills); None if it tells none.

    >>> scratch_of("    .private_segment_fixed_size: 152\\n")
    152
    """
    return max((int(size) for size in _SCRATCH.findall(str(text))), default=None)
