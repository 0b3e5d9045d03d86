"""Check the cluster exchanges of a kernel that alternate between two pieces of scratch.

The exchanges, of conversions and of gathers, are run one after another, in the order of the kernel. If one
lacks a barrier, it races with the next exchange that stores to the same piece. The body of each loop is run
twice. Each partition has pieces of its own, and is run by itself, once. Kernels with branches are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from triton_linear.dialect.linear_layout import BLOCK, REGISTER, WARP
from triton_linear.lowering.emit.machines import ALL_WARPS_BARRIER, RANK, THREAD
from triton_linear.lowering.emit.partitions import THREAD_IN_PARTITION
from triton_linear.lowering.emit.turns import PIECES
from triton_linear.lowering.interpreter.function import simulate
from triton_linear.lowering.interpreter.memory import Bits, Race
from triton_linear.lowering.plan.stubs import GatherStub, Stub
from triton_linear.lowering.target.targets import Target

ARRIVE, WAIT = "    nvvm.cluster.arrive {aligned}", "    nvvm.cluster.wait {aligned}"
_RELAXED = "    nvvm.cluster.arrive.relaxed {aligned}"
_LOCATION = re.compile(r" loc\(#__ll_loc(\d+)\)$")
_PIECE = re.compile(
    r"%__ll_(?P<call>\d+)_(?P<what>scratch|both) = llvm\.extractvalue "
    r"(?P<region>%__own_\w*?)piece(?P<piece>\d+)_place\[0\]"
)
_IN_PARTITION = re.compile(rf"{THREAD_IN_PARTITION}\d+_(thread|rank)\b")
_OF_PARTITIONS = tuple(
    f'    %{name} = llvm.inline_asm asm_dialect = att "{text}", "=r" : () -> i32'
    for name, text in (("thread", THREAD), ("rank", RANK))
)
"""The number of the thread, in place of the number in the partition: only the partition's threads are
simulated. And the rank of the CTA, which a partition asks for too."""
_ENDING = (
    r"(?:nvvm\.cluster\.wait {{aligned}}|ttng\.cluster_barrier) loc\(unknown\)\n"
    r"(?: *ttg\.local_(?:store|dealloc) .*\n)*? *ttg\.local_dealloc {}piece\d+_memory"
)
"""The barrier at the end of a region whose pieces have names that begin so."""
_OPERAND = re.compile(r"%__ll_(\d+)_(source|index) = .* to (\S.*)$")
_SYMBOL = re.compile(r'^#__ll_loc(\d+) = loc\("(\w+)"\(', re.MULTILINE)
_BRANCHES = ('"scf.if"', '"scf.while"', '"cf.', '"scf.index_switch"', '"scf.execute_region"')
_LOOP = '"scf.for"'


def numbers_in_partition(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines with the numbers that code asks for which `simulated` gives; none if it is in no partition."""
    return _OF_PARTITIONS if any(_IN_PARTITION.search(line) for line in lines) else ()


def simulated(lines: Sequence[str]) -> list[str]:
    """Code, without locations, with the numbers of `numbers_in_partition`, and with the cluster's own barrier
    in place of Triton's operation."""
    own = [_IN_PARTITION.sub(r"%\1", line) for line in lines]
    return [one for line in own for one in ((ARRIVE, WAIT) if line.strip() == ALL_WARPS_BARRIER else (line,))]


def takes_turns(lines: Sequence[str]) -> bool:
    """Whether an exchange's code, without locations, alternates between pieces of scratch."""
    return any(_PIECE.search(line) for line in lines)


def spares_barrier(lines: Sequence[str]) -> bool:
    """Whether code, without locations, takes turns and has no barrier behind its loads: the exchange that comes
    next has one, or the end of the function or region."""
    last = max((number for number, line in enumerate(lines) if "llvm.load" in line), default=0)
    return takes_turns(lines) and WAIT not in simulated(lines[last:])


def closed(lines: Sequence[str]) -> list[str]:
    """The code of such an exchange with a barrier at its end, so that it can be run alone.

    In a kernel the barrier may come later, which `races_in_turns` checks.
    """
    last = max(number for number, line in enumerate(lines) if "llvm.load" in line)
    rest = [line for line in lines[last:] if line not in (ARRIVE, _RELAXED, WAIT)]
    return [*lines[:last], *rest, ARRIVE, WAIT]


