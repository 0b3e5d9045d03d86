"""Compare this package's layouts of random encodings with those of Triton's bindings."""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import gluon_ir, ir

from triton_linear.dialect import encodings
from triton_linear.dialect.encodings import installed_release
from triton_linear.dialect.linear_layout import LinearLayout, dim_names
from triton_linear.tools.doctor.probe import Difference, Findings, note_case

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
        note_case(f"{family}: drawing number {number}")
        case = cases.families[family]()
        text = case.attribute if isinstance(case.attribute, str) else oracle.text(case.attribute, case.shape)

        def difference(case: Case = case, text: str = text) -> str | None:
            return layout_difference(oracle, case, text)

        findings.compare(family, f"{text} of {'x'.join(map(str, case.shape))}", difference)
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
    """A context with a builder: `builder` makes attributes, `text` prints them, the other methods give
    layouts.
    """

    def __init__(self) -> None:
        self.context = ir.context()
        ir.load_dialects(self.context)
        self.builder = gluon_ir.GluonOpBuilder(self.context)
        self._modules: list[Any] = []
        # Since Triton 3.7 the tiles of a wmma are given by bases.
        self.wmma_has_bases = installed_release() >= (3, 7)

    def text(self, attribute: Any, shape: Sequence[int]) -> str:
        """The text of an attribute as Triton prints it, with aliases expanded."""
        tensor = str(self.builder.get_distributed_ty(self.builder.get_half_ty(), list(shape), attribute))
        match = re.fullmatch(r"tensor<(?:\d+x)+f16, (#.*)>", tensor)
        assert match is not None, tensor
        return match[1]

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


