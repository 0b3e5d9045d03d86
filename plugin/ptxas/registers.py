"""Assembling PTX, a kernel of ours again with a directive on registers.

If `occupancy` has a directive for the kernel, ptxas assembles it with and without, and the better cubin is
taken. ptxas may fail with the directive: the operands of one `wgmma` can need more registers than a bound
leaves. Triton's stage then prints ptxas's error and the PTX. What it prints of a cubin that is not taken is not
shown (`output`).

Which directive is better is kept on disk. ptxas is a function of the PTX, its version and its options, so that
holds for every kernel with the same PTX. Source locations and the kernel's name are left out of the key, since
they change no instruction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from triton_linear.dialect import store
from triton_linear.dialect.interfaces import Metadata, Stage
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.ptxas.cubin import Usage, usage
from triton_linear.ptxas.occupancy import BOUND, CTAS, advise, limits_of, serves
from triton_linear.ptxas.output import held_back

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

_THREADS = re.compile(r"^\.reqntid (\d+)[ \t]*$", re.M)
_REGISTER_OPTIONS = ("maxrregcount", "register-usage-level", "regUsageLevel", "minnctapersm", "opt-level", "-O")
"""Options of ptxas that concern registers. The directive `.maxnreg` would override them."""
_DEBUG = "\n\t.section\t.debug"
_LINES = "\t.loc\t", "\t.file\t", "\t// .globl\t"
_CALLED = "{}_param_", ".entry {}(", "// @{}\n"
"""The lines of PTX, as LLVM prints it, with source locations, and the places of the kernel's name."""


def user_controls_registers(options: object) -> bool:
    """True if the options of a compile concern registers, or tell ptxas not to optimise."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    given = str(getattr(options, "ptx_options", None) or "")
    return bool(knobs.nvidia.disable_ptxas_opt) or any(word in given for word in _REGISTER_OPTIONS)


@dataclass(frozen=True, slots=True)
class KeptDirective:
    """The directive that a kernel is assembled with, "" for none; and the bytes of a thread's stack with it."""

    directive: str
    stack: int


def entry_name(text: str, kernel: str, how: str, *facts: object) -> str:
    """The name of the entry of a kernel. text: its PTX. how: the target with its thresholds, ptxas and its
    options. facts: what else the directive depends on."""
    lines = text.partition(_DEBUG)[0].split("\n")
    bare = "\n".join([line for line in lines if not line.startswith(_LINES)])
    for called in _CALLED:
        bare = bare.replace(called.format(kernel), called)
    return store.digest("registers", bare, how, repr(facts), source_digest())


def _raised(error: Exception, metadata: Metadata) -> None:
    raise error


def _with(directive: str, text: str, threads: re.Match[str]) -> str:
    """PTX with a directive after the one, matched by `threads`, for the number of threads."""
    return f"{text[: threads.end()]}\n{directive}{text[threads.end() :]}" if directive else text


class Assembler:
    """Both stages of one kernel.

    ptx, cubin: the backend's own stages. gpu: returns the target with its thresholds, where the kernel is to
    get a directive; None: it is not. fails: is called with an exception of this class's own work, and may raise
    it; if it does not, the kernel is assembled without a directive. again: a block that counts the time of the
    second assembly. how: as for `entry_name`; None: nothing is kept on disk. own_warps: the warps that the
    kernel asked for; further warps of a CTA are those of warp-specialised regions.
    """

    def __init__(
        self,
        ptx: Stage,
        cubin: Stage,
        gpu: Callable[[], Target] | None = None,
        fails: Callable[[Exception, Metadata], None] = _raised,
        again: Callable[[], AbstractContextManager[None]] = nullcontext,
        how: Callable[[], str] | None = None,
        own_warps: int | None = None,
    ) -> None:
        self._ptx = ptx
        self._cubin = cubin
        self._gpu = gpu
        self._fails = fails
        self._again = again
        self._how = how
        self._own_warps = own_warps
        self._made: tuple[object, object] | None = None  # PTX and its cubin
        self._failed: tuple[object, Exception] | None = None

    def text(self, src: object, metadata: Metadata) -> object:
        """The PTX of the kernel, with the directive if its cubin is better so."""
        text = self._ptx(src, metadata)
        if self._gpu is None or not isinstance(text, str) or BOUND in text or CTAS in text:
            return text
        try:
            threads = _THREADS.search(text)
            return text if threads is None else self._advised(text, threads, metadata, self._gpu)
        except Exception as error:
            self._made = self._failed = None
            self._fails(error, metadata)
            return text

    def _advised(self, text: str, threads: re.Match[str], metadata: Metadata, gpu: Callable[[], Target]) -> str:
        if self._how is None:
            return self._tried(text, threads, metadata, gpu())[0]
        facts = metadata.get("shared"), metadata.get("tmem_size")
        name = entry_name(text, str(metadata.get("name")), self._how(), *facts)
        kept = store.read_as(name, KeptDirective)
        if kept is not None:
            bounded = _with(kept.directive, text, threads)
            with held_back() as printed:
                now = self._assembled(bounded, metadata)
            if not kept.directive or (now is not None and now.stack <= kept.stack):
                print(printed.getvalue(), end="")
                return bounded
            self._failed = None
        taken, found = self._tried(text, threads, metadata, gpu())
        if found is not None:
            store.write_as(name, found)
        return taken

    def _tried(
        self, text: str, threads: re.Match[str], metadata: Metadata, gpu: Target
    ) -> tuple[str, KeptDirective | None]:
        """The better PTX, and what to keep of it; None if the cubin cannot be read."""
        before = self._assembled(text, metadata)
        if before is None:
            return text, None
        plain = self._made
        directive = advise(text, before, limits_of(int(threads[1]), metadata, gpu, self._own_warps))
        if directive:
            bounded = _with(directive, text, threads)
            with self._again(), held_back() as printed:
                now = self._assembled(bounded, metadata)
            if now is not None and serves(directive, now, before):
                print(printed.getvalue(), end="")
                return bounded, KeptDirective(directive, now.stack)
            self._made, self._failed = plain, None
        return text, KeptDirective("", before.stack)

    def spilled(self, text: object, metadata: Metadata) -> int | None:
        """The bytes that a thread of a kernel spills, by its PTX, which may be assembled; None if it fails."""
        if not isinstance(text, str):
            return None
        made = self._made
        found = usage(made[1]) if made is not None and made[0] == text else self._assembled(text, metadata)
        return None if found is None else found.stack

    def code(self, src: object, metadata: Metadata) -> object:
        """The cubin of PTX, which the stage `ptx` may have assembled. If ptxas failed there, that is raised."""
        made, self._made = self._made, None
        failed, self._failed = self._failed, None
        if failed is not None and failed[0] == src:
            raise failed[1]
        return made[1] if made is not None and made[0] == src else self._cubin(src, metadata)

    def _assembled(self, text: str, metadata: Metadata) -> Usage | None:
        """What one thread of the cubin of PTX uses; None if ptxas fails, or if that cannot be read."""
        try:
            code = self._cubin(text, metadata)
        except Exception as error:
            self._failed = text, error  # the stage `cubin` raises it
            return None
        self._made = text, code
        return usage(code)
