"""Tensor memory in the interpreter: kernels that Triton lowers, as they are and with each mistake."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from triton_linear.dialect import encodings
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT
from triton_linear.lowering.interpreter.memory import IllegalAccess, SimulationError
from triton_linear.lowering.interpreter.verify import Verdict, verify_conversion
from triton_linear.lowering.interpreter.verify_tensor import elements_in, verify_load, verify_store
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.tensor_layouts import layout_for
from triton_linear.lowering.target.targets import target
from triton_linear.lowering.target.tensor_memory import SHAPES

pytest.importorskip("triton._C.libtriton")

from bench.whole_kernels import lower_kernel, sink

pytestmark = pytest.mark.skipif(
    encodings.installed_release() not in TENSOR_MEMORY_BY_LAYOUT,
    reason="accesses by layout are of Triton 3.8 on",
)

GPU = "cuda:100"
BLACKWELL = target(GPU)
SHAPE = (128, 32)
BY_NAME = {shape.name: shape for shape in SHAPES}


def memory(block_m: int = 128, stride: int = 1) -> str:
    return f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = 32, colStride = {stride}>"


def registers(shape: str, bits: int, warps: int, encoding: str, sizes: tuple[int, int] = SHAPE) -> str:
    layout = layout_for(encodings.layout_of(encoding, sizes), bits, warps, BY_NAME[shape])
    assert layout is not None, shape
    return encodings.linear_encoding_text(layout)


def kernel(stored: str, loaded: str, element: str, warps: int, encoding: str, shape: tuple[int, int]) -> str:
    """A kernel, lowered, that stores its argument in one layout and loads it in another."""
    sizes = "x".join(map(str, shape))
    there = f"!ttg.memdesc<{sizes}x{element}, {encoding}, #ttng.tensor_memory, mutable>"
    x, y = (f"tensor<{sizes}x{element}, {layout}>" for layout in (stored, loaded))
    text = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32,
        ttg.target = "{GPU}", "ttg.threads-per-warp" = 32 : i32}} {{
      tt.func public @k(%x: {x}) {{
        %true = arith.constant true
        %m = ttng.tmem_alloc : () -> {there}
        ttng.tmem_store %x, %m, %true : {x} -> {there}
        %y = ttng.tmem_load %m : {there} -> {y}
        {sink("%y", y, "result")}
        tt.return
      }}
    }}"""
    return lower_kernel(text, "k.ttgir", GPU, None).text


def round_trip(
    stored: str = "32x32b",
    loaded: str = "16x256b",
    element: str = "f32",
    warps: int = 4,
    encoding: str = "",
    shape: tuple[int, int] = SHAPE,
    change: Callable[[str], str] | None = None,
) -> Verdict:
    there = encoding or memory()
    bits = element_type(element).bits
    sides = [registers(name, bits, warps, there, shape) for name in (stored, loaded)]
    text = kernel(sides[0], sides[1], element, warps, there, shape)
    if change is not None:
        changed = change(text)
        assert changed != text
        text = changed
    source, result = (encodings.layout_of(layout, shape) for layout in sides)
    return verify_conversion(
        text, source, result, element_type(element), BLACKWELL, warps, None, kernel="k", sink="result"
    )


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
@pytest.mark.parametrize("loaded", ["32x32b", "16x64b", "16x128b", "16x256b"])
def test_what_is_stored_is_loaded_in_any_shape(loaded: str, element: str, warps: int) -> None:
    for stride in {1, 32 // element_type(element).bits}:
        verdict = round_trip("16x64b", loaded, element, warps, memory(stride=stride))
        assert verdict.ok and verdict.checked == 128 * 32


def test_64_rows_and_halves_of_a_warp() -> None:
    verdict = round_trip("16x256b", "16x32bx2", encoding=memory(64), shape=(64, 32))
    assert verdict.ok


def without(pattern: str, which: int = 0) -> Callable[[str], str]:
    """Leave out a line of the text."""

    def change(text: str) -> str:
        found = [line for line in text.splitlines() if re.search(pattern, line)]
        return text.replace(found[which] + "\n", "", 1)

    return change


def exchanged(old: str, new: str) -> Callable[[str], str]:
    return lambda text: re.sub(old, new, text, count=1)


def test_a_store_that_is_not_waited_for_is_undefined() -> None:
    verdict = round_trip(change=without("tcgen05.wait <store>"))
    assert verdict.wrong == verdict.checked and all(wrong.undefined for wrong in verdict.examples)


def test_a_load_that_is_not_waited_for_is_refused() -> None:
    with pytest.raises(SimulationError, match="used without a wait"):
        round_trip(change=without("tcgen05.wait <load>"))


def test_warps_of_one_quarter_need_a_barrier() -> None:
    """Eight warps: the second four store other columns in one layout, other rows in the other."""
    assert round_trip("32x32b", "16x256b", warps=8).ok
    barrier = without(r"nvvm\.barrier", 2)
    verdict = round_trip("32x32b", "16x256b", warps=8, change=barrier)
    assert {(race.scope, race.hazard) for race in verdict.races} == {("cta", "read after write")}
    assert round_trip("32x32b", "16x256b", change=barrier).ok  # each warp has its own quarter


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"\.ld(.*)16x256b\.x4\.b32", r".ld\g<1>16x128b.x8.b32"),
        (r"\{\$0, \$1,", "{$1, $0,"),
        (r"1048576\]", "1048584]"),
    ],
    ids=["shape", "registers", "column"],
)
def test_a_wrong_instruction_is_noticed(old: str, new: str) -> None:
    if old.startswith(r"\{"):  # the names say which result is which; the interpreter takes them in order
        with pytest.raises(SimulationError, match="not interpreted"):
            round_trip(change=exchanged(old, new))
        return
    try:
        assert round_trip(change=exchanged(old, new)).wrong
    except IllegalAccess as error:
        assert "out of bounds" in str(error)


