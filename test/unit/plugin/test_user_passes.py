"""Passes of users run before or after ours; what they break is stock Triton's kernel."""

from __future__ import annotations

import pickle
import re
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
import triton
import triton.language as tl
from plugin_processes import run
from plugin_support import CUDA, assembly, compile_kernel, double, fake_driver, transpose
from triton import knobs
from triton.backends import backends
from triton.compiler import make_backend
from triton.runtime.jit import MockTensor

import triton_linear
from triton_linear import environment, hook
from triton_linear.dialect import bridge
from triton_linear.inductor import Job
from triton_linear.passes import user_passes
from triton_linear.passes.user_passes import PassError, UserPass
from triton_linear.report import FallbackWarning, Outcome, Report
from triton_linear.setting import Options
from triton_linear.stage import LLIRStage
from triton_linear.tools.opt import command as opt

pytestmark = pytest.mark.usefixtures("fresh")

__all__ = ["fake_driver"]

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "streaming_pass.py"
EVICTED = "L1::evict_first"
HEAD = """
from mlir.ir import Attribute, WalkResult
from triton_linear import ttgir_pass

def each(module, name):
    found = []
    module.operation.walk(lambda op: (found.append(op), WalkResult.ADVANCE)[1])
    return [op for op in found if op.name == name]

"""
RAISES = "@ttgir_pass()\ndef trips(module):\n    raise LookupError('no luck')\n"
BREAKS = """@ttgir_pass()
def breaks(module):
    for op in each(module, "tt.make_range"):
        op.attributes["end"] = Attribute.parse("7 : i32")
"""
LEAVES = "@ttgir_pass()\ndef leaves(module):\n    assert each(module, 'tt.load')\n"
AFTER = """@ttgir_pass(when="after")
def sees_calls(module):
    assert not each(module, "ttg.convert_layout")
    for op in each(module, "tt.call"):
        op.attributes["mine"] = Attribute.parse("unit")
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    def write(text: str, name: str = "mine.py") -> str:
        path = tmp_path / name
        path.write_text(HEAD + text)
        return str(path)

    return write


@triton.jit
def scaled_sums(x, y, out, BM: tl.constexpr, BN: tl.constexpr):
    """One load of a tile outside the loop, and one in it."""
    at = tl.arange(0, BM * BN)
    tile = tl.load(x + at)
    for i in range(BM):
        tile += tl.load(y + i * BN + at)
    tl.store(out + at, tile)


def compiled(kernel: Any, **options: Any) -> tuple[Any, Report]:
    with triton_linear.enabled(**options) as reports:
        made = compile_kernel(kernel)
    (report,) = reports
    return made, report


def without_source(made: Any) -> dict[str, Any]:
    return {kind: text for kind, text in made.asm.items() if kind != "source"}


# What they do


@pytest.mark.usefixtures("fake_driver")
def test_the_example_changes_the_ptx_of_a_jit_kernel() -> None:
    pointer = MockTensor(tl.float32)

    def launched() -> Any:
        return double.warmup(pointer, pointer, BM=32, BN=64, grid=(1,))

    stock = launched()
    triton_linear.install(passes=[EXAMPLE])
    made = launched()
    report = triton_linear.last_report()
    assert EVICTED not in assembly(stock)
    assert len(re.findall(rf"ld\.global\.{EVICTED}", assembly(made))) == assembly(stock).count("ld.global")
    assert report is not None
    assert (report.outcome, report.passes) == (Outcome.REWRITTEN, ("stream_loads",))
    assert "changed by user passes: stream_loads" in str(report)
    assert launched() is made
    triton_linear.uninstall()
    assert launched() is stock


def test_it_runs_beside_ours() -> None:
    ours, _ = compiled(transpose)
    made, report = compiled(transpose, passes=EXAMPLE)
    assert (report.outcome, report.ours, report.passes) == (Outcome.CONVERTED, 1, ("stream_loads",))
    assert EVICTED in assembly(made)
    exchange = r"(?:st\.shared|ld\.shared|shfl|prmt|bar)\.[\w.]+"
    assert re.findall(exchange, assembly(made)) == re.findall(exchange, assembly(ours)) != []


def test_loads_in_loops_stay() -> None:
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "BM": "constexpr", "BN": "constexpr"}
    source = triton.compiler.ASTSource(scaled_sums, signature, constexprs={"BM": 8, "BN": 64})
    with triton_linear.enabled(passes=[EXAMPLE]):
        text = assembly(triton.compile(source, target=CUDA, options={"num_stages": 1}))
    loads = [line for line in text.splitlines() if "ld.global" in line]
    assert 0 < sum(EVICTED in line for line in loads) < len(loads)


@pytest.mark.parametrize("kernel", [double, transpose], ids=["double", "transpose"])
def test_a_kernel_that_a_pass_leaves_is_as_it_would_be_without(
    kernel: Any, written: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without, before = compiled(kernel)
    verified: list[object] = []
    monkeypatch.setattr(user_passes, "refused", lambda *given: verified.append(given))
    made, report = compiled(kernel, passes=[written(LEAVES)])
    asm = without_source(made)
    assert asm == without_source(without)
    assert (report.outcome, report.passes) == (before.outcome, ())
    assert not verified


def test_after_ours_there_are_calls(written: Callable[..., str]) -> None:
    path = written(AFTER)
    made, report = compiled(transpose, passes=[path], strict=True)
    assert (report.outcome, report.passes, report.ours) == (Outcome.CONVERTED, ("sees_calls",), 1)
    ours, _ = compiled(transpose)
    assert assembly(made) == assembly(ours)


def test_after_runs_where_ours_have_nothing_to_do(written: Callable[..., str]) -> None:
    path = Path(written(""))
    path.write_text(EXAMPLE.read_text().replace('when="before"', 'when="after"'))
    made, report = compiled(double, passes=[path])
    assert EVICTED in assembly(made)
    assert (report.outcome, report.passes) == (Outcome.REWRITTEN, ("stream_loads",))


def test_stock_triton_s_kernel_that_is_compared_has_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[str] = []
    finish = LLIRStage.finish

    def asked(stage: LLIRStage, reason: str = "") -> None:
        if stage._stock_input is not None and (found := stage.stock(stage._stock_input[2])):
            again.append(found[0])
        finish(stage, reason)

    monkeypatch.setattr(LLIRStage, "finish", asked)
    compiled(transpose, passes=[EXAMPLE])
    (llir,) = again
    assert EVICTED in llir and "ld.global" in llir


def test_they_run_for_a_gpu_without_a_table() -> None:
    odd = type(CUDA)("cuda", 75, 32)
    with (
        pytest.warns(FallbackWarning, match="no table for cuda:75") as caught,
        triton_linear.enabled(passes=[EXAMPLE]) as reports,
    ):
        made = compile_kernel(transpose, odd)
    assert (len(caught), reports[0].outcome, reports[0].passes) == (1, Outcome.REWRITTEN, ("stream_loads",))
    assert EVICTED in assembly(made)


def test_only_and_skip_hold_for_them(written: Callable[..., str]) -> None:
    _, report = compiled(double, passes=[written(RAISES)], skip="double", strict=True)
    assert (report.outcome, report.passes) == (Outcome.LEFT, ())


# What goes wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RAISES, r"pass 'trips' of \S*mine.py raised: LookupError: no luck"),
        (BREAKS, r"Triton's verifier refuses what pass 'breaks' of \S*mine.py made"),
        (RAISES.replace("()", "(when='after')"), "pass 'trips' of "),
        (BREAKS.replace("()", "(when='after')", 1), "Triton's verifier refuses what pass 'breaks' of "),
    ],
    ids=["raises", "breaks", "raises-after", "breaks-after"],
)
@pytest.mark.parametrize("kernel", [double, transpose], ids=["double", "transpose"])
def test_a_pass_that_fails_is_one_warning_and_the_stock_kernel(
    kernel: Any, text: str, said: str, written: Callable[..., str]
) -> None:
    stock = compile_kernel(kernel)
    path = written(text)
    with pytest.warns(FallbackWarning, match=said) as caught:
        made, report = compiled(kernel, passes=[EXAMPLE, path])
    assert len(caught) == 1
    assert "this is a bug" not in str(caught[0].message)
    assert "libtriton" not in str(caught[0].message)
    assert without_source(made) == without_source(stock)
    assert made.metadata._asdict() | {"hash": ""} == stock.metadata._asdict() | {"hash": ""}
    assert (report.outcome, report.passes) == (Outcome.FAILED, ())
    assert report.seen == report.kept == (kernel is transpose)
    with pytest.raises(PassError, match=said):
        compiled(kernel, passes=[path], strict=True)


def test_what_raises_is_shown_with_its_line(written: Callable[..., str]) -> None:
    path = written(RAISES)
    with pytest.warns(FallbackWarning) as caught:
        compiled(double, passes=[path])
    line = (HEAD + RAISES).split("\n").index("    raise LookupError('no luck')") + 1
    assert f'File "{path}", line {line}, in trips' in str(caught[0].message)


def test_what_triton_cannot_compile_is_the_stock_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = compile_kernel(double)
    nvidia = backends["nvidia"].compiler
    make_llir = nvidia.make_llir

    def picky(self: Any, module: Any, metadata: Any, *rest: Any) -> Any:
        if "evict_first" in str(module):
            metadata["given_up"] = True
            raise RuntimeError("PassManager::run failed")
        return make_llir(self, module, metadata, *rest)

    monkeypatch.setattr(nvidia, "make_llir", picky)
    with pytest.warns(FallbackWarning, match="Triton cannot compile what stream_loads made of it"):
        made, _ = compiled(double, passes=[EXAMPLE])
    assert without_source(made) == without_source(stock)
    assert made.metadata._fields == stock.metadata._fields
    with pytest.warns(FallbackWarning, match="user passes had changed it: stream_loads"):
        compiled(transpose, passes=[EXAMPLE])


def test_instrumented_kernels_are_left(monkeypatch: pytest.MonkeyPatch, written: Callable[..., str]) -> None:
    monkeypatch.setattr("triton_linear.stage._instrumentation_mode", lambda metadata: "fpsan")
    _, report = compiled(double, passes=[written(RAISES)], strict=True)
    assert report.remarks == ("instrumentation mode 'fpsan' is on, and user passes do not run",)


# What they are cached by


def key(*passes: Any) -> str:
    with triton_linear.enabled(passes=passes):
        return str(make_backend(CUDA).hash())


def test_the_key_has_the_source_the_name_and_the_version(written: Callable[..., str], tmp_path: Path) -> None:
    path = written(LEAVES)
    first = key(path)
    assert first == key(path) != key()
    (tmp_path / "elsewhere").mkdir()
    assert key(written(LEAVES, "elsewhere/other.py")) == first
    keys = [
        key(written(text))
        for text in (
            LEAVES + "# changed\n",
            LEAVES.replace("leaves", "is_called_otherwise"),
            LEAVES.replace("()", "(version='2')", 1),
            LEAVES.replace("()", "(when='after')", 1),
        )
    ]
    assert len({first, *keys, key(EXAMPLE), key(EXAMPLE, path), key(path, EXAMPLE)}) == 8


def test_the_version_counts_where_the_source_is_the_same(
    written: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os\n" + LEAVES.replace("()", "(version=os.environ['MINE'])", 1)
    path = written(text)
    keys = set()
    for value in ("1", "2"):
        monkeypatch.setenv("MINE", value)
        keys.add(key(path))
    assert len(keys) == 2


def test_decisions_of_measuring_are_not_followed() -> None:
    assert not Options(passes=user_passes.load(str(EXAMPLE))).undecided


# Where they come from


def test_processes_that_are_started_have_them(tmp_path: Path) -> None:
    triton_linear.install(passes=[EXAMPLE])
    setting = hook._state.current()
    assert setting is not None
    text = environment.text_of(setting.options)
    assert text == f"passes={EXAMPLE}::stream_loads"
    assert environment.parse(text) == setting.options
    code = "import plugin_support as s; print(s.assembly(s.compile_kernel(s.double)))"
    with knobs.cache.scope():
        done = run(code, text)
    assert done.returncode == 0 and EVICTED in done.stdout, done.stderr


def test_what_the_script_defines_stays_in_its_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"{HEAD}{LEAVES}\nimport os, pickle, triton_linear\ntriton_linear.install(passes=[leaves])\n"
        f"print(os.environ['TRITON_LINEAR'])\nprint(pickle.dumps(leaves).hex())\n"
    )
    done = run("", None, str(script))
    assert done.returncode == 0, done.stderr
    variable, pickled = done.stdout.split()
    assert variable == "1"
    sent = pickle.loads(bytes.fromhex(pickled))
    with pytest.warns(FallbackWarning, match="'leaves' is defined in the script that was started"):
        compiled(double, passes=[sent])


def test_a_worker_gets_them_with_its_job() -> None:
    job = Job(support.assembly_in_worker, Options(passes=user_passes.load(str(EXAMPLE))), None)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert EVICTED not in pool.submit(support.assembly_in_worker).result(timeout=120)
        assert EVICTED in pool.submit(job).result(timeout=120)


def test_a_pass_is_sent_by_reference(written: Callable[..., str]) -> None:
    path = written(LEAVES)
    (loaded,) = user_passes.load(path)
    sent = pickle.dumps(loaded)
    again = pickle.loads(sent)
    assert (again, again.place) == (loaded, path)
    written(LEAVES + "# changed\n")
    late = pickle.loads(sent)
    assert late == loaded
    with pytest.warns(FallbackWarning, match="is not the one of the process that asks for it"):
        compiled(double, passes=[late])


def test_a_module_that_can_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package_of_passes").mkdir()
    (tmp_path / "package_of_passes" / "__init__.py").write_text("")
    (tmp_path / "package_of_passes" / "one.py").write_text(HEAD + "from . import __doc__ as beside\n" + LEAVES)
    monkeypatch.syspath_prepend(str(tmp_path))
    (loaded,) = user_passes.load("package_of_passes.one")
    assert user_passes.text_of([loaded]) == "package_of_passes.one::leaves"
    assert user_passes.load("package_of_passes.one::leaves") == (loaded,)


def test_several_passes_keep_their_order(written: Callable[..., str]) -> None:
    path = written(LEAVES + AFTER)
    assert [each.name for each in user_passes.load(path)] == ["leaves", "sees_calls"]
    assert [each.name for each in user_passes.parse(f"{path}::sees_calls:{path}::leaves")] == [
        "sees_calls",
        "leaves",
    ]


# Where Python says that a decorator of the second line was called: with it, and up to 3.10 with the function.
DECORATED = 2 if sys.version_info >= (3, 11) else 3


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("1 / 0\n", "cannot be loaded: ZeroDivisionError: division by zero", 1),
        ("def f(:\n", "cannot be loaded: SyntaxError: invalid syntax", 1),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'", 1),
        ("", "no pass in it; ttgir_pass makes one", 0),
        ("@ttgir_pass(when='now')\ndef f(m): ...\n", "when takes 'before' or 'after', got 'now'", 1),
        ("@ttgir_pass(version=1)\ndef f(m): ...\n", "version takes a text, got 1", 1),
        ("class C:\n  @ttgir_pass()\n  def f(m): ...\n", "'C.f' is not a function at the top level", DECORATED),
        ("f = ttgir_pass()(lambda m: None)\n", "'<lambda>' is not a function at the top level", 1),
        ("f = ttgir_pass()(print)\n", "takes a function, got <built-in function print>", 1),
    ],
)
def test_a_file_that_does_not_serve_says_why(
    text: str, said: str, line: int, written: Callable[..., str]
) -> None:
    path = written(text)
    with pytest.raises(PassError, match=re.escape(said)) as error:
        triton_linear.install(passes=[path])
    assert error.value.file == path
    assert error.value.line == (line + HEAD.count("\n") if line else 0)
    assert hook._state.current() is None


@pytest.mark.parametrize(
    ("passes", "kind", "said"),
    [
        ("nowhere.py", PassError, "nowhere.py: No such file or directory"),
        ("no.such.module", PassError, "No module named 'no'"),
        (f"{EXAMPLE}::others", PassError, "no pass 'others' in it; there are stream_loads"),
        ([3], TypeError, "passes takes what ttgir_pass makes, or names of files, got 3"),
    ],
)
def test_what_is_no_pass_is_refused(passes: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=re.escape(said)):
        triton_linear.install(passes=passes)


def test_a_bad_variable_is_one_warning() -> None:
    done = run("import triton", "passes=nowhere.py")
    assert done.returncode == 0
    assert done.stderr.count("EnvironmentWarning") == 1 and "nowhere.py" in done.stderr


def test_the_function_stays_a_function(written: Callable[..., str]) -> None:
    from triton_linear.dialect.mlir_adapter import Module

    (loaded,) = user_passes.load(str(EXAMPLE))
    assert isinstance(loaded, UserPass)
    module = Module.parse('"tt.load"() : () -> ()', bridge.upstream_context())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded(module)
    assert "evict_first" in str(module)


def test_the_tool_compiles_what_the_plugin_does(tmp_path: Path, written: Callable[..., str]) -> None:
    paths = [str(EXAMPLE), written(AFTER)]
    _, report = compiled(transpose, passes=paths, dump=tmp_path / "dump", occupancy=False, strict=True)
    assert (report.outcome, report.passes) == (Outcome.CONVERTED, ("stream_loads", "sees_calls"))
    before, after = (next((tmp_path / "dump").glob(f"*.{side}.ttgir")) for side in ("before", "after"))
    plugins = [f"--pass-plugin={path}" for path in paths]
    out = tmp_path / "out.ttgir"
    assert opt.main([str(before), *plugins, "--linear-pipeline", "--emit=ttgir", "-o", str(out)]) == 0
    assert out.read_text() == bridge.parse_triton(after, bridge.triton_context()).str_nodebug()


def test_the_page_shows_the_example() -> None:
    source = EXAMPLE.read_text()
    assert source[source.index("from mlir.ir import") :] in (ROOT / "docs" / "user-passes.md").read_text()
