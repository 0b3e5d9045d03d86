"""An error anywhere in the plugin: the kernel is stock Triton's, one warning says so, `strict` raises."""

from __future__ import annotations

import functools
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import plugin_support as support
import pytest
import triton
from assign_support import path_of
from fault_kernels import Lowered, lowered
from plugin_processes import printed
from plugin_support import CUDA, assembly, compile_kernel, transpose, triton_state
from triton import knobs

import triton_linear
from triton_linear import compile_record, fallback, known, setting, stage, wrapping
from triton_linear.dialect import bridge, libtriton, mlir_adapter, sources
from triton_linear.lowering.emit import calls
from triton_linear.lowering.target import targets
from triton_linear.passes import attempts
from triton_linear.passes import pipeline as passes
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.conversions import outline, select, stubs
from triton_linear.passes.conversions.outline import OutlineConversions
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.options import PipelineOptions
from triton_linear.ptxas import occupancy, registers
from triton_linear.report import FallbackWarning, Outcome

PLACES: Mapping[str, tuple[Any, str]] = {
    "wrapping: the target's name": (wrapping, "target_name"),
    "wrapping: the stage": (stage.LLIRStage, "__init__"),
    "wrapping: registers": (registers, "user_controls_registers"),
    "screen": (stage, "count_operations"),
    "instrumentation": (stage, "_instrumentation_mode"),
    "targets": (targets, "target"),
    "bridge: context": (bridge, "upstream_context"),
    "bridge: print": (libtriton, "generic_text"),
    "bridge: parse": (bridge, "expand_aliases"),
    "pass: assign": (AssignLayouts, "__call__"),
    "pass: select": (SelectLowering, "__call__"),
    "pass: outline": (OutlineConversions, "__call__"),
    "what becomes of conversions": (outline, "_decided"),
    "passes: walk": (mlir_adapter.Operation, "walk"),
    "planner": (select, "select"),
    "plans of stubs": (passes, "stubs_of"),
    "proof": (stubs, "refuted"),
    "emission": (calls, "emit_body"),
    "embedding": (attempts, "embed"),
    "what is known": (known.Known, "of"),
    "bridge: back": (bridge, "without_ll"),
    "bridge: back, text": (bridge, "printed"),
    "bridge: verify": (libtriton, "parse_triton"),
}
KERNEL = path_of("attention_fp8")
SOURCE = support.source(transpose, 32)
TRIPPED = "something tripped in there"


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(knobs.compilation, "always_compile", True)
    yield
    triton_linear.uninstall()


@functools.cache
def stock() -> Lowered:
    return lowered(SOURCE, CUDA, {}, None)


def tripping(kind: type[BaseException]) -> Callable[..., Any]:
    def trip(*_: object, **__: object) -> Any:
        raise kind(TRIPPED)

    return trip


def ours() -> Lowered:
    """Through the plugin; the report may be missing where the plugin did not get so far."""
    made = lowered(SOURCE, CUDA, {}, None)
    return Lowered(made.llir, made.metadata, triton_linear.last_report())


