"""The modules that compiling a variant needs."""

from __future__ import annotations

from plugin_processes import run

IMPORTING = """
import sys
import plugin_support
import triton_linear
from triton_linear.tools.measuring import contest
triton_linear.install(strict=True)
contest.import_all()
before = set(sys.modules)
plugin_support.compile_kernel(plugin_support.row_sums)
print(sorted(name for name in sys.modules.keys() - before if name.startswith("triton_linear")))
"""


def test_a_compile_imports_nothing_that_was_not_imported_ahead() -> None:
    ended = run(IMPORTING, None)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "[]\n"
