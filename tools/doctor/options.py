"""The options of `triton-linear doctor`, without slow imports."""

from __future__ import annotations

import argparse
import os

RUN = "doctor.command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `doctor`."""
    parser.epilog = (
        "A verdict is kept for this libtriton and these sources. Where nothing differs, the plugin may be "
        "turned on as for a tested release; else the first case of each kind is printed, and the status is 1."
    )
    option = parser.add_argument
    option("--quick", action="store_true", help="try few cases of everything")
    option("--forget", action="store_true", help="remove what was found out about this Triton, and try nothing")
    option(
        "--probe",
        action="append",
        metavar="NAME",
        help="ask this one alone, and keep no verdict; may be given several times",
    )
    option("--seed", type=int, default=1, help="what to draw cases from (default %(default)s)")
    option(
        "--jobs",
        type=int,
        default=max(1, min(4, os.cpu_count() or 1)),
        metavar="N",
        help="processes (default: one for each processor, four at most)",
    )
