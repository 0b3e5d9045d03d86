"""The tables there are, in the order of the report."""

from __future__ import annotations

import importlib

from .table import Table

NAMES = ("widths", "reductions", "mixed", "mxfp4", "shuffles", "kernels")


def table(name: str) -> Table:
    """The table `name`, imported only now: a module of this package, or by its whole name any other."""
    module = importlib.import_module(name if "." in name else f"{__package__}.{name}")
    found: Table = module.TABLE
    return found
