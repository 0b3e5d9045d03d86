"""The stage that makes code of LLVM IR, `ptx` or `amdgcn`: stock Triton's kernel in place of one that spills.

Spilled values go through memory, usually in the innermost loop, and better layouts seldom make up for that. So
stock Triton's kernel is compiled as well, once, where ours spills, and taken if ours spills more.

What is compared are bytes that the assembler reports. Nothing foresees speed: where launches are measured, they
decide (`contest`), and nothing is compared. The results of comparisons are kept on disk (`kept.assembly`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, Protocol

from triton_linear.dialect.records import dataclass
from triton_linear.ptxas.occupancy import MORE
from triton_linear.ptxas.output import held_back

Metadata = MutableMapping[str, Any]
Stage = Callable[[object, Metadata], object]
_SCRATCH: Final = re.compile(r"^\s*\.private_segment_fixed_size:\s*(\d+)\s*$", re.M)
"""Bytes for each thread, in the metadata of a kernel (LLVM's guide for AMDGPU, code object metadata)."""


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

    def stock(self, llir: object) -> tuple[str, Metadata] | None:
        """LLVM IR and metadata of stock Triton's kernel; None if there is nothing to compare, or if `llir` is
        not the result of the stage."""

    def compared(self, reason: str) -> None:
        """Keep the result of the comparison: why the kernel gives way; "" if it does not."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the time of the block under this name."""

    def finish(self, reason: str = "") -> None:
        """Deliver the kernel's report. reason: as for `compared`."""


class Spills:
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
        """The stage `ptx` or `amdgcn`: the text of the kernel taken; `metadata` becomes that of the same."""
        maker = self._taken = self._ours()
        reason = ""
        try:
            text = maker.text(src, metadata)
            try:
                spilled = maker.spilled(text, metadata) or 0
                if spilled >= MORE:
                    text, reason = self._compared(src, text, spilled, metadata)
            except Exception as error:
                self._fails(error, metadata)
        except BaseException:
            with suppress(Exception):  # the compile's own exception is raised, not that of a listener
                self._kernel.finish()
            raise
        self._kernel.finish(reason)
        return text

    def _compared(self, src: object, ours: object, spilled: int, metadata: Metadata) -> tuple[object, str]:
        """The text of the kernel to take, and why ours gives way, or ""."""
        with self._kernel.phase("compare"):
            maker = self._stock()
            with held_back() as printed:
                found = self._kernel.stock(src)
                if found is None:
                    return ours, ""
                llir, own = found
                text = maker.text(llir, own)
                least = maker.spilled(text, own)
            if least is None:
                return ours, ""
            if spilled < least + MORE:
                self._kernel.compared("")
                return ours, ""
            reason = f"it would spill {spilled} bytes in each thread, stock Triton's spills {least}"
            self._kernel.compared(reason)
        self._taken = maker
        metadata.update(own)  # entries that other hooks added stay
        print(printed.getvalue(), end="")
        return text, reason

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
