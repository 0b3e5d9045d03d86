"""The command line of `triton-linear verify`, without slow imports."""

from __future__ import annotations

import argparse

from triton_linear.tools.support.options import add_modules, add_pipeline_options

RUN = "verify.command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `verify`."""
    add_modules(parser)
    parser.add_argument(
        "--lowering",
        choices=("ours", "stock"),
        default="ours",
        help="which code to run: that of this package, or what Triton itself emits (default %(default)s)",
    )
    add_pipeline_options(parser)
