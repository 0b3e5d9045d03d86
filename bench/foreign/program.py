"""A program that launches every kernel of the other packages once, for `triton-linear tune`.

    triton-linear tune -m bench.foreign.program [--archive FILE] [--only REGEX] [--config middle]

What it compiles for stock Triton goes to TRITON_CACHE_DIR, one kernel after another; in parallel, before, by

    python -m bench.foreign --compile-only --control --cache $TRITON_CACHE_DIR

Autotuners take the configuration that `python -m bench.foreign` takes. What `tune` decides is then followed by
`python -m bench.foreign --beside decided`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..harness.cases import chosen, say
from ..harness.options import Parser
from . import compiled, launches
from .suite import FOREIGN, Suite


def main(suite: Suite = FOREIGN, argv: Sequence[str] | None = None) -> int:
    """Launch them; a case that fails is said and left."""
    import torch

    parser = Parser(f"{suite.name}.program", __doc__).only()
    parser.add_argument("--archive", type=Path, default=suite.archive, help="what fetch wrote")
    parser.add_argument("--config", choices=launches.RANKS, default=launches.RANKS[0])
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        suite.unpack(options.archive, site)
        compiled.ready(suite, str(site), os.environ.get("TRITON_CACHE_DIR") or str(Path(folder, "cache")))
        with launches.configured(options.config):
            for case in chosen(suite.name, suite.cases(), options.only):
                try:
                    call = case.make(suite.inputs())
                    launches.without_kernel_caches()
                    call()
                    torch.cuda.synchronize()
                except (Exception, SystemExit) as problem:
                    say(f"{case.name}: {compiled.error_of(problem)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
