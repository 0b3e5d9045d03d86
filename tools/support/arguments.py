"""The command lines of `triton-linear`: the arguments of each command, without slow imports."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from triton_linear import __version__
from triton_linear.dialect.nearest import missing, suggestion
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.errors import fail
from triton_linear.variants import COMPARED, VARIANTS

VIEWS = ("tensor", "hardware", "memory", "matrix")
_WRONG_CHOICE = "invalid choice: "
_UNKNOWN = "unrecognized arguments: "


class Parser(argparse.ArgumentParser):
    """A parser that answers a wrong word by one line, with the right word that is nearest."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        quote = "'"
        where, wrong, rest = message.partition(_WRONG_CHOICE)
        if wrong:
            given, _, known = rest.partition(" (choose from ")
            names = [word.strip(" '") for word in known.rstrip(")").split(",")]
            message = f"{where.removeprefix('argument ')}{missing(given.strip(quote), names)}"
        elif message.startswith(_UNKNOWN):
            message = self.unknown(message.removeprefix(_UNKNOWN).split()[0].partition("=")[0])
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        self.exit(2)

    def unknown(self, word: str) -> str:
        """The message about a word that the command does not take."""
        options = [name for action in self._actions for name in action.option_strings]
        if not word.startswith("-"):
            return f"there is no place for '{word}'"
        return f"no option '{word}'; {suggestion(word, options) or '--help lists them'}"


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's options to a command."""
    group = parser.add_argument_group("the pipeline", "By default all is done that the plugin does.")
    for name, left in (
        ("assign", "leave layouts as they are"),
        ("reductions", "leave reductions across warps to Triton"),
        ("lower", "leave all conversions and gathers to Triton"),
    ):
        group.add_argument(f"--no-{name}", dest=name, action="store_false", help=left)
    group.add_argument(
        "--exact", action="store_true", help="give the bits that stock Triton gives, sums of floats included"
    )
    group.add_argument(
        "--scratch-limit",
        type=int,
        metavar="BYTES",
        help="most shared memory that one conversion may use as scratch; by default the target's limit",
    )


def pipeline_options(arguments: argparse.Namespace) -> PipelineOptions:
    """The pipeline's options of a parsed command line."""
    limit = arguments.scratch_limit
    if limit is not None and limit < 0:
        fail(f"scratch-limit: {limit} is negative")
    return PipelineOptions(
        arguments.assign, arguments.reductions, arguments.lower, scratch_limit=limit, exact=arguments.exact
    )


def _modules(parser: argparse.ArgumentParser) -> None:
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


def _conditions(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page as well")
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help=f"exit with status 1 {help_text}; may be given several times",
    )


def _explain(parser: argparse.ArgumentParser) -> None:
    _modules(parser)
    option = parser.add_argument
    option(
        "--stock",
        action="store_true",
        help="say beside each conversion what stock Triton emits for it, each run in a process of its own",
    )
    option(
        "--measure",
        action="store_true",
        help="run the script on the GPU again, and say how long its kernels take with stock Triton, with "
        "ours and if conversions were free",
    )
    option(
        "--pack",
        action="store_true",
        help="say only in which order packed weights should lie in memory, so that loops exchange nothing",
    )
    _conditions(parser, "if it holds, as 'shared conversions in loops > 0'")
    add_pipeline_options(parser)


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s WHAT [WHAT] [A=WORDS] [B=WORDS] [ARGUMENT ...] [OPTION ...]"
    option = parser.add_argument
    option(
        "subjects",
        nargs="+",
        metavar="WHAT",
        help="one or two modules (.ttgir, .mlir), folders of them such as Triton's cache, or scripts, with "
        "arguments behind. A=WORDS and B=WORDS say how a side is compiled: stock, ours, or options as in "
        "TRITON_LINEAR, with commas between. Of one subject without words, A is stock Triton and B has the "
        "plugin; two are compiled by stock Triton",
    )
    option("--target", help="cuda:NUMBER or hip:gfxNAME; by default what a module or the GPU says")
    option("--all", action="store_true", help="show every line that differs, not the first few")
    _conditions(
        parser,
        "where B is worse, as 'registers > 8', 'spills', 'shared', 'occupancy', 'width', 'conversions' or "
        "'clocks', or another 'code'",
    )


