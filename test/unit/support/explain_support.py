"""What tests of `triton-linear explain` share."""

from __future__ import annotations

import json
import re
from importlib.resources import files

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Type
from triton_linear.passes.layouts import LayoutTable

SCHEMA = json.loads(files("triton_linear.tools.explain").joinpath("schema.json").read_text())


def layout_of(type_: Type) -> LinearLayout:
    """The layout of a type that has one."""
    layout = LayoutTable().of(type_)
    assert isinstance(layout, LinearLayout)
    return layout


def shared_bytes(llvm: str) -> int:
    """Bytes of shared memory that a kernel takes, as its module in the LLVM dialect says."""
    found = re.search(r"ttg\.shared = (\d+) : i32", llvm)
    assert found is not None
    return int(found[1])
