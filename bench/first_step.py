"""How long a program's first step takes by the clock: with stock Triton, and with the plugin.

    python -m bench.first_step [--output DIR] [--only REGEX] [--turns N]      # on a machine with a GPU

A step is one of `bench.serving.steps`, in a process of its own: its first call, to the end of its kernels.
Processes with stock Triton and with the plugin take turns. `cold`: Triton's cache folder is empty. `warm`: a
process before has run the step until its contests had ended. `packed`: the folder comes from an archive of
that process's (`triton-linear pack`, `pack --unpack`).
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import triton_linear

from .foreign.suite import Suite
from .harness import report, results
from .harness.options import Parser
from .serving.steps import STEPS

STOCK, PLUGIN = "stock", "plugin"
WAYS: Mapping[str, tuple[str, str]] = {
    "stock, cold": (STOCK, ""),
    "plugin, cold": (PLUGIN, ""),
    "stock, warm": (STOCK, STOCK),
    "plugin, warm": (PLUGIN, PLUGIN),
    "plugin, packed": (PLUGIN, "packed"),
}
"""Each way: the side, and the folder that the process begins with ("": an empty one)."""
_SECONDS = 12.0
"""For which the process runs the step whose cache others begin with."""


def step(suite: Suite, site: Path, case: str, seconds: float) -> dict[str, float]:
    """Run a step in this process: the seconds of its first call, and of the shortest of further ones.

    seconds: for which it is repeated."""
    import torch

    suite.enter(site)
    with torch.no_grad():
        call = suite.case(case).make(suite.inputs())
        torch.cuda.synchronize()
        times: list[float] = []
        begun = time.perf_counter()
        while not times or time.perf_counter() < begun + seconds:
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    return {"first": times[0], "later": min(times)}


def _process(site: Path, case: str, side: str, cache: Path, seconds: float = 0.0) -> dict[str, float]:
    environment = os.environ | {"TRITON_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "bench.first_step", "--process", side, case, str(site), str(seconds)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{case}: {side}, {cache.name}: {found['first']:.3f} s", flush=True)
    return found


def _tool(*words: str) -> None:
    command = [sys.executable, "-m", "triton_linear.tools.cli", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measured(site: Path, case: str, turns: int) -> dict[str, Any]:
    """The seconds of the first call in each way, of each turn."""
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        for side in (STOCK, PLUGIN):
            _process(site, case, side, room / side, _SECONDS)
        _tool("pack", str(room / "archive"), "--cache", str(room / PLUGIN))
        _tool("pack", str(room / "archive"), "--unpack", "--cache", str(room / "packed"))
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(turns):
            ways = list(WAYS.items())
            for way, (side, begins) in ways if turn % 2 else reversed(ways):
                cache = room / (begins or f"{side} {turn}")
                times[way].append(_process(site, case, side, cache)["first"])
    return {"case": case, "seconds": {way: [round(each, 4) for each in found] for way, found in times.items()}}


def markdown(result: Mapping[str, Any]) -> str:
    """The page: medians, and what the plugin's take of stock Triton's."""
    rows = []
    for case in result["cases"]:
        middle = {way: statistics.median(times) for way, times in case["seconds"].items()}
        cold, warm = (middle[f"stock, {how}"] for how in ("cold", "warm"))
        ratios = middle["plugin, cold"] / cold, middle["plugin, warm"] / warm, middle["plugin, packed"] / warm
        rows.append((case["case"], *(f"{each:.3f}" for each in (*middle.values(), *ratios))))
    heads = " | ".join(
        ["step", *(f"{way}, s:" for way in WAYS), "cold, ratio:", "warm, ratio:", "packed, ratio:"]
    )
    where = f"{result['device']}, {result['cores']} cores, Triton {result['triton']}, {result['date']}"
    said = (
        f"{where}. The first call of a step, by the clock; medians of {result['turns']} processes, "
        "which took turns. A ratio is what the plugin takes of stock Triton's time, cold or warm."
    )
    return report.page("# First steps", "", said, "", *report.table(heads, rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each step, and write the page."""
    parser = Parser("first_step", __doc__, whole=True).output().only("steps").turns(3)
    parser.add_argument("--process", nargs=4, metavar=("SIDE", "STEP", "FOLDER", "SECONDS"), help="run one")
    options = parser.parse_args(argv)
    if options.process:
        side, case, given, seconds = options.process
        if side == PLUGIN:
            triton_linear.install()
        print(json.dumps(step(STEPS, Path(given), case, float(seconds))))
        return 0
    import torch

    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        STEPS.unpack(STEPS.archive, site)
        chosen = [case.name for case in STEPS.cases() if re.search(options.only, case.name)]
        cases = [measured(site, name, options.turns) for name in chosen]
    result = {
        **results.versions(),
        "device": torch.cuda.get_device_name(),
        "cores": len(os.sched_getaffinity(0)),
        "turns": options.turns,
        "cases": cases,
    }
    print(results.save(options.output, "first_step", markdown, result), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
