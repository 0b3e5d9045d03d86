"""What `bench.calibrate --write` leaves: `lowering/target/clocks.py` and `bench/results/instructions.md`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_linear.lowering.target.tiles import TILES

ROOT = Path(__file__).parents[1]
CLOCKS = ROOT / "lowering" / "target" / "clocks.py"
PAGE = ROOT / "bench" / "results" / "instructions.md"

HEAD = """# Instructions that move data

The planners' table for NVIDIA GPUs, `lowering/target/tiles.py`; `python -m bench.calibrate --write` writes this
page. Bytes are those of one lane. A phase is the lanes whose addresses one wavefront of shared memory serves;
wavefronts are the least that the bytes of a warp take. Clocks are those of one warp instruction on one H200:
busy with 16 warps at work, alone with one, chain where each waits for the one before (loads but ld.shared.b32
with an addition in between). An empty cell was not measured, or has no meaning. The first compute capability
is from the PTX ISA, in the section named; the tests let ptxas assemble each form there, and refuse it before.

| instruction | PTX | from | bytes | phase | wavefronts | busy | alone | chain | section |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""
BETWEEN = """
Other spellings of the same machine instructions:

"""

Clocks = Mapping[str, tuple[float, float, float | None]]


def clocks_of(report: Mapping[str, Any]) -> dict[str, tuple[float, float, float | None]]:
    """(busy, alone, chain) of every instruction of a run, to hundredths of a clock."""

    def number(value: float | None) -> float | None:
        return None if value is None else round(value, 2)

    return {
        name: (round(row["busy"], 2), round(row["alone"], 2), number(row.get("chain")))
        for name, row in report["clocks"].items()
    }


def clocks_source(report: Mapping[str, Any]) -> str:
    """The module of a run's figures."""
    rows = "".join(f'    "{name}": {figures},\n' for name, figures in clocks_of(report).items())
    return f'''"""Clocks of one warp instruction: busy, alone, chain (None: has none). See `tiles.py`.

{report["device"]}, {report["date"]}; written by `python -m bench.calibrate --write`.
"""

from __future__ import annotations

H200: dict[str, tuple[float, float, float | None]] = {{
{rows}}}
'''


def page(clocks: Clocks) -> str:
    """The table of instructions for people, from the data that the planners use."""
    lines = []
    for tile in TILES:
        figures = clocks.get(tile.name, (None, None, None))
        cells = (
            tile.name,
            f"`{tile.ptx}`",
            f"sm_{tile.since}" if tile.since else "any",
            tile.lane_bytes,
            tile.phase_lanes or "",
            tile.wavefronts or "",
            *("" if figure is None else f"{figure:.2f}" for figure in figures),
            tile.section,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |\n")
    others = [f"- {t.name}: {', '.join(f'`{ptx}`' for ptx in t.also)}\n" for t in TILES if t.also]
    return "".join((HEAD, *lines, BETWEEN, *others))


def write(report: Mapping[str, Any]) -> None:
    """Leave a run's figures where the planners and people look.

    Raises ValueError for those of another GPU than the table is of.
    """
    if "H200" not in report["device"]:
        raise ValueError(f"the table has the figures of an H200, these are those of {report['device']}")
    CLOCKS.write_text(clocks_source(report))
    PAGE.write_text(page(clocks_of(report)))
