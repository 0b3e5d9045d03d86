"""Kernels with several CTAs a cluster: what stays in each CTA and what crosses is converted by our code, and
nobody stores over what another CTA still reads."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster_marks import ordered, unordered

from bench.fuzz.partitions import examine_partitions, partitions_text
from bench.fuzz.program import Convert, Program
from triton_linear.lowering.emit import scratch
from triton_linear.lowering.emit.calls import CallWriter
from triton_linear.lowering.emit.embed import Embedded
from triton_linear.lowering.emit.turns import Order, Turn
from triton_linear.passes import attempts
from triton_linear.tools import cli
from triton_linear.tools.support.compile import LOWERING, Compilation, compile_text
from triton_linear.tools.verify.command import check

GPUS = ("cuda:90", "cuda:100")
BY_ROW, BY_COLUMN = (1, 0), (0, 1)


def blocked(columns_first: bool, ctas: list[tuple[int, int]]) -> str:
    """A layout of 32 lanes and 4 warps along the columns or the rows, its CTAs as their basis vectors say."""
    sizes, lanes, warps, order = (
        ([4, 1], [4, 8], [1, 4], [0, 1]) if columns_first else ([1, 4], [8, 4], [4, 1], [1, 0])
    )
    return (
        f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, "
        f"order = {order}, CGALayout = {[list(basis) for basis in ctas]}}}>"
    )


def kernel(encodings: list[str], ctas: int, element: str = "f32") -> str:
    """A kernel that loads a tensor in the first layout, converts it to each of the others in turn, and stores
    it in the last; additions keep conversions from folding."""
    types = [f"tensor<64x64x{element}, {encoding}>" for encoding in encodings]
    first, last = (f"tensor<64x64x!tt.ptr<{element}>, {encodings[end]}>" for end in (0, -1))
    lines = [f"%x0 = tt.load %p : {first}"]
    for step, (before, after) in enumerate(itertools.pairwise(types)):
        lines.append(f"%y{step} = ttg.convert_layout %x{step} : {before} -> {after}")
        lines.append(f"%x{step + 1} = arith.addf %y{step}, %y{step} : {after}")
    lines.append(f"tt.store %q, %x{len(types) - 1} : {last}")
    body = "\n    ".join(lines)
    return (
        f'module attributes {{"ttg.num-ctas" = {ctas} : i32, "ttg.num-warps" = 4 : i32, '
        'ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {\n'
        f"  tt.func public @k(%p: {first}, %q: {last}) {{\n    {body}\n    tt.return\n  }}\n}}\n"
    )


def compiled(text: str, gpu: str, stage: str = "ptx") -> Compilation:
    """A module through the whole pipeline for a GPU."""
    return compile_text(text.replace("cuda:90", gpu), "k.ttgir", None, stage, LOWERING)


def steps(ptx: str) -> str:
    """What happens to shared memory, a letter each: stores, loads, remote loads, barriers of the CTA and of the
    cluster; repetitions once."""
    kinds = (
        (r"(st\.shared|stmatrix)", "s"),
        (r"ld\.shared::cluster", "R"),
        (r"(ld\.shared|ldmatrix)", "l"),
        (r"bar\.sync", "b"),
        (r"barrier\.cluster\.wait", "C"),
    )
    found = ""
    for line in ptx.splitlines():
        letter = next((letter for text, letter in kinds if re.search(rf"^\s*{text}", line)), "")
        if letter and not found.endswith(letter):
            found += letter
    return found


def ptx_of(compilation: Compilation) -> str:
    (found,) = compilation.kernels
    return found.lowered.text("ptx")


@ordered
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("ctas", [2, 4, 8, 16])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_what_stays_in_its_cta_is_ours_and_right_in_every_cta(gpu: str, ctas: int, element: str) -> None:
    bases = [BY_ROW, BY_COLUMN, (2, 0), (0, 0)][: ctas.bit_length() - 1]
    text = kernel([blocked(True, bases), blocked(False, bases)], ctas, element)
    compilation = compiled(text, gpu)
    (found,) = check(compilation)
    assert found.of.kind == "cta-shared"
    assert found.verdict is not None and found.ok
    # Every CTA was run, each register of each of its threads compared.
    (stub,) = compilation.stubs.values()
    registers = stub.destination.in_dim_size("register")
    assert found.verdict.checked == ctas * 4 * 32 * registers
    # A store, the CTA's barrier and a load. What Triton has at the end of a cluster's kernel comes behind.
    assert steps(ptx_of(compilation)).removesuffix("C") == "sbl"
    assert f".reqnctapercluster {ctas}" in ptx_of(compilation)


@ordered
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("ctas", [2, 4, 8, 16])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_what_crosses_ctas_is_ours_and_right(gpu: str, ctas: int, element: str) -> None:
    count = ctas.bit_length() - 1
    rows, columns = ([(1 << bit, 0) for bit in range(count)], [(0, 1 << bit) for bit in range(count)])
    text = kernel([blocked(True, rows), blocked(False, columns)], ctas, element)
    compilation = compiled(text, gpu)
    (found,) = check(compilation)
    assert found.of.kind == "cluster-shared"
    assert found.verdict is not None and found.ok
    (stub,) = compilation.stubs.values()
    assert found.verdict.checked == ctas * 4 * 32 * stub.destination.in_dim_size("register")
    # Triton's own barrier at the end of the kernel follows ours.
    assert re.fullmatch("sCRC", steps(ptx_of(compilation)))
    assert ptx_of(compilation).count("barrier.cluster.wait") == 3


@ordered
def test_explain_and_view_tell_ctas_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "across.ttgir"
    path.write_text(kernel([blocked(True, [BY_ROW]), blocked(False, [BY_COLUMN])], 2))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "convert_layout" in text)
    assert cli.main(["explain", str(path)]) == 0
    explained = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "CTAs 2x1" in explained and "CTAs 1x2" in explained
    assert re.search(r"256 wavefronts .*, 2 cluster barriers, 32768 bytes moved, in all CTAs", explained)
    assert cli.main(["view", f"{path}:{line}"]) == 0
    viewed = capsys.readouterr().out
    assert "block 1: coordinates xor (32, 0)" in viewed and "block 1: coordinates xor (0, 32)" in viewed
    assert "B0T0:0" in viewed


@ordered
def test_a_conversion_across_ctas_is_on_both_sides_of_others() -> None:
    """Scratch has the same bytes in turn: after the loads of other CTAs, and before those that follow."""
    first, second = blocked(True, [BY_ROW]), blocked(False, [BY_COLUMN])
    compilation = compiled(kernel([first, second, first, second], 2), "cuda:90")
    assert [found.of.kind for found in check(compilation)] == ["cluster-shared"] * 3
    assert all(found.ok for found in check(compilation))
    # Each stores to other bytes than the one before it, so only the last has a second barrier.
    assert steps(ptx_of(compilation)) == "sCRsCRsCRC"


def looping(encodings: list[str]) -> str:
    """A kernel whose loop converts through all of these layouts and back to the first, with one conversion
    behind the loop."""
    types = [f"tensor<64x64xf32, {encoding}>" for encoding in encodings]
    lines = [
        "%zero = arith.constant 0 : i32",
        "%one = arith.constant 1 : i32",
        "%end = arith.constant 9 : i32",
        f"%r = scf.for %i = %zero to %end step %one iter_args(%z0 = %x0) -> ({types[0]}) : i32 {{",
    ]
    for step, (before, after) in enumerate(itertools.pairwise([*types, types[0]])):
        lines.append(f"%a{step} = ttg.convert_layout %z{step} : {before} -> {after}")
        lines.append(f"%z{step + 1} = arith.addf %a{step}, %a{step} : {after}")
    lines += [f"scf.yield %z{len(types)} : {types[0]}", "}"]
    lines.append(f"%x1 = ttg.convert_layout %r : {types[0]} -> {types[1]}")
    once = re.compile(r"    %y0 = .*\n    %x1 = .*\n")
    return once.sub("    " + "\n    ".join(lines) + "\n", kernel(encodings[:2], 4))


BY_ROWS, BY_COLUMNS = blocked(True, [BY_ROW, (2, 0)]), blocked(False, [BY_COLUMN, (0, 2)])
BY_BOTH = blocked(False, [BY_ROW, BY_COLUMN])


@ordered
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    ("encodings", "expected"),
    [
        # An even number: the one behind each has the other piece of scratch.
        ([BY_ROWS, BY_COLUMNS], "sCRsCRsCRC"),
        # An odd one: they alternate, and the first of the loop has another one in each iteration.
        ([BY_ROWS, BY_COLUMNS, BY_BOTH], "sCRsCRsCRsCRC"),
    ],
)
def test_exchanges_of_a_loop_take_turns(encodings: list[str], expected: str, gpu: str) -> None:
    compilation = compiled(looping(encodings), gpu)
    checked = check(compilation)
    assert [found.of.kind for found in checked] == ["cluster-shared"] * (len(encodings) + 1)
    assert all(found.ok for found in checked)
    # That at the end is of no exchange.
    of_each = [piece.count("C") for piece in expected.removesuffix("C").split("s")[1:]]
    assert [found.verdict and found.verdict.counts.cluster_barriers for found in checked] == of_each
    # Exchanges that alternate load the word that says which piece is next. Triton's own barrier may follow at
    # the end of the kernel.
    found = re.sub("s+", "s", steps(ptx_of(compilation)).replace("l", ""))
    assert found.removesuffix("C") in (expected, expected.removesuffix("C"))
    assert ptx_of(compilation).count("barrier.cluster.wait") >= expected.count("C")


@ordered
def test_exchanges_with_one_piece_keep_both_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for two: all have the same bytes one after the other."""

    def one_piece(uses: Any, taking: Any, threads: int) -> dict[int, Turn]:
        return {number: Turn(0, True) for number in taking}

    monkeypatch.setattr(scratch, "alternating", one_piece)
    checked = check(compiled(looping([BY_ROWS, BY_COLUMNS, BY_BOTH]), "cuda:90", "llvm"))
    assert all(found.ok for found in checked)
    barriers = [found.verdict and found.verdict.counts.cluster_barriers for found in checked]
    assert barriers == [2] * len(checked)


