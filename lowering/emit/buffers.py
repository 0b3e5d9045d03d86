"""Buffers of scratch as Triton sees them: their types, and the encodings that these name."""

from __future__ import annotations

from triton_linear.dialect.records import dataclass

SHARED_ENCODING = "#__ll_shared"
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of scratch: rows of words of 8 bytes, one of which a mark is stored to.

    Triton's barrier analysis looks at each row that an index may name, twice a kernel: with 4096 rows of a word
    each that took a tenth of a second. A row has a word for each thread, so a mark stays one store. `warps`:
    those that store it.
    """

    rows: int
    words: int
    warps: int

    @classmethod
    def of(cls, size: int, lanes: int, warps: int) -> Buffer:
        """`size` bytes, or up to 7 more; no row has more words than there are threads.

        >>> Buffer.of(4096, 32, 4), Buffer.of(48, 32, 4)
        (Buffer(rows=4, words=128, warps=4), Buffer(rows=3, words=2, warps=4))
        """
        words = max(1, -(-size // _WORD_BYTES))
        row = min(words & -words, lanes * warps)
        return cls(words // row, row, warps)

    @property
    def whole(self) -> str:
        """The buffer's type."""
        return f"!ttg.memdesc<{self.rows}x{self.words}xi64, {SHARED_ENCODING}, #ttg.shared_memory, mutable>"

    @property
    def row(self) -> str:
        """The type of one of its rows."""
        return f"!ttg.memdesc<{self.words}xi64, {SHARED_ENCODING}, #ttg.shared_memory, mutable>"

    @property
    def mark(self) -> str:
        """The type of what is stored as a mark."""
        return f"tensor<{self.words}xi64, {thread_encoding(self.warps)}>"


def thread_encoding(warps: int) -> str:
    """The name of the encoding that gives each thread of so many warps one element, in their order."""
    return f"#__ll_blocked{warps}"


def encodings(lanes: int, warps: set[int], num_ctas: int) -> list[str]:
    """The lines that define what those names stand for; of a cluster, each CTA has the whole for itself."""
    ctas = ", ".join(["[0]"] * (num_ctas.bit_length() - 1))
    rest = f"order = [0], CGALayout = [{ctas}]" if ctas else "order = [0]"
    lines = [
        f"{thread_encoding(count)} = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [{lanes}], "
        f"warpsPerCTA = [{count}], {rest}}}>\n"
        for count in sorted(warps)
    ]
    swizzle = "vec = 1, perPhase = 1, maxPhase = 1"
    return [*lines, f"{SHARED_ENCODING} = #ttg.swizzled_shared<{{{swizzle}, {rest}}}>\n"]
