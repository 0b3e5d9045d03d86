"""How `triton-linear-opt` shows a module: at the end, and to the standard error before and after passes."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from triton_linear.passes.parse import suggestion
from triton_linear.tools.support.errors import fail

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Operation

_ATTRIBUTE = re.compile(r'#ttg\.(?P<kind>\w+)<\{[^{}"]*\}>|#ll\.(?P<layout>layout)<\{[^{}"]*\}, \[[\d, ]*\]>')
_NAME = re.compile(r"#(\w+)\b(?!\.)")
_CALLED = {"nvidia_mma": "mma", "amd_mfma": "mma", "amd_wmma": "mma", "dot_op": "dot"}
"""What Triton calls layouts of these kinds where it prints them, or nearly so; others have the kind as name."""


class Aliases:
    """Names of layouts, as MLIR prints attributes that know how to be called: `#blocked`, `#blocked1`, `#mma`.

    Upstream MLIR does not know Triton's layouts, so they are named in the text. One object names a layout the
    same in all texts that it is given.

    >>> aliases = Aliases()
    >>> print(aliases.introduced('%0 : tensor<4xi1, #ttg.slice<{parent = #ttg.blocked<{order = [0]}>}>>'))
    #blocked = #ttg.blocked<{order = [0]}>
    #slice = #ttg.slice<{parent = #blocked}>
    %0 : tensor<4xi1, #slice>
    >>> print(aliases.introduced('%0 : tensor<4xf32, #ttg.blocked<{order = [0]}>>'))
    #blocked = #ttg.blocked<{order = [0]}>
    %0 : tensor<4xf32, #blocked>
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._used: set[str] = set()

    def _name(self, found: re.Match[str]) -> str:
        if found[0] not in self._names:
            kind = found["kind"] or found["layout"]
            kind = "shared" if kind.endswith("_shared") else _CALLED.get(kind, kind)
            number = 0
            while (name := f"#{kind}{number or ''}") in self._used:
                number += 1
            self._used.add(name)
            self._names[found[0]] = name
        return self._names[found[0]]

    def introduced(self, text: str) -> str:
        """`text` with each layout named, and those names defined before it. What is in quotes stays."""
        pieces = text.split('"')
        for index in range(0, len(pieces), 2):
            replaced = 1
            while replaced:  # a layout inside another is named first
                pieces[index], replaced = _ATTRIBUTE.subn(self._name, pieces[index])
        text = '"'.join(pieces)
        names = {name[1:] for name in self._names.values()}
        wanted = names & set(_NAME.findall("".join(pieces[::2])))
        definitions = []
        for attribute, name in reversed(self._names.items()):
            if name[1:] in wanted:
                definitions.append(f"{name} = {attribute}\n")
                wanted |= names & set(_NAME.findall(attribute))
        return "".join(reversed(definitions)) + text


class IRPrinter:
    """Prints modules between passes, as the command line asks for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._before: Collection[str] = arguments.mlir_print_ir_before
        self._after: Collection[str] = arguments.mlir_print_ir_after
        self._before_all: bool = arguments.mlir_print_ir_before_all
        self._after_all: bool = arguments.mlir_print_ir_after_all
        self._diff: bool = arguments.mlir_print_ir_diff
        self._debug: bool = arguments.mlir_print_debuginfo
        self._aliases = None if arguments.no_aliases else Aliases()
        self._last = ""

    @property
    def prints(self) -> bool:
        """Whether anything is asked for."""
        return bool(self._before or self._after or self._before_all or self._after_all or self._diff)

    def check(self, names: Sequence[str], known: Collection[str]) -> None:
        """Fail where something is to be printed at a pass that does not run.

        One that is known may have nothing to do with this module.
        """
        for flag, wanted in (("before", self._before), ("after", self._after)):
            for name in wanted:
                if name not in names and name not in known:
                    runs = f"those that run are {', '.join(names)}" if names else "none runs"
                    fail(f"mlir-print-ir-{flag}: no pass '{name}'; {suggestion(name, names) or runs}")

    def shown(self, op: Operation) -> str:
        """The text of a module."""
        text = str(op.get_asm(enable_debug_info=self._debug))
        return text if self._aliases is None else self._aliases.introduced(text)

    def __call__(self, name: str, done: bool, op: Operation) -> None:
        """Print the module before or after the pass called `name`."""
        wanted = self._after_all or name in self._after if done else self._before_all or name in self._before
        if not (wanted or self._diff):
            return
        text = self.shown(op)
        if wanted:
            when = "After" if done else "Before"
            print(f"// -----// IR Dump {when} {name} //----- //\n{text}\n", file=sys.stderr)
        if self._diff and done:
            self._print_diff(name, text)
        self._last = text

    def _print_diff(self, name: str, text: str) -> None:
        lines = difflib.unified_diff(
            self._last.splitlines(), text.splitlines(), f"before {name}", f"after {name}", lineterm="", n=1
        )
        changed = "\n".join(lines) or "(no change)"
        print(f"// -----// IR Diff of {name} //----- //\n{changed}\n", file=sys.stderr)
