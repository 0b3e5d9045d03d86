"""The stage that makes code of LLVM IR, `ptx` or `amdgcn`: stock Triton's kernel in place of one that spills.

Spilled values go through memory, usually in the innermost loop, and better layouts seldom make up for that. So
stock Triton's kernel is compiled as well, once, where ours spills, and taken if ours spills more.

What is compared are bytes that the assembler reports. Nothing foresees speed: where launches are measured, they
decide (`contest`), and nothing is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from triton_linear.dialect.interfaces import Metadata, Stage
from triton_linear.ptxas.occupancy import MORE
from triton_linear.ptxas.output import held_back

if TYPE_CHECKING:
    from triton_linear.ptxas.registers import Assembler
    from triton_linear.stage import LLIRStage

_SCRATCH: Final = re.compile(r"^\s*\.private_segment_fixed_size:\s*(\d+)\s*$", re.M)
"""Bytes for each thread, in the metadata of a kernel (LLVM's guide for AMDGPU, code object metadata)."""


class Spills:
    """The stages of one compile behind `llir`.

    assembly: makes the code of a kernel; called for each, with True for one of `llir`, False for stock
    Triton's. kernel: what `llir` has compiled. is_ours: whether that is a kernel of ours. fails: is called with
    an exception of the comparison; our kernel is then taken.
    """

    def __init__(
        self,
        assembly: Callable[[bool], Assembler | Scratch],
        kernel: LLIRStage,
        is_ours: Callable[[], bool],
        fails: Callable[[Exception, Metadata], None],
    ) -> None:
        self._assembly = assembly
        self._kernel = kernel
        self._is_ours = is_ours
        self._fails = fails
        self._taken: Assembler | Scratch | None = None

    def text(self, src: object, metadata: Metadata) -> object:
        """The stage `ptx` or `amdgcn`: the text of the kernel taken; `metadata` becomes that of the same."""
        ours = self._taken = self._assembly(True)
        reason = ""
        try:
            text = ours.text(src, metadata)
            try:
                if self._is_ours() and (spilled := ours.spilled(text, metadata) or 0) >= MORE:
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
        with self._kernel.phase("compare"), held_back() as printed:
            found = self._kernel.stock(src)
            if found is None:
                return ours, ""
            llir, own = found
            stock = self._assembly(False)
            text = stock.text(llir, own)
            least = stock.spilled(text, own)
        if least is None or spilled < least + MORE:
            return ours, ""
        self._taken = stock
        metadata.update(own)  # entries that other hooks added stay
        print(printed.getvalue(), end="")
        return text, f"it would spill {spilled} bytes in each thread, stock Triton's spills {least}"

    def code(self, src: object, metadata: Metadata) -> object:
        """The stage `cubin`, which may have assembled `src` already."""
        return (self._taken or self._assembly(True)).code(src, metadata)


class Scratch:
    """The assembly of a backend whose text says what is spilled. stage: `amdgcn`."""

    def __init__(self, stage: Stage) -> None:
        self.text = stage

    def spilled(self, text: object, metadata: Metadata) -> int | None:
        """Bytes of scratch memory."""
        return scratch_of(text)

    def code(self, src: object, metadata: Metadata) -> object:
        """The text: stages behind it are Triton's own."""
        return src


def scratch_of(text: object) -> int | None:
    """The bytes that a thread of an AMDGCN kernel has in scratch memory (spills); None if it tells none.

    >>> scratch_of("    .private_segment_fixed_size: 152\\n")
    152
    """
    return max((int(size) for size in _SCRATCH.findall(str(text))), default=None)
