"""The bridge: what comes back from upstream MLIR is what libtriton gave, locations included."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
from bridge_kernels import CASES, TARGETS, ttgir
from plugin_processes import printed

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Attribute, MLIRError, operations, text_of

MODULES = sorted((Path(__file__).parents[2] / "data" / "ttgir").glob("*.ttgir"))
BLOCKED = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
ATTRIBUTES = '"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32'


def module_of(body: str) -> str:
    return f"#blocked = {BLOCKED}\nmodule attributes {{{ATTRIBUTES}}} {{\n{body}\n}}\n"


SIMPLE = module_of(
    "  tt.func @f(%x: tensor<128xf32, #blocked>) -> tensor<128xf32, #blocked> {\n"
    "    %0 = ttg.convert_layout %x : tensor<128xf32, #blocked> -> tensor<128xf32, #blocked>\n"
    "    tt.return %0 : tensor<128xf32, #blocked>\n"
    "  }"
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_from_files_come_back_unchanged(path: Path) -> None:
    module = bridge.parse_triton(path.read_text(), bridge.triton_context())
    before = str(module)
    upstream = bridge.to_upstream(module, bridge.upstream_context())
    assert str(module) == before, "the source module was changed"
    assert str(bridge.to_triton(upstream, bridge.triton_context())) == before


REFUSED_BY_TRITON = {
    ("matmul_clusters", "cuda:80"),
    ("matmul_clusters", "hip:gfx90a"),
    ("matmul_clusters", "hip:gfx942"),
    ("matmul_clusters", "hip:gfx950"),
    ("dot_scaled", "cuda:80"),
}
KERNELS = [(name, target) for name in CASES for target in TARGETS if (name, target) not in REFUSED_BY_TRITON]


@pytest.mark.parametrize(("name", "target"), KERNELS[::3])
def test_kernels_come_back_unchanged(name: str, target: str) -> None:
    module = ttgir(name, target)
    before, before_without_locations = str(module), module.str_nodebug()
    upstream = bridge.to_upstream(module, bridge.upstream_context())
    assert str(module) == before, "the source module was changed"
    after = bridge.to_triton(upstream, module.context)
    assert after.str_nodebug() == before_without_locations
    if (name, target) != ("warp_specialised", "cuda:90"):  # it is copied first, which loses names of arguments
        assert str(after) == before


def test_the_kernels_use_what_the_bridge_must_carry() -> None:
    seen = set()
    for name, target in (
        *(("matmul", "cuda:80"), ("matmul", "cuda:90"), ("matmul", "hip:gfx950"), ("descriptors", "cuda:100")),
        *(("warp_specialised", "cuda:90"), ("control_flow", "cuda:90"), ("shapes", "cuda:90")),
        ("dot_scaled", "cuda:100"),
    ):
        upstream = bridge.to_upstream(ttgir(name, target), bridge.upstream_context())
        seen |= {op.name for op in operations(upstream.operation)}
    wanted = {
        *("scf.for", "scf.if", "scf.while", "tt.reduce", "tt.scan", "tt.call", "tt.elementwise_inline_asm"),
        *("tt.print", "tt.join", "tt.split", "tt.trans", "tt.reshape", "ttg.async_copy_global_to_local"),
        *("ttg.async_wait", "ttg.convert_layout", "ttg.local_alloc", "ttg.local_load", "ttg.memdesc_index"),
        *("ttg.memdesc_trans", "ttg.warp_specialize", "ttg.warp_specialize.partitions"),
        *("ttng.async_tma_copy_global_to_local", "ttng.tmem_alloc", "ttng.tmem_load", "ttng.warp_group_dot"),
    }
    assert wanted <= seen, sorted(wanted - seen)


def positions(text: str, operation: str) -> list[str]:
    """File, line and column of each `operation` in a printed libtriton module."""
    aliases = dict(re.findall(r"^(#loc\d*) = (.*)$", text, re.MULTILINE))

    def resolve(location: str) -> str:
        while alias := re.search(r"#loc\d*", location):
            location = location.replace(alias[0], aliases[alias[0]])
        return location

    return [
        resolve(found[1]) for found in re.finditer(rf"{operation} .* (loc\(#loc\d*\))$", text, re.MULTILINE)
    ]


def test_an_operation_is_at_its_line_of_the_python_source() -> None:
    module = ttgir("matmul", "cuda:90")
    (before,) = positions(str(module), "ttg.convert_layout")
    line = next(
        number
        for number, text in enumerate(
            (Path(__file__).parents[1] / "support" / "bridge_kernels.py").read_text().splitlines(), 1
        )
        if "tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))" in text
    )
    assert f'bridge_kernels.py":{line}:' in before
    upstream = bridge.to_upstream(module, bridge.upstream_context())
    (conversion,) = [op for op in operations(upstream.operation) if op.name == "ttg.convert_layout"]
    assert conversion.location.filename.endswith("bridge_kernels.py")
    assert conversion.location.start_line == line
    assert positions(str(bridge.to_triton(upstream, module.context)), "ttg.convert_layout") == [before]


def test_text_is_at_the_lines_of_the_file_it_is_called() -> None:
    generic = bridge.generic_text(bridge.parse_triton(SIMPLE, bridge.triton_context()))
    for text in (SIMPLE, re.sub(r" loc\((?:#loc\d*|.*?\d)\)|^#loc.*\n", "", generic, flags=re.MULTILINE)):
        upstream = bridge.text_to_upstream(text, bridge.upstream_context(), 'a "kernel".ttgir')
        (conversion,) = [op for op in operations(upstream.operation) if op.name == "ttg.convert_layout"]
        line = 1 + text[: text.index("ttg.convert_layout")].count("\n")
        assert (conversion.location.filename, conversion.location.start_line) == ('a "kernel".ttgir', line)


def test_generic_text_with_our_attributes_is_read() -> None:
    context = bridge.upstream_context()
    upstream = bridge.text_to_upstream(SIMPLE, context)
    conversion = operations(upstream.operation)[2]
    layout = "#ll.layout<{block = [], lane = [[1]], register = [], warp = []}, [2]>"
    conversion.attributes[ll.SOURCE] = Attribute.parse(layout, context)
    text = upstream.operation.get_asm(print_generic_op_form=True)
    assert layout in text
    again = bridge.text_to_upstream(text, bridge.upstream_context())
    assert str(operations(again.operation)[2].attributes[ll.SOURCE]) == layout


def test_our_attributes_stay_behind_and_the_module_keeps_them() -> None:
    context = bridge.upstream_context()
    upstream = bridge.text_to_upstream(SIMPLE, context)
    for op in operations(upstream.operation):
        op.attributes["ll.anything"] = Attribute.parse("unit", context)
    text = bridge.triton_text(upstream)
    assert "ll." not in text
    assert all("ll.anything" in op.attributes for op in operations(upstream.operation))
    assert "ll." not in str(bridge.to_triton(upstream, bridge.triton_context()))


def test_a_layout_of_ours_in_a_type_becomes_a_linear_encoding() -> None:
    context = bridge.upstream_context()
    text = bridge.triton_text(bridge.text_to_upstream(SIMPLE, context))
    ours = (
        "#ll.layout<{block = [], lane = [[4], [8], [16], [32], [64]], register = [], warp = [[1], [2]]}, [128]>"
    )
    blocked, alias = re.search(r"(#layout0) = (.*)", text)[2], "#layout0"
    upstream = bridge.Module.parse(bridge.expand_aliases(text).replace(blocked, ours), context)
    assert alias in text
    printed = str(bridge.to_triton(upstream, bridge.triton_context()))
    linear = "#ttg.linear<{register = [], lane = [[4], [8], [16], [32], [64]], warp = [[1], [2]], block = []}>"
    assert linear in printed


@pytest.mark.parametrize(
    "module",
    [
        "module { tt.func @f(%x: i32) { tt.return } }",
        'module attributes {ttg.target = "cuda:90"} { tt.func @f(%x: i32) { tt.return } }',
        'module attributes {a.b = 1 : i32, "ttg.num-warps" = 4 : i32} { tt.func @f(%x: i32) { tt.return } }',
        "module attributes {a.b = 1 : i32, zz.z = 2 : i32} { tt.func @f(%x: i32) { tt.return } }",
    ],
    ids=["bare", "target", "no tensors", "between"],
)
def test_modules_that_the_number_of_warps_does_not_make_invalid(module: str) -> None:
    context = bridge.triton_context()
    parsed = bridge.parse_triton(module, context)
    before = str(parsed)
    upstream = bridge.to_upstream(parsed, bridge.upstream_context())
    assert str(parsed) == before
    assert str(bridge.to_triton(upstream, context)) == before
    assert "forces" not in str(upstream)


def test_nested_aliases_are_expanded_and_strings_are_not() -> None:
    text = (
        "#blocked = #ttg.blocked<{order = [0]}>\n"
        "#slice = #ttg.slice<{dim = 1, parent = #blocked}>\n"
        '#loc = loc("#blocked":1:1)\n'
        '"tt.print"() {a = "#blocked, #slice", b = #ttg.slice<{dim = 0, parent = #slice}>} : () -> '
        "!ttg.memdesc<4xi8, #slice, #smem> loc(#loc)\n"
        "#smem2 = #ttg.other\n"
    )
    blocked = "#ttg.blocked<{order = [0]}>"
    slice_ = f"#ttg.slice<{{dim = 1, parent = {blocked}}}>"
    assert bridge.expand_aliases(text) == (
        '\n\n#loc = loc("#blocked":1:1)\n'
        f'"tt.print"() {{a = "#blocked, #slice", b = #ttg.slice<{{dim = 0, parent = {slice_}}}>}} : () -> '
        f"!ttg.memdesc<4xi8, {slice_}, #smem> loc(#loc)\n\n"
    )


def test_aliases_are_introduced_for_nested_encodings_once() -> None:
    text = f"tensor<4xf32, #ttg.slice<{{dim = 1, parent = {BLOCKED}}}>>, tensor<4xf32, {BLOCKED}>"
    short = bridge.introduce_aliases(text)
    assert short.splitlines()[-1] == "tensor<4xf32, #layout1>, tensor<4xf32, #layout0>"
    assert bridge.expand_aliases(short).strip() == text
    kept = f'{text} "{BLOCKED}"'
    assert bridge.introduce_aliases(kept) == kept


def test_alias_expansion_is_linear() -> None:
    line = '%0 = "tt.splat"(%x) : (f32) -> tensor<4xf32, #ttg.slice<{dim = 1, parent = #blocked}>> loc(#loc1)\n'

    def seconds(count: int) -> float:
        text = f"#blocked = {BLOCKED}\n" + line * count
        best = 1e9
        for _ in range(3):
            start = time.perf_counter()
            bridge.expand_aliases(text)
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(16000) < 16 * seconds(4000)


def test_ir_that_libtriton_refuses_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    context = bridge.upstream_context()
    text = bridge.triton_text(bridge.text_to_upstream(SIMPLE, context))
    upstream = bridge.text_to_upstream(text.replace("ttg.convert_layout", "tt.unheard_of"), context)
    with pytest.raises(bridge.BridgeError, match="libtriton cannot read"):
        bridge.to_triton(upstream, bridge.triton_context())
    assert "tt.unheard_of" in capfd.readouterr().err


def test_text_that_is_no_ir_is_an_error(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(bridge.BridgeError):
        bridge.text_to_upstream("tt.func oh dear", bridge.upstream_context())
    with pytest.raises(MLIRError):
        bridge.text_to_upstream('"builtin.module"() ({ oh dear', bridge.upstream_context())
    with pytest.raises(bridge.BridgeError, match=r"gone\.ttgir"):
        bridge.parse_triton(tmp_path / "gone.ttgir", bridge.triton_context())


class _Searches:
    """Counts what is imported that no cache has."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.names.append(name)


