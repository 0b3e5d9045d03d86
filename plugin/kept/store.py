"""What compiles have found out, kept on disk between processes: beside Triton's kernels, in its cache's folder.

An entry is a file named by the digest of all that it depends on. It is written under another name and then
renamed, so a reader finds the whole of it or nothing, however many write; and it begins with the digest of the
rest, so one that is damaged counts as none. A compile never fails for an entry that cannot be read or written.

Entries are spread over folders by the first digits of their names. Who finds that a folder has become too large
removes from it what was used longest ago. To look takes ten times as long as to write, so one write in some
looks, the more often the more it writes: the checksum of what is written decides, which is as good as drawing
lots. So processes need not know of each other, and a folder is hardly ever larger than it may be by more than a
few of these parts.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "triton_linear"
"""The name of ours in Triton's cache, whose own folders have digests for names."""
_DIGITS = 1
FOLDER_BYTES = 16 << 20
"""What entries of one of the 16 folders may take together: as much as some 1,000 modules."""
_PARTS = 64
"""How many times one looks while as much is written as a folder may take, in the mean."""
ENTRY_BYTES = FOLDER_BYTES // 4
"""What one entry may take; a usual one has 16 KiB."""
_LEVEL = 1
"""Of zlib: how hard it tries. More than this saves a tenth of the bytes and takes five times as long."""


def digest(*parts: str) -> str:
    """A name for what depends on these texts.

    >>> digest("ab", "c") == digest("a", "bc")
    False
    """
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read(name: str) -> Mapping[str, Any] | None:
    """The entry of this name; None where there is none that is whole."""
    try:
        path = _path(name)
        data = path.read_bytes()
        body = data[hashlib.sha256().digest_size :]
        if hashlib.sha256(body).digest() != data[: -len(body)]:
            return None
        entry = json.loads(zlib.decompress(body))
    except Exception:  # whatever is wrong with it, the passes run
        return None
    with suppress(OSError):  # a folder may be for reading only
        os.utime(path)
    return entry if isinstance(entry, dict) else None


def write(name: str, entry: Mapping[str, Any]) -> None:
    """Keep an entry, which JSON can hold, under this name, unless it is larger than `ENTRY_BYTES`.

    Whatever goes wrong, the kernel that it is about is compiled: nothing is raised.
    """
    temporary = None
    with suppress(Exception):
        body = zlib.compress(json.dumps(entry).encode(), _LEVEL)
        if len(body) > ENTRY_BYTES:
            return
        checksum = hashlib.sha256(body).digest()
        path = _path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
        with temporary.open("xb") as file:  # who may read it is as for Triton's own files
            file.write(checksum + body)
        os.replace(temporary, path)
        temporary = None
        if _looks(checksum, len(body)):
            _bound(path.parent)
    if temporary is not None:
        with suppress(OSError):
            temporary.unlink()


def _looks(checksum: bytes, size: int) -> bool:
    """Whether who has written so many bytes, of this checksum, looks how large the folder is: on `size` in
    `FOLDER_BYTES // _PARTS` of all checksums.

    >>> _looks(bytes(32), 1), _looks(bytes([255] * 32), 1), _looks(bytes([255] * 32), FOLDER_BYTES)
    (True, False, True)
    """
    drawn = int.from_bytes(checksum[:4], "big")
    return drawn * (FOLDER_BYTES // _PARTS) < size << 32


def _bound(folder: Path) -> None:
    """Remove what was used longest ago from a folder that is too large, until it is half as large."""
    entries = []
    with os.scandir(folder) as found:
        for one in found:
            with suppress(OSError):  # another process was here
                entries.append((one.stat().st_mtime, one.stat().st_size, one.path))
    entries.sort()
    total = sum(size for _, size, _ in entries)
    if total <= FOLDER_BYTES:
        return
    for _, size, path in entries:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # another process was here
        except OSError:
            continue  # of another user, or no file
        total -= size
        if total <= FOLDER_BYTES // 2:
            return


def _path(name: str) -> Path:
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    return Path(knobs.cache.dir, FOLDER, name[:_DIGITS], name)
