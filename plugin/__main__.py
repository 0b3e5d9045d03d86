"""Run an unchanged script with the plugin on.

    python -m triton_linear [--strict] [--report] SCRIPT [ARGUMENT ...]
    python -m triton_linear [--strict] [--report] -m MODULE [ARGUMENT ...]

The script runs as `python SCRIPT` runs it: as the module `__main__`, with its own `sys.argv`, and its folder
first on `sys.path`. The plugin is turned on when the script imports Triton, so environment variables that the
script sets before that are followed. Python processes that the script starts have the plugin on too: the
start-up file of this package is put on their `PYTHONPATH`, and follows the variable `TRITON_LINEAR`. `--report`
prints the report of each kernel compiled in this process to standard error.
"""

from __future__ import annotations

import argparse
import atexit
import dataclasses
import functools
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import types

from triton_linear import __version__, environment
from triton_linear.dialect import triton_versions
from triton_linear.report import last_report
from triton_linear.setting import Options


def main(arguments: list[str]) -> None:
    """Turn the plugin on and run the script in this process."""
    parser = argparse.ArgumentParser(
        prog="python -m triton_linear",
        usage="%(prog)s [--strict] [--report] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        description="Run an unchanged script; triton_linear lowers the layout conversions of its kernels.",
    )
    parser.add_argument("--strict", action="store_true", help="raise where the plugin fails; no fallback")
    parser.add_argument("--report", action="store_true", help="print what happened to each compiled kernel")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="file to run")
    rest = parser.add_argument(
        "rest", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of the script"
    )
    rest.required = False
    chosen = parser.parse_args(arguments)
    if not chosen.module and not os.path.exists(chosen.script):
        parser.error(f"can't open file '{chosen.script}'")
    if not chosen.module and os.path.isdir(chosen.script) and not _has_main(chosen.script):
        parser.error(f"no file '__main__.py' in folder '{chosen.script}'")
    if chosen.report:
        atexit.register(_print_if_none)
    try:
        options = environment.parse(os.environ.get(environment.VARIABLE, "")) or Options()
    except (TypeError, ValueError) as error:
        parser.error(f"{environment.VARIABLE}: {error}")
    options = dataclasses.replace(options, strict=chosen.strict or options.strict)
    listener = functools.partial(print, file=sys.stderr) if chosen.report else None
    environment.after_import("triton", functools.partial(environment.turn_on, options, listener))
    environment.watch_inductor()
    if triton_versions.found() is None:
        environment.turn_on(options)  # this warns, or raises if strict
    _prepare_children(options)
    sys.argv = [chosen.script, *chosen.rest]
    if chosen.module:
        _run_module(chosen.script, parser)
    elif os.path.isdir(chosen.script) or chosen.script.endswith((".zip", ".pyz")):
        runpy.run_path(chosen.script, run_name="__main__")
    else:
        _run_file(os.path.abspath(chosen.script))


def _prepare_children(options: Options) -> None:
    """Have Python processes that the script starts turn the plugin on, even if the package is not installed."""
    os.environ[environment.VARIABLE] = environment.text_of(options)
    startup = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (startup, os.environ.get("PYTHONPATH"))))


def _run_file(script: str) -> None:
    """Run a file as Python's command line does."""
    sys.path[0] = os.path.dirname(script)
    loader = importlib.machinery.SourceFileLoader("__main__", script)
    code = compile(loader.get_data(script), script, "exec", dont_inherit=True)
    _become_main(code, script, loader, None)


def _run_module(name: str, parser: argparse.ArgumentParser) -> None:
    """Run a module, or a package's `__main__`, as `python -m` does. `sys.path` is already right."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        parser.error(str(error))
    get_code = getattr(spec and spec.loader, "get_code", None)
    code = get_code(spec.name) if spec and get_code else None
    if spec is None or code is None:
        parser.error(f"no module named '{name}' that can be run")
    sys.argv[0] = spec.origin or name
    _become_main(code, sys.argv[0], spec.loader, spec)


def _become_main(
    code: types.CodeType, file: str, loader: object, spec: importlib.machinery.ModuleSpec | None
) -> None:
    """Run `code` in a module `__main__` that stays in `sys.modules` after its last line.

    `runpy` would remove the module, though threads, exit handlers and pickles may still use it.
    """
    module = types.ModuleType("__main__")
    vars(module).update(__file__=file, __loader__=loader, __spec__=spec)
    module.__package__ = spec.parent if spec else None
    sys.modules["__main__"] = module
    exec(code, vars(module))


def _has_main(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, f"__main__.{end}")) for end in ("py", "pyc"))


def _print_if_none() -> None:
    if last_report() is None:
        print("triton_linear: no kernel was compiled (cached ones make no report)", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
