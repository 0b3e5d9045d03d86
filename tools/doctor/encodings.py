"""Compare this package's layouts of random encodings with those of Triton's bindings."""

from __future__ import annotations

from triton_linear.dialect import encodings
from triton_linear.tools.doctor.encoding_cases import Case, Cases
from triton_linear.tools.doctor.oracle import Oracle
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
