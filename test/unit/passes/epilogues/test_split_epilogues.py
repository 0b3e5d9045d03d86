"""Epilogues in parts: what they store is what the whole stores, and what is in the way is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from triton_linear.dialect import bridge, encodings, ll
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT
from triton_linear.lowering.interpreter.verify import element_patterns
from triton_linear.lowering.planners.tensor_layouts import layouts_for
from triton_linear.passes.epilogues.split_epilogues import SplitEpilogues
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.options import PipelineOptions

pytest.importorskip("triton._C.libtriton")

from triton_linear.tools.support.compile import read_module
from triton_linear.tools.support.functions import lower_kernel, registers_of, sink

pytestmark = pytest.mark.skipif(
    encodings.installed_release() not in TENSOR_MEMORY_BY_LAYOUT,
    reason="accesses by layout are of Triton 3.8 on",
)

SHAPE = (128, 128)
ROWS = (
    "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], "
    "lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>"
)
VECTOR = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
SPACE = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 128, colStride = 1>, #ttng.tensor_memory, mutable"
SHARED = "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>"
TENSOR = f"!ttg.memdesc<128x128xi32, {SPACE}>"
WIDE, NARROW = f"tensor<128x128xi32, {ROWS}>", f"tensor<128x128xi16, {ROWS}>"
ROW, COLUMN = f"tensor<1x128xi32, {ROWS}>", f"tensor<128x1xi32, {ROWS}>"
SLICES = [f"tensor<128xi32, #ttg.slice<{{dim = {dim}, parent = {ROWS}}}>>" for dim in (0, 1)]


def buffer(mutable: bool = True, encoding: str = SHARED) -> str:
    return f"!ttg.memdesc<128x128xi16, {encoding}, #ttg.shared_memory{', mutable' if mutable else ''}>"


WORK = f"""
        %three = arith.constant dense<3> : {WIDE}
        %range = tt.make_range {{start = 0 : i32, end = 128 : i32}} : tensor<128xi32, {VECTOR}>
        %seven = tt.splat %n : i32 -> tensor<128xi32, {VECTOR}>
        %scaled = arith.muli %range, %seven : tensor<128xi32, {VECTOR}>
        %there = ttg.convert_layout %scaled : tensor<128xi32, {VECTOR}> -> {SLICES[0]}
        %row = tt.expand_dims %there {{axis = 0 : i32}} : {SLICES[0]} -> {ROW}
        %rows = tt.broadcast %row : {ROW} -> {WIDE}
        %down = ttg.convert_layout %scaled : tensor<128xi32, {VECTOR}> -> {SLICES[1]}
        %column = tt.expand_dims %down {{axis = 1 : i32}} : {SLICES[1]} -> {COLUMN}
        %columns = tt.broadcast %column : {COLUMN} -> {WIDE}
        %a = arith.addi %y, %three : {WIDE}
        %b = arith.addi %a, %rows : {WIDE}
        %c = arith.addi %b, %columns : {WIDE}
        %kept = ttg.local_load %residual : {buffer()} -> {NARROW}
        %more = arith.extui %kept : {NARROW} to {WIDE}
        %d = arith.addi %c, %more : {WIDE}
        %e = arith.trunci %d : {WIDE} to {NARROW}"""
STORES = {
    "alloc": (f"%out = ttg.local_alloc %e : ({NARROW}) -> {buffer(False)}", buffer(False)),
    "store": (
        f"%out = ttg.local_alloc : () -> {buffer()}\n        ttg.local_store %e, %out : {NARROW} -> {buffer()}",
        buffer(),
    ),
}


def kernel(
    how: str = "alloc", registers: int = 64, work: str = WORK, between: str = "", behind: str = ""
) -> str:
    store, there = STORES[how]
    if how == "store":
        head, _, store = store.partition("\n")
        work = f"\n        {head}{work}"
    return f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32,
        ttg.maxnreg = {registers} : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32}} {{
      tt.func public @k(%x: {WIDE}, %r: {NARROW}, %n: i32) {{
        %true = arith.constant true
        %m = ttng.tmem_alloc : () -> {TENSOR}
        ttng.tmem_store %x, %m, %true : {WIDE} -> {TENSOR}
        %residual = ttg.local_alloc : () -> {buffer()}
        ttg.local_store %r, %residual : {NARROW} -> {buffer()}
        %y = ttng.tmem_load %m : {TENSOR} -> {WIDE}{work}
        {between}
        {store}
        {behind}
        %z = ttg.local_load %out : {there} -> {NARROW}
        {sink("%z", NARROW, "result")}
        tt.return
      }}
    }}"""


def split(text: str) -> tuple[bool, list[str], str]:
    """Whether the pass changed a module, the names of its operations, and what it remarked."""
    module = read_module(text, bridge.upstream_context(), "k.ttgir")
    outcome = run_passes(module, [SplitEpilogues()])
    assert outcome.succeeded, outcome.errors
    names = [op.name for op in operations(module.operation)]
    return ll.PARTS in module.operation.attributes, names, " ".join(map(str, outcome.diagnostics))


