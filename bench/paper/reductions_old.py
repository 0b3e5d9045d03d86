"""Compiles the cases of the table of reductions with a Triton of before linear layouts; no GPU is needed.

    python -m venv /tmp/old && /tmp/old/bin/pip install triton==3.0.0 setuptools
    /tmp/old/bin/python -m bench.paper.reductions_old [--output FOLDER]

Run by a Python that has that Triton, and nothing of this project but the sources. Each case is a process of its
own, as a compiler that does not know a layout aborts. Writes reductions-VERSION.json: by case, what is counted
in its PTX, or the error.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
from pathlib import Path
from typing import Any

from bench.paper import old
from bench.paper.reductions import TARGET, cases, figures
from bench.paper.reductions_kernel import OLD, WARPS, Case, kernel

_TELLING = re.compile(r"error:|Error|Assertion|LLVM ERROR")


def ptx_of(case: Case, folder: Path) -> str:
    """The PTX of a case; files are left in `folder`."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    path = folder / "reduction.ttgir"
    path.write_text(kernel(case, OLD))
    capability = int(TARGET.partition(":")[2])
    backend: Any = CUDABackend(GPUTarget("cuda", capability, 32))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = ir.parse_mlir_module(str(path), context)
    module.context = context
    options = backend.parse_options({"num_warps": WARPS, "ptx_version": 80})
    metadata = {"num_warps": WARPS}
    llvm = backend.make_llir(module, metadata, options, capability)
    ptx: str = backend.make_ptx(llvm, metadata, options, capability)
    return ptx


def apart(case: Case, folder: Path) -> dict[str, Any]:
    """Compile in a child: `figures`, or an `error`."""
    result, said = folder / "result.json", folder / "stderr"
    result.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        try:
            result.write_text(json.dumps(figures(ptx_of(case, folder))))
        except Exception as problem:
            os.write(2, f"{type(problem).__name__}: {problem}\n".encode())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if result.exists():
        found: dict[str, Any] = json.loads(result.read_text())
        return found
    lines = [line for line in said.read_text().splitlines() if line.strip()]
    lines = [line for line in lines if _TELLING.search(line)] or lines
    if os.WIFSIGNALED(status):
        lines.append(f"the compiler ends with {signal.Signals(os.WTERMSIG(status)).name}")
    # Where the files lay does not matter.
    return {"error": re.sub(r"^loc\(.*?\): |\S*/(?=[\w.]+:)", "", lines[0])[:200]}


def main() -> None:
    """Compile all and write."""
    output = old.output("reductions_old")
    import triton

    with tempfile.TemporaryDirectory() as folder:
        found = {case.key: apart(case, Path(folder)) for case in cases()}
    good = sum("error" not in each for each in found.values())
    path = output / f"reductions-{triton.__version__}.json"
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in found.items())
    head = json.dumps({"triton": triton.__version__, "target": TARGET})[:-1]
    path.write_text(f'{head}, "cases": {{\n{lines}\n}}}}\n')
    print(f"{good} of {len(found)} compile; {path}")


if __name__ == "__main__":
    main()
