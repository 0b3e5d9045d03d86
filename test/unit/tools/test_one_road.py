"""The plugin, `verify` and `triton-linear-opt --linear-pipeline` give Triton the same module, byte for byte."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from assign_support import DATA, MODULES, path_of
from filled_kernels import filled_kernel

from triton_linear.dialect import bridge, libtriton
from triton_linear.examples import specs
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.target import targets
from triton_linear.passes import attempts
from triton_linear.setting import Options, Setting
from triton_linear.stage import LLIRStage
from triton_linear.tools.opt import command as opt
from triton_linear.tools.support.backend import lower, ttgir_of
from triton_linear.tools.support.compile import LOWERING, CompiledKernel, compile_text
from triton_linear.tools.verify.command import verified

TARGETS = ("cuda:90", "hip:gfx942")
EXAMPLES = [
    (name, spec.name)
    for offset, name in enumerate(TARGETS)
    for spec in specs(gpu_target(name))[offset :: 2 * len(TARGETS)]
]


def by_plugin(path: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The text that the plugin's stage has compiled; None where that is the module as it was."""
    module = bridge.parse_triton(path, bridge.triton_context())
    target = target_of(path)
    given: list[tuple[str, Any]] = []
    compiled: list[Any] = []
    parse = libtriton.parse_triton

    def spied(source: Any, context: Any) -> Any:
        given.append((source, parse(source, context)))
        return given[-1][1]

    def stock(src: Any, metadata: Any) -> str:
        compiled.append(src)
        metadata["shared"] = lower(src, target, "llvm").metadata["shared"]
        return ""

    with monkeypatch.context() as patch:
        patch.setattr(libtriton, "parse_triton", spied)
        LLIRStage(stock, target, Setting(Options(strict=True)))(module, {})
    if compiled[-1] is module:
        return None
    text, last = given[-1]
    assert compiled[-1] is last
    return text


def target_of(path: Path) -> str:
    """The target that a file says it is for."""
    (name,) = set(re.findall(r'ttg\.target"? = "([^"]+)"', path.read_text()))
    return name


def in_own_words(path: Path, folder: Path) -> Path:
    """A file that libtriton reads as it stands, so that places in it have its name."""
    text = path.read_text()
    if (readable := bridge.readable(text)) == text:
        return path
    (folder := folder / "own words").mkdir(exist_ok=True)
    own = folder / path.name
    own.write_text(readable)
    return own


def by_tools(path: Path, name: str | None = None) -> CompiledKernel:
    """What `verify` has of the only kernel of a file, which may go by another name."""
    (kernel,) = compile_text(path.read_text(), name or str(path), None, "llvm", lenient=True).kernels
    assert kernel.failure is None
    return kernel


def by_opt(path: Path, folder: Path) -> str:
    """What `triton-linear-opt` writes of a file."""
    output = folder / "out.ttgir"
    assert opt.main([str(path), "--linear-pipeline", "--emit=ttgir", "-o", str(output)]) == 0
    return output.read_text()


def printed(source: str | Path) -> str:
    """A module as libtriton prints it, without locations."""
    return str(bridge.parse_triton(source, bridge.triton_context()).str_nodebug())


