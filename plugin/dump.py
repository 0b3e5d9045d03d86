"""Write the TTGIR of kernels before and after the passes to files: the option `dump`."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from triton_linear.dialect.records import dataclass

_LONGEST = 150
"""Characters of a kernel's name in a file name; file systems take 255 bytes."""


@dataclass(frozen=True, slots=True)
class Dump:
    """Writes `KERNEL-DIGEST.before.ttgir` and `KERNEL-DIGEST.after.ttgir` to a folder.

    The digest is that of the module before the passes and of the target. So each specialisation has its own
    files, and processes that compile the same kernel write the same files.
    """

    folder: Path

    def write(self, kernel: str, target: str, before: str, after: str) -> None:
        """Write both modules. Each file appears whole, as other threads and processes may read or write it."""
        digest = hashlib.sha256(f"{target}\0{before}".encode()).hexdigest()[:12]
        self.folder.mkdir(parents=True, exist_ok=True)
        for side, text in (("before", before), ("after", after)):
            path = self.folder / f"{kernel[:_LONGEST]}-{digest}.{side}.ttgir"
            with tempfile.NamedTemporaryFile(
                "w", dir=self.folder, prefix=path.name, delete=False, encoding="utf-8"
            ) as unfinished:
                unfinished.write(text)
            os.chmod(unfinished.name, 0o644)
            os.replace(unfinished.name, path)
