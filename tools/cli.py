"""`triton-linear`: explain, diff, view, verify, tune, decisions, pack, status, doctor."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from triton_linear import __version__
from triton_linear.tools.support.errors import Printer, guarded, supervised

COMMANDS = {
    "explain": ("explain.options", "say why each conversion is there, how it is done and what it costs"),
    "diff": ("diff.options", "show two compiles of each kernel, and what differs on which line"),
    "view": ("view.options", "draw a layout or a conversion, as text, picture or page"),
    "verify": ("verify.options", "compile a TTGIR module and run all code of this package in it"),
    "tune": ("tune.options", "measure variants of a program's kernels on this GPU, and keep which is fastest"),
    "decisions": ("tune.file_command", "list, move or forget what `tune` has decided"),
    "pack": ("pack", "write the kernels of a warm cache into one archive, or put them into another cache"),
    "status": (
        "status",
        "say what is installed and on, and what became of the kernels in a file of reports",
    ),
    "doctor": ("doctor.options", "try out a Triton that is no tested release, and keep what is found"),
}
"""For each command the module of `tools` that adds its arguments and names, as `RUN`, the module whose function
`run` carries it out; and a summary."""


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    top = argparse.ArgumentParser(
        prog="triton-linear",
        description="Layout conversions of Triton kernels, planned and lowered in Python.",
        epilog="triton-linear-opt runs passes over a module and prints any stage.",
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (place, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        options = importlib.import_module(f"triton_linear.tools.{place}")
        options.add_arguments(command)
        command.set_defaults(run=options.RUN, parser=command)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run `triton-linear`; the exit status is 1 if something is wrong, 2 for a wrong command line."""
    arguments, rest = parser().parse_known_args(argv)
    if rest:
        arguments.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    printer = Printer()
    arguments.sources = printer.sources

    def run() -> int:
        status: int = importlib.import_module(f"triton_linear.tools.{arguments.run}").run(arguments)
        return status

    def guarded_run() -> int:
        return guarded(run, printer)

    return supervised(guarded_run) if argv is None else guarded_run()


if __name__ == "__main__":
    sys.exit(main())
