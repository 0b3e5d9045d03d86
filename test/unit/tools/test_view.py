"""`triton-linear view`: what is drawn is what the layout says, in every format, and bad input is told so."""

from __future__ import annotations

import itertools
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from drawn_encodings import COLUMNS, MMA, ROWS
from rich.text import Text
from tool_modules import module_of

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.tools import cli
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.view import places
from triton_linear.tools.view.command import described, drawn, text_of_rows
from triton_linear.tools.view.memory import Memory
from triton_linear.tools.view.subject import Subject, subjects
from triton_linear.tools.view.text import WIDTH, hardware_text, matrix_text, tensor_text, text_tile

HOPPER = target("cuda:90")
WGMMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 16, 16]}>"
MFMA = "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 1], instrShape = [16, 16, 16], isTransposed = false}>"
ENCODINGS = {
    "blocked": ROWS,
    "slice": f"#ttg.slice<{{dim = 0, parent = {ROWS}}}>",
    "mma": MMA,
    "wgmma": WGMMA,
    "mfma": MFMA,
    "dot": f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>",
    "linear": "#ttg.linear<{register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "
    "warp = [[0, 8]], block = []}>",
    "swizzled": "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}>",
    "padded": "#ttg.padded_shared<[32:+4] {order = [1, 0], shape = [32, 32]}>",
    "nvmma": "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>",
    "shared linear": "#ttg.shared_linear<{offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 0], [2, 0], "
    "[4, 8], [8, 0], [16, 0]]}, alignment = 16>",
}
SHAPES = {"slice": "32", "linear": "16x16", "wgmma": "64x32"}


def subject(kind: str, element: str = "f16") -> Subject:
    """The layout of one encoding of each kind."""
    (found,) = subjects(ENCODINGS[kind], SHAPES.get(kind, "32x32"), element)
    return found


