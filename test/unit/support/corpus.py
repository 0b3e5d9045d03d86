"""The modules of `test/data`, which are in the syntax of Triton 3.6, as the installed Triton reads them."""

from __future__ import annotations

import re
from pathlib import Path

from triton_linear.dialect.triton_versions import Span, installed_release

CACHE_POLICY = Span((3, 9))
"""How long a load or store is to stay in caches is said by one attribute."""

_EVICTION = re.compile(r" evictionPolicy = (\w+)(?= :)")


def source(path: Path) -> str:
    """The text of a module."""
    text = path.read_text()
    if installed_release() not in CACHE_POLICY:
        return text
    policy = r"#tt.cache_policy<cache_modifier = none, eviction_policy = \1>"
    return _EVICTION.sub(rf" {{cachePolicy = {policy}}}", text)
