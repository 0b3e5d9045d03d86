"""How long a load or store is to stay in caches, in the words of the installed Triton.

Up to 3.8 an operation has words, `cacheModifier = cg` and `evictionPolicy = evict_last`; from 3.9 on it has one
attribute, `cachePolicy = #tt.cache_policy<...>`. Each libtriton reads its own only. A module that another
release has printed is read all the same if this is all in which they differ. Lines keep their numbers.
"""

from __future__ import annotations

import re
from typing import Final

from triton_linear.dialect.triton_versions import CACHE_POLICIES, Release

_WORD: Final = re.compile(r"(cacheModifier|evictionPolicy) = (\w+)")
_WORDS: Final = re.compile(
    r"(?P<words>(?: (?:cacheModifier|evictionPolicy) = \w+)+)(?P<rest>[^{}\n]*?) (?P<next>\{|:)"
)
_ATTRIBUTE: Final = re.compile(
    r" \{(?P<front>(?:[^{}\n]*, )?)cachePolicy = #tt\.cache_policy<cache_modifier = (?P<modifier>\w+), "
    r"eviction_policy = (?P<eviction>\w+)>(?:, )?(?P<back>[^{}\n]*)\}"
)
_NO_MODIFIER: Final = "none"
_NO_EVICTION: Final = "evict_normal"


def in_words_of(release: Release, text: str) -> str:
    """`text` in Triton's syntax as a release reads it.

    >>> old = "tt.load %p evictionPolicy = evict_last : tensor<4x!tt.ptr<f32>>"
    >>> new = in_words_of((3, 9), old)
    >>> print(new)
    tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = none, eviction_policy = evict_last>} : tensor<4x!tt.ptr<f32>>
    >>> in_words_of((3, 8), new) == old
    True
    """  # noqa: E501
    if release in CACHE_POLICIES:
        if "evictionPolicy = " in text or "cacheModifier = " in text:
            return _WORDS.sub(_as_attribute, text)
    elif "#tt.cache_policy<" in text:
        return _ATTRIBUTE.sub(_as_words, text)
    return text


def _as_attribute(found: re.Match[str]) -> str:
    said = dict(_WORD.findall(found["words"]))
    modifier = said.get("cacheModifier", _NO_MODIFIER)
    eviction = said.get("evictionPolicy", _NO_EVICTION)
    policy = f"cachePolicy = #tt.cache_policy<cache_modifier = {modifier}, eviction_policy = {eviction}>"
    end = ", " if found["next"] == "{" else "} :"
    return f"{found['rest']} {{{policy}{end}"


def _as_words(found: re.Match[str]) -> str:
    words = ""
    if found["modifier"] != _NO_MODIFIER:
        words += f" cacheModifier = {found['modifier']}"
    if found["eviction"] != _NO_EVICTION:
        words += f" evictionPolicy = {found['eviction']}"
    others = (found["front"] + found["back"]).removesuffix(", ")
    return words + (f" {{{others}}}" if others else "")
