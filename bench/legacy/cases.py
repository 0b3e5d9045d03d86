"""Conversions, and kernels that do one of them, as text that old and new Tritons read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.harness.ttgir import blocked, mma, of_old, slice_of, tensor

WARPS: Final = 4
NEW: Final = "new"
"""The flavour of TTGIR of Tritons that have linear layouts; others are called by their versions, `2.1`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One conversion; encodings are written as new Tritons do."""

    name: str
    shape: tuple[int, ...]
    element: str
    source: str
    destination: str

    @property
    def capability(self) -> int:
        """The oldest GPU that is asked for."""
        return 90 if "versionMajor = 3" in self.source + self.destination else 80

    def type(self, encoding: str, element: str | None = None) -> str:
        """The type of the tensor, or of one of other elements, in a layout."""
        return tensor(self.shape, element or self.element, encoding)


_ROW2 = blocked([1, 2], [2, 16], [4, 1], [1, 0])
_ROW4 = blocked([1, 4], [2, 16], [4, 1], [1, 0])
_ROW8 = blocked([1, 8], [4, 8], [4, 1], [1, 0])
_ROW16 = blocked([1, 16], [2, 16], [4, 1], [1, 0])
_COLUMN2 = blocked([2, 1], [16, 2], [1, 4], [0, 1])
_COLUMN4 = blocked([4, 1], [16, 2], [1, 4], [0, 1])
_COLUMN8 = blocked([8, 1], [8, 4], [1, 4], [0, 1])
_SCALARS = blocked([1, 1], [1, 32], [4, 1], [1, 0])
_LINE = blocked([1], [32], [4], [0])
_LINE4 = blocked([4], [32], [4], [0])
_MMA, _MMA_ROWS = mma(2, [2, 2], [16, 8]), mma(2, [4, 1], [16, 8])
_WGMMA = mma(3, [4, 1], [16, 128, 16])

CASES: Final = (
    Case("row to column, f32", (128, 64), "f32", _ROW4, _COLUMN4),
    Case("row to column, f16", (128, 64), "f16", _ROW8, _COLUMN8),
    Case("row to column, i8", (128, 64), "i8", _ROW8, _COLUMN8),
    Case("row to column, f64", (64, 64), "f64", _ROW2, _COLUMN2),
    Case("column to row, f32", (128, 64), "f32", _COLUMN4, _ROW4),
    Case("column to column, f32", (128, 64), "f32", _COLUMN4, _COLUMN8),
    Case("row to row, f32", (128, 64), "f32", _ROW4, _ROW8),
    Case("row to row, f16", (64, 128), "f16", _ROW4, blocked([1, 8], [2, 16], [2, 2], [1, 0])),
    Case("row to scalars, f16", (128, 64), "f16", _ROW8, _SCALARS),
    Case("wide rows to rows, f16", (64, 256), "f16", _ROW16, _ROW8),
    Case("small, row to column, f32", (16, 16), "f32", _ROW4, _COLUMN4),
    Case("narrow, row to column, f32", (64, 2), "f32", _ROW4, _COLUMN4),
    Case("mma to row, f32", (128, 128), "f32", _MMA, _ROW4),
    Case("mma to row, f16", (128, 64), "f16", _MMA_ROWS, _ROW8),
    Case("mma to column, f32", (128, 64), "f32", _MMA, _COLUMN4),
    Case("row to mma, f16", (128, 64), "f16", _ROW8, _MMA),
    Case("row to mma, f32", (64, 64), "f32", _ROW4, _MMA_ROWS),
    Case("wgmma to row, f32", (128, 128), "f32", _WGMMA, _ROW4),
    Case("wgmma to row, f16", (128, 128), "f16", _WGMMA, _ROW8),
    Case("slice to line, f32", (256,), "f32", slice_of(1, _ROW4), _LINE),
    Case("slice to slice, f32", (256,), "f32", slice_of(1, _ROW4), slice_of(0, _ROW4)),
    Case("slice of mma to line, f32", (128,), "f32", slice_of(1, _MMA_ROWS), _LINE),
    Case("line to line, f32", (512,), "f32", _LINE, _LINE4),
)


def kernel(case: Case, flavour: str) -> str:
    """A module with a kernel that loads a tensor in the source layout, converts it and stores it."""
    writer = _Kernel(case, flavour)
    pointers = writer.pointers("%p", case.source)
    loaded, old = case.type(case.source), flavour == "2.1"
    cached = " {cache = 1 : i32, evict = 1 : i32, isVolatile = false}" if old else ""
    pointer = f"!tt.ptr<{case.element}>"
    read = loaded if old else case.type(case.source, pointer)
    x = writer.line(f"tt.load {pointers}{cached} : {read}")
    result = case.type(case.destination)
    y = writer.line(f"ttg.convert_layout {x} : {f'({loaded})' if old else loaded} -> {result}")
    pointers = writer.pointers("%q", case.destination)
    cached = " {cache = 1 : i32, evict = 1 : i32}" if old else ""
    written = result if old else case.type(case.destination, pointer)
    body = "\n".join([*writer.lines, f"    tt.store {pointers}, {y}{cached} : {written}", "    tt.return"])
    target = f', "ttg.target" = "cuda:{case.capability}"' if flavour == NEW else ""
    arguments = ", ".join(f"{name}: {pointer} {{tt.divisibility = 16 : i32}}" for name in ("%p", "%q"))
    text = (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {WARPS} : i32, '
        f'"ttg.threads-per-warp" = 32 : i32{target}}} {{\n'
        f"  tt.func public @k({arguments}) {{\n{body}\n  }}\n}}\n"
    )
    if flavour == NEW:
        return text
    return of_old(text.replace("#ttg.nvidia_mma<", "#ttg.mma<") if old else text)


class _Kernel:
    """The lines of a kernel's body."""

    def __init__(self, case: Case, flavour: str) -> None:
        self.lines: list[str] = []
        self._case = case
        self._braces = ("<{", "}>") if flavour == NEW else ("{", "}")

    def line(self, text: str) -> str:
        """Append `%new = text`; the new name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"    {name} = {text}")
        return name

    def _op(self, name: str, operands: Sequence[tuple[str, str]], result: str, attributes: str = "") -> str:
        values, types = ", ".join(value for value, _ in operands), ", ".join(type_ for _, type_ in operands)
        properties = attributes and f"{self._braces[0]}{attributes}{self._braces[1]} "
        return self.line(f'"{name}"({values}) {properties}: ({types}) -> {result}')

    def pointers(self, base: str, encoding: str) -> str:
        """Pointers to the elements of the tensor, row by row."""
        pointer = f"!tt.ptr<{self._case.element}>"
        type_ = self._case.type(encoding, pointer)
        splat = self._op("tt.splat", [(base, pointer)], type_)
        offsets = self._offsets(encoding)
        return self._op("tt.addptr", [(splat, type_), (offsets, self._case.type(encoding, "i32"))], type_)

    def _range(self, size: int, encoding: str) -> str:
        return self._op(
            "tt.make_range", [], tensor([size], "i32", encoding), f"start = 0 : i32, end = {size} : i32"
        )

    def _offsets(self, encoding: str) -> str:
        shape = self._case.shape
        if len(shape) == 1:
            return self._range(shape[0], encoding)
        whole, parts = self._case.type(encoding, "i32"), []
        for dim, size in enumerate(shape):
            of_slice = slice_of(1 - dim, encoding)
            flat = (self._range(size, of_slice), tensor([size], "i32", of_slice))
            type_ = tensor([size, 1] if dim == 0 else [1, size], "i32", encoding)
            value = self._op("tt.expand_dims", [flat], type_, f"axis = {1 - dim} : i32")
            if dim == 0:
                stride = self._op("arith.constant", [], type_, f"value = dense<{shape[1]}> : {type_}")
                value = self._op("arith.muli", [(value, type_), (stride, type_)], type_)
            parts.append((self._op("tt.broadcast", [(value, type_)], whole), whole))
        return self._op("arith.addi", parts, whole)
