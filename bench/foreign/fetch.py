"""Downloads the packages, pinned by hash, and packs the Python files that are needed into one archive.

    python -m bench.foreign.fetch [--output FILE]

Prints what each takes. The archive goes to .gpu/, which git ignores.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ..harness.options import Parser
from .packages import Package, kept
from .suite import FOREIGN, Suite

MOST_BYTES = 8 << 20
PLATFORMS = ("any", "manylinux_2_24_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64")


def download(packages: Sequence[Package], folder: Path) -> None:
    """Wheels of the pinned versions. Raises SystemExit where pip finds another hash, or nothing."""
    pins = folder / "requirements.txt"
    pins.write_text("".join(f"{p.name}=={p.version} --hash=sha256:{p.sha256}\n" for p in packages))
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--python-version=3.12", "--implementation=cp", "-d", str(folder)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    if subprocess.run([*command, "-r", str(pins)], check=False).returncode:
        raise SystemExit("fetch: pip did not download the packages")


def wheel_of(package: Package, folder: Path) -> Path:
    """The wheel of a package that was downloaded."""
    stem = package.name.replace("-", "_")
    found = [
        path for path in folder.glob("*.whl") if path.name.lower().startswith(f"{stem}-{package.version}-")
    ]
    if len(found) != 1:
        raise SystemExit(f"fetch: {len(found)} wheels of {package.name} {package.version}, not one")
    return found[0]


def pack(packages: Sequence[Package], folder: Path, output: Path) -> None:
    """The archive. The same wheels give the same bytes."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(output, "w:xz", preset=9) as archive:
        for package in packages:
            size = files = 0
            with zipfile.ZipFile(wheel_of(package, folder)) as wheel:
                for name in sorted(wheel.namelist()):
                    if kept(package, name):
                        content = wheel.read(name)
                        entry = tarfile.TarInfo(name)
                        entry.size = len(content)
                        archive.addfile(entry, io.BytesIO(content))
                        size, files = size + len(content), files + 1
            print(f"{package.name:24} {package.version:12} {files:5} files {size / 1024:8.0f} KiB")
    taken = output.stat().st_size
    print(f"{output}: {taken / 1024:.0f} KiB")
    if taken > MOST_BYTES:
        raise SystemExit(f"fetch: that is more than {MOST_BYTES >> 20} MiB")


def main(suite: Suite = FOREIGN, argv: Sequence[str] | None = None) -> int:
    """Download and pack."""
    options = Parser(f"{suite.name}.fetch", __doc__, whole=True).output(suite.archive).parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        download(suite.packages, Path(folder))
        pack(suite.packages, Path(folder), options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
