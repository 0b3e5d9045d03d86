"""Times the Gluon transpose of `examples/gluon_transpose.py` with each choice of layouts, side by side.

    python -m bench.gluon_example [--sizes 4096 8192] [--turns 12] [--output FOLDER]

In every turn each choice is timed once, so that all see the same clocks. A ratio is the median over the turns
of the first choice's time over this one's in the same turn.
"""

from __future__ import annotations

import functools
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import triton

from bench.harness.options import Parser
from bench.harness.report import page, table
from bench.harness.results import publish
from bench.harness.turns import in_turns
from triton_linear.examples.gluon_transpose import checked, choices, has_gpu


def measure(size: int, turns: int) -> list[dict[str, Any]]:
    """A record for each choice: its median time in ms and how much faster it is than the first one."""
    chosen = choices()
    runs = {name: checked(layouts, size) for name, layouts in chosen.items()}
    timed = functools.partial(triton.testing.do_bench, warmup=5, rep=30, return_mode="median")
    times = in_turns({name: functools.partial(timed, run) for name, run in runs.items()}, turns)
    first = times[next(iter(times))]
    moved = 2 * 2 * size * size
    return [
        {
            "size": size,
            "choice": name,
            "ms": statistics.median(each),
            "gigabytes_per_second": moved / statistics.median(each) / 1e6,
            "faster": statistics.median(a / b for a, b in zip(first, each, strict=True)),
            "wavefronts": [report.wavefronts for report in chosen[name].reports()],
            "minimum": [report.minimum for report in chosen[name].reports()],
        }
        for name, each in times.items()
    ]


def markdown(result: dict[str, Any]) -> str:
    """The records as a table."""
    rows = [
        (
            row["size"],
            row["choice"],
            ", ".join(f"{a} ({b})" for a, b in zip(row["wavefronts"], row["minimum"], strict=True)),
            f"{row['gigabytes_per_second']:.0f}",
            f"{row['faster']:.2f}",
        )
        for row in result["rows"]
    ]
    return page(
        f"Transposes of f16 matrices in Gluon, {result['gpu']}, Triton {result['triton']}, {result['date']}.",
        "",
        *table("size: | layouts | wavefronts written, read (least) | GB/s: | times as fast:", rows),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write the results; needs a GPU."""
    parser = Parser("gluon_example", __doc__, whole=True).turns(12, "how often each choice is timed").output()
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192], help="of the square matrices")
    arguments = parser.parse_args(argv)
    if not has_gpu():
        parser.error("there is no GPU that PyTorch knows")
    import torch

    rows = [row for size in arguments.sizes for row in measure(size, arguments.turns)]
    publish(arguments.output, "gluon_example", markdown, gpu=torch.cuda.get_device_name(), rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
