"""`triton-linear`: explain, diff, view, verify, tune, decisions, pack, status, doctor."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from triton_linear.tools.support.arguments import parser
from triton_linear.tools.support.errors import Printer, guarded, supervised


def main(argv: Sequence[str] | None = None) -> int:
    """Run `triton-linear`; the exit status is 1 if something is wrong, 2 for a wrong command line."""
    arguments, rest = parser().parse_known_args(argv)
    if rest:
        arguments.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    printer = Printer()
    arguments.sources = printer.sources

    def run() -> int:
        return guarded(lambda: importlib.import_module(arguments.run).run(arguments), printer)

    return supervised(run) if argv is None else run()


if __name__ == "__main__":
    sys.exit(main())
