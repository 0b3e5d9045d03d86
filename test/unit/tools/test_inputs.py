"""Whatever a tool is given, it says what is wrong and where, or does what is asked."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import input_mutants
import pytest
from explain_support import SCRIPT
from input_mutants import FILE, Case
from input_runs import Ended, Runner, judge
from input_words import GOOD

from triton_linear.dialect import bridge
from triton_linear.tools import cli
from triton_linear.tools.support.compile import compile_text, read_module
from triton_linear.tools.support.errors import ToolError

GENERIC = """\
"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<64xf32, #a>) -> (), sym_name = "kernel"}> ({
  ^bb0(%x: tensor<64xf32, #a>):
    %y = "ttg.convert_layout"(%x) : (tensor<64xf32, #a>) -> tensor<64xf32, #b>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32} : () -> ()
"""
ALIASES = "".join(GOOD.splitlines(keepends=True)[:2]).replace("#near", "#a").replace("#far", "#b")


# Loading numpy starts threads, which forked children do without.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def test_wrong_inputs_end_in_a_diagnostic(tmp_path: Path) -> None:
    rng = random.Random(5)
    found = Runner(tmp_path, 60).tally(input_mutants.case(rng, most_bytes=2500) for _ in range(60))
    assert [(outcome, case.shown, ended.err[-500:]) for outcome, case, ended in found.findings] == []
    assert found.cases == 60
    assert found.outcomes["refused"] > 20
    assert found.outcomes["accepted"] > 1
    assert found.outcomes["wrong command line"] > 0


def test_what_may_not_be_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_linear.tools import cli

    def tool(words: list[str] | None) -> int:
        assert words is not None
        if words[0] == "abort":
            os.abort()
        if words[0] == "hang":
            while True:
                pass
        if words[0] == "raise":
            raise KeyError("x")
        if words[0] == "bare":
            print("error: somewhere", file=sys.stderr)
        return int(words[0] != "fine")

    monkeypatch.setattr(cli, "main", tool)
    words = ("fine", "raise", "hang", "bare", "silent", "fine")
    cases = [Case("cli", (word,), b"", by_input=True) for word in words]
    found = Runner(tmp_path, 1).tally(cases)
    outcomes = [(outcome, case.words[0]) for outcome, case, _ in found.findings]
    assert outcomes == [
        ("traceback", "raise"),
        ("hangs", "hang"),
        ("refused without the file", "bare"),
        ("refused without an error", "silent"),
    ]
    assert found.outcomes["accepted"] == 2
    assert judge(cases[0], Ended(-6, "", ""), "f") == ("ended by SIGABRT", False)


def test_a_crash_of_the_compiler_names_the_file(tmp_path: Path) -> None:
    case = Case("opt", (FILE, "--emit=ptx"), GOOD.replace("f32", "i1").encode(), by_input=True)
    ((_, ended),) = Runner(tmp_path, 60).run([case])
    assert ended.status == 1
    assert f"{tmp_path}/input.ttgir: error: the compiler crashed with SIGABRT" in ended.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"cuda:90"', "5 : i32", "1:1: error: ttg.target: expected a string, got '5 : i32'"),
        ('"cuda:90"', '"cuda:9"', "1:1: error: unknown target 'cuda:9'"),
        ('"cuda:90"', '"hip:gfx1100"', "1:1: error: unknown target 'hip:gfx1100'; known: cuda:80, "),
        ('"ttg.num-warps" = 1', '"ttg.num-warps" = 3', "1:1: error: ttg.num-warps: 3 is not a power of two"),
        ('"ttg.num-ctas" = 1 : i32', '"ttg.num-ctas" = "x"', "ttg.num-ctas: expected an integer"),
        ('sym_name = "kernel"', "sym_name = 1", "2:3: error: sym_name: expected a string"),
        (', sym_name = "kernel"', "", "2:3: error: function has no 'sym_name'"),
        ('"tt.return"()', '"tt.call"() {callee = @g}', "5:5: error: call of @g, and there is no such function"),
        ('"tt.return"()', '"tt.call"()', "5:5: error: call has no 'callee'"),
        ("-> tensor<64xf32, #b>", "-> tensor<32xf32, #b>", "4:10: error: conversion of 'tensor<64xf32"),
        ("-> tensor<64xf32, #b>", "-> i32", "both must be tensors"),
        ('layout"(%x)', 'layout"(%x) {ll.plan = 1}', "4:10: error: ll.plan: plan_from_text: expected #ll.plan"),
        ('layout"(%x)', 'layout"(%x) {ll.stock}', "4:10: error: ll.stock: expected a string, got 'unit'"),
        (
            '"tt.return"()',
            '"tt.return"() {ll.source = #ll.layout<{lane = [[3]]}, [2]>}',
            "5:5: error: ll.source: ",
        ),
        ('sym_name = "kernel"}>', 'sym_name = "kernel"}> {ll.plan = #ll.plan<"x", {}, []>}', "no 'll.source'"),
    ],
)
def test_what_passes_rely_on(old: str, new: str, message: str) -> None:
    text = GENERIC.replace(old, new, 1)
    if "}> {" in new:  # attributes of the function stand behind its body
        text = GENERIC.replace("  }) : () -> ()", '  }) {ll.plan = #ll.plan<"x", {}, []>} : () -> ()')
    assert text != GENERIC
    with pytest.raises(ToolError) as caught:
        compile_text(ALIASES + text, "k.mlir", None, "llvm")
    shifted = message
    if message[0].isdigit():
        line, _, rest = message.partition(":")
        shifted = f"k.mlir:{int(line) + 2}:{rest}"
    assert shifted in str(caught.value)


def test_the_stub_must_do_what_its_type_says() -> None:
    module = read_module(ALIASES + GENERIC, bridge.upstream_context(), "k.mlir")
    assert module is not None
    lanes = "lane = [[1], [2], [4], [8], [16]]"
    layout = f"#ll.layout<{{block = [], {lanes}, register = [[32]], warp = []}}, [64]>"
    stub = (
        '  "tt.func"() <{function_type = (tensor<64xf32, #a>) -> tensor<64xf32, #b>, sym_name = "__ll_cvt_0", '
        f'sym_visibility = "private"}}> ({{}}) {{ll.destination = {layout}, ll.element = "f32", '
        f'll.plan = #ll.plan<"shuffle", {{}}, []>, ll.source = {layout}}} : () -> ()\n'
    )
    text = ALIASES + GENERIC.replace("}) {", stub + "}) {")
    with pytest.raises(ToolError, match=r"ll\.destination: is not the layout of"):
        read_module(text, bridge.upstream_context(), "k.mlir")


def test_a_module_without_a_kernel() -> None:
    with pytest.raises(ToolError, match=r"k\.ttgir:3:1: error: the module has conversions and no kernel"):
        compile_text(GOOD.replace("tt.func public", "tt.func private"), "k.ttgir", None, "llvm")


def test_clusters_on_a_gpu_that_has_none() -> None:
    attributes = '"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"'
    text = f"module attributes {{{attributes}}} {{ tt.func public @k() {{ tt.return }} }}"
    with pytest.raises(ToolError, match="cuda:80 cannot compile the module: num_ctas > 1 requires NVIDIA SM90"):
        compile_text(text, "k.ttgir", None, "llvm")


def test_more_registers_than_can_be_compiled() -> None:
    # As many elements as there are registers: copies have none on every release.
    text = GOOD.replace("sizePerThread = [2]", "sizePerThread = [16384]").replace("<64x", f"<{16384 * 32}x")
    with pytest.raises(
        ToolError, match=r"k\.ttgir:4:3: error: a thread holds 16384 elements of .*; 8192 at most"
    ):
        compile_text(text, "k.ttgir", None, "llvm")


@pytest.mark.parametrize("option", ["²", "٣", "1" * 5000, "-1", "1.5", ""])
def test_numbers_of_options(option: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from triton_linear.tools.opt import command as opt

    path = tmp_path / "k.ttgir"
    path.write_text(GOOD)
    assert opt.main([str(path), f"--linear-select-lowering=scratch-limit={option}"]) == 1
    assert "error: linear-select-lowering: option 'scratch-limit' takes a number" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["verify", "explain", "view", "diff", "tune", "status"])
def test_help_says_what_every_option_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option has text beside its name, or on the line below."""
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    options = capsys.readouterr().out.partition("\noptions:\n")[2].partition("\n\n")[0].splitlines()
    assert options
    for line, below in zip(options, [*options[1:], ""], strict=True):
        if line.startswith("  -"):
            assert re.search(r"\S  +\S", line) or below.startswith(" " * 10), line


def test_the_kernels_of_a_script_are_verified(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    assert cli.main(["verify", str(path), "64"]) == 0
    printed = capfd.readouterr()
    assert re.search(r"^[1-9]\d* conversions? verified, 0 wrong$", printed.out, re.MULTILINE)
    assert "said by the script" in printed.err


WMMA = """\
#mma = #ttg.amd_wmma<{version = 1, isTranspose = true, ctaLayout = {}}>
module attributes {"ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx1100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<16x16xf16, #mma>) { tt.return }
}
"""


@pytest.mark.parametrize(
    ("command", "words"),
    [("opt", (FILE, "--linear-pipeline")), *(("cli", (name, FILE)) for name in ("explain", "verify", "diff"))],
)
def test_an_encoding_that_ends_the_process_of_triton_is_an_error(
    command: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    ((_, ended),) = Runner(tmp_path, 60).run([Case(command, words, WMMA.encode(), by_input=True)])
    assert ended.status == 1
    (line,) = filter(None, ended.err.splitlines())
    assert line.endswith("error: #ttg.amd_wmma is an encoding of GPUs that are left to Triton")


@pytest.mark.parametrize("arguments", [["--targets", "cuda:9"], ["--targets", "x"], ["--output", "/dev/null"]])
def test_the_demo_says_what_it_cannot_do(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from triton_linear.tools import demo

    assert demo.main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert re.search(r"error: .*(unknown target 'cuda:9'|'x' is neither|cannot write assembly there)", line)


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("verify {path} > /dev/full", 1, "<stdout>: error: cannot write output: No space left on device"),
        ("verify - <&-", 1, "<stdin>: error: cannot open input file: it is closed"),
        ("verify {path} >&-", 0, ""),
        ("verify - < {bad}", 1, "<stdin>:2:2: error: input file is not UTF-8 text"),
        (
            "verify $'/no/such\\xff'",
            1,
            "/no/such\\xff: error: cannot open input file: No such file or directory",
        ),
        ("verify {folder}", 0, ""),
        ("opt {folder}", 1, "error: cannot open input file: Is a directory"),
    ],
)
def test_streams_and_names(line: str, status: int, said: str, tmp_path: Path) -> None:
    path, bad = tmp_path / "k.ttgir", tmp_path / "bad"
    path.write_text(GOOD)
    bad.write_bytes(b"a\nb\xff")
    line = line.format(path=path, bad=bad, folder=tmp_path)
    module = f"opt.command {line.removeprefix('opt ')}" if line.startswith("opt ") else f"cli {line}"
    command = f"{sys.executable} -m triton_linear.tools.{module}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr.strip()[-len(said) :]) == (status, said)
    assert "Traceback" not in ran.stderr


def test_where_triton_gives_no_place_the_file_is_named(tmp_path: Path) -> None:
    """A kernel without a name: what it becomes has no such kernel."""
    words = ("triton-linear-opt", "--emit=ptx", "-o", "/dev/null")
    file = tmp_path / "nameless.ttgir"
    text = GENERIC.replace('"kernel"', '""')
    file.write_text(ALIASES + text)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    made = subprocess.run([*words, str(file)], env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert made.stderr.startswith(f"{file}: error: Triton failed before the stage"), made.stderr
