"""Options that several commands share."""

from __future__ import annotations

import argparse

from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.errors import fail


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's options to a command."""
    group = parser.add_argument_group("the pipeline", "By default all is done that the plugin does.")
    group.add_argument("--no-assign", dest="assign", action="store_false", help="leave layouts as they are")
    group.add_argument(
        "--no-reductions",
        dest="reductions",
        action="store_false",
        help="leave reductions across warps to Triton",
    )
    group.add_argument(
        "--no-lower", dest="lower", action="store_false", help="leave all conversions and gathers to Triton"
    )
    group.add_argument(
        "--exact", action="store_true", help="give the bits that stock Triton gives, sums of floats included"
    )
    group.add_argument(
        "--scratch-limit",
        type=int,
        metavar="BYTES",
        help="most shared memory that one conversion may use as scratch; by default the target's limit",
    )


def add_modules(parser: argparse.ArgumentParser) -> None:
    """Add what names the modules that a command reads, and their target."""
    parser.add_argument(
        "what",
        metavar="WHAT",
        help="a .ttgir or .mlir file, - for the standard input, a folder of them such as Triton's cache, or a "
        "Python script, which is run, and whose kernels are taken",
    )
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="arguments of the script")
    parser.add_argument(
        "--target",
        help="cuda:NUMBER or hip:gfxNAME, for which launches of a script compile; by default what each module "
        "says",
    )


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add what names the program that a command runs, and its arguments."""
    parser.usage = "%(prog)s [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="Python program that runs kernels on a GPU")
    rest = parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of the script"
    )
    rest.required = False


def pipeline_options(arguments: argparse.Namespace) -> PipelineOptions:
    """The pipeline's options of a parsed command line."""
    limit = arguments.scratch_limit
    if limit is not None and limit < 0:
        fail(f"scratch-limit: {limit} is negative")
    return PipelineOptions(
        arguments.assign, arguments.reductions, arguments.lower, scratch_limit=limit, exact=arguments.exact
    )
