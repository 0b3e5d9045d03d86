"""Autotuned kernels with `autotune=True`, against what their autotuners choose with stock Triton.

    python -m bench.autotuned [--output DIR] [--only REGEX] [--turns N] [--budget SECONDS]

Each case is tuned with stock Triton, with the plugin for every configuration, with `autotune=True`, which
measures every configuration with the plugin and without, and with stock Triton once more, which shows the noise
of tuning. Then the choices are timed in turns, so that they are judged by other measurements than those they
were made by. Cases are kernels under `@triton.autotune`, and functions through `torch.compile`. Writes
autotuned.json and autotuned.md; the exit status is 1 if a case fails or its results are not close to stock
Triton's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import triton
import triton.language as tl

import triton_linear
from triton_linear.autotuner import mark_of
from triton_linear.decisions import NONE
from triton_linear.examples.matmul import matmul_gelu_residual

from .harness import results
from .harness.cases import Run, chosen, say
from .harness.options import Parser
from .harness.report import between, listed, measured_on, not_run, page, spread, table
from .harness.turns import STOCK, calls_for, captured, replay, summary
from .kernels import cases as suite
from .kernels import inductor, triton_kernels
from .kernels.inductor import config_name
from .kernels.kernel import Tensor
from .kernels.measure import TOLERANCES, Inputs, tensors

OURS = "ours"
BOTH = "autotune=True"
AGAIN = "again"
MODES = (STOCK, OURS, BOTH, AGAIN)
COMPARED = MODES[1:]
TORCH_CASES = (
    "rms_norm_bf16",
    "layer_norm_rows",
    "softmax_columns",
    "quantise_columns_transposed",
    "quantise_rows_int8",
    "kl_divergence",
    "bias_gelu_transpose",
    "transpose_int8",
)
"""Of `bench.kernels`: some that the plugin makes faster, and the two that it makes slower."""


@dataclass(frozen=True)
class Tuned:
    """A kernel under `@triton.autotune`: its arguments, and the sizes that its autotuner chooses from.

    grid: the launch grid for the sizes chosen.
    """

    name: str
    function: Any
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
    numbers: Mapping[str, int]
    sizes: Mapping[str, Sequence[int]]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    warps: Sequence[int] = (4, 8)

    def tuner(self) -> Any:
        """An autotuner that has chosen nothing yet."""
        configs = [
            triton.Config(dict(zip(self.sizes, sizes, strict=True)), num_warps=warps)
            for *sizes, warps in product(*self.sizes.values(), self.warps)
        ]
        return triton.autotune(configs=configs, key=[])(self.function)

    def call(self, torch: Any, tuner: Any) -> Callable[[], list[Any]]:
        """A launch through an autotuner, which gives the outputs."""
        inputs = Inputs()
        given = {name: tensor.made(inputs) for name, tensor in self.inputs.items()}
        made = {
            name: torch.empty(tensor.shape, dtype=getattr(torch, tensor.dtype), device="cuda")
            for name, tensor in self.outputs.items()
        }

        def launch() -> list[Any]:
            tuner[self.grid](**given, **made, **self.numbers, **self.fixed)
            return list(made.values())

        return launch


def _matmul(m: int, n: int, k: int) -> Tuned:
    return Tuned(
        f"matmul_gelu_residual {m}x{n}x{k}",
        matmul_gelu_residual,
        {
            "a_ptr": Tensor("float16", (m, k)),
            "b_ptr": Tensor("float16", (k, n)),
            "bias_ptr": Tensor("float16", (n,)),
            "residual_ptr": Tensor("float16", (m, n)),
        },
        {"out_ptr": Tensor("float16", (m, n))},
        lambda at: (m // at["BLOCK_M"] * (n // at["BLOCK_N"]),),
        {"m": m, "n": n, "k": k, "stride_am": k, "stride_bk": n, "stride_om": n},
        {"BLOCK_M": (64, 128), "BLOCK_N": (128, 256), "BLOCK_K": (64,)},
        {"GROUP_M": 8},
    )


def _mixed(name: str, a: str, b: str, kind: Any, out: str) -> Tuned:
    size = 2048
    return Tuned(
        name,
        triton_kernels.matmul_mixed,
        {
            "a_ptr": Tensor(a, (size, size), 128 if a == "int8" else None),
            "b_ptr": Tensor(b, (size, size), 128 if b == "int8" else None),
        },
        {"out_ptr": Tensor(out, (size, size))},
        lambda at: (size // at["BLOCK_M"], size // at["BLOCK_N"]),
        {"m": size, "n": size, "k": size}
        | {"stride_am": size, "stride_ak": 1, "stride_bk": size, "stride_bn": 1},
        {"BLOCK_M": (64, 128), "BLOCK_N": (64, 128), "BLOCK_K": (64,)},
        {"TYPE": kind},
    )


def _columns(function: Any, outputs: Mapping[str, Tensor], rows: int = 2048, columns: int = 16384) -> Tuned:
    return Tuned(
        function.__name__,
        function,
        {"x_ptr": Tensor("float16", (rows, columns))},
        outputs,
        lambda at: (columns // at["BLOCK_N"],),
        {"rows": rows, "columns": columns},
        {"BLOCK_M": (32, 128), "BLOCK_N": (32, 64)},
    )


TUNED = (
    _matmul(4096, 4096, 1024),
    _matmul(8192, 4096, 512),
    _mixed("matmul_int8_bf16", "int8", "bfloat16", tl.bfloat16, "bfloat16"),
    _mixed("matmul_f32", "float32", "float32", tl.float32, "float32"),
    _columns(
        triton_kernels.column_stats,
        {"mean_ptr": Tensor("float32", (16384,)), "peak_ptr": Tensor("float32", (16384,))},
    ),
    _columns(
        triton_kernels.quantise_transposed,
        {"out_ptr": Tensor("int8", (16384, 2048)), "scale_ptr": Tensor("float32", (16384,))},
    ),
    _columns(triton_kernels.cumulative_columns, {"out_ptr": Tensor("float32", (2048, 16384))}),
    _columns(
        triton_kernels.argmax_columns,
        {"peak_ptr": Tensor("float16", (16384,)), "place_ptr": Tensor("int32", (16384,))},
    ),
    Tuned(
        "add_transposed",
        triton_kernels.add_transposed,
        {name: Tensor("float16", (8192, 8192)) for name in ("x_ptr", "y_ptr")},
        {"out_ptr": Tensor("float16", (8192, 8192))},
        lambda at: (8192 // at["BLOCK"], 8192 // at["BLOCK"] // 8),
        {"n": 8192, "steps": 8},
        {"BLOCK": (32, 64, 128)},
    ),
)


def _context(mode: str) -> AbstractContextManager[Any]:
    if mode in (STOCK, AGAIN):
        return nullcontext()
    return triton_linear.enabled(strict=True, decisions=NONE, autotune=mode == BOTH)


def _one(config: Any) -> str:
    """A choice in words; with the plugin unless it says `off`."""
    mark = mark_of(config)
    plain = {name: value for name, value in config.kwargs.items() if name != "triton_linear"}
    named = triton.Config(plain, num_warps=config.num_warps, num_stages=config.num_stages)
    return config_name(named) + (f" {mark}" if mark else "")


def _tuned(case: Tuned, mode: str) -> tuple[Callable[[], list[Any]], Callable[[], list[str]]]:
    """The launch of a case that is tuned in `mode` by its first call, and what it has chosen then."""
    import torch

    tuner = case.tuner()
    return case.call(torch, tuner), lambda: [_one(tuner.best_config)]


def _compiled(name: str) -> tuple[Callable[[], Any], Callable[[], list[str]]]:
    """The call of a function of the suite that Inductor compiles at its first call, and what it has chosen."""
    import torch

    inductor.forget()
    function, arguments = suite.by_name(name).make(torch, Inputs())
    compiled = torch.compile(function, dynamic=False, fullgraph=True)

    def call() -> Any:
        with torch.no_grad():
            return compiled(*arguments)

    def choice() -> list[str]:
        with inductor.running() as tuners:
            call()
        return [_one(launcher.config) for tuner in tuners for launcher in tuner.launchers]

    return call, choice


def compare(case: Tuned | str, turns: int) -> dict[str, Any]:
    """The record of a case: choices, ratios of stock's time in turns, and how far results are apart."""
    import torch

    graphs, outputs, choices, held, calls = {}, {}, {}, [], 0
    for mode in MODES:
        call, choice = _compiled(case) if isinstance(case, str) else _tuned(case, mode)
        with _context(mode):
            torch.manual_seed(0)
            outputs[mode] = [output.clone() for output in tensors(call())]
            choices[mode] = choice()
            if not calls:
                calls = calls_for(min(replay({"": [captured(call)[0]]}, 5)[""]))
            graphs[mode] = [captured(call, calls)[0]]
        held.append(call)  # with its tensors, which the graph uses
    close = all(
        _apart(one, other) <= 1.0
        for mode in MODES
        for one, other in zip(outputs[STOCK], outputs[mode], strict=True)
    )
    name = case if isinstance(case, str) else case.name
    return {
        "case": name,
        "by": "torch.compile" if isinstance(case, str) else "triton.autotune",
        "choices": choices,
        "times": summary(replay(graphs, turns), calls),
        "close": close,
    }


