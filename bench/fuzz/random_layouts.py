"""Random pairs of distributed layouts, as encodings of TTGIR.

There are three families: permutations (every basis vector is a unit vector or zero), general F2 matrices (all
that `#ttg.linear` allows: basis vectors with one nonzero coordinate), and encodings of real kernels. The
destination is drawn independently, or made from the source by permuting basis vectors of registers, of
registers and lanes, or of everything, so that all kinds of plans occur.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from triton_linear.dialect import f2
from triton_linear.dialect.triton_versions import DEPENDENT_VECTORS, SUMS_OF_BITS, installed_release

ELEMENTS = (
    "i1",
    "i8",
    "f8E4M3FN",
    "f8E5M2",
    "f8E4M3FNUZ",
    "f8E5M2FNUZ",
    "i16",
    "f16",
    "bf16",
    "i32",
    "f32",
    "i64",
    "f64",
    "!tt.ptr<f16>",
)
MAX_TENSOR_BYTES = 64 * 1024
_COPIES = 0.2
"""The probability that the CTAs hold copies of each other in a blocked encoding."""

Maker = Callable[[random.Random, int, int, int], str]
"""Draws an encoding for numbers of lanes and warps, and a rank."""

# A basis vector: the dimension with a nonzero coordinate, and that coordinate; (0, 0) for a zero vector.
Vector = tuple[int, int]


@dataclass(frozen=True)
class Pair:
    """A conversion: a tensor type without an encoding, two encodings, and how they were drawn."""

    shape: tuple[int, ...]
    element: str
    source: str
    destination: str
    family: str

    def type(self, encoding: str) -> str:
        """The tensor type with one of the encodings."""
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}, {encoding}>"


@dataclass(frozen=True)
class Columns:
    """A distributed layout as basis vectors, which is what is drawn."""

    register: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...]
    block: tuple[Vector, ...] = ()

    def text(self, rank: int) -> str:
        """The `#ttg.linear` attribute."""

        def row(vector: Vector) -> str:
            dimension, by = vector
            return f"[{', '.join(str(by if d == dimension else 0) for d in range(rank))}]"

        def rows(vectors: Sequence[Vector]) -> str:
            return f"[{', '.join(map(row, vectors))}]"

        return (
            f"#ttg.linear<{{register = {rows(self.register)}, lane = {rows(self.lane)}, "
            f"warp = {rows(self.warp)}, block = {rows(self.block)}}}>"
        )


def _invertible(rng: random.Random, bits: int) -> list[int]:
    """A random basis of the space of vectors of `bits` bits."""
    columns: list[int] = []
    while len(columns) < bits:
        vector = rng.randrange(1, 1 << bits)
        if not f2.in_span(columns, vector):
            columns.append(vector)
    return columns


def _columns(rng: random.Random, dims: Sequence[int], counts: tuple[int, ...], general: bool) -> Columns:
    """A surjective layout with `dims[d]` bits in dimension d and `counts` register, lane, warp and, in
    clusters, block vectors. If these are too few, there are more of the last.
    """
    vectors: list[Vector] = []
    for dimension, bits in enumerate(dims):
        basis = _invertible(rng, bits) if general else [1 << bit for bit in range(bits)]
        vectors += [(dimension, by) for by in basis]
    dependent_taken = installed_release() in DEPENDENT_VECTORS
    while len(vectors) < sum(counts):
        dimension = rng.randrange(len(dims))
        dependent = general and dims[dimension] and rng.random() < 0.4 and dependent_taken
        vectors.append((dimension, rng.randrange(1 << dims[dimension]) if dependent else 0))
    if rng.random() < 0.8:
        rng.shuffle(vectors)
    left = iter(vectors)
    parts = [tuple(itertools.islice(left, count)) for count in counts[:-1]]
    return Columns(*(*parts, tuple(left)))


def _moved(rng: random.Random, source: Columns, scope: str, general: bool) -> Columns:
    """The source with the vectors of `scope` (registers, warp, cta) permuted, added and padded."""
    register, lane, warp = list(source.register), list(source.lane), list(source.warp)
    if len(register) < 5 and rng.random() < 0.3:
        register.append((0, 0))
    pool = register + (lane if scope != "registers" else []) + (warp if scope == "cta" else [])
    if rng.random() < 0.5:  # a few transpositions, as in real kernels
        for _ in range(rng.randint(1, 3) if pool else 0):
            i, j = rng.randrange(len(pool)), rng.randrange(len(pool))
            pool[i], pool[j] = pool[j], pool[i]
    else:
        rng.shuffle(pool)
    if general and len(pool) > 1:
        dependent_taken = installed_release() in DEPENDENT_VECTORS
        for _ in range(rng.randint(0, 4)):
            i, j = rng.sample(range(len(pool)), 2)
            if pool[i][0] == pool[j][0] and (pool[i][1] or dependent_taken):
                pool[i] = (pool[i][0], pool[i][1] ^ pool[j][1])
    register, pool = pool[: len(register)], pool[len(register) :]
    if scope != "registers":
        lane, pool = pool[: len(lane)], pool[len(lane) :]
    if scope == "cta":
        warp = pool
    return Columns(tuple(register), tuple(lane), tuple(warp), source.block)


def random_columns(
    rng: random.Random,
    shape: Sequence[int],
    lanes: int,
    warps: int,
    general: bool,
    like: Columns | None = None,
) -> Columns:
    """A layout of a tensor; `like` is one of the same tensor, a part of which may be permuted."""
    if like is not None and rng.random() < 0.6:
        return _moved(rng, like, rng.choice(("registers", "warp", "warp", "cta")), general)
    dims = [size.bit_length() - 1 for size in shape]
    threads = tuple(count.bit_length() - 1 for count in (lanes, warps))
    registers = min(max(0, sum(dims) - sum(threads)) + rng.choice((0, 0, 1, 1, 2)), 6)
    return _columns(rng, dims, (registers, *threads, 0), general)


def kernel_encoding(rng: random.Random, lanes: int, warps: int, shape: Sequence[int]) -> str:
    """An encoding as in real kernels; matrix encodings suit the number of lanes."""
    rank = len(shape)
    makers = _ANY_RANK + (_MATRIX[lanes] if rank == 2 else ())
    return rng.choice(makers)(rng, lanes, warps, rank)


def blocked_encoding(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    """A blocked encoding."""
    return _blocked(rng, lanes, warps, rank)


def _split(rng: random.Random, bits: int, rank: int) -> list[int]:
    """`bits` distributed over `rank` dimensions."""
    cuts = sorted(rng.randint(0, bits) for _ in range(rank - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, bits], strict=True)]


def _budget(element: str) -> int:
    """The maximum number of bits in a tensor's coordinates."""
    width = 8 if element.startswith("!tt.ptr") else max(1, int("".join(_digits(element))) // 8)
    return (MAX_TENSOR_BYTES // width).bit_length() - 1


def _digits(element: str) -> str:
    digits = element.lstrip("bif")
    return "8" if digits.startswith("8E") else digits


def linear_pair(rng: random.Random, lanes: int, warps: int, element: str, ctas: int = 1) -> Pair:
    """A pair of `#ttg.linear` encodings."""
    general = rng.random() < 0.5 and installed_release() in SUMS_OF_BITS
    lane_bits, warp_bits, block_bits = (count.bit_length() - 1 for count in (lanes, warps, ctas))
    threads = lane_bits + warp_bits + block_bits
    bits = min(max(1, threads + rng.choice((-4, -2, -1, 0, 1, 2, 2, 3, 3, 4, 4, 5, 6))), _budget(element))
    dims = _split(rng, bits, rng.choice((1, 1, 2, 2, 3)))

    def registers() -> int:
        return min(max(0, bits - threads) + rng.choice((0, 0, 1, 1, 2)), 6)

    source = _columns(rng, dims, (registers(), lane_bits, warp_bits, block_bits), general)
    # What crosses CTAs is Triton's.
    scopes = ("fresh", "registers", "warp", "warp", "cta") if ctas == 1 else ("warp", "cta")
    scope = rng.choice(scopes)
    if scope == "fresh":
        destination = _columns(rng, dims, (registers(), lane_bits, warp_bits, 0), general)
    else:
        destination = _moved(rng, source, scope, general)
    family = f"{'general' if general else 'permutation'} {scope}"
    shape = tuple(1 << d for d in dims)
    return Pair(shape, element, source.text(len(dims)), destination.text(len(dims)), family)


def _factors(rng: random.Random, total: int, rank: int) -> list[int]:
    return [1 << bits for bits in _split(rng, total.bit_length() - 1, rank)]


def _blocked(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    order = list(range(rank))
    rng.shuffle(order)
    return (
        f"#ttg.blocked<{{sizePerThread = {_factors(rng, rng.choice((1, 2, 4, 8)), rank)}, "
        f"threadsPerWarp = {_factors(rng, lanes, rank)}, warpsPerCTA = {_factors(rng, warps, rank)}, "
        f"order = {order}}}>"
    )


def _slice(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    return f"#ttg.slice<{{dim = {rng.randint(0, rank)}, parent = {_blocked(rng, lanes, warps, rank + 1)}}}>"


def _mma_v2(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    tile = [1] * (rank - 2) + [16, 8]
    return (
        f"#ttg.nvidia_mma<{{versionMajor = 2, versionMinor = 0, warpsPerCTA = {_factors(rng, warps, rank)}, "
        f"instrShape = {tile}}}>"
    )


def _mma_v3(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    if warps % 4:
        return _mma_v2(rng, lanes, warps, rank)
    columns = rng.choice((8, 16, 32, 64))
    return (
        f"#ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [{warps}, 1], "
        f"instrShape = [16, {columns}, 16]}}>"
    )


def _mma_operand(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    parent = _mma_v2(rng, lanes, warps, rank)
    return f"#ttg.dot_op<{{opIdx = {rng.randint(0, 1)}, parent = {parent}, kWidth = {rng.choice((1, 2, 4))}}}>"


def _mfma(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    shape = rng.choice(("[32, 32, 8]", "[16, 16, 16]"))
    return (
        f"#ttg.amd_mfma<{{version = 3, warpsPerCTA = {_factors(rng, warps, rank)}, instrShape = {shape}, "
        f"isTransposed = {rng.choice(('true', 'false'))}}}>"
    )


def _mfma_operand(rng: random.Random, lanes: int, warps: int, rank: int) -> str:
    parent = _mfma(rng, lanes, warps, rank)
    return f"#ttg.dot_op<{{opIdx = {rng.randint(0, 1)}, parent = {parent}, kWidth = {rng.choice((4, 8))}}}>"


_ANY_RANK: tuple[Maker, ...] = (_blocked, _blocked, _slice)
_MATRIX: dict[int, tuple[Maker, ...]] = {32: (_mma_v2, _mma_v3, _mma_operand), 64: (_mfma, _mfma_operand)}


def encoding_pair(rng: random.Random, lanes: int, warps: int, element: str) -> Pair:
    """A pair of encodings as in real kernels."""
    rank = rng.choice((1, 2, 2, 2, 3))
    bits = min(rng.randint(6, 12), _budget(element))
    shape = tuple(1 << b for b in _split(rng, bits, rank))
    if rank == 2 and rng.random() < 0.7:
        shape = (1 << (bits // 2), 1 << (bits - bits // 2))
    source, destination = (kernel_encoding(rng, lanes, warps, shape) for _ in range(2))
    return Pair(shape, element, source, destination, "encodings")


def random_pair(rng: random.Random, lanes: int, warps: int, ctas: int = 1) -> Pair:
    """A conversion of any family and element type, in clusters of `ctas` CTAs."""
    element = rng.choice((*ELEMENTS, "f32", "i32"))
    if rng.random() < 0.25:
        if ctas > 1:
            return cluster_pair(rng, lanes, warps, element, ctas)
        return encoding_pair(rng, lanes, warps, element)
    return linear_pair(rng, lanes, warps, element, ctas)


def cluster_pair(rng: random.Random, lanes: int, warps: int, element: str, ctas: int) -> Pair:
    """A pair of blocked encodings with the same CTAs along random dimensions, or with copies."""
    bits = min(rng.randint(6, 12), _budget(element))
    shape = (1 << (bits // 2), 1 << (bits - bits // 2))

    sizes, bases = [0, 0], []
    for _ in range(ctas.bit_length() - 1):
        dimension = rng.randrange(2)
        copies = 2 << sizes[dimension] > shape[dimension] or rng.random() < _COPIES
        bases.append([0 if copies or d != dimension else 1 << sizes[d] for d in range(2)])
        sizes[dimension] += not copies

    def encoding() -> str:
        return f"{_blocked(rng, lanes, warps, 2).removesuffix('}>')}, CGALayout = {bases}}}>"

    return Pair(shape, element, encoding(), encoding(), "clusters")


def module_text(
    pairs: Sequence[Pair], warps: int, lanes: int, target: str, assembled: bool = False, ctas: int = 1
) -> str:
    """A TTGIR module with one kernel that converts every pair, one conversion per line.

    The tensors are arguments, and the results are passed to an opaque function. With `assembled`, inline
    assembly produces and takes them, a line for each register, because LLVM takes long for hundreds of
    arguments, and fails for as many stores in separate blocks.
    """
    register = "r" if target.startswith("cuda") else "v"
    arguments = ["%narrow: i32", "%wide: i64"] if assembled else []
    body: list[str] = []
    sinks: list[str] = []
    for index, pair in enumerate(pairs):
        source, destination = pair.type(pair.source), pair.type(pair.destination)
        value = f"%y{index}"
        if assembled:
            body += _from_assembly(f"%x{index}", pair, register)
        else:
            arguments.append(f"%x{index}: {source}")
        body.append(f'{value} = ttg.convert_layout %x{index} : {source} -> {destination} loc("pair {index}")')
        if assembled:
            body += _into_assembly(value, pair, register)
            continue
        body.append(f"tt.call @use{index}({value}) : ({destination}) -> ()")
        sinks.append(f"  tt.func private @use{index}(%x: {destination}) attributes {{noinline = true}} {{")
        sinks.append("    tt.return\n  }")
    lines = "\n    ".join(body)
    return (
        f'module attributes {{"ttg.num-ctas" = {ctas} : i32, "ttg.num-warps" = {warps} : i32, '
        f'ttg.target = "{target}", "ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"  tt.func public @conversions({', '.join(arguments)}) {{\n    {lines}\n    tt.return\n  }}\n"
        + "".join(f"{sink}\n" for sink in sinks)
        + "}\n"
    )


def _integer(element: str) -> tuple[str, str]:
    """The integer type of an element's size, and the one of its registers: 32 or 64 bits."""
    if element.startswith("!tt.ptr"):
        return "i64", "i64"
    integer = element if element.startswith("i") else f"i{_digits(element)}"
    return integer, "i64" if integer == "i64" else "i32"


def _assembly(name: str, text: str, value: str, element: str, type_: str, register: str) -> str:
    """A line of inline assembly with side effects, for each register of `value`. register: constraint for 32
    bits.
    """
    constraint = "l" if (register, element) == ("r", "i64") else register
    return (
        f'{name} = tt.elementwise_inline_asm "// {text}" '
        f'{{constraints = "={constraint},{constraint}", packed_element = 1 : i32, pure = false}} '
        f"{value} : {type_} -> {type_}"
    )


def _from_assembly(name: str, pair: Pair, register: str) -> Iterator[str]:
    """Lines that define a tensor in the source layout with contents that LLVM cannot know."""

    def typed(element: str) -> str:
        return replace(pair, element=element).type(pair.source)

    integer, whole = _integer(pair.element)
    given = "wide" if whole == "i64" else "narrow"
    yield f"{name}_s = tt.splat %{given} : {whole} -> {typed(whole)}"
    result = name if pair.element == whole else f"{name}_a"
    yield _assembly(result, "source", f"{name}_s", whole, typed(whole), register)
    if integer != whole:
        value, result = result, name if pair.element == integer else f"{name}_n"
        yield f"{result} = arith.trunci {value} : {typed(whole)} to {typed(integer)}"
    if pair.element != integer:
        operation = "tt.int_to_ptr" if pair.element.startswith("!tt.ptr") else "tt.bitcast"
        yield f"{name} = {operation} {result} : {typed(integer)} -> {pair.type(pair.source)}"


def _into_assembly(value: str, pair: Pair, register: str) -> Iterator[str]:
    """Lines that pass all registers of a tensor in the destination layout to inline assembly."""

    def typed(element: str) -> str:
        return replace(pair, element=element).type(pair.destination)

    name, (integer, whole) = value, _integer(pair.element)
    if pair.element != integer:
        operation = "tt.ptr_to_int" if pair.element.startswith("!tt.ptr") else "tt.bitcast"
        yield f"{name}_n = {operation} {value} : {typed(pair.element)} -> {typed(integer)}"
        value = f"{name}_n"
    if integer != whole:
        yield f"{name}_a = arith.extui {value} : {typed(integer)} to {typed(whole)}"
        value = f"{name}_a"
    yield _assembly(f"{name}_s", "result", value, whole, typed(whole), register)