@ordered
def test_pieces_are_reserved_to_the_end() -> None:
    """Until the last barrier others may load from them, and Triton sees none that guards their bytes."""
    (made,) = compiled(looping([BY_ROWS, BY_COLUMNS]), "cuda:90", "llvm").kernels
    for piece in (0, 1):
        before, _, behind = made.embedded.partition(f"ttg.local_dealloc %__own_piece{piece}_memory")
        assert "nvvm.cluster.wait" in before and "nvvm" not in behind
        assert behind.count("tt.return") == 1


@ordered
def test_copies_that_store_the_same_are_no_race() -> None:
    """A single element in all lanes of a warp: each stores it."""
    sides = [
        "#ttg.linear<{register = [], lane = [[1], [0], [0], [0], [0]], warp = [], block = [[2]]}>",
        "#ttg.linear<{register = [], lane = [[2], [0], [0], [0], [0]], warp = [], block = [[1]]}>",
    ]
    types = [f"tensor<4xi32, {side}>" for side in (*sides, sides[0])]
    pointers = [f"tensor<4x!tt.ptr<i32>, {sides[0]}>"] * 2
    lines = [f"%x0 = tt.load %p : {pointers[0]}"]
    for step, (before, after) in enumerate(itertools.pairwise(types)):
        lines.append(f"%y{step} = ttg.convert_layout %x{step} : {before} -> {after}")
        lines.append(f"%x{step + 1} = arith.addi %y{step}, %y{step} : {after}")
    lines.append(f"tt.store %q, %x2 : {pointers[1]}")
    text = kernel([BY_ROWS, BY_COLUMNS], 2).replace('"ttg.num-warps" = 4', '"ttg.num-warps" = 1')
    body = re.compile(r"\(%p: .*\n    tt\.return", re.DOTALL)
    joined = "\n    ".join(lines)
    text = body.sub(f"(%p: {pointers[0]}, %q: {pointers[1]}) {{\n    {joined}\n    tt.return", text)
    checked = check(compiled(text, "cuda:90"))
    assert [found.of.kind for found in checked] == ["cluster-shared"] * 2
    assert all(found.ok for found in checked)


