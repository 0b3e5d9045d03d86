"""The command line of `triton-linear view`; it imports only what loads fast."""

from __future__ import annotations

import argparse
from pathlib import Path

RUN = "view.command"
FORMATS = ("text", "svg", "html")
VIEWS = ("tensor", "hardware", "memory", "matrix")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `view`."""
    parser.add_argument(
        "what",
        metavar="WHAT",
        help="an encoding ('#ttg.blocked<...>'), a Gluon layout ('BlockedLayout([1, 4], ...)'), "
        "FILE:LINE of a TTGIR module, whose conversion is shown if the line has one, or SCRIPT.py:LINE or "
        "SCRIPT.py:KERNEL:LINE: the script is run, and what the line compiles to is shown",
    )
    parser.add_argument(
        "--to", metavar="WHAT", help="a second layout: where the first is converted or stored to"
    )
    parser.add_argument("--shape", metavar="RxC", help="sizes of the tensor, as 64x32")
    parser.add_argument("--type", default="f32", dest="element", help="element type (default %(default)s)")
    parser.add_argument("--target", default="cuda:90", help="GPU, for banks and costs (default %(default)s)")
    parser.add_argument("--format", choices=FORMATS, help="default: that of the output file's name, or text")
    parser.add_argument(
        "--view", choices=VIEWS, help="only this one (default: all that there are; of pictures the first)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: the standard output")