BETWEEN = WORK.replace(
    "%row = tt.expand_dims %there",
    f"%twice = arith.addi %there, %there : {SLICES[0]}\n        %row = tt.expand_dims %twice",
)
"""The vector is worked on in two layouts."""


@pytest.mark.parametrize(
    ("how", "work", "times"), [("alloc", WORK, 7), ("store", WORK, 7), ("alloc", BETWEEN, 14)]
)
def test_parts_store_what_the_whole_stores(how: str, work: str, times: int) -> None:
    text = kernel(how, work=work)
    changed, names, said = split(text)
    assert changed and "an epilogue of 128x128 is done 32 columns at a time" in said
    assert names.count("ttng.tmem_load") == 4 and names.count("ttng.tmem_subslice") == 4
    results = []
    size = SHAPE[0] * SHAPE[1]
    rng = np.random.default_rng(3)
    wide = rng.integers(0, 1 << 32, (2, *SHAPE), np.uint64)
    narrow = rng.integers(0, 1 << 16, (2, *SHAPE), np.uint64)
    assert len(element_patterns(size, 16)) > 1  # random bits tell elements apart, too
    for lowered in (lower_kernel(text, "k.ttgir", "cuda:100", None), lower_kernel(text, "k.ttgir", "cuda:100")):
        layout = encodings.layout_of(ROWS, SHAPE)
        given = [list(registers_of(tensor, layout, lowered)) for tensor in (wide, narrow)]
        outcome = lowered.run([*given, 7], trials=2)
        assert not outcome.races
        values, undefined = outcome.sinks["result"]
        assert not (undefined & np.uint64(0xFFFF)).any()
        results.append(values & np.uint64(0xFFFF))
    assert (results[0] == results[1]).all()
    at = np.arange(128, dtype=np.uint64)
    expected = (wide + 3 + times * at[None, None, :] + 7 * at[None, :, None] + narrow) & np.uint64(0xFFFF)
    assert (results[1] == registers_of(expected, encodings.layout_of(ROWS, SHAPE), lowered)).all()


def test_loads_from_shared_memory_stay_before_a_new_buffer() -> None:
    """Else both buffers would be live at once."""
    _, alloc, _ = split(kernel("alloc"))
    _, store, _ = split(kernel("store"))
    last = {
        name: len(names) - names[::-1].index("ttng.tmem_load") for name, names in (("a", alloc), ("s", store))
    }
    assert "ttg.local_load" not in alloc[last["a"] : -4]
    assert "ttg.local_load" in store[last["s"] : -4]
    head = STORES["store"][0].partition("\n")[0]
    behind = kernel("store").replace(head, "").replace("%e = arith", f"{head}\n        %e = arith")
    for text in (kernel("alloc"), behind):
        assert split(text)[0]
        memory = []
        for without in ("", SplitEpilogues.name):
            lowered = lower_kernel(text, "k.ttgir", "cuda:100", PipelineOptions(without=without))
            memory.append(lowered.text.partition("ttg.shared = ")[2].partition(" ")[0])
        assert memory[0] == memory[1]


def test_loads_from_views_are_not_moved_behind_stores() -> None:
    """The view may be of the buffer that is stored to."""
    whole = f"!ttg.memdesc<1x128x128xi16, {SHARED}, #ttg.shared_memory, mutable>"
    text = kernel("store").replace(
        f"%residual = ttg.local_alloc : () -> {buffer()}",
        f"%two = ttg.local_alloc : () -> {whole}\n        %first = arith.constant 0 : i32\n"
        f"        %residual = ttg.memdesc_index %two[%first] : {whole} -> {buffer()}",
    )
    changed, names, _ = split(text)
    last = len(names) - names[::-1].index("ttng.tmem_load")
    assert changed and "ttg.local_load" not in names[last:-4]


def test_constants_may_be_made_outside_of_a_loop() -> None:
    """As those of persistent kernels are, which also wait until a store before has read the buffer."""
    head, _, rest = kernel("store").partition("        %three")
    made, loop = "        %three" + rest.partition("%a = ")[0], "%a = " + rest.partition("%a = ")[2]
    body, _, end = loop.partition("%z = ttg.local_load")
    lines = body.replace("%y,", "%again,").splitlines()
    store = next(number for number, line in enumerate(lines) if "ttg.local_store %e" in line)
    lines.insert(store, "        ttng.async_tma_store_wait {pendings = 0 : i32}")
    again = f"%again = ttng.tmem_load %m : {TENSOR} -> {WIDE}"
    first = head.replace(f"%y = ttng.tmem_load %m : {TENSOR} -> {WIDE}", "")
    bounds = "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32"
    text = f"{first}{made}{bounds}\nscf.for %i = %zero to %n step %one : i32 {{\n{again}\n"
    text += "\n".join(lines) + "\n}\n%z = ttg.local_load" + end
    changed, names, _ = split(text)
    assert changed and names.count("ttng.tmem_load") == 4
    assert names.index("scf.for") < names.index("ttng.tmem_load")


