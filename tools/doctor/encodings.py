"""Drawn encodings: the layout that this package gives to each, beside that of Triton's own bindings."""

from __future__ import annotations

from triton_linear.dialect import encodings
from triton_linear.tools.doctor.encoding_cases import Case, Cases
from triton_linear.tools.doctor.oracle import Oracle
from triton_linear.tools.doctor.probe import Difference, Found, at

SHARED = ("swizzled", "rotating", "nvmma", "shared linear")
"""The families of encodings of shared memory."""


def compared(part: int, parts: int, count: int, seed: int) -> Found:
    """So many encodings of every so-manyth family."""
    found = Found()
    for family in list(Cases(Oracle(), seed).families)[part::parts]:
        try:
            found.add(compared_family(family, count, seed))
        except Exception as error:
            found.differences.append(Difference(family, "drawing it", f"{type(error).__name__}: {error}"))
    return found


def compared_family(family: str, count: int, seed: int) -> Found:
    """So many encodings of a family."""
    found, oracle = Found(), Oracle()
    cases = Cases(oracle, seed)
    for number in range(count):
        at(f"{family}: drawing number {number}")
        case = cases.families[family]()
        text = case.attribute if isinstance(case.attribute, str) else oracle.text(case.attribute, case.shape)

        def otherwise(case: Case = case, text: str = text) -> str | None:
            return different(oracle, case, text)

        found.compare(family, f"{text} of {'x'.join(map(str, case.shape))}", otherwise)
    return found


def different(oracle: Oracle, case: Case, text: str) -> str | None:
    """In what the layouts of an encoding differ, None if they do not."""
    theirs = (
        oracle.shared(text, case.shape, case.element_bits)
        if case.family in SHARED
        else oracle.distributed(case.attribute, case.shape)
    )
    ours = encodings.layout_of(text, case.shape, case.element_bits)
    if ours == theirs:
        return None
    return f"Triton says {dict(theirs.bases)}, this package {dict(ours.bases)}"
