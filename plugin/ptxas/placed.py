"""Where the code of a kernel lies, by instructions near its beginning that do nothing.

How fast a loop is depends on where it begins, by up to 3 % on an H200 (docs/plugin-registers.md). No rule is
known, so `triton-linear tune` measures some places.
"""

from __future__ import annotations

import re
from typing import Any, Final

NOTHING: Final = "bar.warp.sync -1;"
"""A barrier of threads that run together anyhow: ptxas makes it a NOP, which takes 16 bytes since sm_70."""
_BODY: Final = re.compile(r"^\.visible \.entry\b[^{;]*\{\n", re.M)
_DECLARED: Final = re.compile(r"\s*(?:\.(?:reg|loc|pragma|local|shared)\b[^\n]*|\$\w+:|//[^\n]*)?\n")


def shifted(text: Any, count: int) -> Any:
    r"""PTX whose kernels begin with `count` instructions that do nothing.

    >>> kernel = ".visible .entry kernel()\n{\n .reg .b32 %r<2>;\n mov.b32 %r1, 0;\n ret;\n}"
    >>> [line.strip() for line in shifted(kernel, 2).split("\n")[3:6]]
    ['bar.warp.sync -1;', 'bar.warp.sync -1;', 'mov.b32 %r1, 0;']
    """
    if not isinstance(text, str) or not count:
        return text
    parts, end = [], 0
    for body in _BODY.finditer(text):
        begin = body.end()
        while (declared := _DECLARED.match(text, begin)) is not None:
            begin = declared.end()
        parts += [text[end:begin], f"\t{NOTHING}\n" * count]
        end = begin
    return "".join((*parts, text[end:]))
