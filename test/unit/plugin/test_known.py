"""What compiles have found out is kept between processes: found where it holds, and never in the way."""

from __future__ import annotations

import errno
import importlib.util
import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import triton
from assign_support import path_of
from plugin_processes import printed
from plugin_support import CUDA, HIP
from triton import knobs
from triton.compiler import ASTSource

import triton_linear
from triton_linear import known
from triton_linear.dialect import store
from triton_linear.hook import pinned
from triton_linear.passes import attempts
from triton_linear.passes.options import PipelineOptions
from triton_linear.ptxas.registers import Assembler, KeptDirective, entry_name
from triton_linear.setting import Options

READ, WRITE = store.read, store.write
KERNEL = path_of("attention_fp8")
"""ptxas takes some more than 128 registers a thread for it, and it is assembled again."""
SOURCE = """
import triton
import triton.language as tl


@triton.jit
def {name}(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.arange(0, BM)
    tile = tl.load(x + rows[:, None] * BN + tl.arange(0, BN)[None, :])
    tl.store(out + tl.arange(0, BN)[:, None] * BM + rows[None, :], tl.trans(tile))
    tl.store(out + rows, tl.sum(tile, 1))
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)


def written(folder: Path, name: str, lines: int = 0) -> Any:
    """The kernel in a file of its own, behind so many lines."""
    path = folder / f"{name}_{lines}.py"
    path.write_text("\n" * lines + SOURCE.format(name=name))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def made(kernel: Any, target: Any = CUDA, **options: Any) -> tuple[Any, Any]:
    """A kernel, or a file of TTGIR, as it is compiled where Triton's own cache is empty; and the report."""
    root = Path(os.environ["TRITON_CACHE_DIR"])
    for path in root.iterdir():
        if path.is_dir() and path.name != store.FOLDER:
            shutil.rmtree(path)
    source = kernel
    if not isinstance(kernel, Path):
        signature = {"x": "*fp16", "out": "*fp16", "BM": "constexpr", "BN": "constexpr"}
        source = ASTSource(kernel, signature, constexprs={"BM": 64, "BN": 64})
    else:
        source = str(kernel)
    with triton_linear.enabled(strict=True, **options) as reports:
        compiled = triton.compile(source, target=target)
    return compiled, reports[-1]


def entries() -> list[Path]:
    return [path for path in Path(os.environ["TRITON_CACHE_DIR"], store.FOLDER).rglob("*") if path.is_file()]


def code(compiled: Any) -> dict[str, Any]:
    return {name: compiled.asm[name] for name in ("llir", "ptx", "cubin", "amdgcn") if name in compiled.asm}


def facts(report: Any) -> Any:
    return replace(report, seconds={})


def no_passes(*_: Any, **__: Any) -> Any:
    raise AssertionError("the passes ran")


@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_what_is_known_needs_no_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Any) -> None:
    kernel = written(tmp_path, "turned")
    first, report = made(kernel, target)
    assert "passes" in report.seconds
    monkeypatch.setattr(attempts, "prepare", no_passes)
    again, told = made(kernel, target)
    assert code(again) == code(first)
    assert facts(told) == facts(report)
    assert "passes" not in told.seconds


def test_names_and_places_are_those_of_the_kernel_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(written(tmp_path, "turned"))
    other = written(tmp_path, "a_kernel_of_another_name", lines=7)
    wanted, report = made(other, cache=False)
    monkeypatch.setattr(attempts, "prepare", no_passes)
    found, told = made(other)
    assert code(found) == code(wanted)
    assert facts(told) == facts(report)
    assert {one.location.partition(":")[0] for one in told.conversions} == {
        str(tmp_path / "a_kernel_of_another_name_7.py")
    }


def test_without_cache_nothing_is_kept_or_taken(tmp_path: Path) -> None:
    kernel = written(tmp_path, "turned")
    made(kernel, cache=False)
    assert not entries()
    made(kernel)
    assert entries()
    _, report = made(kernel, cache=False)
    assert "passes" in report.seconds


@pytest.mark.parametrize("options", [{"scratch_limit": 0}, {"assign": False}, {"exact": True}], ids=str)
def test_other_options_have_entries_of_their_own(tmp_path: Path, options: dict[str, Any]) -> None:
    kernel = written(tmp_path, "turned")
    made(kernel)
    _, report = made(kernel, **options)
    assert "passes" in report.seconds


