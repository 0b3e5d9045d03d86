"""Compares our rendition of the legacy lowering with Tritons that had it, on PTX; no GPU is needed.

python -m venv /tmp/old && /tmp/old/bin/pip install triton==3.0.0
python -m bench.legacy --python /tmp/old/bin/python [--python ...] [--output FOLDER]
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.harness import report as pages
from bench.harness.cases import say
from bench.harness.options import Parser
from bench.harness.report import sizes
from bench.harness.results import RESULTS, publish
from bench.legacy.cases import CASES, NEW, Case, kernel
from triton_linear.lowering.plan.strategies import LEGACY
from triton_linear.tools.support.compile import compile_text
from triton_linear.tools.support.functions import LOWERING

OLD = Path(__file__).with_name("old.py")
OURS = "ours"
_ACCESS = re.compile(r"\b(?P<kind>st|ld)\.shared\.(?:v(?P<count>\d)\.)?[a-z](?P<bits>\d+)\b")
_ADDRESS = re.compile(r"\b(?P<kind>st|ld)\.shared\.[^\[]*\[(?P<base>%?\w+)(?:\+(?P<offset>-?\d+))?\]")
_OTHERS = re.compile(r"\b(?:shfl|ldmatrix|stmatrix|movmatrix|prmt)\b")


def figures(ptx: str, shared: int) -> dict[str, Any]:
    """What is compared: shared bytes, barriers, stores and loads by width in bits, other instructions that move
    data, and the immediate offsets of stores and loads by the register that they are added to.
    """
    added: dict[str, dict[str, set[int]]] = {"st": {}, "ld": {}}
    for address in _ADDRESS.finditer(ptx):
        added[address["kind"]].setdefault(address["base"], set()).add(int(address["offset"] or 0))
    found: dict[str, Counter[str]] = {"st": Counter(), "ld": Counter()}
    for access in _ACCESS.finditer(ptx):
        found[access["kind"]][str(int(access["count"] or 1) * int(access["bits"]))] += 1
    return {
        "shared": shared,
        "barriers": len(re.findall(r"\bbar(?:rier)?\.sync\b", ptx)),
        "stores": dict(found["st"]),
        "loads": dict(found["ld"]),
        "moves": len(_OTHERS.findall(ptx)),
        "offsets": {kind: sorted(sorted(found) for found in bases.values()) for kind, bases in added.items()},
    }


def of_ours(case: Case) -> dict[str, Any]:
    """The figures of our rendition."""
    compilation = compile_text(
        kernel(case, NEW), f"{case.name}.ttgir", None, "ptx", replace(LOWERING, lowering=LEGACY)
    )
    (compiled,) = compilation.kernels
    return figures(compiled.lowered.text("ptx"), compiled.lowered.metadata["shared"])


def of_old(python: str, cases: Sequence[Case]) -> tuple[str, dict[str, dict[str, Any]]]:
    """The version of Triton that `python` has, and the figures by case; those it cannot do are left out.

    Each is a process of its own: Triton of old aborts where it does not know a layout.
    """
    printed = subprocess.run(
        [python, "-c", "import triton; print(triton.__version__)"], check=True, capture_output=True, text=True
    )
    version, found = printed.stdout.strip(), {}
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases):
            path = Path(folder, f"{number}.ttgir")
            path.write_text(kernel(case, version[:3]))
            command = [python, str(OLD), f"{case.capability}:{path}"]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode:
                say(f"{case.name}: Triton {version} fails: {run.stderr.strip()[-200:]}")
                continue
            compiled = json.loads(run.stdout)["files"][str(path)]
            found[case.name] = figures(compiled["ptx"], compiled["shared"])
    return version, found


def shown(entry: dict[str, Any] | None) -> str:
    """The figures of one case, for the table."""
    if entry is None:
        return "none"

    def accesses(kind: str) -> str:
        return " + ".join(f"{count} x {bits}" for bits, count in entry[kind].items())

    moves = f", {entry['moves']} moves" if entry["moves"] else ""
    return (
        f"{entry['shared']} B, {entry['barriers']} bar, st {accesses('stores')}, ld {accesses('loads')}{moves}"
    )


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """The figures that are not the same."""
    return {name for name in one if one[name] != other[name]}


def table(result: dict[str, Any]) -> str:
    """What is alike, and what is not; where offsets differ, how many registers have addresses."""
    versions = [name for name in result["figures"] if name != OURS]
    rows = []
    for case in CASES:
        own = result["figures"][OURS][case.name]
        cells = []
        for version in versions:
            entry = result["figures"][version].get(case.name)
            cells.append("the same" if entry and differing(own, entry) <= {"offsets"} else shown(entry))
            if entry and "offsets" in differing(own, entry):
                cells[-1] += f", {' + '.join(str(len(bases)) for bases in entry['offsets'].values())} registers"
        rows.append((f"{case.name}, {sizes(case.shape)}", shown(own), *cells))
    heads = "".join(f" | Triton {version}" for version in versions)
    return pages.page(*pages.table(f"conversion | lowering=legacy{heads}", rows))


def main() -> None:
    """Compare, and write legacy.json and legacy.md."""
    parser = Parser("legacy", __doc__, whole=True).output(RESULTS)
    parser.add_argument("--python", action="append", required=True, help="a Python that has an old Triton")
    arguments = parser.parse_args()
    found = {OURS: {case.name: of_ours(case) for case in CASES}}
    for python in arguments.python:
        version, entries = of_old(python, CASES)
        found[version] = entries
    publish(arguments.output, "legacy", table, figures=found)


if __name__ == "__main__":
    main()
