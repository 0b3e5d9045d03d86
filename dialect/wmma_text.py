"""Encodings of wmma in words that libtriton reads.

From Triton 3.7 on an `#ttg.amd_wmma` has its tiles as bases, `ctaLayout`, and libtriton does not read all that
it prints: of a kernel of one warp it prints no bases of warps, and of a batched dot it does not print the rank.
Reading that, it ends the process. Its parser takes both: `ctaLayout = {warp = []}` and `rank = 3`.

The rank is that of the bases. Where there are none it is that of the tensor, found by the encodings in between:
each `#ttg.slice` has one dimension less than its parent.
"""

from __future__ import annotations

import re
from typing import Final

_WMMA: Final = r"#ttg\.amd_wmma<\{(?P<body>(?:[^{}]|\{[^{}]*\})*)\}>"
_ANYWHERE: Final = re.compile(_WMMA)
_IN_TENSOR: Final = re.compile(
    r"(?P<type>tensor<(?P<sizes>(?:\d+x)+)[\w!.]+(?:<[^<>]*>)?, )"
    r"(?P<around>(?:#ttg\.(?:slice|dot_op)<\{[^{}]*parent = )*)" + _WMMA
)
_NO_WARPS: Final = re.compile(r"(?<=ctaLayout = )\{(?![^{}]*\bwarp = )(?=([^{}]?))")
_VECTOR: Final = re.compile(r"\[(-?\d+(?:, -?\d+)*)\]")
_DEFAULT_RANK: Final = 2


def has_bases(text: str) -> bool:
    """Whether there is something to look at."""
    return "ctaLayout = {" in text


def lacks_warps(text: str) -> bool:
    """Whether bases of warps are missing somewhere."""
    return has_bases(text) and _NO_WARPS.search(text) is not None


def with_what_is_not_printed(text: str) -> str:
    """`text` with the warps and the rank of every wmma encoding that has bases.

    Requires: aliases are expanded where bases of warps are missing.

    >>> with_what_is_not_printed("tensor<16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {}}>>")
    'tensor<16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {warp = []}}>>'
    >>> with_what_is_not_printed("tensor<2x16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {}}>>")
    'tensor<2x16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {warp = []}, rank = 3}>>'
    """
    text = _IN_TENSOR.sub(_in_tensor, text)
    return _ANYWHERE.sub(lambda found: _completed(found["body"], None), text)


def _in_tensor(found: re.Match[str]) -> str:
    rank = found["sizes"].count("x") + found["around"].count("#ttg.slice<")
    return found["type"] + found["around"] + _completed(found["body"], rank)


def _completed(body: str, rank: int | None) -> str:
    vectors = _VECTOR.findall(body.partition("instrShape")[0])
    if vectors:
        rank = vectors[0].count(",") + 1
    if "ctaLayout" in body:
        body = _NO_WARPS.sub(lambda found: "{warp = []" + (", " if found[1] else ""), body)
        if rank not in (None, _DEFAULT_RANK) and "rank = " not in body:
            body += f", rank = {rank}"
    return f"#ttg.amd_wmma<{{{body}}}>"
