"""The syntax of modules by release of Triton: cache policies are translated, other marks are recognised.

Up to 3.8 a load or store has the clauses `cacheModifier = cg` and `evictionPolicy = evict_last`; from 3.9 on
it has one attribute, `cachePolicy = #tt.cache_policy<...>`. A libtriton parses only the syntax of its own
release. With the translation it also parses a module of another release, if the two differ in nothing else.
Line numbers stay. If it cannot parse a module, libtriton complains about one token; `foreign_marks` says which
releases print that token.
"""

from __future__ import annotations

import re
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import CACHE_POLICIES, KNOWN, Release, Span

_CLAUSE: Final = re.compile(r"(cacheModifier|evictionPolicy) = (\w+)")
_CLAUSES: Final = re.compile(
    r"(?P<clauses>(?: (?:cacheModifier|evictionPolicy) = \w+)+)(?P<rest>[^{}\n]*?) (?P<next>\{|:)"
)
_ATTRIBUTE: Final = re.compile(
    r" \{(?P<front>(?:[^{}\n]*, )?)cachePolicy = #tt\.cache_policy<cache_modifier = (?P<modifier>\w+), "
    r"eviction_policy = (?P<eviction>\w+)>(?:, )?(?P<back>[^{}\n]*)\}"
)
_NO_MODIFIER: Final = "none"
_NO_EVICTION: Final = "evict_normal"


def in_syntax_of(release: Release, text: str) -> str:
    """`text`, in Triton's syntax, with its cache policies in the syntax of `release`.

    >>> old = "tt.load %p evictionPolicy = evict_last : tensor<4x!tt.ptr<f32>>"
    >>> new = in_syntax_of((3, 9), old)
    >>> print(new)
    tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = none, eviction_policy = evict_last>} : tensor<4x!tt.ptr<f32>>
    >>> in_syntax_of((3, 8), new) == old
    True
    """  # noqa: E501
    if release in CACHE_POLICIES:
        if "evictionPolicy = " in text or "cacheModifier = " in text:
            return _CLAUSES.sub(_as_attribute, text)
    elif "#tt.cache_policy<" in text:
        return _ATTRIBUTE.sub(_as_clauses, text)
    return text


def _as_attribute(match: re.Match[str]) -> str:
    clauses = dict(_CLAUSE.findall(match["clauses"]))
    modifier = clauses.get("cacheModifier", _NO_MODIFIER)
    eviction = clauses.get("evictionPolicy", _NO_EVICTION)
    policy = f"cachePolicy = #tt.cache_policy<cache_modifier = {modifier}, eviction_policy = {eviction}>"
    end = ", " if match["next"] == "{" else "} :"
    return f"{match['rest']} {{{policy}{end}"


def _as_clauses(match: re.Match[str]) -> str:
    clauses = ""
    if match["modifier"] != _NO_MODIFIER:
        clauses += f" cacheModifier = {match['modifier']}"
    if match["eviction"] != _NO_EVICTION:
        clauses += f" evictionPolicy = {match['eviction']}"
    others = (match["front"] + match["back"]).removesuffix(", ")
    return clauses + (f" {{{others}}}" if others else "")


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
