"""The plugin on stock Triton: turning on and off, caches, fallback. The passes are stand-ins here."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import plugin_support as support
import pytest
import triton
import triton.language as tl
import triton_linear
from plugin_support import CUDA, HIP, assembly, compile_kernel, is_ours, row_sums
from triton import knobs
from triton.backends import backends
from triton.compiler import compiler, make_backend
from triton.runtime import driver, jit
from triton.runtime.jit import MockTensor
from triton_linear import hook, pipeline, setting
from triton_linear.report import FallbackWarning, Outcome, Report

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, the stand-ins in place, and the plugin off before and after."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(pipeline, "prepare", support.fake_prepare)
    yield
    triton_linear.uninstall()
    left_open = [hook._state.blocks.pop() for _ in tuple(hook._state.blocks)]
    triton_linear.uninstall()
    assert not left_open
    assert hook._state.patches == ()


def triton_state() -> dict[str, object]:
    """Every attribute of Triton's that the plugin may touch, by identity, and whether it is there at all."""
    owners: dict[str, object] = {
        "runtime knobs": knobs.runtime,
        "jit": jit,
        "JITFunction": jit.JITFunction,
    }
    for name, backend in backends.items():
        owners[f"{name} class"] = backend.compiler
        owners[f"{name} module"] = sys.modules[backend.compiler.__module__]
    return {f"{owner}.{name}": id(value) for owner, it in owners.items() for name, value in vars(it).items()}


def test_the_version_is_the_distributions() -> None:
    assert triton_linear.__version__ == importlib.metadata.version("triton-linear")


def test_unknown_attributes_are_named() -> None:
    with pytest.raises(AttributeError, match="no attribute 'instal'"):
        _ = triton_linear.instal  # type: ignore[attr-defined]


# Turning on and off


@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_off_on_off_on_gives_the_right_kernel_each_time(target: Any) -> None:
    stock = assembly(compile_kernel(target=target))
    assert support.MARK not in stock
    for _ in range(2):
        triton_linear.install()
        assert is_ours(compile_kernel(target=target))
        triton_linear.uninstall()
        assert assembly(compile_kernel(target=target)) == stock


def test_the_second_kernel_of_a_setting_comes_from_disk() -> None:
    with triton_linear.enabled() as first:
        compile_kernel()
    with triton_linear.enabled() as second:
        assert is_ours(compile_kernel())
    assert (len(first), len(second)) == (1, 0)


def test_uninstall_puts_everything_back() -> None:
    before = triton_state()
    triton_linear.install()
    assert triton_state() != before
    compile_kernel()
    triton_linear.install(strict=True)
    triton_linear.uninstall()
    assert triton_state() == before
    triton_linear.uninstall()
    assert triton_state() == before


def test_blocks_nest_and_the_innermost_counts() -> None:
    with triton_linear.enabled() as outer:
        with triton_linear.enabled(scratch_limit=64) as inner:
            compile_kernel()
        compile_kernel()
    assert len(outer) == len(inner) == 1
    assert not is_ours(compile_kernel())


def test_a_block_inside_install_and_uninstall_inside_a_block() -> None:
    triton_linear.install()
    with triton_linear.enabled() as reports:
        triton_linear.uninstall()
        assert is_ours(compile_kernel())
    assert len(reports) == 1
    assert not is_ours(compile_kernel())


def test_blocks_that_end_out_of_order() -> None:
    first, second = triton_linear.enabled(), triton_linear.enabled(scratch_limit=64)
    first.__enter__()
    reports = second.__enter__()
    first.__exit__(None, None, None)
    compile_kernel()
    assert len(reports) == 1
    second.__exit__(None, None, None)
    assert not is_ours(compile_kernel())


def test_a_block_ends_when_it_raises() -> None:
    before = triton_state()
    with pytest.raises(KeyError), triton_linear.enabled():
        raise KeyError
    assert triton_state() == before


def test_a_knob_scope_that_drops_the_hook_does_not_drop_the_plugin() -> None:
    with knobs.runtime.scope():
        triton_linear.install()
    assert knobs.runtime.add_stages_inspection_hook is None
    assert is_ours(compile_kernel())


def test_negative_scratch_is_refused_before_anything_changes() -> None:
    before = triton_state()
    with pytest.raises(ValueError, match="scratch_limit -1 is negative"):
        triton_linear.install(scratch_limit=-1)
    assert triton_state() == before


