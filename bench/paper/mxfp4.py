"""Matrix products of mxfp4 weights and activations of four types, the weights unpacked in three ways.

scaled: by `tl.dot_scaled`, which Hopper has no instruction for: Triton unpacks.
unpacked: by the kernel, scales spread by shape operations.
shuffled: the same, with the columns of the activations reordered in global memory, and those of the unpacked
    weights alike, which changes no product. Then what one thread of the operand holds of a row of packed
    weights lies side by side, and is loaded 16 bytes at a time instead of one, or two by staging.

f16 is multiplied as f16 and all else as bf16, in which mxfp4, e4m3 and e5m2 are exact, and scales of any size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.report import number, table
from bench.harness.statistics import LOSS, geometric_mean
from bench.paper.table import Part, Record, Table, not_run

ACTIVATIONS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "bf16": "bfloat16", "f16": "float16"}
"""The types, and PyTorch's names of them."""
ROUTES = ("scaled", "unpacked", "shuffled")
ROWS = (16, 64, 256, 1024, 4096)
WIDTH = 4096
"""N and K."""
BLOCK_K = 128
STAGES = 3
PAPER = 1.87
RELATIVE, ABSOLUTE = 2.0**-8, 1e-3
"""A result may differ from float64's by so much of it, as it is rounded to bf16, and so much of the largest, as
its terms are added in f32."""
LEAST_EXPONENT, MOST_EXPONENT = 120, 130
_POINTERS = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "bf16": "*bf16", "f16": "*fp16"}
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True)
class Product:
    """`rows` of activations of a type times the weights, by one of the routes."""

    activation: str
    route: str
    rows: int

    @property
    def key(self) -> str:
        """See `Case`."""
        return f"{self.activation}-{self.route}-{self.rows}"

    @property
    def tile(self) -> tuple[int, int, int]:
        """BLOCK_M, BLOCK_N and warps."""
        if self.rows <= 64:
            return self.rows, 64, 4
        return (64 if self.rows <= 256 else 128), 128, 8


def cases() -> Sequence[Product]:
    """By size, so that those that are compared run soon after one another."""
    return [Product(activation, route, rows) for rows in ROWS for activation in ACTIVATIONS for route in ROUTES]


