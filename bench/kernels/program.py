"""A program that launches the kernels of the suite, for `triton-linear tune`.

    triton-linear tune -m bench.kernels.program [--only REGEX] [--configs JSON]

Inductor's kernels are in the configurations that it chooses with stock Triton or, of a kernels.json, in those
that an earlier run of `python -m bench.kernels` has chosen: with the same `--configs` its mode `decided` then
follows what `tune` decides.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from ..harness.cases import chosen, say
from ..harness.options import Parser
from . import inductor
from .case import TORCH
from .cases import cases
from .measure import Inputs
from .run import configs_of


def main(argv: Sequence[str] | None = None) -> int:
    """Launch them; a case that fails is said and left."""
    parser = Parser("kernels", __doc__).only()
    parser.add_argument("--configs", type=Path, metavar="JSON")
    options = parser.parse_args(argv)
    inductor.prepare()
    import torch

    configs = configs_of(options.configs)
    for case in chosen("kernels", cases(), options.only):
        torch.manual_seed(0)
        try:
            function, arguments = case.make(torch, Inputs())
            if case.kind == TORCH:
                with torch.no_grad():
                    compiled = inductor.Compiled(function, arguments, configs.get(case.name, ()))
                    compiled.compile(pinned=True)
                    compiled.call()
            else:
                function(*arguments)
            torch.cuda.synchronize()
        except (Exception, SystemExit) as problem:
            say(f"{case.name}: {type(problem).__name__}: {problem}")
        gc.collect()
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
