"""`triton-linear`: verify, explain, diff, view, demo, tune, decisions, pack, unpack, report, doctor, opt,
version."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

from triton_linear import __version__
from triton_linear.tools.support.errors import Printer, guarded, supervised
from triton_linear.tools.support.options import add_pipeline_options, pipeline_options

Command = Callable[[argparse.Namespace], int]


def _verify(arguments: argparse.Namespace) -> int:
    from triton_linear.tools.support.inputs import modules
    from triton_linear.tools.verify.command import verify_modules
    from triton_linear.tools.verify.stock import verify_stock

    named_texts = modules(arguments.file, arguments.arguments, arguments.target)
    if arguments.lowering != "stock":
        options = pipeline_options(arguments)
        return verify_modules(named_texts, arguments.target, arguments.json, options, arguments.sources)
    status = 0
    for name, text in named_texts:
        arguments.sources[name] = text
        status |= verify_stock(text, name, arguments.target, arguments.json)
    return status


def _run_of(module: str) -> Command:
    """The function `run` of a module of `tools`, which is imported when it is called."""
    return lambda arguments: importlib.import_module(f"triton_linear.tools.{module}").run(arguments)


def _demo(arguments: argparse.Namespace) -> int:
    from triton_linear.dialect import triton_versions

    triton_versions.require()
    from triton_linear.tools import demo

    return demo.main(arguments.rest)


def _opt(arguments: argparse.Namespace) -> int:
    from triton_linear.tools.opt import command as opt

    return opt.main(arguments.rest)


def _version(arguments: argparse.Namespace) -> int:
    from triton_linear.tools import version

    return version.main()


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    top = argparse.ArgumentParser(
        prog="triton-linear", description="Layout conversions of Triton kernels, planned and lowered in Python."
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, summary: str, run: Command | None = None, module: str = "", own_help: bool = False
    ) -> argparse.ArgumentParser:
        """`run`: what runs the command; by default the function of that name in a module of `tools`, which is
        the command's own unless `module` names another."""
        description = summary[0].upper() + summary[1:] + "."
        sub = commands.add_parser(name, help=summary, description=description, add_help=not own_help)
        sub.set_defaults(run=run or _run_of(module or f"{name}.command"), parser=sub)
        return sub

    verify = command("verify", "compile a TTGIR module and run all code of this package in it", _verify)
    verify.add_argument(
        "file",
        metavar="WHAT",
        help="a .ttgir or .mlir file, - for the standard input, a folder of them, or a Python script, which is "
        "run, and whose kernels are verified",
    )
    verify.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="arguments of the script")
    verify.add_argument("--target", help="cuda:NUMBER or hip:gfxNAME; by default what the module says")
    verify.add_argument(
        "--lowering",
        choices=("ours", "stock"),
        default="ours",
        help="which code to run: that of this package, or what Triton itself emits (default %(default)s)",
    )
    verify.add_argument("--json", action="store_true", help="print the results as JSON")
    add_pipeline_options(verify)

    from triton_linear.tools.diff import options as diff
    from triton_linear.tools.explain import options as explain
    from triton_linear.tools.view import options as view

    explain.add_arguments(
        command("explain", "say why each conversion is there, how it is done and what it costs")
    )

    diff.add_arguments(command("diff", "show two compiles of one kernel, and where they began to differ"))

    view.add_arguments(command("view", "draw a layout or a conversion, as text, picture or page"))

    command("demo", "compile the example kernels and show each conversion", _demo, own_help=True)

    from triton_linear.tools.tune import options as tune

    tune.add_arguments(
        command("tune", "measure variants of a program's kernels on this GPU, and keep which is fastest")
    )
    tune.add_file_arguments(
        command("decisions", "list, move or change what `tune` has decided", module="tune.file_command")
    )

    from triton_linear.tools import pack

    pack.add_arguments(command("pack", "write the kernels of a warm cache into one archive", pack.pack))
    pack.add_arguments(command("unpack", "put the kernels of an archive into Triton's cache", pack.unpack))

    from triton_linear.tools import report

    report.add_arguments(command("report", "sum up a file of reports, kernel by kernel", module="report"))

    from triton_linear.tools.doctor import options as doctor

    doctor.add_arguments(
        command("doctor", "try out a Triton that is no tested release, and keep what is found")
    )

    command("opt", "run passes over a module and print any stage: triton-linear-opt", _opt, own_help=True)

    command("version", "print what is installed, and which passes do their work with this Triton", _version)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run `triton-linear`; the exit status is 1 if something is wrong, 2 for a wrong command line."""
    top = parser()
    arguments, rest = top.parse_known_args(argv)
    arguments.rest = rest
    if arguments.rest and arguments.run not in (_demo, _opt):
        arguments.parser.error(f"unrecognized arguments: {' '.join(arguments.rest)}")
    printer = Printer()
    arguments.sources = printer.sources

    def run() -> int:
        return guarded(lambda: arguments.run(arguments), printer)

    return supervised(run) if argv is None else run()


if __name__ == "__main__":
    sys.exit(main())
