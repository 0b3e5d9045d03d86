"""Hooks of other people's, encodings that nobody knows, and files that are no TTGIR."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fault_kernels
import plugin_support as support
import pytest
from fault_kernels import lowered
from plugin_support import CUDA, HIP, assembly, compile_kernel, transpose, triton_state
from triton import knobs

import triton_linear
from triton_linear.dialect import encodings
from triton_linear.passes.framework import layouts
from triton_linear.report import Outcome


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(knobs.compilation, "always_compile", True)
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    yield
    triton_linear.uninstall()


# Hooks


class Hook:
    """A hook that does something to the stages, over one that it found, if it is polite."""

    def __init__(self, does: Any, over: Any = None) -> None:
        self.does = does
        self.over = over

    def __call__(self, *arguments: Any) -> Any:
        if not arguments:
            return "their key", "their hash"
        if self.over is not None:
            self.over(*arguments)
        return self.does(arguments[1])


def wrapped(stages: Any) -> None:
    stock = stages["llir"]
    stages["llir"] = lambda src, metadata: stock(src, metadata) + "\n; theirs\n"


def without_llir(stages: Any) -> None:
    del stages["llir"], stages["ptx"], stages["cubin"]
    stages["cubin"] = lambda src, metadata: (metadata.update(name="transpose", shared=0), b"theirs")[1]


def no_assembler(stages: Any) -> None:
    stages["cubin"] = lambda src, metadata: b"theirs"


def trips(stages: Any) -> None:
    raise LookupError("their hook tripped")


@pytest.mark.parametrize("order", ["before", "after", "after, over ours"])
def test_a_hook_that_wraps_the_stage(order: str) -> None:
    """Where ours comes last it wraps theirs, else theirs wraps ours; both run, and one conversion is ours."""
    if order == "before":
        knobs.runtime.add_stages_inspection_hook = Hook(wrapped)
    triton_linear.install(strict=True)
    ours: Any = knobs.runtime.add_stages_inspection_hook
    if order != "before":
        knobs.runtime.add_stages_inspection_hook = Hook(wrapped, ours if "over" in order else None)
    kernel = compile_kernel(transpose, width=32)
    report = triton_linear.last_report()
    assert kernel.asm["llir"].count("; theirs") == 1
    assert report is not None and (report.outcome, report.emitted) == (Outcome.CONVERTED, 1)
    triton_linear.uninstall()
    kept: Any = knobs.runtime.add_stages_inspection_hook
    assert isinstance(kept, Hook) and kept.does is wrapped
    assert compile_kernel(transpose, width=32).asm["llir"].count("; theirs") == 1
    assert triton_linear.last_report() is report


@pytest.mark.parametrize("installed", ["before", "after"])
@pytest.mark.parametrize("does", [without_llir, no_assembler])
def test_a_hook_that_replaces_stages(does: Any, installed: str) -> None:
    """What the plugin would wrap may not be there, or give something else than it does."""
    if installed == "before":
        knobs.runtime.add_stages_inspection_hook = Hook(does)
    with warnings.catch_warnings(), triton_linear.enabled(strict=True) as reports:
        warnings.simplefilter("error")
        if installed == "after":
            knobs.runtime.add_stages_inspection_hook = Hook(does)
        assert compile_kernel(transpose, width=32).asm["cubin"] == b"theirs"
    assert len(reports) == (does is no_assembler)


@pytest.mark.parametrize("installed", ["before", "after"])
def test_a_hook_that_raises_raises(installed: str) -> None:
    """As it does without the plugin, and nothing is left behind."""
    before = triton_state()
    if installed == "before":
        knobs.runtime.add_stages_inspection_hook = Hook(trips)
    with warnings.catch_warnings(), triton_linear.enabled():
        warnings.simplefilter("error")
        if installed == "after":
            knobs.runtime.add_stages_inspection_hook = Hook(trips)
        with pytest.raises(LookupError, match="their hook tripped"):
            compile_kernel(transpose, width=32)
    knobs.runtime.add_stages_inspection_hook = None
    assert triton_state() == before
    with triton_linear.enabled(strict=True) as reports:
        compile_kernel(transpose, width=32)
    assert reports[0].outcome is Outcome.CONVERTED


def test_a_stage_of_theirs_that_raises_is_their_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried with the plugin's module and with Triton's own, then raised."""

    def broken(stages: Any) -> None:
        stages["llir"] = lambda src, metadata: trips(None)

    knobs.runtime.add_stages_inspection_hook = Hook(broken)
    with warnings.catch_warnings(), triton_linear.enabled() as reports:
        warnings.simplefilter("error")
        with pytest.raises(LookupError, match="their hook tripped"):
            compile_kernel(transpose, width=32)
    assert reports[0].outcome is Outcome.FAILED


# Encodings


def forget_encodings() -> None:
    for cache in (encodings.parse, encodings._layout_of, layouts._tensor, layouts._memory):
        cache.cache_clear()


@pytest.fixture
def unknown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An encoding of Triton's that we have never heard of."""
    name: str = f"#{request.param}"
    known = {key: value for key, value in encodings._CLASSES.items() if key != name}
    assert len(known) < len(encodings._CLASSES)
    monkeypatch.setattr(encodings, "_CLASSES", known)
    forget_encodings()
    yield name
    monkeypatch.undo()
    forget_encodings()


@pytest.mark.parametrize("unknown", ["ttg.blocked"], indirect=True)
@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_conversions_of_unknown_encodings_are_left_to_triton(unknown: str, target: Any) -> None:
    source = support.source(transpose, 32)
    plain = lowered(source, target, {}, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = lowered(source, target, {}, {"strict": True})
    assert made.llir == plain.llir
    assert made.report is not None and made.report.outcome is Outcome.LEFT
    assert [f"unknown encoding '{unknown}'" in c.detail for c in made.report.left] == [True]


@pytest.mark.parametrize(
    ("unknown", "name", "gpu"),
    [
        ("ttg.swizzled_shared", "carried", "hip:gfx942"),
        ("ttg.nvmma_shared", "carried", "cuda:90"),
        ("ttg.amd_mfma", "carried", "hip:gfx942"),
        ("ttg.nvidia_mma", "carried", "cuda:90"),
        ("ttg.slice", "in_branches", "cuda:80"),
    ],
    indirect=["unknown"],
)
def test_beside_unknown_encodings_the_rest_is_as_ever(unknown: str, name: str, gpu: str) -> None:
    target = fault_kernels.TARGETS[gpu]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = lowered(fault_kernels.source(name, target), target, {}, {"strict": True})
    report = made.report
    assert report is not None and report.error is None
    assert all("unknown encoding" in conversion.detail for conversion in report.left)
    assert len(report.conversions) > 0


# Files


def test_a_cached_file_that_is_broken_is_tritons_error(tmp_path: Path) -> None:
    """Given to `triton.compile`: the same error with the plugin and without."""
    import triton

    file = tmp_path / "kernel.ttgir"
    file.write_text(assembly_source()[:-40])
    raised = []
    for plugin in (False, True):
        if plugin:
            triton_linear.install()
        with pytest.raises(RuntimeError) as error:
            triton.compile(str(file), target=CUDA)
        raised.append(str(error.value))
    assert raised[0] == raised[1]


def assembly_source() -> str:
    kernel = compile_kernel(transpose, width=32)
    assert assembly(kernel)
    return str(kernel.asm["ttgir"])
