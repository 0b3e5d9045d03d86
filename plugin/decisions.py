"""Decisions: which variant of a kernel was measured to be the fastest. An SQLite file keeps them.

A decision holds for one kernel, one kind of GPU, and one version of Triton, ptxas and this package.
`triton-linear tune` makes decisions; the plugin follows them in every compile. It reads the file once for each
setting, at the first compile, and its cache keys contain a digest of the decisions.

    decisions = "" | "none" | FILE | URL "#sha256=" DIGEST

"" is the user's own file, `decisions.sqlite` in `folder()`, if it exists. `fsspec` downloads a URL once; the
copy is kept in the same folder, under its digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from triton_linear.dialect.verdicts import folder
from triton_linear.dialect.whole_files import write_whole

if TYPE_CHECKING:
    import sqlite3

NONE: Final = "none"
FILE: Final = "decisions.sqlite"

_SQLITE: Final = b"SQLite format 3"
"""How a file of SQLite begins."""
_APPLICATION: Final = 0x746C6431
"""SQLite's application id of our files: "tld1"."""
_PATIENCE: Final = 30.0
"""Seconds to wait for another process that is writing."""
_HASH: Final = "#sha256="


class DecisionError(Exception):
    """A file of decisions cannot be read or written; the message says which, and why."""


class DecisionWarning(UserWarning):
    """Decisions cannot be read, so none are followed."""


@dataclass(frozen=True, order=True)
class Circumstances:
    """What a decision holds for.

    kernel: its digest (`kernel_digest`). gpu: the GPU's name; empty without a GPU and for AMD. target: Triton's
    name of the target. triton, ptxas, package: the versions that compile the kernel.
    """

    kernel: str
    gpu: str
    target: str
    triton: str
    ptxas: str
    package: str


@dataclass(frozen=True)
class Decision:
    """The variant to compile, and its measured speed.

    ratio: stock Triton's time divided by the variant's. low, high: its 95 % interval. name: the kernel's name.
    measured: date and time (UTC, "2026-11-23 12:00:00"), so that later times compare greater.
    """

    circumstances: Circumstances
    variant: str
    name: str
    ratio: float
    low: float
    high: float
    measured: str


_KEY: Final = tuple(entry.name for entry in fields(Circumstances))
_VALUES: Final = tuple(entry.name for entry in fields(Decision))[1:]
_COLUMNS: Final = ", ".join(_KEY + _VALUES)
_TEXTS: Final = ", ".join(f"{name} TEXT NOT NULL" for name in (*_KEY, "variant", "name"))
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS decisions ({_TEXTS},
 ratio REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, measured TEXT NOT NULL,
 PRIMARY KEY ({", ".join(_KEY)}))
"""


def default_file() -> Path:
    """The user's own file, which may not exist."""
    return folder() / FILE


