"""Write files that other threads and processes read or write at the same time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, and its folder if there is none: a reader sees the old file or the whole new one.

    Raises OSError if it cannot be written; nothing is left behind then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{os.urandom(8).hex()}.{os.getpid()}")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