class Cases:
    """Draws cases from one seed."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self.oracle = oracle
        self.builder = oracle.builder
        self.random = random.Random(seed)
        self.families: dict[str, Callable[[], Case]] = {
            "blocked": self.blocked_case,
            "slice": self.slice_case,
            "linear": self.linear_case,
            "mma v2": lambda: self.distributed("mma v2", rank := self.matrix_rank(), self.mma_v2(rank)),
            "mma v3": lambda: self.distributed("mma v3", 2, self.mma_v3()),
            "mfma": lambda: self.distributed("mfma", rank := self.matrix_rank(), self.mfma(rank)),
            "wmma": self.wmma_case,
            "dot of blocked": self.dot_of_blocked,
            "dot of mma v2": self.dot_of_mma_v2,
            "dot of mma v3": self.dot_of_mma_v3,
            "dot of mfma": self.dot_of_mfma,
            "dot of wmma": self.dot_of_wmma,
            "slice of dot": self.slice_of_dot,
            "swizzled": self.swizzled_case,
            "rotating": self.rotating_case,
            "nvmma": self.nvmma_case,
            "shared linear": self.shared_linear_case,
        }

    def each(self, count: int) -> Iterator[Case]:
        """`count` cases of every family."""
        for make in self.families.values():
            for _ in range(count):
                yield make()

    # Parts of encodings

    def matrix_rank(self) -> int:
        return self.random.choice([2, 2, 3])

    def factors(self, bits: int, rank: int) -> list[int]:
        """Powers of two whose product is 2^bits."""
        sizes = [1] * rank
        for _ in range(bits):
            sizes[self.random.randrange(rank)] *= 2
        return sizes

    def order(self, rank: int) -> list[int]:
        return self.random.sample(range(rank), rank)

    def cga(self, rank: int) -> list[list[int]]:
        """Mostly one CTA; else up to eight, some of them with copies."""
        bases: list[list[int]] = []
        extent = [1] * rank
        for _ in range(self.random.choice([0, 0, 0, 0, 1, 2, 3])):
            basis = [0] * rank
            if self.random.random() < 0.7:
                axis = self.random.randrange(rank)
                basis[axis] = extent[axis]
                extent[axis] *= 2
            bases.append(basis)
        return bases

    def shape(self, rank: int, low: int = 0, high: int = 8, limit: int = 15) -> Shape:
        """Powers of two from 2^low to 2^high, 2^limit elements at most."""
        while True:
            bits = [self.random.randint(low, high) for _ in range(rank)]
            if sum(bits) <= limit:
                return tuple(1 << b for b in bits)

    def tiles(self, rank: int) -> list[int]:
        sizes = [1] * rank
        if self.random.random() < 0.5:
            sizes[-2:] = self.random.choice([1, 2]), self.random.choice([1, 2])
        return sizes

    # Encodings

    def blocked(self, rank: int) -> Any:
        return self.builder.get_blocked_layout(
            self.factors(self.random.randint(0, 4), rank),
            self.factors(self.random.choice([5, 6]), rank),
            self.factors(self.random.randint(0, 5), rank),
            self.order(rank),
            self.cga(rank),
        )

    def mma_v2(self, rank: int) -> Any:
        warps = self.factors(self.random.randint(0, 5), rank)
        return self.builder.get_mma_layout([2, 0], warps, self.cga(rank), [1] * (rank - 2) + [16, 8])

    def mma_v3(self) -> Any:
        warps = [4 * self.random.choice([1, 2]), self.random.choice([1, 2])]
        n = self.random.choice([8, 16, 32, 64, 128, 256])
        return self.builder.get_mma_layout([3, 0], warps, self.cga(2), [16, n, 16])

    def mfma(self, rank: int) -> Any:
        shape = self.random.choice(
            [[32, 32, 8], [16, 16, 16], [64, 4, 4], [4, 64, 4], [32, 32, 16], [16, 16, 4]]
        )
        transposed = shape[:2] == [64, 4] or self.random.random() < 0.5
        bits = self.random.choice([32, 64]) if shape[:2] == [16, 16] else 32
        warps = self.factors(self.random.randint(0, 5), rank)
        version = self.random.randint(1, 4)
        return self.builder.get_amd_mfma_layout(
            version, warps, shape, transposed, self.cga(rank), self.tiles(rank), bits
        )

    def wmma(self, rank: int, version: int, shape: list[int]) -> Any:
        transposed = self.random.random() < 0.5
        if not self.oracle.wmma_has_bases:
            warps = self.factors(self.random.randint(0, 5), rank)
            return self.builder.get_amd_wmma_layout(
                version, transposed, warps, self.tiles(rank), self.cga(rank), shape
            )
        warp_bases: list[list[int]] = []
        register_bases: list[list[int]] = []
        extent = [1] * rank
        for _ in range(self.random.randint(0, 6)):
            basis = [0] * rank
            axis = self.random.randrange(rank)
            basis[axis] = extent[axis]
            extent[axis] *= 2
            self.random.choice([warp_bases, warp_bases, register_bases]).append(basis)
        return self.builder.get_amd_wmma_layout(
            version, transposed, warp_bases, register_bases, self.cga(rank), shape, rank
        )

    def wmma_instruction(self) -> tuple[int, list[int]]:
        version = self.random.randint(1, 3)
        return version, [16, 16, 16 if version < 3 else self.random.choice([4, 32, 64, 128])]

    # Cases

    def distributed(self, family: str, rank: int, attribute: Any) -> Case:
        return Case(family, attribute, self.shape(rank))

    def blocked_case(self) -> Case:
        rank = self.random.randint(1, 5)
        return self.distributed("blocked", rank, self.blocked(rank))

    def slice_case(self) -> Case:
        """Slices of blocked, mma and mfma, one to three deep."""
        rank = self.random.randint(2, 5)
        parents = [self.blocked(rank)]
        if rank == 2:
            parents += [self.mma_v2(2), self.mma_v3(), self.mfma(2)]
        attribute = self.random.choice(parents)
        for _ in range(self.random.randint(1, rank - 1)):
            attribute = self.builder.get_slice_layout(self.random.randrange(rank), attribute)
            rank -= 1
        return self.distributed("slice", rank, attribute)

    def linear_case(self) -> Case:
        """Bases distributed to the in-dims; half of the shapes differ from the one that the bases span."""
        rank = self.random.randint(1, 4)
        extent = [1] * rank
        vectors: list[list[int]] = []
        for _ in range(self.random.randint(0, 10)):
            axis = self.random.randrange(rank)
            vectors.append([extent[axis] if a == axis else 0 for a in range(rank)])
            extent[axis] *= 2
        vectors += [[0] * rank for _ in range(self.random.randint(0, 2))]
        self.random.shuffle(vectors)
        bases: list[list[list[int]]] = [[], [], [], []]
        for vector in vectors:
            self.random.choice([*bases[:1] * 3, *bases[1:2] * 4, *bases[2:3] * 2, bases[3]]).append(vector)
        attribute = self.builder.get_distributed_linear_layout(*bases, extent)
        shape = tuple(extent) if self.random.random() < 0.5 else self.shape(rank)
        return Case("linear", attribute, shape)

    def wmma_shape(self, rank: int, least: int) -> Shape:
        """A wmma needs whole instructions along M and N, or a single row or column."""
        shape = list(self.shape(rank, limit=14))
        for axis in (rank - 2, rank - 1):
            shape[axis] = 1 if self.random.random() < 0.1 else max(shape[axis], least)
        return tuple(shape)

    def wmma_case(self) -> Case:
        rank = self.matrix_rank()
        return Case("wmma", self.wmma(rank, *self.wmma_instruction()), self.wmma_shape(rank, 16))

    def operand(self, parent: Any, k_widths: list[int], index: int | None = None) -> Any:
        index = self.random.randint(0, 1) if index is None else index
        return self.builder.get_dot_operand_layout(index, parent, self.random.choice(k_widths))

    def dot_of_blocked(self) -> Case:
        rank = self.matrix_rank()
        return self.distributed("dot of blocked", rank, self.operand(self.blocked(rank), [0]))

    def dot_of_mma_v2(self) -> Case:
        rank = self.matrix_rank()
        return self.distributed("dot of mma v2", rank, self.operand(self.mma_v2(rank), [1, 2, 4, 8]))

    def dot_of_mma_v3(self) -> Case:
        return self.distributed("dot of mma v3", 2, self.operand(self.mma_v3(), [1, 2, 4], index=0))

    def dot_of_mfma(self) -> Case:
        rank = self.matrix_rank()
        return self.distributed("dot of mfma", rank, self.operand(self.mfma(rank), [1, 2, 4, 8, 16]))

    def dot_of_wmma(self) -> Case:
        rank = self.matrix_rank()
        version, shape = self.wmma_instruction()
        widths = {1: [8, 16], 2: [4, 8, 16], 3: [2, 8, 16]}[version]
        attribute = self.operand(self.wmma(rank, version, shape), widths)
        return Case("dot of wmma", attribute, self.wmma_shape(rank, self.random.choice([16, 32, 64])))

    def slice_of_dot(self) -> Case:
        parent = self.random.choice([self.dot_of_blocked, self.dot_of_mma_v2, self.dot_of_mfma])()
        rank = len(parent.shape)
        attribute = self.builder.get_slice_layout(self.random.randrange(rank), parent.attribute)
        return self.distributed("slice of dot", rank - 1, attribute)

    def swizzle(self) -> tuple[int, int, int]:
        return 1 << self.random.randint(0, 4), 1 << self.random.randint(0, 3), 1 << self.random.randint(0, 4)

    def swizzled_case(self) -> Case:
        rank = self.random.randint(1, 4)
        attribute = self.builder.get_swizzled_shared_layout(*self.swizzle(), self.order(rank), self.cga(rank))
        return Case("swizzled", attribute, self.shape(rank, low=4, limit=18))

    def rotating_case(self) -> Case:
        rank = self.random.randint(2, 4)
        vec, per_phase, max_phase = self.swizzle()
        text = (
            f"#ttg.amd_rotating_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, "
            f"order = {self.order(rank)}}}>"
        )
        return Case("rotating", text, self.shape(rank, low=3))

    def nvmma_case(self) -> Case:
        """At least one swizzled row and eight rows, in a tensor of two elements or more."""
        rank = self.random.choice([2, 2, 3, 4])
        swizzle = self.random.choice([0, 32, 64, 128])
        bits = self.random.choice([8, 16, 32, 64])
        transposed = self.random.random() < 0.5
        fp4 = swizzle == 128 and bits == 8 and self.random.random() < 0.4
        shape = list(self.shape(rank, high=9, limit=16))
        if swizzle:
            row = swizzle * 8 // bits // (2 if fp4 else 1)
            contiguous, other = (0, rank - 1) if transposed else (rank - 1, 0)
            shape[contiguous] = max(shape[contiguous], row)
            shape[other] = max(shape[other], 8)
        shape[-1] = max(shape[-1], 2)
        attribute = self.builder.get_nvmma_shared_layout(swizzle, bits, transposed, fp4, [], rank)
        return Case("nvmma", attribute, tuple(shape), bits)

    def shared_linear_case(self) -> Case:
        """Bases with up to two coordinates; the blocks are the outermost."""
        rank = self.random.randint(1, 4)
        extent = [1] * rank
        offsets: list[list[int]] = []
        for _ in range(self.random.randint(3, 10)):
            axis = self.random.randrange(rank)
            offsets.append([extent[axis] if a == axis else 0 for a in range(rank)])
            extent[axis] *= 2
        blocks = [offsets.pop() for _ in range(self.random.choice([0, 0, 1, 2]))][::-1]
        for index in range(1, len(offsets)):
            if self.random.random() < 0.3:
                below = offsets[self.random.randrange(index)]
                offsets[index] = [a or b for a, b in zip(offsets[index], below, strict=True)]
        self.random.shuffle(offsets)
        attribute = self.builder.get_shared_linear_layout(offsets, blocks, 1 << self.random.randint(0, 10))
        return Case("shared linear", attribute, tuple(extent))