@dataclass(frozen=True)
class DecisionFile:
    """A file of decisions. Each call opens it anew; several processes may read and write it at once.

    All methods raise DecisionError if the file is damaged, is not of this package, or cannot be opened.
    """

    path: Path

    def read(self) -> list[Decision]:
        """All decisions, in the order of their circumstances."""
        with self._opened("ro") as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM decisions ORDER BY {', '.join(_KEY)}").fetchall()
        try:
            return list(map(_decision, rows))
        except ValueError as error:
            raise DecisionError(f"{self.path}: {error}") from error

    def put(self, decisions: Iterable[Decision]) -> None:
        """Add decisions and replace those for the same circumstances: all of them, or none if it fails."""
        marks = ", ".join("?" * len(_KEY + _VALUES))
        rows = [
            (*astuple(each.circumstances), *(getattr(each, name) for name in _VALUES)) for each in decisions
        ]
        with self._opened("rwc") as connection:
            connection.executemany(f"INSERT OR REPLACE INTO decisions ({_COLUMNS}) VALUES ({marks})", rows)

    def remove(self, circumstances: Iterable[Circumstances]) -> int:
        """Remove decisions; returns how many there were."""
        where = " AND ".join(f"{name} = ?" for name in _KEY)
        with self._opened("rw") as connection:
            return sum(
                connection.execute(f"DELETE FROM decisions WHERE {where}", astuple(each)).rowcount
                for each in circumstances
            )

    @contextlib.contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        """A transaction, which is undone if the block raises."""
        try:
            import sqlite3
        except ImportError as error:
            raise DecisionError(f"{self.path}: this Python has no SQLite: {error}") from error
        try:
            if mode == "rwc":
                self.path.parent.mkdir(parents=True, exist_ok=True)
            address = f"{self.path.absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(address, timeout=_PATIENCE, uri=True, isolation_level=None)
        except (OSError, ValueError, sqlite3.Error) as error:
            raise DecisionError(f"{self.path}: {error}") from error
        try:
            connection.execute("BEGIN" if mode == "ro" else "BEGIN IMMEDIATE")
            self._check(connection, mode)
            yield connection
            connection.execute("COMMIT")
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise DecisionError(f"{self.path}: {error}") from error
        finally:
            connection.close()

    def _check(self, connection: sqlite3.Connection, mode: str) -> None:
        """Raise DecisionError if the file is not of this package; set up a new one."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application == _APPLICATION:
            kinds = connection.execute("SELECT type FROM sqlite_master WHERE name = 'decisions'").fetchall()
            if kinds != [("table",)]:
                raise DecisionError(f"{self.path}: has no table of decisions")
            return
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application or tables or mode == "ro":
            raise DecisionError(f"{self.path}: holds no decisions of triton-linear")
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(_SCHEMA)


def _decision(values: Iterable[object]) -> Decision:
    """The decision with these values, in the order of the columns. Raises ValueError if some have other types,
    as in a file that somebody edited."""
    found = tuple(float(each) if isinstance(each, int) else each for each in values)
    texts, figures = (*found[: len(_KEY) + 2], found[-1]), found[len(_KEY) + 2 : -1]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(each, float) for each in figures):
        raise ValueError(f"no decision: {found}")
    return Decision(Circumstances(*found[: len(_KEY)]), *found[len(_KEY) :])  # type: ignore[arg-type]


def as_line(decision: Decision) -> str:
    """A decision as a line of JSON.

    Ensures: of_line(as_line(decision)) == decision.
    """
    import json

    return json.dumps(asdict(decision.circumstances) | {name: getattr(decision, name) for name in _VALUES})


def of_line(text: str) -> Decision:
    """Parse a decision from a line of JSON. Raises ValueError if the line is not a decision."""
    import json

    data = json.loads(text)
    if not isinstance(data, dict) or set(data) != {*_KEY, *_VALUES}:
        raise ValueError(f"no decision: {text}")
    return _decision(data[name] for name in (*_KEY, *_VALUES))


def decisions_in(path: Path) -> list[Decision]:
    """The decisions in a file: of this package, or of lines that `triton-linear decisions list --json` prints.

    Raises DecisionError if it is neither."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_SQLITE))
        if begins == _SQLITE:
            return DecisionFile(path).read()
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines:
            raise ValueError("no line")
        return [of_line(line) for line in lines]
    except OSError as error:
        raise DecisionError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise DecisionError(f"{path}: holds no decisions of triton-linear") from error


@dataclass(frozen=True)
class Decisions:
    """The variants to compile, by kernel, target and ptxas. digest: of these variants; empty if there are
    none."""

    variants: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    digest: str = ""

    def __bool__(self) -> bool:
        return bool(self.variants)

    def variant(self, kernel: str, target: str, ptxas: str) -> str | None:
        """The name of the variant for a kernel; None if there is no decision."""
        return self.variants.get((kernel, target, ptxas))

    @classmethod
    def among(cls, decisions: Iterable[Decision], triton: str, package: str, gpus: frozenset[str]) -> Decisions:
        """The decisions for this Triton and package that agree for all of these GPUs; if `gpus` is empty, for
        all measured GPUs. A compile does not know which GPU it is for, so it follows none if they differ."""
        found: dict[tuple[str, str, str], dict[str, str]] = {}
        for each in decisions:
            about = each.circumstances
            if (about.triton, about.package) == (triton, package):
                found.setdefault((about.kernel, about.target, about.ptxas), {})[about.gpu] = each.variant
        variants: dict[tuple[str, str, str], str] = {}
        for key, by_gpu in sorted(found.items()):
            named = gpus if key[1].startswith("cuda") else frozenset({""})
            wanted = {by_gpu.get(gpu) for gpu in named} if named else set(by_gpu.values())
            if len(wanted) == 1 and (one := wanted.pop()) is not None:
                variants[key] = one
        digest = hashlib.sha256(repr(variants).encode()).hexdigest()[:32] if variants else ""
        return cls(variants, digest)


