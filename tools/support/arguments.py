"""The command lines of `triton-linear`: the arguments of each command, without slow imports."""

from __future__ import annotations

import argparse
import operator
import os
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from triton_linear import __version__
from triton_linear.dialect.nearest import missing, suggestion
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.errors import Diagnostic, fail
from triton_linear.variants import COMPARED, VARIANTS

VIEWS = ("tensor", "hardware", "memory", "matrix")
_WRONG_CHOICE = "invalid choice: "
_UNKNOWN = "unrecognized arguments: "
_COMPARE = {">=": operator.ge, "==": operator.eq, ">": operator.gt}
_CONDITION = re.compile(r"(?P<name>.*?)(?: ?(?P<compare>>=|==|>) ?(?P<bound>\d+))?")


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


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of `--fail-on`, as `registers > 8`: what is counted under a name, compared with a bound."""

    text: str
    name: str
    compare: str
    bound: int

    @classmethod
    def parse(cls, text: str, names: Collection[str], known: str) -> Condition:
        """Parse a name and a comparison, `> 0` if there is none. Fails on other names, with those `known`."""
        match = _CONDITION.fullmatch(" ".join(text.split()))
        if match is None or match["name"] not in names:
            fail(f"fail-on: '{text}' is no condition, as {known}")
        return cls(text, match["name"], match["compare"] or ">", int(match["bound"] or 0))

    def holds(self, value: float) -> bool:
        """Whether it holds of a value."""
        return bool(_COMPARE[self.compare](value, self.bound))

    def say(self, what: str) -> None:
        """Print that it holds."""
        print(Diagnostic("error", f"fail-on: {self.text}: {what}"), file=sys.stderr)


def flag(parser: argparse._ActionsContainer, name: str, text: str, dest: str | None = None) -> None:
    """Add an option that takes no value."""
    parser.add_argument(name, action="store_true", help=text, dest=dest or name.strip("-").replace("-", "_"))


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's options to a command."""
    group = parser.add_argument_group("the pipeline", "By default all is done that the plugin does.")
    for name, left in (
        ("assign", "leave layouts as they are"),
        ("reductions", "leave reductions across warps to Triton"),
        ("lower", "leave all conversions to Triton"),
    ):
        group.add_argument(f"--no-{name}", dest=name, action="store_false", help=left)
    flag(group, "--exact", "give the bits that stock Triton gives, sums of floats included")
    limit = "most scratch of one conversion; by default the target's shared memory"
    group.add_argument("--scratch-limit", type=int, metavar="BYTES", help=limit)


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
    what = "a .ttgir or .mlir file, - for standard input, a folder of them, or a Python script, which is run"
    parser.add_argument("what", metavar="WHAT", help=what)
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="arguments of the script")
    target = "cuda:NUMBER or hip:gfxNAME, also of a script's launches; by default what each module says"
    parser.add_argument("--target", help=target)


def _conditions(parser: argparse.ArgumentParser, holds: str) -> None:
    flag(parser, "--json", "print the same as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page as well")
    text = f"exit with status 1 {holds}; may be given several times"
    parser.add_argument("--fail-on", action="append", default=[], metavar="CONDITION", help=text)


def _explain(parser: argparse.ArgumentParser) -> None:
    _modules(parser)
    flag(parser, "--stock", "say what stock Triton has on each line, and run its code")
    flag(parser, "--measure", "time the script's kernels with stock Triton and with ours")
    _conditions(parser, "if it holds, as 'shared conversions in loops > 0'")
    add_pipeline_options(parser)


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s WHAT [WHAT] [A=WORDS] [B=WORDS] [ARGUMENT ...] [OPTION ...]"
    subjects = (
        "one or two modules (.ttgir, .mlir), folders of them or scripts, with arguments behind. A=WORDS and "
        "B=WORDS say how a side is compiled: stock, ours, or options as in TRITON_LINEAR, with commas between. "
        "Of one subject without words A is stock Triton and B has the plugin; two are compiled by stock Triton"
    )
    parser.add_argument("subjects", nargs="+", metavar="WHAT", help=subjects)
    parser.add_argument("--target", help="cuda:NUMBER or hip:gfxNAME; by default what a module or the GPU says")
    flag(parser, "--all", "show every line that differs, not the first few")
    names = "'registers > 8', 'spills', 'shared', 'occupancy', 'width' or 'conversions'"
    _conditions(parser, f"where B is worse, as {names}, or another 'code'")


