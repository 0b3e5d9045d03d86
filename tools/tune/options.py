"""The command lines of `triton-linear tune` and `triton-linear decisions`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from triton_linear.tools.support.options import add_program
from triton_linear.variants import COMPARED, VARIANTS, in_order, variant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tune`."""
    names = ", ".join(name for name in VARIANTS if name not in COMPARED)
    parser.add_argument(
        "--decisions", type=Path, metavar="FILE", help="where decisions are kept (default: your own)"
    )
    parser.add_argument(
        "--variants",
        type=_variants,
        metavar="NAME[,NAME...]",
        default=tuple(VARIANTS),
        help=f"what is tried beside {' and '.join(COMPARED)} (default: {names})",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.5,
        help="time for the last round of a kernel, with warm caches and with empty ones (default %(default)s)",
    )
    parser.add_argument(
        "--grids", type=int, default=4, help="measure a kernel on so many grids at most (default %(default)s)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that compile (default: %(default)s, one for each core)",
    )
    parser.add_argument("--again", action="store_true", help="forget what an interrupted run has measured")
    parser.add_argument(
        "--check",
        action="store_true",
        help="measure again, decide nothing, and say which decisions do not hold",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    add_program(parser)


def _variants(text: str) -> tuple[str, ...]:
    names = [_variant(name.strip()) for name in text.split(",") if name.strip()]
    return tuple(in_order((*COMPARED, *names)))


def _variant(text: str) -> str:
    try:
        return variant(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `decisions`."""
    parser.add_argument("--file", type=Path, metavar="FILE", help="the file of decisions (default: your own)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")

    listed = action("list", "print all decisions")
    listed.add_argument("--json", action="store_true", help="print them as JSON, one to a line")
    written = action("export", "write all decisions to a file of JSON, one to a line")
    written.add_argument("to", type=Path, metavar="FILE")
    read = action(
        "import", "add decisions that were exported elsewhere; of two for the same, the later one counts"
    )
    read.add_argument("exported", type=Path, nargs="+", metavar="FILE")
    forgotten = action("forget", "remove decisions about kernels whose name matches a pattern")
    forgotten.add_argument("pattern", metavar="PATTERN")
    by_hand = action("set", "decide by hand about the kernels of a TTGIR file")
    by_hand.add_argument("ttgir", metavar="FILE")
    by_hand.add_argument(
        "variant",
        type=_variant,
        metavar="VARIANT",
        help=f"{', '.join(VARIANTS)}; + combines those that change different things, as in second+bounded",
    )
    by_hand.add_argument(
        "--gpu", help="what the GPU is called, as 'NVIDIA H200' (default: what this machine has)"
    )