def _apart(one: Any, other: Any) -> float:
    """The largest difference of two tensors, in tolerances of their type at the size of the largest element.

    Configurations add in other orders, and integers that are rounded or counted may differ by one.
    """
    if not one.dtype.is_floating_point:
        return float((one.double() - other.double()).abs().max())
    tolerance = TOLERANCES[str(one.dtype).removeprefix("torch.")]
    one, other = one.double(), other.double()
    return float((one - other).abs().max() / max(1e-30, float(one.abs().max())) / tolerance / 4)


def markdown(report: Mapping[str, Any]) -> str:
    """The page for people."""
    rows = report["cases"]
    compared = [mode for mode in COMPARED if all(mode in row["times"] for row in rows)]
    ratios = {mode: [row["times"][mode]["ratio"] for row in rows] for mode in compared}
    return page(
        "# Autotuned kernels",
        "",
        f"{measured_on(report)}. The time of the configuration that is chosen with stock Triton over the time "
        "of the other choice, medians with their 95 % interval. `ours` has the plugin for every configuration, "
        "`autotune=True` measures each with the plugin and without, `again` is stock Triton tuned once more. "
        "`off` marks stock Triton's kernel.",
        "",
        *table(
            "choice of | cases: | geometric mean: | least: | most: | below 0.98: | above 1.02:",
            ((mode, len(found), *spread([middle for _, middle, _ in found])) for mode, found in ratios.items()),
        ),
        "",
        *table(
            f"case | tuned by | stock µs: | {'| '.join(f'{mode}: ' for mode in compared)}| stock chose | "
            "autotune=True chose",
            (
                (
                    row["case"],
                    row["by"],
                    f"{row['times'][STOCK]['microseconds']:.1f}",
                    *(between(row["times"][mode]["ratio"]) for mode in compared),
                    *("; ".join(row["choices"][mode]) for mode in (STOCK, BOTH)),
                )
                for row in rows
            ),
        ),
        *listed("Results that are not close:", (row["case"] for row in rows if not row["close"])),
        *listed("Failed:", report.get("failed", ())),
        *not_run(report),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write; see the module's docstring."""
    options = Parser("autotuned", __doc__).output().only().turns(25).budget().parse_args(argv)
    inductor.prepare()
    import torch

    run = Run(lambda report: results.save(options.output, "autotuned", markdown, report), options.budget)
    run.heading({"device": torch.cuda.get_device_name(), **results.versions(), "failed": []})
    wanted = chosen("autotuned", [*TUNED, *TORCH_CASES], options.only, _name)
    for case in run.each(wanted, _name):
        try:
            record = compare(case, options.turns)
        except Exception as error:
            run.report["failed"].append(f"{_name(case)}: {type(error).__name__}: {error}")
            say(run.report["failed"][-1])
            continue
        run.add(record, f"{_name(case)}: {record['times'][BOTH]['ratio'][1]:.3f}")
    run.save()
    print(markdown(run.report))
    return int(bool(run.report["failed"]) or not all(row["close"] for row in run.report["cases"]))


def _name(case: Tuned | str) -> str:
    return case.name if isinstance(case, Tuned) else case


if __name__ == "__main__":
    sys.exit(main())
