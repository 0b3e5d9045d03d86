"""Runs the code that stock Triton emits for conversions in the interpreter, and says which of them are wrong.

    python -m bench.stock FOLDER_OR_FILE.ttgir... [--random 2000] [--suite] [--target cuda:90] [--seed 1]
                          [--output FOLDER]

The conversions are those of modules (each for the target it names, unless it has none), those of the cases of
`bench/conversions`, both ways (`--suite`), and random pairs of layouts; the latter two for each `--target`. One
that Triton crashes on, or that takes longer than `--seconds`, is counted as a failure of Triton's.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.conversions.build import directions
from bench.conversions.cases import cases
from bench.fuzz.random_layouts import Pair, random_pair
from bench.harness.cases import say
from bench.harness.options import Parser
from bench.harness.report import listed, page, sizes, table
from bench.harness.results import publish
from bench.pass_time import target_of
from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.verify.stock import RIGHT, STATUSES, Finding, check_conversions

Conversion = tuple[str, str, int, str]
"""Source type, destination type, warps, target."""
SECONDS = 20
_SHOWN = 200
_NUMBERS = re.compile(r"\b\d+\b|/proc/self/fd/\d+")


def random_pairs(seed: int, count: int, lanes: int) -> list[tuple[int, list[Pair]]]:
    """`count` pairs that depend only on `seed`, grouped by their number of warps (1 to 8).

    >>> [(warps, len(pairs)) for warps, pairs in random_pairs(seed=1, count=10, lanes=32)]
    [(1, 3), (2, 3), (4, 2), (8, 2)]
    """
    rng = random.Random(seed)
    groups: list[tuple[int, list[Pair]]] = []
    for index, warps in enumerate((1, 2, 4, 8)):
        share = count // 4 + (index < count % 4)
        if share:
            groups.append((warps, [random_pair(rng, lanes, warps) for _ in range(share)]))
    return groups


@dataclass(frozen=True)
class Group:
    """Conversions of one origin for one target, each with what it is called."""

    origin: str
    target: str
    conversions: tuple[tuple[str, Conversion], ...]


def of_modules(paths: Sequence[Path]) -> Iterator[Group]:
    """The different conversions of modules, by target."""
    found: dict[str, dict[Conversion, str]] = {}
    files = [sorted(path.rglob("*.ttgir")) if path.is_dir() else [path] for path in paths]
    for path in itertools.chain.from_iterable(files):
        text = path.read_text()
        target = target_of(text)
        try:
            module = bridge.text_to_upstream(text, bridge.upstream_context(), path.name)
        except bridge.BridgeError as error:
            say(f"{path}: left out, not a module of this Triton: {error}")
            continue
        warps = module.operation.attributes["ttg.num-warps"].value
        for op in operations(module.operation):
            if op.name == "ttg.convert_layout":
                conversion = (str(op.operands[0].type), str(op.results[0].type), warps, target)
                found.setdefault(target, {}).setdefault(conversion, f"{path.name}: {op.location}"[:_SHOWN])
    for target, of_target in sorted(found.items()):
        yield Group("modules", target, tuple((name, conversion) for conversion, name in of_target.items()))


def of_suite(target: str) -> Group:
    """The conversions of `bench/conversions`, both ways; they are for warps of 32 lanes."""
    found: list[tuple[str, Conversion]] = []
    for case in cases():
        for source, destination in directions(case):
            types = (_type(case.shape, case.bits, layout) for layout in (source, destination))
            found.append((case.name, (*types, case.warps, target)))
    return Group("bench/conversions", target, tuple(found))


def _type(shape: Sequence[int], bits: int, layout: Any) -> str:
    return f"tensor<{sizes(shape)}xi{bits}, {encodings.linear_encoding_text(layout)}>"


def of_random(target: str, seed: int, count: int) -> Group:
    """Random pairs of layouts."""
    found: list[tuple[str, Conversion]] = []
    for warps, pairs in random_pairs(seed, count, target_called(target).lanes):
        for number, pair in enumerate(pairs):
            conversion = (pair.type(pair.source), pair.type(pair.destination), warps, target)
            found.append((f"{pair.family}, {warps} warps, number {number}", conversion))
    return Group(f"random, seed {seed}", target, tuple(found))


def measure(group: Group, seconds: int, workers: int) -> dict[str, Any]:
    """What became of a group's conversions; those that are not right one by one."""
    begun = time.perf_counter()
    findings = check_conversions([conversion for _, conversion in group.conversions], seconds, workers)
    counts = Counter(finding.status for finding in findings)
    return {
        "origin": group.origin,
        "target": group.target,
        "conversions": len(findings),
        **{status: counts[status] for status in STATUSES},
        "seconds": round(time.perf_counter() - begun, 1),
        "findings": [
            _found(name, conversion, finding)
            for (name, conversion), finding in zip(group.conversions, findings, strict=True)
            if finding.status != RIGHT
        ],
    }


