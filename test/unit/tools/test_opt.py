"""`triton-linear-opt`: passes of upstream and of users, what is printed between passes, names of layouts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_linear.passes.registry import UPSTREAM
from triton_linear.tools.opt import command as opt
from triton_linear.tools.opt.arguments import list_passes, pass_help
from triton_linear.tools.support.own_form import hidden

EXAMPLE = str(Path(__file__).resolve().parents[3] / "examples" / "streaming_pass.py")
MODULE = """\
#near = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#far = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%p: tensor<64x!tt.ptr<i32>, #near>, %q: tensor<64x!tt.ptr<i32>, #far>) {
    %one = arith.constant dense<1> : tensor<64xi32, #near>
    %0 = arith.constant dense<0> : tensor<64xi32, #near>
    %x = tt.load %p : tensor<64x!tt.ptr<i32>, #near>
    %a = arith.addi %x, %one : tensor<64xi32, #near>
    %b = arith.addi %x, %one : tensor<64xi32, #near>
    %c = arith.addi %a, %0 : tensor<64xi32, #near>
    %d = arith.muli %b, %c : tensor<64xi32, #near>
    %y = ttg.convert_layout %d : tensor<64xi32, #near> -> tensor<64xi32, #far>
    tt.store %q, %y : tensor<64x!tt.ptr<i32>, #far>
    tt.return
  }
}
"""
CONVERTS = """
from mlir.ir import Attribute, WalkResult
from triton_linear import ttgir_pass

@ttgir_pass(when="{when}")
def marks(module):
    def visit(op):
        if op.name == "{name}":
            op.attributes["seen"] = Attribute.parse("unit")
        return WalkResult.ADVANCE
    module.operation.walk(visit)
"""
Run = Callable[..., tuple[int, str, str]]
REMOVES = """
from mlir.ir import WalkResult
from triton_linear import ttgir_pass

@ttgir_pass()
def removes(module):
    found = {}
    module.operation.walk(lambda op: (found.update({op.name: op}), WalkResult.ADVANCE)[1])
    for name in ("tt.store", "ttg.convert_layout"):
        found[name].erase()
"""


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """The status of the tool over the module, and what it prints."""
    path = tmp_path / "k.ttgir"
    path.write_text(MODULE)

    def run(*words: str, text: str | None = None) -> tuple[int, str, str]:
        if text is not None:
            path.write_text(text)
        status = opt.main([str(path), *words])
        return status, *capfd.readouterr()

    return run


def arithmetic(text: str) -> int:
    """Operations of upstream's dialect, in its own form or in the generic one."""
    return len(re.findall(r"arith\.(?:constant|addi|muli)\b", text))


def written(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text)
    return str(path)


# Passes of upstream


@pytest.mark.parametrize("name", UPSTREAM)
def test_every_listed_pass_of_upstream_takes_a_kernel(run: Run, name: str) -> None:
    assert f"--{name} " in list_passes() and f"--{name} " in pass_help()
    status, out, err = run(f"--{name}", "--linear-pipeline")
    assert status == 0 and "tt.call @" in out and "error" not in err


def test_passes_of_upstream_know_their_dialects(run: Run) -> None:
    counts = []
    for flags in ((), ("--canonicalize",), ("--canonicalize", "--cse")):
        status, out, err = run(*flags)
        assert (status, err) == (0, "")
        counts.append(arithmetic(out))
    assert counts == [6, 4, 3]


def test_any_pass_of_upstream_has_a_flag(run: Run) -> None:
    status, out, _ = run("--mem2reg", "--canonicalize=region-simplify=disabled", "--linear-pipeline")
    assert status == 0 and "tt.call @" in out


def test_after_passes_of_upstream_there_is_ptx(run: Run) -> None:
    status, out, err = run("--cse", "--linear-pipeline", "--emit=ptx")
    assert status == 0 and ".entry kernel" in out and "error" not in err


