"""The stages `ptx` and `cubin`, which assemble a kernel of ours again with a directive on registers.

If `occupancy` has a directive for the kernel, ptxas assembles it with and without, and the better cubin is
taken. ptxas may fail with the directive: the operands of one `wgmma` can need more registers than a bound
leaves. Triton's stage then prints ptxas's error and the PTX. What it prints of a cubin that is not taken is not
shown (`output`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from triton_linear.dialect.records import dataclass
from triton_linear.kept import store
from triton_linear.kept.assembly import KeptDirective, KeptDirectives
from triton_linear.ptxas.cubin import Usage, usage
from triton_linear.ptxas.occupancy import BOUND, CTAS, advise, limits_of, serves
from triton_linear.ptxas.output import held_back
from triton_linear.ptxas.spills import Metadata, Stage

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

_THREADS = re.compile(r"^\.reqntid (\d+)[ \t]*$", re.M)
_REGISTER_OPTIONS = ("maxrregcount", "register-usage-level", "regUsageLevel", "minnctapersm", "opt-level", "-O")
"""Options of ptxas that concern registers. The directive `.maxnreg` would override them."""


def user_controls_registers(options: object) -> bool:
    """True if the options of a compile concern registers, or tell ptxas not to optimise."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    given = str(getattr(options, "ptx_options", None) or "")
    return bool(knobs.nvidia.disable_ptxas_opt) or any(word in given for word in _REGISTER_OPTIONS)


def _raised(error: Exception, metadata: Metadata) -> None:
    raise error


def _with(directive: str, text: str, threads: re.Match[str]) -> str:
    """PTX with a directive after the one, matched by `threads`, for the number of threads."""
    return f"{text[: threads.end()]}\n{directive}{text[threads.end() :]}"


@dataclass(frozen=True, slots=True)
class _Assembled:
    """A cubin, and what one thread of it uses."""

    code: object
    usage: Usage


class Assembler:
    """Both stages of one compile.

    ptx, cubin: the backend's own stages. applies: tells if the kernel is ours. gpu: returns the target with its
    thresholds. fails: is called with an exception of this class's own work, and may raise it; if it does not,
    the kernel is assembled without a directive. again: a block that counts the time of the second assembly.
    decisions: the directives of earlier compiles, which are reused; None: do not use them. own_warps: the warps
    that the kernel asked for; further warps of a CTA are those of warp-specialised regions.
    """

    def __init__(
        self,
        ptx: Stage,
        cubin: Stage,
        applies: Callable[[], bool],
        gpu: Callable[[], Target],
        fails: Callable[[Exception, Metadata], None] = _raised,
        again: Callable[[], AbstractContextManager[None]] = nullcontext,
        decisions: KeptDirectives | None = None,
        own_warps: int | None = None,
    ) -> None:
        self._ptx = ptx
        self._cubin = cubin
        self._applies = applies
        self._gpu = gpu
        self._fails = fails
        self._again = again
        self._decisions = decisions
        self._made: tuple[object, object] | None = None  # PTX and its cubin
        self._own_warps = own_warps
        self._failed: tuple[object, Exception] | None = None

    def ptx(self, src: object, metadata: Metadata) -> object:
        """The PTX of the kernel, with the directive if its cubin is better so."""
        text = self._ptx(src, metadata)
        if not isinstance(text, str):
            return text
        try:
            return self._advised(text, metadata)
        except Exception as error:
            self._made = self._failed = None
            self._fails(error, metadata)
            return text

    def _advised(self, text: str, metadata: Metadata) -> str:
        if not self._applies() or BOUND in text or CTAS in text:
            return text
        threads = _THREADS.search(text)
        if threads is None:
            return text
        decided, name = None, ""
        if self._decisions is not None:
            facts = metadata.get("shared"), metadata.get("tmem_size")
            name = self._decisions.name(text, str(metadata.get("name")), *facts)
            decided = self._decisions.read(name)
        if decided is not None:
            bounded = _with(decided.directive, text, threads) if decided.directive else text
            with held_back() as printed:
                now = self._assembled(bounded, metadata)
            if not decided.directive or (now is not None and now.usage.stack <= decided.stack):
                print(printed.getvalue(), end="")
                return bounded
            self._failed = None
        taken, found = self._tried(text, threads, metadata)
        if found is not None and self._decisions is not None:
            store.write_as(name, found)
        return taken

    def _tried(self, text: str, threads: re.Match[str], metadata: Metadata) -> tuple[str, KeptDirective | None]:
        """The better PTX, and the decision to keep; None if the cubin cannot be read."""
        before = self._assembled(text, metadata)
        if before is None:
            return text, None
        limits = limits_of(int(threads[1]), metadata, self._gpu(), self._own_warps)
        directive = advise(text, before.usage, limits)
        if not directive:
            return text, KeptDirective("", before.usage.stack)
        bounded = _with(directive, text, threads)
        with self._again(), held_back() as printed:
            now = self._assembled(bounded, metadata)
        if now is None or not serves(directive, now.usage, before.usage):
            self._made, self._failed = (text, before.code), None
            return text, KeptDirective("", before.usage.stack)
        print(printed.getvalue(), end="")
        return bounded, KeptDirective(directive, now.usage.stack)

    def spilled(self, text: object, metadata: Metadata) -> int | None:
        """The bytes that a thread of a kernel spills that the stage `ptx` has assembled; else None. text: its
        PTX."""
        found = usage(self._made[1]) if self._made is not None and self._made[0] == text else None
        return None if found is None else found.stack

    def measured(self, text: object, metadata: Metadata) -> int | None:
        """The same of any kernel, which is assembled if it has not been."""
        if isinstance(text, str) and (self._made is None or self._made[0] != text):
            self._assembled(text, metadata)
        return self.spilled(text, metadata)

    def cubin(self, src: object, metadata: Metadata) -> object:
        """The cubin of PTX, which the stage `ptx` may have assembled. If ptxas failed there, that is raised."""
        made, self._made = self._made, None
        failed, self._failed = self._failed, None
        if failed is not None and failed[0] == src:
            raise failed[1]
        return made[1] if made is not None and made[0] == src else self._cubin(src, metadata)

    def _assembled(self, text: str, metadata: Metadata) -> _Assembled | None:
        """The cubin of PTX; None if ptxas fails, or if the cubin's registers and stack cannot be read."""
        try:
            code = self._cubin(text, metadata)
        except Exception as error:
            self._failed = text, error  # the stage `cubin` raises it
            return None
        self._made = text, code
        found = usage(code)
        return _Assembled(code, found) if found is not None else None
