"""Complete the wmma encodings that libtriton prints, so that it can parse them again.

From Triton 3.7 on, an `#ttg.amd_wmma` gives its tiles by bases, `ctaLayout`. For a kernel of one warp
libtriton does not print the bases of warps, and for a batched dot it does not print the rank. Parsing that
text ends the process. Its parser accepts both fields if they are present: `ctaLayout = {warp = []}` and `rank
= 3`.

The rank is the length of the basis vectors. If there are none, it is the rank of the tensor, plus one for each
`#ttg.slice` between the tensor and the encoding.
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
    """Whether `text` has a wmma encoding with bases."""
    return "ctaLayout = {" in text


def lacks_warps(text: str) -> bool:
    """Whether the bases of warps are missing in some wmma encoding."""
    return has_bases(text) and _NO_WARPS.search(text) is not None


def completed(text: str) -> str:
    """`text` with the bases of warps and the rank in every wmma encoding that has bases.

    Requires: aliases are expanded if bases of warps are missing.

    >>> completed("tensor<16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {}}>>")
    'tensor<16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {warp = []}}>>'
    >>> completed("tensor<2x16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {}}>>")
    'tensor<2x16x16xf16, #ttg.amd_wmma<{version = 1, ctaLayout = {warp = []}, rank = 3}>>'
    """
    text = _IN_TENSOR.sub(_in_tensor, text)
    return _ANYWHERE.sub(lambda match: _completed_encoding(match["body"], None), text)


def _in_tensor(match: re.Match[str]) -> str:
    rank = match["sizes"].count("x") + match["around"].count("#ttg.slice<")
    return match["type"] + match["around"] + _completed_encoding(match["body"], rank)


def _completed_encoding(body: str, rank: int | None) -> str:
    vectors = _VECTOR.findall(body.partition("instrShape")[0])
    if vectors:
        rank = vectors[0].count(",") + 1
    if "ctaLayout" in body:
        body = _NO_WARPS.sub(lambda match: "{warp = []" + (", " if match[1] else ""), body)
        if rank not in (None, _DEFAULT_RANK) and "rank = " not in body:
            body += f", rank = {rank}"
    return f"#ttg.amd_wmma<{{{body}}}>"
