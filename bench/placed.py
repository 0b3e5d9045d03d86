"""How fast whole kernels are where their code lies at each of eight places, with stock Triton and the plugin.

    python -m bench.placed [--only REGEX] [--turns 96] [--output FOLDER]

Near its beginning a kernel has 0 to 7 instructions of 16 bytes that do nothing, so that the rest lies at each
place in a line of 128 bytes. All are timed in turns, as CUDA graphs whose results lie in the same memory.
Ratios are those to stock Triton's kernel as it is, at the first place.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import triton

from triton_linear.examples import attention, fp8_attention, int4_matmul, matmul, specialised, specialised_gluon
from triton_linear.examples.compare import gpu_name
from triton_linear.examples.spec import Problem
from triton_linear.hook import pinned
from triton_linear.report import Outcome
from triton_linear.setting import Options
from triton_linear.variants import OURS, STOCK, variant

from .harness.cases import chosen
from .harness.child import empty_cache
from .harness.options import Parser
from .harness.report import number, page, table
from .harness.results import publish
from .harness.turns import calls_for, captured, memory_pools, replay, summary

POSITIONS = 8
PLAIN = (attention, fp8_attention, int4_matmul, matmul)
"""Examples without warp specialisation."""


def options_at(mode: str, place: int) -> Options | None:
    """The options of a mode with the code at a place; None: stock Triton as it is."""
    if mode == STOCK and not place:
        return None
    changes = variant(f"{STOCK}+shifted16" if mode == STOCK else OURS).changes or {}
    return Options(strict=True, decisions="none", **dict(changes) | {"nops": place})


def run(problem: Problem, turns: int) -> dict[str, Any]:
    """The times of a kernel at each place, and their ratios to those of stock Triton at the first."""
    graphs: dict[str, list[Any]] = {}
    pools = memory_pools()
    repeated = 1
    for mode in (STOCK, OURS):
        for place in range(POSITIONS):
            with pinned(options_at(mode, place)) as reports:
                problem.launch()
                if mode == OURS and [report.outcome for report in reports] != [Outcome.CONVERTED]:
                    raise RuntimeError(f"{problem.name}: not the plugin's kernel, but {reports}")
                if not graphs:
                    repeated = calls_for(triton.testing.do_bench(problem.launch, return_mode="median"))
                name = f"{mode}{place or ''}"
                graphs[name] = [captured(problem.launch, repeated, pool)[0] for pool in pools]
    return {"name": problem.name, "times": summary(replay(graphs, turns), repeated)}


def ratios(record: Mapping[str, Any], mode: str) -> list[float]:
    """The median ratio at each place."""
    return [
        record["times"][f"{mode}{place or ''}"].get("ratio", (1.0, 1.0, 1.0))[1] for place in range(POSITIONS)
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """The records as a table."""
    rows = []
    for record in result["rows"]:
        for mode in (STOCK, OURS):
            found = ratios(record, mode)
            rows.append(
                (
                    f"{record['name']}, {mode}",
                    number(record["times"][mode]["microseconds"], 1),
                    *(number(each, 3) for each in found),
                    number(statistics.geometric_mean(found), 3),
                )
            )
    places = " | ".join(f"{16 * place}:" for place in range(POSITIONS))
    return page(
        f"Kernels by where their code lies, {result['device']}, Triton {result['triton']}, {result['date']}:",
        "the time of stock Triton's kernel as it is, over that with the code so many bytes further.",
        "",
        *table(f"kernel | us: | {places} | mean:", rows),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = Parser("placed", __doc__, whole=True).only("kernels").turns(96).output()
    options = parser.parse_args(argv)
    device = gpu_name()
    if device is None:
        parser.error("there is no GPU that PyTorch knows")
    with empty_cache():
        target = triton.runtime.driver.active.get_current_target()
        plain = [example.problem("cuda", target) for example in PLAIN]
        problems = [
            *specialised.problems("cuda"),
            *specialised_gluon.problems("cuda", target.arch),
            *(replace(problem, name=f"plain {problem.name}") for problem in plain),
        ]
        rows = [run(problem, options.turns) for problem in chosen("placed", problems, options.only)]
    publish(options.output, "placed", markdown, device=device, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
