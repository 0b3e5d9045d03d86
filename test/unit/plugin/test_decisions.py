"""What was measured is followed: the file of decisions, who reads it, and what becomes of the kernel."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugin_processes import printed, python
from plugin_support import CUDA, HIP, compile_kernel, row_sums
from triton import knobs
from triton.compiler import make_backend

import triton_linear
from triton_linear import decisions, inductor, setting
from triton_linear.decisions import (
    Circumstances,
    Decision,
    DecisionError,
    DecisionFile,
    Decisions,
    DecisionWarning,
    as_line,
    load,
)
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found
from triton_linear.hook import pinned
from triton_linear.report import Outcome, Report
from triton_linear.setting import Options, Setting
from triton_linear.tools.cli import main
from triton_linear.variants import VARIANTS, variant

H200 = "NVIDIA H200"
HERE = Circumstances("k", H200, "cuda:90", found() or "", "12.9.86", CODE_VERSION)
DECIDED = Decision(HERE, "stock", "row_sums", 1.0, 0.99, 1.01, "2026-11-23")


@pytest.fixture(autouse=True)
def places_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither the user's decisions nor kernels of Triton's cache, which have no report."""
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


@pytest.fixture
def own() -> DecisionFile:
    """The user's own file."""
    return DecisionFile(decisions.default_file())


def compiled(target: Any = CUDA, **options: Any) -> tuple[Any, Report]:
    """A kernel with a conversion, and what is reported of it."""
    with pinned(Options(**options)) as reports:
        kernel = compile_kernel(row_sums, target)
    (report,) = reports
    return kernel, report


def decide(file: DecisionFile, name: str, compiled_for: Any = CUDA, /, **other: str) -> None:
    """Have the kernel of `compiled` be that variant; `other`: in other circumstances."""
    _, report = compiled(compiled_for, decisions="none", measured=True)
    told = f"{compiled_for.backend}:{compiled_for.arch}"
    about = Circumstances(report.key, "", told, found() or "", decisions.ptxas_version(told), CODE_VERSION)
    file.put([Decision(replace(about, **other), name, "row_sums", 1.1, 1.0, 1.2, "2026-11-23")])


# The file


def test_what_is_put_is_read(own: DecisionFile) -> None:
    other = replace(DECIDED, circumstances=replace(HERE, gpu="NVIDIA H100 PCIe"), variant="lower", ratio=1.25)
    own.put([DECIDED, other])
    assert own.read() == sorted([DECIDED, other], key=lambda each: each.circumstances.gpu)
    again = replace(DECIDED, variant="ours")
    own.put([again])
    assert again in own.read() and DECIDED not in own.read() and len(own.read()) == 2
    assert own.remove([HERE, HERE]) == 1
    assert own.read() == [other]


def test_processes_that_write_at_once_lose_nothing(own: DecisionFile) -> None:
    code = (
        "import sys; from pathlib import Path; from triton_linear.decisions import *\n"
        "file, me = DecisionFile(Path(sys.argv[1])), sys.argv[2]\n"
        "for i in range(40):\n"
        "    about = Circumstances(f'{me}-{i}', '', 'cuda:90', '3.9.0', '', 'p')\n"
        "    file.put([Decision(about, 'stock', 'k', 1.0, 1.0, 1.0, 'today')])\n"
    )

    def write(me: int) -> int:
        return int(python("-c", code, own.path, me).returncode)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(write, range(4))) == [0] * 4
    assert len(own.read()) == 160


def test_a_failure_adds_nothing(own: DecisionFile) -> None:
    own.put([DECIDED])
    others = [replace(DECIDED, circumstances=replace(HERE, kernel=str(i))) for i in range(3)]
    broken: Any = replace(others[2], ratio=object())
    with pytest.raises(TypeError):
        own.put([*others[:2], broken])
    assert own.read() == [DECIDED]


