"""Files, and the inputs of commands: standard input, folders of modules, and the kernels of a script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from triton_linear.tools.support.errors import fail


def read_input(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    shown = display_name(name)
    try:
        if name != "-":
            data = Path(name).read_bytes()
        elif sys.stdin is None:  # it was closed when Python started
            fail("cannot open input file: it is closed", shown)
        else:
            data = sys.stdin.buffer.read()
    except OSError as error:
        fail(f"cannot open input file: {error.strerror}", shown)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
        fail("input file is not UTF-8 text", shown, line, column)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write(name: str, content: bytes) -> None:
    """Write a file, or to standard output for `-`. Fails if that is not possible."""
    if name == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        Path(name).write_bytes(content)
    except OSError as error:
        fail(f"cannot open output file: {error.strerror}", name)


def display_name(name: str) -> str:
    """The name of an input file in diagnostics; bytes that are not UTF-8 are escaped."""
    return "<stdin>" if name == "-" else name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def modules(what: str, arguments: Sequence[str] = (), target: str | None = None) -> Iterator[tuple[str, str]]:
    """The name and the text of each module in an input. A script is run with an empty cache, which is then
    read; with a `target`, its launches compile for that GPU and launch nothing.

    Fails if there is no module, or if a script compiles for another GPU, which it can only by naming it.
    """
    is_empty = True
    for module in _modules(what, arguments, target):
        is_empty = False
        yield module
    if is_empty:
        fail(
            "the script compiled no kernel" if Path(what).suffix == ".py" else "no TTGIR module was found", what
        )


def _modules(what: str, arguments: Sequence[str], target: str | None) -> Iterator[tuple[str, str]]:
    path = Path(what)
    if what != "-" and path.suffix != ".py" and arguments:
        fail(f"arguments are for a script: {' '.join(arguments)}")
    if not what:
        fail("cannot open input file '': No such file or directory")
    if what == "-":
        yield display_name(what), read_input(what)
    elif path.is_dir():
        yield from _in_folder(path)
    elif path.suffix == ".py":
        with tempfile.TemporaryDirectory(prefix="triton-linear-") as cache:
            status = _run_script(path, arguments, target, cache)
            for name, text in _in_folder(Path(cache)):
                own = re.search(r'"?ttg\.target"? = "([^"]*)"', text)
                if target and own and own[1] != target.partition("{")[0]:
                    kernel = Path(name).stem
                    fail(
                        f"the script itself names {own[1]} for {kernel}: leave --target={target} out, "
                        "or name that GPU in the script",
                        str(path),
                    )
                yield Path(name).name, text
        if status:
            hint = "; if it launches kernels, and no GPU is here, say --target" if target is None else ""
            fail(f"the script ended with status {status}{hint}", str(path))
    else:
        yield display_name(what), read_input(what)


def _in_folder(folder: Path) -> Iterator[tuple[str, str]]:
    """The modules in a folder, sorted by name, without duplicates."""
    seen: set[str] = set()
    for file in sorted(folder.rglob("*.ttgir"), key=lambda file: (file.name, str(file))):
        text = read_input(str(file))
        if text not in seen:
            seen.add(text)
            yield str(file), text


def _run_script(path: Path, arguments: Sequence[str], target: str | None, cache: str) -> int:
    """Run a script with an empty cache and return its exit status; its output goes to standard error."""
    if not path.is_file():
        fail("cannot open input file: No such file or directory", str(path))
    environment = {**os.environ, "TRITON_CACHE_DIR": cache}
    sys.stdout.flush()
    sys.stderr.flush()
    runner = [] if target is None else ["-m", "triton_linear.tools.support.script", target]
    command = [sys.executable, *runner, os.path.abspath(path), *arguments]
    return subprocess.run(command, env=environment, stdout=2, check=False).returncode


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Have an environment variable in the block, also in processes that are started there."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def empty_cache() -> Iterator[None]:
    """Use an empty folder as Triton's cache in the block, so that every kernel is compiled."""
    with tempfile.TemporaryDirectory() as folder, variable("TRITON_CACHE_DIR", folder):
        yield
