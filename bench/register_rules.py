"""What rules about registers would change in the choice of layouts, without a GPU.

    python -m bench.register_rules FOLDER_OR_FILE.ttgir... [--target cuda:90] [--measured FILE] [--workers N]
                                   [--output FOLDER]

Modules are what `python -m bench.foreign --compile-only --dump DIR` left. Those whose layouts the plugin
changes are compiled by stock Triton and with the plugin, but for the bounds on registers that are tried
afterwards. A rule says for which of them the layouts are to be other ones, by the estimate of registers
(`passes/analysis/registers.py`) or by what ptxas gives. These are compiled twice more: with Triton's layouts,
and with the assignment that is next by modelled cost.

Beside that is how fast the kernels of each rule were with the plugin, as `--measured` has it, a `foreign.json`
of a GPU: what a rule keeps from being slower than stock Triton, and from being faster. Operators have variants
of one kernel, so means are over functions, too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_linear.dialect import bridge, ll
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes.analysis.registers import estimate
from triton_linear.passes.attempts import concerning
from triton_linear.ptxas.occupancy import MOST, resident
from triton_linear.setting import Options
from triton_linear.tools.support.backend import Lowered, lower
from triton_linear.tools.support.compile import (
    DEFAULTS,
    compiled,
    prepared_module,
    read_module,
    set_target,
    to_triton,
)
from triton_linear.variants import VARIANTS

from .harness.cases import say
from .harness.child import scatter
from .harness.options import Parser
from .harness.progress import progress
from .harness.report import listed, number, page, table
from .harness.results import of_release, publish
from .harness.statistics import geometric_mean
from .registers import FOREIGN, PATIENCE, Subject, different, files, used

STOCK, OURS = "stock", "ours"
INSTEAD = ("lower", "second")
"""The variants that are compiled where a rule holds: Triton's layouts, and the next assignment."""
SLOWER, FASTER = 0.98, 1.02
Row = Mapping[str, Any]


