"""The table of data-movement instructions, against what was measured and against the assembler."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench import calibrate, tables
from bench.conversions.build import disassemble, nvidia_tool
from bench.instruction_table import LANES, TILES, Tile, available, phase_lanes
from triton_linear.lowering.target.targets import TARGETS, target

ROOT = Path(__file__).parents[3]

REPORT = json.loads((ROOT / "bench" / "results" / "calibration.json").read_text())
H200 = tables.clocks_of(REPORT)
CAPABILITIES = (80, 89, 90, 100)
# An architecture that ptxas assembles for and that comes before the one that brought an instruction.
BEFORE = {75: "sm_70", 90: "sm_89", 100: "sm_90a"}


def arch(capability: int) -> str:
    """What ptxas calls a GPU with everything that it has."""
    return f"sm_{capability}" + "a" * (capability >= 90)


def ptxas(architecture: str, *kernels: str) -> subprocess.CompletedProcess[Any]:
    """Assemble kernels of these statements; `stdout` is the cubin where that works."""
    words = ", ".join(f"d{k}" for k in range(4))
    entries = [
        f""".visible .entry kernel{number}(.param .u32 p0, .param .u64 p1)
{{
  .reg .b32 a, {words};
  .reg .b64 e0, e1, out;
  .reg .pred p;
  ld.param.u32 a, [p0];
  ld.param.u64 out, [p1];
  setp.ne.u32 p, a, 0;
  ld.global.v4.b32 {{{words}}}, [out];
  ld.global.v2.b64 {{e0, e1}}, [out + 16];
  {statements};
  st.global.v4.b32 [out], {{{words}}};
  st.global.v2.b64 [out + 16], {{e0, e1}};
  ret;
}}
"""
        for number, statements in enumerate(kernels)
    ]
    version = "8.7" if "100" in architecture else "8.0"
    text = "\n".join([f".version {version}", f".target {architecture}", ".address_size 64", *entries])
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(text)
        command = [nvidia_tool("ptxas"), f"-arch={architecture}", str(source), "-o", str(cubin)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        code = cubin.read_bytes() if cubin.exists() else b""
    return subprocess.CompletedProcess(command, ran.returncode, code, ran.stderr)


# Measured figures.


def test_the_page_has_the_figures_on_record() -> None:
    again = "run: python -m bench.calibrate --figures bench/results/calibration.json --write"
    assert tables.PAGE.read_text() == tables.page(H200), again


@pytest.mark.parametrize(
    "one", [t for t in TILES if t.phase_lanes and t.name in H200], ids=lambda one: one.name
)
def test_a_wavefront_was_measured_to_take_a_clock(one: Tile) -> None:
    busy, *_ = H200[one.name]
    assert busy == pytest.approx(one.wavefronts, rel=0.01)
    if "matrix" not in one.name:
        assert one.wavefronts == LANES // one.phase_lanes


def test_what_an_h200_has_is_timed_as_it_is_spelled() -> None:
    timed = {instruction.name: instruction.ptx for instruction in calibrate.instructions()}
    for one in available(90):
        assert one.ptx.removeprefix("@p ").split()[0] in timed[one.name]
        assert one.ptx.startswith("@p ") == timed[one.name].startswith("@%p")


def test_costs_come_from_the_figures() -> None:
    costs = target("cuda:90").costs
    assert dataclasses.replace(costs, **tables.measured(H200)) == costs == calibrate.constants(REPORT["clocks"])
    others = {t.costs for t in TARGETS.values() if t.vendor == "nvidia"}
    assert {dataclasses.replace(other, float_alu=costs.float_alu) for other in others} == {costs}


def test_figures_of_another_gpu_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PAGE", tmp_path / "page.md")
    figures = tmp_path / "figures.json"
    command = ["--figures", str(figures), "--write", "--output", str(tmp_path)]
    figures.write_text(json.dumps(REPORT | {"device": "Radeon"}))
    with pytest.raises(SystemExit, match="of an H200, these are those of Radeon"):
        calibrate.main(command)
    assert not tables.PAGE.exists()
    figures.write_text(json.dumps(REPORT))
    assert calibrate.main(command) == 0
    assert tables.PAGE.read_text() == tables.page(H200)
    with pytest.raises(SystemExit):
        calibrate.main([*command, "--only", "shfl"])


# Availability.


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_what_is_there_assembles(capability: int) -> None:
    statements = [ptx for one in available(capability) for ptx in (one.ptx, *one.also)]
    done = ptxas(arch(capability), "; ".join(statements))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("one", [t for t in TILES if t.since in BEFORE], ids=lambda one: one.name)
def test_what_is_new_is_refused_before(one: Tile) -> None:
    assert ptxas(arch(one.since), one.ptx).returncode == 0
    refused = ptxas(BEFORE[one.since], one.ptx)
    assert refused.returncode and re.search(r"requires? .*sm_|not supported on", refused.stderr), refused.stderr


def test_every_target_knows_what_it_has() -> None:
    for name, found in TARGETS.items():
        if found.vendor != "nvidia":
            assert not found.store_matrix
            assert bool(found.load_matrix) == (name == "hip:gfx950")
            continue
        capability = int(name.removeprefix("cuda:"))
        names = {one.name for one in available(capability)}
        assert bool(found.load_matrix) == ("ldmatrix.x4.trans" in names)
        assert bool(found.store_matrix) == ("stmatrix.x4.trans" in names)
        for size, lanes in phase_lanes(capability).items():
            counts = {found.service(kind, size).count for kind in ("load", "store")}
            assert counts == {lanes} == {tile_of_store(size).phase_lanes}
    assert [bool(target(f"cuda:{c}").store_matrix) for c in CAPABILITIES] == [False, False, True, True]


def tile_of_store(size: int) -> Tile:
    (found,) = (t for t in TILES if t.name.startswith("st.shared.") and t.lane_bytes == size)
    return found


def test_other_spellings_are_the_same_instruction() -> None:
    spellings = [(one.name, ptx) for one in TILES for ptx in (one.ptx, *one.also) if one.also]
    done = ptxas("sm_90a", *(ptx for _, ptx in spellings))
    assert done.returncode == 0, done.stderr
    kernels = re.split(r"^\.text\.kernel(\d+):", disassemble(done.stdout), flags=re.MULTILINE)[1:]
    codes = dict(zip(kernels[::2], kernels[1::2], strict=True))
    found = set()
    for number, (name, _) in enumerate(spellings):
        (opcode,) = re.findall(r"\b(?:LDS|STS|SEL)\b[.\w]*", codes[str(number)])
        found.add((name, opcode))
    assert len(found) == len({name for name, _ in spellings})
