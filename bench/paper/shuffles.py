"""Conversions inside one warp: by shuffles, and through shared memory.

A loop converts a tensor from A to B and back, as `bench.conversions` times it: clocks of a round trip of a CTA
of one warp, less the empty loop, with as many CTAs as are resident (throughput) and with one (latency).
Through shared memory are the best of our plans, stock Triton and the conversions of before linear layouts.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness.report import table
from bench.paper.table import Part, Record, Table, not_run

if TYPE_CHECKING:
    from bench.conversions import cases as conversions

SIZES = (64, 128, 256, 512)
WIDTHS = (8, 16, 32)
LANES = 32
PAPER = 3.93
METHODS = ("stock", "ours", "forced:shuffle", "forced:warp-shared", "forced:cta-shared", "baseline")
SHUFFLE = "forced:shuffle"
SHARED = ("forced:warp-shared", "forced:cta-shared")
MEASURES = ("throughput", "latency")
OTHERS = {"shared": "our best shared memory", "stock": "stock", "before": "before linear layouts"}
"""What shuffles are compared with, and what a report calls it."""


@dataclass(frozen=True)
class Conversion:
    """A tensor of `size` elements of `bits` bits. `kind` and `number` say which layouts it goes between:

    exchange: `number` bits of the index change places between registers and lanes. Encodings of before linear
        layouts have no such thing, so they are left out of it.
    vector: from all of a thread's elements side by side to groups of `number`.
    transpose: from rows to columns, of a tensor of two dimensions.
    """

    kind: str
    size: int
    bits: int
    number: int = 0

    @property
    def key(self) -> str:
        """See `Case`."""
        return f"{self.kind}-{self.number}-{self.size}x{self.bits}"

    @property
    def methods(self) -> Sequence[str]:
        """Those of `METHODS` that there are."""
        return METHODS


def cases() -> Sequence[Conversion]:
    """By size and width."""
    return [case for size in SIZES for bits in WIDTHS for case in _of(size, bits)]


def _of(size: int, bits: int) -> Iterator[Conversion]:
    registers = (size // LANES).bit_length() - 1
    for exchanged in range(1, registers + 1):
        yield Conversion("exchange", size, bits, exchanged)
    for group in sorted({1, size // LANES // 2}):
        yield Conversion("vector", size, bits, group)
    yield Conversion("transpose", size, bits)


def timed_case(case: Conversion) -> conversions.Case:
    """The case as `bench.conversions` has them."""
    from bench.conversions import cases as conversions

    held = case.size // LANES
    if case.kind == "exchange":
        registers = held.bit_length() - 1
        mixed = ["r"] * case.number + [f"L{lane}" for lane in range(case.number, 5)]
        mixed += [f"L{lane}" for lane in range(case.number)] + ["r"] * (registers - case.number)
        shape: tuple[int, ...] = (case.size,)
        a = conversions.linear(shape, "lllll" + "r" * registers, 1)
        b = conversions.linear(shape, " ".join(mixed), 1)
    elif case.kind == "vector":
        shape = (case.size,)
        a, b = conversions.vector(held, 1), conversions.vector(case.number, 1)
    else:
        rows = 8 if case.size < 256 else 16
        shape = (rows, case.size // rows)
        a = conversions.rows(shape, case.bits, 1, vector_bits=held * case.bits)
        b = conversions.columns(shape, case.bits, 1, vector_bits=held * case.bits)
    return conversions.Case(case.key, "warp", shape, case.bits, 1, a, b)


def built(case: Conversion, target: str, verify: bool = False) -> list[Any]:
    """Every method, compiled; what fails says so in its `error`."""
    from bench.conversions.build import build_case

    return [build_case(timed_case(case), method, target, verify) for method in case.methods]


@functools.cache
def _target() -> str:
    """The GPU's."""
    from bench.conversions.driver import device

    return device().target