def brute_force(layout: LinearLayout) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(inputs, coordinates) of every point, one `apply` each."""
    names = layout.in_dim_names
    for inputs in itertools.product(*(range(size) for _, size in layout.in_dims)):
        yield inputs, tuple(layout.apply(dict(zip(names, inputs, strict=True))).values())


@pytest.mark.parametrize("kind", ENCODINGS)
def test_every_point_is_where_the_layout_has_it(kind: str) -> None:
    layout = subject(kind).layout
    table, held = places.coordinates(layout), places.holders(layout)
    wanted: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for inputs, point in brute_force(layout):
        assert tuple(table[inputs].tolist()) == point
        wanted.setdefault(point, set()).add(inputs)
    assert {point: set(found) for point, found in held.items()} == wanted


def tensor(layout: LinearLayout, rows: int = 32, tile: tuple[int, ...] | None = None) -> str:
    """The tensor view."""
    return plain(tensor_text(layout, lambda run: "#ffffff", tile or text_tile([layout], rows)))


def plain(lines: Iterator[Text]) -> str:
    """The lines without colours."""
    return "\n".join(line.plain.rstrip() for line in lines)


def labels(text: str) -> Iterator[str]:
    """The entries of lines that begin with a number."""
    for line in text.splitlines():
        if found := re.match(r" *\d+  ", line):
            yield from re.split(r"  +", line[found.end() :].strip())


def test_the_tensor_view_names_each_holder_once() -> None:
    """Expanded again, the labels of every row are all elements of all threads."""
    layout = subject("mma").layout
    lanes = layout.in_dim_size("lane")
    shown: set[tuple[int, int]] = set()
    for label in labels(tensor(layout, tile=(32, 32))):
        for holder in label.split("|"):
            thread, first, last = re.fullmatch(r"T(\d+):(\d+)(?:-(\d+))?", holder).groups()  # type: ignore[union-attr]
            for register in range(int(first), int(last or first) + 1):
                assert (int(thread), register) not in shown
                shown.add((int(thread), register))
    assert shown == {(w * lanes + l, r) for (r, l, w, _), _ in brute_force(layout)}


@pytest.mark.parametrize("kind", ENCODINGS)
def test_no_line_is_longer_than_a_hundred(kind: str) -> None:
    text = drawn([subject(kind)], "text", None, HOPPER).decode()
    assert text.strip()
    assert max(map(len, text.splitlines())) <= WIDTH


def test_text_of_a_small_layout() -> None:
    bases = {"register": [(0, 1)], "lane": [(0, 2), (1, 0)], "warp": [(0, 0)], "block": []}
    small = Subject(LinearLayout.from_bases(list(bases.items()), ["dim0", "dim1"]), "small")
    assert tensor(small.layout).splitlines() == [
        "dim0 \\ dim1  0-1            2-3",
        "          0  T0:0-1|T4:0-1  T1:0-1|T5:0-1",
        "          1  T2:0-1|T6:0-1  T3:0-1|T7:0-1",
    ]
    assert plain(hardware_text(small.layout, lambda run: "#ffffff", 32)).splitlines()[1:] == [
        "register  0-1",
        "  lane 0  0,0-1",
        "  lane 1  0,2-3",
        "  lane 2  1,0-1",
        "  lane 3  1,2-3",
        "warp 1: a copy",
    ]
    assert plain(matrix_text(small.layout)).splitlines() == [
        "        register  lane  warp",
        "dim0:0  .         . 1   .",
        "dim1:0  1         . .   .",
        "dim1:1  .         1 .   .",
    ]


def test_rows_beyond_what_was_asked_for_are_counted() -> None:
    text = [line.plain for line in text_of_rows([subject("swizzled", "f32")], "memory", HOPPER, (4, 4))]
    assert "... 28 more rows" in text
    assert text[-1] == "from byte 512, 1024, 2048 on: coordinates xor (4, 0), (8, 0), (16, 0)"


def test_a_tensor_has_no_more_rows_than_were_asked_for() -> None:
    lines = tensor(subject("blocked").layout, 4).splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert lines[5] == "a tile of 4x32, repeats 8x1 times:"


# Memory


def spread(rng: random.Random) -> LinearLayout:
    """A random layout of 32x32 elements over 8 registers, 32 lanes and 4 warps: a permutation of the bits."""
    bits = [(1 << i, 0) for i in range(5)] + [(0, 1 << i) for i in range(5)]
    rng.shuffle(bits)
    parts = {"register": bits[:3], "lane": bits[3:8], "warp": bits[8:], "block": []}
    return LinearLayout.from_bases(list(parts.items()), ("dim0", "dim1"), (32, 32))


@pytest.mark.parametrize("kind", ["swizzled", "shared linear"])
def test_wavefronts_are_those_that_the_algebra_predicts(kind: str) -> None:
    """Counted word by word here, as ranks over F2 there, for a store on a target without matrix stores."""
    machine, compared = target("cuda:80"), 0
    rng = random.Random(5)
    memory = subject(kind, "f32")
    predicted = LocalAccess.of(memory.layout, (32, 32), 4, is_store=True)
    assert predicted is not None
    for _ in range(60):
        registers = spread(rng)
        touches = Memory(memory, machine).touches(registers)
        if {t.width for t in touches} == {predicted.bytes_at_once(registers)}:
            assert sum(t.wavefronts for t in touches) == predicted.wavefronts(registers, machine)
            compared += 1
        assert sorted(r for t in touches for r in t.registers) == list(range(8))
        assert all(t.minimum <= t.wavefronts for t in touches)
    assert compared > 40


def test_addresses_are_those_of_the_elements() -> None:
    padded, registers = subject("padded", "f32"), subject("blocked").layout
    memory = Memory(padded, HOPPER)
    offset_of = {point: inputs[0] for inputs, point in brute_force(padded.layout)}
    for touch in memory.touches(registers):
        for place, register in enumerate(touch.registers):
            for lane, address in enumerate(touch.addresses):
                point = tuple(
                    registers.apply({"register": register, "lane": lane, "warp": 0, "block": 0}).values()
                )
                offset = offset_of[point]
                assert address + 4 * place == 4 * (offset + offset // 32 * 4)


def test_a_column_of_plain_rows_conflicts_and_a_swizzle_mends_it() -> None:
    (column,) = subjects("BlockedLayout([1, 1], [32, 1], [1, 1], [0, 1])", "32x32", "f32")
    plain, swizzled = (
        Memory(subjects(f"SwizzledSharedLayout(1, 1, {phases}, [1, 0])", "32x32", "f32")[0], HOPPER)
        for phases in (1, 32)
    )
    assert {touch.wavefronts for touch in plain.touches(column.layout)} == {32}
    assert {touch.wavefronts for touch in swizzled.touches(column.layout)} == {1}


# Formats


@pytest.mark.parametrize("kind", ENCODINGS)
def test_every_kind_is_drawn_in_every_format(kind: str) -> None:
    one = subject(kind)
    texts = "".join(ElementTree.fromstring(drawn([one], "svg", "tensor", HOPPER)).itertext())
    assert next(labels(tensor(one.layout)), tensor(one.layout).split()[-1]) in texts
    rows, _, entries = places.matrix_rows(one.layout)
    svg = drawn([one], "svg", "matrix", HOPPER)
    matrix = ["".join(text.itertext()) for text in ElementTree.fromstring(svg)[2]]
    assert [text for text in matrix if text in rows] == rows
    assert matrix.count("1") == sum(map(sum, entries))
    assert b"@DATA@" not in drawn([one], "html", None, HOPPER)
    views = drawn([one], "text", None, HOPPER).decode()
    assert ("hardware:" in views, "memory:" in views) == (
        one.layout.has_in_dim("lane"),
        one.layout.has_in_dim("offset"),
    )


def test_the_page_has_what_everything_follows_from() -> None:
    data = described([subject("blocked"), subject("padded")], HOPPER, "")
    assert data["layouts"][0]["bases"] == [
        [name, [list(v) for v in vectors]] for name, vectors in subject("blocked").layout.bases
    ]
    assert data["layouts"][1]["addresses"][32] == 72
    assert data["touches"][0]["width"] == 8, "rows of 72 bytes are no multiples of 16"


def test_a_page_is_whole_whatever_the_text_is() -> None:
    evil = Subject(subject("blocked").layout, "</script><script>alert(1)</script>")
    assert drawn([evil], "html", None, HOPPER).count(b"</script>") == 2


# What the user writes


def view(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Status, output and diagnostics of the command."""
    status = cli.main(["view", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_gluon_and_encodings_mean_the_same() -> None:
    (gluon,) = subjects("gl.BlockedLayout([1, 8], [8, 4], warps_per_cta=[2, 1], order=[1, 0])", "32x32", "f16")
    assert gluon.layout == subject("blocked").layout
    (sliced,) = subjects("SliceLayout(0, BlockedLayout([1, 8], [8, 4], [2, 1], [1, 0]))", "32", "f16")
    assert sliced.layout == subject("slice").layout
    (shared,) = subjects("SwizzledSharedLayout(vec=4, per_phase=1, max_phase=4, order=[1, 0])", "32x32", "f16")
    assert shared.layout == subject("swizzled").layout


def test_a_line_of_a_file_is_its_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.ttgir"
    file.write_text(
        f"#a = {ROWS}\n#b = {COLUMNS}\n"
        "  %1 = ttg.convert_layout %0 : tensor<32x32xf16, #a> -> tensor<32x32xf16, #b>\n"
        "  %2 = tt.load %p : tensor<16x64x!tt.ptr<f16>, #a>\n  return\n"
    )
    shown = subjects(f"{file}:3", None, "f32")
    assert [s.layout for s in shown] == [layout_of(ROWS, (32, 32)), layout_of(COLUMNS, (32, 32))]
    assert {s.element_bits for s in shown} == {16}
    (pointers,) = subjects(f"{file}:4", None, "f32")
    assert (pointers.layout, pointers.element_bits) == (layout_of(ROWS, (16, 64)), 64)
    status, out, _ = view(capsys, f"{file}:3")
    assert status == 0
    assert "conversion on cuda:90: cta-shared" in out
    assert "not registers: destination register=" in out
    status, _, err = view(capsys, f"{file}:5")
    assert (status, err.splitlines()[0]) == (
        1,
        f"{file}:5:1: error: no type with an encoding is on this line; the nearest with one: 3, 4",
    )


def test_a_conversion_is_the_one_that_explain_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its lowering, what was counted for it, and stock Triton's of that line."""
    text = module_of("kernel")
    file = tmp_path / "kernel.ttgir"
    file.write_text(text)
    before, _, _ = text.partition("ttg.convert_layout")
    status, out, _ = view(capsys, f"{file}:{before.count(chr(10)) + 1}")
    report = explained(text, str(file), None, stock=True)
    (ours,), (stock,) = report.conversions, report.stock or ()
    said = " ".join(out.split())
    assert status == 0 and ours.figures is not None
    assert f"ours on cuda:90: {ours.lowering}; {ours.figures} not {ours.rejected[0]}" in said
    assert f"stock Triton on cuda:90: {stock}" in said


def test_of_a_conversion_that_moves_elsewhere_the_place_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[2] / "data" / "ttgir" / "softmax_row_plus_t-1.ttgir"
    line = file.read_text().partition("ttg.convert_layout")[0].count("\n") + 1
    _, out, _ = view(capsys, f"{file}:{line}")
    assert "ours on cuda:90: no conversion on this line; there are some at" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("#ttg.foo<{}>", "--shape", "4"), "unknown encoding '#ttg.foo'"),
        ((ROWS,), "the shape of the tensor is missing: --shape 64x32"),
        ((ROWS, "--shape", "4x3"), "shape: 3 is not a power of two"),
        ((ROWS, "--shape", "4by3"), "shape: '4by3' is not sizes with an x between, as in 64x32"),
        ((ROWS, "--shape", "32x32", "--type", "f17"), "type: 'f17' is no element type of Triton's"),
        ((ROWS, "--shape", "32x32", "--target", "cuda:foo"), "cuda:foo"),
        ((ROWS, "--shape", "32x32", "--view", "memory", "-o", "a.svg"), "only layouts of shared memory"),
        ((ROWS, "--shape", "32x32", "-o", "a.jpeg"), "no format is called 'jpeg'"),
        ((ROWS, "--shape", "1024x2048"), "is too large to draw"),
        (("nowhere.ttgir:3",), "cannot open input file: No such file or directory"),
        (("BlockedLayout([1, 2], [4, 8])", "--shape", "4x4"), "missing 2 required positional arguments"),
        (("BlockedLayout([1, 3], [4, 8], [1, 1], [1, 0])", "--shape", "4x4"), "must be a power of two"),
        (("BlockedLayout(open('x'))", "--shape", "4x4"), "'open' is no layout of Gluon's"),
        (("BlockedLayout([1, 2]", "--shape", "4x4"), "is not Python"),
        (("what",), "'what' is no encoding"),
        (("#blocked", "--shape", "4x4"), "'#blocked' is an alias"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_a_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = view(capsys, *arguments)
    assert (status, out) == (1, "")
    assert "error: " in err
    assert message in err
    assert "Traceback" not in err


def test_of_a_file_without_a_line_the_lines_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.ttgir"
    line = "%1 = ttg.convert_layout %0\n"
    for text, said in (
        ("module\n" + line, f"as {file}:2; it has conversions on line 2"),
        (line * 20, f"as {file}:1; it has conversions on lines 1, 2, 3, 4, 5, 6, 7, 8 and 12 more"),
        ("module\n", f"as {file}:LINE; there is no conversion in it"),
    ):
        file.write_text(text)
        for what in (f"{file}", f"{file}:LINE"):
            status, _, err = view(capsys, what)
            assert (status, err) == (1, f"{file}: error: say which line, {said}\n")


def test_layouts_of_different_tensors_are_not_drawn_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.ttgir").write_text(MODULE)
    status, _, err = view(capsys, ROWS, "--shape", "32x32", "--to", f"{tmp_path / 'a.ttgir'}:5")
    assert status == 1
    assert "different tensors" in err


def test_lanes_of_another_target_have_no_conversion(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = view(capsys, ROWS, "--to", COLUMNS, "--shape", "32x32", "--target", "hip:gfx942")
    assert status == 0
    assert "no conversion on hip:gfx942" in out
    assert "the source layout has 32 lanes, hip:gfx942 has 64" in out


def test_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, start in (("a.svg", b"<?xml"), ("a.html", b"<!DOCTYPE html>"), ("a.txt", b"tensor:")):
        assert view(capsys, ROWS, "--shape", "16x16", "-o", str(tmp_path / name)) == (0, "", "")
        assert (tmp_path / name).read_bytes().startswith(start)
    status, _, err = view(capsys, ROWS, "--shape", "16x16", "-o", str(tmp_path / "no" / "a.svg"))
    assert status == 1
    assert "cannot open output file" in err


# The document


def commands() -> list[tuple[str, list[str]]]:
    """Each command of docs/view.md that shows its output, with the lines shown."""
    text = Path(__file__).parents[3].joinpath("docs", "view.md").read_text()
    blocks = re.findall(r"^```\n\$ triton-linear (view .*)\n((?:(?!```).*\n)*)```$", text, re.MULTILINE)
    return [(command, lines.splitlines()) for command, lines in blocks]


def test_the_document_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(commands()) >= 2
    for command, lines in commands():
        assert cli.main(shlex.split(command)) == 0
        printed = iter(capsys.readouterr().out.splitlines())
        for line in lines:
            assert line == "..." or line in printed, (command, line)


def test_what_is_wrong_on_a_line_is_said_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "two.ttgir"
    blocked = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>"
    file.write_text(f"tensor<64xf32, {blocked.replace('[32]', '[32, 1]')}>\n")
    with pytest.raises(ToolError, match=rf"{file}:1:1: error: #ttg.blocked"):
        subjects(f"{file}:1", None, "f32")


MODULE = f"""#rows = {ROWS}
#columns = {COLUMNS}
#unused = {ROWS}
module {{
  %0 = tt.make_range : tensor<32x64xf16, #rows>
  %1:2 = "tt.both"(%0) : tensor<32x64xf16, #rows> -> tensor<64xf32, #ttg.slice<{{dim = 0, parent = #columns}}>>
  %2 = "tt.reduce"(%0) ({{
    tt.use %1#1, %0
  }}) : (tensor<64x64xf32, #columns>) -> tensor<32x64xf16, #rows>
}}
"""


def test_every_line_of_a_module_with_types_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of types of different shapes, and one whose types are at the end of its region."""
    file = tmp_path / "a.ttgir"
    file.write_text(MODULE)
    named = {line: [s.text for s in subjects(f"{file}:{line}", None, "f32")] for line in (5, 6, 9)}
    assert named == {
        5: ["32x64xf16 blocked"],
        6: ["32x64xf16 blocked", "64xf32 slice(blocked)"],
        9: ["64x64xf32 blocked", "32x64xf16 blocked"],
    }
    for line in (1, 3, 4, 8, 10):
        status, out, err = view(capsys, f"{file}:{line}")
        assert (status, out) == (1, "")
        assert (
            f"{file}:{line}:1: error: no type with an encoding is on this line; the nearest with one: " in err
        )
    for line, kind in zip(named, ("txt", "svg", "html"), strict=True):
        output = tmp_path / f"out.{kind}"
        assert view(capsys, f"{file}:{line}", "-o", str(output)) == (0, "", "")
        assert MODULE.splitlines()[line - 1].strip()[:6] in output.read_text().replace("\\", ""), (line, kind)


SCRIPT = """import torch, triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

@triton.jit
def turned(x, y):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    value = tl.load(x + at)
    tl.store(y + at, value.trans())

for kernel in (turned,):
    source = triton.compiler.ASTSource(fn=kernel, signature={"x": "*fp16", "y": "*fp16"}, constexprs={})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
"""


def test_a_kernel_of_a_script_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.replace("import torch, triton", "import triton"))
    status, out, err = view(capsys, f"{file}:turned:8", "--view", "tensor")
    assert (status, err) == (0, "")
    assert "turned, line 8: value = tl.load(x + at)" in out
    assert "64x64x" in out
    status, _, err = view(capsys, f"{file}:other:8")
    assert (status, err) == (1, f"{file}: error: no kernel is called 'other'; the script compiles turned\n")
    for what in (f"{file}", f"{file}:turned"):
        status, _, err = view(capsys, what)
        assert (status, err) == (
            1,
            f"{file}: error: say which line, as {file}:9; it has conversions on line 9\n",
        )
    status, out, _ = view(capsys, f"{file}:9", "--target", "cuda:90")
    assert (status, "ours on cuda:90: cta-shared" in out) == (0, True)
    status, _, err = view(capsys, f"{file}:turned:4")
    assert status == 1
    assert f"{file}:4:1: error: no tensor is made on this line; the nearest with one: 7, 8; conversions" in err


def test_a_conversion_that_has_no_plan_is_named_by_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Element 8 is nowhere in the source."""
    source, destination = (
        f"#ttg.linear<{{register = [], lane = [[1], [2], [4], {fourth}, [16]], warp = [], block = []}}>"
        for fourth in ("[5]", "[8]")
    )
    file = tmp_path / "kernel.ttgir"
    types = [f"tensor<32xf32, {layout}>" for layout in (source, destination)]
    file.write_text(f"//\n%y = ttg.convert_layout %x : {types[0]} -> {types[1]}\n")
    assert cli.main(["view", f"{file}:2"]) == 1
    assert f"{file}:2:1: error: " in capsys.readouterr().err
