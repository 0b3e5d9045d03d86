"""Measures what instructions cost on the GPU at hand, and writes the table of instructions.

    python -m bench.calibrate [--dry sm_90] [--write] [--output FOLDER] [--suite FILE]

Each instruction gets a PTX kernel that does nothing else, assembled by ptxas and launched through CUDA's
driver. Clocks per warp instruction on one multiprocessor, three ways: `busy` (16 warps, nothing depends on
anything), `alone` (one warp, the same code), `chain` (one warp, each waits for the one before: the latency).
Barriers are per CTA: `busy` with 16 warps in CTAs of the size named, `alone` with one CTA.

`--dry` assembles every kernel and checks that the machine code holds the instructions that are to be timed.
`--write` writes bench/results/instructions.md from the figures; with `--figures FILE` from those of an earlier
run. The planners' costs (`lowering/target/targets.py`) are set by hand from them. `--suite` prints how the
model's predictions rank against the times of a run of bench.conversions.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import tables
from bench.conversions.build import disassemble, loop_instructions, nvidia_tool
from bench.conversions.driver import Kernel, Memory, device, synchronize
from bench.conversions.measure import per_iteration
from bench.conversions.report import ranking
from bench.harness import results
from bench.harness.cases import say
from bench.harness.options import Parser
from bench.harness.progress import progress
from triton_linear.lowering.target.targets import TARGETS, InstructionCosts

UNROLL = 64
WARPS = 16
STEPS = 200
TURNS = 9
_REGISTERS = 8  # Independent ones of which an instruction works on one.


@dataclass(frozen=True)
class Instruction:
    """What is timed: PTX with {i} for the register in turn, {j}, {k} and {l} for others, {q} for one of two
    predicates, {o} for a byte offset.

    An instance needs the instance on the same register before it, so that none is dropped as dead: a load's
    result is its next address. opcode: how the machine code calls it, `A + B` where it takes several, `@P A`
    where it is predicated. stride: bytes between the addresses of neighbouring lanes. pointers: memory holds
    each lane's own address, or else zeros, which are added to the address. warps: those of a CTA, where it is
    a barrier.
    """

    name: str
    ptx: str
    opcode: str
    stride: int = 4
    pointers: bool = False
    warps: int = 0

    @property
    def chained(self) -> bool:
        """Whether running it on one register alone gives its latency; two beside each other have none."""
        return "{l}" not in self.ptx and ("[%c{i}]" in self.ptx or "%r{i}, %r{i}" in self.ptx)


def _words(count: int, first: str) -> str:
    names = [first, *(f"%w{{i}}_{k}" for k in range(1, count))]
    return names[0] if count == 1 else "{{" + ", ".join(names) + "}}"


def _memory() -> list[Instruction]:
    found = []
    for bits in (8, 16):
        load = f"ld.shared.u{bits} %w{{i}}_0, [%c{{i}}]; add.u32 %c{{i}}, %c{{i}}, %w{{i}}_0;"
        store = f"st.shared.u{bits} [%a + {{o}}], %r{{i}};"
        found.append(Instruction(f"ld.shared.u{bits}", load, f"LDS.U{bits}"))
        found.append(Instruction(f"st.shared.u{bits}", store, f"STS.U{bits}"))
    for count, suffix, opcode in ((1, "b32", ""), (2, "v2.b32", ".64"), (4, "v4.b32", ".128")):
        adds = " ".join(f"add.u32 %c{{i}}, %c{{i}}, %w{{i}}_{k};" for k in range(count))
        load = f"ld.shared.{suffix} {_words(count, '%w{i}_0')}, [%c{{i}}]; {adds}"
        if count == 1:
            load = "ld.shared.b32 %c{i}, [%c{i}];"
        store = f"st.shared.{suffix} [%a + {{o}}], {_words(count, '%w{i}_0')};"
        size = 4 * count
        found.append(Instruction(f"ld.shared.{suffix}", load, f"LDS{opcode}", size, count == 1))
        found.append(Instruction(f"ld.shared.{suffix} broadcast", load, f"LDS{opcode}", 0, count == 1))
        found.append(Instruction(f"st.shared.{suffix}", store, f"STS{opcode}", size))
    return found


def _matrices() -> list[Instruction]:
    found = []
    for count, code in ((1, ""), (2, ".2"), (4, ".4")):
        words = _words(count, "%w{i}_0") if count > 1 else "{{%w{i}_0}}"
        for trans, mode in (("", "M88"), (".trans", "MT88")):
            form = f"sync.aligned.m8n8.x{count}{trans}.shared.b16"
            load = f"ldmatrix.{form} {words}, [%c{{i}}]; add.u32 %c{{i}}, %c{{i}}, %w{{i}}_0;"
            store = f"stmatrix.{form} [%a + {{o}}], {words};"
            found.append(Instruction(f"ldmatrix.x{count}{trans}", load, f"LDSM.16.{mode}{code}", 16))
            found.append(Instruction(f"stmatrix.x{count}{trans}", store, f"STSM.16.{mode}{code}", 16))
    return found


def _mixtures(shuffle: str, permute: str, select: str) -> list[Instruction]:
    """Whether arithmetic that moves words can be spread over two pipes.

    SEL and PRMT run on one, IMAD on another. A multiplication by a one that the assembler cannot see, under a
    predicate, is a select there; `@p mov` is not, as the assembler makes a SEL of it.
    """
    multiply = "mad.lo.u32 %r{i}, %r{i}, %s, %r{j};"
    guarded_move = "@%p{q} mov.b32 %r{i}, %r{j};"
    guarded_multiply = "@%p{q} mul.lo.u32 %r{i}, %r{j}, %one;"

    def other(ptx: str) -> str:
        """The same on registers of its own."""
        return ptx.replace("{i}", "{k}").replace("{j}", "{l}")

    return [
        Instruction("mad.lo", multiply, "IMAD"),
        Instruction("@p mul.lo", guarded_multiply, "@P IMAD"),
        Instruction("selp + @p mov", f"{select} {other(guarded_move)}", "SEL + SEL"),
        Instruction("selp + mad.lo", f"{select} {other(multiply)}", "SEL + IMAD"),
        Instruction("selp + @p mul.lo", f"{select} {other(guarded_multiply)}", "SEL + @P IMAD"),
        Instruction("prmt + mad.lo", f"{permute} {other(multiply)}", "PRMT + IMAD"),
        Instruction("prmt + @p mul.lo", f"{permute} {other(guarded_multiply)}", "PRMT + @P IMAD"),
        Instruction("prmt + selp", f"{permute} {other(select)}", "PRMT + SEL"),
        # An exchange of one lane bit: of two registers one is shuffled, and three selects stand around that.
        Instruction(
            "shfl.bfly + 3 selp",
            f"{select} {shuffle} {other(select)} {select}",
            "SHFL.BFLY + SEL + SEL + SEL",
        ),
        Instruction(
            "shfl.bfly + 2 selp + @p mul.lo",
            f"{select} {shuffle} {other(guarded_multiply)} {select}",
            "SHFL.BFLY + SEL + SEL + @P IMAD",
        ),
    ]


def instructions() -> tuple[Instruction, ...]:
    """Everything that is timed."""
    shuffle = "shfl.sync.bfly.b32 %r{i}, %r{i}, 1, 31, -1;"
    permute = "prmt.b32 %r{i}, %r{i}, %r{j}, %s;"
    select = "selp.b32 %r{i}, %r{j}, %r{i}, %p{q};"
    load = "ld.shared.b32 %c{i}, [%c{i}];"
    store = "st.shared.b32 [%a + 8192], %c{i};"
    barriers = [
        Instruction(f"bar.sync, {warps} warps", "bar.sync 0;", "BAR.SYNC", warps=warps)
        for warps in (1, 2, 4, 8, 16)
    ]
    return (
        Instruction("shfl.bfly", shuffle, "SHFL.BFLY"),
        Instruction("shfl.idx", "shfl.sync.idx.b32 %r{i}, %r{i}, %lane, 31, -1;", "SHFL.IDX"),
        Instruction("selp", select, "SEL"),
        Instruction("prmt", permute, "PRMT"),
        Instruction("movmatrix.trans", "movmatrix.sync.aligned.m8n8.trans.b16 %r{i}, %r{i};", "MOVM.16.MT88"),
        Instruction("shfl.bfly + prmt", f"{shuffle} {permute.replace('{i}', '{k}')}", "SHFL.BFLY"),
        Instruction("shfl.bfly + ld.shared.b32", f"{shuffle} {load}", "SHFL.BFLY", pointers=True),
        *_mixtures(shuffle, permute, select),
        *_memory(),
        *_matrices(),
        Instruction("st.shared.b32 + ld.shared.b32", f"{store} {load}", "LDS", pointers=True),
        Instruction(
            "st.shared.b32 + bar.warp.sync + ld.shared.b32",
            f"{store} bar.warp.sync -1; {load}",
            "LDS",
            pointers=True,
        ),
        *barriers,
    )


def kernel_text(instruction: Instruction, chained: bool, target: str, unroll: int = UNROLL) -> str:
    """PTX of a kernel that runs `unroll` instances per iteration and notes its clocks."""
    body = []
    for n in range(unroll):
        i = 0 if chained else n % _REGISTERS
        fields = {
            "i": i,
            "j": (i + 1) % _REGISTERS,
            "k": (i + 4) % _REGISTERS,
            "l": (i + 5) % _REGISTERS,
            "q": n // _REGISTERS % 2,
            "o": n % 4 * 4096,
        }
        body.append("  " + instruction.ptx.format(**fields))
    words = [f"%w{i}_{k}" for i in range(_REGISTERS) for k in range(4)]
    pointers = [f"%c{i}" for i in range(_REGISTERS)]
    registers = [f"%r{i}" for i in range(_REGISTERS)]
    newline = "\n"
    version = "8.7" if int(re.sub(r"\D", "", target)) >= 100 else "8.0"
    return f""".version {version}
