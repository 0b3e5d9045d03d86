"""Runs kernels of the reproduction's tables in Triton's interpreter, on the CPU; prints JSON.

    TRITON_INTERPRET=1 python test/unit/support/paper_interpreted.py

"mxfp4": by route and type, how far products are apart, all multiplied as f16: the interpreter has no bf16.
"mixed": the keys of cases that are not float64's product bit for bit; "ran" says how many did.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import torch
import triton.language as tl

from bench.kernels.measure import Inputs
from bench.paper import mixed, mxfp4
from bench.paper.mixed_kernel import mixed_matmul

WIDTH = 256


def of_mxfp4(case: mxfp4.Product) -> dict[str, Any]:
    """What `judged` says of a small product; results stay in f32."""
    _, arguments = mxfp4.make(case, torch, Inputs("cpu"), WIDTH)
    function, constants = mxfp4.kernel(case, WIDTH)
    out = torch.full((case.rows, WIDTH), float("nan"))
    grid = (WIDTH // case.tile[1], case.rows // case.tile[0])
    function[grid](*arguments, out, **(constants | {"TYPE": tl.float16}))
    return mxfp4.judged(case, arguments, out)


def of_mixed(case: mixed.Mixed) -> bool:
    """Whether every bit of the product is float64's."""
    a, b, product = mixed.operands(case)
    out = torch.full(product.shape, float("nan"), dtype=mixed.torch_type(case.result))
    type_ = getattr(tl, mixed.PRODUCTS[case.floating])
    mixed_matmul[(1,)](a, b, out, case.m, case.n, mixed.DEPTH, type_)
    return bool(torch.equal(out.double(), product))


def main() -> None:
    """Run and print."""
    products = [
        mxfp4.Product(activation, route, 16)
        for activation in ("e4m3", "e5m2", "f16")
        for route in mxfp4.ROUTES[1:]
    ]
    some = mixed.cases()[::13]
    found = {
        "mxfp4": {case.key: of_mxfp4(case) for case in products},
        "mixed": [case.key for case in some if not of_mixed(case)],
        "ran": len(some),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