def check(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compare the three roads of a file; whether the plugin changes anything."""
    own = in_own_words(path, folder)
    text, kernel, written = by_plugin(own, monkeypatch), by_tools(path, str(own)), by_opt(path, folder)
    if text is None:
        assert not kernel.stubs
        assert printed(kernel.embedded) == printed(path)
        assert written == printed(path)
        return False
    assert kernel.embedded == text
    assert written == printed(text)
    assert written != printed(path)
    return True


@pytest.mark.parametrize("path", MODULES[::16], ids=lambda path: str(path.relative_to(DATA).with_suffix("")))
def test_modules(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(path, tmp_path, monkeypatch)


@pytest.mark.parametrize(("target", "name"), EXAMPLES)
def test_examples(target: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = gpu_target(target)
    (spec,) = (spec for spec in specs(gpu) if spec.name == name)
    path = tmp_path / f"{name}.ttgir"
    path.write_text(str(ttgir_of(spec.source(), gpu, spec.options)))
    assert check(path, tmp_path, monkeypatch)


PLAIN = """
#lines = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @doubled(%p: tensor<512x!tt.ptr<f32>, #lines>) {
    %x = tt.load %p : tensor<512x!tt.ptr<f32>, #lines>
    %y = arith.addf %x, %x : tensor<512xf32, #lines>
    tt.store %p, %y : tensor<512x!tt.ptr<f32>, #lines>
    tt.return
  }
}
"""
"""Nothing concerns the pipeline."""
CLUSTER = """
#a = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[1]]
}>
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[1]]
}>
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @spread(%p: tensor<1024x!tt.ptr<f32>, #a>, %q: tensor<1024x!tt.ptr<f32>, #b>) {
    %x = tt.load %p : tensor<1024x!tt.ptr<f32>, #a>
    %y = ttg.convert_layout %x : tensor<1024xf32, #a> -> tensor<1024xf32, #b>
    tt.store %q, %y : tensor<1024x!tt.ptr<f32>, #b>
    tt.return
  }
}
"""
"""Each CTA of the cluster converts its half."""


@pytest.mark.parametrize(("text", "touched"), [(PLAIN, False), (CLUSTER, True)], ids=["plain", "cluster"])
def test_what_the_plugin_touches(
    text: str, touched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.ttgir"
    path.write_text(text)
    assert check(path, tmp_path, monkeypatch) == touched


def kept_apart(monkeypatch: pytest.MonkeyPatch, budget: int | None = None) -> list[bool]:
    """Whether scratch was kept apart in each text that is made; `budget`: what it may take then."""
    found: list[bool] = []
    embed = attempts.embed

    def counted(*arguments: Any, apart: bool, sparing: bool) -> Any:
        found.append(apart)
        made = embed(*arguments, apart=apart, sparing=sparing)
        return made if budget is None or not apart else replace(made, budget=budget)

    monkeypatch.setattr(attempts, "embed", counted)
    return found


def test_scratch_that_is_apart_beyond_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt on every road."""
    tried = kept_apart(monkeypatch, budget=0)
    assert check(path_of("attention_fp8"), tmp_path, monkeypatch)
    assert tried == [True, False] * 3


def full(room: int) -> str:
    """A kernel whose conversion has so many bytes of shared memory left."""
    gpu = "hip:gfx942"
    return filled_kernel(gpu, targets.target(gpu).max_shared_bytes - room, 64, 64, False)


def test_memory_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last attempt on every road."""
    tried = kept_apart(monkeypatch)
    path = tmp_path / "k.ttgir"
    path.write_text(full(room=4096))
    assert check(path, tmp_path, monkeypatch)
    assert tried == [True, False] * 3


def test_memory_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stock kernel on every road."""
    path, output = tmp_path / "k.ttgir", tmp_path / "out.ttgir"
    path.write_text(full(room=0))
    assert by_plugin(path, monkeypatch) is None
    kernel = by_tools(path)
    assert not kernel.stubs
    assert printed(kernel.embedded) == printed(path)
    assert opt.main([str(path), "--linear-pipeline", "--emit=ttgir", "-o", str(output)]) == 0
    assert output.read_text() == printed(path)
    assert "remark: the kernel is left to Triton: shared memory is exhausted" in capsys.readouterr().err


def test_another_road_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of("bn_nhwc-1")
    output = tmp_path / "out.ttgir"
    text = by_plugin(path, monkeypatch)
    (other,) = compile_text(path.read_text(), str(path), None, "llvm", LOWERING).kernels
    assert text is not None and other.embedded != text
    assert opt.main([str(path), "--linear-pipeline", "--no-assign", "--emit=ttgir", "-o", str(output)]) == 0
    assert output.read_text() != printed(text)


def test_each_kernel_of_a_module_has_its_own_attempt() -> None:
    """One has room for its scratch, the other has none and is Triton's."""
    roomy, tight = full(room=32768), full(room=0).replace("@full", "@tight")
    body = tight[tight.index("tt.func") : tight.rindex("}")]
    module = roomy[: roomy.rindex("}")] + body + "}\n"
    for text in (module, module.replace("@full", "@last").replace("@tight", "@full")):
        found = verified(text, "two.ttgir", None)
        kinds = [one.of.kind for one in found.conversions]
        assert sorted(kinds) == ["cta-shared", "stock"]
        assert found.ok and sum(one.verdict is not None for one in found.conversions) == 1