# A hook that is there already


def test_a_hook_that_is_there_runs_first_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def theirs(*arguments: Any) -> Any:
        if not arguments:
            return "their key", "their hash"  # Tritons after 3.6 ask for them
        _, stages, _, _, capability = arguments
        stock = stages["llir"]
        stages["llir"] = lambda src, metadata: calls.append("their stage") or stock(src, metadata)
        calls.append(capability)
        return "their answer"

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", theirs)
    triton_linear.install()
    assert is_ours(compile_kernel())
    assert calls == [90, "their stage"]
    backend = make_backend(CUDA)
    installed: Any = knobs.runtime.add_stages_inspection_hook
    stages: Any = {"llir": None}
    assert installed(backend, stages, backend.parse_options({}), None, 90) == "their answer"
    triton_linear.uninstall()
    assert knobs.runtime.add_stages_inspection_hook is theirs


def test_a_hook_set_later_stays_and_may_call_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    triton_linear.install()
    ours: Any = knobs.runtime.add_stages_inspection_hook
    calls = []

    def later(*args: Any) -> Any:
        if args:
            calls.append("later")
        return ours(*args)

    knobs.runtime.add_stages_inspection_hook = later
    assert is_ours(compile_kernel())
    triton_linear.uninstall()
    assert knobs.runtime.add_stages_inspection_hook is later
    assert not is_ours(compile_kernel())
    assert calls == ["later", "later"]


def test_the_hook_answers_newer_tritons_with_a_key_and_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", lambda *args: ("k", "h"))
    answers = []
    for limit in (None, 64):
        with triton_linear.enabled(scratch_limit=limit):
            installed: Any = knobs.runtime.add_stages_inspection_hook
            answers.append(installed())
    assert installed() == ("k", "h")
    assert len({*answers, ("k", "h")}) == 3
    assert all(key.startswith("k") and digest.startswith("h") for key, digest in answers)


# Keys and caches


def test_each_setting_has_keys_of_its_own() -> None:
    stock = make_backend(CUDA).hash()
    keys = [stock]
    for options in ({}, {"strict": True}, {"scratch_limit": 64}):
        with triton_linear.enabled(**options):  # type: ignore[arg-type]
            keys.append(make_backend(CUDA).hash())
    assert len(set(keys)) == 4
    assert all(key.startswith(stock) for key in keys)


def test_a_listener_does_not_change_the_key() -> None:
    with triton_linear.enabled():
        plain = make_backend(HIP).hash()
    with triton_linear.enabled(on_report=print):
        assert make_backend(HIP).hash() == plain


def test_a_changed_source_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pass.py").write_text("one")
    monkeypatch.setattr(setting, "_folders", lambda package: [tmp_path])
    first = setting.source_digest.__wrapped__()
    (tmp_path / "pass.pyc").write_text("does not count")
    assert setting.source_digest.__wrapped__() == first
    (tmp_path / "pass.py").write_text("two")
    second = setting.source_digest.__wrapped__()
    assert second != first
    fingerprints = set()
    for digest in (first, second):
        monkeypatch.setattr(setting, "source_digest", lambda digest=digest: digest)
        fingerprints.add(setting.Setting().fingerprint)
    assert len(fingerprints) == 2


def test_the_digest_covers_every_room_that_makes_code() -> None:
    for package in setting._SOURCES:
        (folder,) = setting._folders(package)
        assert (folder / "__init__.py").is_file()
    assert {Path(f).name for p in setting._SOURCES for f in setting._folders(p)} == {
        "plugin", "dialect", "passes", "lowering",
    }  # fmt: skip


@pytest.fixture
def fake_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_active", support.FakeDriver(CUDA))


def warm_up(kernel: Any = row_sums, **options: Any) -> Any:
    pointer = MockTensor(tl.float32)
    return kernel.warmup(pointer, pointer, BM=32, BN=64, grid=(1,), **options)


@pytest.fixture
def kernel() -> Any:
    """A JIT function with empty in-process caches."""
    return triton.jit(row_sums.fn)