def test_the_quarter_of_another_warp_is_out_of_reach() -> None:
    with pytest.raises(IllegalAccess, match="warp 1 reaches row 16 of tensor memory"):
        round_trip(change=exchanged(r"constant\(21 : i32", "constant(20 : i32"))


def test_columns_that_are_not_allocated_are_out_of_bounds() -> None:
    with pytest.raises(IllegalAccess, match="column -480 of tensor memory is out of bounds"):
        round_trip(
            change=exchanged(
                r"llvm.inttoptr %\d+ : i32 to !llvm.ptr<6>", "llvm.inttoptr %1 : i32 to !llvm.ptr<6>"
            )
        )


def test_what_is_freed_has_been_allocated() -> None:
    with pytest.raises(IllegalAccess, match="64 columns at 480 of tensor memory are freed"):
        round_trip(change=exchanged(r"(dealloc.*)\$1, 32;", r"\g<1>$1, 64;"))


def test_loads_and_stores_alone_are_judged_by_the_memory() -> None:
    """A mistake that the store and the load share would cancel out in a round trip."""
    from triton_linear.dialect import bridge
    from triton_linear.dialect.mlir_adapter import operations
    from triton_linear.passes.analysis.tensor_memory import site_of
    from triton_linear.tools.support.compile import read_module
    from triton_linear.tools.verify.tensor_memory import NAME, SINK, kernel_text

    layout = registers("16x128b", 32, 4, memory())
    there = encodings.layout_of(memory(), SHAPE)
    held = encodings.layout_of(layout, SHAPE)
    for is_store in (False, True):
        tensor, space = (
            f"tensor<128x32xf32, {layout}>",
            f"!ttg.memdesc<128x32xf32, {memory()}, #ttng.tensor_memory, mutable>",
        )
        line = (
            f"ttng.tmem_store %x, %m, %t : {tensor} -> {space}"
            if is_store
            else f"%y = ttng.tmem_load %m : {space} -> {tensor}"
        )
        module = read_module(
            f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "{GPU}", '
            f'"ttg.threads-per-warp" = 32 : i32}} {{ tt.func @f(%x: {tensor}, %m: {space}, %t: i1) {{ '
            f"{line}\n tt.return }} }}",
            bridge.upstream_context(),
            "f.ttgir",
        )
        (site,) = filter(None, map(site_of, operations(module.operation)))
        text = lower_kernel(kernel_text(site, 4, GPU), "alone.ttgir", GPU, None).text
        for changed in (text, text.replace("16x128b.x16", "16x64b.x32")):
            if is_store:
                verdict = verify_store(changed, NAME, there, held, 32, BLACKWELL, 4)
            else:
                verdict = verify_load(changed, NAME, SINK, there, held, 32, BLACKWELL, 4)
            assert verdict.checked == 128 * 32
            assert bool(verdict.wrong) == (changed is not text)


def test_places_without_an_element() -> None:
    held = elements_in(encodings.layout_of(memory(64, 2), (64, 32)))
    assert held.shape == (128, 64)
    assert (held[:, 1::2] == -1).all() and (held[16:32] == -1).all()
    assert held[32, 2] == 16 + 64  # row 16, column 1
