"""`triton-linear pack` and `unpack`: the compiled kernels of a warm cache, and what is decided about them, as
one archive for other machines of the same kind.

    archive = tar.gz of manifest.json and the files of Triton's cache folder, this package's own folder in it
    included manifest = GPUs, versions, and the SHA-256 of each file

Triton's index of a kernel (`__grp__NAME.json`) names its files by absolute paths; in the archive it has their
names alone, and `unpack` writes the paths of the folder where they are then.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from triton_linear.decisions import DecisionFile, default_file, gpu_names, of_line
from triton_linear.dialect.sources import source_digest
from triton_linear.dialect.store import write_whole
from triton_linear.dialect.triton_versions import found as installed
from triton_linear.tools.decisions import put_later
from triton_linear.tools.support.errors import fail

_MANIFEST: Final = "manifest.json"
_DECISIONS: Final = "decisions.jsonl"
_INDEX: Final = "__grp__"
"""How the name of Triton's index of a kernel's files begins."""
_CHILDREN: Final = "child_paths"


def run(chosen: argparse.Namespace) -> int:
    """Write the archive, or unpack it."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    folder = Path(chosen.cache or knobs.cache.dir)
    return unpack(folder, chosen.file) if chosen.unpack else pack(folder, chosen.file)


def pack(folder: Path, to: Path) -> int:
    """Write the archive of a cache folder."""
    files = dict(_files(folder)) if folder.is_dir() else {}
    if not files:
        fail("has no compiled kernels", str(folder))
    own = default_file()
    if own.exists():
        files[_DECISIONS] = own.read_bytes()
    manifest = {**_here(), "files": {name: _digest(data) for name, data in files.items()}}
    text = json.dumps(manifest, indent=1).encode()
    try:
        with tarfile.open(to, "w:gz") as archive:
            for name, data in {_MANIFEST: text, **files}.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o644
                archive.addfile(member, io.BytesIO(data))
    except OSError as error:
        fail(f"cannot write: {error.strerror}", str(to))
    print(f"{_kernels(files)} kernels, {to.stat().st_size / 2**20:.1f} MiB, packed into {to}")
    return 0


def unpack(folder: Path, archive: Path) -> int:
    """Put what an archive has into Triton's cache folder. What is there already stays."""
    files = _read(archive)
    decisions = files.pop(_DECISIONS, b"").decode()
    written = 0
    for name, data in files.items():
        path = folder / name
        if not path.exists():
            try:
                write_whole(path, _placed(path, data, partial(os.path.join, path.parent)))
            except OSError as error:
                fail(f"cannot write: {error.strerror}", str(path))
            written += 1
    if decisions:
        put_later(DecisionFile(default_file()), map(of_line, decisions.splitlines()))
    print(f"{_kernels(files)} kernels in {folder}; {written} of {len(files)} files were not there")
    return 0


def _here() -> dict[str, Any]:
    """What an archive is for."""
    return {"gpus": sorted(gpu_names()), "triton": installed() or "", "package": source_digest()}


_SAYS: Final = {"gpus": "GPU", "triton": "Triton", "package": "source of this package"}


def _kernels(files: Mapping[str, bytes]) -> int:
    return sum(PurePosixPath(name).name.startswith(_INDEX) for name in files)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a cache, with the names that they have in an archive."""
    for path in sorted(folder.rglob("*")):
        temporary = ".tmp." in path.name or path.name.startswith(".") or path.parent.name.startswith("tmp.")
        if not path.is_file() or path.name == "lock" or temporary:
            continue
        yield path.relative_to(folder).as_posix(), _placed(path, path.read_bytes(), os.path.basename)


def _placed(path: Path, data: bytes, place: Callable[[str], str]) -> bytes:
    """The content of a file of a cache; an index of a kernel's files with those `place` in place of theirs."""
    if not path.name.startswith(_INDEX):
        return data
    index = json.loads(data)
    places = {name: place(file) for name, file in index[_CHILDREN].items()}
    return json.dumps({**index, _CHILDREN: places}).encode()


def _read(path: Path) -> dict[str, bytes]:
    """The files of an archive for this machine. Fails if it is for another one, or is damaged."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            found = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
            files = {name: data.read() for name, data in found.items() if data is not None}
        manifest = json.loads(files.pop(_MANIFEST))
        wanted, digests = {name: manifest[name] for name in _SAYS}, dict(manifest["files"])
    except OSError as error:
        fail(f"cannot open: {error.strerror or error}", str(path))
    except (tarfile.TarError, EOFError, KeyError, ValueError, TypeError):
        fail("is no archive of triton-linear pack", str(path))
    for name, value in _here().items():
        if value != wanted[name]:
            fail(f"is for {_SAYS[name]} {_said(wanted[name])}; here is {_said(value)}", str(path))
    if digests != {name: _digest(data) for name, data in files.items()} or not all(map(_is_inside, files)):
        fail("is damaged: a file does not have the SHA-256 of the manifest", str(path))
    return files


def _said(value: str | list[str]) -> str:
    text = ", ".join(value) if isinstance(value, list) else value
    return text[:40] or "none"


def _is_inside(name: str) -> bool:
    """True if a name stays within the folder that it is put into."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
