"""Conversions in warp-specialised regions: whose they are, and at which barriers they wait."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from fault_kernels import lowered
from fuzz_support import inside_warps
from partition_kernels import GPUS, SOURCES

from bench.fuzz.regions import regions_text
from bench.whole_kernels import LOWERING, lower_kernel
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.tools.support.backend import ttgir_of
from triton_linear.tools.support.compile import compile_text
from triton_linear.tools.verify.command import check

pytestmark = pytest.mark.usefixtures("fresh")

CONVERSIONS = {("sized", "cuda:90"): 6, ("sized", "cuda:100"): 6, ("persistent", "cuda:90"): 4}
CONVERSIONS["persistent", "cuda:100"] = 2
CASES = [
    (name, gpu)
    for name, gpu in CONVERSIONS
    # Triton 3.6 does not compile that kernel itself.
    if (name, gpu) != ("persistent", "cuda:100") or installed_release() > (3, 6)
]


def text_of(name: str, gpu: str) -> str:
    return str(ttgir_of(SOURCES[name](), GPUS[gpu], {}))


def workers(text: str) -> str:
    """What the warps of partitions run: the blocks from where these begin to where the kernel's own do."""
    entry = re.search(r"llvm\.cond_br %\w+, (\^bb\d+), (\^bb\d+)", text)
    assert entry is not None
    return text[text.index(f"  {entry[2]}:") : text.index(f"  {entry[1]}:")]


def barriers_of(text: str, code: str) -> Counter[tuple[int, int]]:
    """Numbers and threads of the barriers in a part of a kernel in the LLVM dialect; 0 threads: all."""
    numbers = {
        name: int(value) for name, value in re.findall(r"(%\w+) = llvm\.mlir\.constant\((-?\d+) : i32", text)
    }
    some = re.findall(r"nvvm\.barrier id = (%\w+) number_of_threads = (%\w+)", code)
    everybody = re.findall(r"barrier\.cta\.sync\.all\"\((%\w+)\)", code)
    plain = len(re.findall(r"nvvm\.barrier(?:0| loc)|gpu\.barrier", code))
    found = [*((numbers[n], numbers[t]) for n, t in some), *((numbers[n], 0) for n in everybody)]
    return Counter([*found, *[(0, 0)] * plain])


@pytest.mark.parametrize(("name", "gpu"), CASES)
def test_every_conversion_of_a_specialised_kernel_is_ours(name: str, gpu: str) -> None:
    made = lowered(SOURCES[name](), GPUS[gpu], {}, {"strict": True})
    report = made.report
    assert report is not None
    assert (report.ours, report.kept) == (CONVERSIONS[name, gpu], 0), str(report)
    assert "unrealized_conversion_cast" not in made.llir


@pytest.mark.parametrize(("name", "gpu"), CASES)
def test_no_partition_waits_at_the_barrier_of_the_kernels_own_warps(name: str, gpu: str) -> None:
    text = text_of(name, gpu)
    ours = lower_kernel(text, f"{name}.ttgir", gpu, LOWERING).text
    stock = lower_kernel(text, f"{name}.ttgir", gpu, None).text
    found, theirs = (barriers_of(each, workers(each)) for each in (ours, stock))
    assert {barrier for barrier in found if barrier[0] > 1} == {one for one in theirs if one[0] > 1}
    # Some releases have one of the whole CTA, where warps end.
    assert {b: n for b, n in found.items() if b[0] < 2} == {b: n for b, n in theirs.items() if b[0] < 2}
    assert any(number > 1 for number, _ in found)


@pytest.mark.parametrize(("name", "gpu"), CASES)
def test_the_code_of_partitions_is_verified_with_their_warps(name: str, gpu: str) -> None:
    checked = check(compile_text(text_of(name, gpu), f"{name}.ttgir", gpu, "llvm", LOWERING))
    assert len(checked) == CONVERSIONS[name, gpu]
    assert all(one.verdict is not None and one.ok for one in checked)
    warps = {one.verdict.counts.warps for one in checked if one.verdict is not None}
    assert warps == ({1, 4, 8} if name == "sized" else {4})


@pytest.mark.parametrize("warps", [(4, 4), (8, 1)])
def test_exchanges_inside_warps_wait_for_no_other_warp(warps: tuple[int, int]) -> None:
    """Each region has a buffer of its own for them, from its beginning to its end."""
    text = regions_text([inside_warps(each, region) for region, each in enumerate(warps)])
    compilation = compile_text(text, "kernel.ttgir", "cuda:90", "llvm", LOWERING)
    (made,) = compilation.kernels
    assert [found.kind for found in compilation.conversions] == ["warp-shared"] * 4
    assert all(found.ok for found in check(compilation))
    default, partition = made.embedded.split('"ttg.warp_specialize.partitions"')
    names = f"%__own_{4096 * warps[0]}", f"%__own_partition0_thread_{4096 * warps[1]}"
    for name, text, end in zip(
        names, (made.embedded, partition), ("tt.return", "ttg.warp_return"), strict=True
    ):
        assert text.count(f"{name}_memory = ttg.local_alloc") == 1
        freed = text.index(f"ttg.local_dealloc {name}_memory")
        assert text.rindex(f"{name}_place[0]") < freed
        assert "llvm" not in text[text.index("\n", freed) : text.index(end, freed)]
    # The partition's bytes are others' before it and behind it, which Triton sees by marks.
    marks = [line.end() for line in re.finditer("ttg.local_store .*\n", made.embedded)]
    first, last = partition.index(f"{names[1]}_place[0]"), partition.index("ttg.local_dealloc")
    begin = len(default) + len('"ttg.warp_specialize.partitions"')
    assert [mark - begin < first for mark in marks] == [True, False] and marks[1] - begin < last
    assert "gpu.barrier" not in made.embedded
    assert default.count("nvvm.bar.warp.sync") == partition.count("nvvm.bar.warp.sync") == 4