def test_list_passes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        opt.main(["--list-passes"])
    out = capsys.readouterr().out
    assert "--linear-await-operands" in out and "--canonicalize" in out


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (
            "--linear-asign-layouts",
            "no option '--linear-asign-layouts'; did you mean '--linear-ass",
        ),
        ("--canonicalise=x=1", "no option '--canonicalise'; did you mean '--canonicalize'?"),
        ("--emitt=ptx", "no option '--emitt'; did you mean '--emit'?"),
        ("--emit=ptxx", "--emit: no 'ptxx'; did you mean 'ptx'?"),
        ("--wholly-different", "no option '--wholly-different'; --help lists them"),
    ],
)
def test_a_misspelt_flag(run: Run, capfd: pytest.CaptureFixture[str], flag: str, said: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(flag)
    assert said in capfd.readouterr().err


# Passes of users


def test_a_pass_of_the_users_runs(run: Run) -> None:
    status, out, err = run("--pass-plugin", EXAMPLE)
    assert (status, err) == (0, "") and len(re.findall("evict_first|evict = 2", out)) == 1
    _, ptx, _ = run("--pass-plugin", EXAMPLE, "--linear-pipeline", "--emit=ptx")
    assert "ld.global.L1::evict_first" in ptx


def test_it_runs_in_the_place_of_its_flag(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, CONVERTS.format(when="after", name="ttg.convert_layout"))
    fold = "--linear-select-lowering", "--linear-outline-conversions"
    _, first, _ = run(f"--pass-plugin={path}", "--mlir-print-ir-after=marks", *fold)
    _, last, _ = run(*fold, f"--pass-plugin={path}")
    assert "seen" not in last and "ttg.convert_layout" not in last
    assert run(f"--pass-plugin={path}")[1].count("seen") == 1
    assert "ttg.convert_layout" not in first


@pytest.mark.parametrize(
    ("when", "name", "seen"),
    [("before", "ttg.convert_layout", 0), ("before", "tt.load", 1), ("after", "tt.call", 1)],
)
def test_beside_the_pipeline_it_runs_when_it_says(
    run: Run, tmp_path: Path, when: str, name: str, seen: int
) -> None:
    path = written(tmp_path, CONVERTS.format(when=when, name=name))
    for flags in (
        ("--linear-pipeline", f"--pass-plugin={path}"),
        (f"--pass-plugin={path}", "--linear-pipeline"),
    ):
        status, out, err = run(*flags, "--mlir-timing")
        assert status == 0 and out.count("seen") == seen, err
        ran = re.findall(r"\)  ([\w-]+)", err)
        assert ran.index("marks") == (0 if when == "before" else len(ran) - 1)


def test_the_pipeline_is_asked_about_what_a_pass_has_made(run: Run, tmp_path: Path) -> None:
    """As in the plugin: without conversions ours have nothing to do."""
    path = written(tmp_path, REMOVES)
    status, out, err = run(f"--pass-plugin={path}", "--linear-pipeline", "--mlir-timing")
    assert status == 0 and "convert_layout" not in out, err
    assert re.findall(r"\)  ([\w-]+)", err) == ["removes"]


@pytest.mark.parametrize(
    ("body", "said", "line"),
    [
        ("    raise LookupError('no luck')", "pass 'p' of {path} raised: LookupError: no luck", 4),
        (
            "    module.body.operations[0].attributes['sym_name'] = Attribute.parse('3 : i32', module.context)",
            "Triton's verifier refuses what pass 'p' of {path} made",
            2,
        ),
    ],
    ids=["raises", "breaks"],
)
def test_what_a_pass_breaks_is_an_error_at_its_line(
    run: Run, tmp_path: Path, body: str, said: str, line: int
) -> None:
    head = (
        "from mlir.ir import Attribute; from triton_linear import ttgir_pass\n@ttgir_pass()\ndef p(module):\n"
    )
    path = written(tmp_path, head + body + "\n")
    for flags in ((), ("--linear-pipeline", "--emit=ptx")):
        status, out, err = run(f"--pass-plugin={path}", *flags)
        assert (status, out) == (1, "")
        assert f"{path}:{line}:1: error: {said.format(path=path)}" in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no-such.py: error: {path}: No such file or directory"),
        ("", "mine.py: error: {path}: no pass in it; ttgir_pass makes one"),
        ("x = (\n", "mine.py:1:1: error: {path} cannot be loaded: SyntaxError: '(' was never closed"),
    ],
)
def test_a_file_without_passes_is_an_error(run: Run, tmp_path: Path, text: str | None, said: str) -> None:
    path = str(tmp_path / "no-such.py") if text is None else written(tmp_path, text)
    status, out, err = run(f"--pass-plugin={path}")
    assert (status, out) == (1, "") and said.format(path=path) in err and "Traceback" not in err


