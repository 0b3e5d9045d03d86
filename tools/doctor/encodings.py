"""Compare this package's layouts of random encodings with those of Triton's bindings."""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton._C.libtriton import gluon_ir, ir

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout, dim_names
from triton_linear.tools.doctor.command import Difference, Findings
from triton_linear.tools.support.isolated import note

SHARED = ("swizzled", "rotating", "nvmma", "shared linear")
"""The families of encodings of shared memory."""


def compared(part: int, parts: int, count: int, seed: int) -> Findings:
    """Compare `count` encodings of each family; of the families, those with index `part` modulo `parts`."""
    findings = Findings()
    for family in list(Cases(Oracle(), seed).families)[part::parts]:
        try:
            findings.add(compared_family(family, count, seed))
        except Exception as error:
            findings.differences.append(Difference(family, "drawing it", f"{type(error).__name__}: {error}"))
    return findings


def compared_family(family: str, count: int, seed: int) -> Findings:
    """Compare `count` encodings of a family."""
    findings, oracle = Findings(), Oracle()
    cases = Cases(oracle, seed)
    for number in range(count):
        note(f"{family}: drawing number {number}")
        case = cases.families[family]()
        text = oracle.text_of(case)
        about = f"{text} of {'x'.join(map(str, case.shape))}"
        findings.compare(family, about, partial(layout_difference, oracle, case, text))
    return findings


def layout_difference(oracle: Oracle, case: Case, text: str) -> str | None:
    """How the two layouts of an encoding differ; None if they are equal."""
    theirs = (
        oracle.shared(text, case.shape, case.element_bits)
        if case.family in SHARED
        else oracle.distributed(case.attribute, case.shape)
    )
    ours = encodings.layout_of(text, case.shape, case.element_bits)
    if ours == theirs:
        return None
    return f"Triton says {dict(theirs.bases)}, this package {dict(ours.bases)}"


_MODULE = """module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func private @f(%arg0: {type})
}}
"""


class Oracle:
    """A context with a builder, which makes attributes. `text` prints them; the other methods give layouts."""

    def __init__(self) -> None:
        self.context = ir.context()
        ir.load_dialects(self.context)
        self.builder = gluon_ir.GluonOpBuilder(self.context)
        self._modules: list[Any] = []

    def text(self, attribute: Any, shape: Sequence[int]) -> str:
        """The text of an attribute as Triton prints it, with aliases expanded."""
        tensor = str(self.builder.get_distributed_ty(self.builder.get_half_ty(), list(shape), attribute))
        match = re.fullmatch(r"tensor<(?:\d+x)+f16, (#.*)>", tensor)
        assert match is not None, tensor
        return match[1]

    def text_of(self, case: Case) -> str:
        """The text of a case's encoding."""
        return case.attribute if isinstance(case.attribute, str) else self.text(case.attribute, case.shape)

    def distributed(self, attribute: Any, shape: Sequence[int]) -> LinearLayout:
        """The result of Triton's `toLinearLayout` for a distributed encoding."""
        answer = self.builder.to_linear_layout(attribute, list(shape))
        bases = {
            "register": answer.reg_bases,
            "lane": answer.lane_bases,
            "warp": answer.warp_bases,
            "block": answer.block_bases,
        }
        return _layout(bases, shape)

    def value(self, type_: str) -> Any:
        """A value of this type: the argument of a new function, into which the builder inserts from now on."""
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(_MODULE.format(type=type_))
            file.flush()
            module = ir.parse_mlir_module(file.name, self.context)
        self._modules.append(module)
        block = module.get_function("f").add_entry_block()
        self.builder.set_insertion_point_to_start(block)
        return block.arg(0)

    def shared(self, text: str, shape: Sequence[int], element_bits: int = 16) -> LinearLayout:
        """The result of Triton's `toLinearLayout` for a shared encoding, given as text.

        Triton 3.6 has no direct query, but reshaping a descriptor makes its layout explicit. An nvmma
        encoding remains an nvmma encoding under most reshapes, so it is reshaped to one dimension, in which
        the last dimension of the tensor is the fastest. If it remains one even then, its layout is the
        identity.
        """
        sizes = "x".join(map(str, shape))
        source = self.value(f"!ttg.memdesc<{sizes}xi{element_bits}, {text}, #ttg.shared_memory>")
        flat = text.startswith("#ttg.nvmma_shared")
        target = [math.prod(shape)] if flat else list(shape)
        reshaped = self.builder.create_memdesc_reshape(source, target)
        answer = self.builder.get_gluon_layout_from_memdesc(reshaped)
        if hasattr(answer, "swizzle_byte_width"):
            bases = {"offset": [[1 << bit] for bit in range(target[0].bit_length() - 1)], "block": []}
        else:
            bases = {"offset": answer.offset_bases, "block": answer.block_bases}
        if flat:
            bases = {name: [_coordinates(b[0], shape) for b in vectors] for name, vectors in bases.items()}
        return _layout(bases, shape)


