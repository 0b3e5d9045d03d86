"""The command line of `triton-linear-opt`: a flag for each pass of this package and of upstream MLIR, and
options."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from triton_linear import __version__
from triton_linear.passes import parse
from triton_linear.passes.registry import PASSES
from triton_linear.passes.upstream import UPSTREAM
from triton_linear.tools.support.arguments import Parser, add_pipeline_options

EMIT = ("mlir", "ttgir", "llvm", "llvmir", "ptx", "cubin", "amdgcn", "hsaco")
BINARY = ("cubin", "hsaco")
PIPELINE = "linear-pipeline"
PLUGIN = "pass-plugin"
TEXT = "pass-pipeline"


def _docstring(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def pass_help() -> str:
    """The description and the options of each pass, for --help."""
    sections = []
    for name, kind in PASSES.items():
        lines = [f"  --{name}", *(f"      {line}".rstrip() for line in _docstring(kind).splitlines())]
        for option in fields(kind):  # type: ignore[arg-type]
            help_text = option.metadata.get("help", "")
            lines.append(f"      option {option.name.replace('_', '-')}=...: {help_text}")
        sections.append("\n".join(lines))
    upstream = "\n".join(_listed(UPSTREAM))
    others = "Any other pass that upstream MLIR registers has a flag of its name too."
    return "passes:\n" + "\n\n".join(sections) + f"\n\npasses of upstream MLIR:\n{upstream}\n\n{others}"


def list_passes() -> str:
    """Every pass that has a flag, one per line."""
    ours = {name: kind.summary for name, kind in PASSES.items()}
    ours[PIPELINE] = "the passes that the plugin runs with the installed Triton, in order"
    upstream = _listed(UPSTREAM)
    return "\n".join(("passes of this package:", *_listed(ours), "passes of upstream MLIR:", *upstream))


def _listed(passes: Mapping[str, str]) -> list[str]:
    return [f"  --{name:<28} {summary}" for name, summary in passes.items()]


class _PassFlag(argparse.Action):
    """Appends (pass, options) to `passes`, which keeps the order of all flags."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name = self.option_strings[0].removeprefix("--")
        namespace.passes = [*namespace.passes, (name, values or "")]


class _ListPasses(argparse.Action):
    """Prints the passes and exits."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        print(list_passes())
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The parser of the command line, without the flags of passes."""
    top = Parser(
        prog="triton-linear-opt",
        description="Run passes over TritonGPU IR, in the order of their flags, and print any stage.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    option = top.add_argument
    option("--version", action="version", version=f"%(prog)s {__version__}")
    option("file", nargs="?", default="-", metavar="FILE", help="input; - or nothing: standard input")
    option("-o", dest="output", default="-", metavar="FILE", help="where to write (default: -)")
    option("--emit", choices=EMIT, default="mlir", help="the stage to print (default: %(default)s)")
    option("--target", help="cuda:NUMBER or hip:gfxNAME; by default what the module says")
    option("--list-passes", action=_ListPasses, nargs=0, help="print each pass in a line, and end")
    option(
        f"--{TEXT}",
        action=_PassFlag,
        metavar="TEXT",
        help="passes as text, 'builtin.module(linear-select-lowering{target=cuda:90},cse)'",
    )
    option(
        f"--{PIPELINE}",
        action=_PassFlag,
        nargs=0,
        metavar=PIPELINE,
        help="the passes that the plugin runs with the installed Triton, in order",
    )
    option(
        f"--{PLUGIN}",
        action=_PassFlag,
        metavar="FILE",
        help="passes of your own (docs/user-passes.md), in the place of this flag; beside "
        f"--{PIPELINE}, before or after it as they say",
    )
    option(
        "--split-input-file", action="store_true", help="compile the parts between lines '// -----' one by one"
    )
    option(
        "--verify-diagnostics",
        nargs="?",
        choices=("all", "only-expected"),
        const="all",
        help="compare what is reported with comments such as // expected-error@+1 {{text}}; print nothing else",
    )
    option(
        "--no-verify-each", dest="verify_each", action="store_false", help="do not check the IR between passes"
    )
    option("--mlir-print-op-generic", action="store_true", help="print MLIR's generic form, not Triton's own")
    option("--mlir-print-debuginfo", action="store_true", help="print locations")
    option("--mlir-timing", action="store_true", help="print the seconds each pass took, to standard error")
    option(
        "--remarks",
        action="store_true",
        help=f"print the remarks of --{PIPELINE}; passes named one by one print theirs always",
    )
    _add_printing(top)
    add_pipeline_options(top)
    top.set_defaults(passes=[])
    return top


def _add_printing(top: argparse.ArgumentParser) -> None:
    group = top.add_argument_group("printing between passes", "To the standard error.")
    for when in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"print the IR {when} this pass; may be given several times",
        )
        group.add_argument(
            f"--mlir-print-ir-{when}-all", action="store_true", help=f"print the IR {when} each pass"
        )
    group.add_argument(
        "--mlir-print-ir-diff", action="store_true", help="print what each pass has changed, as a unified diff"
    )


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line, in which every pass has a flag that takes its options after an equals sign."""
    top = parser()
    top.epilog = pass_help()
    bare = {f"--{name}" for name in (*PASSES, *UPSTREAM)}
    known = {word for action in top._actions for word in action.option_strings} | bare
    for word in argv:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in known and parse.is_upstream(name[2:]):
            bare.add(name)
    for name in sorted(bare):
        top.add_argument(name, action=_PassFlag, help=argparse.SUPPRESS)
    words = [f"{word}=" if word in bare else word for word in argv]
    words = ["--verify-diagnostics=all" if word == "--verify-diagnostics" else word for word in words]
    return top.parse_args(words)
