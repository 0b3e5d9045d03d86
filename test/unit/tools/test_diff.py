"""`triton-linear diff`: what differs is found by itself, in prepared pairs and between whole compiles."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from diff_kernels import SCRIPT, TARGETS, converted, copies, copy

from triton_linear.dialect import bridge
from triton_linear.lowering.target.targets import target
from triton_linear.tools import cli
from triton_linear.tools.diff import compiled
from triton_linear.tools.diff.compare import CONDITIONS, KNOWN, aligned
from triton_linear.tools.diff.compiled import layouts, occupancy, plain_assembly
from triton_linear.tools.explain.records import Place
from triton_linear.tools.support.arguments import Condition
from triton_linear.tools.support.compile import read_module
from triton_linear.tools.support.errors import ToolError

Pair = Callable[[str, bool], str]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def written(folder: Path, pair: Pair, target: str, first: bool) -> list[str]:
    """A pair as files, A and B; `first` says which of both is A."""
    paths = []
    for name, choice in (("a", first), ("b", not first)):
        path = folder / f"{name}.ttgir"
        path.write_text(pair(target, choice))
        paths.append(str(path))
    return paths


def compared(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    """The one kernel of a comparison, as data."""
    assert cli.main(["diff", "--json", *arguments]) == status
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    return dict(kernel)


@pytest.mark.parametrize("target", TARGETS)
def test_the_changed_width_of_a_load_is_found(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = compared(capsys, *written(tmp_path, copy, target, True), "--fail-on", "width", status=1)
    (line,) = [line for line in kernel["lines"] if "tt.load" in line["code"]]
    assert line["narrower"] == ["tt.load"]
    assert [line[side]["layouts"][0]["run"] for side in ("a", "b")] == [32, 4]
    assert "layouts" in line["differs"]


def test_the_extra_conversion_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = written(tmp_path, converted, "hip:gfx942", False)
    kernel = compared(capsys, *paths, "--fail-on", "conversions", status=1)
    assert kernel["figures"]["conversions"] == {"a": 0, "b": 1, "worse": 1}
    (line,) = [line for line in kernel["lines"] if "conversions" in line["differs"]]
    (conversion,) = line["b"]["conversions"]
    assert (conversion["kind"], conversion["lowered"]) == ("stock", "cta-shared")
    assert kernel["figures"]["shared"]["worse"] > 0
    assert (kernel["verdict"]["basis"], kernel["verdict"]["outcome"]) == ("expected", "slower")
    assert kernel["figures"]["wavefronts of conversions"]["worse"] == conversion["figures"]["wavefronts"] > 0


def test_the_grown_registers_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = written(tmp_path, copies, "cuda:90", False)
    kernel = compared(capsys, *paths, "--fail-on", "registers > 8", status=1)
    assert kernel["figures"]["registers"]["worse"] > 8
    assert kernel["figures"]["conversions"]["worse"] == 0
    assert kernel["narrower"] == []
    assert [line for line in kernel["lines"] if line["differs"]] == []  # loads are earlier, and the same


@pytest.mark.parametrize("pair", [copy, converted, copies])
def test_what_got_better_fails_nothing(pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    better = pair is copy
    gates = [word for name in ("registers", "width", "conversions", "shared") for word in ("--fail-on", name)]
    compared(
        capsys, *written(tmp_path, pair, "cuda:90", not better), *(gates if pair is not copies else gates[2:])
    )


def test_equal_modules_have_the_same_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.ttgir", "b.ttgir"):
        (tmp_path / name).write_text(converted("cuda:90", True))
    names = ("code", "registers", "spills", "shared", "occupancy", "width", "conversions")
    gates = [word for name in names for word in ("--fail-on", name)]
    kernel = compared(capsys, str(tmp_path / "a.ttgir"), str(tmp_path / "b.ttgir"), *gates)
    assert kernel["same_code"]
    assert [line for line in kernel["lines"] if line["differs"]] == []


def test_the_text_says_differences_first_in_110_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["diff", *written(tmp_path, copy, "cuda:90", True)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 110 or str(tmp_path) in max(out.splitlines(), key=len)
    rows = out[out.index("4 warps") :].splitlines()
    names = [row.split("  ")[0] for row in rows]
    assert names.index("registers") < names.index("bytes of shared memory")
    assert "%v = tt.load" in out
    assert re.search(r"B  load 4096xf32 blocked: .*  narrower$", out, re.MULTILINE)


def test_without_and_with_the_plugin(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = compared(capsys, str(script), "--target", "cuda:90")
    assert not kernel["same_code"]
    assert kernel["left"] == ["", ""]
    (line,) = [line for line in kernel["lines"] if line["a"]["conversions"]]
    assert "tl.store" in line["code"]
    assert "conversions" in line["differs"]  # both go through shared memory, with other counts
    for side, kind in (("a", "stock"), ("b", "cta-shared")):
        (conversion,) = line[side]["conversions"]
        assert (conversion["kind"], conversion["lowered"]) == (kind, "cta-shared")


def test_the_page_is_titled_by_what_differs(script: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["diff", str(script), "--target", "cuda:90", "--html", str(page)]) == 0
    html = page.read_text()
    assert "<title>turn: stock and ours</title>" in html
    assert "B against A, expected: " in html
    assert "src=" not in html and "href=" not in html
    assert cli.main(["diff", str(script), "--target", "cuda:90", "--html", "/no/page.html"]) == 1


def test_a_script_that_turns_the_plugin_on_is_compiled_by_stock_triton_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of the page about the commands."""
    readme = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
    (text,) = (part for part in readme.split("```") if "triton_linear.enabled() as reports" in part)
    (tmp_path / "script.py").write_text(text.partition("\n")[2].replace('"transpose.ttgir"', '"/dev/null"'))
    kernel = compared(capsys, str(tmp_path / "script.py"))
    assert not kernel["same_code"]
    assert [one["kind"] for line in kernel["lines"] for one in line["a"]["conversions"]] == ["stock"]
    assert cli.main(["diff", str(tmp_path / "script.py"), "--target", "cuda:80"]) == 1
    assert (
        "the script itself names cuda:90 for transpose: leave --target=cuda:80 out" in capsys.readouterr().err
    )


