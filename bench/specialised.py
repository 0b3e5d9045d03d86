"""Warp-specialised matmul and attention, in Triton and in Gluon: right, and timed in turns with stock Triton.

    python -m bench.specialised [--only REGEX] [--turns 40] [--dry cuda:90] [--output FOLDER]

Each kernel runs with stock Triton and with the plugin. Results are compared bit for bit with each other and,
within a tolerance, with PyTorch's. Times are those of CUDA graphs in turns. The exit status is 1 unless all are
right and every conversion is the plugin's. `--dry` compiles for a target and launches nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import triton

from triton_linear.examples import specialised, specialised_gluon
from triton_linear.examples.compare import gpu_name, modes, same_bits
from triton_linear.examples.spec import KernelSpec, Problem, gpu_target
from triton_linear.report import Report

from .harness.cases import chosen
from .harness.child import empty_cache
from .harness.options import Parser
from .harness.report import between, counted, number, page, table
from .harness.results import publish
from .harness.turns import STOCK, calls_for, captured, memory_pools, replay, summary

PLUGIN = "plugin"


def became(reports: Sequence[Report]) -> dict[str, int]:
    """How many conversions each plan has."""
    found: dict[str, int] = {}
    for report in reports:
        for conversion in report.conversions:
            found[conversion.lowering] = found.get(conversion.lowering, 0) + 1
    return found


def compiled(spec: KernelSpec, target: str) -> dict[str, Any]:
    """A record of a kernel that is compiled and not launched."""
    given = {"target": gpu_target(target), "options": dict(spec.options)}
    stock = triton.compile(spec.source(), **given)
    with dict(modes(strict=True))[PLUGIN]() as reports:
        ours = triton.compile(spec.source(), **given)
    return {
        "name": spec.name,
        "plans": became(reports),
        "left": sum(len(report.left) for report in reports),
        "shared": {STOCK: stock.metadata.shared, PLUGIN: ours.metadata.shared},
    }


def run(problem: Problem, turns: int) -> dict[str, Any]:
    """A record of a kernel that is launched, with both compilers."""
    expected = problem.reference()
    outputs: dict[str, Mapping[str, Any]] = {}
    graphs: dict[str, list[Any]] = {}
    pools = memory_pools()
    reports: list[Report] = []
    repeated = 1
    for mode, context in modes():
        with context() as gathered:
            outputs[mode] = {name: value.clone() for name, value in problem.launch().items()}
            if not graphs:
                repeated = calls_for(triton.testing.do_bench(problem.launch, return_mode="median"))
            graphs[mode] = [captured(problem.launch, repeated, pool)[0] for pool in pools]
            reports += gathered
    errors = {
        mode: max(_error(output[name], expected[name]) for name in expected) for mode, output in outputs.items()
    }
    return {
        "name": problem.name,
        "plans": became(reports),
        "left": sum(len(report.left) for report in reports),
        "identical": all(same_bits(outputs[STOCK][name], outputs[PLUGIN][name]) for name in expected),
        "errors": errors,
        "tolerance": problem.tolerance,
        "times": summary(replay(graphs, turns), repeated),
    }


def _error(got: Any, expected: Any) -> float:
    """The largest difference, relative to the largest expected value; infinite where something is no number."""
    difference = float(((got.float() - expected.float()).abs().max() / expected.float().abs().max()).item())
    return float("inf") if math.isnan(difference) else difference


def right(record: Mapping[str, Any]) -> bool:
    """Whether every conversion is ours, and what ran gave what it must."""
    ran = [record["errors"][PLUGIN] < record["tolerance"]] if "errors" in record else []
    return not record["left"] and all(ran)


def markdown(result: Mapping[str, Any]) -> str:
    """The records as a table."""
    rows = []
    for record in result["rows"]:
        times, errors = record.get("times", {}), record.get("errors", {})
        rows.append(
            (
                record["name"],
                counted(record["plans"]),
                record["left"],
                {True: "identical", False: "differ", None: ""}[record.get("identical")],
                *(number(errors.get(mode), 5) for mode in (STOCK, PLUGIN)),
                *(number(times.get(mode, {}).get("microseconds"), 1) for mode in (STOCK, PLUGIN)),
                between(times.get(PLUGIN, {}).get("ratio")),
            )
        )
    return page(
        f"Warp-specialised kernels, {result['device']}, Triton {result['triton']}, {result['date']}.",
        "",
        *table(
            "kernel | conversions by plan | left: | results | error, stock: | error, plugin: | stock us: | "
            "plugin us: | stock / plugin:",
            rows,
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = Parser("specialised", __doc__, whole=True).only("kernels").turns(40).dry("cuda:90").output()
    options = parser.parse_args(argv)
    device = f"compiled for {options.dry}" if options.dry else gpu_name()
    if device is None:
        parser.error("there is no GPU that PyTorch knows; --dry cuda:90 compiles")
    with empty_cache():
        if options.dry:
            specs = [
                spec
                for example in (specialised, specialised_gluon)
                for spec in example.compile_specs(gpu_target(options.dry))
            ]
            rows = [compiled(spec, options.dry) for spec in chosen("specialised", specs, options.only)]
        else:
            arch = triton.runtime.driver.active.get_current_target().arch
            problems = (*specialised.problems("cuda"), *specialised_gluon.problems("cuda", arch))
            rows = [run(problem, options.turns) for problem in chosen("specialised", problems, options.only)]
    stem = "specialised_dry" if options.dry else "specialised"
    publish(options.output, stem, markdown, device=device, rows=rows)
    return int(not all(right(record) for record in rows))


if __name__ == "__main__":
    sys.exit(main())
