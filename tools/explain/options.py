"""The command line of `triton-linear explain`, without slow imports."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_linear.tools.support.options import add_modules, add_pipeline_options

RUN = "explain.command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    add_modules(parser)
    parser.add_argument(
        "--top", type=int, metavar="N", help="only the N most expensive conversions of each kernel"
    )
    parser.add_argument(
        "--stock",
        action="store_true",
        help="say beside each conversion what stock Triton emits for it, each run in a process of its own",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="run the script on the GPU again, and say how long its kernels take with stock Triton, with "
        "ours and if conversions were free",
    )
    parser.add_argument(
        "--pack",
        action="store_true",
        help="say only in which order packed weights should lie in memory, so that loops exchange nothing",
    )
    parser.add_argument("--json", action="store_true", help="print the reports as JSON (docs/explain.md)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page as well")
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with status 1 if it holds, as 'shared conversions in loops > 0'; may be given several times",
    )
    add_pipeline_options(parser)
