"""Compile the kernels of one side, with the Python and the Triton that the side names.

    python child.py REQUEST.json

It is run by its path. `library` in the request is a folder with `triton_linear`, which is appended to
`sys.path`, so that packages of the interpreter come first. By its environment, Triton has an empty cache and
dumps the module before each pass; the parent (`compiled.py`) reads the cache and the dumps. An answer is
always written: the version of Triton, the plugin's reports, and the error.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any


def _gpu(name: str) -> Any:
    """The target called `cuda:90` or `hip:gfx942`."""
    from triton.backends.compiler import GPUTarget

    backend, _, arch = name.partition(":")
    if backend == "cuda":
        return GPUTarget("cuda", int(arch), 32)
    return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)


def _launch_nothing(gpu: Any) -> None:
    """Make launches compile for `gpu`, which need not be installed, and launch nothing."""
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from triton_linear.tools.support.fake_driver import FakeDriver

    driver._active = FakeDriver(gpu)
    run = JITFunction.run

    def compiled(function: Any, *arguments: Any, **options: Any) -> Any:
        return run(function, *arguments, **{**options, "warmup": True})

    def every(tuner: Any, *arguments: Any, **options: Any) -> Any:
        options.pop("warmup", None)
        return tuner.warmup(*arguments, **options)

    JITFunction.run = compiled
    Autotuner.run = every


def _disable_switches() -> None:
    """Keep the script from turning the plugin on or off, because the request decides that."""
    try:
        import triton_linear
    except ImportError:  # then the script cannot import it either
        return
    plugin: Any = triton_linear
    plugin.install = plugin.uninstall = lambda **_: None
    plugin.enabled = lambda **_: nullcontext([])


def _compile(request: dict[str, Any]) -> None:
    import triton

    gpu = _gpu(request["target"]) if request["target"] else None
    for path in request["modules"]:
        triton.compile(path, target=gpu)
    if not request["script"]:
        return
    if gpu is not None:
        _launch_nothing(gpu)
    _disable_switches()
    sys.argv = [request["script"], *request["arguments"]]
    sys.path.insert(0, os.path.dirname(request["script"]))
    names = runpy.run_path(request["script"], run_name="__main__")
    specs = names.get("compile_specs")
    if callable(specs):
        if gpu is None:
            raise ValueError("its kernels are for any target: say --target=cuda:NUMBER or hip:gfxNAME")
        for spec in specs(gpu):
            triton.compile(spec.source(), target=gpu, options=dict(spec.options))


def _as_json(report: Any) -> dict[str, Any]:
    # A conversion of partial results belongs to the reduction.
    own = [one for one in report.conversions if not one.partials]
    conversions = [(one.location, one.source, one.destination, one.lowering) for one in own]
    return {
        "kernel": report.kernel,
        "outcome": report.outcome.value,
        "conversions": conversions,
        "remarks": list(report.remarks),
    }


def main() -> None:
    """Carry out the request whose file is named on the command line."""
    del sys.path[0]  # this file's folder, whose modules the script must not find
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.path.append(request["library"])
    answer: dict[str, Any] = {"triton": "", "reports": [], "error": ""}
    try:
        import triton

        answer["triton"] = triton.__version__
        with ExitStack() as stack:
            reports: list[Any] = []
            if request["plugin"] is not None:
                from triton_linear import enabled

                reports = stack.enter_context(enabled(**request["plugin"]))
            _compile(request)
            answer["reports"] = [_as_json(report) for report in reports]
    except SystemExit as end:
        if end.code:
            answer["error"] = f"the script ended with status {end.code}"
        else:
            answer["reports"] = [_as_json(report) for report in reports]
    except Exception as error:
        words = str(error).strip().splitlines() or ["no reason is given"]
        answer["error"] = f"{type(error).__name__}: {words[0]}"
        if "active drivers" in words[0] and not request["target"]:
            answer["error"] = "there is no GPU to compile for: say --target=cuda:NUMBER or hip:gfxNAME"
    Path(request["answer"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