@pytest.mark.parametrize("harm", ["empty", "short", "flipped", "folder"])
def test_a_damaged_entry_counts_as_none(tmp_path: Path, harm: str) -> None:
    kernel = written(tmp_path, "turned")
    first, _ = made(kernel)
    for path in entries():
        data = path.read_bytes()
        if harm == "folder":
            path.unlink()
            path.mkdir()
        else:
            middle = len(data) // 2
            flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            path.write_bytes({"empty": b"", "short": data[:middle], "flipped": flipped}[harm])
    again, report = made(kernel)
    assert "passes" in report.seconds
    assert code(again) == code(first)


def test_a_folder_that_cannot_be_written_loses_no_kernel(tmp_path: Path) -> None:
    (tmp_path / store.FOLDER).write_text("a file")
    compiled, report = made(written(tmp_path, "turned"))
    assert report.error is None
    assert compiled.asm["cubin"]


def test_where_more_versions_are_needed_than_are_kept_the_passes_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = written(tmp_path, "turned")
    first, report = made(kernel)
    read = known.Known.read

    def without_room(entry: known.Known) -> known.PassResults | None:
        found = read(entry)
        assert found is not None
        (one,) = found.made
        return replace(found, made=(replace(one, room=0, scratch="scratch that takes too much"),))

    monkeypatch.setattr(known.Known, "read", without_room)
    again, told = made(kernel)
    assert "passes" in told.seconds
    assert code(again) == code(first)
    assert told.remarks == report.remarks


def test_a_message_that_looks_like_a_place_hides_no_operand() -> None:
    text = '"tt.assert"({}) <{{message = ":3:4 bad"}}> : (i1) -> () loc("kernel.py":7:8)'
    one, other = (
        known.Known.of(text.format(value), "k", "cuda:90", PipelineOptions()) for value in ("%1", "%2")
    )
    assert one.name != other.name
    assert one.places == ('"kernel.py":7:8',)
    elsewhere = known.Known.of(text.format("%1").replace("7:8", "9:8"), "k", "cuda:90", PipelineOptions())
    assert elsewhere.name == one.name
    assert elsewhere._from_entry(one._to_entry(text.format("%7"))) == text.format("%7").replace("7:8", "9:8")


def test_a_folder_for_reading_only_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    name = store.digest("kept")
    store.write(name, {"kept": 1})
    monkeypatch.setattr(os, "utime", refused)
    assert store.read(name) == {"kept": 1}


def test_entries_are_readable_as_other_files_are() -> None:
    store.write(store.digest("kept"), {"kept": 1})
    found = os.umask(0o022)
    os.umask(found)
    assert [path.stat().st_mode & 0o777 for path in entries()] == [0o666 & ~found]


def test_what_cannot_be_removed_keeps_no_folder_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FOLDER_BYTES", 2000)
    monkeypatch.setattr(store, "ENTRY_BYTES", 2000)
    names = ["0" + store.digest(str(number))[1:] for number in range(60)]
    store.write(names[0], {"kept": "x"})
    stays = entries()[0].parent / "folder"
    stays.mkdir()
    os.utime(stays, (1, 1))
    for name in names[1:]:
        store.write(name, {"kept": name})
    assert sum(path.stat().st_size for path in entries()) <= 2000


def test_what_is_too_large_or_no_json_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "ENTRY_BYTES", 100)
    store.write(store.digest("large"), {"kept": store.digest("a") * 9 + store.digest("b") * 9})
    store.write(store.digest("none"), {"kept": {1, 2}})
    assert entries() == []


def test_a_process_that_finds_what_it_needs_imports_no_mlir(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(SOURCE.format(name="turned"))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, triton, triton_linear\n"
        "from triton.backends.compiler import GPUTarget\n"
        "from triton.compiler import ASTSource\n"
        "from kernel import turned\n"
        "signature = {'x': '*fp16', 'out': '*fp16', 'BM': 'constexpr', 'BN': 'constexpr'}\n"
        "source = ASTSource(turned, signature, constexprs={'BM': 64, 'BN': 64})\n"
        "with triton_linear.enabled(strict=True) as reports:\n"
        "    triton.compile(source, target=GPUTarget('cuda', 90, 32))\n"
        "print(reports[-1].ours > 0, 'mlir' in sys.modules)\n"
    )
    said = [printed(script, TRITON_ALWAYS_COMPILE="1").split() for _ in range(2)]
    assert said == [["True", "True"], ["True", "False"]]


