"""What `triton-linear doctor` has found out of Tritons that are no tested releases.

A verdict is about one libtriton, told by its SHA-256, and these sources of this package. It is a small file in
a folder of the user's: `$TRITON_HOME/.triton/triton-linear`, else `$XDG_CACHE_HOME/triton-linear`, else
`~/.cache/triton-linear`. Hashing a libtriton takes a second, so the file also says where it was seen, of what
size and age: a process that finds it there as it was does not hash it. A file that cannot be read, or is not
what `keep` writes, counts as none.

Nothing is read, and nothing hashed, for a release that is tested.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest

TRIAL: Final = "TRITON_LINEAR_TRIAL"
"""The environment variable by which `doctor` has its own processes take the version that it tries out."""


@dataclass(frozen=True)
class Library:
    """A libtriton as it was seen: a file of this size and age is taken to be the same."""

    path: str
    size: int
    modified: int

    @classmethod
    def at(cls, path: Path) -> Library:
        """What is there. Raises OSError where there is nothing."""
        path = path.resolve()
        status = path.stat()
        return cls(str(path), status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class Verdict:
    """What was found out about a Triton.

    triton: its version. rules: the release whose rules were tried. sha256: of its libtriton.
    sources: the digest of this package's. passed: whether nothing differs. quick: whether few cases were tried.
    libraries: where that libtriton was seen.
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
        """Where it is kept."""
        return folder() / f"doctor-{self.sha256[:16]}-{self.sources[:16]}.json"


def folder() -> Path:
    """The folder of verdicts, which may not be there."""
    if home := os.environ.get("TRITON_HOME"):
        return Path(home, ".triton", "triton-linear")
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache, "triton-linear")
    return Path(os.path.expanduser("~"), ".cache", "triton-linear")


def libtriton() -> Path | None:
    """The shared library of the Triton that `import triton` gives, which is not imported; None without one."""
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
    """Whether this is a process of `doctor`, which tries out this version."""
    return version is not None and os.environ.get(TRIAL) == version


def kept() -> Verdict | None:
    """The verdict about the installed Triton; None if these sources have made none."""
    path = libtriton()
    if path is None:
        return None
    with contextlib.suppress(OSError):
        return _kept(path, Library.at(path))
    return None


def _kept(path: Path, library: Library) -> Verdict | None:
    found = [verdict for verdict in _all() if verdict.sources == source_digest()]
    for verdict in found:
        if library in verdict.libraries:
            return verdict
    alike = [verdict for verdict in found if any(seen.size == library.size for seen in verdict.libraries)]
    digest = sha256(path) if alike else ""
    for verdict in alike:
        if verdict.sha256 == digest:
            with contextlib.suppress(OSError):  # the next process hashes it again
                keep(replace(verdict, libraries=(*verdict.libraries, library)))
            return verdict
    return None


def keep(verdict: Verdict) -> Path:
    """Write a verdict, in place of one about the same libtriton by the same sources; returns where.

    Ensures: who reads meanwhile finds the old one or the new one. Raises OSError where it cannot be written.
    """
    path = verdict.file
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".doctor-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(verdict), file, indent=1)
            file.write("\n")
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return path


def forget() -> int:
    """Remove what any sources have found out about the installed Triton; returns how many verdicts that was."""
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
            verdict = _read(path)
            if verdict.file.name == path.name:
                yield verdict


def _read(path: Path) -> Verdict:
    """Raises an exception of some kind where a file holds no verdict."""
    data = json.loads(path.read_text(encoding="utf-8"))
    libraries = tuple(
        Library(str(seen["path"]), int(seen["size"]), int(seen["modified"])) for seen in data["libraries"]
    )
    triton, rules, digest, sources = (str(data[name]) for name in ("triton", "rules", "sha256", "sources"))
    if not isinstance(data["passed"], bool) or not isinstance(data["quick"], bool):
        raise ValueError("no verdict")
    return Verdict(triton, rules, digest, sources, data["passed"], data["quick"], libraries)
