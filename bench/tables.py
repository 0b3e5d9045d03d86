"""What `bench.calibrate` measures: costs for `lowering/target/targets.py`, and the page of instructions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.instruction_table import TILES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "bench" / "results" / "instructions.md"

HEAD = """# Instructions that move data

The table of NVIDIA GPUs, `bench/instruction_table.py`; `python -m bench.calibrate --write` writes this
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


def measured(clocks: Clocks) -> dict[str, float]:
    """The costs that a run measures, as `InstructionCosts` has them."""
    return {
        "shuffle": round(clocks["shfl.bfly"][0], 2),
        "alu": round((clocks["prmt"][0] + clocks["selp"][0]) / 2, 2),
        "wavefront": round((clocks["ld.shared.v4.b32"][0] + clocks["st.shared.v4.b32"][0]) / 8, 2),
        "lone_shuffle": round(clocks["shfl.bfly"][1], 1),
        "lone_alu": round(clocks["prmt"][1], 2),
    }


def page(clocks: Clocks) -> str:
    """The table of instructions for people, with the clocks that were measured."""
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
    """Leave a run's figures where people look.

    Raises ValueError for those of another GPU than the table is of.
    """
    if "H200" not in report["device"]:
        raise ValueError(f"the table has the figures of an H200, these are those of {report['device']}")
    PAGE.write_text(page(clocks_of(report)))
