"""Print modules in `triton-linear-opt`: the result, and to standard error the IR before and after passes."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from triton_linear.dialect.nearest import suggestion
from triton_linear.tools.support.errors import fail

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Operation

_ATTRIBUTE = re.compile(r'#ttg\.(?P<kind>\w+)<\{[^{}"]*\}>|#ll\.(?P<layout>layout)<\{[^{}"]*\}, \[[\d, ]*\]>')
_NAME = re.compile(r"#(\w+)\b(?!\.)")
_ALIAS_NAMES = {"nvidia_mma": "mma", "amd_mfma": "mma", "amd_wmma": "mma", "dot_op": "dot"}
"""The names of aliases for layouts of these kinds, similar to Triton's; other layouts are named by their
kind."""


class Aliases:
    """Aliases of layouts, as MLIR prints them for attributes of known dialects: `#blocked`, `#blocked1`,
    `#mma`.

    Upstream MLIR does not know Triton's layouts, so the aliases are introduced into the text. One object uses
    the same alias for a layout in all texts.

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

    def _name(self, match: re.Match[str]) -> str:
        if match[0] not in self._names:
            kind = match["kind"] or match["layout"]
            kind = "shared" if kind.endswith("_shared") else _ALIAS_NAMES.get(kind, kind)
            number = 0
            while (name := f"#{kind}{number or ''}") in self._used:
                number += 1
            self._used.add(name)
            self._names[match[0]] = name
        return self._names[match[0]]

    def introduced(self, text: str) -> str:
        """`text` with aliases for all layouts outside quotes, after the definitions of these aliases."""
        pieces = text.split('"')
        for index in range(0, len(pieces), 2):
            replaced = 1
            while replaced:  # innermost layouts first
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
    """Prints modules between passes, according to the command line."""

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
        """Whether anything is to be printed."""
        return bool(self._before or self._after or self._before_all or self._after_all or self._diff)

    def check(self, names: Sequence[str], known: Collection[str]) -> None:
        """Fail if the IR is to be printed at an unknown pass that does not run.

        `names` are the passes that run. A known pass may be absent because it has nothing to do in this module.
        """
        for flag, wanted in (("before", self._before), ("after", self._after)):
            for name in wanted:
                if name not in names and name not in known:
                    runs = f"those that run are {', '.join(names)}" if names else "none runs"
                    fail(f"mlir-print-ir-{flag}: no pass '{name}'; {suggestion(name, names) or runs}")

    def shown(self, op: Operation) -> str:
        """The text of a module, with aliases unless they are turned off."""
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