@functools.cache
def _version() -> str:
    """Of the plugin's sources and of those that build a case."""
    import triton

    from bench.conversions import build
    from triton_linear.dialect.sources import source_digest

    files = [Path(__file__), *sorted(Path(build.__file__).parent.glob("*.py"))]
    digest = hashlib.sha256(source_digest().encode() + triton.__version__.encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def kept(case: Conversion, target: str) -> list[Any]:
    """`built`, from a file in Triton's cache, which is written where there is none and nothing failed.

    The cache itself spares compiling only: what is read off the code by other programs takes longer.
    """
    from triton import knobs

    path = Path(knobs.cache.dir) / f"{case.key}-{target.replace(':', '')}-{_version()}.pickle"
    if path.exists():
        found: list[Any] = pickle.loads(path.read_bytes())
        return found
    made = built(case, target)
    if any(one.error for one in made):
        return made
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(pickle.dumps(made))
    Path(file.name).replace(path)
    return made


def prepare(case: Conversion) -> None:
    """Compile all of it into Triton's cache. Asks the GPU what it is, and launches nothing."""
    kept(case, _target())


def run(case: Conversion) -> Record:
    """By method: registers, instructions, clocks of a round trip, whether it gives back what went in."""
    from bench.conversions.measure import Effort, measure

    made = kept(case, _target())
    facts = {
        one.method: {
            "error": one.error,
            "registers": one.registers,
            "shared": one.shared,
            "conversions": [described["kind"] for described in one.conversions],
            "ptx": dict(one.ptx),
        }
        for one in made
    }
    good = [one for one in made if one.error is None]
    for method, found in measure(timed_case(case), good, Effort()).items():
        facts[method] |= found
    return {"methods": facts}


def clocks(record: Record, method: str, measure: str) -> float | None:
    """Of a round trip; None where it was not measured, is wrong, or is lost in the empty loop's noise."""
    found = record.get("methods", {}).get(method, {})
    if not found.get("right") or measure not in found:
        return None
    taken: float = found[measure]["clocks"]
    return taken if taken > 0 else None


def ratio(record: Record, other: str, measure: str) -> float | None:
    """Clocks of `other` of OTHERS over those by shuffles.

    >>> def took(clocks):
    ...     return {"right": True, "latency": {"clocks": clocks}}
    >>> record = {"methods": {"forced:shuffle": took(20.0), "forced:cta-shared": took(50.0)}}
    >>> ratio(record, "shared", "latency")
    2.5
    """
    shuffled = clocks(record, SHUFFLE, measure)
    methods = SHARED if other == "shared" else (other,)
    taken = [found for method in methods if (found := clocks(record, method, measure)) is not None]
    return min(taken) / shuffled if taken and shuffled is not None else None


def report(records: Mapping[str, Record]) -> Part:
    """Ratios by size and width, worst and best."""
    declared = cases()

    def ratios(size: int, bits: int, other: str, measure: str) -> list[float]:
        here = [case for case in declared if (case.size, case.bits) == (size, bits) and case.key in records]
        found = [ratio(records[case.key], other, measure) for case in here]
        return sorted(value for value in found if value is not None)

    def cell(size: int, bits: int, other: str, measure: str) -> str:
        values = ratios(size, bits, other, measure)
        return f"{values[0]:.2f}-{values[-1]:.2f}" if values else "-"

    places = [(size, bits) for size in SIZES for bits in WIDTHS]
    every = {
        (other, measure): [value for place in places for value in ratios(*place, other, measure)]
        for other in OTHERS
        for measure in MEASURES
    }
    lines = [
        f"Conversions inside a warp, {len(declared)} pairs of layouts: clocks through shared memory over those "
        f"by shuffles, worst and best of each size and width. The paper has up to {PAPER:.2f}. One warp a CTA; "
        "throughput with as many CTAs as are resident, latency with one. Above 1 shuffles are faster.",
        "",
    ]
    for measure in MEASURES:
        lines += [
            *table(
                f"{measure}: elements x bits | {' | '.join(OTHERS.values())}",
                (
                    (f"{size} x {bits}", *(cell(size, bits, other, measure) for other in OTHERS))
                    for size, bits in places
                ),
            ),
            "",
        ]
    shortfalls, best = [], []
    for (other, measure), values in every.items():
        if values:
            best.append(f"{max(values):.2f} against {OTHERS[other]} ({measure})")
        lost = sum(value < 1 for value in values)
        if lost:
            shortfalls.append(
                f"slower than {OTHERS[other]} in {lost} of {len(values)} pairs ({measure}), "
                f"at worst {min(values):.2f}"
            )
    if best:
        lines += [f"Best: {'; '.join(best)}.", ""]
    if any(every.values()) and max(value for values in every.values() for value in values) < PAPER:
        shortfalls.append(f"nowhere {PAPER:.2f} times faster")
    lines += [f"- {line}" for line in _choices(declared, records)]
    shortfalls += _wrong(declared, records)

    def figure(axes: Any) -> None:
        for other, name in OTHERS.items():
            points = [(place, value) for place in places for value in ratios(*place, other, "throughput")]
            at = [places.index(place) for place, _ in points]
            axes.scatter(at, [value for _, value in points], s=14, label=name)
        axes.axhline(1, color="0.5", linewidth=0.8)
        axes.axhline(PAPER, color="0.5", linewidth=0.8, linestyle="--", label="the paper's best")
        axes.set_xticks(range(len(places)), [f"{size}x{bits}" for size, bits in places], rotation=45)
        axes.set_ylabel("shared memory / shuffles")
        axes.set_xlabel("elements x bits")
        axes.set_title("Conversions inside a warp, throughput")
        axes.legend(fontsize="small")

    return Part("Shuffles against shared memory", "\n".join(lines) + "\n", shortfalls, figure)


def _choices(declared: Sequence[Conversion], records: Mapping[str, Record]) -> Iterator[str]:
    """How often what we choose is the faster of both."""
    for measure in MEASURES:
        seen = right = 0
        for case in declared:
            record = records.get(case.key, {})
            chosen = record.get("methods", {}).get("ours", {}).get("conversions")
            value = ratio(record, "shared", measure)
            if not chosen or value is None:
                continue
            seen += 1
            right += all(kind == "shuffle" for kind in chosen) == (value >= 1)
        if seen:
            yield f"what the plugin chooses is the faster in {measure} in {right} of {seen} pairs"


def _wrong(declared: Sequence[Conversion], records: Mapping[str, Record]) -> Iterator[str]:
    yield from not_run(declared, records, "pairs")
    for case in declared:
        record = records.get(case.key, {})
        if "error" in record:
            yield f"{case.key}: {record['error'][:200]}"
        for method, found in record.get("methods", {}).items():
            if found.get("error") or found.get("right") is False:
                yield f"{case.key} {method}: {str(found.get('error') or 'wrong')[:200]}"


TABLE = Table("shuffles", timed=True, gpu=True, cases=cases, run=run, report=report, prepare=prepare)
