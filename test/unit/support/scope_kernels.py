"""Kernels moved into a warp-specialised region, and kernels of rows and columns for regions and clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FUNCTION = re.compile(r"^  tt\.func public @\w+\((?P<given>.*)\) (?:attributes \{.*\} )?\{", re.MULTILINE)
_GIVEN = re.compile(r"(?P<name>%\w+): (?P<type>!tt\.ptr<[^>]*>|\w+)")
_NUM_WARPS = re.compile(r'"ttg\.num-warps" = (?P<number>\d+)')

_LOCATION = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")

ROWS, COLUMNS = "rows", "columns"


def in_partition(text: str, gpu: str, own_warps: int) -> str:
    """A module of one function, with all that it does in a partition of as many warps as it had; the kernel has
    `own_warps` besides, which do nothing."""
    text = "\n".join(_LOCATION.sub("", line) for line in text.splitlines() if not line.startswith("#loc"))
    function = _FUNCTION.search(text)
    assert function is not None
    warps = _NUM_WARPS.search(text)
    assert warps is not None
    given = [(found["name"], found["type"]) for found in _GIVEN.finditer(function["given"])]
    begin, end = function.end(), text.rindex("    tt.return")
    names, types = ([each[place] for each in given] for place in (0, 1))
    inside = ", ".join(f"{name}: {type_}" for name, type_ in given)
    outside = {name: f"%outer{number}" for number, name in enumerate(names)}
    header = text[:begin]
    for name, other in outside.items():
        header = header.replace(f"{name}: ", f"{other}: ")
    header = _NUM_WARPS.sub(f'"ttg.num-warps" = {own_warps}', header)
    header = re.sub(r'ttg\.target = "[^"]*"', f'ttg.target = "{gpu}"', header)
    lines = [
        header,
        f"    ttg.warp_specialize({', '.join(outside.values())})",
        "    default {\n      ttg.warp_yield\n    }",
        f"    partition0({inside}) num_warps({warps['number']}) {{{text[begin:end]}",
        f"      ttg.warp_return\n    }} : ({', '.join(types)}) -> ()",
        text[end:],
    ]
    return "\n".join(lines)


def crossing(
    own: int,
    partitions: Sequence[int] = (),
    ctas: Sequence[Sequence[int]] = (),
    gpu: str = "cuda:90",
    result: str = COLUMNS,
    own_converts: bool = True,
    ctas_between: Sequence[Sequence[int]] = (),
) -> str:
    """A kernel whose regions load rows, convert them back and forth, and store in the order of `result`.

    own: the warps of the kernel, or of a default region if there are `partitions`. own_converts: whether these
    convert anything. ctas: the basis vectors of a cluster's CTAs; ctas_between: those of what is converted to.
    """
    header = (
        f'module attributes {{"ttg.num-ctas" = {1 << len(ctas)} : i32, "ttg.num-warps" = {own} : i32, '
        f'"ttg.threads-per-warp" = 32 : i32, ttg.target = "{gpu}"}} {{'
    )
    aligned = "{tt.divisibility = 16 : i32}"
    types = "!tt.ptr<f32>", "!tt.ptr<f32>", "i32"
    given = ", ".join(f"{name}: {type_}" for name, type_ in zip(("%p", "%q", "%n"), types, strict=True))
    promised = ", ".join(f"%{name}: {type_} {aligned}" for name, type_ in zip("abc", types, strict=True))
    names = {"%p": "%a", "%q": "%b", "%n": "%c"}
    lines = [header, f"tt.func public @crossing({promised}) {{"]
    between = ctas_between or ctas
    body = _body(own, ctas, result, "d", own_converts, between)
    home = [re.sub(r"%[pqn]\b", lambda name: names[name[0]], line) for line in body]
    if partitions:
        lines += ["ttg.warp_specialize(%a, %b, %c)", "default {", *home, "ttg.warp_yield", "}"]
        for number, warps in enumerate(partitions):
            lines += [
                f"partition{number}({given}) num_warps({warps}) {{",
                *_body(warps, ctas, result, f"k{number}_", True, between),
            ]
            lines += ["ttg.warp_return", "}"]
        lines[-1] += f" : ({', '.join(types)}) -> ()"
    else:
        lines += home
    return "\n".join([*lines, "tt.return", "}", "}"]) + "\n"


def blocked(warps: int, ctas: Sequence[Sequence[int]], rows_first: bool) -> str:
    """Rows or columns over the lanes and warps."""
    cga = f", CGALayout = {[list(basis) for basis in ctas]}" if ctas else ""
    if rows_first:
        sides = f"sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [{warps}, 1], order = [1, 0]"
    else:
        sides = f"sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, {warps}], order = [0, 1]"
    return f"#ttg.blocked<{{{sides}{cga}}}>"


def _body(
    warps: int,
    ctas: Sequence[Sequence[int]],
    result: str,
    tag: str,
    converts: bool,
    ctas_between: Sequence[Sequence[int]],
) -> list[str]:
    rows = blocked(warps, ctas, True)
    between = blocked(warps, ctas_between, False) if converts else rows
    tensor, other = f"tensor<64x64xf32, {rows}>", f"tensor<64x64xf32, {between}>"
    pointers = f"tensor<64x64x!tt.ptr<f32>, {rows}>"
    lines = [*_addresses(f"{tag}l", "%p", rows, True), f"%x{tag} = tt.load %at{tag}l : {pointers}"]
    given = "x"
    if converts:
        lines.append(f"%y{tag} = ttg.convert_layout %x{tag} : {tensor} -> {other}")
        given = "y"
    lines.append(f"%z{tag} = arith.addf %{given}{tag}, %{given}{tag} : {other}")
    given = "z"
    if converts:
        lines.append(f"%w{tag} = ttg.convert_layout %z{tag} : {other} -> {tensor}")
        given = "w"
    lines += _addresses(f"{tag}s", "%q", rows, result == ROWS)
    return [*lines, f"tt.store %at{tag}s, %{given}{tag} : {pointers}"]


def _addresses(tag: str, base: str, layout: str, by_rows: bool) -> list[str]:
    """Pointers to elements whose rows, or columns, lie one after another."""
    down, side = (f"#ttg.slice<{{dim = {axis}, parent = {layout}}}>" for axis in (1, 0))
    whole, pointers = f"tensor<64x64xi32, {layout}>", f"tensor<64x64x!tt.ptr<f32>, {layout}>"
    far, near = ("r", "c") if by_rows else ("c", "r")
    lines = []
    for name, slice_, shape in (("r", down, "64x1"), ("c", side, "1x64")):
        axis = 1 if name == "r" else 0
        one, one_wide = f"tensor<64xi32, {slice_}>", f"tensor<{shape}xi32, {layout}>"
        lines += [
            f"%{name}{tag} = tt.make_range {{end = 64 : i32, start = 0 : i32}} : {one}",
            f"%{name}e{tag} = tt.expand_dims %{name}{tag} {{axis = {axis} : i32}} : {one} -> {one_wide}",
            f"%{name}b{tag} = tt.broadcast %{name}e{tag} : {one_wide} -> {whole}",
        ]
    return [
        *lines,
        f"%n{tag} = tt.splat %n : i32 -> {whole}",
        f"%m{tag} = arith.muli %{far}b{tag}, %n{tag} : {whole}",
        f"%o{tag} = arith.addi %m{tag}, %{near}b{tag} : {whole}",
        f"%s{tag} = tt.splat {base} : !tt.ptr<f32> -> {pointers}",
        f"%at{tag} = tt.addptr %s{tag}, %o{tag} : {pointers}, {whole}",
    ]
