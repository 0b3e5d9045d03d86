"""The command line of `triton-linear tune`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from triton_linear.tools.support.options import add_program
from triton_linear.variants import COMPARED, VARIANTS, variant

RUN = "tune.command"


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
    add_program(parser)


def _variants(text: str) -> tuple[str, ...]:
    names = [_variant(name.strip()) for name in text.split(",") if name.strip()]
    return tuple(in_order((*COMPARED, *names)))


def _variant(text: str) -> str:
    try:
        return variant(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def in_order(names: Iterable[str]) -> list[str]:
    """Names of variants in the order of `VARIANTS`.

    >>> in_order({"lower", "ours"})
    ['ours', 'lower']
    """
    wanted = set(names)
    return [name for name in VARIANTS if name in wanted]
