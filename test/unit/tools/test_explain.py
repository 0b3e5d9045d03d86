"""`triton-linear explain`: every conversion with its place, what forces it, what was counted, and the gate."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from explain_support import SCRIPT, explain
from rich.console import Console, RenderableType

from triton_linear.dialect import bridge
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.locations import user_position
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.examples import specs
from triton_linear.examples.spec import gpu_target
from triton_linear.passes.operations.names import CONVERT
from triton_linear.tools import cli
from triton_linear.tools.demo import compile_kernel
from triton_linear.tools.explain import command
from triton_linear.tools.explain.anchors import Anchor, Uses, advice, loop_depth
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import ModuleReport
from triton_linear.tools.explain.render import fields
from triton_linear.tools.support.arguments import Condition
from triton_linear.tools.support.compile import LOWERING, compile_text
from triton_linear.tools.support.console import status_line
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.words import in_words
from triton_linear.tools.verify.command import Checked, check

DATA = Path(__file__).parents[2] / "data" / "ttgir"
MODULES = sorted(DATA.rglob("*.ttgir"))
EXAMPLE_TARGETS = ("cuda:80", "cuda:90", "hip:gfx942")
SCHEMA = json.loads(files("triton_linear.tools.explain").joinpath("schema.json").read_text())
HEAD = 'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", '
ROWS = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = [1, 0]}>"
COLUMNS = (
    "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1], order = [0, 1]}>"
)
LOOP = f"""\
#r = {ROWS}
#c = {COLUMNS}
{HEAD}"ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel(%p: tensor<16x16x!tt.ptr<f32>, #r>, %q: tensor<16x16x!tt.ptr<f32>, #c>, %n: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %first = tt.load %p : tensor<16x16x!tt.ptr<f32>, #r>
    %last = scf.for %i = %zero to %n step %one iter_args(%x = %first) -> (tensor<16x16xf32, #r>) : i32 {{
      %y = ttg.convert_layout %x : tensor<16x16xf32, #r> -> tensor<16x16xf32, #c>
      tt.store %q, %y : tensor<16x16x!tt.ptr<f32>, #c>
      %z = arith.addf %x, %x : tensor<16x16xf32, #r>
      scf.yield %z : tensor<16x16xf32, #r>
    }}
    %e = ttg.convert_layout %last : tensor<16x16xf32, #r> -> tensor<16x16xf32, #c>
    tt.store %q, %e : tensor<16x16x!tt.ptr<f32>, #c>
    tt.return
  }}
}}
"""


def test_a_loop_and_its_anchors() -> None:
    report = explained(LOOP, "loop.ttgir", None)
    assert (report.kernels, report.target, report.num_warps) == (("kernel",), "cuda:90", 1)
    inside, after = report.conversions
    assert (inside.place.line, inside.loop_depth, after.place.line, after.loop_depth) == (9, 1, 14, 0)
    for conversion, store in ((inside, 10), (after, 15)):
        assert conversion.from_anchor is not None
        assert conversion.to_anchor is not None
        assert (conversion.from_anchor.operation, conversion.from_anchor.line) == ("tt.load", 7)
        assert (conversion.to_anchor.operation, conversion.to_anchor.line) == ("tt.store", store)
        assert "transposed" in conversion.advice
        assert conversion.kind in ("shuffle", "warp-shared")
        assert "lane" in conversion.rejected[0]


def reports() -> Iterator[tuple[str, str, ModuleReport]]:
    """Real modules: name, text, report."""
    for path in MODULES[::14]:
        text = path.read_text()
        yield str(path), text, explained(text, str(path), None)


def test_every_conversion_of_real_modules_has_a_place_and_the_interpreters_counts() -> None:
    modules = conversions = anchored = 0
    for name, text, report in reports():
        jsonschema.validate({"modules": [json.loads(json.dumps(report.as_json()))]}, SCHEMA)
        checked = check(compile_text(text, name, None, "llvm"))
        assert_told(report, checked)
        as_they_were = explained(text, name, None, options=LOWERING)
        assert said(as_they_were) == counted(check(compile_text(text, name, None, "llvm", LOWERING))), name
        assert all(c.place.line > 0 for c in report.conversions)
        anchored += sum(bool(c.from_anchor and c.to_anchor) for c in report.conversions)
        modules, conversions = modules + 1, conversions + len(report.conversions)
    assert modules >= 5
    assert conversions >= 6
    assert anchored >= 0.9 * conversions


def said(report: ModuleReport) -> list[tuple[Any, ...]]:
    """Place, lowering and figures of each conversion, as explained."""
    found = []
    for c in report.conversions:
        f = c.figures
        numbers: tuple[int, ...] = ()
        if f is not None:
            numbers = (
                f.wavefronts,
                f.minimum_wavefronts,
                f.shuffles,
                f.alu,
                f.barriers,
                f.warp_barriers,
                f.bytes,
            )
        found.append((c.place.line, c.place.column, c.lowering, numbers))
    return sorted(found)


def counted(checked: Sequence[Checked]) -> list[tuple[Any, ...]]:
    """The same from what the interpreter counted when it ran the code that was emitted."""
    found = []
    for one in checked:
        _, line, column = user_position(one.of.location)
        numbers: tuple[int, ...] = ()
        if one.verdict is not None:
            c = one.verdict.counts
            moved = c.bytes_stored + c.bytes_loaded
            barriers = c.cta_barriers, c.warp_barriers
            numbers = c.wavefronts, c.minimum_wavefronts, c.shuffles, c.alu_operations, *barriers, moved
        found.append((line, column, one.plan, numbers))
    return sorted(found)


def assert_told(report: ModuleReport, checked: Sequence[Checked]) -> None:
    """What was counted is told; what has no place of its own, as passes made it, has one near."""
    told, found = said(report), counted(checked)
    assert sorted(one[2:] for one in told) == sorted(one[2:] for one in found), report.file
    assert not Counter(one for one in found if one[0]) - Counter(told), report.file


@pytest.mark.parametrize(("number", "target"), list(enumerate(EXAMPLE_TARGETS)))
def test_the_examples_are_explained_by_lines_of_their_source(number: int, target: str) -> None:
    """Each for one of the targets."""
    seen = set()
    for spec in specs(gpu_target(target))[number :: 2 * len(EXAMPLE_TARGETS)]:
        kernel = compile_kernel(spec, target)
        report = explained(kernel.ttgir, spec.name, target)
        jsonschema.validate({"modules": [json.loads(json.dumps(report.as_json()))]}, SCHEMA)
        assert_told(report, kernel.checked)
        for conversion in report.conversions:
            assert conversion.from_anchor is not None or conversion.to_anchor is not None
        for one in (*report.conversions, *report.accesses, *report.reductions):
            assert one.place.file.endswith(".py")
            assert one.place.line > 0
            assert one.place.code
        assert all(one.figures is not None or one.detail for one in report.accesses), spec.name
        seen.add(spec.name)
    assert seen


def test_anchors_do_not_cross_what_fixes_a_layout() -> None:
    """Whatever the module, a source anchor produces, through elementwise operations only, what is converted."""
    for path in MODULES[:12]:
        context = bridge.upstream_context()
        module = bridge.text_to_upstream(path.read_text(), context, str(path))
        ops = operations(module.operation)
        uses = Uses(ops)
        for op in ops:
            if op.name == CONVERT:
                before, destination = uses.source(op), uses.destination(op)
                assert before is None or before.operation not in ("tt.store", "tt.return", "ttg.local_store")
                assert destination is None or not destination.operation.endswith("local_load")
                assert loop_depth(op) in (0, 1, 2)


@pytest.mark.parametrize(
    ("encoding", "shape", "words"),
    [
        (ROWS, (16, 16), "a thread holds 8 elements, runs of 4 along dim1 (8 bytes); lanes 8x4, warps 1x1"),
        (COLUMNS, (16, 16), "a thread holds 8 elements, runs of 4 along dim0 (8 bytes); lanes 4x8, warps 1x1"),
        (
            ROWS,
            (16, 8),
            "a thread holds 8 elements, runs of 4 along dim1 (8 bytes); "
            "lanes 8x2, warps 1x1; copies in 2 lanes",
        ),
    ],
)
def test_words(encoding: str, shape: tuple[int, ...], words: str) -> None:
    assert in_words(layout_of(encoding, shape), 16) == words


LONG_ROWS = ROWS.replace("sizePerThread = [1, 4]", "sizePerThread = [1, 8]")


@pytest.mark.parametrize(
    ("before", "after", "destination", "said"),
    [
        ("tt.load", "tt.store", COLUMNS, "load and store run along different dimensions"),
        ("tt.load", "tt.atomic_rmw", COLUMNS, "load and atomic run along different dimensions"),
        ("tt.load", "tt.load", COLUMNS, "one order of dimensions for both"),
        ("tt.load", "tt.store", LONG_ROWS, "load and store run along the same dimension, by 4 and 8 elements"),
        ("tt.load", "tt.store", ROWS, ""),
        ("tt.reduce", "tt.store", COLUMNS, "reduce over another dimension"),
        ("tt.dot", "tt.store", COLUMNS, "an accumulator is stored by rows"),
        ("ttng.warp_group_dot", "ttng.warp_group_dot", COLUMNS, "an operand of another dot"),
        ("tt.load", "tt.dot", COLUMNS, "an operand goes through registers"),
        ("tt.call", "tt.store", COLUMNS, "without noinline"),
        ("tt.load", "tt.reduce", COLUMNS, "along dim0, as the reduction takes it, not along dim1"),
        ("tt.load", "tt.scan", LONG_ROWS, "the load would have to take 8 at once along dim1, not 4"),
        ("tt.load", "tt.gather", ROWS, ""),
        ("tt.scan", "tt.store", LONG_ROWS, "scan and store run along the same dimension, by 4 and 8 elements"),
        ("tt.scan", "tt.gather", COLUMNS, ""),
        ("", "", COLUMNS, ""),
    ],
)
def test_advice(before: str, after: str, destination: str, said: str) -> None:
    anchors = [Anchor(name, "", "", 0, 0) if name else None for name in (before, after)]
    layouts = layout_of(ROWS, (64, 64)), layout_of(destination, (64, 64))
    given = advice("cta-shared", anchors[0], anchors[1], *layouts)
    assert said in given
    assert bool(said) == bool(given)
    assert not advice("noop", anchors[0], anchors[1], *layouts)


# The gate


def test_conditions() -> None:
    report = explained(LOOP, "loop.ttgir", "cuda:80")
    kinds = [c.kind for c in report.conversions]
    scratch = max(c.scratch_bytes for c in report.conversions)
    wavefronts = sum(c.figures.wavefronts for c in report.conversions if c.figures)
    shared = sum(kind.endswith("-shared") for kind in kinds)
    values = {
        "conversions": 2,
        "conversions in loops": 1,
        "shared conversions": shared,
        f"{kinds[0]} conversions": kinds.count(kinds[0]),
        "stock conversions": 0,
        "scratch": scratch,
        "wavefronts": wavefronts,
        "wrong": 0,
    }
    for text, value in values.items():
        for compare, bound, met in (
            (">", value, False),
            (">=", value, True),
            ("==", value, True),
            (">=", value + 1, False),
            ("==", value + 1, False),
        ):
            condition = Condition.parse(f"{text} {compare} {bound}", command.CONDITIONS, command.KNOWN)
            assert (command.counted(condition.name, [report]), condition.holds(value)) == (value, met), (
                condition
            )
    assert command.counted("conversions", [report, report]) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "shared > 0",
        "conversions < 3",
        "conversions > x",
        "barriers in loop > 0",
        "shared memory in loops > 0",
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="is no condition"):
        Condition.parse(text, command.CONDITIONS, command.KNOWN)


# The command


def test_text_and_the_status_of_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "loop.ttgir"
    file.write_text(LOOP)
    status, out, err = explain(capsys, str(file))
    assert (status, err) == (0, "")
    assert "[in 1 loop]" in out
    assert "coalesced for this load (tt.load at loop.ttgir:7)" in out
    status, _, err = explain(capsys, str(file), "--fail-on", "conversions in loops > 1")
    assert (status, err) == (0, "")
    status, _, err = explain(capsys, str(file), "--fail-on", "conversions in loops > 0")
    assert (status, err) == (1, "error: fail-on: conversions in loops > 0: it is 1\n")


def test_what_is_long_is_shown_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A long name of a file stands below the kernel's; a field that is wrapped goes on below its beginning."""
    file = tmp_path / ("a" * 60) / "loop.ttgir"
    file.parent.mkdir()
    file.write_text(LOOP)
    _, out, _ = explain(capsys, str(file))
    assert out.startswith("╭─ kernel ─")
    assert str(file) in "".join(line.strip("│ \n") for line in out.splitlines())
    wrapped = [
        line for line in rendered(fields([("lowered", "word " * 30)]), width=80).splitlines() if line.strip()
    ]
    assert len(wrapped) > 1
    assert wrapped[0].startswith("  lowered   word")
    assert all(line.startswith(" " * 12 + "word") for line in wrapped[1:])