@ordered
@pytest.mark.parametrize(
    ("encodings", "change"),
    [
        ([BY_ROWS, BY_COLUMNS], {"piece": 0}),
        ([BY_ROWS, BY_COLUMNS, BY_BOTH], {"piece": 0, "closes": False}),
        ([BY_ROWS, BY_COLUMNS, BY_BOTH], {"closes": False}),
    ],
)
def test_exchanges_that_take_wrong_turns_are_found(
    encodings: list[str], change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All with one piece of scratch, or an odd number of them without a second barrier."""
    right = scratch.turns

    def wrong(order: Order) -> dict[int, Turn]:
        return {number: replace(turn, **change) for number, turn in right(order).items()}

    monkeypatch.setattr(scratch, "turns", wrong)
    assert ("cluster", "write after read") in races_of(looping(encodings))


def races_of(text: str) -> set[tuple[str, str]]:
    checked = check(compiled(text, "cuda:90"))
    return {(race.scope, race.hazard) for found in checked if found.verdict for race in found.verdict.races}


@ordered
def test_a_missing_barrier_at_the_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = looping([BY_ROWS, BY_COLUMNS])
    assert races_of(text) == set()
    monkeypatch.setattr(CallWriter, "ending", lambda self: "")
    assert races_of(text) == {("cluster", "end after read")}


@ordered
@pytest.mark.parametrize("gpu", GPUS)
def test_our_stores_wait_for_loads_of_other_ctas(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A barrier of the cluster stands between Triton's remote loads, here of a reduction, and our stores to the
    same bytes; the marks bring it there, for without them there is none."""
    first, second = blocked(True, [BY_ROW]), blocked(False, [BY_ROW])
    tensor, column = f"tensor<64x64xf32, {first}>", f"#ttg.slice<{{dim = 0, parent = {first}}}>"
    reduction = f"""%r = "tt.reduce"(%x0) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }}) : ({tensor}) -> tensor<64xf32, {column}>
    %e = tt.expand_dims %r {{axis = 0 : i32}} : tensor<64xf32, {column}> -> tensor<1x64xf32, {first}>
    %w = tt.broadcast %e : tensor<1x64xf32, {first}> -> {tensor}
    %y0 = ttg.convert_layout %w :"""
    text = kernel([first, second], 2).replace("%y0 = ttg.convert_layout %x0 :", reduction)
    compilation = compiled(text, gpu)
    assert [found.of.kind for found in check(compilation)] == ["cta-shared"]
    assert "RCsbl" in steps(ptx_of(compilation))
    embed = attempts.embed

    def without_marks(*arguments: Any, **options: Any) -> Embedded:
        made = embed(*arguments, **options)
        text, count = re.subn(r"\n *ttg\.local_store %__ll_\w+_nothing,[^\n]*", "", made.text)
        assert count == 2
        return replace(made, text=text)

    monkeypatch.setattr(attempts, "embed", without_marks)
    assert "RCsbl" not in steps(ptx_of(compiled(text, gpu)))


@unordered
def test_what_is_not_ordered_is_left_with_its_reason() -> None:
    text = kernel([blocked(True, [BY_ROW]), blocked(False, [BY_ROW])], 2)
    (found,) = check(compiled(text, "cuda:90"))
    assert found.verdict is None
    assert "2 CTAs share their memory" in found.plan


def test_shuffles_are_ours_on_every_release() -> None:
    """They need no memory: lanes change places within their warp."""
    rows = blocked(False, [BY_ROW])
    (found,) = check(
        compiled(kernel([rows, rows.replace("sizePerThread = [1, 4]", "sizePerThread = [1, 2]")], 2), "cuda:90")
    )
    assert found.of.kind == "shuffle"
    assert found.verdict is not None and found.ok


REGION_LAYOUTS = {"rows": ([1, 4], [4, 8], [4, 1], [1, 0]), "columns": ([4, 1], [8, 4], [1, 4], [0, 1])}


def in_region(source: tuple[int, int], destination: tuple[int, int], region: int) -> Program:
    """A conversion in a warp-specialised region of a cluster of two CTAs, which lie as the vectors say."""
    sides = []
    for name, basis in (("rows", source), ("columns", destination)):
        sizes, lanes, warps, order = REGION_LAYOUTS[name]
        sides.append(
            f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, "
            f"order = {order}, CGALayout = [{list(basis)}]}}>"
        )
    return Program("cuda:90", 4, (64, 64), "i32", sides[0], (Convert(sides[1]),), region, 2)


@ordered
@pytest.mark.parametrize("gpu", GPUS)
def test_in_regions_of_a_cluster_the_warps_of_a_region_wait_for_those_of_other_ctas(gpu: str) -> None:
    """The barrier of the cluster is one of all warps; Triton has one for those of a partition, by mbarriers."""
    programs = [in_region(BY_ROW, BY_ROW, 0), in_region(BY_ROW, BY_COLUMN, 1), in_region(BY_ROW, BY_ROW, 1)]
    compilation = compiled(partitions_text(programs), gpu)
    checked = check(compilation)
    assert [found.of.kind for found in checked] == ["cta-shared", "cluster-shared", "cta-shared"]
    assert all(found.ok for found in checked)
    before, _, partition = ptx_of(compilation).rpartition("mapa")
    between = before[before.rindex("st.shared.") :]
    behind = partition[: partition.index("st.shared.v4")]
    for part in (between, behind):
        assert "mbarrier.try_wait.parity.acquire.cluster" in part
        assert "barrier.cluster" not in part
    assert re.search(r"bar\.sync\s+2, 128;", partition)


def by_rank(region: int, *, warps: bool) -> Program:
    """A conversion in a region of two CTAs that hold the same, of which each wants a half; `warps`: it changes
    what the warps hold."""
    lane, warp = (
        ([[2], [4], [8], [16], [64]], [[32], [0]]) if warps else ([[4], [2], [8], [16], [32]], [[64], [0]])
    )
    held = (
        "#ttg.linear<{register = [[1], [128]], lane = [[2], [4], [8], [16], [32]], warp = [[64], [0]], "
        "block = [[0]]}>"
    )
    wanted = f"#ttg.linear<{{register = [[128]], lane = {lane}, warp = {warp}, block = [[1]]}}>"
    return Program("cuda:90", 4, (256,), "i32", held, (Convert(wanted),), region, 2)


@ordered
@pytest.mark.parametrize("gpu", GPUS)
def test_a_partition_asks_for_the_rank_of_its_cta_itself(gpu: str) -> None:
    """All CTAs hold all, and each wants half: which, depends on the rank. What the function around has asked
    for is not known in a partition."""
    compilation = compiled(partitions_text([in_region(BY_ROW, BY_ROW, 0), in_region((0, 0), BY_ROW, 1)]), gpu)
    assert [found.of.kind for found in check(compilation) if found.ok] == ["cta-shared"] * 2
    assert "cluster_ctarank" in ptx_of(compilation)


BESIDE = """  %one = arith.constant 1 : i32
  ttg.warp_specialize(%flag)
  default {
    tt.store %flag, %one : !tt.ptr<i32>
    ttg.warp_yield
  }
  partition0(%inside: !tt.ptr<i32>) num_warps(4) {
    %two = arith.constant 2 : i32
    tt.store %inside, %two : !tt.ptr<i32>
    ttg.warp_return
  } : (!tt.ptr<i32>) -> ()
"""


@ordered
@pytest.mark.parametrize("gpu", GPUS)
def test_beside_regions_all_warps_come_to_the_barriers_of_an_exchange(gpu: str) -> None:
    """Those of the partition wait for work meanwhile: Triton has them come to the barrier of the cluster."""
    text = kernel([BY_ROWS, BY_COLUMNS], 4).replace("(%p: ", "(%flag: !tt.ptr<i32>, %p: ")
    text = text.replace("    tt.return", f"{BESIDE}    tt.return")
    compilation = compiled(text, gpu)
    checked = check(compilation)
    assert [found.of.kind for found in checked] == ["cluster-shared"]
    assert all(found.ok for found in checked)
    own, _, partition = ptx_of(compilation).partition("common.ret")
    assert own.count("barrier.cluster.wait") >= 2
    assert partition.count("barrier.cluster.wait") == 1
    exchange = own[: own.index("ld.shared::cluster")].rpartition("st.shared")[2]
    assert exchange.index("barrier.sync") < exchange.index("barrier.cluster.arrive")


@ordered
def test_in_regions_of_a_cluster_what_depends_on_the_rank_asks_for_it() -> None:
    """Partitions do not see what is asked for at the beginning of the function."""
    programs = [by_rank(region, warps=warps) for region in (0, 1) for warps in (False, True)]
    assert [found.ok for found in check(compiled(partitions_text(programs), "cuda:90"))] == [True] * 4
    totals = examine_partitions(programs, 32, "ranks.ttgir")
    assert totals.ok, totals.failures
    assert totals.kinds == {"shuffle": 2, "cta-shared": 2, "folded": 0}


@ordered
def test_equal_conversions_in_and_beside_partitions_are_verified() -> None:
    """The code differs in who says the number of the thread."""
    programs = [in_region(BY_ROW, BY_ROW, region) for region in (0, 1)]
    assert [found.ok for found in check(compiled(partitions_text(programs), "cuda:90"))] == [True, True]