WRONG = {
    "a text": lambda path: path.write_text("these are no decisions" * 100),
    "bytes": lambda path: path.write_bytes(b"SQLite format 3\x00\xff"),
    "somebody else's": lambda path: path.write_text('{"kernel": "k"}\n'),
    "a folder": lambda path: path.mkdir(),
    "cut off": lambda path: (DecisionFile(path).put([DECIDED]), path.write_bytes(path.read_bytes()[:-9])),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_a_file_that_holds_none_is_one_warning(make: Any, own: DecisionFile) -> None:
    own.path.parent.mkdir(parents=True)
    make(own.path)
    with pytest.raises(DecisionError, match=r"decisions\.jsonl"):
        own.read()
    with pytest.warns(DecisionWarning, match="no decisions are followed: .*decisions.jsonl") as told:
        _, report = compiled()
    assert (len(told), report.outcome, report.variant) == (1, Outcome.CONVERTED, "")
    with pytest.raises(DecisionError):
        compiled(strict=True)


def test_what_cannot_be_read_is_raised_by_compiles_alone(
    own: DecisionFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where PyTorch is there, decisions are asked for as soon as the plugin is turned on, or off in a block."""
    own.path.parent.mkdir(parents=True)
    own.path.write_text("these are no decisions" * 100)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with triton_linear.enabled(strict=True), pytest.raises(DecisionError):
        compile_kernel(row_sums)
    assert triton_linear.hook._state.blocks == []
    triton_linear.install(strict=True)
    with triton_linear.enabled(decisions="none"):
        compile_kernel(row_sums)
    triton_linear.uninstall()
    assert triton_linear.hook._state.patches == ()


def test_threads_that_ask_first_at_a_time_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.12 on, `cached_property` has each of them compute it, and keeps what comes last."""
    numbers = iter(range(2))
    monkeypatch.setattr(setting, "load", lambda place: Decisions(digest=f"{next(numbers)}"))
    asked, compute = Setting(Options()), vars(Setting)["decisions"].func
    assert compute(asked) is compute(asked)


def test_a_file_that_somebody_else_made_is_not_written_to(own: DecisionFile) -> None:
    own.path.parent.mkdir(parents=True)
    own.path.write_text('{"kernel": "k"}\n')
    before = own.path.read_bytes()
    with pytest.raises(DecisionError, match="holds no decision of triton-linear"):
        own.put([DECIDED])
    assert own.path.read_bytes() == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_an_error_or_decisions(data: st.DataObject, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("damaged") / "decisions.jsonl"
    DecisionFile(path).put([replace(DECIDED, circumstances=replace(HERE, kernel=f"{i}" * 9)) for i in range(9)])
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(DecisionError):
        assert all(isinstance(each, Decision) for each in DecisionFile(path).read())


# Which hold here


def test_decisions_hold_for_what_they_were_made_with() -> None:
    def variants(gpus: set[str], *made: Decision) -> set[str]:
        here = Decisions.among(made, HERE.triton, HERE.package, frozenset(gpus))
        return set(here.variants.values())

    assert variants({H200}, DECIDED) == {"stock"}
    for other in ({"triton": "3.0.0"}, {"package": "other"}):
        assert variants({H200}, replace(DECIDED, circumstances=replace(HERE, **other))) == set()
    h100 = replace(DECIDED, circumstances=replace(HERE, gpu="NVIDIA H100 PCIe"), variant="lower")
    assert variants({H200}, h100) == set()
    assert variants({H200}, h100, DECIDED) == {"stock"}
    assert variants({H200, h100.circumstances.gpu}, h100, DECIDED) == set()
    assert variants({H200, h100.circumstances.gpu}, replace(h100, variant="stock"), DECIDED) == {"stock"}
    assert variants(set(), DECIDED) == {"stock"}
    assert variants(set(), h100, DECIDED) == set()


def test_only_decisions_that_hold_are_in_the_digest() -> None:
    def digest(*made: Decision) -> str:
        return Decisions.among(made, HERE.triton, HERE.package, frozenset({H200})).digest

    assert digest() == ""
    assert digest(DECIDED) != digest(replace(DECIDED, variant="lower"))
    assert digest(DECIDED) == digest(replace(DECIDED, ratio=2.0, measured="another day"))
    assert digest(DECIDED) == digest(DECIDED, replace(DECIDED, circumstances=replace(HERE, triton="3.0.0")))


# What becomes of the kernel


def test_without_a_file_nothing_is_looked_up(own: DecisionFile) -> None:
    _, report = compiled()
    assert (report.variant, report.key) == ("", "")
    assert not own.path.exists()


def test_a_folder_that_cannot_be_looked_into_has_no_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root's, in a container of somebody else."""
    monkeypatch.setenv("TRITON_HOME", "/" + "x" * 300)
    with pytest.raises(OSError):
        os.stat(decisions.default_file())
    with warnings.catch_warnings():
        warnings.simplefilter("error", DecisionWarning)
        assert compiled()[1].outcome is Outcome.CONVERTED


@pytest.mark.parametrize("name", ["a?mode=rwc", "a#b", "a%20b", "a b", "\udcff"])
def test_a_path_may_have_any_name(tmp_path: Path, name: str) -> None:
    file = DecisionFile(tmp_path / name / "decisions.jsonl")
    file.put([DECIDED])
    assert file.path.exists() and file.read() == [DECIDED]


def test_a_decision_for_stock_gives_what_stock_gives(own: DecisionFile) -> None:
    stock = compile_kernel(row_sums)
    ours, _ = compiled()
    assert ours.asm["cubin"] != stock.asm["cubin"]
    decide(own, "stock")
    decided, report = compiled()
    assert decided.asm["cubin"] == stock.asm["cubin"]
    assert (report.variant, report.outcome, report.conversions) == ("stock", Outcome.LEFT, ())
    assert "decided by measuring: stock" in str(report)
    assert not {"passes", "to MLIR"} & report.seconds.keys()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, (CUDA, HIP)[number % 2]) for number, name in enumerate(VARIANTS) if name != "stock"),
        ("bounded", CUDA),
    ],
    ids=lambda one: getattr(one, "backend", one),
)
def test_a_decision_gives_what_its_options_give(own: DecisionFile, name: str, target: Any) -> None:
    options = variant(name).of(Options(decisions="none"))
    assert options is not None
    with pinned(options):
        wanted = compile_kernel(row_sums, target)
    decide(own, name, target)
    found, report = compiled(target)
    code = "cubin" if target is CUDA else "hsaco"
    assert found.asm[code] == wanted.asm[code]
    assert report.variant == name


