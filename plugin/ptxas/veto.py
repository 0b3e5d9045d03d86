"""The stages `ptx` and `cubin` with stock Triton's kernel at hand, where ours spills more.

What a kernel spills goes through memory in its innermost work, and layouts seldom win that back. On an H200, 40
launches of other packages had kernels that spilled more than stock Triton's (16 with Triton 3.6, 24 with 3.9):
23 took at least 2 % longer, 11 at least 2 % less, and the geometric mean of all was 0.95 of stock Triton's
speed. A kernel of ours that spills nothing is not compared, so most are assembled once. What comparing shows is
kept between processes.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

from triton_linear.ptxas.cubin import usage
from triton_linear.ptxas.registers import Assembler, Stage, held_back

Metadata = MutableMapping[str, Any]


class Compiled(Protocol):
    """What the stage `llir` knows of a kernel that it has compiled."""

    def stock_again(self, llir: object) -> tuple[str, Metadata] | None:
        """LLVM IR of stock Triton's kernel with its metadata; None where there is nothing to compare, or `llir`
        is not what the stage has made."""

    def compared(self, vetoed: str) -> None:
        """Keep what comparing with that has shown; `vetoed`: why it is taken, if it is."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the time of the block under this name."""

    def finish(self, vetoed: str = "") -> None:
        """The kernel is decided about; `vetoed`: why it is stock Triton's after all."""


class Veto:
    """Both stages of one compile, over an `Assembler` and the stages under that, `ptx` and `cubin`."""

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
        """The PTX of our kernel, or of stock Triton's, with its metadata."""
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
            with suppress(Exception):  # what a listener raises counts less than why the compile fails
                self._kernel.finish()
            raise
        self._kernel.finish(vetoed)
        return text

    def _better(self, src: object, text: object, metadata: Metadata) -> tuple[str, str] | None:
        """Stock Triton's PTX and why it is taken; None where ours stays."""
        ours = usage(self._assembler.cubin_of(text))  # of which what is granted is faster
        if ours is None or not (spilled := ours.stack - self._assembler.granted):
            return None
        with self._kernel.phase("veto"), held_back():
            again = self._kernel.stock_again(src)
            if again is None:
                return None
            llir, other = again
            stock = self._ptx(llir, other)
            cubin = self._cubin(stock, other)
        theirs = usage(cubin)
        if not isinstance(stock, str) or theirs is None:
            return None
        if theirs.stack >= spilled:
            self._kernel.compared("")
            return None
        metadata.update(other)  # what others have added stays
        self._taken = stock, cubin
        vetoed = f"it would spill {spilled} bytes in each thread, stock Triton's spills {theirs.stack}"
        self._kernel.compared(vetoed)
        return stock, vetoed

    def cubin(self, src: object, metadata: Metadata) -> object:
        """The cubin of PTX, which may be there already."""
        taken, self._taken = self._taken, None
        return taken[1] if taken is not None and taken[0] == src else self._assembler.cubin(src, metadata)