NO_DECISIONS: Final = Decisions()


def load(place: str) -> Decisions:
    """The decisions at `place` that hold for this machine, its Triton and this version of emitted code.

    Raises DecisionError if they cannot be read. The user's own file may be missing, or in a folder without
    access: then there are no decisions.
    """
    if place == NONE:
        return NO_DECISIONS
    path = file_of(place)
    if not place and not os.path.exists(path):
        return NO_DECISIONS
    from triton_linear.dialect.sources import CODE_VERSION
    from triton_linear.dialect.triton_versions import found
    from triton_linear.gpus import gpu_names

    return Decisions.among(decisions_in(path), found() or "", CODE_VERSION, gpu_names())


def file_of(place: str) -> Path:
    """The file that `place` names, fetched if it is a URL.

    Raises DecisionError if that fails, or if the file does not have the digest in the URL.
    """
    if "://" not in place:
        return Path(place).expanduser() if place else default_file()
    address, mark, digest = place.partition(_HASH)
    if not mark or len(digest) != hashlib.sha256().digest_size * 2:
        raise DecisionError(f"{place}: a URL of decisions ends in {_HASH} and the SHA-256 of the file")
    kept = folder() / f"decisions-{digest[:16]}.sqlite"
    with contextlib.suppress(OSError):
        if hashlib.sha256(kept.read_bytes()).hexdigest() == digest:
            return kept
    content = _fetched(address)
    if hashlib.sha256(content).hexdigest() != digest:
        raise DecisionError(f"{address}: is not the file with the SHA-256 {digest}")
    try:
        write_whole(kept, content)
    except OSError as error:
        raise DecisionError(f"{kept}: {error.strerror or error}") from error
    return kept


def _fetched(address: str) -> bytes:
    """The content at a URL. Raises DecisionError for any exception: file systems of `fsspec` raise all
    kinds."""
    try:
        import fsspec
    except ImportError as error:
        raise DecisionError(f"{address}: reading it takes fsspec (pip install triton-linear[tune])") from error
    try:
        with fsspec.open(address, "rb") as file:
            return bytes(file.read())
    except Exception as error:
        raise DecisionError(f"{address}: {error}") from error


UNSEEN: Final = (
    "allow_flush_denorm",
    "enable_fp_fusion",
    "enable_reflect_ftz",
    "llvm_fn_attrs",
    "min_shared_mem",
    "ptx_options",
    "sched4reg",
    "schedule_hint",
    "waves_per_eu",
    "wgp_cu_mode",
)
"""Compile options, of all releases, that later stages follow but that do not show in TTGIR."""


def kernel_digest(ttgir: str, options: Mapping[str, object] = MappingProxyType({})) -> str:
    """The identity of a kernel: the digest of its TTGIR, and of the compile options that do not show there.

    Requires: `ttgir` has no source locations.

    >>> kernel_digest("module {}")[:16]
    'fd224b3138074712'
    >>> kernel_digest("module {}", {"num_warps": 4}) == kernel_digest("module {}")
    True
    >>> kernel_digest("module {}", {"waves_per_eu": 2}) == kernel_digest("module {}")
    False
    """
    text = ttgir + "".join(f"\n// {name} = {options[name]}" for name in UNSEEN if name in options)
    return hashlib.sha256(text.encode()).hexdigest()


def ptxas_version(target: str) -> str:
    """The version of ptxas for a target in Triton's notation, for example "12.9.86"; empty if it has no ptxas.

    >>> ptxas_version("hip:gfx942")
    ''
    """
    vendor, _, capability = target.partition(":")
    if vendor != "cuda":
        return ""
    import re

    from triton.backends.nvidia.compiler import (  # type: ignore[import-untyped, unused-ignore]
        get_ptxas_version,
    )

    said: str = get_ptxas_version(int(capability))
    version = re.search(r"\bV(\d+(?:\.\d+)+)", said)
    return version[1] if version else said.strip()