.target {target}
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry timed(.param .u64 clocks, .param .u64 result, .param .u32 steps, .param .u32 zero)
{{
  .reg .b32 %lane, %a, %s, %t, %z, %one, %n, %unit, %x, %warp;
  .reg .b32 {", ".join(registers)};
  .reg .b32 {", ".join(words)};
  .reg .b32 {", ".join(pointers)};
  .reg .b64 %begin, %end, %clocks, %result, %at;
  .reg .pred %p0, %p1, %more, %first;
  ld.param.u64 %clocks, [clocks];
  ld.param.u64 %result, [result];
  ld.param.u32 %n, [steps];
  ld.param.u32 %z, [zero];
  mov.u32 %x, %tid.x;
  and.b32 %lane, %x, 31;
  shr.u32 %warp, %x, 5;
  mov.u32 %t, memory;
  shl.b32 %a, %lane, 4;
  add.u32 %a, %a, %t;
  st.shared.v4.b32 [%a], {{%z, %z, %z, %z}};
  bar.sync 0;
  mul.lo.u32 %a, %lane, {instruction.stride};
  add.u32 %a, %a, %t;
  {"st.shared.b32 [%a], %a;" if instruction.pointers else ""}
{newline.join(f"  mov.u32 {c}, %a;" for c in pointers)}
  add.u32 %s, %z, 12816;
  add.u32 %one, %z, 1;
  and.b32 %t, %x, 1;
  setp.eq.u32 %p0, %t, 0;
  and.b32 %t, %x, 2;
  setp.eq.u32 %p1, %t, 0;
{newline.join(f"  add.u32 {r}, %x, {i};" for i, r in enumerate(registers))}
{newline.join(f"  add.u32 {w}, %x, {i};" for i, w in enumerate(words))}
  bar.sync 0;
  mov.u64 %begin, %clock64;
LOOP:
{newline.join(body)}
  xor.b32 %a, %a, %z;
  add.u32 %n, %n, -1;
  setp.ne.u32 %more, %n, 0;
  @%more bra LOOP;
  bar.sync 0;
  mov.u64 %end, %clock64;
  mov.u32 %unit, %smid;
{newline.join(f"  xor.b32 %r0, %r0, {r};" for r in (*registers[1:], *words, *pointers))}
  mul.wide.u32 %at, %x, 4;
  add.u64 %result, %result, %at;
  st.global.b32 [%result], %r0;
  setp.ne.u32 %first, %x, 0;
  @%first bra DONE;
  mov.u32 %t, %ctaid.x;
  mul.wide.u32 %at, %t, 24;
  add.u64 %clocks, %clocks, %at;
  cvt.u64.u32 %at, %unit;
  st.global.u64 [%clocks], %at;
  st.global.u64 [%clocks + 8], %begin;
  st.global.u64 [%clocks + 16], %end;
DONE:
  ret;
}}
"""


class AssemblyError(RuntimeError):
    """ptxas refused a kernel, or left out what is to be timed."""


def assemble(ptx: str, target: str) -> bytes:
    """The cubin of PTX text."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [nvidia_tool("ptxas"), f"-arch={target}", str(source), "-o", str(cubin)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise AssemblyError(ran.stderr.strip())
        return cubin.read_bytes()


