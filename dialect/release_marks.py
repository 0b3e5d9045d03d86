"""Which releases of Triton print a module, as far as its words tell.

A release reads what another has printed where the two have the same words for it (`cache_policies` translates
some). Where it does not, what libtriton says is about one word; these marks say that it is another release's.
"""

from __future__ import annotations

import re
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import CACHE_POLICIES, KNOWN, Release, Span

_FIRST: Final[Release] = (0, 0)


@dataclass(frozen=True)
class Mark:
    """What only some releases print: a pattern, its name in words, and those releases."""

    pattern: re.Pattern[str]
    word: str
    span: Span

    def __str__(self) -> str:
        if self.span.before > KNOWN[-1]:
            return f"'{self.word}' is what Triton prints from {_said(self.span.since)} on"
        return f"'{self.word}' is what Triton printed before {_said(self.span.before)}"


def _said(release: Release) -> str:
    return ".".join(map(str, release))


MARKS: Final = (
    Mark(re.compile(r"!tt\.tensordesc<tensor<"), "!tt.tensordesc<tensor<...>>", Span(_FIRST, (3, 8))),
    Mark(re.compile(r"!tt\.tensordesc<\d"), "!tt.tensordesc<SHAPExTYPE>", Span((3, 8))),
    Mark(re.compile(r"\bCTASplit[MN] = "), "CTASplitN", Span(_FIRST, (3, 8))),
    Mark(
        re.compile(r"#ttng\.tensor_memory_encoding<[^>]*CGALayout"), "tensor memory's CGALayout", Span((3, 8))
    ),
    Mark(re.compile(r"\bttg\.barrier\b"), "ttg.barrier", Span((3, 7))),
    Mark(re.compile(r"\brocdl\.sched\.barrier -?\d"), "rocdl.sched.barrier NUMBER", Span(_FIRST, (3, 9))),
    Mark(re.compile(r"\brocdl\.sched\.barrier [a-z]"), "rocdl.sched.barrier WORD", Span((3, 9))),
    Mark(re.compile(r"\bamdg\.buffer_store .* : tensor<"), "buffer_store ... : tensor", Span(_FIRST, (3, 9))),
    Mark(re.compile(r"\bamdg\.buffer_store .* : !tt\.ptr<"), "buffer_store ... : !tt.ptr", Span((3, 9))),
    Mark(re.compile(r"\bttng\.two-ctas\b"), "ttng.two-ctas", Span((3, 9))),
    Mark(re.compile(r"#tt\.cache_policy<"), "#tt.cache_policy", CACHE_POLICIES),
    Mark(re.compile(r"\bcache = \d : i32, evict = \d : i32"), "evict = NUMBER", Span(_FIRST, (3, 9))),
)
"""From what 3.6.0, 3.7.0, 3.8.0 and 3.9.0 print of the same kernels."""

_COMMENT = re.compile(r"//.*")


def of_another(text: str, release: Release) -> list[Mark]:
    """The marks in a module's text that this release does not print.

    >>> [str(mark) for mark in of_another("!tt.tensordesc<tensor<4xf32>>", (3, 9))]
    ["'!tt.tensordesc<tensor<...>>' is what Triton printed before 3.8"]
    >>> of_another("!tt.tensordesc<tensor<4xf32>>", (3, 7))
    []
    """
    text = _COMMENT.sub("", text)
    return [mark for mark in MARKS if release not in mark.span and mark.pattern.search(text)]