@pytest.mark.parametrize("place", PLACES)
def test_an_error_gives_the_stock_kernel_and_one_warning(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, before = stock(), triton_state()
    monkeypatch.setattr(*PLACES[place], tripping(LookupError))
    triton_linear.install()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = ours()
    assert made.llir == expected.llir
    assert dict(made.metadata) == dict(expected.metadata)
    (warning,) = caught
    assert warning.category is FallbackWarning
    text = str(warning.message)
    if not place.startswith("wrapping: "):  # before it is known which kernel it is
        assert "'transpose' for cuda:90" in text
        assert made.report is not None and made.report.outcome is Outcome.FAILED
        assert TRIPPED in str(made.report.error)
    assert "stock Triton" in text and f"LookupError: {TRIPPED}" in text
    monkeypatch.undo()
    triton_linear.uninstall()
    assert triton_state() == before


@pytest.mark.parametrize("place", PLACES)
def test_strict_raises_it(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = triton_state()
    with monkeypatch.context() as broken, warnings.catch_warnings():
        broken.setattr(*PLACES[place], tripping(LookupError))
        warnings.simplefilter("error")
        with pytest.raises(Exception, match=TRIPPED), triton_linear.enabled(strict=True):
            ours()
    assert triton_state() == before


@pytest.mark.parametrize(
    ("place", "kind"),
    [*((place, KeyboardInterrupt) for place in PLACES), ("screen", SystemExit), ("planner", SystemExit)],
)
def test_an_interrupt_is_no_error(
    place: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = triton_state()
    with monkeypatch.context() as broken, pytest.raises(kind), triton_linear.enabled():
        broken.setattr(*PLACES[place], tripping(kind))
        ours()
    assert triton_state() == before
    with triton_linear.enabled(strict=True) as reports:
        ours()
    assert reports[0].outcome is Outcome.CONVERTED


@pytest.mark.parametrize("kind", [MemoryError, RecursionError, OSError])
@pytest.mark.parametrize("place", ["screen", "bridge: print", "pass: select", "proof", "bridge: verify"])
def test_where_there_is_no_room(place: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLACES[place], tripping(kind))
    with pytest.warns(FallbackWarning, match=f"{kind.__name__}: {TRIPPED}"), triton_linear.enabled():
        assert ours().llir == stock().llir


def test_no_room_to_tell_loses_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is used up, it is for the warning and the report too."""
    monkeypatch.setattr(*PLACES["planner"], tripping(MemoryError))
    for kind in (MemoryError, RecursionError):
        monkeypatch.setattr(compile_record.CompileRecord, "report", tripping(kind))
        monkeypatch.setattr(fallback, "_module_file", tripping(kind))
        monkeypatch.setattr(warnings, "warn", tripping(kind))
        with triton_linear.enabled() as reports:
            assert lowered(SOURCE, CUDA, {}, None).llir == stock().llir
        assert reports == []


def test_a_cache_that_cannot_be_asked_loses_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning asks it where the kernel's IR is."""
    from triton.runtime import cache

    monkeypatch.setattr(*PLACES["planner"], tripping(LookupError))
    metadata: dict[str, Any] = {"hash": "abc"}
    monkeypatch.setattr(cache, "get_cache_manager", tripping(OSError))
    with pytest.warns(FallbackWarning, match="attach the kernel's .ttgir"):
        fallback.warn(setting.Setting(), "k", "cuda:90", LookupError("x"), metadata)


# Registers


def assembled(**options: bool) -> Any:
    with triton_linear.enabled(**options):  # type: ignore[arg-type]
        return triton.compile(str(KERNEL), target=CUDA)


@pytest.fixture(scope="module")
def above_a_jump() -> Any:
    """A kernel that is assembled twice, and taken with fewer registers, as it is without that."""
    assert ".maxnreg" in assembly(assembled(strict=True))
    return assembled(occupancy=False)


@pytest.mark.parametrize(("module", "name"), [(registers, "usage"), (occupancy, "bound")])
def test_an_error_about_registers(
    module: ModuleType, name: str, above_a_jump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, tripping(LookupError))
    with pytest.warns(FallbackWarning, match=rf"is assembled by stock Triton(.|\n)*{TRIPPED}") as caught:
        kept = assembled()
    assert len(caught) == 1
    assert kept.asm["ptx"] == above_a_jump.asm["ptx"] and kept.asm["cubin"] == above_a_jump.asm["cubin"]
    with pytest.raises(LookupError, match=TRIPPED):
        assembled(strict=True)
    monkeypatch.setattr(module, name, tripping(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        assembled()


# Sources


def test_sources_that_go_or_cannot_be_read_lose_no_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor's file may be gone between the listing and the reading."""
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "gone.py").write_text("two")
    read = Path.read_bytes

    def failing(kind: type[OSError]) -> Callable[[Path], bytes]:
        def read_bytes(self: Path) -> bytes:
            if self.name == "gone.py":
                raise kind(self)
            return read(self)

        return read_bytes

    monkeypatch.setattr(sources, "_folders", lambda _: [tmp_path])
    digest = sources.source_digest.__wrapped__
    monkeypatch.setattr(Path, "read_bytes", failing(FileNotFoundError))
    assert digest() == digest()
    monkeypatch.setattr(Path, "read_bytes", failing(PermissionError))
    assert digest() != digest()


# Interrupts and limits


@contextmanager
def interrupted(after: float) -> Iterator[None]:
    """Within the block, as if the user pressed Ctrl-C so many seconds from now."""

    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    found = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, found)


def test_ctrl_c_at_any_time_is_heard(tmp_path: Path) -> None:
    """In a process of its own: where an import is interrupted, Python may keep the lock of all imports."""
    assert 3 < int(printed(__file__, TRITON_CACHE_DIR=str(tmp_path / "cache"))) < 30


def interrupts() -> int:
    """How many of 30 compilations are interrupted, each a little later; the others give what is expected."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(knobs.compilation, "always_compile", True)
    with triton_linear.enabled(strict=True):
        expected = ours().llir
    convert, delays, took = stage.LLIRStage._convert, [60.0], [0.0]

    def interrupt(self: Any, *arguments: Any) -> Any:
        """Interrupted before Triton's own stage begins, or not at all."""
        stock, begun = self._stock, time.perf_counter()

        def not_beyond(*given: Any) -> Any:
            signal.setitimer(signal.ITIMER_REAL, 0)
            took[0] = time.perf_counter() - begun
            return stock(*given)

        self._stock = not_beyond
        with interrupted(delays.pop()):
            return convert(self, *arguments)

    monkeypatch.setattr(stage.LLIRStage, "_convert", interrupt)
    with triton_linear.enabled(strict=True):
        ours()
    delays += [took[0] * n / 15 for n in range(30, 0, -1)]
    heard = 0
    with warnings.catch_warnings(), triton_linear.enabled() as reports:
        warnings.simplefilter("error")
        for _ in range(30):
            try:
                assert ours().llir == expected
            except KeyboardInterrupt:
                heard += 1
    assert all(report.error is None for report in reports)
    return heard


def test_an_interrupt_of_a_walk_is_not_made_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bindings make a RuntimeError of what a callback raises."""
    root = mlir_adapter.Module.parse("module {}", bridge.upstream_context())
    monkeypatch.setattr(mlir_adapter, "WalkResult", property())  # what the callback looks up
    with pytest.raises(RuntimeError, match="AttributeError"):
        mlir_adapter.operations(root.operation)

    class Interrupting:
        @property
        def ADVANCE(self) -> object:
            raise KeyboardInterrupt

    monkeypatch.setattr(mlir_adapter, "WalkResult", Interrupting())
    with pytest.raises(KeyboardInterrupt):
        mlir_adapter.operations(root.operation)


def depth() -> int:
    frame, found = sys._getframe(), 0
    while frame is not None:
        frame, found = frame.f_back, found + 1  # type: ignore[assignment]
    return found


def with_room(calls: int, action: Callable[[], Any]) -> Any:
    """`action`, called where so many calls are left to the recursion limit."""

    def down(left: int) -> Any:
        return action() if left <= 0 else down(left - 1)

    return down(sys.getrecursionlimit() - depth() - calls - 2)


def test_near_the_recursion_limit_the_kernel_is_stock_tritons(tmp_path: Path) -> None:
    """A TTGIR file takes stock Triton few calls; from Python its own front end takes more than the plugin."""
    plain = compile_kernel(transpose, width=32)
    file = tmp_path / "kernel.ttgir"
    file.write_text(plain.asm["ttgir"])

    def compile_file() -> Any:
        return triton.compile(str(file), target=CUDA)

    expected = assembly(compile_file())
    with pytest.raises(RecursionError):
        with_room(6, compile_file)
    outcomes = set()
    with warnings.catch_warnings(), triton_linear.enabled(occupancy=False) as reports:
        warnings.simplefilter("ignore", FallbackWarning)
        compile_file()
        for calls in range(34, 70, 4):
            made = with_room(calls, compile_file)
            outcomes.add(reports[-1].outcome)
            assert (assembly(made) == expected) == (reports[-1].outcome is Outcome.FAILED)
    assert outcomes == {Outcome.FAILED, Outcome.CONVERTED}


# Size


def large(conversions: int, gpu: str = "cuda:90") -> str:
    """A module with so many conversions one after the other, and twice as many other operations."""
    rows = (
        "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
    )
    columns = (
        "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
    )
    lines, last, kinds = [], "%x", (f"tensor<32x32xf32, {rows}>", f"tensor<32x32xf32, {columns}>")
    for n in range(conversions):
        here, there = kinds[n % 2], kinds[1 - n % 2]
        lines += [
            f"%a{n} = arith.addf {last}, {last} : {here}",
            f"%b{n} = arith.mulf %a{n}, {last} : {here}",
            f"%c{n} = ttg.convert_layout %b{n} : {here} -> {there}",
        ]
        last = f"%c{n}"
    pointers = [kind.replace("xf32,", "x!tt.ptr<f32>,") for kind in kinds]
    return "\n".join(
        [
            'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
            f'ttg.target = "{gpu}", "ttg.threads-per-warp" = 32 : i32}} {{',
            "tt.func public @large(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {",
            f"%ps = tt.splat %p : !tt.ptr<f32> -> {pointers[0]}",
            f"%pe = tt.splat %p : !tt.ptr<f32> -> {pointers[conversions % 2]}",
            f"%x = tt.load %ps : {pointers[0]}",
            *lines,
            f"tt.store %pe, {last} : {pointers[conversions % 2]}",
            "tt.return",
            "}",
            "}",
        ]
    )


def test_a_very_large_module_takes_time_in_proportion() -> None:
    """1,200 and 4,800 operations: four times as many may take eight times as long, not sixteen."""
    seconds = []
    for conversions in (400, 1600):
        module = bridge.parse_triton(large(conversions), bridge.triton_context())
        begun = time.process_time()
        upstream = bridge.to_upstream(module, bridge.upstream_context())
        made = attempts.prepare(upstream, PipelineOptions(), targets.target("cuda:90"))
        assert made.differs
        bridge.parse_triton(next(made.attempts()).text, module.context)
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 8 * seconds[0] + 0.5, seconds
    assert seconds[1] < 20


if __name__ == "__main__":
    print(interrupts())