def races_in_turns(
    text: str, stubs: Mapping[str, Stub], target: Target, shared: Sequence[str]
) -> tuple[Race, ...]:
    """The races between a module's alternating exchanges; `shared`: lines of code that all of them need."""
    pieces: dict[str, dict[int, int | None]] = {}
    for found in _PIECE.finditer(text):
        piece = int(found["piece"]) if found["what"] == "scratch" else None
        pieces.setdefault(found["region"], {})[int(found["call"])] = piece
    if any(branch in text for branch in _BRANCHES):
        return ()
    regions = (_races(text, stubs, target, shared, region, found) for region, found in pieces.items())
    return tuple(race for races in regions for race in races)


def _races(
    text: str,
    stubs: Mapping[str, Stub],
    target: Target,
    shared: Sequence[str],
    region: str,
    pieces: Mapping[int, int | None],
) -> tuple[Race, ...]:
    """Those of a region or function whose pieces have names that begin with `region`, and whose calls have
    these `pieces`; None: they alternate."""
    plans = {int(number): stubs[symbol] for number, symbol in _SYMBOL.findall(text) if int(number) in pieces}
    code, order = _code_and_order(text, pieces, region)
    taken = [turn % PIECES if (piece := pieces[n]) is None else piece for turn, n in enumerate(order)]
    sizes = [
        max((plans[n].plan.scratch_bytes for n, at in zip(order, taken, strict=True) if at == piece), default=0)
        for piece in range(PIECES)
    ]
    operands = {
        (number, match[2]): match[3]
        for number in pieces
        for line in code[number]
        if (match := _OPERAND.search(line))
    }
    types = "".join(re.findall(r"^!__ll_\w+ = .*\n", text, re.MULTILINE))
    whole = f"!llvm.struct<({', '.join(operands.values())})>"
    lines = [f"llvm.func @turns(%source: {whole}, %scratch: !llvm.ptr<3>) {{", *shared]
    lines += numbers_in_partition([line for number in order for line in code[number]])
    for piece in range(len(sizes)):
        where = f"llvm.getelementptr %scratch[{sum(sizes[:piece])}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"
        lines.append(f"    %piece{piece} = {where}")
    for turn, number in enumerate(order):
        lines += [
            f"    %turn{turn}_{name} = llvm.extractvalue %source[{place}] : {whole}"
            for place, (user, name) in enumerate(operands)
            if user == number
        ]
        own = code[number][:-1]  # the last line is the cast of the result
        prefix = f"%__ll_{number}_"
        start = next(at for at, line in enumerate(own) if f"{prefix}scratch = " in line) + 1
        body = [line.replace(f"{prefix}scratch", f"%piece{taken[turn]}") for line in simulated(own[start:])]
        lines += [line.replace(prefix, f"%turn{turn}_") for line in body]
    ends = re.search(_ENDING.format(re.escape(region)), text, re.MULTILINE)
    ending = [ARRIVE, WAIT] if ends else []
    lines += [*ending, "    llvm.return", "}\n"]
    first = next(iter(plans.values()))
    warps, ctas = (1 << len(first.source.columns(dim)) for dim in (WARP, BLOCK))
    # All elements are zero, so that threads which store copies of one do not race with each other.
    threads, rng = target.lanes * warps * ctas, np.random.default_rng(0)
    data: list[Bits] = []
    for number, name in operands:
        stub, size = plans[number], 1
        layout = stub.source
        if name == "index" and isinstance(stub, GatherStub):
            layout, size = stub.index, stub.source.out_dims[stub.axis][1]
        count = 1 << len(layout.columns(REGISTER))
        data += list(rng.integers(0, size, (count, 1, threads), np.uint64))
    return simulate(types + "\n".join(lines), data, target, warps, sum(sizes), ctas=ctas).races


def _code_and_order(text: str, pieces: Collection[int], region: str) -> tuple[dict[int, list[str]], list[int]]:
    """The code of each exchange, and the order in which they run if each loop has two iterations, but for loops
    around the region."""
    code: dict[int, list[str]] = {number: [] for number in pieces}
    open_: list[tuple[bool, int]] = []
    order: list[int] = []
    around = 0
    for line in text.splitlines():
        if line.lstrip().startswith(f"{region}piece") and "_memory = " in line:
            around = len(open_)
        if match := _LOCATION.search(line):
            number = int(match[1])
            if number in pieces:
                code[number].append(line[: match.start()])
                if _PIECE.search(line):
                    order.append(number)
            continue
        if line.lstrip().startswith("})"):
            is_loop, start = open_.pop()
            order += order[start:] if is_loop and len(open_) >= around else []
        if line.rstrip().endswith("({"):
            open_.append((_LOOP in line, len(order)))
    return code, order
