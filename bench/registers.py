"""How well the registers that a module is estimated to need agree with what ptxas gives it, without a GPU.

    python -m bench.registers [FOLDER_OR_FILE.ttgir...] [--foreign DIR] [--every N] [--target cuda:90]
                              [--workers N] [--output FOLDER]

Modules are TTGIR files. Where none is named they are those of test/data/ttgir, the examples, and the kernels of
bench/kernels that are written by hand; and of those that `python -m bench.foreign --compile-only --dump DIR`
left every Nth. Each is compiled for the target by stock Triton and with the plugin, but for the bounds on
registers that this tries afterwards, and the cubin says how many registers a thread has and what it spills.
`passes/analysis/registers.py` looks at the module before all passes and behind them.

Spilled words count as registers: that is what would have been needed. A module that the plugin leaves alone
counts once, and says nothing of what changes.
"""

from __future__ import annotations

import itertools
import re
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kernels.cases import cases
from triton_linear.dialect import bridge
from triton_linear.examples import specs
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes.analysis.registers import estimate
from triton_linear.passes.attempts import concerning
from triton_linear.ptxas.cubin import Usage, usage
from triton_linear.ptxas.occupancy import MOST, resident
from triton_linear.tools.support.backend import lower, ttgir_of
from triton_linear.tools.support.compile import (
    DEFAULTS,
    compiled,
    prepared_module,
    read_module,
    set_target,
    to_triton,
)

from .harness.cases import say
from .harness.child import scatter
from .harness.options import Parser
from .harness.progress import progress
from .harness.report import listed, number, page, table
from .harness.results import publish
from .harness.statistics import spearman

DATA = Path(__file__).parents[1] / "test" / "data" / "ttgir"
FILES, EXAMPLES, KERNELS, FOREIGN = "files", "examples", "bench/kernels", "bench/foreign"
PATIENCE = 300.0
STEPS = (4, 8, 16, 32)
"""Registers that the estimate says are to come."""
_TARGET = re.compile(r'ttg\.target"? = "([^"]+)"')
_LOCATION = re.compile(r"loc\([^)]*\)|#loc\d*( = .*)?")
_SHOWN = 12
_WORD = 4


@dataclass(frozen=True)
class Subject:
    """A module and where it is from."""

    group: str
    name: str
    text: str


def files(paths: Sequence[Path], group: str, every: int = 1) -> Iterator[Subject]:
    """Every so many of the modules for NVIDIA GPUs in some files and folders."""
    found = [sorted(path.rglob("*.ttgir")) if path.is_dir() else [path] for path in paths]
    for path in list(itertools.chain.from_iterable(found))[::every]:
        text = path.read_text()
        named = _TARGET.search(text)
        if named is None or named[1].startswith("cuda:"):
            yield Subject(group, path.stem, text)


def sources(target: str) -> Iterator[Subject]:
    """The examples, and the kernels of bench/kernels that need no GPU to be compiled."""
    gpu = gpu_target(target)
    named: list[tuple[str, str, Any, Mapping[str, Any]]] = [
        (EXAMPLES, spec.name, spec.source(), spec.options) for spec in specs(gpu)
    ]
    for case in cases():
        if case.sources is not None:
            for name, (source, options) in case.sources(gpu).items():
                named.append((KERNELS, f"{case.name}: {name}", source, options))
    for group, name, source, options in named:
        yield Subject(group, name, str(ttgir_of(source, gpu, dict(options))))


def different(subjects: Sequence[Subject]) -> list[Subject]:
    """The first of those that are the same but for locations."""
    return list({_LOCATION.sub("", each.text): each for each in reversed(subjects)}.values())[::-1]


def needed(used: Usage) -> float:
    """Registers of a thread, and the words that are on its stack for want of more."""
    return used.registers + used.stack / _WORD


def measure(subject: Subject, target: str) -> dict[str, Any]:
    """The row of a module."""
    module = read_module(subject.text, bridge.upstream_context(), subject.name)
    gpu = set_target(module, target)
    warps = module.operation.attributes["ttg.num-warps"].value
    stock = bridge.triton_text(module)
    before = estimate(module.operation)
    found = used(lower(to_triton(stock), target, "cubin").stages["cubin"])
    prepared = prepared_module(module, gpu, concerning(DEFAULTS, module))
    row = {"group": subject.group, "module": subject.name, "warps": warps, "differs": prepared.differs}
    row |= {"stock": [found.registers, found.stack], "before": before}
    if prepared.differs:
        after = estimate(prepared.module.operation)
        made = compiled(prepared, "cubin", stock=stock)
        found = used(made.lowered.stages["cubin"])
        row |= {"ours": [found.registers, found.stack], "after": after}
    return row


