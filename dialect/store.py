"""A store of results on disk, in Triton's cache folder, that later compiles reuse.

An entry is a file named by the digest of everything it depends on. It is written under another name and then
renamed, so readers find a whole entry or none, however many processes write. It begins with the digest of its
content, so a damaged entry counts as missing. A compile never fails because an entry cannot be read or written.

Entries are spread over folders by the first digit of their names. A process that finds a folder too large
removes the least recently used entries. Measuring a folder takes ten times as long as writing an entry, so only
a random part of the writes measures, with a probability proportional to the bytes written. The checksum of the
content serves as the random number. So processes need not coordinate, and a folder seldom exceeds its limit by
more than a few times `FOLDER_BYTES / _PARTS`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints


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


FOLDER = "triton_linear"
"""The store's folder in Triton's cache. Triton's own folders have digests as names."""
_DIGITS = 1
FOLDER_BYTES = 16 << 20
"""The most bytes of all entries in one of the 16 folders: some 1,000 modules."""
_PARTS = 64
"""How often on average a folder is measured while `FOLDER_BYTES` are written to it."""
ENTRY_BYTES = FOLDER_BYTES // 4
"""The most bytes of one entry; a usual one has 16 KiB."""
_LEVEL = 1
"""The level of zlib. Higher levels save a tenth of the bytes and take five times as long."""


def digest(*parts: str) -> str:
    """The name of an entry that depends on these texts.

    >>> digest("ab", "c") == digest("a", "bc")
    False
    """
    name = hashlib.sha256()
    for part in parts:  # each with its length, so that parts do not run into each other
        name.update(b"%d:%b" % (len(data := part.encode()), data))
    return name.hexdigest()


def read(name: str) -> Mapping[str, Any] | None:
    """The entry of this name; None if there is none, or if it is damaged."""
    try:
        path = _path(name)
        data = path.read_bytes()
        body = data[hashlib.sha256().digest_size :]
        if hashlib.sha256(body).digest() != data[: -len(body)]:
            return None
        entry = json.loads(zlib.decompress(body))
    except Exception:  # a damaged entry counts as missing
        return None
    with suppress(OSError):  # the folder may be read-only
        os.utime(path)
    return entry if isinstance(entry, dict) else None


def write(name: str, entry: Mapping[str, Any]) -> None:
    """Keep an entry under this name, unless it is larger than `ENTRY_BYTES`. Nothing is raised if that fails.

    Requires: JSON can represent the entry.
    """
    with suppress(Exception):
        body = zlib.compress(json.dumps(entry).encode(), _LEVEL)
        if len(body) > ENTRY_BYTES:
            return
        checksum = hashlib.sha256(body).digest()
        path = _path(name)
        write_whole(path, checksum + body)
        if _measures_folder(checksum, len(body)):
            _shrink(path.parent)


Value = TypeVar("Value")


def read_as(name: str, kind: type[Value], text: Callable[[str], str] = str) -> Value | None:
    """The instance of a dataclass in an entry; None if there is none, or if its fields have other types. text:
    is applied to each string."""
    try:
        return cast(Value, decoded(read(name), kind, text))
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def write_as(name: str, value: Any, text: Callable[[str], str] = str) -> None:
    """Keep an instance of a dataclass. Its fields are texts, numbers, None, tuples or dataclasses."""
    write(name, _encoded(value, text))


def _encoded(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, tuple):
        return [_encoded(each, text) for each in value]
    if is_dataclass(value):
        return {each.name: _encoded(getattr(value, each.name), text) for each in fields(value)}
    return value


_types: Callable[[Any], Mapping[str, Any]] = functools.cache(get_type_hints)


def decoded(value: Any, kind: Any, text: Callable[[str], str] = str) -> Any:
    """The instance of a dataclass, or of the type of a field, that JSON values stand for."""
    if is_dataclass(kind):
        types = _types(kind)
        return cast(Any, kind)(**{each: decoded(value[each], types[each], text) for each in types})
    kinds = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple([decoded(each, kinds[0], text) for each in value])
    if NoneType in kinds:
        return None if value is None else decoded(value, kinds[0], text)
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind}")
    return text(value) if kind is str else value


def _measures_folder(checksum: bytes, size: int) -> bool:
    """True if a write of `size` bytes with this checksum is to measure the folder. Of all checksums, the
    fraction `size / (FOLDER_BYTES // _PARTS)` gives True.

    >>> _measures_folder(bytes(32), 1), _measures_folder(bytes([255] * 32), 1)
    (True, False)
    >>> _measures_folder(bytes([255] * 32), FOLDER_BYTES)
    True
    """
    drawn = int.from_bytes(checksum[:4], "big")
    return drawn * (FOLDER_BYTES // _PARTS) < size << 32


def _shrink(folder: Path) -> None:
    """If a folder exceeds `FOLDER_BYTES`, remove the least recently used entries until half of that is left."""
    entries = []
    with os.scandir(folder) as found:
        for one in found:
            with suppress(OSError):  # another process removed it
                entries.append((one.stat().st_mtime, one.stat().st_size, one.path))
    entries.sort()
    total = sum(size for _, size, _ in entries)
    if total <= FOLDER_BYTES:
        return
    for _, size, path in entries:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # another process removed it
        except OSError:
            continue  # it is another user's, or not a file
        total -= size
        if total <= FOLDER_BYTES // 2:
            return


def _path(name: str) -> Path:
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    return Path(knobs.cache.dir, FOLDER, name[:_DIGITS], name)
