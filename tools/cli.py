"""`triton-linear`: verify, demo, fuzz, headroom, version."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from triton_linear import __version__
from triton_linear.tools.errors import Printer, fail, guarded, supervised

Command = Callable[[argparse.Namespace], int]


def read_input(name: str) -> str:
    """The text of a file, or of the standard input for `-`."""
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"cannot open input file: {error.strerror}", name)
    except UnicodeDecodeError:
        fail("input file is not UTF-8 text", name)


def display_name(name: str) -> str:
    """How diagnostics call an input file."""
    return "<stdin>" if name == "-" else name


def _verify(arguments: argparse.Namespace) -> int:
    from triton_linear.tools.verify import verify_text

    text = read_input(arguments.file)
    name = display_name(arguments.file)
    arguments.sources[name] = text
    return verify_text(text, name, arguments.target, arguments.json)


def _demo(arguments: argparse.Namespace) -> int:
    from triton_linear.tools import demo

    status: int | None = demo.main(arguments.rest)
    return status or 0


def _fuzz(arguments: argparse.Namespace) -> int:
    from triton_linear.tools.fuzz import main as fuzz

    return fuzz(arguments.target, arguments.count, arguments.seed, arguments.assembly, arguments.save)


def _headroom(arguments: argparse.Namespace) -> int:
    from triton_linear.tools.headroom import run

    return run(arguments)


def _version(arguments: argparse.Namespace) -> int:
    for name in ("triton-linear", "triton", "xtc-mlir-python-bindings"):
        print(name, version(name))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="triton-linear", description="Layout conversions of Triton kernels, planned and lowered in Python."
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Command, summary: str, own_help: bool = False) -> argparse.ArgumentParser:
        description = summary[0].upper() + summary[1:] + "."
        sub = commands.add_parser(name, help=summary, description=description, add_help=not own_help)
        sub.set_defaults(run=run, parser=sub)
        return sub

    verify = command("verify", _verify, "compile a TTGIR module and run the code of each of its conversions")
    verify.add_argument("file", metavar="FILE", help="a .ttgir or .mlir file, or - for the standard input")
    verify.add_argument("--target", help="cuda:NUMBER or hip:gfxNAME; by default what the module says")
    verify.add_argument("--json", action="store_true", help="print the results as JSON")

    command("demo", _demo, "compile the example kernels and show each conversion", own_help=True)

    fuzz = command("fuzz", _fuzz, "verify conversions between random layouts")
    fuzz.add_argument("--count", type=int, default=2000, help="pairs of layouts (default %(default)s)")
    fuzz.add_argument("--seed", type=int, default=1, help="what to draw them from (default %(default)s)")
    fuzz.add_argument("--target", default="cuda:90", help="GPU to compile for (default %(default)s)")
    fuzz.add_argument(
        "--assembly",
        type=int,
        default=4,
        metavar="N",
        help="take every N-th module on to PTX or AMDGCN; 0: none (default %(default)s)",
    )
    fuzz.add_argument(
        "--save", type=Path, metavar="FOLDER", help="write the modules there, as input of `verify`"
    )

    from triton_linear.tools import headroom

    headroom.add_arguments(
        command("headroom", _headroom, "measure what the layout conversions of a program cost on this GPU")
    )

    command("version", _version, "print the versions of this project, Triton and the MLIR bindings")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run `triton-linear`; the exit status is 1 where something is wrong, 2 for a wrong command line."""
    top = parser()
    arguments, rest = top.parse_known_args(argv)
    arguments.rest = rest
    if arguments.rest and arguments.run is not _demo:
        arguments.parser.error(f"unrecognized arguments: {' '.join(arguments.rest)}")
    printer = Printer()
    arguments.sources = printer.sources

    def run() -> int:
        return guarded(lambda: arguments.run(arguments), printer)

    return supervised(run) if argv is None else run()


if __name__ == "__main__":
    sys.exit(main())