def _found(name: str, conversion: Conversion, finding: Finding) -> dict[str, Any]:
    source, destination, warps, _ = conversion
    what = {
        "name": name,
        "status": finding.status,
        "source": source,
        "destination": destination,
        "warps": warps,
    }
    if finding.verdict is None:
        return what | {"detail": finding.detail}
    verdict = finding.verdict
    shown = [str(each) for each in (*verdict.examples[:1], *verdict.races[:1])]
    return what | {
        "detail": "; ".join(shown),
        "wrong": verdict.wrong,
        "checked": verdict.checked,
        "shuffles": verdict.counts.shuffles,
        "accesses": len(verdict.counts.accesses),
    }


def markdown(result: dict[str, Any]) -> str:
    """The counts as a table, and each kind of failure with how often it came."""
    groups = result["groups"]
    rows = [
        (
            group["origin"],
            group["target"],
            group["conversions"],
            *(group[status] for status in STATUSES),
            f"{group['seconds']:.0f}",
        )
        for group in groups
    ]
    lines = [
        f"Stock Triton {result['triton']}, conversions run in the interpreter, "
        f"{result['date']}, {result['machine']}.",
        "",
        *table(f"conversions of | target | all: | {': | '.join(STATUSES)}: | seconds:", rows),
    ]
    for group in groups:
        kinds = Counter((f["status"], _kind(f)) for f in group["findings"])
        lines += listed(
            f"{group['origin']}, {group['target']}:",
            (f"{count}: {status}: `{kind}`" for (status, kind), count in kinds.most_common()),
        )
    return page(*lines)


def _kind(finding: dict[str, Any]) -> str:
    """What a finding has in common with others: its detail without numbers, or how its elements moved."""
    if "wrong" in finding:
        way = "shared memory" if finding["accesses"] else "shuffles" if finding["shuffles"] else "registers"
        return f"through {way}"
    return _NUMBERS.sub("N", finding["detail"].splitlines()[0])[:_SHOWN]


def main(argv: Sequence[str] | None = None) -> int:
    """Check what was asked for; the exit status is 0 whatever is found in stock Triton."""
    parser = Parser("stock", __doc__, whole=True).workers(count=1).output()
    parser.add_argument("modules", nargs="*", type=Path, help="TTGIR modules, or folders of them")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="random pairs of layouts")
    parser.add_argument("--suite", action="store_true", help="the conversions of bench/conversions")
    parser.add_argument("--target", action="append", help="may be said several times (default cuda:90)")
    parser.add_argument("--seed", type=int, default=1, help="what random pairs are drawn from (default 1)")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"for one conversion (default {SECONDS})")
    parser.add_argument("--stem", default="stock", help="the name of the result files (default stock)")
    arguments = parser.parse_args(argv)
    targets = arguments.target or ["cuda:90"]
    groups = list(of_modules(arguments.modules)) if arguments.modules else []
    for target in targets:
        if arguments.suite and target_called(target).lanes == 32:
            groups.append(of_suite(target))
        if arguments.random:
            groups.append(of_random(target, arguments.seed, arguments.random))
    found: list[dict[str, Any]] = []
    for group in groups:
        found.append(measure(group, arguments.seconds, arguments.workers))
        publish(arguments.output, arguments.stem, markdown, groups=found, limit=arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
