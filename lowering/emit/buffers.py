"""Buffers of scratch as Triton sees them: their types, and the encodings that these name."""

from __future__ import annotations

from triton_linear.dialect.records import dataclass

_WORD_BYTES = 8
ALIGNED_BYTES = 16
"""Triton's allocation aligns every buffer to this or a multiple of it."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of scratch: `rows` rows of `words` elements; a mark is stored to one row.

    Triton's barrier analysis visits each row that an index may name, twice for a kernel: with 4096 rows of one
    word that took a tenth of a second. So rows are long, but a row has at most one element for each thread,
    which keeps a mark a single store.

    warps: the warps that store a mark. bits: of an element. step: bytes from one element to the next. Elements
    are usually words without gaps. Triton 3.9 collects the addresses of all bytes of elements; the elements of
    a `sparse` buffer are therefore every 16th byte. It requires a module that accesses no view in between
    (`NumberedModule.has_no_view_between`).
    """

    rows: int
    words: int
    warps: int
    bits: int = 8 * _WORD_BYTES
    step: int = _WORD_BYTES

    @classmethod
    def of(cls, size: int, lanes: int, warps: int, *, sparse: bool = False) -> Buffer:
        """A buffer of `size` bytes, or up to 7 more; no row has more elements than there are threads.

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
        """The MLIR type of an element."""
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
        """The type of the tensor that a mark stores."""
        return f"tensor<{self.words}x{self.element}, {thread_encoding(self.warps)}>"

    def defined(self, order: str) -> str:
        """The text of its encoding. `order`: the text of the order of dimensions, and of the CTAs of a
        cluster."""
        if self.step == _WORD_BYTES:
            return f"#ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, {order}}}>"
        gaps = ["[0]"] * (self.step.bit_length() - 1)
        bases = ", ".join([*gaps, *(f"[{1 << bit}]" for bit in range(self.words.bit_length() - 1))])
        return f"#ttg.shared_linear<{{offset = [{bases}]}}, alignment = {ALIGNED_BYTES}>"


def thread_encoding(warps: int) -> str:
    """The name of the encoding that gives each thread of `warps` warps one element, in order."""
    return f"#__ll_blocked{warps}"


class Buffers:
    """The buffers of a kernel, and the encodings that they name.

    lanes: of a warp. num_ctas: of a cluster; each CTA has the whole of a buffer. sparse: buffers are sparse if
    their size allows it.
    """

    def __init__(self, lanes: int, num_ctas: int, *, sparse: bool) -> None:
        self._lanes = lanes
        self._num_ctas = num_ctas
        self._sparse = sparse and num_ctas == 1
        self._named: dict[str, Buffer] = {}
        self._warps: set[int] = set()

    def of(self, size: int, warps: int) -> Buffer:
        """A buffer of `size` bytes to which `warps` warps store marks."""
        found = Buffer.of(size, self._lanes, warps, sparse=self._sparse)
        self._named[found.encoding] = found
        self._warps.add(warps)
        return found

    def threads(self, warps: int) -> str:
        """`thread_encoding`, which `definitions` then defines."""
        self._warps.add(warps)
        return thread_encoding(warps)

    def definitions(self) -> list[str]:
        """The lines that define the named encodings."""
        ctas = ", ".join(["[0]"] * (self._num_ctas.bit_length() - 1))
        order = f"order = [0], CGALayout = [{ctas}]" if ctas else "order = [0]"
        lines = [
            f"{thread_encoding(count)} = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [{self._lanes}], "
            f"warpsPerCTA = [{count}], {order}}}>\n"
            for count in sorted(self._warps)
        ]
        return [*lines, *(f"{name} = {found.defined(order)}\n" for name, found in sorted(self._named.items()))]
