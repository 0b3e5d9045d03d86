"""Run an unchanged script with the plugin on.

    python -m triton_linear [--strict] [--report] SCRIPT [ARGUMENT ...]
    python -m triton_linear [--strict] [--report] -m MODULE [ARGUMENT ...]

Python runs the script in place of this, with the variable `TRITON_LINEAR`, and with the start-up file of this
package on its path. So Python processes that the script starts have the plugin on too.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
import warnings
from typing import NoReturn

from triton_linear import __version__, environment
from triton_linear.dialect import triton_versions
from triton_linear.setting import STDERR, Options


def main(arguments: list[str]) -> NoReturn:
    """Set the environment, and run the script in this process."""
    parser = argparse.ArgumentParser(
        prog="python -m triton_linear",
        usage="%(prog)s [--strict] [--report] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        description="Run an unchanged script; triton_linear lowers the layout conversions of its kernels.",
    )
    parser.add_argument("--strict", action="store_true", help="raise where the plugin fails; no fallback")
    parser.add_argument(
        "--report",
        action="store_true",
        help="print what happened to each kernel that is compiled, and comes from no cache",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="file to run")
    rest = parser.add_argument(
        "rest", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of the script"
    )
    rest.required = False
    chosen = parser.parse_args(arguments)
    try:
        options = environment.parse(os.environ.get(environment.VARIABLE, "")) or Options()
    except (TypeError, ValueError) as error:
        parser.error(f"{environment.VARIABLE}: {error}")
    if chosen.strict:
        options = dataclasses.replace(options, strict=True)
    if chosen.report:
        options = dataclasses.replace(options, report=STDERR)
    if (found := triton_versions.found()) is None:  # nothing else would say so: nothing imports it
        reason = f"triton_linear is off: {triton_versions.refusal(found)}"
        if options.strict:
            parser.exit(1, f"{reason}\n")
        warnings.warn(reason, environment.EnvironmentWarning, stacklevel=1)
    os.environ[environment.VARIABLE] = environment.text_of(options)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*_folders(), os.environ.get("PYTHONPATH"))))
    # The interpreter's own options come before the name of this module.
    own = itertools.takewhile(lambda word: not word.startswith("-m"), sys.orig_argv[1:])
    script = ["-m", chosen.script] if chosen.module else [chosen.script]
    os.execv(sys.executable, [sys.executable, *own, *script, *chosen.rest])


def _folders() -> list[str]:
    """The folder of the start-up file; and that of the package, where it was found in the current folder."""
    package = os.path.dirname(os.path.abspath(__file__))
    parent = os.path.dirname(package)
    return [os.path.join(package, "startup"), *([] if parent in sys.path[1:] else [parent])]


if __name__ == "__main__":
    main(sys.argv[1:])
