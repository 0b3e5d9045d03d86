"""What tests of `triton-linear explain` share."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Type
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.tools import cli

SCHEMA = json.loads(files("triton_linear.tools.explain").joinpath("schema.json").read_text())


def layout_of(type_: Type) -> LinearLayout:
    """The layout of a type that has one."""
    layout = LayoutTable().of(type_)
    assert isinstance(layout, LinearLayout)
    return layout


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Status, output and diagnostics of the command."""
    status = cli.main(["explain", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def shared_bytes(llvm: str) -> int:
    """Bytes of shared memory that a kernel takes, as its module in the LLVM dialect says."""
    found = re.search(r"ttg\.shared = (\d+) : i32", llvm)
    assert found is not None
    return int(found[1])


SCRIPT = """
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def transpose(source, destination, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(destination + i * N + j, tl.load(source + i * N + j).trans())

signature = {"source": "*fp16", "destination": "*fp16", "N": "constexpr"}
for size in map(int, sys.argv[1:]):
    source = ASTSource(transpose, signature, constexprs={"N": size})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
print("said by the script")
sys.exit(len(sys.argv) > 3)
"""