def test_no_module_is_searched_for_whenever_an_operation_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    module = bridge.text_to_upstream(SIMPLE, bridge.upstream_context())
    (function,) = module.body.operations
    block = function.operation.regions[0].blocks[0]
    list(block.operations)
    searches = _Searches()
    monkeypatch.setattr(sys, "meta_path", [searches, *sys.meta_path])
    shown = [view.operation.name for view in block.operations]
    assert shown == ["ttg.convert_layout", "tt.return"]
    assert block.owner.operation.name == "tt.func"
    assert searches.names == []


@pytest.mark.parametrize("options", [{}, {"enable_debug_info": True}, {"use_local_scope": True}])
def test_text_is_what_the_bindings_print(options: dict[str, bool]) -> None:
    """Whole modules, and each operation by itself."""
    upstream = bridge.to_upstream(ttgir("control_flow", "cuda:90"), bridge.upstream_context())
    for op in operations(upstream.operation):
        assert text_of(op, print_generic_op_form=True, **options) == op.get_asm(
            print_generic_op_form=True, **options
        )


VIEWS = """
from triton_linear.dialect.mlir_adapter import Module, import_views, new_context
text = '"builtin.module"() ({ %0 = "arith.constant"() {value = 1 : i32} : () -> i32 }) : () -> ()'
module = Module.parse(text, new_context())
def seen():
    return type(module.body.operations[0]).__name__
print(seen(), end=" ")
import_views(module.operation)
print(seen())
"""


def test_operations_have_the_classes_of_upstream_where_asked_for() -> None:
    """Ours needs none; a pass of a user's may rest on them."""
    assert printed("-c", VIEWS) == "OpView ConstantOp\n"
