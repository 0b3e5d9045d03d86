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
from triton_linear.passes.registry import PASSES, UPSTREAM
from triton_linear.tools.support.arguments import Parser, add_pipeline_options, flag

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
    text = "passes as text, 'builtin.module(linear-select-lowering{target=cuda:90},cse)'"
    option(f"--{TEXT}", action=_PassFlag, metavar="TEXT", help=text)
    whole = "the passes that the plugin runs with the installed Triton, in order"
    option(f"--{PIPELINE}", action=_PassFlag, nargs=0, metavar=PIPELINE, help=whole)
    own = f"passes of your own (docs/user-passes.md), here, or where they say beside --{PIPELINE}"
    option(f"--{PLUGIN}", action=_PassFlag, metavar="FILE", help=own)
    flag(top, "--split-input-file", "compile the parts between lines '// -----' one by one")
    expected = (
        "compare what is reported with comments such as // expected-error@+1 {{text}}; print nothing else"
    )
    kinds = ("all", "only-expected")
    option("--verify-diagnostics", nargs="?", choices=kinds, const="all", help=expected)
    unchecked = "do not check the IR between passes"
    option("--no-verify-each", dest="verify_each", action="store_false", help=unchecked)
    flag(top, "--mlir-print-op-generic", "print MLIR's generic form, not Triton's own")
    flag(top, "--mlir-print-debuginfo", "print locations")
    flag(top, "--mlir-timing", "print the seconds each pass took, to standard error")
    flag(top, "--remarks", f"print the remarks of --{PIPELINE}; passes named one by one print theirs always")
    _add_printing(top)
    add_pipeline_options(top)
    top.set_defaults(passes=[])
    return top


def _add_printing(top: argparse.ArgumentParser) -> None:
    group = top.add_argument_group("printing between passes", "To the standard error.")
    for when in ("before", "after"):
        text = f"print the IR {when} this pass; may be given several times"
        group.add_argument(f"--mlir-print-ir-{when}", action="append", default=[], metavar="NAME", help=text)
        flag(group, f"--mlir-print-ir-{when}-all", f"print the IR {when} each pass")
    flag(group, "--mlir-print-ir-diff", "print what each pass has changed, as a unified diff")


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
