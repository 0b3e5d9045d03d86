"""Buffers of scratch as Triton sees them: their types, and the encodings that these name."""

from __future__ import annotations

from triton_linear.dialect.records import dataclass

_WORD_BYTES = 8
ALIGNED_BYTES = 16
"""Where Triton's allocation lets a buffer begin: at multiples of this, or of more."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of scratch: rows of elements, one of which a mark is stored to.

    Triton's barrier analysis looks at each row that an index may name, twice a kernel: with 4096 rows of a word
    each that took a tenth of a second. A row has an element for each thread, so a mark stays one store.

    warps: those that store it. bits, step: an element has so many bits, the next is so many bytes behind it.
    Usually these are words without gaps. Triton 3.9 collects the addresses of all bytes of elements; where a
    buffer is `sparse`, an element is the first byte of 16. That is for modules in which nothing lies in between
    that is accessed (`NumberedModule.has_no_view_between`).
    """

    rows: int
    words: int
    warps: int
    bits: int = 8 * _WORD_BYTES
    step: int = _WORD_BYTES

    @classmethod
    def of(cls, size: int, lanes: int, warps: int, *, sparse: bool = False) -> Buffer:
        """`size` bytes, or up to 7 more; no row has more elements than there are threads.

        >>> Buffer.of(4096, 32, 4), Buffer.of(48, 32, 4).rows
        (Buffer(rows=4, words=128, warps=4, bits=64, step=8), 3)
        >>> Buffer.of(4096, 32, 4, sparse=True)
        Buffer(rows=2, words=128, warps=4, bits=8, step=16)
        """
        words = max(1, -(-size // _WORD_BYTES))
        bits, step = 8 * _WORD_BYTES, _WORD_BYTES
        if sparse and size and not size % ALIGNED_BYTES:
            words, bits, step = size // ALIGNED_BYTES, 8, ALIGNED_BYTES
        row = min(words & -words, lanes * warps)
        return cls(words // row, row, warps, bits, step)

    @property
    def element(self) -> str:
        """The type of an element."""
        return f"i{self.bits}"

    @property
    def encoding(self) -> str:
        """The name of the encoding of the buffer in memory."""
        return "#__ll_shared" if self.step == _WORD_BYTES else f"#__ll_sparse{self.words}"

    @property
    def whole(self) -> str:
        """The buffer's type."""
        return self._type(f"{self.rows}x{self.words}")

    @property
    def row(self) -> str:
        """The type of one of its rows."""
        return self._type(str(self.words))

    def _type(self, shape: str) -> str:
        return f"!ttg.memdesc<{shape}x{self.element}, {self.encoding}, #ttg.shared_memory, mutable>"

    @property
    def mark(self) -> str:
        """The type of what is stored as a mark."""
        return f"tensor<{self.words}x{self.element}, {thread_encoding(self.warps)}>"

    def defined(self, order: str) -> str:
        """What its encoding is; `order` has that of dimensions, and how a cluster has it."""
        if self.step == _WORD_BYTES:
            return f"#ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, {order}}}>"
        gaps = ["[0]"] * (self.step.bit_length() - 1)
        bases = ", ".join([*gaps, *(f"[{1 << bit}]" for bit in range(self.words.bit_length() - 1))])
        return f"#ttg.shared_linear<{{offset = [{bases}]}}, alignment = {ALIGNED_BYTES}>"


def thread_encoding(warps: int) -> str:
    """The name of the encoding that gives each thread of so many warps one element, in their order."""
    return f"#__ll_blocked{warps}"


class Buffers:
    """The buffers of a kernel, and the encodings that are named in it.

    lanes: of a warp. num_ctas: of a cluster, each of which has the whole of a buffer. sparse: whether buffers
    have gaps where they can.
    """

    def __init__(self, lanes: int, num_ctas: int, *, sparse: bool) -> None:
        self._lanes = lanes
        self._num_ctas = num_ctas
        self._sparse = sparse and num_ctas == 1
        self._named: dict[str, Buffer] = {}
        self._warps: set[int] = set()

    def of(self, size: int, warps: int) -> Buffer:
        """A buffer of `size` bytes that so many warps store marks to."""
        found = Buffer.of(size, self._lanes, warps, sparse=self._sparse)
        self._named[found.encoding] = found
        self._warps.add(warps)
        return found

    def threads(self, warps: int) -> str:
        """`thread_encoding`, which is defined then."""
        self._warps.add(warps)
        return thread_encoding(warps)

    def definitions(self) -> list[str]:
        """The lines that define what the names of encodings stand for."""
        ctas = ", ".join(["[0]"] * (self._num_ctas.bit_length() - 1))
        order = f"order = [0], CGALayout = [{ctas}]" if ctas else "order = [0]"
        lines = [
            f"{thread_encoding(count)} = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [{self._lanes}], "
            f"warpsPerCTA = [{count}], {order}}}>\n"
            for count in sorted(self._warps)
        ]
        return [*lines, *(f"{name} = {found.defined(order)}\n" for name, found in sorted(self._named.items()))]