def kernel(case: Product, width: int = WIDTH) -> tuple[Any, dict[str, Any]]:
    """The function and its constants."""
    import triton.language as tl

    from bench.paper import mxfp4_kernels

    m, n, _ = case.tile
    constants: dict[str, Any] = {"N": width, "K": width, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": BLOCK_K}
    if case.route == "scaled":
        return mxfp4_kernels.scaled_matmul, constants | {
            "FORMAT": "fp16" if case.activation == "f16" else case.activation
        }
    type_ = tl.float16 if case.activation == "f16" else tl.bfloat16
    return mxfp4_kernels.unpacked_matmul, constants | {"TYPE": type_, "SHUFFLED": case.route == "shuffled"}


def shuffled(x: Any) -> Any:
    """Activations with the columns of each block in the order in which `unpacked_matmul` takes them."""
    rows, columns = x.shape
    blocks = x.reshape(rows, columns // BLOCK_K, 4, BLOCK_K // 8, 2)
    return blocks.transpose(2, 3).reshape(rows, columns)


def weights(packed: Any, exponents: Any) -> Any:
    """What they are, in float64."""
    import torch

    values = torch.tensor([*_MAGNITUDES, *(-value for value in _MAGNITUDES)], device=packed.device).double()
    pairs = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)
    scales = torch.exp2(exponents.double() - 127).repeat_interleave(32, dim=1)
    return values[pairs.long()] * scales


def make(
    case: Product, torch: Any, inputs: Any, width: int = WIDTH
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function that launches, and its arguments: packed weights, exponents, activations."""
    packed = inputs.integers(0, 256, width, width // 2, dtype="uint8")
    exponents = inputs.integers(LEAST_EXPONENT, MOST_EXPONENT + 1, width, width // 32, dtype="uint8")
    x = inputs.normal(case.rows, width, dtype=ACTIVATIONS[case.activation])
    function, constants = kernel(case, width)
    m, n, warps = case.tile

    def launch(packed: Any, exponents: Any, x: Any) -> Any:
        out = torch.empty((case.rows, width), dtype=torch.bfloat16, device=x.device)
        grid = (width // n, case.rows // m)
        function[grid](packed, exponents, x, out, **constants, num_warps=warps, num_stages=STAGES)
        return out

    return launch, (packed, exponents, shuffled(x).contiguous() if case.route == "shuffled" else x)


def judged(case: Product, arguments: tuple[Any, ...], out: Any) -> dict[str, Any]:
    """Whether a result is right, and by how much of the largest it leaves what RELATIVE allows."""
    packed, exponents, x = arguments
    left = weights(packed, exponents)
    if case.route == "shuffled":
        left = shuffled(left)
    product = x.double() @ left.T
    excess = (out.double() - product).abs() - RELATIVE * product.abs()
    apart = float(excess.max() / product.abs().max())
    return {"right": bool(excess.isfinite().all()) and apart <= ABSOLUTE, "apart": apart}


def source(case: Product) -> Any:
    """The kernel as `triton.compile` takes it."""
    from triton_linear.examples.spec import KernelSpec

    function, constants = kernel(case)
    pointers = {"w_ptr": "*u8", "scale_ptr": "*u8", "x_ptr": _POINTERS[case.activation], "out_ptr": "*bf16"}
    return KernelSpec(case.key, function, pointers, constants, tuple(pointers)).source()


def compiled(case: Product, way: str, target: str) -> Any:
    """Compiled without a GPU; raises what the compiler does."""
    import triton

    from bench.kernels import modes
    from triton_linear.examples.spec import gpu_target

    options = {"num_warps": case.tile[2], "num_stages": STAGES}
    with modes.context(way, strict=True):
        return triton.compile(source(case), target=gpu_target(target), options=options)


def prepare(case: Product) -> None:
    """Compile into Triton's cache what `run` launches. Asks the GPU what it is, and launches nothing."""
    import torch

    from bench.kernels import modes

    function, constants = kernel(case)
    m, n, warps = case.tile
    types = (torch.uint8, torch.uint8, getattr(torch, ACTIVATIONS[case.activation]), torch.bfloat16)
    for way in modes.WAYS:
        with modes.context(way, strict=True):
            function.warmup(
                *types,
                grid=(WIDTH // n, case.rows // m),
                **constants,
                num_warps=warps,
                num_stages=STAGES,
            )


@functools.cache
def _ready() -> Callable[[], object]:
    """Once for this process; gives what writes more than the L2 cache holds."""
    import gc

    import torch

    from bench.harness.turns import FLUSH_BYTES

    gc.freeze()  # Each capture of a graph collects garbage.
    flush: Callable[[], object] = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda").zero_
    return flush


def run(case: Product) -> Record:
    """By way of compiling: microseconds, the ratio of stock's to them, and whether the result is right."""
    import torch

    from bench.harness.child import Failed
    from bench.kernels import measure, modes
    from bench.kernels.case import TRITON, Case

    launch, arguments = make(case, torch, measure.Inputs())
    made = Case(case.key, "mxfp4", TRITON, lambda torch, inputs: (launch, arguments))
    session = measure.Session(made, measure.Effort(), strict=True)
    found: dict[str, dict[str, Any]] = {}
    for way in modes.WAYS:
        try:
            facts = session.variant(way).facts["kernels"]
            found[way] = {"kernels": facts, **judged(case, arguments, session.results(way)[0])}
        except Exception as problem:
            if way == modes.STOCK or measure.lost(problem):
                raise
            found[way] = {"error": Failed.of(problem).error[:500]}
    good = measure.timeable(found)
    warm, cold = measure.timed(session, good, _ready())
    for way in good:
        found[way] |= warm[way]
        if way in cold:
            found[way]["cold"] = cold[way]
    return {"calls": session.calls, "ways": found}


def microseconds(record: Record, way: str) -> float | None:
    """Of a call, warm; None where there is none or its result is wrong."""
    found = record.get("ways", {}).get(way, {})
    return found["microseconds"] if found.get("right") and "microseconds" in found else None


def compares(case: Product, way: str) -> bool:
    """Whether that way's time is one to compare with; see the report on conversions that legacy never had."""
    return way != "legacy" or case.route == "scaled" or case.activation in ("e4m3", "e5m2")


def best_routes(activation: str, rows: int, records: Mapping[str, Record]) -> float | None:
    """The least time of legacy, of routes that compare, over the least of ours."""
    cases = [Product(activation, route, rows) for route in ROUTES]
    least = {
        way: min(
            (
                taken
                for case in cases
                if compares(case, way) and (taken := microseconds(records.get(case.key, {}), way))
            ),
            default=None,
        )
        for way in ("legacy", "ours")
    }
    return _over(least["legacy"], least["ours"])


def gain(record: Record, way: str) -> float | None:
    """Time of `way` over ours."""
    other, ours = microseconds(record, way), microseconds(record, "ours")
    return other / ours if other and ours else None


def report(records: Mapping[str, Record]) -> Part:
    """Times of every route, and the gains over stock and legacy."""
    declared = cases()
    lines = [
        f"mxfp4 weights, {WIDTH} x {WIDTH}, times rows of activations: microseconds of ours and, after it, the "
        "time of stock Triton and of the legacy lowering over ours. The paper has its linear layouts up to "
        f"{PAPER:.2f} times as fast as the legacy Triton.",
        "",
        "*unpacked* and *shuffled* with bf16 and f16 have eight conversions in the loop that Triton of today "
        "makes when it cuts the product along K, and that rename registers. The legacy lowering takes them "
        "through memory; Triton of then did not have them. There, legacy is in brackets and does not count. "
        "The last column is legacy by its fastest route, brackets apart, over ours by its fastest.",
        "",
        *table(
            f"activations | rows | {' | '.join(ROUTES)} | ours, unpacked / shuffled | legacy / ours, fastest",
            (_row(activation, rows, records) for activation in ACTIVATIONS for rows in ROWS),
        ),
        "",
    ]
    shortfalls = []
    for way in ("stock", "legacy"):
        gains = {
            case.key: value
            for case in declared
            if compares(case, way) and (value := gain(records.get(case.key, {}), way))
        }
        if not gains:
            continue
        best, worst = max(gains, key=gains.__getitem__), min(gains, key=gains.__getitem__)
        lines += [
            f"Against {way}: {gains[worst]:.2f} ({worst}) to {gains[best]:.2f} ({best}), geometric mean "
            f"{geometric_mean(gains.values()):.3f} of {len(gains)}.",
            "",
        ]
        lost = sorted(key for key, value in gains.items() if value < LOSS)
        if lost:
            named = ", ".join(f"{key} {gains[key]:.2f}" for key in lost)
            shortfalls.append(f"slower than {way} by over 2 % in {len(lost)} of {len(gains)}: {named}")
        if way == "legacy" and gains[best] < PAPER:
            shortfalls.append(f"at best {gains[best]:.2f} times legacy, not {PAPER:.2f}")
    shortfalls += not_run(declared, records)
    shortfalls += [problem for case in declared for problem in _problems(case, records)]

    def figure(axes: Any) -> None:
        colours = {activation: f"C{number}" for number, activation in enumerate(ACTIVATIONS)}
        for activation in ACTIVATIONS:
            for route, style in zip(ROUTES, (":", "--", "-"), strict=True):
                here = [(rows, records.get(Product(activation, route, rows).key, {})) for rows in ROWS]
                points = [(rows, value) for rows, record in here if (value := gain(record, "legacy"))]
                if points and compares(Product(activation, route, ROWS[0]), "legacy"):
                    named = {"color": colours[activation], "label": f"{activation} {route}"}
                    axes.plot(*zip(*points, strict=True), style, marker=".", **named)
        axes.axhline(1, color="0.5", linewidth=0.8)
        axes.axhline(PAPER, color="0.5", linewidth=0.8, linestyle="-.", label="the paper's best")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ROWS, map(str, ROWS))
        axes.set_xlabel("rows of activations")
        axes.set_ylabel("time of legacy / ours")
        axes.set_title("mxfp4")
        axes.legend(fontsize="x-small", ncols=2)

    return Part("mxfp4", "\n".join(lines), shortfalls, figure)


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def _times(value: float | None) -> str:
    return number(value, 2, "-")


def _row(activation: str, rows: int, records: Mapping[str, Record]) -> list[object]:
    products = [Product(activation, route, rows) for route in ROUTES]
    here = [records.get(product.key, {}) for product in products]
    cells = [_cell(product, record) for product, record in zip(products, here, strict=True)]
    wide = _over(microseconds(here[1], "ours"), microseconds(here[2], "ours"))
    return [activation, rows, *cells, _times(wide), _times(best_routes(activation, rows, records))]


def _cell(case: Product, record: Record) -> str:
    ours = microseconds(record, "ours")
    if ours is None:
        return "-"
    legacy = _times(gain(record, "legacy"))
    shown = legacy if compares(case, "legacy") else f"({legacy})"
    return f"{ours:.1f} us, {_times(gain(record, 'stock'))}, {shown}"


def _problems(case: Product, records: Mapping[str, Record]) -> Sequence[str]:
    record = records.get(case.key, {"ways": {}})
    if "error" in record:
        return [f"{case.key}: {str(record['error'])[:200]}"]
    return [
        f"{case.key} {way}: {str(found.get('error', 'wrong result'))[:200]}"
        for way, found in record["ways"].items()
        if not found.get("right")
    ]


TABLE = Table("mxfp4", timed=True, gpu=True, cases=cases, run=run, report=report, prepare=prepare)
