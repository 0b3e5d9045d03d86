"""How long plans take to be proved, against how long they take to be made.

The plans are those of all conversions that the passes find in some modules, with layouts as they are and newly
assigned, and those of the cases of `bench/conversions`, both ways. Each is made with nothing remembered, proved
right after, as in a compile, and looked up once more, as when a process meets the same conversion again. Each
time is the best of some rounds.

    python -m bench.proof_time FOLDER_OR_FILE.ttgir... [--rounds 5] [--output FOLDER]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.conversions.build import directions
from bench.conversions.cases import cases
from bench.harness.cases import say
from bench.harness.report import page, table
from bench.harness.results import publish
from bench.pass_time import forget, modules, parser, target_of
from triton_linear.dialect import bridge
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import Selection
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target import targets
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import rewrite

Conversion = tuple[Any, ...]
"""What `select` is asked for."""
TARGET = "cuda:90"


def in_module(path: Path) -> set[Conversion]:
    """The conversions for which the passes choose a plan."""
    text = path.read_text()
    found: set[Conversion] = set()
    target = targets.target(target_of(text))
    for assign in (False, True):
        module = bridge.text_to_upstream(text, bridge.upstream_context())
        made = rewrite(module, PipelineOptions(assign=assign, reductions=False), target, remarks=False)
        found |= {(stub.source, stub.destination, stub.element, target) for stub in made.stubs.values()}
    return found


def of_suite() -> set[Conversion]:
    """The conversions of the cases of `bench/conversions` that have a plan."""
    target = targets.target(TARGET)
    asked = {(*sides, element_type(f"i{case.bits}"), target) for case in cases() for sides in directions(case)}
    return {conversion for conversion in asked if _planned(conversion).plan is not None}


def _planned(conversion: Conversion) -> Selection:
    source, destination, element, gpu = conversion
    return select(source, destination, element, Situation.on(gpu))


def milliseconds(action: Callable[[], Any]) -> float:
    """What one call takes."""
    start = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - start)


def measure(conversion: Conversion, rounds: int) -> dict[str, Any]:
    """The row of one conversion."""
    source, destination, element, target = conversion[:4]
    best: dict[str, float] = {}
    for _ in range(rounds):
        forget()
        times = {"plan_ms": milliseconds(lambda: _planned(conversion))}
        plan = _planned(conversion).plan
        assert plan is not None  # those without were left out

        def proof(plan: Any = plan) -> str | None:
            return refuted(plan, source, destination, element, target)

        times |= {"proof_ms": milliseconds(proof), "again_ms": milliseconds(proof)}
        if reason := proof():
            raise RuntimeError(f"{plan.summary()}: {reason}")
        best = {name: min(value, best.get(name, value)) for name, value in times.items()}
    return {"plan": plan.summary(), "kind": plan.kind, "element": element.name, "target": target.name, **best}


def markdown(result: dict[str, Any]) -> str:
    """The table for people."""
    rows, figures = result["rows"], []
    groups = {
        name: [row for row in rows if row["group"] == name] for name in dict.fromkeys(r["group"] for r in rows)
    }
    groups |= {
        f"all: {kind}": [r for r in rows if r["kind"] == kind] for kind in sorted({r["kind"] for r in rows})
    }
    for name, members in groups.items():
        proofs = sorted(row["proof_ms"] for row in members)
        again, planning = (statistics.median(row[key] for row in members) for key in ("again_ms", "plan_ms"))
        each = (statistics.median(proofs), proofs[(9 * len(proofs) - 1) // 10], proofs[-1], again, planning)
        figures.append((name, len(members), *(f"{value:.2f}" for value in each)))
    longest = {row["plan"]: row for row in sorted(rows, key=lambda row: row["proof_ms"])}
    worst = [
        (row["plan"], row["element"], f"{row['proof_ms']:.2f}", f"{row['plan_ms']:.1f}")
        for row in sorted(longest.values(), key=lambda row: -row["proof_ms"])[:5]
    ]
    return page(
        f"Time to prove plans, Triton {result['triton']}, Python {result['python']}, {result['machine']}, "
        f"{result['date']}: milliseconds with nothing remembered, best of {result['rounds']}. Each different "
        "conversion of a group counts once. All of them were proved.",
        "",
        *table(
            "conversions | number: | proof: median: | 9 in 10 below: | worst: | again: median: "
            "| planning: median:",
            figures,
        ),
        "",
        *table("longest proofs | element | ms: | planning ms:", worst),
    )


def main(argv: Sequence[str] | None = None) -> int:
    options = parser("proof_time", __doc__, "*").parse_args(argv)
    found = list(modules(options.paths))
    groups: dict[str, set[Conversion]] = {}
    if found:
        groups[f"of {len(found)} modules"] = set().union(*map(in_module, found))
    groups["of `bench/conversions`, both ways"] = of_suite()
    rows = []
    for group, conversions in groups.items():
        for conversion in sorted(conversions, key=str):
            rows.append({"group": group, **measure(conversion, options.rounds)})
        say(f"{group}: {len(conversions)}")
    publish(options.output, "proof_time", markdown, rounds=options.rounds, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
