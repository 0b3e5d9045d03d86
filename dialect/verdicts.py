"""Verdicts of `triton-linear doctor` about versions of Triton that are not tested releases.

A verdict is about one libtriton, identified by its SHA-256, and one version of this package's sources. It is
a small file in a folder of the user: `$TRITON_HOME/.triton/triton-linear`, else
`$XDG_CACHE_HOME/triton-linear`, else `~/.cache/triton-linear`. Hashing a libtriton takes a second, so the
file also records the path, size and modification time of each copy that was hashed; a copy that still has
them is not hashed again. A file that cannot be read or parsed is ignored.

For a tested release nothing is read or hashed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.dialect.store import decoded, write_whole

TRIAL: Final = "TRITON_LINEAR_TRIAL"
"""The environment variable by which `doctor` makes its own processes accept the version that it tests."""


@dataclass(frozen=True)
class Library:
    """The path, size in bytes and modification time of a libtriton; a file that has all three is not hashed
    again.
    """

    path: str
    size: int
    modified: int

    @classmethod
    def at(cls, path: Path) -> Library:
        """The library at `path`. Raises OSError if there is no file."""
        path = path.resolve()
        status = path.stat()
        return cls(str(path), status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class Verdict:
    """The result of `doctor` for one Triton.

    triton: its version. rules: the release whose rules were checked. sha256: the digest of its libtriton.
    sources: the digest of this package's sources. passed: whether it follows the rules. quick: whether only a
    few cases were checked. libraries: the copies of that libtriton that were hashed.
    """

    triton: str
    rules: str
    sha256: str
    sources: str
    passed: bool
    quick: bool
    libraries: tuple[Library, ...]

    @property
    def file(self) -> Path:
        """The path of the verdict's file."""
        return folder() / f"doctor-{self.sha256[:16]}-{self.sources[:16]}.json"


def folder() -> Path:
    """The folder of verdicts, which may not exist."""
    if home := os.environ.get("TRITON_HOME"):
        return Path(home, ".triton", "triton-linear")
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache, "triton-linear")
    return Path(os.path.expanduser("~"), ".cache", "triton-linear")


def libtriton() -> Path | None:
    """The shared library of the installed Triton, without importing Triton; None if none is installed."""
    module = sys.modules.get("triton")
    if module is not None:
        places = list(getattr(module, "__path__", ()))
    else:
        from importlib.util import find_spec

        spec = find_spec("triton")
        places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        for path in sorted(Path(place, "_C").glob("libtriton*.so")):
            return path
    return None


def sha256(path: Path) -> str:
    """The digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def is_on_trial(version: str | None) -> bool:
    """Whether this is a process in which `doctor` tests this version."""
    return version is not None and os.environ.get(TRIAL) == version


def kept() -> Verdict | None:
    """The stored verdict about the installed Triton; None if there is none for the present sources."""
    path = libtriton()
    if path is None:
        return None
    with contextlib.suppress(OSError):
        return _kept(path, Library.at(path))
    return None


def _kept(path: Path, library: Library) -> Verdict | None:
    current = [verdict for verdict in _all() if verdict.sources == source_digest()]
    for verdict in current:
        if library in verdict.libraries:
            return verdict
    same_size = [verdict for verdict in current if any(seen.size == library.size for seen in verdict.libraries)]
    digest = sha256(path) if same_size else ""
    for verdict in same_size:
        if verdict.sha256 == digest:
            with contextlib.suppress(OSError):  # the next process hashes it again
                keep(replace(verdict, libraries=(*verdict.libraries, library)))
            return verdict
    return None


def keep(verdict: Verdict) -> Path:
    """Store a verdict, replacing one about the same libtriton and sources, and return the path of its file.

    Ensures: a concurrent reader sees the old file or the new one. Raises OSError if it cannot be written.
    """
    path = verdict.file
    write_whole(path, f"{json.dumps(asdict(verdict), indent=1)}\n".encode())
    return path


def forget() -> int:
    """Remove all verdicts about the installed Triton, whatever their sources, and return their number."""
    path = libtriton()
    if path is None:
        return 0
    digest, count = sha256(path), 0
    for verdict in _all():
        if verdict.sha256 == digest:
            verdict.file.unlink(missing_ok=True)
            count += 1
    return count


def _all() -> Iterator[Verdict]:
    for path in sorted(folder().glob("doctor-*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            verdict: Verdict = decoded(json.loads(path.read_text(encoding="utf-8")), Verdict)
            if verdict.file.name == path.name:
                yield verdict
