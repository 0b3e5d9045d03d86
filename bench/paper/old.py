"""What the tables compile with Triton 3.0.0, of before linear layouts; no GPU is needed.

Imported by a Python that has that Triton, and nothing of this project but the sources.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def compiled(kernel: Any, pointers: Sequence[str], constants: Sequence[Any], target: str, warps: int) -> Any:
    """A kernel whose arguments are aligned pointers, then constants; raises what the compiler does."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, AttrsDescriptor

    versioned: Any = ASTSource  # of 3.0, where arguments go by number
    source = versioned(
        kernel,
        signature=dict(enumerate(pointers)),
        constants=dict(enumerate(constants, len(pointers))),
        attrs=AttrsDescriptor(set(range(len(pointers))), set()),
    )
    capability = int(target.partition(":")[2])
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})


def output(program: str) -> Path:
    """The folder that the command line names."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.paper.{program}")
    parser.add_argument("--output", type=Path, default=Path("bench/results"))
    folder: Path = parser.parse_args().output
    return folder


def write(folder: Path, table: str, target: str, found: Mapping[str, Any]) -> Path:
    """Leave what was found beside the results."""
    import triton

    path = folder / f"{table}-{triton.__version__}.json"
    path.write_text(json.dumps({"triton": triton.__version__, "target": target, **found}, indent=1) + "\n")
    return path