# Registers


def test_what_was_decided_about_registers_costs_one_assembly(monkeypatch: pytest.MonkeyPatch) -> None:
    first, report = made(KERNEL)
    assert "assemble again" in report.seconds
    assembled = []
    one = Assembler._assembled

    def counted(self: Assembler, text: str, metadata: Any) -> Any:
        assembled.append(text)
        return one(self, text, metadata)

    monkeypatch.setattr(Assembler, "_assembled", counted)
    again, told = made(KERNEL)
    assert code(again) == code(first)
    assert assembled == [first.asm["ptx"]]
    assert "assemble again" not in told.seconds


def test_a_decision_that_would_spill_more_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = made(KERNEL)
    read = store.read_as

    def less(name: str, kind: type[Any], *rest: Any) -> Any:
        found = read(name, kind, *rest)
        return KeptDirective(".maxnreg 64", found.stack) if isinstance(found, KeptDirective) else found

    monkeypatch.setattr(store, "read_as", less)
    again, report = made(KERNEL)
    assert code(again) == code(first)
    assert "assemble again" in report.seconds


def test_ptx_of_another_name_or_line_is_the_same_and_of_another_instruction_is_not() -> None:
    ptx = (
        "\t// .globl\t{name}    // -- Begin function {name}\n            // @{name}\n"
        ".visible .entry {name}(\n.param .u64 {name}_param_0\n)\n"
        "{{\n\t.loc\t1 {line} 3\n\t{op}.s32 %r1, %r2;\n}}\n"
        '\t.file\t1 "/a/{line}.py"\n\t.section\t.debug_str\n\t{{\n.b8 {line}\n\t}}\n'
    )

    def named(name: str, line: int, op: str) -> str:
        return entry_name(ptx.format(name=name, line=line, op=op), name, "")

    assert named("add", 1, "add") == named("mul", 2, "add")
    assert named("add", 1, "add") != named("mul", 1, "mul")


def test_a_decision_depends_on_how_kernels_are_assembled_and_on_their_memory() -> None:
    """The bytes of shared memory and the columns of tensor memory are not in the PTX."""
    facts = ((1024, None), (2048, None), (1024, 64))
    names = {
        entry_name("ptx", "k", how, *each) for how in ("cuda:90", "cuda:90{registers_near=0}") for each in facts
    }
    assert len(names) == 2 * len(facts)


def test_other_thresholds_make_decisions_of_their_own() -> None:
    """Here one with which no kernel is near enough to a bound; the passes make the same PTX."""

    def bounded(thresholds: str) -> bool:
        with knobs.compilation.scope(), pinned(Options(strict=True, thresholds=thresholds)):
            knobs.compilation.always_compile = True
            return ".maxnreg" in triton.compile(str(KERNEL), target=CUDA).asm["ptx"]

    assert [bounded(each) for each in ("", "registers_near=0", "")] == [True, False, True]


def test_other_options_of_ptxas_make_decisions_of_their_own() -> None:
    made(KERNEL)
    with knobs.compilation.scope(), pinned(Options(strict=True)) as reports:
        knobs.compilation.always_compile = True
        triton.compile(str(KERNEL), target=CUDA, options={"ptx_options": "--warn-on-spills"})
    assert "assemble again" in reports[-1].seconds


# The store


def test_a_store_keeps_within_its_bound_what_was_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FOLDER_BYTES", 4000)
    draw = random.Random(1)
    names = [f"0{number:03}" for number in range(40)]
    for at, name in enumerate(names):
        store.write(name, {"text": draw.randbytes(200).hex()})
        os.utime(Path(os.environ["TRITON_CACHE_DIR"], store.FOLDER, "0", name), (at, at))
    sizes = [path.stat().st_size for path in entries()]
    assert 1000 < sum(sizes) <= 4000
    left = [name for name in names if store.read(name) is not None]
    assert left == names[-len(left) :]


def test_who_reads_while_many_write_finds_an_entry_whole() -> None:
    def write(number: int) -> None:
        store.write("0name", {"text": str(number) * 20_000})

    store.write("0name", {"text": ""})
    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write, number % 10) for number in range(200)]
        while not all(one.done() for one in writes):
            entry = store.read("0name")
            assert entry is not None
            assert len(set(entry["text"])) <= 1
    assert len(entries()) == 1
