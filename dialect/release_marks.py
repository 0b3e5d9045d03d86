"""Recognise which releases of Triton can have printed a module.

A release can parse a module of another release only if both have the same syntax for everything in it
(`cache_policies` translates some). If it cannot, libtriton complains about one token; these marks add which
releases print that token.
"""

from __future__ import annotations

import re
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import CACHE_POLICIES, KNOWN, Release, Span

_FIRST: Final[Release] = (0, 0)


@dataclass(frozen=True)
class Mark:
    """Syntax that only some releases print: a pattern, its name for messages, and the releases."""

    pattern: re.Pattern[str]
    word: str
    span: Span

    def __str__(self) -> str:
        if self.span.before > KNOWN[-1]:
            return f"'{self.word}' is what Triton prints from {_dotted(self.span.since)} on"
        return f"'{self.word}' is what Triton printed before {_dotted(self.span.before)}"


def _dotted(release: Release) -> str:
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
"""Collected by printing the same kernels with 3.6.0, 3.7.0, 3.8.0 and 3.9.0."""

_COMMENT = re.compile(r"//.*")


def foreign_marks(text: str, release: Release) -> list[Mark]:
    """The marks in a module's text that `release` does not print.

    >>> [str(mark) for mark in foreign_marks("!tt.tensordesc<tensor<4xf32>>", (3, 9))]
    ["'!tt.tensordesc<tensor<...>>' is what Triton printed before 3.8"]
    >>> foreign_marks("!tt.tensordesc<tensor<4xf32>>", (3, 7))
    []
    """
    text = _COMMENT.sub("", text)
    return [mark for mark in MARKS if release not in mark.span and mark.pattern.search(text)]