def rendered(what: RenderableType, width: int) -> str:
    """The text of what rich draws."""
    console = Console(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(what)
    return captured.get()


class Terminal(io.StringIO):
    """Text that says it is shown on a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_which_module_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "loop.ttgir"
    file.write_text(LOOP)
    assert explain(capsys, str(file))[2] == ""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    assert cli.main(["explain", "loop.ttgir"]) == 0
    assert terminal.getvalue() == "\r\x1b[Kexplaining loop.ttgir\r\x1b[K"
    monkeypatch.setenv("COLUMNS", "10")
    with status_line("explaining loop.ttgir"):
        assert terminal.getvalue().endswith("\r\x1b[Kexplai...")


def test_a_folder_gives_each_module_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.ttgir").write_text(
            LOOP if name != "c" else LOOP.replace("@kernel", "@other")
        )
    status, out, _ = explain(capsys, str(tmp_path), "--json")
    data = json.loads(out)
    jsonschema.validate(data, SCHEMA)
    assert status == 0
    assert [module["kernels"] for module in data["modules"]] == [["kernel"], ["other"]]


def test_a_conversion_without_a_place_has_that_of_what_forces_it() -> None:
    placed, convert = [], 0
    for line in LOOP.splitlines():
        convert += "convert_layout" in line
        where = "unknown" if "convert_layout" in line else f'"k.py":{len(placed)}:3'
        known = line.strip().startswith("%") or "tt.store" in line
        placed.append(f"{line} loc({where})" if known and not line.rstrip().endswith("{") else line)
    assert convert == 2
    inside, after = explained("\n".join(placed), "loop.ttgir", None).conversions
    loads = [number for number, line in enumerate(placed) if "tt.load" in line]
    assert [(c.place.file, c.place.line) for c in (inside, after)] == [("k.py", loads[0])] * 2


def test_what_is_wrong_with_one_module_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.ttgir").write_text("module {")
    (tmp_path / "b.ttgir").write_text(LOOP)
    status, out, err = explain(capsys, str(tmp_path), "--json")
    assert status == 1
    assert [module["kernels"] for module in json.loads(out)["modules"]] == [["kernel"]]
    assert "a.ttgir:1:" in err
    assert "Traceback" not in err


def test_a_script_is_run_and_its_kernels_explained(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert cli.main(["explain", "--no-assign", "--json", str(script), "64", "128"]) == 0
    printed = capfd.readouterr()
    modules = json.loads(printed.out)["modules"]
    assert sorted(c["source"] for m in modules for c in m["conversions"]) == [
        "128x128xf16 blocked",
        "64x64xf16 blocked",
    ]
    assert {c["place"]["code"] for m in modules for c in m["conversions"]} == {
        "tl.store(destination + i * N + j, tl.load(source + i * N + j).trans())"
    }
    assert "said by the script" in printed.err


def test_a_script_without_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    assert explain(capsys, str(script)) == (1, "", f"{script}: error: the script compiled no kernel\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.ttgir",), "cannot open input file"),
        (("nowhere.py",), "cannot open input file"),
        (("x.ttgir", "more"), "arguments are for a script: more"),
        (("-", "--fail-on", "much"), "'much' is no condition"),
        (("-",), "there is no module in the input"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    status, _, err = explain(capsys, *arguments)
    assert status == 1
    assert message in err
    assert "Traceback" not in err


def test_the_page_loads_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "loop.ttgir", tmp_path / "loop.html"
    file.write_text(LOOP)
    assert explain(capsys, str(file), "--html", str(page))[0] == 0
    html = page.read_text()
    assert "coalesced for this load" in html
    assert "src=" not in html
    assert "href=" not in html


def test_conversions_that_are_left_to_triton_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in MODULES if "ttg.convert_layout" in path.read_text())
    status, out, _ = explain(capsys, str(path), "--no-lower", "--no-assign", "--no-reductions")
    assert status == 0
    assert "left to Triton: conversions are not lowered" in out
