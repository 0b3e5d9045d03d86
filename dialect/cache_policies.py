"""Translate the cache policies of loads and stores between the syntaxes of Triton's releases.

Up to 3.8 an operation has the clauses `cacheModifier = cg` and `evictionPolicy = evict_last`; from 3.9 on it
has one attribute, `cachePolicy = #tt.cache_policy<...>`. A libtriton parses only the syntax of its own
release. With this translation it also parses a module of another release, if the two differ in nothing else.
Line numbers stay.
"""

from __future__ import annotations

import re
from typing import Final

from triton_linear.dialect.triton_versions import CACHE_POLICIES, Release

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
