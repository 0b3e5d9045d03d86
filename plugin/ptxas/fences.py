"""Fences that older versions of PTX do not have."""

from __future__ import annotations

import re
from typing import Any, Final

RESTRICTED: Final = "fence.release.sync_restrict::shared::cta.cluster;"
"""The fence of exchanges across CTAs (`lowering.emit.machines.RELEASE`), since PTX ISA 8.6."""
WHOLE: Final = "fence.acq_rel.cluster;"
"""The fence of all memory, since PTX ISA 7.8."""
_SINCE: Final = (8, 6)
_VERSION: Final = re.compile(r"^\.version (\d+)\.(\d+)", re.M)


def with_known_fences(text: Any) -> Any:
    """PTX with fences that its version has. Triton writes the version of the ptxas that it finds, which a user
    may have chosen.

    >>> with_known_fences(f".version 8.4\\n{RESTRICTED}")
    '.version 8.4\\nfence.acq_rel.cluster;'
    >>> with_known_fences(f".version 8.6\\n{RESTRICTED}") == f".version 8.6\\n{RESTRICTED}"
    True
    """
    if not isinstance(text, str) or RESTRICTED not in text:
        return text
    version = _VERSION.search(text)
    if version is None or (int(version[1]), int(version[2])) >= _SINCE:
        return text
    return text.replace(RESTRICTED, WHOLE)
