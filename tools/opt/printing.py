"""Print modules in `triton-linear-opt`: the result, and to standard error the IR before and after passes."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Collection, Sequence

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.nearest import suggestion
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.own_form import own_form


class IRPrinter:
    """Prints modules between passes, according to the command line."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._names = {"before": arguments.mlir_print_ir_before, "after": arguments.mlir_print_ir_after}
        self._all = {"before": arguments.mlir_print_ir_before_all, "after": arguments.mlir_print_ir_after_all}
        self._diff: bool = arguments.mlir_print_ir_diff
        self._debug: bool = arguments.mlir_print_debuginfo
        self._generic: bool = arguments.mlir_print_op_generic
        self._last = ""

    @property
    def prints(self) -> bool:
        """Whether anything is to be printed."""
        return any((*self._names.values(), *self._all.values(), self._diff))

    def check(self, names: Sequence[str], known: Collection[str]) -> None:
        """Fail if the IR is to be printed at an unknown pass that does not run.

        `names` are the passes that run. A known pass may be absent because it has nothing to do in this module.
        """
        for when, wanted in self._names.items():
            for name in wanted:
                if name not in names and name not in known:
                    runs = f"those that run are {', '.join(names)}" if names else "none runs"
                    fail(f"mlir-print-ir-{when}: no pass '{name}'; {suggestion(name, names) or runs}")

    def shown(self, op: Operation) -> str:
        """The text of a module, in Triton's own form, or in MLIR's generic form if it is asked for or Triton
        cannot read the module.
        """
        own = None if self._generic else own_form(op, self._debug)
        return str(op.get_asm(enable_debug_info=self._debug)) if own is None else own.rstrip()

    def __call__(self, name: str, done: bool, op: Operation) -> None:
        """Print the module before or after the pass called `name`."""
        when = "after" if done else "before"
        wanted = self._all[when] or name in self._names[when]
        if not (wanted or self._diff):
            return
        text = self.shown(op)
        if wanted:
            print(f"// -----// IR Dump {when.title()} {name} //----- //\n{text}\n", file=sys.stderr)
        if self._diff and done:
            self._print_diff(name, text)
        self._last = text

    def _print_diff(self, name: str, text: str) -> None:
        lines = difflib.unified_diff(
            self._last.splitlines(), text.splitlines(), f"before {name}", f"after {name}", lineterm="", n=1
        )
        changed = "\n".join(lines) or "(no change)"
        print(f"// -----// IR Diff of {name} //----- //\n{changed}\n", file=sys.stderr)