@pytest.mark.usefixtures("fake_driver")
def test_a_process_keeps_kernels_of_each_setting_apart(kernel: Any) -> None:
    stock = warm_up(kernel)
    with triton_linear.enabled():
        ours = warm_up(kernel)
        assert warm_up(kernel) is ours
    assert (is_ours(stock), is_ours(ours)) == (False, True)
    assert warm_up(kernel) is stock
    with triton_linear.enabled():
        assert warm_up(kernel) is ours
    with triton_linear.enabled(scratch_limit=64):
        assert warm_up(kernel) is not ours


@pytest.mark.usefixtures("fake_driver")
def test_preloading_compiles_under_the_setting_in_force(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []

    def record(**call: Any) -> None:
        recorded.append(call["compile"]["specialization_data"])

    monkeypatch.setattr(knobs.runtime, "jit_post_compile_hook", record)
    warm_up(kernel)
    kernel.device_caches.clear()
    with triton_linear.enabled():
        assert is_ours(kernel.preload(recorded[0]))
        assert is_ours(warm_up(kernel))
    assert not is_ours(warm_up(kernel))


@pytest.mark.usefixtures("fake_driver")
def test_gluon_kernels_are_kept_apart_too() -> None:
    from triton.experimental.gluon._runtime import GluonJITFunction

    assert GluonJITFunction._do_compile is jit.JITFunction._do_compile
    assert GluonJITFunction.run is jit.JITFunction.run


def run_process(code: str, cache: Path, *arguments: str) -> str:
    """What a fresh Python prints, with our tests' helpers on its path and the given cache."""
    environment = os.environ | {"PYTHONPATH": str(HERE), "TRITON_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, *arguments, "-c", code] if code else [sys.executable, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROCESS = """
import sys, plugin_support as support, triton_linear
support.use_fakes()
for state in {states!r}:
    (triton_linear.install if state else triton_linear.uninstall)()
    print(int(support.is_ours(support.compile_kernel())), end=" ")
print("compiled", int(triton_linear.last_report() is not None), "mlir", int("mlir" in sys.modules))
"""


def test_processes_share_a_cache_and_get_the_right_kernels(tmp_path: Path) -> None:
    off, on = PROCESS.format(states=[False]), PROCESS.format(states=[True])
    assert run_process(off, tmp_path) == "0 compiled 0 mlir 0"
    assert run_process(on, tmp_path) == "1 compiled 1 mlir 0"
    assert run_process(off, tmp_path) == "0 compiled 0 mlir 0"
    assert run_process(on, tmp_path) == "1 compiled 0 mlir 0"
    assert run_process(PROCESS.format(states=[True, False, True]), tmp_path) == "1 0 1 compiled 0 mlir 0"


# Failures


def fail(*_: object) -> Any:
    raise LookupError("the planner tripped")


@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_a_failure_gives_the_stock_kernel_and_one_warning(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = compile_kernel(target=target)
    monkeypatch.setattr(pipeline, "prepare", fail)
    triton_linear.install()
    with pytest.warns(FallbackWarning) as caught:
        ours = compile_kernel(target=target)
    (text,) = [str(warning.message) for warning in caught]
    assert text.startswith("triton_linear: kernel 'row_sums' for ")
    assert "LookupError: the planner tripped" in text
    assert "in fail\n" in text
    assert Path(text.partition("please attach ")[2].partition(" and this:")[0]).is_file()
    assert {k: v for k, v in ours.asm.items() if k != "source"} == {
        k: v for k, v in stock.asm.items() if k != "source"
    }
    assert ours.metadata._asdict() | {"hash": ""} == stock.metadata._asdict() | {"hash": ""}
    report = triton_linear.last_report()
    assert report is not None
    assert (report.outcome, report.error) == (Outcome.FAILED, "LookupError: the planner tripped")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernel(target=target, width=128)


def test_a_module_of_ours_that_triton_cannot_lower_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = compile_kernel()
    nvidia = backends["nvidia"].compiler
    make_llir = nvidia.make_llir

    def picky(self: Any, module: Any, metadata: Any, *rest: Any) -> Any:
        if support.MARK in str(module):
            metadata["given_up"] = True
            raise RuntimeError("PassManager::run failed")
        return make_llir(self, module, metadata, *rest)

    monkeypatch.setattr(nvidia, "make_llir", picky)
    with pytest.warns(FallbackWarning, match="PassManager::run failed"), triton_linear.enabled() as reports:
        ours = compile_kernel()
    assert assembly(ours) == assembly(stock)
    assert ours.metadata._fields == stock.metadata._fields
    assert (reports[0].outcome, reports[0].ours, reports[0].seen) == (Outcome.FAILED, 0, 1)


def test_strict_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "prepare", fail)
    before = triton_state()
    with pytest.raises(LookupError, match="the planner tripped"), triton_linear.enabled(strict=True):
        compile_kernel()
    assert triton_state() == before


def test_strict_does_not_find_what_fell_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken, pytest.warns(FallbackWarning), triton_linear.enabled():
        broken.setattr(pipeline, "prepare", fail)
        compile_kernel()
    with triton_linear.enabled(strict=True):
        assert is_ours(compile_kernel())


def test_missing_bindings_are_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(*_: object) -> Any:
        raise ModuleNotFoundError("No module named 'mlir'")

    monkeypatch.setattr(pipeline, "prepare", prepare)
    with (
        pytest.warns(FallbackWarning, match="needs MLIR's Python bindings") as caught,
        triton_linear.enabled(),
    ):
        compile_kernel()
    assert "bug" not in str(caught[0].message)


def test_an_unknown_target_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = type(CUDA)("cuda", 75, 32)
    triton_linear.install()
    with pytest.warns(FallbackWarning, match="unknown target 'cuda:75'") as caught:
        compile_kernel(target=odd)
        compile_kernel(target=odd, width=128)
    assert len(caught) == 1


def test_stock_failing_too_is_stocks_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "prepare", fail)
    nvidia = backends["nvidia"].compiler

    def broken(*_: object) -> Any:
        raise RuntimeError("PassManager::run failed")

    monkeypatch.setattr(nvidia, "make_llir", broken)
    with warnings.catch_warnings(), triton_linear.enabled():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="PassManager::run failed"):
            compile_kernel()


# Shared memory


def limited(shared: dict[int | None, int], monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Make the stock stage claim the shared memory given per scratch limit; returns the limits tried."""
    tried: list[int | None] = []

    def prepare(module: Any, seen: int, target: Any, limit: int | None, clock: Any) -> Any:
        tried.append(limit)
        return support.fake_prepare(module, seen, target, limit, clock)

    def claim(*arguments: Any) -> Any:
        if not arguments:
            return "", ""
        stages = arguments[1]
        stock = stages["llir"]

        def stage(src: Any, metadata: Any) -> Any:
            llir = stock(src, metadata)
            if support.MARK in llir:
                metadata["shared"] = shared[tried[-1]]
                metadata["given_up"] = True
            return llir

        stages["llir"] = stage
        return None

    monkeypatch.setattr(pipeline, "prepare", prepare)
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", claim)
    return tried


def test_too_much_shared_memory_is_retried_with_little_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = limited({None: 300_000, 0: 200_000}, monkeypatch)
    with triton_linear.enabled() as reports:
        kernel = compile_kernel()
    assert tried == [None, 0]
    assert is_ours(kernel)
    assert kernel.metadata.shared == 200_000
    assert reports[0].remarks == ("300000 bytes of shared memory with the default scratch, cuda:90 has 232448",)


def test_too_much_shared_memory_at_least_scratch_is_left_to_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = limited({None: 300_000, 0: 290_000}, monkeypatch)
    stock = compile_kernel()
    with triton_linear.enabled() as reports:
        kernel = compile_kernel()
    assert tried == [None, 0]
    assert assembly(kernel) == assembly(stock)
    assert kernel.metadata.shared == stock.metadata.shared
    assert kernel.metadata._fields == stock.metadata._fields
    assert reports[0].outcome is Outcome.LEFT
    assert [c.detail for c in reports[0].left] == ["shared memory is exhausted"]


# Reports


def test_a_kernel_without_conversions_goes_straight_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "prepare", fail)
    with triton_linear.enabled(strict=True) as reports:
        compile_kernel(support.double)
    (report,) = reports
    assert (report.outcome, report.seen) == (Outcome.NOTHING_TO_DO, 0)
    assert report.overhead < 0.05 * report.seconds["stock"]


def test_reports_reach_every_listener() -> None:
    heard: list[Report] = []
    with triton_linear.enabled(on_report=heard.append) as reports:
        compile_kernel()
    assert heard == reports == [triton_linear.last_report()]
    (report,) = reports
    assert (report.kernel, report.target, report.outcome) == ("row_sums", "cuda:90", Outcome.CONVERTED)
    assert (report.seen, report.ours, report.noop, report.folded, report.left) == (1, 1, 0, 0, ())
    assert set(report.seconds) == {"screen", "stock"}
    assert "row_sums for cuda:90: converted; 1 conversions: 1 ours" in str(report)


def test_metadata_and_stages_are_those_of_stock() -> None:
    stock = compile_kernel()
    with triton_linear.enabled():
        ours = compile_kernel()
    assert set(ours.metadata._fields) == set(stock.metadata._fields)
    assert list(ours.asm) == list(stock.asm)
    assert ours.asm["ttgir"] == stock.asm["ttgir"]


def test_a_ttgir_file_is_compiled_with_the_plugin(tmp_path: Path) -> None:
    file = tmp_path / "kernel.ttgir"
    file.write_text(compile_kernel().asm["ttgir"])
    with triton_linear.enabled() as reports:
        assert is_ours(triton.compile(str(file), target=CUDA))
    assert reports[0].kernel == "row_sums"


# Threads


def test_threads_compile_at_once_each_its_own_way() -> None:
    gate = threading.Barrier(2)

    def compile_one(width: int) -> bool:
        gate.wait()
        return is_ours(compile_kernel(width=width))

    with ThreadPoolExecutor(2) as pool:
        with triton_linear.enabled():
            assert list(pool.map(compile_one, (64, 128))) == [True, True]
        assert list(pool.map(compile_one, (64, 128))) == [False, False]


def test_turning_off_while_a_stage_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage that runs ends as it began; what another thread compiles meanwhile is stock."""
    others = []

    def prepare(*args: Any) -> Any:
        triton_linear.uninstall()
        with ThreadPoolExecutor(1) as pool:
            others.append(pool.submit(compile_kernel, width=128).result())
        return support.fake_prepare(*args)

    monkeypatch.setattr(pipeline, "prepare", prepare)
    triton_linear.install()
    assert is_ours(compile_kernel())
    assert [is_ours(kernel) for kernel in others] == [False]


def turning(state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the plugin on or off between the cache key and the stages, as another thread might."""
    turn = triton_linear.install if state else triton_linear.uninstall
    stock = compiler.get_cache_manager

    def get_cache_manager(key: str) -> Any:
        turn()
        return stock(key)

    monkeypatch.setattr(compiler, "get_cache_manager", get_cache_manager)


@pytest.mark.parametrize("state", [False, True], ids=["on", "off"])
def test_a_compile_keeps_the_setting_of_its_key(state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not state:
        triton_linear.install()
    with monkeypatch.context() as toggled:
        turning(state, toggled)
        assert is_ours(compile_kernel()) is not state
    (triton_linear.uninstall if state else triton_linear.install)()
    assert is_ours(compile_kernel()) is not state


# Scripts


SCRIPT = """
import atexit, pickle, sys
import plugin_support as support
support.use_fakes()
class Thing: pass
assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
print(__name__, sys.argv, sys.path[0], __file__, support.is_ours(support.compile_kernel()))
atexit.register(lambda: print("bye", sys.modules["__main__"].Thing.__name__))
"""


@pytest.mark.parametrize("form", ["file", "module"])
def test_an_unchanged_script_runs_as_itself(form: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    named = [str(script)] if form == "file" else ["-m", "script"]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, "-m", "triton_linear", "--report", *named, "--strict", "-m", "x"],
        env=environment, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    expected = f"__main__ {[str(script), '--strict', '-m', 'x']} {tmp_path} {script} True\nbye Thing\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert done.stderr.startswith("row_sums for cuda:90: converted; 1 conversions: 1 ours")


def test_a_script_sets_the_exit_status(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; sys.exit(3)")
    command = [sys.executable, "-m", "triton_linear"]
    assert subprocess.run([*command, str(script)], check=False).returncode == 3
    done = subprocess.run([*command, "missing.py"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "can't open file 'missing.py'" in done.stderr


def test_a_report_is_data() -> None:
    report = Report(
        "k", "cuda:90", Outcome.NOTHING_TO_DO, seconds=MappingProxyType({"stock": 1.0, "screen": 0.5})
    )
    assert (report.overhead, report.ours, report.folded) == (0.5, 0, 0)
    assert hook.target_name(make_backend(HIP), object()) == "hip:gfx942"