def _view(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    what = (
        "an encoding ('#ttg.blocked<...>'), a Gluon layout ('BlockedLayout([1, 4], ...)'), FILE:LINE of a "
        "module, or SCRIPT.py:LINE or SCRIPT.py:KERNEL:LINE: what the line compiles to"
    )
    option("what", metavar="WHAT", help=what)
    option("--to", metavar="WHAT", help="a second layout: where the first is converted or stored to")
    option("--shape", metavar="RxC", help="sizes of the tensor, as 64x32")
    option("--type", default="f32", dest="element", help="element type (default %(default)s)")
    option("--target", help="GPU, for banks and costs (default: what the module says, or cuda:90)")
    option("--view", choices=VIEWS, help="only this one (default: all that there are; of pictures the first)")
    option("-o", "--output", type=Path, metavar="FILE", help="a .txt, .svg or .html (default: standard output)")


def _verify(parser: argparse.ArgumentParser) -> None:
    _modules(parser)
    code = "which code to run: ours, what Triton itself emits, or both (default %(default)s)"
    parser.add_argument("--lowering", choices=("ours", "stock", "both"), default="ours", help=code)
    add_pipeline_options(parser)


def _tune(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(name for name in VARIANTS if name not in COMPARED)
    tried = f"what is tried beside {' and '.join(COMPARED)} (default: {names})"
    seconds = "time for a kernel's last round, with warm caches and with empty ones (default %(default)s)"
    option = parser.add_argument
    option("--decisions", type=Path, metavar="FILE", help="where decisions are kept (default: your own)")
    option("--variants", type=_variants, metavar="NAME[,NAME...]", default=tuple(VARIANTS), help=tried)
    option("--seconds", type=float, default=0.5, help=seconds)
    option("--grids", type=int, default=4, help="measure a kernel on so many at most (default %(default)s)")
    parser.usage = "%(prog)s [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
    flag(parser, "-m", "SCRIPT is the name of a module", dest="module")
    option("script", metavar="SCRIPT", help="Python program that runs kernels on a GPU")
    rest = option("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of the script")
    rest.required = False


def _variants(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in VARIANTS:
            raise argparse.ArgumentTypeError(missing(name, VARIANTS))
    return tuple(name for name in VARIANTS if name in (*COMPARED, *names))


def _decisions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", type=Path, metavar="FILE", help="the file of decisions (default: your own)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="print all decisions")
    flag(listed, "--json", "print them as JSON, one to a line")
    later = "add decisions that `list --json` printed elsewhere; of two for the same, the later counts"
    read = actions.add_parser("import", help=later)
    read.add_argument("exported", type=Path, nargs="+", metavar="FILE")
    forgotten = actions.add_parser("forget", help="remove decisions about kernels whose name matches a pattern")
    forgotten.add_argument("pattern", metavar="PATTERN")


def _pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the archive")
    flag(parser, "--unpack", "put what the archive has into Triton's cache")
    folder = "Triton's cache folder (default: the one that Triton uses)"
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help=folder)


def _status(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A row of reports is a kernel's compiles for one GPU, added up. Kernels that came from a cache were "
        "not compiled, and are not in the file."
    )
    written = "what TRITON_LINEAR=report=FILE has written; - for stdin"
    parser.add_argument("file", nargs="?", metavar="FILE", help=written)
    flag(parser, "--json", "print the sums of the file's reports as JSON")


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A verdict is kept for this libtriton and these sources. Where nothing differs, the plugin may be "
        "turned on as for a tested release; else the first case of each kind is printed, and the status is 1."
    )
    flag(parser, "--quick", "try few cases of everything")
    flag(parser, "--forget", "remove what was found out about this Triton, and try nothing")
    alone = "ask this one alone, and keep no verdict; may be given several times"
    parser.add_argument("--probe", action="append", metavar="NAME", help=alone)
    parser.add_argument("--seed", type=int, default=1, help="what to draw cases from (default %(default)s)")
    processes, text = max(1, min(4, os.cpu_count() or 1)), "processes (default: %(default)s)"
    parser.add_argument("--jobs", type=int, default=processes, metavar="N", help=text)


@dataclass(frozen=True)
class Command:
    """What adds a command's arguments, the module of `tools` whose function `run` does it, and a summary."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    module: str
    summary: str


COMMANDS = {
    "explain": Command(_explain, "explain.command", "say why each conversion is there, and what it costs"),
    "diff": Command(_diff, "diff.command", "show two compiles of each kernel, and what differs on which line"),
    "view": Command(_view, "view.command", "draw a layout or a conversion, as text, picture or page"),
    "verify": Command(_verify, "verify.command", "compile a module and run all code of this package in it"),
    "tune": Command(_tune, "tune", "measure variants of a program's kernels, and keep the fastest"),
    "decisions": Command(_decisions, "decisions", "list, move or forget what `tune` has decided"),
    "pack": Command(_pack, "pack", "write the kernels of a warm cache into an archive, or into another cache"),
    "status": Command(_status, "status", "say what is installed and on, or what a file of reports adds up to"),
    "doctor": Command(_doctor, "doctor.command", "try out a Triton that is no tested release"),
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