@functools.cache
def checked(instruction: Instruction, chained: bool, target: str) -> bytes:
    """The cubin of a kernel whose loop holds each instance.

    Raises AssemblyError where ptxas left too few.
    """
    cubin = assemble(kernel_text(instruction, chained, target), target)
    loop = loop_instructions(disassemble(cubin), guards=True)
    for opcode, times in Counter(instruction.opcode.split(" + ")).items():
        count = sum(n for found, n in loop.items() if found.startswith(opcode))
        if count < times * UNROLL:
            raise AssemblyError(
                f"{instruction.name}: {count} {opcode} in the loop, not {times * UNROLL}: {loop}"
            )
    return cubin


class _Timer:
    """The memory that the kernels share."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.clocks = Memory(24 * WARPS * device().multiprocessors)
        self.result = Memory(4 * 32 * WARPS)

    def time(self, instruction: Instruction, chained: bool, warps: int, ctas: int) -> float:
        """Clocks per instance on one multiprocessor, of `ctas` CTAs in all."""
        shared = 1024 if instruction.warps else 32 * 1024  # Barriers touch none, and many CTAs must fit.
        kernel = Kernel(checked(instruction, chained, self.target), "timed", warps, shared, 4)
        times = []
        for _ in range(TURNS):
            kernel.launch(ctas, (self.clocks, self.result, STEPS, 0))
            synchronize()
            record = np.frombuffer(self.clocks.read(24 * ctas), np.int64).reshape(-1, 3)
            times.append(per_iteration(record, STEPS * UNROLL))
        kernel.unload()
        return float(np.median(times))


def measure(instruction: Instruction, timer: _Timer) -> dict[str, float]:
    """`busy`, `alone` and, where there is one, `chain`."""
    units = device().multiprocessors
    if instruction.warps:
        resident = WARPS // instruction.warps
        return {
            "busy": timer.time(instruction, False, instruction.warps, units * resident),
            "alone": timer.time(instruction, False, instruction.warps, 1),
        }
    found = {
        "busy": timer.time(instruction, False, WARPS, units) / WARPS,
        "alone": timer.time(instruction, False, 1, 1),
    }
    if instruction.chained:
        found["chain"] = timer.time(instruction, True, 1, 1)
    return found


def constants(times: Mapping[str, Mapping[str, float]]) -> InstructionCosts:
    """The costs of a target from what was measured; others keep what the table says."""
    clocks = {name: (row["busy"], row["alone"], row.get("chain")) for name, row in times.items()}
    return dataclasses.replace(TARGETS["cuda:90"].costs, **tables.measured(clocks))


def print_table(times: Mapping[str, Mapping[str, float]], console: Console) -> None:
    """The figures as people read them."""
    table = Table("instruction", "busy", "alone", "chain")
    for name, row in times.items():
        table.add_row(name, *(f"{row[key]:.2f}" if key in row else "" for key in ("busy", "alone", "chain")))
    console.print(table)


def assemble_all(chosen: Sequence[Instruction], target: str) -> list[str]:
    """Assemble and check every kernel, as many at a time as there are cores; what failed."""

    def attempt(work: tuple[Instruction, bool]) -> str | None:
        instruction, chained = work
        try:
            checked(instruction, chained, target)
        except AssemblyError as error:
            return f"{instruction.name}{' (chain)' * chained}: {error}"
        return None

    work = [(i, chained) for i in chosen for chained in ((False, True) if i.chained else (False,))]
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool, progress("assemble", len(work)) as tick:
        for error in pool.map(attempt, work):
            failed += [error] if error else []
            tick()
    return failed


def time_all(chosen: Sequence[Instruction]) -> dict[str, Any]:
    """The report of a run on the GPU at hand."""
    found = device()
    timer = _Timer(f"sm_{found.capability[0]}{found.capability[1]}" + "a" * (found.capability[0] >= 9))
    assemble_all(chosen, timer.target)
    times: dict[str, dict[str, float]] = {}
    with progress("time", len(chosen)) as tick:
        for instruction in chosen:
            try:
                times[instruction.name] = measure(instruction, timer)
            except AssemblyError as error:
                say(f"{instruction.name}: left out: {error}")
            tick()
    return {
        "device": found.name,
        "target": found.target,
        "clock_mhz": found.clock_mhz,
        "date": results.today(),
        "clocks": times,
    }


def rank_suite(path: Path) -> str:
    """How predictions rank over a run of the suite."""
    count, correlation = ranking(json.loads(path.read_text())["cases"])
    return f"rank correlation of predicted and measured throughput: {correlation:.3f} over {count} cases"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("calibrate", __doc__).only("instructions").output(results.RESULTS)
    parser.add_argument(
        "--dry", metavar="ARCH", nargs="?", const="sm_90", help="assemble for ARCH, launch nothing"
    )
    parser.add_argument("--suite", type=Path, help="results of bench.conversions to rank predictions against")
    parser.add_argument("--figures", type=Path, help="take the figures of an earlier run from this file")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write bench/results/instructions.md from the figures",
    )
    options = parser.parse_args(argv)
    if options.write and options.only:
        parser.error("--write wants the figures of all instructions, not those of --only")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    options = parse(argv)
    chosen = [i for i in instructions() if re.search(options.only, i.name)]
    if options.dry:
        failed = assemble_all(chosen, options.dry)
        print(*failed, sep="\n", file=sys.stderr)
        print(f"{len(chosen)} instructions, {len(failed)} kernels failed for {options.dry}")
        return int(bool(failed))
    report = json.loads(options.figures.read_text()) if options.figures else time_all(chosen)
    console = Console()
    print_table(report["clocks"], console)
    if not options.only:
        costs = constants(report["clocks"])
        report["costs"] = dataclasses.asdict(costs)
        console.print(f"{report['target']} = {costs}")
    if options.suite:
        console.print(rank_suite(options.suite))
    options.output.mkdir(parents=True, exist_ok=True)
    stem = "calibration_part" if options.only else "calibration"
    results.replaced(options.output / f"{stem}.json", json.dumps(report, indent=1) + "\n")
    if options.write:
        try:
            tables.write(report)
        except ValueError as error:
            raise SystemExit(f"calibrate: {error}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