# What is printed between passes


def test_one_pass_is_printed_around(run: Run) -> None:
    flags = "--canonicalize", "--cse", "--linear-await-operands"
    _, _, err = run(*flags, "--mlir-print-ir-before=cse", "--mlir-print-ir-after=cse")
    assert re.findall(r"IR Dump \w+ \S+", err) == ["IR Dump Before cse", "IR Dump After cse"]
    before, after = err.split("IR Dump After cse")
    assert (arithmetic(before), arithmetic(after)) == (4, 3)
    _, _, err = run(*flags, "--mlir-print-ir-before-all")
    assert re.findall(r"IR Dump \w+ (\S+)", err) == ["canonicalize", "cse", "linear-await-operands"]


def test_the_diff_of_each_pass_is_printed(run: Run) -> None:
    _, _, err = run("--canonicalize", "--cse", "--linear-await-operands", "--mlir-print-ir-diff")
    canonicalize, cse, waits = re.split(r"// -----// IR Diff of \S+ //----- //\n", err)[1:]
    assert len(re.findall(r"^-.*arith", canonicalize, re.MULTILINE)) > 1
    assert len(re.findall(r"^-.*arith.addi", cse, re.MULTILINE)) == 1
    assert waits.strip() == "(no change)"


def test_printing_at_a_pass_that_does_not_run_is_an_error(run: Run) -> None:
    status, _, err = run("--cse", "--mlir-print-ir-after=cs")
    assert status == 1 and "error: mlir-print-ir-after: no pass 'cs'; did you mean 'cse'?" in err
    status, _, err = run("--cse", "--mlir-print-ir-before=nothing")
    assert status == 1 and "error: mlir-print-ir-before: no pass 'nothing'; those that run are cse" in err


# Triton's own form


def test_own_form_is_read_back_with_what_triton_does_not_know(run: Run) -> None:
    generic = run("--linear-select-lowering", "--mlir-print-op-generic")[1]
    own = run("--linear-select-lowering")[1]
    assert "tt.store %" in own and "ll.plan = #ll.plan<" in own and '"tt.store"(' in generic
    assert run("--mlir-print-op-generic", text=own)[1] == generic
    assert run(text=generic)[1] == own


def test_attributes_in_a_comment_stay_as_they_are() -> None:
    text = '// ll.results = [#ll.layout<{}\n%0 = x.y {ll.plan = #ll.plan<"a->b>", {}, []>, ll.stock = "why"}'
    assert hidden(text) == (
        '// ll.results = [#ll.layout<{}\n%0 = x.y {ll.plan = "ll!plan<\\"a->b>\\", {}, []>", ll.stock = "why"}'
    )
    assert hidden("nothing") == "nothing"


def test_what_triton_does_not_read_is_printed_in_generic_form(run: Run) -> None:
    text = '"builtin.module"() ({ "tt.func"() <{function_type = () -> (), sym_name = "f"}> ({\n'
    text += '"other.op"() : () -> ()\n "tt.return"() : () -> () }) : () -> () }) : () -> ()\n'
    assert '"other.op"() : () -> ()' in run(text=text)[1]