def used(cubin: object) -> Usage:
    """What the kernel of a cubin uses.

    Raises ValueError where the cubin does not say it.
    """
    found = usage(cubin)
    if found is None:
        raise ValueError("the cubin does not say what one kernel uses")
    return found


def agreement(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """How far estimates are from figures: the relative error, signed in the median, and the ranks."""
    signed = sorted((guess - figure) / figure for guess, figure in pairs)
    errors = sorted(map(abs, signed))
    return {
        "number": len(pairs),
        "median": round(statistics.median(errors), 3),
        "ninth": round(errors[(9 * len(errors) - 1) // 10], 3),
        "signed": round(statistics.median(signed), 3),
        "rank": round(spearman([guess for guess, _ in pairs], [figure for _, figure in pairs]), 3),
    }


def of_changes(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How well a change of the estimate tells that of the registers."""
    pairs = [(row["after"] - row["before"], _figure(row, "ours") - _figure(row, "stock")) for row in rows]
    moved = [(guess, figure) for guess, figure in pairs if guess]
    return {
        "number": len(pairs),
        "rank": round(spearman([guess for guess, _ in pairs], [figure for _, figure in pairs]), 3),
        "error": round(statistics.median(abs(guess - figure) for guess, figure in pairs), 1),
        "without": round(statistics.median(abs(figure) for _, figure in pairs), 1),
        "signs": [len(moved), sum(guess * figure > 0 for guess, figure in moved)],
        "rises": [_rise(pairs, step) for step in STEPS],
        "falls": [_rise([(-guess, -figure) for guess, figure in pairs], step) for step in STEPS],
    }


def _rise(pairs: Sequence[tuple[float, float]], step: int) -> dict[str, Any]:
    """Where the estimate says so many more: in how many there are more at all, and half as many more."""
    told = [figure for guess, figure in pairs if guess >= step]
    return {
        "step": step,
        "told": len(told),
        "more": sum(figure > 0 for figure in told),
        "half": sum(figure >= step / 2 for figure in told),
        "there": sum(figure >= step for _, figure in pairs),
        "there_and_told": sum(figure >= step and guess > 0 for guess, figure in pairs),
    }


def crossings(rows: Sequence[Mapping[str, Any]], gpu: Target) -> dict[str, Any]:
    """Modules that the estimate says lose a CTA of a multiprocessor, or begin to spill, and those that do."""

    def ctas(registers: float, warps: int) -> int:
        return resident(min(MOST, max(1, round(registers))), warps, gpu.registers, gpu.lanes)

    found: dict[str, list[list[str]]] = {}
    told = {
        "a CTA less": lambda row: ctas(row["after"], row["warps"]) < ctas(row["before"], row["warps"]),
        "spills": lambda row: row["after"] > MOST >= row["before"],
    }
    happens = {
        "a CTA less": lambda row: ctas(row["ours"][0], row["warps"]) < ctas(row["stock"][0], row["warps"]),
        "spills": lambda row: row["ours"][1] > row["stock"][1],
    }
    for what in told:
        said, so = ([row["module"] for row in rows if each[what](row)] for each in (told, happens))
        found[what] = [said, so, [name for name in said if name in set(so)]]
    return found


def _figure(row: Mapping[str, Any], side: str) -> float:
    return needed(Usage(*row[side]))


def _pairs(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Estimates and figures of every cubin."""
    found = [(row["before"], _figure(row, "stock")) for row in rows]
    return found + [(row["after"], _figure(row, "ours")) for row in rows if row["differs"]]


def summary(rows: Sequence[Mapping[str, Any]], gpu: Target) -> dict[str, Any]:
    """All figures of a run."""
    changed = [row for row in rows if row["differs"]]
    groups = {"all": rows} | {
        group: [row for row in rows if row["group"] == group]
        for group in dict.fromkeys(row["group"] for row in rows)
    }
    return {
        "agreement": {group: agreement(_pairs(members)) for group, members in groups.items()},
        "changes": of_changes(changed) if changed else None,
        "crossings": crossings(changed, gpu),
    }


def markdown(result: Mapping[str, Any]) -> str:
    """The figures for people."""
    rows, found = result["rows"], result["summary"]
    differ = sum(row["differs"] for row in rows)
    lines = [
        "Registers of a thread as estimated from TTGIR and as ptxas gives them, with spilled words: "
        f"{len(rows)} modules for {result['target']}, {differ} of which the plugin compiles to something else, "
        f"Triton {result['triton']}, triton-linear {result['triton_linear']}, {result['date']}"
        + (f"; of those of bench/foreign every {result['every']}th" if result["every"] > 1 else "")
        + ".",
        "",
        *table(
            "cubins of | number: | relative error: median: | 9 in 10 below: | signed: | rank correlation:",
            (
                (name, *(each[key] for key in ("number", "median", "ninth", "signed", "rank")))
                for name, each in found["agreement"].items()
            ),
        ),
    ]
    if found["changes"]:
        lines += ["", *_changes(found["changes"])]
        lines += [
            "",
            *table("with the plugin | estimated: | compiled: | both:", _crossings(found["crossings"])),
        ]
    below = sorted(rows, key=lambda row: float(row["before"] - _figure(row, "stock")))
    lines += listed("The farthest below what is needed:", map(_shown, below[:_SHOWN]))
    lines += listed("The farthest above:", map(_shown, below[: -_SHOWN - 1 : -1]))
    lines += listed("Not compiled:", (f"{each['module']}: {each['error']}" for each in result["failed"]))
    return page(*lines)


def _changes(changes: Mapping[str, Any]) -> list[str]:
    told, right = changes["signs"]
    return [
        f"With the plugin and without, {changes['number']} modules: what the estimate and the registers change "
        f"by has a rank correlation of {changes['rank']}. The estimate of a change is off by "
        f"{changes['error']} registers in the median, the guess that nothing changes by {changes['without']}. "
        f"Of {told} modules whose estimate changes {right} change that way.",
        "",
        *table(
            "estimate | modules: | registers too: | half as much: | registers change so: | estimate too:",
            (
                (f"{sign}{each['step']} or {word}", *(each[key] for key in _CHANGED))
                for sign, word, key in (("+", "more", "rises"), ("-", "less", "falls"))
                for each in changes[key]
            ),
        ),
    ]


_CHANGED = ("told", "more", "half", "there", "there_and_told")


def _crossings(found: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[tuple[object, ...]]:
    for what, lists in found.items():
        yield (what, *map(len, lists))


def _shown(row: Mapping[str, Any]) -> str:
    registers, stack = row["stock"]
    spilled = f" and {stack} bytes of stack" if stack else ""
    return f"{row['module']}: {number(row['before'], 0)} for {registers} registers{spilled}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("registers", __doc__, whole=True).modules("*").only("modules").workers(count=1).output()
    parser.add_argument("--foreign", type=Path, metavar="DIR", help="modules of bench.foreign")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of these, every Nth")
    parser.add_argument("--target", default="cuda:90")
    options = parser.parse_args(argv)
    found = [*files(options.paths or [DATA], FILES), *([] if options.paths else sources(options.target))]
    if options.foreign is not None:
        found += files([options.foreign], FOREIGN, options.every)
    found = [each for each in different(found) if re.search(options.only, each.name)]
    if not found:
        raise SystemExit("registers: there are no modules")
    rows: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    with progress("modules", len(found)) as advance:

        def done(place: int, row: dict[str, Any]) -> None:
            advance(found[place].name)
            if "error" in row:
                failed.append({"module": found[place].name, "error": row["error"].splitlines()[0]})
            else:
                rows.append(row)

        calls = [(each, options.target) for each in found]
        scatter(measure, calls, options.workers, done, patience=PATIENCE)
    order = {(each.group, each.name): place for place, each in enumerate(found)}
    rows.sort(key=lambda row: order[row["group"], row["module"]])
    publish(
        options.output,
        "registers",
        markdown,
        target=options.target,
        every=options.every,
        summary=summary(rows, target_called(options.target)),
        failed=failed,
        rows=rows,
    )
    say(f"{len(rows)} modules, {len(failed)} not compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
