"""The command line of `triton-linear diff`, without slow imports."""

from __future__ import annotations

import argparse

RUN = "diff.command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `diff`."""
    parser.usage = "%(prog)s WHAT [WHAT] [A=WORDS] [B=WORDS] [ARGUMENT ...] [OPTION ...]"
    parser.add_argument(
        "subjects",
        nargs="+",
        metavar="WHAT",
        help="one or two modules (.ttgir, .mlir), folders of them such as Triton's cache, or scripts, with "
        "arguments behind. A=WORDS and B=WORDS say how a side is compiled: stock, ours, or options as in "
        "TRITON_LINEAR, with commas between. Of one subject without words, A is stock Triton and B has the "
        "plugin; two are compiled by stock Triton",
    )
    parser.add_argument("--target", help="cuda:NUMBER or hip:gfxNAME; by default what a module or the GPU says")
    parser.add_argument("--all", action="store_true", help="show every line that differs, not the first few")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON (docs/diff.md)")
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with status 1 where B is worse, as 'registers > 8', 'spills', 'shared', 'occupancy', "
        "'width', 'conversions' or 'clocks', or another 'code'; may be given several times",
    )