def test_only_where_registers_do_not_suffice() -> None:
    """A thread has 128 words of the tile. Where the arguments need more than that, parts would not help."""
    plain = f"\n        %e = arith.trunci %y : {WIDE} to {NARROW}"
    assert split(kernel(registers=256))[0]
    assert not split(kernel(registers=64, work=plain))[0]
    head, _, rest = kernel(work=plain).partition("%true = ")
    alone = (
        head.replace(f"%x: {WIDE}, %r: {NARROW}, %n: i32", f"%m: {TENSOR}")
        + "%y = "
        + rest.partition("%y = ")[2]
    )
    for registers, changed in ((128, False), (127, True)):
        assert split(alone.replace("ttg.maxnreg = 64", f"ttg.maxnreg = {registers}"))[0] == changed


MMA = f"""%t = arith.constant true
        ttng.tmem_store %x, %m, %t : {WIDE} -> {TENSOR}"""

CALLED = (
    '%q = tt.extern_elementwise %y {libname = "", libpath = "", pure = PURE, symbol = "f"} : (W) -> W'
).replace("W", WIDE)
"""A call of a function of another library, which may do whatever it wants where it is not pure."""


def called(pure: str, taken: bool) -> str:
    text = kernel(work=f"\n        {CALLED.replace('PURE', pure)}{WORK}")
    if not taken:
        return text.replace("elementwise %y", "elementwise %x")
    return text.replace("addi %y, %three", "addi %q, %three")


@pytest.mark.parametrize("taken", [False, True])
def test_what_functions_of_others_may_do_is_done_once_and_in_its_place(taken: bool) -> None:
    assert split(called("true", taken))[0]
    assert not split(called("false", taken))[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (kernel(between=MMA), "the memory is stored to before the result is"),
        (kernel(behind=sink("%d", WIDE, "other")), "others need what is computed"),
        (kernel(behind=sink("%y", WIDE, "other")), "others need what is loaded"),
        (
            kernel("store", between=f"ttg.local_store %r, %residual : {NARROW} -> {buffer()}"),
            "what is loaded changes",
        ),
        (kernel().replace("transposed = false", "transposed = true"), "columns do not lie by themselves"),
        (
            kernel().replace("swizzlingByteWidth = 64", "swizzlingByteWidth = 0"),
            "nothing is known of the buffer",
        ),
        (
            kernel().replace(
                "%a = arith.addi %y, %three",
                "%q = tt.trans %y {order = array<i32: 0, 1>} : "
                f"{WIDE} -> {WIDE}\n        %a = arith.addi %q, %three",
            ),
            "an operation is not element by element",
        ),
    ],
)
def test_what_is_in_the_way_is_left_alone(text: str, why: str) -> None:
    changed, names, _ = split(text)
    assert not changed and names.count("ttng.tmem_load") == 1, why


@pytest.mark.parametrize(
    ("rows", "block_m", "block_n", "warps"),
    [(64, 64, 128, 4), (64, 64, 32, 4), (128, 64, 32, 4), (128, 128, 16, 8), (256, 128, 64, 8)],
)
def test_parts_of_every_shape_and_block(rows: int, block_m: int, block_n: int, warps: int) -> None:
    memory = f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = {block_n}, colStride = 1>"
    there = f"!ttg.memdesc<{rows}x128xi32, {memory}, #ttng.tensor_memory, mutable>"
    shared = buffer().replace("128x128", f"{rows}x128")
    shape = (rows, 128)
    tried = 0
    for _, layout in layouts_for(encodings.layout_of(memory, shape), 32, warps):
        encoding = encodings.linear_encoding_text(layout)
        wide, narrow = (f"tensor<{rows}x128x{element}, {encoding}>" for element in ("i32", "i16"))
        text = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32,
            ttg.maxnreg = 32 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32}} {{
          tt.func public @k(%x: {wide}) {{
            %true = arith.constant true
            %three = arith.constant dense<3> : {wide}
            %m = ttng.tmem_alloc : () -> {there}
            ttng.tmem_store %x, %m, %true : {wide} -> {there}
            %out = ttg.local_alloc : () -> {shared}
            %y = ttng.tmem_load %m : {there} -> {wide}
            %a = arith.addi %y, %three : {wide}
            %e = arith.trunci %a : {wide} to {narrow}
            ttg.local_store %e, %out : {narrow} -> {shared}
            %z = ttg.local_load %out : {shared} -> {narrow}
            {sink("%z", narrow, "result")}
            tt.return
          }}
        }}"""
        lowered = lower_kernel(text, "k.ttgir", "cuda:100")
        assert lowered.embedded.count("ttng.tmem_subslice") >= 2
        x = np.random.default_rng(rows).integers(0, 1 << 32, (1, *shape), np.uint64)
        outcome = lowered.run([list(registers_of(x, layout, lowered))])
        values, undefined = outcome.sinks["result"]
        expected = registers_of((x + 3) & np.uint64(0xFFFF), layout, lowered)
        assert (values & np.uint64(0xFFFF) == expected).all() and not (undefined & np.uint64(0xFFFF)).any()
        assert not outcome.races
        tried += 1
    assert tried == 4