def test_a_kernel_that_the_plugin_leaves_says_why(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = compared(capsys, str(script), "A=stock", "B=skip=turn", "--target", "cuda:90")
    assert kernel["same_code"]
    assert kernel["left"][0] == ""
    assert "one of skip='turn'" in kernel["left"][1]


def test_a_folder_is_compared_with_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, conversion in (("A", False), ("B", True)):
        (tmp_path / name / "hash").mkdir(parents=True)
        (tmp_path / name / "hash" / "copy.ttgir").write_text(converted("hip:gfx942", conversion))
    folders = [str(tmp_path / "A"), str(tmp_path / "B")]
    kernel = compared(capsys, *folders, "--fail-on", "shared", status=1)
    assert kernel["figures"]["shared"]["a"] == 0
    assert kernel["figures"]["registers"]["b"] is not None
    assert kernel["figures"]["conversions"]["worse"] == 1


def test_what_nobody_knows_fails_a_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiled, "usage", lambda cubin: None)
    paths = written(tmp_path, copies, "cuda:90", True)
    assert cli.main(["diff", *paths, "--fail-on", "registers"]) == 1
    assert "registers is not known of both sides" in capsys.readouterr().err


def test_two_sets_of_options(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = compared(capsys, str(script), "A=lower=0,assign=0", "B=ours", "--target", "cuda:90")
    assert not kernel["same_code"]


def test_what_an_edit_did_is_found_at_its_line(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = tmp_path / "edited.py"
    edited.write_text("# another line\n" + SCRIPT.replace(".trans()", ""))
    kernel = compared(capsys, str(script), str(edited), "A=stock", "B=stock", "--target", "cuda:90")
    assert kernel["figures"]["conversions"] == {"a": 1, "b": 0, "worse": -1}
    assert {line["file"] for line in kernel["lines"] if line["line"]} == {str(script)}


LAUNCHES = """\
import triton
import triton.language as tl
from triton.runtime.jit import MockTensor


@triton.autotune(configs=[triton.Config({"N": 64}), triton.Config({"N": 128}, num_warps=8)], key=[])
@triton.jit
def turn(source, destination, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    tl.store(destination + i * N + j, tl.load(source + i * N + j).trans())


turn[(1,)](MockTensor(tl.float16), MockTensor(tl.float16))
print("done")
"""


def test_launches_compile_for_a_gpu_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "launches.py"
    path.write_text(LAUNCHES)
    assert cli.main(["diff", "--json", str(path), "--target", "cuda:90"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    found = sorted((kernel["kernel"], kernel["num_warps"]) for kernel in kernels)
    assert found == [("turn", [4, 4]), ("turn", [8, 8])]


def test_launches_without_a_gpu_are_told_of_the_target(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "launches.py"
    path.write_text(LAUNCHES)
    assert cli.main(["diff", str(path)]) == 1
    assert "if it launches kernels, and no GPU is here, say --target" in capfd.readouterr().err


BAD = {
    "nothing is there": (["none.ttgir", "none.ttgir"], "No such file"),
    "no such kind of file": (["script.txt", "script.txt"], "neither a script"),
    "a folder with what cannot be read": (["damaged"], "damaged/k.ttgir:1:7"),
    "folders without kernels": (["folder", "other"], "no TTGIR module was found"),
    "both the same": (["script.py", "A=stock", "B=stock"], "both sides are the same"),
    "no option": (["script.py", "B=fast"], "no option 'fast'"),
    "options of stock Triton": (["script.py", "A=stock,exact"], "stock Triton has no options"),
    "said twice": (["script.py", "A=stock", "A=ours"], "said twice"),
    "no such target": (["script.py", "--target", "cuda"], "neither cuda:NUMBER"),
    "no condition": (["script.py", "--fail-on", "speed"], "is no condition"),
    "a module that cannot be read": (["bad.ttgir", "bad.ttgir", "B=ours"], "bad.ttgir:1"),
    "a module without a kernel": (["empty.ttgir", "empty.ttgir", "B=ours"], "no kernel"),
    "TTIR": (["plain.ttgir", "--target", "cuda:90"], "is it TTIR rather than TTGIR"),
    "a script that ends": (["ends.py", "--target", "cuda:90"], "status 3"),
    "a script without kernels": (["idle.py", "--target", "cuda:90"], "compiled no kernel"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(
    name: str, tmp_path: Path, script: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "k.ttgir").write_text("module {")
    files = {
        "script.txt": "",
        "bad.ttgir": "module {",
        "empty.ttgir": 'module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {}',
        "plain.ttgir": "module { tt.func public @nothing() { tt.return } }",
        "ends.py": "raise SystemExit(3)",
        "idle.py": "",
    }
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    arguments, message = BAD[name]
    assert cli.main(["diff", *arguments]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("error:") == 1
    assert "Traceback" not in captured.err


def test_layouts_are_those_of_data() -> None:
    module = read_module(converted("cuda:90", True), bridge.upstream_context(), "copy.ttgir")
    found = [(layout.operation, layout.tensor) for _, layout in layouts(module)]
    assert found == [("tt.load", "4096xf32"), ("tt.store", "4096xf32")]


def test_layouts_that_are_the_same_in_other_words_do_not_differ() -> None:
    text = bridge.expand_aliases(copy("cuda:90", True))
    linear = "#ttg.linear<{register = [[1], [2], [4], [1024], [2048]], lane = [[8], [16], [32], [64], [128]], "
    linear += "warp = [[256], [512]], block = []}>"
    blocked = text[text.index("#ttg.blocked") : text.index("}>") + 2]
    texts = text, text.replace(blocked, linear), copy("cuda:90", False)
    a, b, narrow = (
        {layout.key for _, layout in layouts(read_module(one, bridge.upstream_context(), "copy.ttgir"))}
        for one in texts
    )
    assert a == b
    assert a.isdisjoint(narrow)


def test_assembly_is_compared_without_places() -> None:
    a = ".entry k() {\n  .loc 1 2 3\n  bar.sync 0; // here\n$L__tmp0:\n}\n.section .debug_info {\n}"
    assert plain_assembly(a) == plain_assembly(a.replace("1 2 3", "1 4 5").replace("here", "there"))
    assert plain_assembly(a) != plain_assembly(a.replace("bar.sync 0", "bar.sync 1"))


def test_lines_of_an_edited_file_are_those_with_the_same_text(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1\ny = 2\nz = 3\n")
    second.write_text("# new\nx = 1\ny = 2\nz = 4\n")
    place = aligned({str(first)}, {str(second)})
    lines = [Place.at(str(second), line) for line in range(5)]
    assert [place(line) for line in lines[2:]] == [Place.at(str(first), line) for line in (1, 2, 3)]
    assert place(lines[1]) == lines[1]
    assert aligned({str(first)}, {str(first), str(second)})(lines[2]) == lines[2]


@pytest.mark.parametrize(
    ("name", "registers", "shared", "warps", "ctas", "limited_by"),
    [
        ("cuda:90", 32, 0, 1, 32, "CTAs"),
        ("cuda:90", 138, 0, 8, 1, "registers"),
        ("cuda:90", 32, 98304, 4, 2, "shared memory"),
        ("cuda:90", 32, 0, 8, 8, "warps"),
        ("hip:gfx942", 146, 32768, 4, 2, "shared memory"),
        ("hip:gfx942", 146, 0, 4, 3, "registers"),
    ],
)
def test_as_many_ctas_are_resident_as_find_room(
    name: str, registers: int, shared: int, warps: int, ctas: int, limited_by: str
) -> None:
    assert occupancy(registers, shared, warps, target(name)) == (ctas, limited_by)


@pytest.mark.parametrize("text", ["", "speed", "registers > -1", "registers > x", "width 1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="is no condition"):
        Condition.parse(text, CONDITIONS, KNOWN)


LOOP = """\
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90"} {
  tt.func public @kernel(%p: tensor<32x!tt.ptr<f32>, #b>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      %x = tt.load %p {isVolatile = true} : tensor<32x!tt.ptr<f32>, #b>
      tt.store %p, %x : tensor<32x!tt.ptr<f32>, #b>
    }
    tt.return
  }
}
"""