def _view(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option(
        "what",
        metavar="WHAT",
        help="an encoding ('#ttg.blocked<...>'), a Gluon layout ('BlockedLayout([1, 4], ...)'), "
        "FILE:LINE of a TTGIR module, whose conversion is shown if the line has one, or SCRIPT.py:LINE or "
        "SCRIPT.py:KERNEL:LINE: the script is run, and what the line compiles to is shown",
    )
    option("--to", metavar="WHAT", help="a second layout: where the first is converted or stored to")
    option("--shape", metavar="RxC", help="sizes of the tensor, as 64x32")
    option("--type", default="f32", dest="element", help="element type (default %(default)s)")
    option("--target", help="GPU, for banks and costs (default: what the module says, or cuda:90)")
    option("--view", choices=VIEWS, help="only this one (default: all that there are; of pictures the first)")
    option("-o", "--output", type=Path, metavar="FILE", help="a .txt, .svg or .html (default: standard output)")


def _verify(parser: argparse.ArgumentParser) -> None:
    _modules(parser)
    parser.add_argument(
        "--lowering",
        choices=("ours", "stock", "both"),
        default="ours",
        help="which code to run: that of this package, what Triton itself emits, or both (default %(default)s)",
    )
    add_pipeline_options(parser)


def _tune(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(name for name in VARIANTS if name not in COMPARED)
    option = parser.add_argument
    option("--decisions", type=Path, metavar="FILE", help="where decisions are kept (default: your own)")
    option(
        "--variants",
        type=_variants,
        metavar="NAME[,NAME...]",
        default=tuple(VARIANTS),
        help=f"what is tried beside {' and '.join(COMPARED)} (default: {names})",
    )
    option(
        "--seconds",
        type=float,
        default=0.5,
        help="time for the last round of a kernel, with warm caches and with empty ones (default %(default)s)",
    )
    option(
        "--grids", type=int, default=4, help="measure a kernel on so many grids at most (default %(default)s)"
    )
    option(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that compile (default: %(default)s, one for each core)",
    )
    option("--again", action="store_true", help="forget what an interrupted run has measured")
    option(
        "--check",
        action="store_true",
        help="measure again, decide nothing, and say which decisions do not hold",
    )
    parser.usage = "%(prog)s [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
    option("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    option("script", metavar="SCRIPT", help="Python program that runs kernels on a GPU")
    rest = option("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of the script")
    rest.required = False


def _variants(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in VARIANTS:
            raise argparse.ArgumentTypeError(missing(name, VARIANTS))
    return tuple(in_order((*COMPARED, *names)))


def in_order(names: Iterable[str]) -> list[str]:
    """Names of variants in the order of `VARIANTS`.

    >>> in_order({"lower", "ours"})
    ['ours', 'lower']
    """
    wanted = set(names)
    return [name for name in VARIANTS if name in wanted]


def _decisions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", type=Path, metavar="FILE", help="the file of decisions (default: your own)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="print all decisions")
    listed.add_argument("--json", action="store_true", help="print them as JSON, one to a line")
    read = actions.add_parser(
        "import",
        help="add decisions that `list --json` printed elsewhere; of two for the same, the later counts",
    )
    read.add_argument("exported", type=Path, nargs="+", metavar="FILE")
    forgotten = actions.add_parser("forget", help="remove decisions about kernels whose name matches a pattern")
    forgotten.add_argument("pattern", metavar="PATTERN")


def _pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the archive")
    parser.add_argument("--unpack", action="store_true", help="put what the archive has into Triton's cache")
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="Triton's cache folder (default: the one that Triton uses)"
    )


def _status(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A row of reports is a kernel's compiles for one GPU, added up. Kernels that came from a cache were "
        "not compiled, and are not in the file."
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="what TRITON_LINEAR=report=FILE has written; - for stdin"
    )
    parser.add_argument("--json", action="store_true", help="print the sums of the file's reports as JSON")


def _doctor(parser: argparse.ArgumentParser) -> None:
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


@dataclass(frozen=True)
class Command:
    """A command: what adds its arguments, the module of `tools` whose function `run` carries it out, and a
    summary."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    module: str
    summary: str


COMMANDS = {
    "explain": Command(
        _explain, "explain.command", "say why each conversion is there, how it is done and what it costs"
    ),
    "diff": Command(_diff, "diff.command", "show two compiles of each kernel, and what differs on which line"),
    "view": Command(_view, "view.command", "draw a layout or a conversion, as text, picture or page"),
    "verify": Command(
        _verify, "verify.command", "compile a TTGIR module and run all code of this package in it"
    ),
    "tune": Command(
        _tune, "tune.command", "measure variants of a program's kernels on this GPU, and keep which is fastest"
    ),
    "decisions": Command(_decisions, "tune.file_command", "list, move or forget what `tune` has decided"),
    "pack": Command(
        _pack, "pack", "write the kernels of a warm cache into one archive, or put them into another cache"
    ),
    "status": Command(
        _status, "status", "say what is installed and on, and what became of the kernels in a file of reports"
    ),
    "doctor": Command(
        _doctor, "doctor.command", "try out a Triton that is no tested release, and keep what is found"
    ),
}


def parser() -> Parser:
    """The parser of `triton-linear`."""
    top = Parser(
        prog="triton-linear",
        description="Layout conversions of Triton kernels, planned and lowered in Python.",
        epilog="triton-linear-opt runs passes over a module and prints any stage.",
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        summary = f"{command.summary[0].upper()}{command.summary[1:]}."
        added = commands.add_parser(name, help=command.summary, description=summary)
        command.add_arguments(added)
        added.set_defaults(run=f"triton_linear.tools.{command.module}", parser=added)
    return top
