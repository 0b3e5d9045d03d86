"""`triton-linear version`: print the installed versions, whether they are supported, and what the passes do."""

from __future__ import annotations

import importlib.metadata

from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear import __version__
from triton_linear.dialect import mlir_provider, triton_versions, verdicts
from triton_linear.tools.support.console import opened, show

_COLOURS = {"on": "green", "partly": "yellow"}


def main() -> int:
    """Run the command. The exit status is always 0."""
    print(f"triton-linear {__version__}")
    print(triton_line())
    print(mlir_line())
    if refused() is None:
        try:
            from triton_linear.passes.coverage import coverage
        except triton_versions.UnsupportedMLIR:  # `mlir_line` has printed the reason
            return 0
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for name in ("pass", "is", "what it does, and what it does not with this Triton"):
            table.add_column(name, no_wrap=name != "what it does, and what it does not with this Triton")
        for entry in coverage(triton_versions.installed_release()):
            lines = [entry.summary, *(f"- {limit}" for limit in entry.limits)]
            table.add_row(entry.name, Text(entry.state, _COLOURS[entry.state]), "\n".join(lines))
        print(flush=True)
        show(opened(), table)
    return 0


def refused() -> str | None:
    """The reason why the plugin does not work with the installed Triton; None if it works."""
    try:
        triton_versions.require()
    except triton_versions.UnsupportedTriton as error:
        return str(error)
    return None


def triton_line() -> str:
    """The line about Triton: the version that the module states, its folder, and whether it is supported."""
    version = triton_versions.found()
    place = verdicts.libtriton()
    triton = f"triton {version}" + ("" if place is None else f" in {place.parents[1]}")
    if version in triton_versions.TESTED:
        return f"{triton}: a tested release"
    if reason := refused():
        return f"triton: refused: {reason}"
    rules = ".".join(map(str, triton_versions.installed_release()))
    verdict = verdicts.kept()
    quickly = ", run quickly," if verdict is not None and verdict.quick else ""
    return f"{triton}: no tested release; by 'triton-linear doctor'{quickly} it keeps to the rules of {rules}"


def mlir_line() -> str:
    """The line about MLIR's bindings: their version, or why they cannot be used."""
    versions = []
    for name in mlir_provider.PROVIDERS:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        import triton_linear.dialect.mlir_adapter  # noqa: F401
    except triton_versions.UnsupportedMLIR as error:
        return f"mlir: refused: {error}"
    return f"mlir: {', '.join(versions) or 'of no known package'}"
