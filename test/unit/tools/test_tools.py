"""The tools from inside: diagnostics, expectations, pieces of an input, compiling, and a clean way out."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from tool_modules import ATTRIBUTES, HEADER, module_of

from triton_linear import __version__
from triton_linear.dialect.locations import position
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.lowering.emit.embed import Embedded
from triton_linear.passes import attempts
from triton_linear.tools import cli
from triton_linear.tools.demo import COUNTED, counts
from triton_linear.tools.opt import command as opt
from triton_linear.tools.opt import run as opt_run
from triton_linear.tools.opt.arguments import pass_help
from triton_linear.tools.opt.expectations import compare, expectations
from triton_linear.tools.support import compile
from triton_linear.tools.support.compile import LOWERING
from triton_linear.tools.support.console import show, trimmed
from triton_linear.tools.support.errors import (
    Diagnostic,
    Printer,
    ToolError,
    captured_stderr,
    fail,
    guarded,
    parse_diagnostics,
)
from triton_linear.tools.verify import command as verify


class TestDiagnostics:
    @pytest.mark.parametrize(
        ("location", "expected"),
        [
            ('loc("a.py":3:4)', ("a.py", 3, 4)),
            ('loc("name"("a.py":3:4))', ("a.py", 3, 4)),
            ('loc(callsite("f"("a.py":3:4) at "b.py":5:6))', ("a.py", 3, 4)),
            ('loc(fused["a.py":3:4, "b.py":5:6])', ("a.py", 3, 4)),
            ("a b.mlir:3:4", ("a b.mlir", 3, 4)),
            ("loc(unknown)", ("", 0, 0)),
        ],
    )
    def test_a_location_has_a_position(self, location: str, expected: tuple[str, int, int]) -> None:
        assert position(location) == expected

    def test_printed_diagnostics_are_read(self) -> None:
        text = (
            'loc("k.mlir":4:10): error: op has a fault: twice\n'
            "/tmp/x.mlir:1:2: note: see here\n"
            "error: nowhere\n"
            "<unknown>:0: warning: beware\n"
            "Assertion failed\n"
        )
        found, rest = parse_diagnostics(text)
        note = Diagnostic("note", "see here", "/tmp/x.mlir", 1, 2)
        assert found == [
            Diagnostic("error", "op has a fault: twice", "k.mlir", 4, 10, (note,)),
            Diagnostic("error", "nowhere"),
            Diagnostic("warning", "beware"),
        ]
        assert rest == "Assertion failed"

    def test_a_diagnostic_is_printed_with_its_line_and_a_caret(self) -> None:
        stream = io.StringIO()
        note = Diagnostic("note", "declared here", "other.mlir", 1, 1)
        Printer({"k.mlir": "first\n\tsecond line\n"}, stream).print(
            Diagnostic("error", "bad", "k.mlir", 2, 5, (note,))
        )
        assert stream.getvalue() == (
            "k.mlir:2:5: error: bad\n\tsecond line\n\t   ^\nother.mlir:1:1: note: declared here\n"
        )

    @pytest.mark.parametrize("column", [1, 99, 100, 101, 150, 300, 899, 900, 901, 950, 999, 1000])
    def test_of_a_long_line_what_is_around_the_caret_is_printed(self, column: int) -> None:
        text = "".join(chr(ord("a") + number % 26) for number in range(1000))
        stream = io.StringIO()
        Printer({"k": text}, stream).print(Diagnostic("error", "bad", "k", 1, column))
        _, shown, caret = stream.getvalue().splitlines()
        middle = shown.removeprefix("...").removesuffix("...")
        assert len(middle) == 200 and middle in text
        assert shown.startswith("...") == (not text.startswith(middle))
        assert shown.endswith("...") == (not text.endswith(middle))
        where = text.index(middle) + len(caret) - 1 - 3 * shown.startswith("...")
        assert text[column - 1] == shown[len(caret) - 1] and (where - (column - 1)) % 26 == 0

    def test_what_other_code_writes_to_standard_error_is_captured(self) -> None:
        with captured_stderr() as captured:
            os.write(2, b"from below\n")
            print("from above", file=sys.__stderr__)
        assert captured.text == "from below\nfrom above\n"

    def test_nothing_ends_in_a_traceback(self) -> None:
        def run(error: BaseException) -> tuple[int, str]:
            def raise_it() -> int:
                raise error

            stream = io.StringIO()
            return guarded(raise_it, Printer({}, stream)), stream.getvalue()

        assert run(ToolError(Diagnostic("error", "no"))) == (1, "error: no\n")
        assert run(KeyboardInterrupt()) == (130, "")
        status, text = run(RuntimeError("odd"))
        assert status == 1
        assert text.startswith(
            "error: internal error: RuntimeError: odd\nnote: this is a bug; please report it"
        )
        report = Path(text.split()[-1])
        assert "raise error" in report.read_text()
        report.unlink()


class TestExpectations:
    SOURCE = (
        "a\nb // expected-error {{one}}\n// expected-remark@above {{two}}\n"
        "// expected-note-re@+1 {{t{{h+}}ree}}\nc\n"
    )

    def test_each_form_names_its_line(self) -> None:
        found, errors = expectations(self.SOURCE, "f")
        assert errors == []
        assert [(e.severity, e.line, e.written) for e in found] == [
            ("error", 2, 2),
            ("remark", 1, 3),
            ("note", 5, 4),
        ]

    def test_all_met(self) -> None:
        three = Diagnostic("note", "say thhhree", "f", 5, 1)
        reported = [Diagnostic("error", "number one", "f", 2, 9, (three,)), Diagnostic("remark", "two", "f", 1)]
        assert compare(self.SOURCE, "f", reported) == []

    def test_one_diagnostic_meets_one_expectation(self) -> None:
        source = "// expected-error@+2 {{x}}\n// expected-error@+1 {{x}}\nc"
        once = [Diagnostic("error", "x", "f", 3, 1)]
        assert [d.message for d in compare(source, "f", once)] == ['expected error "x" was not produced']
        assert compare(source, "f", once * 2) == []

    @pytest.mark.parametrize(
        "reported",
        [
            Diagnostic("warning", "x", "f", 2),  # another severity
            Diagnostic("error", "x", "f", 3),  # another line
            Diagnostic("error", "y", "f", 2),  # another text
        ],
    )
    def test_what_differs_is_both_missing_and_unexpected(self, reported: Diagnostic) -> None:
        source = "// expected-error@+1 {{x}}\nc\nd"
        assert len(compare(source, "f", [reported])) == 2
        assert len(compare(source, "f", [reported], only_expected=True)) == 1

    def test_text_is_not_a_pattern_unless_asked_for(self) -> None:
        reported = [Diagnostic("error", "a.b", "f", 2)]
        assert compare("// expected-error@+1 {{a.b}}\n", "f", reported) == []
        assert compare("// expected-error@+1 {{a[.]b}}\n", "f", reported) != []
        assert compare("// expected-error-re@+1 {{a{{[.]}}b}}\n", "f", reported) == []

    def test_a_diagnostic_without_place(self) -> None:
        assert compare("// expected-error@unknown {{x}}\n", "f", [Diagnostic("error", "x")]) == []

    def test_no_line_above(self) -> None:
        errors = compare("// expected-error@above {{x}}\n", "f", [])
        assert [d.message for d in errors] == ["no line is above this expectation"]


class TestPieces:
    def test_lines_keep_their_numbers(self) -> None:
        text = "a\n// -----\nb\nc\n// -----  \nd"
        assert [part.split("\n") for part in opt_run._parts(text)] == [
            ["a", ""],
            ["", "", "b", "c", ""],
            ["", "", "", "", "", "d"],
        ]


class TestCommandLine:
    def test_passes_keep_the_order_of_their_flags(self) -> None:
        arguments = opt_run.parse_arguments(
            [
                "--linear-select-lowering=target=cuda:80",
                "--linear-await-operands",
                "f.mlir",
                "--linear-pipeline",
            ]
        )
        assert arguments.passes == [
            ("linear-select-lowering", "target=cuda:80"),
            ("linear-await-operands", ""),
            ("linear-pipeline", ""),
        ]
        assert arguments.file == "f.mlir"

    def test_every_pass_and_option_is_explained(self) -> None:
        from triton_linear.passes.registry import PASSES

        text = pass_help()
        for name, kind in PASSES.items():
            assert f"--{name}" in text
            assert (kind.__doc__ or "").strip().splitlines()[0] in text
        assert "option scratch-limit=...: bytes" in text

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["status"]) == 0
        assert capsys.readouterr().out.startswith("triton-linear ")
        for name, main in (("triton-linear", cli.main), ("triton-linear-opt", opt.main)):
            with pytest.raises(SystemExit, match="0"):
                main(["--version"])
            assert capsys.readouterr().out == f"{name} {__version__}\n"


class TestCompile:
    @pytest.mark.parametrize("name", ["cuda", "cuda:gfx942", "hip:90", "rocm:gfx942", "", "cuda:90a"])
    def test_target_names_that_are_none(self, name: str) -> None:
        with pytest.raises(ToolError, match="is neither cuda:NUMBER nor hip:gfxNAME"):
            compile.vendor_of(name)

    def test_stages_come_in_order(self) -> None:
        compilation = compile.compile_text(module_of("kernel"), "k.ttgir", None, "cubin")
        (kernel,) = compilation.kernels
        assert list(kernel.lowered.stages) == ["llvm", "llvmir", "ptx", "cubin"]
        assert isinstance(kernel.lowered.stages["cubin"], bytes)
        assert kernel.lowered.metadata["name"] == "kernel"
        assert kernel.lowered.metadata["num_warps"] == 1

    def test_nothing_beyond_the_last_stage_is_made(self) -> None:
        compilation = compile.compile_text(module_of("kernel"), "k.ttgir", "cuda:80", "llvmir")
        assert list(compilation.kernels[0].lowered.stages) == ["llvm", "llvmir"]

    def test_triton_is_left_as_it_was(self) -> None:
        from triton.backends.nvidia import compiler  # type: ignore[import-untyped, unused-ignore]

        before = dict(vars(compiler))
        compile.compile_text(module_of("kernel"), "k.ttgir", None, "llvmir")
        assert {name: value for name, value in vars(compiler).items() if before.get(name) is not value} == {}

    def test_kernels_are_compiled_one_by_one(self) -> None:
        compilation = compile.compile_text(module_of("one", "two"), "k.ttgir", None, "ptx", LOWERING)
        assert [kernel.lowered.metadata["name"] for kernel in compilation.kernels] == ["one", "two"]
        assert len(compilation.conversions) == 2
        assert {found.stub for found in compilation.conversions} == set(compilation.stubs)

    def test_a_conversion_has_its_place_in_the_file(self) -> None:
        compilation = compile.compile_text(module_of("kernel"), "k.ttgir", None, "llvm", LOWERING)
        assert [position(found.location) for found in compilation.conversions] == [("k.ttgir", 5, 10)]

    def test_what_the_parser_rejects_is_reported_in_the_file(self) -> None:
        text = module_of("kernel").replace("-> tensor<64xf32, #far>", "-> tensor<32xf32, #far>", 1)
        with pytest.raises(ToolError) as caught:
            compile.compile_text(text, "k.ttgir", None, "llvm")
        (error,) = caught.value.diagnostics
        assert (error.severity, error.file, error.line, error.column) == ("error", "k.ttgir", 6, 18)

    def test_what_triton_cannot_lower_is_reported(self) -> None:
        text = (
            module_of("kernel")
            .replace("    tt.store", "    %z = math.sinh %y : tensor<64xf32, #far>\n    tt.store")
            .replace("%p, %y", "%p, %z")
        )
        with pytest.raises(ToolError) as caught:
            compile.compile_text(text, "k.ttgir", None, "llvm")
        assert any((d.file, d.line) == ("k.ttgir", 6) for d in caught.value.diagnostics)

    @pytest.mark.parametrize(("target", "lanes"), [("cuda:90", 32), ("hip:gfx942", 64)])
    def test_pointers_to_constants(self, target: str, lanes: int) -> None:
        """From Triton 3.9 on their address space has a name, which stands for one of LLVM's on AMD GPUs."""
        space = '"constant"' if installed_release() >= (3, 9) else "4"
        pointers = f"tensor<64x!tt.ptr<f32, {space}>, #{{}}>"
        near, far, numbers = pointers.format("near"), pointers.format("far"), "tensor<64xi64, #far>"
        header = HEADER.replace("threadsPerWarp = [32]", f"threadsPerWarp = [{lanes}]")
        attributes = ATTRIBUTES.replace("32 : i32", f"{lanes} : i32")
        text = (
            f'{header}module attributes {{{attributes}, ttg.target = "{target}"}} {{\n'
            f"  tt.func public @kernel(%x: {near}, %p: tensor<64x!tt.ptr<i64>, #far>) {{\n"
            f"    %y = ttg.convert_layout %x : {near} -> {far}\n"
            f"    %z = tt.ptr_to_int %y : {far} -> {numbers}\n"
            "    tt.store %p, %z : tensor<64x!tt.ptr<i64>, #far>\n    tt.return\n  }\n}\n"
        )
        compilation = compile.compile_text(text, "k.ttgir", None, "llvmir", LOWERING)
        (conversion,), (kernel,) = compilation.conversions, compilation.kernels
        named = space == '"constant"'
        assert (conversion.kind == "stock") == (named and lanes == 64)
        assert f"ptr addrspace({1 if named and lanes == 32 else 4})" in kernel.lowered.text("llvmir")

    def test_a_module_without_target(self) -> None:
        with pytest.raises(ToolError, match=r"k\.ttgir:3:1: error: target: the module has no attribute"):
            compile.compile_text(module_of("kernel", target=None), "k.ttgir", None, "llvm")

    def test_a_target_with_other_lanes(self) -> None:
        with pytest.raises(
            ToolError, match=r"'hip:gfx942' has 64 lanes, the module's ttg\.threads-per-warp is 32"
        ):
            compile.compile_text(module_of("kernel"), "k.ttgir", "hip:gfx942", "llvm")