def ctas(registers: float, row: Row, gpu: Target, shared: int = 0) -> int:
    """CTAs of a multiprocessor with so many registers a thread and so much shared memory."""
    found = resident(min(MOST, max(1, round(registers))), row["warps"], gpu.registers, gpu.lanes)
    memory = gpu.max_shared_bytes + gpu.reserved_shared_bytes
    return min(found, gpu.resident_warps // row["warps"], memory // (shared + gpu.reserved_shared_bytes))


def _compiled_ctas(row: Row, side: str, gpu: Target) -> int:
    registers, _, shared = row[side]
    return ctas(registers, row, gpu, shared)


def _estimated_step(row: Row, gpu: Target) -> bool:
    before, after = row["before"], row["after"]
    return ctas(after, row, gpu) < ctas(before, row, gpu) or after > MOST >= before


def _saves_little(row: Row) -> bool:
    return bool(row["saved"] < 0.05)


RULES: dict[str, Callable[[Row, Target], bool]] = {
    "estimate: a CTA less, or spills": _estimated_step,
    "the same, and less than 5 % saved": lambda row, gpu: _estimated_step(row, gpu) and _saves_little(row),
    "estimate: 1 % more, less than 5 % saved": (
        lambda row, gpu: row["after"] > 1.01 * row["before"] and _saves_little(row)
    ),
    "ptxas: a CTA less": lambda row, gpu: _compiled_ctas(row, OURS, gpu) < _compiled_ctas(row, STOCK, gpu),
    "the same, and less than 5 % saved by the model": (
        lambda row, gpu: _compiled_ctas(row, OURS, gpu) < _compiled_ctas(row, STOCK, gpu) and _saves_little(row)
    ),
    "ptxas: 16 more, less than 5 % saved": (
        lambda row, gpu: row[OURS][0] >= row[STOCK][0] + 16 and _saves_little(row)
    ),
}
"""When the layouts would be other ones. `saved` is the part of all clocks that the model says is saved."""


def measure(subject: Subject, target: str) -> dict[str, Any] | None:
    """The row of a module; None where its layouts stay."""
    module = read_module(subject.text, bridge.upstream_context(), subject.name)
    gpu = set_target(module, target)
    warps = module.operation.attributes["ttg.num-warps"].value
    stock = bridge.triton_text(module)
    before = estimate(module.operation)
    prepared = prepared_module(module, gpu, concerning(DEFAULTS, module))
    attributes = module.operation.attributes
    if ll.ASSIGNED not in attributes:
        return None
    present, changed = (each.value for each in attributes[ll.ASSIGNED])
    row: dict[str, Any] = {"module": subject.name, "warps": warps, "saved": 1 - changed / present}
    row |= {"before": before, "after": estimate(prepared.module.operation)}
    row[STOCK] = _figures(lower(to_triton(stock), target, "cubin"))
    row[OURS] = _figures(compiled(prepared, "cubin", stock=stock).lowered)
    if any(holds(row, gpu) for holds in RULES.values()):
        for name in INSTEAD:
            row[name] = _instead(subject, target, name, stock)
    return row


def _instead(subject: Subject, target: str, name: str, stock: str) -> list[int]:
    """The figures of a module that is compiled as a variant."""
    module = read_module(subject.text, bridge.upstream_context(), subject.name)
    gpu = set_target(module, target)
    options = VARIANTS[name].of(Options())
    if options is None:
        raise ValueError(f"variant '{name}' is stock Triton")
    prepared = prepared_module(module, gpu, concerning(options.pipeline, module))
    return _figures(compiled(prepared, "cubin", stock=stock).lowered)


def _figures(lowered: Lowered) -> list[int]:
    """Registers, bytes of stack, and bytes of shared memory."""
    found = used(lowered.stages["cubin"])
    return [found.registers, found.stack, lowered.metadata.get("shared") or 0]


def speeds(path: Path) -> dict[str, float]:
    """How fast each specialisation was, beside stock Triton, by the digest that ends its name."""
    found: dict[str, float] = {}
    for case in json.loads(path.read_text())["cases"]:
        for kernel in (case.get("measured") or {}).get("kernels", ()):
            if "ratio" in kernel:
                found[kernel["key"].rpartition("#")[2]] = kernel["ratio"][1]
    return found


def _parts(module: str) -> tuple[str, str]:
    """The function of a module of bench.foreign, and its digest."""
    function, _, digest = module.rpartition("_")
    return function, digest


def of_rule(rows: Sequence[Row], measured: Mapping[str, float], gpu: Target) -> dict[str, Any]:
    """What becomes of the modules of a rule, and how fast they were."""
    found: dict[str, Any] = {"modules": len(rows), "instead": {}}
    for name in INSTEAD:
        changes = [row[name][0] - row[OURS][0] for row in rows]
        steps = [_compiled_ctas(row, name, gpu) - _compiled_ctas(row, OURS, gpu) for row in rows]
        stacks = [row[name][1] - row[OURS][1] for row in rows]
        found["instead"][name] = [_signs(changes), _signs(steps), _signs(stacks)]
    by_function: dict[str, list[float]] = {}
    for row in rows:
        function, digest = _parts(row["module"])
        if digest in measured:
            by_function.setdefault(function, []).append(measured[digest])
    means = [geometric_mean(ratios) for ratios in by_function.values()]
    every = [ratio for ratios in by_function.values() for ratio in ratios]
    found["measured"] = _speed(every)
    found["functions"] = _speed([mean for mean in means if mean is not None])
    return found


def _signs(changes: Sequence[int]) -> list[int]:
    """How many are less, and how many more."""
    return [sum(each < 0 for each in changes), sum(each > 0 for each in changes)]


def _speed(ratios: Sequence[float]) -> dict[str, Any]:
    return {
        "number": len(ratios),
        "mean": geometric_mean(ratios),
        "slower": sum(ratio < SLOWER for ratio in ratios),
        "faster": sum(ratio > FASTER for ratio in ratios),
    }


def summary(rows: Sequence[Row], measured: Mapping[str, float], gpu: Target) -> dict[str, Any]:
    """The figures of each rule."""
    return {
        rule: of_rule([row for row in rows if holds(row, gpu)], measured, gpu) for rule, holds in RULES.items()
    }


def markdown(result: Mapping[str, Any]) -> str:
    """The figures for people."""
    found = result["summary"]
    lines = [
        f"{len(result['rows'])} modules for {result['target']} whose layouts the plugin changes, Triton "
        f"{result['triton']}, triton-linear {result['triton_linear']}, {result['date']}. A rule says for which "
        "the layouts would be other ones; *less, more* are modules, beside the plugin's own code.",
        "",
        *table(
            "rule | modules: | Triton's layouts: registers less, more | CTAs | spills | next assignment: "
            "registers | CTAs | spills",
            (
                (rule, each["modules"], *(_pair(pair) for name in INSTEAD for pair in each["instead"][name]))
                for rule, each in found.items()
            ),
        ),
        "",
        "How fast they are with the plugin beside stock Triton, where that was measured, as geometric means:",
        "",
        *table(
            f"rule | kernels: | mean: | below {SLOWER}: | above {FASTER}: "
            "| functions: | mean: | below: | above:",
            ((rule, *_cells(each["measured"]), *_cells(each["functions"])) for rule, each in found.items()),
        ),
    ]
    lines += listed("Not compiled:", (f"{each['module']}: {each['error']}" for each in result["failed"]))
    return page(*lines)


def _pair(pair: Sequence[int]) -> str:
    return ", ".join(map(str, pair))


def _cells(speed: Mapping[str, Any]) -> tuple[object, ...]:
    return speed["number"], number(speed["mean"], 3), speed["slower"], speed["faster"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = (
        Parser("register_rules", __doc__, whole=True).modules("+").only("modules").workers(count=1).output()
    )
    parser.add_argument("--target", default="cuda:90")
    parser.add_argument("--measured", type=Path, metavar="FILE", default=of_release() / "foreign.json")
    options = parser.parse_args(argv)
    found = [each for each in different([*files(options.paths, FOREIGN)]) if re.search(options.only, each.name)]
    if not found:
        raise SystemExit("register_rules: there are no modules")
    rows: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    with progress("modules", len(found)) as advance:

        def done(place: int, row: dict[str, Any] | None) -> None:
            advance(found[place].name)
            if row is not None and "error" in row:
                failed.append({"module": found[place].name, "error": row["error"].splitlines()[0]})
            elif row is not None:
                rows.append(row)

        scatter(measure, [(each, options.target) for each in found], options.workers, done, patience=PATIENCE)
    rows.sort(key=lambda row: str(row["module"]))
    measured = speeds(options.measured) if options.measured.is_file() else {}
    publish(
        options.output,
        "register_rules",
        markdown,
        target=options.target,
        summary=summary(rows, measured, target_called(options.target)),
        failed=failed,
        rows=rows,
    )
    say(f"{len(rows)} modules, {len(failed)} not compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