def test_a_decision_for_other_circumstances_is_none(own: DecisionFile) -> None:
    decide(own, "stock", ptxas="1.0.0")
    decide(own, "stock", target="cuda:80")
    decide(own, "stock", package="another")
    _, report = compiled()
    assert (report.variant, report.outcome) == ("", Outcome.CONVERTED)


def test_with_other_options_nothing_is_decided(own: DecisionFile) -> None:
    decide(own, "stock")
    assert compiled(strict=True, only="row*")[1].variant == "stock"
    for options in ({"assign": False}, {"scratch_limit": 64}, {"occupancy": False}, {"decisions": "none"}):
        assert compiled(**options)[1].variant == ""


def test_a_decision_is_for_the_options_that_were_measured(own: DecisionFile) -> None:
    """Some show in PTX and machine code alone."""
    decide(own, "stock")
    with pinned(Options()) as reports:
        compile_kernel(row_sums)
        compile_kernel(row_sums, enable_fp_fusion=False)
        compile_kernel(row_sums, ptx_options="--def-load-cache=cg")
    assert [report.variant for report in reports] == ["stock", "", ""]


@pytest.mark.skipif(not (found() or "").startswith("3.9."), reason="the lists are Triton 3.9's")
def test_options_that_ttgir_does_not_show_are_known() -> None:
    """One that is in neither list may have to be in one."""
    shown = {
        *("num_warps", "num_ctas", "num_stages", "warp_size", "maxnreg", "arch", "base_arch", "debug"),
        *("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "default_dot_input_precision"),
        *("allowed_dot_input_precisions", "max_num_imprecise_acc_default", "matrix_instr_nonkdim", "kpack"),
        *("launch_cooperative_grid", "launch_pdl", "clc", "backend_name", "ptx_version", "ir_override"),
        *("instrumentation_mode", "fpsan_homomorphic_casts", "sanitize_overflow"),
        "extern_libs",  # has paths, which other machines do not have
    }
    for target in (CUDA, HIP):
        names = set(vars(make_backend(target).parse_options({})))
        assert names <= shown | set(decisions.UNSEEN), target


@pytest.mark.parametrize("name", ["fastest", "second", "stock+lavish", "lower+bounded"])
def test_a_variant_that_there_is_not_is_no_decision(name: str, own: DecisionFile) -> None:
    """Such as those of other versions of this package, in a file that was edited or set by hand."""
    decide(own, name)
    found, report = compiled(strict=True)
    assert (report.outcome, report.variant) == (Outcome.CONVERTED, "")
    assert any("its decision is not followed: no variant" in remark for remark in report.remarks)
    with pinned(Options(decisions="none")):
        assert found.asm["cubin"] == compile_kernel(row_sums, CUDA).asm["cubin"]
    assert main(["decisions", "list"]) == 0


def test_decisions_have_cache_keys_of_their_own(own: DecisionFile) -> None:
    def key() -> str:
        with triton_linear.enabled():
            return str(make_backend(CUDA).hash())

    keys = [key()]
    for name in ("stock", "lower"):
        decide(own, name)
        keys.append(key())
    assert len(set(keys)) == 3
    own.path.unlink()
    assert key() == keys[0]


def test_a_worker_follows_what_the_process_follows_that_it_works_for(
    own: DecisionFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever is in the file by then, or wherever the worker would look for it."""
    jobs: list[Any] = []
    submit = inductor._submitting(lambda pool, job: jobs.append(job))
    decide(own, "stock")
    with triton_linear.enabled():
        followed = triton_linear.hook._state.current()
        assert followed is not None and followed.decisions
        decide(own, "lower")
        submit(None, triton_linear.hook._state.current)
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "elsewhere"))
    job = pickle.loads(pickle.dumps(replace(jobs[0], function=None)))
    worker = replace(job, function=triton_linear.hook._state.current)()
    assert isinstance(worker, Setting)
    assert worker.decisions == followed.decisions and worker.fingerprint == followed.fingerprint
    assert replace(job, function=triton_linear.hook._state.current)() is worker


def test_other_processes_follow_the_file_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DecisionFile(tmp_path / "named.jsonl")
    decide(file, "stock")
    monkeypatch.chdir(tmp_path)
    triton_linear.install(decisions="named.jsonl")
    try:
        assert f"decisions={file.path}" in os.environ["TRITON_LINEAR"]
        code = (
            "import plugin_support as s, triton_linear\n"
            "s.compile_kernel(s.row_sums); print(triton_linear.last_report().variant)"
        )
        assert printed("-c", code, cwd=tmp_path.parent) == "stock\n"
    finally:
        triton_linear.uninstall()


# Kernels by name


def test_kernels_are_left_out_by_name() -> None:
    for options in ({"only": "softmax*"}, {"skip": "double:row_*"}):
        _, report = compiled(**options)
        assert report.outcome is Outcome.LEFT and report.seen > 0
        assert f"{next(iter(options))}=" in report.remarks[0]
    for options in ({"only": "softmax*:row_*"}, {"skip": "softmax*"}, {"only": "row_?ums", "skip": "double"}):
        assert compiled(**options)[1].outcome is Outcome.CONVERTED


def test_patterns_are_given_in_every_way() -> None:
    with triton_linear.enabled(only=("a*", "b"), skip="c"):
        assert triton_linear.hook._state.active.options.only == "a*:b"  # type: ignore[union-attr]
    assert triton_linear.environment.parse("only=a*:b,skip=c") == Options(only="a*:b", skip="c")
    with pytest.raises(ValueError, match="only takes patterns without commas"):
        Options(only="a,b")
    with pytest.raises(TypeError, match="skip takes patterns, got 3"):
        Options(skip=3)  # type: ignore[arg-type]


def test_a_variant_has_the_names_of_options() -> None:
    for each in VARIANTS.values():
        changed = each.of(Options())
        assert (changed is None) == (each.name == "stock")
        if changed is not None:
            assert replace(Options(), **(each.changes or {})) == changed
    with pytest.raises(ValueError, match="no variant 'fastest'; there are stock, ours"):
        variant("fastest")
    with pytest.raises(ValueError, match="no variant ''"):
        variant("")
    assert setting.Options().undecided


# Lines that nobody would make


FUZZED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50, database=None
)
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["[/b]", "[bold", "\x00", "stock", "cuda:90"]),
)


@FUZZED
@given(data=st.data())
def test_other_names_and_other_values(
    data: st.DataObject, tmp_path_factory: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As another version of this package might make it, or somebody who edits a file. The commands say what the
    plugin says."""
    path = tmp_path_factory.mktemp("edited") / "decisions.jsonl"
    good = json.loads(as_line(DECIDED))
    edited = data.draw(st.dictionaries(st.sampled_from([*good, "more"]), VALUES, max_size=3))
    lines = data.draw(st.lists(st.sampled_from([good, good | edited, edited]) | VALUES, max_size=3))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    try:
        found: list[Decision] | None = DecisionFile(path).read()
    except DecisionError:
        found = None
    told = [main(["decisions", "--file", str(path), *action]) for action in (["list"], ["list", "--json"])]
    assert told == [int(found is None)] * 2
    if found is None:
        assert capsys.readouterr().err.count("error:") == 2
        with pytest.raises(DecisionError):
            DecisionFile(path).put([DECIDED])
        return
    assert all(isinstance(each.variant, str) and isinstance(each.ratio, float) for each in found)
    assert isinstance(Decisions.among(found, "3.9.0", "p", frozenset({"GPU"})), Decisions)


def test_what_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(DecisionError, match="there is no such file"):
        load(str(tmp_path / "decisions.jsonl"))
    with pytest.raises(DecisionError, match=r"s3://bucket/it: .* not from URLs"):
        load("s3://bucket/it")


FULL = """
import resource, signal, sys
from pathlib import Path
from triton_linear.decisions import *

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file, most = DecisionFile(Path(sys.argv[1])), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
written = 0
try:
    for number in range(10_000):
        about = Circumstances(str(number) * 50, "", "cuda:90", "3.9.0", "", "p")
        file.put([Decision(about, "stock", "k", 1.0, 1.0, 1.0, "today")])
        written += 1
except DecisionError as error:
    print(written, error)
"""


@pytest.mark.parametrize("most", [0, 20_000, 50_000])
def test_where_the_disk_is_full_what_was_written_stays(most: int, tmp_path: Path) -> None:
    """A file that may not grow fails as one does for which there is no room."""
    path = tmp_path / "decisions.jsonl"
    written, _, error = printed("-c", FULL, path, most).partition(" ")
    assert str(path) in error and error.count("\n") == 1
    assert (int(written) > 0) == (most > 0)
    if written != "0":
        assert len(DecisionFile(path).read()) == int(written)
        DecisionFile(path).put([DECIDED])
        assert len(DecisionFile(path).read()) == int(written) + 1
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