class TestVerify:
    def test_the_code_that_stands_in_the_module_is_run(self) -> None:
        compilation = compile.compile_text(module_of("one", "two"), "k.ttgir", None, "llvm", LOWERING)
        functions = list(verify.embedded_functions(compilation.kernels[0].embedded))
        assert [symbol for symbol, *_ in functions] == ["__ll_cvt_0"]
        assert "ttg." not in functions[0][1] and "loc(" not in functions[0][1]
        verdicts = verify.run_stubs(compilation)
        assert {symbol: verdict.ok for symbol, verdict in verdicts.items()} == {"__ll_cvt_0": True}

    @pytest.mark.parametrize(
        "change", [(r"llvm\.xor", "llvm.or"), (r'"?tt\.return', r"%0x = arith.negf %nowhere : f32\n\g<0>")]
    )
    def test_code_that_is_changed_in_the_module_is_found_wrong(
        self, change: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
    ) -> None:
        stock = attempts.embed

        def broken(*arguments: Any, **more: Any) -> Embedded:
            text, changed = re.subn(*change, stock(*arguments, **more).text)
            assert changed
            return Embedded(text)

        monkeypatch.setattr(attempts, "embed", broken)
        (tmp_path / "k.ttgir").write_text(module_of("kernel"))
        assert cli.main(["verify", str(tmp_path / "k.ttgir"), "--no-assign", "--no-reductions"]) == 1
        out, err = capsys.readouterr()
        parsed = "after the passes, though it does before" not in err
        assert out.splitlines()[-1] == f"1 conversion verified, {int(parsed)} wrong"
        assert ("should hold element" in out) == parsed

    def test_a_module_without_conversions(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        kernel = "tt.func public @f() { tt.return }"
        text = f'module attributes {{{ATTRIBUTES}, ttg.target = "cuda:90"}} {{ {kernel} }}'
        (tmp_path / "k.ttgir").write_text(text)
        assert cli.main(["verify", str(tmp_path / "k.ttgir")]) == 0
        assert capsys.readouterr().out == "0 conversions verified, 0 wrong\n"


@pytest.mark.parametrize(
    ("tool", "flags", "status"),
    [
        ("opt.command", ["--linear-pipeline", "--no-assign", "--emit=ptx"], 0),
        ("opt.command", ["--linear-outline-conversions"], 1),
        ("cli", ["verify"], 0),
    ],
)
def test_a_clean_exit(tool: str, flags: list[str], status: int, tmp_path: Path) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(module_of("kernel"))
    command = [sys.executable, "-m", f"triton_linear.tools.{tool}", *flags, str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == status
    for word in ("nanobind", "leak", "Traceback", "reproducer"):
        assert word not in finished.stderr
    assert (finished.stderr == "") == (status == 0)


def test_the_demo_ends_with_its_verdict(tmp_path: Path) -> None:
    """Nothing stands behind it, and stock Triton's counts stand beside ours."""
    command = [sys.executable, "-m", "triton_linear.tools.demo", "--targets", "cuda:90", "--output", "demo"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert finished.returncode == 0
    assert finished.stderr == ""
    lines = finished.stdout.splitlines()
    assert re.fullmatch(r"[1-9]\d* conversions verified, 0 wrong", lines[-1])
    (sums,) = (line for line in lines if line.startswith("instructions of stock Triton and of ours"))
    totals = [
        sum(counts(path.read_text(), "cuda:90")[kind] for path in tmp_path.glob("demo/*/*.ptx"))
        for kind in range(len(COUNTED))
    ]
    for name, ours in zip(COUNTED, totals, strict=True):
        assert re.search(rf"\d+ {name} become {ours}\b", sums), sums
    assert re.search(r"^  transpose8 +160 → \d+ ", finished.stdout, re.M)


def test_a_reader_that_stops_early(tmp_path: Path) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(module_of("kernel"))
    tool = f"{sys.executable} -m triton_linear.tools.opt.command"
    script = f"{tool} {path} --linear-pipeline --no-assign --emit=ptx | head -c 1 > /dev/null"
    finished = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert finished.stderr == ""


def test_failures_carry_their_place() -> None:
    with pytest.raises(ToolError, match=r"f\.mlir:2:3: error: message"):
        fail("message", "f.mlir", 2, 3)


KERNEL = Path(__file__).parents[2] / "data" / "ttgir" / "bn_nhwc-1.ttgir"


@pytest.mark.parametrize("command", ["diff", "explain", "verify"])
def test_no_line_of_a_command_ends_in_blanks(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([command, str(KERNEL)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if line != line.rstrip()] == []


def test_tables_in_files_are_trimmed_and_on_terminals_left(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table.grid("a", "b")
    table.add_row("x", "long")
    table.add_row("y", "z")
    show(table)
    assert capsys.readouterr().out == "xlong\nyz\n"
    terminal = Console(width=40, force_terminal=True)
    with trimmed(terminal):
        terminal.print("x ")
    assert capsys.readouterr().out == "x \n"


def test_arguments_are_parsed() -> None:
    parsed = cli.parser().parse_args(["explain", "k.ttgir", "--fail-on", "wrong"])
    assert (parsed.what, parsed.fail_on, parsed.run) == (
        "k.ttgir",
        ["wrong"],
        "triton_linear.tools.explain.command",
    )
    assert cli.parser().parse_args(["tune", "--variants=lower", "s.py", "--x"]).arguments == ["--x"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("explian k.ttgir", "COMMAND: no 'explian'; did you mean 'explain'?"),
        ("explain k.ttgir --stok", "no option '--stok'; did you mean '--stock'?"),
        ("verify k.ttgir --frob", "no option '--frob'; --help lists them"),
        ("view x --view tensr", "--view: no 'tensr'; did you mean 'tensor'?"),
        ("view x --view page", "--view: no 'page'; there are tensor, hardware, memory, matrix"),
        ("tune --variants lowr s.py", "argument --variants: no 'lowr'; did you mean 'lower'?"),
        ("status a b", "there is no place for 'b'"),
        ("diff", "the following arguments are required: WHAT"),
    ],
)
def test_a_wrong_word_is_one_line_with_the_nearest_right_one(
    words: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words.split())
    assert capsys.readouterr().err.endswith(f": error: {answer}\n")