def _coordinates(place: int, shape: Sequence[int]) -> list[int]:
    result = []
    for size in reversed(shape):
        result.append(place % size)
        place //= size
    return result[::-1]


def _layout(bases: Mapping[str, Sequence[Sequence[int]]], shape: Sequence[int]) -> LinearLayout:
    return LinearLayout(
        tuple((name, tuple(tuple(basis) for basis in vectors)) for name, vectors in bases.items()),
        tuple(zip(dim_names(len(shape)), shape, strict=True)),
    )


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One encoding with the shape of its tensor."""

    family: str
    attribute: Any
    shape: Shape
    element_bits: int = 16


K_WIDTHS = {"blocked": [0], "mma v2": [1, 2, 4, 8], "mma v3": [1, 2, 4], "mfma": [1, 2, 4, 8, 16]}
"""The parents of operands of dots, with the elements that a thread has in a row along K."""
MFMA = ([32, 32, 8], [16, 16, 16], [64, 4, 4], [4, 64, 4], [32, 32, 16], [16, 16, 4])


class Cases:
    """Draws cases from one seed."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self.oracle = oracle
        self.builder = oracle.builder
        self.random = random.Random(seed)
        self.families: dict[str, Callable[[], Case]] = {
            "blocked": lambda: self._distributed("blocked", self.random.randint(1, 5)),
            "slice": self._slice,
            "linear": self._linear,
            **{name: partial(self._matrix, name) for name in ("mma v2", "mma v3", "mfma")},
            **{f"dot of {name}": partial(self._dot, name) for name in K_WIDTHS},
            "slice of dot": self._slice_of_dot,
            "swizzled": self._swizzled,
            "rotating": self._rotating,
            "nvmma": self._nvmma,
            "shared linear": self._shared_linear,
        }

    def each(self, count: int) -> Iterator[Case]:
        """`count` cases of every family."""
        for make in self.families.values():
            for _ in range(count):
                yield make()

    # Parts of encodings

    def _factors(self, bits: int, rank: int) -> list[int]:
        """Powers of two whose product is 2^bits."""
        sizes = [1] * rank
        for _ in range(bits):
            sizes[self.random.randrange(rank)] *= 2
        return sizes

    def _bases(self, count: int, extent: list[int], zeros: float = 0.0) -> list[list[int]]:
        """The next bases of a tensor, each along one dimension, beyond `extent`, which grows; some are zero."""
        bases = []
        for _ in range(count):
            basis = [0] * len(extent)
            if self.random.random() >= zeros:
                axis = self.random.randrange(len(extent))
                basis[axis] = extent[axis]
                extent[axis] *= 2
            bases.append(basis)
        return bases

    def _order(self, rank: int) -> list[int]:
        return self.random.sample(range(rank), rank)

    def _cga(self, rank: int) -> list[list[int]]:
        """Mostly one CTA; else up to eight, some of them with copies."""
        return self._bases(self.random.choice([0, 0, 0, 0, 1, 2, 3]), [1] * rank, zeros=0.3)

    def _shape(self, rank: int, low: int = 0, high: int = 8, limit: int = 15) -> Shape:
        """Powers of two from 2^low to 2^high, 2^limit elements at most."""
        while True:
            bits = [self.random.randint(low, high) for _ in range(rank)]
            if sum(bits) <= limit:
                return tuple(1 << b for b in bits)

    def _tiles(self, rank: int) -> list[int]:
        sizes = [1] * rank
        if self.random.random() < 0.5:
            sizes[-2:] = self.random.choice([1, 2]), self.random.choice([1, 2])
        return sizes

    def _rank(self, name: str) -> int:
        """A rank that matrices of this kind may have."""
        return 2 if name == "mma v3" else self.random.choice([2, 2, 3])

    # Encodings

    def _encoding(self, name: str, rank: int) -> Any:
        """A parent of other encodings."""
        draw, builder = self.random, self.builder
        if name == "blocked":
            return builder.get_blocked_layout(
                self._factors(draw.randint(0, 4), rank),
                self._factors(draw.choice([5, 6]), rank),
                self._factors(draw.randint(0, 5), rank),
                self._order(rank),
                self._cga(rank),
            )
        if name == "mma v3":
            warps = [4 * draw.choice([1, 2]), draw.choice([1, 2])]
            n = draw.choice([8, 16, 32, 64, 128, 256])
            return builder.get_mma_layout([3, 0], warps, self._cga(2), [16, n, 16])
        warps = self._factors(draw.randint(0, 5), rank)
        if name == "mma v2":
            return builder.get_mma_layout([2, 0], warps, self._cga(rank), [1] * (rank - 2) + [16, 8])
        shape = draw.choice(MFMA)
        transposed = shape[:2] == [64, 4] or draw.random() < 0.5
        bits = draw.choice([32, 64]) if shape[:2] == [16, 16] else 32
        version = draw.randint(1, 4)
        tiles = self._tiles(rank)
        return builder.get_amd_mfma_layout(version, warps, shape, transposed, self._cga(rank), tiles, bits)

    # Cases

    def _distributed(self, name: str, rank: int) -> Case:
        return Case(name, self._encoding(name, rank), self._shape(rank))

    def _matrix(self, name: str) -> Case:
        return self._distributed(name, self._rank(name))

    def _slice(self) -> Case:
        """Slices of blocked, mma and mfma, one to three deep."""
        rank = self.random.randint(2, 5)
        parents = ["blocked", "mma v2", "mma v3", "mfma"] if rank == 2 else ["blocked"]
        attribute = self._encoding(self.random.choice(parents), rank)
        for _ in range(self.random.randint(1, rank - 1)):
            attribute = self.builder.get_slice_layout(self.random.randrange(rank), attribute)
            rank -= 1
        return Case("slice", attribute, self._shape(rank))

    def _linear(self) -> Case:
        """Bases distributed to the in-dims; half of the shapes differ from the one that the bases span."""
        rank = self.random.randint(1, 4)
        extent = [1] * rank
        vectors = self._bases(self.random.randint(0, 10), extent)
        vectors += [[0] * rank for _ in range(self.random.randint(0, 2))]
        self.random.shuffle(vectors)
        bases: list[list[list[int]]] = [[], [], [], []]
        for vector in vectors:
            self.random.choice([*bases[:1] * 3, *bases[1:2] * 4, *bases[2:3] * 2, bases[3]]).append(vector)
        attribute = self.builder.get_distributed_linear_layout(*bases, extent)
        return Case("linear", attribute, tuple(extent) if self.random.random() < 0.5 else self._shape(rank))

    def _dot(self, name: str) -> Case:
        rank = self._rank(name)
        parent = self._encoding(name, rank)
        # Of a dot by mma v3, only the first operand may be in registers.
        index = 0 if name == "mma v3" else self.random.randint(0, 1)
        attribute = self.builder.get_dot_operand_layout(index, parent, self.random.choice(K_WIDTHS[name]))
        return Case(f"dot of {name}", attribute, self._shape(rank))

    def _slice_of_dot(self) -> Case:
        parent = self._dot(self.random.choice(["blocked", "mma v2", "mfma"]))
        rank = len(parent.shape)
        attribute = self.builder.get_slice_layout(self.random.randrange(rank), parent.attribute)
        return Case("slice of dot", attribute, self._shape(rank - 1))

    def _swizzle(self) -> tuple[int, int, int]:
        return 1 << self.random.randint(0, 4), 1 << self.random.randint(0, 3), 1 << self.random.randint(0, 4)

    def _swizzled(self) -> Case:
        rank = self.random.randint(1, 4)
        swizzle, order = self._swizzle(), self._order(rank)
        attribute = self.builder.get_swizzled_shared_layout(*swizzle, order, self._cga(rank))
        return Case("swizzled", attribute, self._shape(rank, low=4, limit=18))

    def _rotating(self) -> Case:
        rank = self.random.randint(2, 4)
        vec, per_phase, max_phase = self._swizzle()
        text = (
            f"#ttg.amd_rotating_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, "
            f"order = {self._order(rank)}}}>"
        )
        return Case("rotating", text, self._shape(rank, low=3))

    def _nvmma(self) -> Case:
        """At least one swizzled row and eight rows, in a tensor of two elements or more."""
        rank = self.random.choice([2, 2, 3, 4])
        swizzle = self.random.choice([0, 32, 64, 128])
        bits = self.random.choice([8, 16, 32, 64])
        transposed = self.random.random() < 0.5
        fp4 = swizzle == 128 and bits == 8 and self.random.random() < 0.4
        shape = list(self._shape(rank, high=9, limit=16))
        if swizzle:
            row = swizzle * 8 // bits // (2 if fp4 else 1)
            contiguous, other = (0, rank - 1) if transposed else (rank - 1, 0)
            shape[contiguous] = max(shape[contiguous], row)
            shape[other] = max(shape[other], 8)
        shape[-1] = max(shape[-1], 2)
        attribute = self.builder.get_nvmma_shared_layout(swizzle, bits, transposed, fp4, [], rank)
        return Case("nvmma", attribute, tuple(shape), bits)

    def _shared_linear(self) -> Case:
        """Bases with up to two coordinates; the blocks are the outermost."""
        extent = [1] * self.random.randint(1, 4)
        offsets = self._bases(self.random.randint(3, 10), extent)
        blocks = [offsets.pop() for _ in range(self.random.choice([0, 0, 1, 2]))][::-1]
        for index in range(1, len(offsets)):
            if self.random.random() < 0.3:
                below = offsets[self.random.randrange(index)]
                offsets[index] = [a or b for a, b in zip(offsets[index], below, strict=True)]
        self.random.shuffle(offsets)
        attribute = self.builder.get_shared_linear_layout(offsets, blocks, 1 << self.random.randint(0, 10))
        return Case("shared linear", attribute, tuple(extent))
